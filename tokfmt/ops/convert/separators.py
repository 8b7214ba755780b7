"""Lay out the axis that a writer stores, and count what becomes of the separator of each sequence.

It is kept, replaced, added or dropped, or there is none. The datasets under the axis know which sequences have one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from tokfmt import model
from tokfmt.core.errors import ConversionError, OptionError
from tokfmt.core.format import Target
from tokfmt.core.reader import Separators, TokenReader, windows
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import counted, printable
from tokfmt.model.axis import Numbers
from tokfmt.model.batch import AFTER, LEAD, SEP, Counts, Flags, Kind
from tokfmt.model.bridge import ContentReader, dataset_of, from_reader, laid_reader
from tokfmt.model.separator import ToEos, led
from tokfmt.ops.source.stored import Separator, Source

Chosen = Callable[[int, int, Numbers], Flags]
"""Which of the sequences `first <= i < last` are written, given their numbers of tokens."""

_NAMED = 5  # sources that a message names
_AT_ONCE = 1 << 18
_KINDS: dict[Separators, Kind] = {Separators.TRAILING: "index", Separators.BEFORE: "before"}


def separator_to_write(sources: Sequence[Source], to_eos: ToEos) -> Separator:
    """Return the separator of a destination: the one that the user wants, or that on which all sources agree.

    Raises:
        ConversionError: The sources have different separators, and none was chosen.
    """
    known: dict[int, Source] = {}
    for source in sources:
        if source.separator.eos_id is not None:
            known.setdefault(source.separator.eos_id, source)
    if isinstance(to_eos, int):
        return Separator(to_eos, "--to-eos")
    if len(known) > 1 and to_eos != "none":
        found = [f"{eos_id} in {printable(source.paths[0].name)}" for eos_id, source in known.items()]
        listed = ", ".join(found[:_NAMED]) + (f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else "")
        raise ConversionError(f"the sources have different separators ({listed}). --to-eos ID replaces all by one")
    return next(iter(known.values()), sources[0]).separator if len(known) < 2 else Separator(None)


def as_stored(sources: Sequence[Source]) -> Literal["none"] | None:
    """Return what `--to-eos as-stored` means for some sources: the separator of all sequences, or none.

    Raises:
        OptionError: Only some of the sequences have a separator.
    """
    closed, lack = False, list[str]()
    for source in sources:
        reader, path = source.reader, printable(source.paths[0])
        if isinstance(reader, RecordReader):
            lack.append(f"the records of {path} have none")
            continue
        count, first = _lacking(reader)
        closed |= count < reader.info.sequences
        if count:
            lack.append(f"{counted(count, 'sequence')} of {path} has none (first: sequence {first:,})")
    if closed and lack:
        what = f"--to-eos as-stored: {lack[0]}, and others have one. tokfmt writes it beside all or none"
        raise OptionError(f"{what}. --to-eos ID writes it beside all", name="to_eos")
    return None if closed else "none"


def _lacking(reader: TokenReader) -> tuple[int, int]:
    """Return the number of sequences that had no separator, and the number of the first of them."""
    dataset = dataset_of(reader, drawn=True)
    if not dataset.gap.ids:
        return reader.info.sequences, 0
    tokens = None if dataset.spans.presumes else dataset.axis
    count, first = 0, -1
    for a, b in windows(0, reader.info.sequences, _AT_ONCE):
        lack = np.flatnonzero(dataset.spans.read(a, b, tokens)[2] & SEP == 0)
        first = first if count or not len(lack) else a + int(lack[0])
        count += len(lack)
    return count, first


def stored_axis(contents: TokenReader, target: Target) -> TokenReader:
    """Return the axis that a writer stores: contents with their separators, and the marks of both.

    Args:
        contents: The sequences to write, without separators.
        target: Where the separator is stored, and its ID.
    """
    eos_id = None if target.separators is Separators.NONE else target.eos_id
    if eos_id is None and target.bos_id is None:
        return contents
    kind: Kind = "index" if eos_id is None else _KINDS.get(target.separators, "after")
    return laid_reader(contents, model.Target(eos_id, kind, target.bos_id, target.bos_for))


def contents_of(stored: TokenReader, laid: model.Target, bare: int) -> TokenReader:
    """Return the contents of sequences that were laid out, and then shuffled or dealt to splits.

    Args:
        stored: The sequences. Without a lead, they end with the separator, or are empty.
        laid: What is beside their contents.
        bare: Number of the empty ones, at most.
    """
    if laid.lead is None:
        dataset = from_reader(stored, laid.id, where=Separators.TRAILING)
        return ContentReader(replace(dataset, gap=replace(dataset.gap, even=not bare)))
    dataset = from_reader(stored, laid.id, where=Separators.TRAILING, presumed=None)
    return ContentReader(led(dataset, laid.lead, each=True))


def count_beside(axis: TokenReader, chosen: Chosen, count: int, to: model.Target, bits: int = SEP) -> Counts:
    """Return what becomes of the separators or leads of the sequences that are written. The sum is their number.

    Args:
        axis: All sources as one token axis, without separators and leads.
        chosen: Which of its sequences are written.
        count: Number of sequences that are written.
        to: What is written beside them.
        bits: What is counted: SEP or LEAD.
    """
    if bits == SEP and isinstance(axis, ContentReader) and axis.dataset.spans.seamless and axis.dataset.gap.even:
        kept = count * (axis.dataset.gap.id == to.id)  # All were read, so all have it.
        return Counts(dropped=count) if to.id is None else Counts(kept, count - kept)
    dataset = dataset_of(axis, drawn=True)
    tokens = None if dataset.spans.presumes else dataset.axis
    of_leads = bits == LEAD
    id_, known = (to.lead, dataset.gap.leads) if of_leads else (to.id, dataset.gap.ids)
    all_get = to.leads == "all" if of_leads else to.kind != "index" and not to.only_closed
    if not known and (id_ is None or all_get):  # None has one, and all get one, or none does.
        return Counts(bare=count) if id_ is None else Counts(added=count)
    found = Counts()
    for first, last in windows(0, axis.info.sequences, _AT_ONCE):
        starts, stops, beside = dataset.spans.read(first, last, tokens)
        taken = chosen(first, last, stops - starts)
        starts, stops, beside = starts[taken], stops[taken], beside[taken]
        wanted, closed = to.beside(stops - starts, beside)[of_leads], beside & bits != 0
        written, had, both = (int(np.count_nonzero(flags)) for flags in (wanted, closed, wanted & closed))
        kept = both * (known == [id_])
        if both and len(known) > 1:  # The tokens show which of several it is.
            places = starts - 1 if of_leads else np.where(beside & AFTER, stops, starts - 1 - (beside & LEAD != 0))
            kept = int(np.count_nonzero(dataset.axis.at(places[wanted & closed]) == id_))
        bare = len(closed) - written - had + both
        found = found.plus(Counts(kept, both - kept, written - both, had - both, bare))
    return found
