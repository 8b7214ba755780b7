"""The separator of a source, how it is known, and what a destination writes in its place.

`decide` finds the ID that ends sequences which an index bounds. Looking decides which ID is the separator. It never
changes a byte of a result: each sequence is trimmed by its own tokens. A stream is split at the ID that is stated.

    Known as      by
    user          --eos ID
    manifest      DST.tokfmt.json
    file          what the format stores
    tokenizer     the tokenizer in use, or the one that the manifest states
    convention    the format
    inferred      the ends of sequences; of fewer than `ENOUGH`, those of the sources beside them
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import Axis, windows
from tokfmt.errors import ConversionError, Loss, LossyConversionError, OptionError
from tokfmt.model.batch import AFTER, LEAD, SEP, Kind, Leads
from tokfmt.model.dataset import Dataset
from tokfmt.model.gap import Gap, Known
from tokfmt.model.spans import Ended, Led, Spans
from tokfmt.wording import counted

Choice = int | Literal["none"] | None
"""What the user says: an ID, that there is none, or nothing."""
Runs = Sequence[tuple[int, int]]
"""Runs of neighboring sequences, each as the first and the last + 1."""
ToEos = int | Literal["none", "as-stored"] | None

ENOUGH = 8
"""Sequences that must end with one ID before it is inferred as the separator."""
_REFUSING = 2  # Sequences that must end with one ID before another one is refused, or the user is asked.
_SHARE = 0.9  # Share of sequences that end with one ID, from which the user is asked.
_MOST, _RUNS = 4096, 64  # Sequences that are looked at, in runs of neighbors.
_SEARCHED, _INSIDE = 256, 1 << 14  # Sequences that are searched for an ID inside, and tokens of each.
_AT_ONCE, _SEVERAL = 1 << 18, 2
_PIECES, _NEAR = 8, 1 << 8  # Pieces for which there is one run, and sequences of a piece that are looked at together.
_NOTHING = np.empty(0, np.int64)
_HELD = 1 << 19  # Tokens of the sequences that are looked at, up to which they are read wholly.


class Statement(NamedTuple):
    """What a manifest or a file says about the separator."""

    id: int
    by: Literal["manifest", "file"] = "manifest"  # the origin
    stored: bool = True  # in the data, as the origin says; a manifest of a format that stores none says False


class Ends(NamedTuple):
    """The last tokens of sequences that were looked at."""

    looked: int  # sequences
    of: int  # sequences of the dataset
    full: int  # those that were looked at and are not empty
    counts: Counter[int]  # how many of these end with each ID
    inside: Callable[[int], bool]  # whether one of up to 256 of them has an ID before its last token
    tokens: Tokens | None = None  # all tokens of the sequences, if they were read for the look

    def all_are(self, id_: int) -> bool:
        """Whether there is a sequence that is not empty, all of these end with an ID, and none has it inside."""
        return self.full > 0 and set(self.counts) == {id_} and not self.inside(id_)

    @property
    def rival(self) -> int | None:
        """The ID that all non-empty ones end with, and that none of those searched has inside; None without one."""
        only = next(iter(self.counts)) if len(self.counts) == 1 and self.full >= _REFUSING else None
        if only is None or self.tokens is None:
            return None if only is None or self.inside(only) else only
        return only if int(np.count_nonzero(self.tokens == only)) == self.counts[only] else None


def sample_ends(axis: Axis, spans: Spans, runs: Runs | None = None, most: int = _MOST) -> Ends:
    """Look at the ends of sequences, spread over a dataset. Of a few sequences, all tokens are read, each run at once.

    Where a slot takes a whole piece of a file, few pieces are looked at, and each is decoded once. By default, `most`
    sequences are looked at, spread over the dataset; else the `runs` of neighbors.
    """
    axis = axis.for_look()
    if runs is None:
        runs = list(windows(0, spans.count, _AT_ONCE))
        if spans.count > most:
            number = max(2, axis.decoded_parts // _PIECES) if axis.decoded_parts else _RUNS
            runs = _spread(spans.count, most, min(_RUNS, number))
    counts, full, tokens = Counter[int](), 0, None
    looked = sum(last - first for first, last in runs)
    at_once = looked <= _AT_ONCE and not axis.decoded_parts
    some = [window for run in runs for window in windows(*run, _NEAR)] if axis.decoded_parts else runs
    for together in [runs] if at_once else [[run] for run in some]:  # A store is asked side by side.
        extents = [spans.extents(*run) for run in together]
        if len(extents) == 1:
            ((starts, stops),) = extents
        else:
            starts, stops = (np.concatenate([_NOTHING, *(extent[k] for extent in extents)]) for k in (0, 1))
        places, held = np.cumsum(stops - starts), stops > starts
        if spans.tiles and at_once and places[-1:].sum() <= _HELD:
            wanted = [(int(begins[0]), int(ends[-1])) for begins, ends in extents]
            found = [axis.tokens(*one) for one in wanted] if len(wanted) < _SEVERAL else axis.intervals(wanted)
            tokens = next(iter(found)) if len(wanted) == 1 else np.concatenate([np.empty(0, axis.dtype), *found])
            last = tokens[places[held] - 1]
        else:
            last = axis.at(stops[held] - 1)
        counts.update(sorted(last.tolist()))
        full += len(last)
    return Ends(looked, spans.count, full, counts, partial(_is_inside, axis, spans, runs), tokens)


def _spread(count: int, most: int, runs: int = _RUNS) -> Runs:
    """Return runs of neighbors, `most` sequences in all, of which the first and the last are those of the dataset."""
    run = max(1, most // runs)
    starts = np.linspace(0, count - run, most // run).astype(np.int64).tolist()
    return [(start, start + run) for start in starts]


def _is_inside(axis: Axis, spans: Spans, runs: Runs, id_: int) -> bool:
    """Return whether one of 256 sequences has an ID before its last token."""
    each = -(-_SEARCHED // max(1, len(runs)))
    found = [spans.extents(first, min(last, first + each)) for first, last in runs]
    starts, stops = (np.concatenate([np.empty(0, np.int64), *(one[k] for one in found)]) for k in (0, 1))
    return bool((axis.gather(starts, np.clip(stops - starts - 1, 0, _INSIDE)) == id_).any())


def decide(
    dataset: Dataset,
    eos: Choice = None,
    stated: Statement | None = None,
    tokenizer: int | None = None,
    most: int = _MOST,
    ends: Ends | None = None,
    beside: int | None = None,
) -> Dataset:
    """Return a dataset that an index bounds, with its separator. Its spans are extents. `tokenizer` is the separator of
    the tokenizer, if the IDs may be its own. `ends` is what a look has shown already, and `beside` the separator of
    sources that are read together with this one.
    """
    spans = dataset.spans
    if eos == "none":
        return _ended(dataset, None, "user", _not_looked(spans))
    if stated is not None and not stated.stored and eos in {None, stated.id}:
        found = _ended(dataset, None, stated.by, _not_looked(spans))
        return replace(found, gap=replace(found.gap, id=stated.id, stored=False))
    ends = sample_ends(dataset.axis, spans, most=most) if ends is None else ends
    if stated is not None and eos not in {None, stated.id} and ends.counts[eos] <= ends.counts[stated.id]:
        raise _contradiction(eos, stated, ends)
    known: Known = "user" if eos is not None else "tokenizer" if stated is None else stated.by
    separator = eos if eos is not None else tokenizer if stated is None else stated.id
    if separator is None:
        inferred = ends.rival if ends.full >= ENOUGH else None
        if inferred is None and beside is not None and ends.all_are(beside):
            inferred = beside
        return _ended(dataset, inferred, "" if inferred is None else "inferred", ends)
    # Whether the IDs are those of a tokenizer, a conversion asks.
    if known != "tokenizer" and not ends.counts[separator] and (rival := ends.rival) is not None:
        raise _missed(separator, known, rival, ends)
    found = _ended(dataset, separator, known, ends)
    overruled = stated.id if stated is not None and stated.id != separator else None
    return found if overruled is None else replace(found, gap=replace(found.gap, overrules=overruled))


def separator_beside(gaps: Sequence[Gap]) -> int | None:
    """Return the separator for sources whose own sequences are too few to show it; None without one.

    It is the only one that others have, or the only ID at the ends of all their sequences, if these are `ENOUGH`. The
    gap of a source that is not known has `endings`.
    """
    known = {gap.id for gap in gaps if gap.id is not None and gap.stored}
    few = [gap for gap in gaps if gap.known == "" and gap.lack]
    only = {gap.only for gap in few}
    if len(known) == 1:
        return known.pop() if known & only else None
    enough = not known and len(only) == 1 and sum(gap.lack for gap in few) >= ENOUGH
    return only.pop() if enough else None


def named(dataset: Dataset, eos: int, ends: Ends) -> Dataset:
    """Return a dataset whose sequences may end with a separator that only the user names; see `decide`."""
    return _ended(dataset, eos, "user", ends)


def led(dataset: Dataset, lead: int, most: int = _MOST, *, each: bool = False) -> Dataset:
    """Return a dataset whose contents do not include a lead at their beginning. `most` contents are looked at, or
    `each`. If all or none of them begin with the lead, all others are presumed to be alike, and reading one that is not
    raises UnendedError; else each is looked at. The lead must not be the separator of a stream. If an index marks
    boundaries, one ID can be both.
    """
    if any(gap.alone and gap.id == lead for gap in dataset.gap.each()):
        what = f"--bos {lead}: only this ID marks boundaries, so that it cannot be a lead as well"
        raise OptionError(f"{what}. --eos ID names another separator", name="bos")
    spans, axis, full, leads = Led(dataset.spans, lead), dataset.axis.for_look(), 0, 0
    for first, last in [] if each else _spread(spans.count, most) if spans.count > most else [(0, spans.count)]:
        starts, stops, beside = spans.read(first, last, axis)
        leads += int(np.count_nonzero(beside & LEAD))
        full += int(np.count_nonzero((stops > starts) | (beside & LEAD != 0)))
    alike = not each and leads in {0, full}
    found = Led(dataset.spans, lead, leads > 0) if alike else spans.looked_at(dataset.axis)
    return replace(dataset, spans=found, gap=replace(dataset.gap, lead=lead))


def unled(dataset: Dataset) -> Dataset:
    """Return the dataset whose contents include their leads."""
    return replace(dataset, spans=dataset.spans.unled(), gap=replace(dataset.gap, lead=None))


def _not_looked(spans: Spans) -> Ends:
    return Ends(0, spans.count, 0, Counter(), lambda _: False)


def _missed(separator: int, known: Known, rival: int, ends: Ends) -> OptionError | ConversionError:
    """Return the error of a separator that no sequence has, where all end with another one."""
    says = f"--eos {separator} is given" if known == "user" else f"the {known} states the separator {separator}"
    what = f"{says}, and no sequence ends with it: "
    what += f"all {ends.full:,} that were looked at end with {rival}. --eos {rival} reads it as the separator; "
    what += f"--to-eos {separator} writes {separator} in its place"
    return OptionError(what, name="eos") if known == "user" else ConversionError(what)


def _contradiction(eos: int, stated: Statement, ends: Ends) -> OptionError:
    numbers = f"of {counted(ends.full, 'sequence')}, {ends.counts[stated.id]:,} end with {stated.id} and "
    numbers += f"{ends.counts[eos]:,} with {eos}"
    return _contradicts(eos, stated, numbers)


def _contradicts(eos: int, stated: Statement, numbers: str, path: str = "") -> OptionError:
    what = f"{path}--eos {eos} contradicts the {stated.by}, which states {stated.id} ({numbers}). "
    return OptionError(f"{what}--to-eos {eos} writes {eos} in its place", name="eos")


def _ended(dataset: Dataset, separator: int | None, known: Known, ends: Ends) -> Dataset:
    closed = ends.counts[separator] if separator is not None else 0
    only = next(iter(ends.counts)) if known == "" and len(ends.counts) == 1 else None
    gap = Gap(
        id=separator,
        known=known,
        looked=ends.looked,
        of=ends.of,
        closed=closed,
        lack=ends.full - closed,
        empty=ends.looked - ends.full,
        even=ends.looked == ends.full,
        common=_common(ends) if known == "" else None,
        only=only if only is not None and ends.all_are(only) else None,
    )
    if separator is None:
        return replace(dataset, gap=gap)
    presumed = AFTER if closed and closed == ends.full else None if closed else 0
    return replace(dataset, spans=Ended(dataset.spans, separator, presumed), gap=gap)


def _common(ends: Ends) -> tuple[int, int] | None:
    """Return the ID that ends nearly all sequences, and their number; None without one."""
    id_, count = max(ends.counts.items(), key=lambda one: one[1], default=(0, 0))
    return (id_, count) if ends.full >= ENOUGH and count >= _SHARE * ends.full else None


def refuse_undivided(dataset: Dataset, known: str, path: str) -> None:
    """Refuse a stream in which its separator, `known` from --eos or elsewhere, does not occur; it is scanned."""
    axis = dataset.axis
    if len(dataset) != 1 or dataset.contents(0, 1)[2][0] & SEP:
        return
    what = f"{path}: the separator {dataset.gap.id} ({known}) does not occur in {axis.length:,} tokens. "
    what += "--eos ID names another one, and --eos none divides at none"
    raise OptionError(what, name="eos") if known == "--eos" else ConversionError(what)


def refuse_other(axis: Axis, eos: int, stated: Statement, path: str) -> None:
    """Refuse to split a stream at another separator than the one that is stated and that occurs."""
    if eos != stated.id and any((axis.tokens(*window) == stated.id).any() for window in windows(0, axis.length)):
        raise _contradicts(eos, stated, f"{stated.id} occurs in the stream", f"{path}: ")


def lead_to_write(
    leads: Sequence[int], kind: Kind, to_bos: Choice, accepted: frozenset[str], name: str = "the destination"
) -> tuple[int | None, Leads]:
    """Return the lead that a destination stores (default: as read, in an index), and which sequences get it."""
    if isinstance(to_bos, int):
        return to_bos, "all"
    if not leads or to_bos == "none" or kind in {"after", "before"}:
        return None, "as-read"
    listed = ", ".join(map(str, leads))
    if kind == "between":
        if "leads" not in accepted:
            raise LossyConversionError(name, [Loss("leads", f"the lead {listed} of sequences")])
        return None, "as-read"
    if len(leads) > 1:
        raise ConversionError(f"the sources have different leads ({listed}). --to-bos ID replaces all by one")
    return leads[0], "as-read"


def separator_to_write(
    gap: Gap,
    kind: Kind,
    to_eos: ToEos = None,
    fixed: int | None = None,
    *,
    needs: bool = False,
    name: str = "the destination",
) -> int | None:
    """Return the separator that a destination stores, None for none; by default that of the source. `fixed` is the ID
    that the variant prescribes. If it `needs` one, the format stores a separator, also if an index marks boundaries.
    """
    bounded, as_stored = kind == "index", to_eos == "as-stored"
    if (gap.parts or gap.id is None) and (unclear := gap.unclear) is not None and not (bounded and as_stored):
        raise ConversionError(unclear.question)  # --to-eos says nothing of the source.
    if to_eos == "none" and not bounded:
        what = f"--to-eos none: in {name}, only separators mark where a sequence ends. --to-eos ID writes one"
        raise OptionError(what, name="to_eos")
    if to_eos == "none":
        return None
    if not isinstance(to_eos, int) and gap.parts and len(gap.ids) > 1:
        what = f"the sources have different separators ({gap.listed}). --to-eos ID replaces all by one"
        raise OptionError(f"--to-eos as-stored: {what}", name="to_eos") if as_stored else ConversionError(what)
    found = to_eos if isinstance(to_eos, int) else gap.id
    if as_stored and not all(part.stored and part.id is not None for part in gap.each()):
        if any(part.stored and part.id is not None for part in gap.each()):  # An ID at an end would be read as one.
            what = f"--to-eos as-stored: only some of the sources have the separator ({gap.listed}). --to-eos ID"
            raise OptionError(f"{what} writes it beside all", name="to_eos")
        found = None
    if fixed is not None and found != fixed:
        what = f"{name} prescribes the separator {fixed}, and that of the source is "
        what += f"{'not known' if found is None else found}. --to-eos {fixed} writes it"
        raise ConversionError(f"{what}; another variant keeps that of the source")
    if found is None and (not bounded or (needs and to_eos is None and gap.known == "")):
        raise SeparatorNeededError(name, can_have_none=bounded)
    return found


class SeparatorNeededError(ConversionError):
    """A destination needs a separator, and that of the source is not known."""

    def __init__(self, name: str, *, can_have_none: bool) -> None:
        # what is missing, in words
        self.why = f"{name} stores a separator beside sequences, and that of the source is not known"
        # what remedies it, besides naming the separator of the source
        self.ways = "--to-eos ID writes one" + ", --to-eos none writes none" * can_have_none
        super().__init__(f"{self.why}. --eos ID names it, {self.ways}")
