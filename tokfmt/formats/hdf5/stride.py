"""Infer from the tokens how neighboring samples continue each other, if the file does not state it.

    overlap    windows of width + 1 tokens start every width tokens: the last label is the next sample's first input
    disjoint   windows start every width + 1 tokens
    bos        every sample is a block of width tokens as labels; input_ids are the same block after a BOS
    per-document   no sample continues in the next
    rows       no token shows how samples continue each other; see `core.rows`

The rules use three shares. r is the share of neighbors whose first sample is full and whose tokens link up. chance is
the share of equal pairs among all first inputs and all last labels. adj is the share of equal neighboring tokens inside
samples (0.27 in source code with its runs of spaces, so no fixed limit works):

    bos        every first input is the same, every sample is full, r < 1/2, and blocks follow each other
    overlap    r >= 0.9, or r >= 0.5 in padded data, and r > (1 + chance) / 2
    shuffled   first inputs and last labels are the same multiset, far beyond chance
    disjoint   r <= adj + (1 - adj) / 4, and windows follow each other
    mixed      r > adj + (1 - adj) / 4
    rows       otherwise

Windows follow each other if the pairs of tokens at their borders occur inside other samples as well: as often as pairs
inside samples do, and far more often than if the windows have another order. Token IDs of text show that in a few dozen
samples; random IDs never do.

A row of packed sequences (VSL) holds several segments, marked by position_ids and attention_span. A segment starts
where position_ids is 0, and its length is attention_span there plus 1. Padding is mask 0, span 0 and position 0.
Writers use two rules for labels, and only the tokens show which:

    per segment   labels shift inside each segment: T = its inputs and the label after the last one
    whole pack    labels shift over the whole row: the label after a segment is the first input of the next one, so T is
                  its inputs alone, and only the last segment of a row has a separate label at the end
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.rows import ROWS, Continuation
from tokfmt.errors import CorruptError
from tokfmt.formats.hdf5.beginning import SampledRows
from tokfmt.formats.hdf5.samples import Pieces, Scan, Tally, check_ids_of
from tokfmt.formats.hdf5_arrays.table import Rows, Values

MINIMUM_PAIRS = 4  # minimum number of neighbors to infer anything from
_BORDERS, _MAXIMUM_BORDERS, _TURNS, _SIGMAS = 16, 4096, 32, 5
"""Minimum and maximum number of borders to compare, number of other orders, and standard deviations that count."""
_FOLLOW = ", and tokens at their borders follow each other as those inside do"
_STRETCHES, _LOOKED_AT = 64, 1 << 21
"""Number of stretches of samples that are read, and of their tokens together."""

Flags = NDArray[np.bool_]


def continued(scan: Scan, groups: NDArray[np.int64], width: int) -> Flags:
    """Return bool[samples]: True for a full sample that a sample with real tokens follows in the same stream. `groups`
    has the first samples of the streams, int64[streams + 1].
    """
    flags = np.zeros(len(scan.valid), np.bool_)
    flags[:-1] = (scan.valid[:-1] == width) & (scan.valid[1:] > 0)
    ends = groups[1:] - 1
    flags[ends[ends >= 0]] = False
    return flags


def linked(scan: Scan) -> Flags:
    """Return bool[samples]: True if the last label is the first input of the next sample."""
    flags = np.zeros(len(scan.valid), np.bool_)
    flags[:-1] = scan.last[:-1] == scan.first[1:]
    return flags


def judge(rows: Rows | SampledRows, scan: Scan, groups: NDArray[np.int64]) -> Continuation:
    """Infer a stride, "shuffled" or `ROWS` from the samples; "few" or "mixed" if they do not show one. `groups` is as
    for `continued`.
    """
    width = rows.width
    on = continued(scan, groups, width)
    pairs = int(np.count_nonzero(on))
    if not pairs:
        return Continuation("per-document", "no full sample is followed by another")
    links = int(np.count_nonzero(on & linked(scan)))
    if pairs < MINIMUM_PAIRS:
        few = f"only {pairs} of its samples have a neighbor to continue in"
        return Continuation("few", few) if links else Continuation(ROWS, few, "disjoint")
    r, adj = links / pairs, scan.equal / max(1, scan.pairs)
    full = scan.valid == width
    share = f"{r:.1%} of {pairs:,} neighboring samples share a token"
    if r < 0.5 and full.all() and (scan.first == scan.first[0]).all():
        begin, follows = f"every sample begins with {int(scan.first[0])}, and {share}", follow(rows, on, skip=1)
        return Continuation("bos", begin + _FOLLOW) if follows else Continuation(ROWS, begin, "bos")
    by_chance = chance(scan.first[full], scan.last[full])
    if r >= (0.9 if full.all() else 0.5):
        beyond = r > (1 + by_chance) / 2
        return Continuation("overlap", share) if beyond else Continuation(ROWS, share, "overlap")
    distance, expected = multiset_distance(scan.first[full], scan.last[full])
    if distance <= 0.05 and distance <= expected / 4:
        return Continuation(
            "shuffled", f"{share}, but the first and last tokens of all samples differ only in {distance / 2:.1%}"
        )
    if r <= adj + (1 - adj) / 4:
        follows = follow(rows, on)
        return Continuation("disjoint", share + _FOLLOW) if follows else Continuation(ROWS, share, "disjoint")
    return Continuation("mixed", f"{share}: too many for separate windows, too few for overlapping ones")


def chance(a: Values, b: Values) -> float:
    """Return the probability that a random ID of one multiset equals a random ID of the other."""
    (ids_a, often_a), (ids_b, often_b) = (np.unique(ids, return_counts=True) for ids in (a, b))
    _, in_a, in_b = np.intersect1d(ids_a, ids_b, assume_unique=True, return_indices=True)
    shares = often_a[in_a].astype(np.float64) * often_b[in_b]
    return float(shares.sum()) / max(1, len(a) * len(b))


def follow(rows: Rows | SampledRows, on: Flags, *, skip: int = 0) -> bool:
    """Return True if the tokens at the borders of samples follow each other as neighbors inside samples do. `on` is
    what `continued` returns, and `skip` the inputs at the start of each sample that are not tokens of the stream.
    """
    inside, ends, begins = _neighbors(rows, on, skip)
    if len(ends) < _BORDERS or not len(inside):
        return False
    some = np.unique(np.linspace(0, len(ends) - 1, _MAXIMUM_BORDERS).astype(np.int64))
    ends, begins = ends[some], begins[some]
    pairs, often = np.unique(inside, return_counts=True)
    repeated = float(often[often > 1].sum()) / len(inside)

    def seen(after: NDArray[np.int64]) -> float:
        found = _paired(ends, after)
        at = np.minimum(np.searchsorted(pairs, found), len(pairs) - 1)
        return float((pairs[at] == found).mean())

    turns = np.unique(np.linspace(1, len(ends) - 1, _TURNS).astype(np.int64)).tolist()
    otherwise = float(np.mean([seen(np.roll(begins, turn)) for turn in turns]))
    more = seen(begins) - otherwise
    spread = math.sqrt(max(otherwise * (1 - otherwise), 0.25 / len(ends)) / len(ends))
    return more > _SIGMAS * spread and more >= (repeated - otherwise) / 2


def _neighbors(
    rows: Rows | SampledRows, on: Flags, skip: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of tokens inside some full samples, and the tokens before and after the borders between them."""
    inside, ends, begins = [], [], []
    stretches = min(_STRETCHES, max(1, _LOOKED_AT // (2 * rows.width)))
    each = max(2, _LOOKED_AT // (stretches * rows.width))
    for first in np.unique(np.linspace(0, max(0, len(rows) - each), stretches).astype(np.int64)).tolist():
        values = rows.read(first, min(first + each, len(rows)))
        goes_on = on[first : first + len(values)].copy()
        inputs, last = values[:, 0].astype(np.int64), values[:, 2, -1].astype(np.int64)
        inside.append(_paired(inputs[goes_on, skip:-1], inputs[goes_on, skip + 1 :]).reshape(-1))
        goes_on &= last >= 0
        inside.append(_paired(inputs[goes_on, -1], last[goes_on]))
        at = np.flatnonzero(goes_on[:-1])
        ends.append(last[at])
        begins.append(inputs[at + 1, min(skip, rows.width - 1)])
    return np.concatenate(inside), np.concatenate(ends), np.concatenate(begins)


def _paired(before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.int64]:
    return before << 32 | after


def multiset_distance(a: Values, b: Values) -> tuple[float, float]:
    """Return the difference of two multisets of n IDs, 0 to 2, and the difference that chance explains."""
    (ids_a, often_a), (ids_b, often_b) = (np.unique(ids, return_counts=True) for ids in (a, b))
    ids = np.union1d(ids_a, ids_b)
    in_a, in_b = np.zeros((2, len(ids)), np.int64)
    in_a[np.searchsorted(ids, ids_a)] = often_a
    in_b[np.searchsorted(ids, ids_b)] = often_b
    sizes, often = np.unique(in_a + in_b, return_counts=True)
    expected = sum(_walk(size) * times for size, times in zip(sizes.tolist(), often.tolist(), strict=True))
    return float(np.abs(in_a - in_b).sum()) / max(1, len(a)), expected / max(1, len(a))


def _walk(steps: int) -> float:
    """Return the mean distance from the start of a random walk of steps of length 1."""
    half = (steps + 1) // 2
    return 2 * half * math.exp(math.lgamma(2 * half + 1) - 2 * math.lgamma(half + 1) - 2 * half * math.log(2))


@dataclass(frozen=True, slots=True)
class Joined:
    """Samples joined to runs."""

    pieces: Pieces  # one piece per sample
    broken: int  # number of overlapping samples that do not link up with the next sample of their stream


def join(scan: Scan, groups: NDArray[np.int64], width: int, stride: str) -> Joined:
    """Join samples to runs by a given or inferred stride: overlap, disjoint, bos or per-document."""
    valid, skip, broken = scan.valid, int(stride == "bos"), 0
    on = continued(scan, groups, width)
    if stride == "per-document":
        on[:] = False
    elif stride == "overlap":
        links = on & linked(scan)
        broken = int(np.count_nonzero(on)) - int(np.count_nonzero(links))
        on = links
    real = valid > 0
    tail = real & ~on if stride == "overlap" else real
    opens = np.ones(len(valid), np.bool_)
    opens[1:] = ~on[:-1]
    lengths = np.where(real, valid - np.int32(skip) + tail, 0).astype(np.int32)
    return Joined(Pieces(None, skip, lengths, tail, opens), broken)


def chained(starts: NDArray[np.int64], width: int, step: int, ends: list[int], opens_at: list[bool]) -> Pieces:
    """Return the pieces of samples whose positions in the stream the attributes of their files state.

    Args:
        starts: int64[files + 1], number of each file's first sample.
        width: Tokens per sample.
        step: Tokens of the stream from one sample to the next: width (overlap) or width + 1 (disjoint).
        ends: Tokens of the stream from the first sample of each file to the end of the stream.
        opens_at: True for each file that begins a run.
    """
    count = int(starts[-1])
    lengths = np.full(count, step, np.int32)
    tail = np.full(count, step > width, np.bool_)
    opens = np.zeros(count, np.bool_)
    for k, (left, new) in enumerate(zip(ends, opens_at, strict=True)):
        a, b = int(starts[k]), int(starts[k + 1])
        if a == b:
            continue
        opens[a] |= new
        last = left - (b - a - 1) * step  # tokens of the stream from the file's last sample on
        goes_on = b < count and not opens_at[_holder(starts, b)] and last > step
        tail[b - 1] = tail[b - 1] or not goes_on
        lengths[b - 1] = min(last, width + 1) if tail[b - 1] else width
    return Pieces(None, 0, lengths, tail, opens)


def _holder(starts: NDArray[np.int64], row: int) -> int:
    """Return the number of the file that holds a row."""
    return int(np.searchsorted(starts, row, side="right")) - 1


@dataclass(slots=True)
class Segments:
    """The segments of all rows, in order; arrays have one value per segment."""

    begins: NDArray[np.int64]  # int64, index of the first input among all inputs
    inputs: NDArray[np.int32]  # int32, number of inputs
    closes: Flags  # bool, True for the last segment of its row
    end_input: Values  # last input of the segment
    end_label: Values  # label of the last input
    odd: Tally  # rows with a mask that is not 1 on all segments, or with labels that are not the next tokens
    whole_pack: bool  # True if labels shift over the whole row


def scan_segments(rows: Rows) -> Segments:
    """Find all segments in one pass over the rows."""
    found, odd, at, packed, inner = [], Tally(), 0, 0, 0
    for part, wrong, (yes, of) in rows.map(lambda first, values: look_for_segments(rows, first, values)):
        found.append(part)
        odd.add(wrong, at)
        at, packed, inner = at + len(wrong), packed + yes, inner + of
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    begins, inputs, closes, end_input, end_label = columns
    return Segments(begins, inputs, closes, end_input, end_label, odd, whole_pack=2 * packed > inner)


def pieces_of(segments: Segments, eos_id: int | None) -> Pieces:
    """Return the segments as runs of one piece each, without the separator at their ends."""
    tail = segments.closes.copy() if segments.whole_pack else np.ones(len(segments.begins), np.bool_)
    lengths = segments.inputs + tail.astype(np.int32)
    if eos_id is not None:
        ends = np.where(tail, segments.end_label, segments.end_input) == eos_id
        lengths -= ends.astype(np.int32)
        tail &= ~ends
    return Pieces(segments.begins, 0, lengths, tail, np.ones(len(lengths), np.bool_))


Part = tuple[NDArray[np.int64], NDArray[np.int32], Flags, Values, Values]


def look_for_segments(rows: Rows, base: int, values: Values) -> tuple[Part, Flags, tuple[int, int]]:
    """Find the segments of some rows.

    Args:
        rows: Table of the rows, for errors.
        base: Number of the first row.
        values: The rows, [count, 5, width].

    Returns:
        The columns of `Segments` up to `end_label`; bool[count], True for odd rows; the number of inner segments whose
        last label is the first input of the next segment, and of all inner segments.
    """
    inputs, mask, labels = (np.ascontiguousarray(values[:, k]).reshape(-1) for k in range(3))
    span, position = (np.ascontiguousarray(values[:, k]).reshape(-1).astype(np.int64) for k in (3, 4))
    check_ids_of(rows, base, values[:, 0])
    width = rows.width
    begins = np.flatnonzero((position == 0) & ((mask != 0) | (span != 0)))
    lengths = span[begins] + 1
    _check_fit(rows, base, begins, lengths)
    covered = np.repeat(np.arange(len(begins)), lengths)
    ramp = np.arange(len(covered)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    where = begins[covered] + ramp
    expected_position, expected_span = np.zeros_like(position), np.zeros_like(span)
    expected_position[where] = ramp
    expected_span[where] = lengths[covered] - 1 - ramp
    wrong = (expected_position != position) | (expected_span != span)
    if wrong.any():
        raise _no_ramps(rows, base + int(np.argmax(wrong)) // width)
    ends = begins + lengths - 1
    row_of = begins // width
    closes = np.append(row_of[1:] != row_of[:-1], [True])[: len(begins)]
    real = np.zeros(len(inputs), np.bool_)
    real[where] = True
    odd = mask != real
    inside = where[where != ends[covered]]
    odd[inside] |= labels[inside] != inputs[inside + 1]
    inner = np.flatnonzero(~closes)
    packed = int(np.count_nonzero(labels[ends[inner]] == inputs[begins[inner + 1]]))
    part = (begins + base * width, lengths.astype(np.int32), closes, inputs[ends], labels[ends])
    return part, odd.reshape(-1, width).any(axis=1), (packed, len(inner))


def _check_fit(rows: Rows, base: int, begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
    """Raise CorruptError if a segment extends beyond its row, or into the next segment."""
    limits = (begins // rows.width + 1) * rows.width
    if len(begins) > 1:
        limits[:-1] = np.minimum(limits[:-1], begins[1:])
    wrong = (lengths < 1) | (lengths > limits - begins)
    if wrong.any():
        raise _no_ramps(rows, base + int(begins[np.argmax(wrong)]) // rows.width)


def _no_ramps(rows: Rows, row: int) -> CorruptError:
    path, local, offset = rows.place(row)
    return CorruptError(
        path,
        f"sample {local:,}: position_ids and attention_span do not describe segments",
        offset=offset,
        expected="positions from 0 up and spans down to 0",
        remedy="--from-opt view=samples reads the rows as they are",
    )
