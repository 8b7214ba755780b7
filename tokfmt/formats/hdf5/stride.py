"""How neighbouring samples continue each other, where the file does not say: what the tokens show.

    overlap    windows of width + 1 tokens start every width tokens: the last label is the next sample's first input
    disjoint   they start every width + 1 tokens
    bos        every sample is a block of width tokens as labels; input_ids are the same block behind a BOS
    per-document   no sample goes on in the next
    rows       nothing shows how they continue each other; see `core.rows`

With r = share of neighbours of which the first is full and whose tokens link up, chance = share of all first inputs and
last labels that are the same, adj = share of equal neighbouring tokens inside samples (0.27 in source code with its
runs of spaces, so no fixed limit works):

    bos        every first input is the same, every sample is full, r < 1/2, and blocks follow each other
    overlap    r >= 0.9, or r >= 0.5 in padded data, and more than half of what chance leaves
    shuffled   first inputs and last labels are the same multiset, far beyond chance
    disjoint   r <= adj + (1 - adj) / 4, and windows follow each other
    mixed      r is larger than that
    rows       otherwise

Windows follow each other if the two tokens at their borders stand side by side inside other samples too, as often as
neighbours inside samples do, and far more often than if windows are put in another order. Ids of text show that in a
few dozen samples; random ids never do.

Packed sequences (VSL) are several segments in a row, told apart by position_ids and attention_span. A segment starts
where position_ids is 0; its length is attention_span there plus 1. Padding is mask 0, span 0 and position 0. Two rules
for labels are in use, and only the tokens tell which:

    per segment   labels shift inside each segment: T = its inputs and the label after the last one
    whole pack    labels shift over the whole row: the label after a segment is the next one's first input, so T is its
                  inputs alone, and only the last segment of a row has a label of its own at the end
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError
from tokfmt.core.messages import from_option
from tokfmt.core.rows import ROWS, Continuation
from tokfmt.formats.hdf5.beginning import Some
from tokfmt.formats.hdf5.samples import Pieces, Scan, Tally, check_ids_of
from tokfmt.formats.hdf5.table import Rows, Values

FEWEST_PAIRS = 4
_BORDERS, _MOST_BORDERS, _TURNS, _SIGMAS = 16, 4096, 32, 5
"""Borders that tell anything, and those looked at; other orders to compare with; how much more than these counts."""
_FOLLOW = ", and tokens at their borders follow each other as those inside do"
_STRETCHES, _LOOKED_AT = 64, 1 << 21
"""Samples are looked at in so many places, and so many of their tokens."""

Flags = NDArray[np.bool_]


def continued(scan: Scan, groups: NDArray[np.int64], width: int) -> Flags:
    """bool[samples]: a full sample with a real one after it in the same stream.

    Args:
        scan: Of all samples.
        groups: int64[streams + 1], first samples of the streams.
        width: Tokens in a sample.
    """
    flags = np.zeros(len(scan.valid), np.bool_)
    flags[:-1] = (scan.valid[:-1] == width) & (scan.valid[1:] > 0)
    ends = groups[1:] - 1
    flags[ends[ends >= 0]] = False
    return flags


def linked(scan: Scan) -> Flags:
    """bool[samples]: the last label is the first input of the next sample."""
    flags = np.zeros(len(scan.valid), np.bool_)
    flags[:-1] = scan.last[:-1] == scan.first[1:]
    return flags


def judge(rows: Rows | Some, scan: Scan, groups: NDArray[np.int64]) -> Continuation:
    """What the samples show: a stride, "shuffled", `ROWS`, or "few" or "mixed" if it cannot be told."""
    width = rows.width
    on = continued(scan, groups, width)
    pairs = int(np.count_nonzero(on))
    if not pairs:
        return Continuation("per-document", "no full sample is followed by another")
    links = int(np.count_nonzero(on & linked(scan)))
    if pairs < FEWEST_PAIRS:
        few = f"{pairs} of its samples have a neighbour to go on in, too few to tell"
        return Continuation("few", few) if links else Continuation(ROWS, few, "disjoint")
    r, adj = links / pairs, scan.equal / max(1, scan.pairs)
    full = scan.valid == width
    share = f"{r:.1%} of {pairs:,} neighbouring samples share a token"
    if r < 0.5 and full.all() and (scan.first == scan.first[0]).all():
        begin, follows = f"every sample begins with {int(scan.first[0])}, and {share}", follow(rows, on, skip=1)
        return Continuation("bos", begin + _FOLLOW) if follows else Continuation(ROWS, begin, "bos")
    by_chance = chance(scan.first[full], scan.last[full])
    if r >= (0.9 if full.all() else 0.5):
        beyond = r > (1 + by_chance) / 2
        return Continuation("overlap", share) if beyond else Continuation(ROWS, share, "overlap")
    distance, expected = multiset_distance(scan.first[full], scan.last[full])
    if distance <= 0.05 and distance <= expected / 4:
        return Continuation("shuffled", f"{share}, yet first and last tokens of all samples are the same but for "
                                        f"{distance / 2:.1%}")  # fmt: skip
    if r <= adj + (1 - adj) / 4:
        follows = follow(rows, on)
        return Continuation("disjoint", share + _FOLLOW) if follows else Continuation(ROWS, share, "disjoint")
    return Continuation("mixed", f"{share}: too many for separate windows, too few for overlapping ones")


def chance(a: Values, b: Values) -> float:
    """How often an id of one multiset is that of another if both are drawn at random."""
    (ids_a, often_a), (ids_b, often_b) = (np.unique(ids, return_counts=True) for ids in (a, b))
    _, in_a, in_b = np.intersect1d(ids_a, ids_b, assume_unique=True, return_indices=True)
    shares = often_a[in_a].astype(np.float64) * often_b[in_b]
    return float(shares.sum()) / max(1, len(a) * len(b))


def follow(rows: Rows | Some, on: Flags, *, skip: int = 0) -> bool:
    """Whether the tokens at the borders of samples follow each other as neighbours inside samples do.

    Args:
        rows: Samples of three fields; some of them are read.
        on: Which are full and have a neighbour to go on in.
        skip: Inputs at the start of each that are no tokens of the stream.
    """
    inside, ends, begins = _neighbours(rows, on, skip)
    if len(ends) < _BORDERS or not len(inside):
        return False
    some = np.unique(np.linspace(0, len(ends) - 1, _MOST_BORDERS).astype(np.int64))
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


def _neighbours(
    rows: Rows | Some, on: Flags, skip: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Pairs inside of some full samples, and the tokens on both sides of the borders between them."""
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
    """How different two multisets of n ids are, 0..2, and what to expect when the ids are dealt out by chance."""
    (ids_a, often_a), (ids_b, often_b) = (np.unique(ids, return_counts=True) for ids in (a, b))
    ids = np.union1d(ids_a, ids_b)
    in_a, in_b = np.zeros((2, len(ids)), np.int64)
    in_a[np.searchsorted(ids, ids_a)] = often_a
    in_b[np.searchsorted(ids, ids_b)] = often_b
    sizes, often = np.unique(in_a + in_b, return_counts=True)
    expected = sum(_walk(size) * times for size, times in zip(sizes.tolist(), often.tolist(), strict=True))
    return float(np.abs(in_a - in_b).sum()) / max(1, len(a)), expected / max(1, len(a))


def _walk(steps: int) -> float:
    """Mean distance from the start of a random walk of that many steps of one: of `steps` coins, heads minus tails."""
    half = (steps + 1) // 2
    return 2 * half * math.exp(math.lgamma(2 * half + 1) - 2 * math.lgamma(half + 1) - 2 * half * math.log(2))


@dataclass(frozen=True, slots=True)
class Joined:
    """Pieces, and what was met on the way.

    Attributes:
        pieces: One a sample.
        broken: Overlapping samples that do not link up with the next one of their stream, though both are full.
    """

    pieces: Pieces
    broken: int


def join(scan: Scan, groups: NDArray[np.int64], width: int, stride: str) -> Joined:
    """Runs of samples.

    Args:
        scan: What is known of each sample.
        groups: int64[streams + 1], first samples of the streams.
        width: Tokens in a sample.
        stride: overlap, disjoint, bos or per-document.
    """
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
    """Pieces of samples whose places in the stream are known from the files' attributes.

    Args:
        starts: int64[files + 1], number of each file's first sample.
        width: Tokens in a sample.
        step: Tokens of the stream from one sample to the next: width (overlap) or width + 1 (disjoint).
        ends: Of each file, tokens of the stream from its first sample to the stream's end.
        opens_at: Whether a run begins with the file.
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
    """The file that holds a row."""
    return int(np.searchsorted(starts, row, side="right")) - 1


@dataclass(slots=True)
class Segments:
    """The segments of all rows, in order; arrays of one value a segment.

    Attributes:
        begins: int64, position of the first input among all inputs.
        inputs: int32, how many there are.
        closes: bool, the last one of its row.
        end_input, end_label: Its last input, and the label there.
        odd: Rows with a mask that is not 1 on all segments, or with labels that are not the next tokens.
        whole_pack: The label rule.
    """

    begins: NDArray[np.int64]
    inputs: NDArray[np.int32]
    closes: Flags
    end_input: Values
    end_label: Values
    odd: Tally
    whole_pack: bool


def scan_segments(rows: Rows) -> Segments:
    """Find all segments in one pass.

    Raises:
        CorruptError: Positions and spans of a row are not ramps.
    """
    found, odd, at, packed, inner = [], Tally(), 0, 0, 0
    for part, wrong, (yes, of) in rows.map(lambda first, values: look_for_segments(rows, first, values)):
        found.append(part)
        odd.add(wrong, at)
        at, packed, inner = at + len(wrong), packed + yes, inner + of
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    begins, inputs, closes, end_input, end_label = columns
    return Segments(begins, inputs, closes, end_input, end_label, odd, whole_pack=2 * packed > inner)


def pieces_of(segments: Segments, eos_id: int | None) -> Pieces:
    """The segments as runs of one piece each, without the separator at the end of those that have it."""
    tail = segments.closes.copy() if segments.whole_pack else np.ones(len(segments.begins), np.bool_)
    lengths = segments.inputs + tail.astype(np.int32)
    if eos_id is not None:
        ends = np.where(tail, segments.end_label, segments.end_input) == eos_id
        lengths -= ends.astype(np.int32)
        tail &= ~ends
    return Pieces(segments.begins, 0, lengths, tail, np.ones(len(lengths), np.bool_))


Part = tuple[NDArray[np.int64], NDArray[np.int32], Flags, Values, Values]


def look_for_segments(rows: Rows, base: int, values: Values) -> tuple[Part, Flags, tuple[int, int]]:
    """Segments of some rows; which rows are odd; how many inner segments end with the next one's first input."""
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
    """Every segment ends in its row and before the next one begins."""
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
        remedy=f"{from_option('view', 'samples')} reads the rows as they are",
    )
