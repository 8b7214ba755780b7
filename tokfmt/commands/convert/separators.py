"""Lay out the axis that a writer stores, and count what becomes of the separator of each sequence.

It is kept, replaced, added or dropped, or there is none. The datasets under the axis know which sequences have one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tokfmt import model
from tokfmt.core.format import Target
from tokfmt.core.reader import Separators, TokenReader, windows
from tokfmt.model.axis import Numbers
from tokfmt.model.batch import AFTER, LEAD, SEP, Counts, Flags, Kind
from tokfmt.model.readers import ContentReader, dataset_of, from_reader, laid_reader
from tokfmt.model.separator import led

Chosen = Callable[[int, int, Numbers], Flags]
"""Which of the sequences `first <= i < last` are written, given their numbers of tokens."""

_AT_ONCE = 1 << 18
_KINDS: dict[Separators, Kind] = {Separators.TRAILING: "index", Separators.BEFORE: "before"}


def stored_axis(contents: TokenReader, target: Target) -> TokenReader:
    """Return the axis that a writer stores: contents with their separators, and the marks of both.

    Args:
        contents: The sequences to write, without separators.
        target: Where the separator is stored, and its ID.
    """
    is_stored = target.separators is not Separators.NONE and target.eos_id is not None
    if not is_stored and target.bos_id is None:
        return contents
    kind: Kind = _KINDS.get(target.separators, "after") if is_stored else "index"
    eos_id, is_as_read = (target.eos_id, target.eos_for == "as-read") if is_stored else (None, False)
    return laid_reader(contents, model.Boundaries(eos_id, kind, target.bos_id, target.bos_for, is_as_read))


def contents_of(stored: TokenReader, laid: model.Boundaries, bare: int) -> TokenReader:
    """Return the contents of sequences that were laid out, and then shuffled or dealt to splits.

    Args:
        stored: The sequences. Without a lead, they end with the separator, or are empty.
        laid: What is beside their contents.
        bare: Number of the empty ones, at most.
    """
    if laid.lead is None and not laid.only_closed:
        dataset = from_reader(stored, laid.id, where=Separators.TRAILING)
        return ContentReader(replace(dataset, gap=replace(dataset.gap, even=not bare)))
    dataset = from_reader(stored, laid.id, where=Separators.TRAILING, presumed=None)
    return ContentReader(dataset if laid.lead is None else led(dataset, laid.lead, each=True))


def count_beside(axis: TokenReader, chosen: Chosen, count: int, to: model.Boundaries, bits: int = SEP) -> Counts:
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
