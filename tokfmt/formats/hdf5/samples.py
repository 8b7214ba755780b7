"""Read samples: scan all of them once, join their tokens to a token axis, or read them as stored.

A sample is a window T of the stream: input_ids = T[:-1], labels = T[1:]. `valid` is the number of real positions, so
that T = input_ids[:valid] + [labels[valid - 1]]. The mask is a loss mask: its zeros may be padding, or a prompt.
The scan finds `valid`, the first and the last token of each sample, and unusual masks and labels.

A *piece* is a part of one row's input_ids, with or without the label after its last token. A *run* is one or more
pieces that continue each other: a stream, or a document. No document continues from one run to the next.

Samples as stored are input_ids as a token axis, with mask, labels and the starts of VSL segments.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import (
    ByteOffset,
    Info,
    PaddingCounts,
    Separators,
    TokenReader,
    check_interval,
    check_position,
    smallest,
    windows,
)
from tokfmt.errors import CorruptError, UnsupportedError
from tokfmt.files.place import Place
from tokfmt.formats.hdf5.beginning import SampledRows
from tokfmt.formats.hdf5_arrays.table import Rows, Values
from tokfmt.model.batch import Boundaries
from tokfmt.model.readers import laid_reader
from tokfmt.model.select import Indexed, View

IGNORED = -100
"""The label of Hugging Face collators for a token without loss."""

Flags = NDArray[np.bool_]


@dataclass(slots=True)
class Tally:
    """The number of samples with a property, and the first of them (-1 without one)."""

    count: int = 0
    first: int = -1

    def add(self, flags: Flags, base: int) -> None:
        """Count the samples of a block that starts at sample `base`; blocks come in order."""
        if flags.any():
            self.first = self.first if self.count else base + int(np.argmax(flags))
            self.count += int(np.count_nonzero(flags))


@dataclass(slots=True)
class Block:
    """The result of a scan of consecutive samples; arrays have one value per sample. See `Scan`."""

    valid: NDArray[np.int32]
    first: Values
    last: Values
    padding: int
    odd_mask: Flags
    odd_labels: Flags
    unshifted: Flags
    masked_end: Flags
    votes: tuple[int, int]
    equal: int
    pairs: int


@dataclass(slots=True)
class Scan:
    """The result of a scan of all samples."""

    valid: NDArray[np.int32]  # int32[samples], number of real positions
    first: Values  # input_ids[0] of each sample, in the dtype of the rows
    last: Values  # labels[valid - 1] of each sample, in the dtype of the rows
    padding: int = 0  # number of inputs that are padding
    # samples whose mask is not 1 on all real positions, or whose labels are not the next tokens
    odd: Tally = field(default_factory=Tally)
    unshifted: Tally = field(default_factory=Tally)  # samples whose labels repeat input_ids
    masked_end: Tally = field(default_factory=Tally)  # samples with real tokens after the last one that counts
    loss: int = 0  # number of samples which show that 1 in the mask means counted
    inverted: int = 0  # number of samples which show that 1 in the mask means padding
    equal: int = 0  # number of pairs of neighboring tokens that are equal
    pairs: int = 0  # number of all pairs of neighboring tokens


def scan_samples(rows: Rows | SampledRows, mask: str) -> tuple[Scan, bool]:
    """Scan every sample once, or twice if 1 in the mask row turns out to mean padding.

    Args:
        rows: Samples with three fields.
        mask: "loss", "inverted", or "auto": as most of the padded samples show.

    Returns:
        The result, and True if the mask is inverted.
    """
    inverted = mask == "inverted"
    found = _pass(rows, inverted)
    if mask == "auto" and found.inverted > found.loss:
        inverted = True
        found = _pass(rows, inverted)
    return found, inverted


def _pass(rows: Rows | SampledRows, inverted: bool) -> Scan:
    """Scan all samples once with a known meaning of the mask."""
    count = len(rows)
    found = Scan(np.empty(count, np.int32), np.empty(count, rows.dtype), np.empty(count, rows.dtype))
    at = 0
    for block in rows.map(lambda first, values: _look(rows, first, values, inverted)):
        stop = at + len(block.valid)
        found.valid[at:stop], found.first[at:stop], found.last[at:stop] = block.valid, block.first, block.last
        found.padding += block.padding
        found.odd.add(block.odd_mask | block.odd_labels, at)
        found.unshifted.add(block.unshifted, at)
        found.masked_end.add(block.masked_end, at)
        found.loss += block.votes[0]
        found.inverted += block.votes[1]
        found.equal += block.equal
        found.pairs += block.pairs
        at = stop
    return found


def _look(rows: Rows | SampledRows, base: int, values: Values, inverted: bool) -> Block:
    """Scan consecutive samples, of which `base` is the number of the first."""
    inputs, mask, labels = values[:, 0], values[:, 1], values[:, 2]
    check_ids_of(rows, base, inputs)
    count, width = inputs.shape
    counted = (mask == 0) if inverted else (mask != 0)
    totals = np.count_nonzero(counted, axis=1)
    valid = np.full(count, width, np.int32)
    masked_end = np.zeros(count, np.bool_)
    votes, padding = (0, 0), 0
    partly = np.flatnonzero(totals < width)
    if len(partly):
        ends = Ends(inputs[partly], labels[partly])
        valid[partly], masked_end[partly] = ends.valid(counted[partly])
        padding = int((width - ends.filled(valid[partly])).sum())
        votes = ends.votes(mask[partly])
    last = labels[np.arange(count), np.maximum(valid - 1, 0)]
    odd_mask = (totals != valid) | ((mask != 0) & (mask != 1)).any(axis=1)
    within = np.arange(1, width) < valid[:, None]
    odd_labels = ((labels[:, :-1] != inputs[:, 1:]) & within).any(axis=1) | (last == IGNORED)
    unshifted = odd_labels & (~within | (labels[:, 1:] == inputs[:, 1:])).all(axis=1) & (labels[:, 0] == inputs[:, 0])
    equal = int(np.count_nonzero((inputs[:, 1:] == inputs[:, :-1]) & within))
    return Block(
        valid=valid,
        first=inputs[:, 0].copy(),
        last=last,
        padding=padding,
        odd_mask=odd_mask,
        odd_labels=odd_labels,
        unshifted=unshifted,
        masked_end=masked_end,
        votes=votes,
        equal=equal,
        pairs=int(within.sum()),
    )


def check_ids_of(rows: Rows | SampledRows, base: int, inputs: Values) -> None:
    """Raise CorruptError for the first negative input ID, [count, width]; `base` is the number of the first sample."""
    if inputs.dtype.kind == "i" and inputs.size and int(inputs.min()) < 0:
        row, column = np.argwhere(inputs < 0)[0].tolist()
        path, local, offset = rows.place(base + row)
        where = f"sample {local:,} has a negative input ID at position {column:,}, in the values stored"
        if rows.width == 1 and rows.fields == 1:
            where = f"token {local:,} is negative, in the values stored"
        raise CorruptError(
            path,
            where,
            offset=offset,
            expected="0 or more",
            found=int(inputs[row, column]),
            remedy="Write the file again",
        )


class Ends:
    """The ends of samples whose mask leaves out some positions.

    Attributes:
        fill: Last input ID of each sample, which is the padding ID if there is padding.
        run: First position from which input_ids and labels hold only that ID; labels may be -100 as well.
    """

    def __init__(self, inputs: Values, labels: Values) -> None:
        self.inputs, self.labels = inputs, labels
        self.fill = inputs[:, -1]
        width = inputs.shape[1]
        padding = (labels == self.fill[:, None]) | (labels == IGNORED)
        same = (inputs == self.fill[:, None]) & padding
        self.run = np.where(same.all(axis=1), 0, width - np.argmax(~same[:, ::-1], axis=1))
        self._padding = padding

    def valid(self, counted: Flags) -> tuple[NDArray[np.int32], Flags]:
        """Return the number of real positions of each sample, and True for samples with some after the last counted.

        The last token of T is not an input in most files. In files for fine-tuning it is: then there is one more
        position before the padding, and its label is already padding.
        """
        count, width = counted.shape
        each = np.arange(count)
        last = np.where(counted.any(axis=1), width - np.argmax(counted[:, ::-1], axis=1), 0)
        fed = self._fed_after(last, each)
        clean = (last > 0) & ((self.run <= last) | ((self.run == last + 1) & fed))
        before = np.maximum(self.run - 1, 0)
        unclean = np.where((self.run >= 2) & self._fed_after(before, each), before, self.run)
        return np.where(clean, last, unclean).astype(np.int32), ~clean & (last > 0)

    def filled(self, valid: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the number of positions before the padding of each sample, given those that `valid` returns.

        The last token of T is one of them if it is an input. If the padding ID is that token, only the label of the
        input tells: -100, as nothing follows the token, or the padding ID, as the input is padding.
        """
        each, width = np.arange(len(valid)), self.inputs.shape[1]
        found = np.maximum(valid, self.run).astype(np.int64)
        ignored = self.labels[each, np.minimum(found, width - 1)] == IGNORED
        found += ignored & self._fed_after(found, each)
        return found

    def _fed_after(self, end: NDArray[np.int64], each: NDArray[np.int64]) -> Flags:
        """Return True for samples whose input at `end` is the label before it and has padding as its own label."""
        width = self.inputs.shape[1]
        at = np.minimum(end, width - 1)
        fed = self.inputs[each, at] == self.labels[each, np.maximum(end - 1, 0)]
        return np.asarray((end < width) & (end > 0) & fed & self._padding[each, at])

    def votes(self, mask: Values) -> tuple[int, int]:
        """Return the numbers of padded samples whose mask leaves out the padding, and whose mask marks it.

        A run of one ID is no padding, and neither is one that an answer ends with: then the prompt begins with 0 and
        the answer ends with 1, as in an inverted mask, but 1 begins before the run. Most samples decide.
        """
        padded = self.run < mask.shape[1] - 1
        loss = padded & (mask == 1).any(axis=1) & (mask[:, -1] == 0)
        at_run = np.argmax(mask == 1, axis=1) >= self.run - 1  # One token before it may be padding of the labels.
        inverted = padded & (mask[:, 0] == 0) & (mask[:, -1] == 1) & at_run
        return int(np.count_nonzero(loss)), int(np.count_nonzero(inverted))


@dataclass(frozen=True, slots=True)
class Pieces:
    """The tokens of rows that make up the axis, in order. A piece never extends beyond its row."""

    # int64[pieces], index of the first input of each among all inputs (row * width + column); None if piece i is row i
    # from column `skip` on
    begins: NDArray[np.int64] | None
    skip: int  # inputs that are left out at the start of each row if `begins` is None
    lengths: NDArray[np.int32]  # int32[pieces], tokens in each, with the label
    tail: Flags  # bool[pieces], True if the last token is the label after the last input
    opens: Flags  # bool[pieces], True if a run begins here


class Runs(TokenReader):
    """Read the tokens of pieces as an axis of runs. Picklable; several threads may share it.

    Args:
        rows: Rows that hold the tokens.
        pieces: Parts of the rows that make up the axis.
        ignored: Token ID that a label of -100 at the end of a piece stands for; None if unknown.
        plain: Check on every read that samples are plain: mask 1 on real positions, labels the next tokens. Needed if
            no scan has seen them.
        info: Info without dtype and counts.
        padding: Number of inputs that hold padding.

    Attributes:
        masked: True if the mask of plain samples may leave out any real position.
    """

    masked = False

    def __init__(
        self, rows: Rows, pieces: Pieces, *, ignored: int | None, plain: bool, info: Info, padding: int
    ) -> None:
        self.rows, self.ignored, self.plain, self.padding = rows, ignored, plain, padding
        self._begins, self._skip, self._tail = pieces.begins, pieces.skip, pieces.tail
        self._offsets = offsets_of(pieces.lengths)
        openings = np.flatnonzero(pieces.opens)
        if len(openings) == len(pieces.opens):
            self._runs = self._offsets
        else:
            self._runs = np.append(self._offsets[openings], self._offsets[-1])
        dtype = np.dtype(f"u{rows.dtype.itemsize}")
        if ignored is not None:
            dtype = np.promote_types(dtype, smallest(ignored))
        self.info = replace(info, dtype=dtype, sequences=len(self._runs) - 1, tokens=int(self._offsets[-1]))

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return self._runs[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        out = np.empty(stop - start, self.info.dtype)
        if start == stop:
            return out
        first = int(np.searchsorted(self._offsets, start, side="right")) - 1
        last = int(np.searchsorted(self._offsets, stop, side="left"))
        for a, b in windows(self._row(first), self._row(last - 1) + 1, self.rows.together):
            low, high = max(first, self._piece_from(a)), min(last, self._piece_from(b))
            base, end = int(self._offsets[low]), int(self._offsets[high])
            tokens = self._assembled(self.rows.read(a, b), a, low, high)
            left, right = max(start, base), min(stop, end)
            out[left - start : right - start] = tokens[left - base : right - base]
        return out

    def padding_counts(self) -> PaddingCounts:
        """Return the amount of padding in the rows; see `TokenReader.padding_counts`."""
        width = self.rows.width
        return PaddingCounts(self.padding, len(self.rows) * width, sample_length=width)

    def check_ends_before(self, following: object, eos_id: int | None) -> None:
        """See `TokenReader.check_ends_before`. Attributes of tokfmt's own files state where streams end."""
        following = _runs_of(following)
        if following is None or not (self.overlaps and following.overlaps):
            return
        last, tokens, width = self._offsets[-2:], self.info.tokens, self.rows.width
        if not following.info.tokens or width != following.rows.width or len(last) < 2 or last[1] - last[0] <= width:
            return
        shared = self.tokens(tokens - 1, tokens).item()
        if shared == following.tokens(0, 1).item() != eos_id:
            raise torn(self.rows.place(len(self.rows) - 1)[0], following.rows.place(0)[0])

    @property
    def overlaps(self) -> bool:
        """True if tokfmt inferred that samples overlap, instead of reading it from attributes."""
        return not self.plain and self.info.extras.get("stride") == "overlap"

    def _row(self, piece: int) -> int:
        return piece if self._begins is None else int(self._begins[piece]) // self.rows.width

    def _piece_from(self, row: int) -> int:
        """Return the first piece of a row, or of a later row if it has none."""
        return row if self._begins is None else int(np.searchsorted(self._begins, row * self.rows.width))

    def _assembled(self, values: Values, row: int, low: int, high: int) -> Tokens:
        """Return the tokens of pieces `low <= i < high`, all of them in `values`, which are the rows from `row` on."""
        inputs, labels, width = values[:, 0], values[:, 2], self.rows.width
        check_ids_of(self.rows, row, inputs)
        lengths, tail = np.diff(self._offsets[low : high + 1]), self._tail[low:high]
        if self.plain:
            self._check_plain(values, row, lengths - tail)
        if self._begins is None and not self._skip and bool((lengths - tail == width).all()) and not tail.any():
            return unsigned(inputs.reshape(-1))
        if self._begins is None:
            begins = np.arange(low - row, high - row, dtype=np.int64) * width + self._skip
        else:
            begins = self._begins[low:high] - row * width
        ends = np.cumsum(lengths)
        index = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(begins - (ends - lengths), lengths)
        tailed = np.flatnonzero(tail)
        index[ends[tailed] - 1] -= 1  # a tail is a label, and its index may be beyond the inputs; it is replaced below
        out = unsigned(inputs.reshape(-1)[index])
        closing = labels.reshape(-1)[begins[tailed] + lengths[tailed] - 2]
        out = out.astype(self.info.dtype, copy=False)
        out[ends[tailed] - 1] = self._labels(closing, row + (begins[tailed] + lengths[tailed] - 2) // width)
        return out

    def _labels(self, labels: Values, rows: NDArray[np.int64]) -> Tokens:
        """Return labels as token IDs, with `ignored` in place of -100."""
        if labels.dtype.kind == "u" or not len(labels) or int(labels.min()) >= 0:
            return unsigned(labels)
        wrong = np.flatnonzero(labels < 0)
        for k in wrong[labels[wrong] != IGNORED][:1].tolist():
            path, local, offset = self.rows.place(int(rows[k]))
            raise CorruptError(
                path,
                f"sample {local:,} has a negative label",
                offset=offset,
                found=int(labels[k]),
                remedy="Write the file again",
            )
        if self.ignored is None:
            path, local, _ = self.rows.place(int(rows[wrong[0]]))
            raise UnsupportedError(
                path,
                f"the last label of sample {local:,} is {IGNORED} (no loss there), so the token is not stored",
                remedy="Give the token ID of such labels with --eos ID",
            )
        return np.where(labels == IGNORED, self.ignored, labels).astype(self.info.dtype)

    def _check_plain(self, values: Values, row: int, valid: NDArray[np.int64]) -> None:
        """Raise CorruptError for the first sample whose mask or labels are not plain."""
        inputs, mask, labels = values[:, 0], values[:, 1], values[:, 2]
        width = self.rows.width
        odd = (mask >> 1 != 0) if self.masked else (mask != 1)
        if bool((valid == width).all()):
            wrong = odd.any(axis=1) | (labels[:, :-1] != inputs[:, 1:]).any(axis=1)
        else:
            real = np.arange(width) < valid[:, None]
            shifted = (labels[:, :-1] == inputs[:, 1:]) | ~real[:, 1:]
            wrong = np.where(real, odd, mask != 0).any(axis=1) | ~shifted.all(axis=1)
        if wrong.any():
            path, local, offset = self.rows.place(row + int(np.argmax(wrong)))
            raise CorruptError(
                path,
                f"sample {local:,} contradicts the file's attributes: its mask or its labels differ",
                offset=offset,
                remedy="--from-opt stride=overlap or stride=disjoint reads it without the attributes",
            )

    def locate(self, position: int) -> ByteOffset:
        check_position(position, self.info.tokens)
        piece = int(np.searchsorted(self._offsets, position, side="right")) - 1
        begin, within = self._begin(piece), position - int(self._offsets[piece])
        row, column = divmod(begin + within, self.rows.width)
        if self._tail[piece] and position + 1 == int(self._offsets[piece + 1]):
            row, column = divmod(begin + within - 1, self.rows.width)
            return self.rows.value_offset(row, 2, column)
        return self.rows.value_offset(row, 0, column)

    def find(self, place: Place, byte: int) -> int | None:
        region = self.rows.region(place, byte)
        if region is None:
            return None
        low, high = self._piece_from(region.rows.start), self._piece_from(region.rows.stop)
        bounds, tail = self._offsets[low : high + 1], self._tail[low:high]
        begins = np.arange(low, high) * self.rows.width + self._skip if self._begins is None else self._begins[low:high]
        column, inputs = begins % self.rows.width, np.diff(bounds) - tail
        found = []
        if 0 in region.fields:
            first = np.maximum(column, region.columns.start)
            there = first < np.minimum(column + inputs, region.columns.stop)
            found.append((bounds[:-1] + first - column)[there])
        if 2 in region.fields:
            label = (begins + inputs - 1) % self.rows.width
            found.append(bounds[1:][tail & (label >= region.columns.start) & (label < region.columns.stop)] - 1)
        positions = np.concatenate(found) if found else np.empty(0, np.int64)
        return int(positions.min()) if len(positions) else None

    def _begin(self, piece: int) -> int:
        """Return the index of a piece's first input among all inputs."""
        return piece * self.rows.width + self._skip if self._begins is None else int(self._begins[piece])

    def close(self) -> None:
        self.rows.close()


class MaskedRuns(Runs):
    """Runs of overlapping samples with a loss mask: the mask of a token is at the position before it.

    Args:
        rows: Rows that hold the tokens.
        pieces: Piece i is row i.
        firsts: `first_mask` of each file: 1 if its first token counts; None if its mask leaves out no token.
        info: Info without dtype and counts.
        padding: Number of inputs that hold padding.
    """

    masked = True

    def __init__(self, rows: Rows, pieces: Pieces, firsts: Sequence[int | None], *, info: Info, padding: int) -> None:
        super().__init__(rows, pieces, ignored=None, plain=True, info=info, padding=padding)
        self._opens, self._firsts = pieces.opens, np.array([first != 0 for first in firsts])

    def marks(self, start: int, stop: int) -> NDArray[np.uint8]:
        check_interval(start, stop, self.info.tokens)
        out, width = np.empty(stop - start, np.uint8), self.rows.width
        first, last = int(np.searchsorted(self._offsets, start, side="right")) - 1, 0
        if start < stop:
            last = int(np.searchsorted(self._offsets, stop))
        for a, b in windows(first, last, self.rows.together):
            low = max(a - 1, 0)
            mask = self.rows.read(low, b)[:, 1] != 0
            counts = np.empty((b - a, width + 1), np.bool_)
            files = np.searchsorted(self.rows.starts, np.arange(a, b), side="right") - 1
            before = np.append(np.zeros(int(a == low), np.bool_), mask[: b - 1 - low, -1])
            counts[:, 0] = np.where(self._opens[a:b], self._firsts[files], before)
            counts[:, 1:] = mask[a - low :]
            bounds = self._offsets[a : b + 1]
            flat = counts[np.arange(width + 1) < np.diff(bounds)[:, None]]
            left, right = max(start, int(bounds[0])), min(stop, int(bounds[-1]))
            out[left - start : right - start] = flat[left - int(bounds[0]) : right - int(bounds[0])]
        return out


def _runs_of(reader: object) -> Runs | None:
    """Return the runs under a reader of samples; None for another one."""
    while isinstance(reader, View):
        reader = reader.runs if isinstance(reader, Stream) else reader.source
    return reader if isinstance(reader, Runs) else None


def torn(before: Place, after: Place) -> UnsupportedError:
    """Return the error for overlapping samples that may continue in another directory, or share a token by chance."""
    return UnsupportedError(
        after,
        f"begins with the token that {before} ends with, as overlapping samples of one stream do",
        remedy="Give the files themselves with --from-opt order=given to join them, or read the directories one by one",
    )


def unsigned(values: Values) -> Tokens:
    """Return IDs that were checked not to be negative as unsigned integers of the same width."""
    return values.view(f"u{values.dtype.itemsize}")


class _Openings(Indexed):
    """View of runs, joined to one where a separator is between them."""

    def __init__(self, runs: TokenReader, ends: NDArray[np.integer], eos_id: int) -> None:
        offsets = runs.offsets(0, runs.info.sequences)
        inner = offsets[1:-1]
        opens = inner[(ends != eos_id) & (inner > offsets[:-2]) & (inner < offsets[-1])]
        self._offsets = np.concatenate((offsets[:1], opens, offsets[-1:][: runs.info.tokens]))
        super().__init__(runs, replace(runs.info, sequences=len(self._offsets) - 1))


class Stream(View):
    """View of runs as one stored stream in which no document spans two runs.

    A separator is inserted between two runs if the first does not end with one.
    """

    inserts_separators = True

    def __init__(self, runs: TokenReader, ends: NDArray[np.integer], eos_id: int) -> None:
        """Insert separators.

        Args:
            runs: The runs. Those without tokens are left out.
            ends: Last token of each run but the last; any number for a run without tokens.
            eos_id: The separator.
        """
        openings = _Openings(runs, ends, eos_id)
        axis = laid_reader(openings, Boundaries(eos_id, "after"))
        self.runs, self._inserted = runs, (axis.offsets(0, openings.info.sequences) - 1)[1:-1]
        tokens = runs.info.tokens + len(self._inserted)
        info = replace(axis.info, tokens=tokens, sequences=int(tokens > 0), separators=Separators.BETWEEN)
        super().__init__(axis, info)

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        return self.source.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return np.asarray([0, self.info.tokens], np.int64)[first : last + 1]

    def is_inserted(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.isin(positions, self._inserted)

    def check_ends_before(self, following: object, eos_id: int | None) -> None:
        self.runs.check_ends_before(following, eos_id)

    def padding_counts(self) -> PaddingCounts:
        """See `TokenReader.padding_counts`. The padding is in the runs, and separators are between them."""
        below = self.runs.padding_counts() or PaddingCounts(None, self.runs.info.tokens)
        return replace(below, separators=len(self._inserted))


class FirstSamples(View):
    """View of the first samples of a long dataset, of which only the number of samples is known.

    Args:
        reader: Reader of the first samples.
        rows: All samples.
    """

    def __init__(self, reader: TokenReader, rows: Rows) -> None:
        super().__init__(reader, replace(reader.info, beginning=True, odd=None))
        self._counts = PaddingCounts(None, len(rows) * rows.width, sample_length=rows.width)

    def padding_counts(self) -> PaddingCounts:
        """Return the positions of all samples; see `TokenReader.padding_counts`."""
        return self._counts


class Corpus(TokenReader):
    """Read the tokens of rank-1 datasets. Each file is a run, unless it continues the file before it."""

    def __init__(self, rows: Rows, opens: Flags, info: Info) -> None:
        self.rows = rows
        self._runs = np.append(rows.starts[:-1][opens], rows.starts[-1])
        self.info = replace(
            info, dtype=np.dtype(f"u{rows.dtype.itemsize}"), sequences=len(self._runs) - 1, tokens=len(rows)
        )

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return self._runs[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        values = self.rows.read(start, stop)
        check_ids_of(self.rows, start, values[:, 0])
        return unsigned(values.reshape(-1))

    def locate(self, position: int) -> ByteOffset:
        check_position(position, self.info.tokens)
        return self.rows.value_offset(position, 0, 0)

    def find(self, place: Place, byte: int) -> int | None:
        region = self.rows.region(place, byte)
        return None if region is None else region.rows.start

    def close(self) -> None:
        self.rows.close()


_STORED = np.dtype(np.int64)
_PLACES = 64
"""Number of samples that are read to infer the meaning of the mask."""


class Samples(TokenReader):
    """Read the input_ids of every sample, `width` tokens each, with padding.

    The reader keeps the rows that it read last, so that mask and labels of the same tokens need no second read.
    """

    def __init__(self, rows: Rows, info: Info) -> None:
        self.rows = rows
        self.info = replace(
            info, dtype=np.dtype(f"u{rows.dtype.itemsize}"), sequences=len(rows), tokens=len(rows) * rows.width
        )
        self._kept: tuple[int, Values] | None = None

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return np.arange(first, last + 1, dtype=np.int64) * self.rows.width

    def tokens(self, start: int, stop: int) -> Tokens:
        return self._column(start, stop, 0, self.info.dtype)

    def _column(self, start: int, stop: int, field: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return one field of the rows for positions `start <= p < stop`."""
        check_interval(start, stop, self.info.tokens)
        out, width = np.empty(stop - start, dtype), self.rows.width
        for a, b in windows(start // width, -(-stop // width) if stop > start else start // width, self.rows.together):
            values = self._rows(a, b)[:, field]
            if not field:
                check_ids_of(self.rows, a, values)
                values = unsigned(values)
            left, right = max(start, a * width), min(stop, b * width)
            out[left - start : right - start] = values.reshape(-1)[left - a * width : right - a * width]
        return out

    def _rows(self, first: int, last: int) -> Values:
        """Return rows `first <= i < last`, from the rows that were read last if they hold them."""
        kept = self._kept
        if kept is None or not kept[0] <= first <= last <= kept[0] + len(kept[1]):
            kept = self._kept = first, self.rows.read(first, last)
        return kept[1][first - kept[0] : last - kept[0]]

    def locate(self, position: int) -> ByteOffset:
        check_position(position, self.info.tokens)
        row, column = divmod(position, self.rows.width)
        return self.rows.value_offset(row, 0, column)

    def find(self, place: Place, byte: int) -> int | None:
        found = self.rows.region(place, byte)
        inside = found is not None and 0 in found.fields
        return found.rows.start * self.rows.width + found.columns.start if found and inside else None

    def close(self) -> None:
        self._kept = None
        self.rows.close()

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_kept": None}


class MaskedSamples(Samples):
    """Read samples with mask and labels.

    Args:
        rows: Rows of three or five fields.
        info: Info without dtype and counts.
        mask: "loss", "inverted", or "auto" to infer the meaning of the mask from some samples on first use.
        filled: Positions before the padding of each padded sample, if the file states them; None if it does not.
    """

    has_labels = True

    def __init__(self, rows: Rows, info: Info, mask: str, filled: Mapping[int, int] | None = None) -> None:
        super().__init__(rows, info)
        self._mask, self._filled = mask, filled

    def masks(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return 1 where the label counts, also for inverted masks; values other than 0 and 1 (loss weights) count."""
        mask = self._column(start, stop, 1, _STORED)
        counted: NDArray[np.uint8] = ((mask == 0) if self.inverted else (mask != 0)).astype(np.uint8)
        return counted

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return labels as stored: int64[stop - start]."""
        return self._column(start, stop, 2, _STORED)

    def is_padding(self, start: int, stop: int) -> Flags:
        """See `TokenReader.is_padding`. The documents of the same file leave out the same positions."""
        return self._flags(start, stop, self._padding)

    def _padding(self, first: int, values: Values) -> Flags:
        """Return bool[rows, width], True at padding, for the rows from `first` on."""
        count, width = len(values), self.rows.width
        if self._filled is not None:
            filled = np.array([self._filled.get(first + row, width) for row in range(count)], np.int64)
        else:
            counts = (values[:, 1] == 0) if self.inverted else (values[:, 1] != 0)
            ends = Ends(values[:, 0], values[:, 2])
            filled = np.where(counts.all(axis=1), width, ends.filled(ends.valid(counts)[0]))
        return np.arange(width) >= filled[:, None]

    def targets(self, start: int, stop: int) -> Flags:
        """See `TokenReader.targets`. In a sample whose labels are not shifted, each token is its own label."""
        return self._flags(start, stop, self._targets)

    def _targets(self, first: int, values: Values) -> Flags:  # noqa: ARG002
        """Return bool[rows, width], True at trained tokens."""
        inputs, mask, labels = values[:, 0], values[:, 1], values[:, 2]
        counts = ((mask == 0) if self.inverted else (mask != 0)) & (labels != IGNORED)
        own, following = counts & (labels == inputs), np.zeros(counts.shape, np.bool_)
        following[:, 1:] = counts[:, :-1] & (labels[:, :-1] == inputs[:, 1:])
        shifted = np.count_nonzero(following, axis=1) >= np.count_nonzero(own, axis=1)
        return np.where(shifted[:, None], following, own)

    def _flags(self, start: int, stop: int, of_rows: Callable[[int, Values], Flags]) -> Flags:
        """Return flags for positions `start <= p < stop`, given those of complete rows."""
        check_interval(start, stop, self.info.tokens)
        width, found = self.rows.width, [np.empty(0, np.bool_)]
        first, last = start // width, -(-stop // width) if stop > start else start // width
        found += [of_rows(a, self._rows(a, b)).reshape(-1) for a, b in windows(first, last, self.rows.together)]
        return np.concatenate(found)[start - first * width : stop - first * width]

    def marks(self, start: int, stop: int) -> NDArray[np.uint8]:
        from tokfmt.core.loss_mask import beside_samples

        check_interval(start, stop, self.info.tokens)
        return beside_samples(self, start, stop)

    @property
    def inverted(self) -> bool:
        """True if 1 in the mask row means padding, as most of the inspected samples show.

        These are up to 64 samples spread over the dataset, and the last samples of up to 64 files, which are the most
        likely to be padded. If none is padded, samples with a mask of zeros count as inverted: they would be useless
        otherwise.
        """
        if self._mask == "auto":
            loss, inverted, zeros, ones = 0, 0, 0, 0
            looked_at = self._looked_at()
            for a, b in windows(0, len(looked_at), self.rows.together):
                for values in self.rows.several([(row, row + 1) for row in looked_at[a:b]]):
                    votes = Ends(values[:, 0], values[:, 2]).votes(values[:, 1])
                    loss, inverted = loss + votes[0], inverted + votes[1]
                    zeros, ones = zeros + (not values[:, 1].any()), ones + bool(values[:, 1].any())
            self._mask = "inverted" if inverted > loss or (inverted == loss and zeros > ones) else "loss"
        return self._mask == "inverted"

    def _looked_at(self) -> list[int]:
        count = len(self.rows)
        spread = np.linspace(0, count - 1, min(count, _PLACES)).astype(np.int64).tolist()
        ends = [b - 1 for a, b in itertools.pairwise(self.rows.starts.tolist()) if a < b]
        return sorted({*spread, *ends[:: max(1, -(-len(ends) // _PLACES))]})


class PackedSamples(MaskedSamples):
    """Read packed sequences (VSL): samples of several segments, whose starts position_ids mark."""

    has_begins = True

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return True where a segment begins: position_ids is 0, and the position is not padding (mask 0, span 0)."""
        positions, spans, mask = (self._column(start, stop, field, _STORED) for field in (4, 3, 1))
        begins: NDArray[np.bool_] = (positions == 0) & ((mask != 0) | (spans != 0))
        return begins

    def _padding(self, first: int, values: Values) -> Flags:  # noqa: ARG002
        return np.asarray((values[:, 1] == 0) & (values[:, 3] == 0) & (values[:, 4] == 0))
