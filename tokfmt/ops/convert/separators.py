"""Lay out the axis that a writer stores, and count what becomes of the separator of each sequence.

It is kept, replaced, added or dropped, or there is none. The datasets under the axis know which sequences have one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from tokfmt.core.errors import ConversionError, OptionError
from tokfmt.core.format import Target
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import Separators, TokenReader, windows
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import counted, printable
from tokfmt.model import batch as model
from tokfmt.model.axis import Numbers
from tokfmt.model.batch import AFTER, LEAD, SEP, Counts, Flags, Kind
from tokfmt.model.bridge import ContentReader, dataset_of, laid_reader
from tokfmt.model.dataset import Dataset, concat
from tokfmt.model.separator import ToEos
from tokfmt.model.spans import Contents
from tokfmt.ops.source.stored import Separator, Source

Chosen = Callable[[int, int, Numbers], Flags]
"""Which of the sequences `first <= i < last` are written, given their numbers of tokens."""

_NAMED = 5  # sources that a message names
_AT_ONCE = 1 << 18


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
    dataset, contents = _contents_of(reader)
    if not dataset.gap.ids:
        return reader.info.sequences, 0
    count, first = 0, -1
    for a, b in windows(0, reader.info.sequences, _AT_ONCE):
        lack = np.flatnonzero(contents(a, b)[2] & SEP == 0)
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
    kind: Kind = "index" if eos_id is None else "before" if target.separators is Separators.BEFORE else "after"
    return laid_reader(contents, model.Target(eos_id, kind, target.bos_id, target.bos_for))


def count_separators(axis: TokenReader, chosen: Chosen, count: int, eos_id: int | None) -> Counts:
    """Return what becomes of the separators of the sequences that are written. The sum is their number.

    Args:
        axis: All sources as one token axis, without separators.
        chosen: Which of its sequences are written.
        count: Number of sequences that are written.
        eos_id: The separator that is written; None: none is.
    """
    if isinstance(axis, ContentReader) and axis.dataset.spans.seamless and not axis.dataset.gap.empty:
        kept = count * (axis.dataset.gap.id == eos_id)  # All were read, so all have it.
        return Counts(dropped=count) if eos_id is None else Counts(kept, count - kept)
    dataset, contents = _contents_of(axis)
    had = kept = 0
    for first, last in windows(0, axis.info.sequences, _AT_ONCE) if dataset.gap.ids else ():
        starts, stops, beside = contents(first, last)
        taken = chosen(first, last, stops - starts)
        starts, stops, beside = starts[taken], stops[taken], beside[taken]
        closed = beside & SEP != 0
        had += int(np.count_nonzero(closed))
        if dataset.gap.id is not None:
            kept += int(np.count_nonzero(closed)) * (dataset.gap.id == eos_id)
        elif eos_id is not None:  # The tokens show which of several it is.
            places = np.where(beside & AFTER, stops, starts - 1 - (beside & LEAD != 0))[closed]
            kept += int(np.count_nonzero(dataset.axis.at(places) == eos_id))
    if eos_id is None:
        return Counts(dropped=had, bare=count - had)
    return Counts(kept, had - kept, count - had)


def count_leads(axis: TokenReader, chosen: Chosen, count: int, target: Target) -> Counts:
    """Return what becomes of the leads of the sequences that are written. The sum is their number.

    Args:
        axis: All sources as one token axis, without leads.
        chosen: Which of its sequences are written.
        count: Number of sequences that are written.
        target: What is written.
    """
    dataset, contents = _contents_of(axis)
    had = kept = 0
    for first, last in windows(0, axis.info.sequences, _AT_ONCE) if dataset.gap.leads else ():
        starts, stops, beside = contents(first, last)
        led = starts[chosen(first, last, stops - starts) & (beside & LEAD != 0)]
        had += len(led)
        if target.bos_id is not None:  # There may be several: the tokens show which it is.
            same = dataset.gap.leads == [target.bos_id]
            kept += len(led) if same else int(np.count_nonzero(dataset.axis.at(led - 1) == target.bos_id))
    if target.bos_id is None:
        return Counts(dropped=had, bare=count - had)
    rest = count - had
    return Counts(kept, had - kept, *((rest, 0, 0) if target.bos_for == "all" else (0, 0, rest)))


def _contents_of(axis: TokenReader) -> tuple[Dataset, Callable[[int, int], Contents]]:
    """Return the dataset under an axis, and a function that returns where sequences `first <= i < last` are on it."""
    origins = getattr(axis, "origins", None)  # A recipe draws documents from its sources.
    if origins is None:
        dataset = dataset_of(axis)
        tokens = None if dataset.spans.presumes else dataset.axis
        return dataset, lambda first, last: dataset.spans.read(first, last, tokens)
    parts = [dataset_of(source.all_of_it) for source in axis.sources]  # type: ignore[attr-defined]
    whole, firsts = concat(parts), offsets_of([len(part) for part in parts])

    def drawn(first: int, last: int) -> Contents:
        sources, inside = origins(np.arange(first, last))
        numbers = firsts[sources] + inside
        return whole.spans.trim(numbers, *whole.spans.extents_of(numbers), None if whole.spans.presumes else whole.axis)

    return whole, drawn
