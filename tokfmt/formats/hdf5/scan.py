"""One pass over samples: how much of each is real, how it begins and ends, what its mask and labels are like.

A sample is a window T of the stream: input_ids = T[:-1], labels = T[1:]. `valid` is the number of real positions, so
that T = input_ids[:valid] + [labels[valid - 1]]. The mask is a *loss* mask: its zeros may be padding, or a prompt.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError
from tokfmt.formats.hdf5.rows import Rows
from tokfmt.formats.hdf5.table import Values

IGNORED = -100
"""The label that Hugging Face collators put where no loss is counted."""

Flags = NDArray[np.bool_]


@dataclass(slots=True)
class Tally:
    """How many samples have a property, and the first of them (-1 when none has)."""

    count: int = 0
    first: int = -1

    def add(self, flags: Flags, base: int) -> None:
        """Count the samples of a block that starts at sample `base`; blocks come in order."""
        if flags.any():
            self.first = self.first if self.count else base + int(np.argmax(flags))
            self.count += int(np.count_nonzero(flags))


@dataclass(slots=True)
class Block:
    """What was found in some consecutive samples; arrays of one value a sample."""

    valid: NDArray[np.int32]
    first: Values
    last: Values
    odd_mask: Flags
    odd_labels: Flags
    unshifted: Flags
    masked_end: Flags
    votes: tuple[int, int]
    equal: int
    pairs: int


@dataclass(slots=True)
class Scan:
    """What one pass has found.

    Attributes:
        valid: int32[samples], real positions.
        first, last: input_ids[0] and labels[valid - 1] of each sample, in the dtype of the rows.
        odd: Samples whose mask is not simply 1 on what is real, or whose labels are not simply the next tokens.
        unshifted: Samples whose labels repeat input_ids.
        masked_end: Samples with real tokens after the last one that counts.
        loss, inverted: Samples that speak for 1 = counted and for 1 = padding.
        equal, pairs: Neighbouring tokens that are equal, of how many.
    """

    valid: NDArray[np.int32]
    first: Values
    last: Values
    odd: Tally = field(default_factory=Tally)
    unshifted: Tally = field(default_factory=Tally)
    masked_end: Tally = field(default_factory=Tally)
    loss: int = 0
    inverted: int = 0
    equal: int = 0
    pairs: int = 0


def scan_samples(rows: Rows, mask: str) -> tuple[Scan, bool]:
    """Look at every sample once; twice when 1 in the mask row turns out to mean padding.

    Args:
        rows: Samples of three fields.
        mask: "loss", "inverted", or "auto": what most of the padded samples say.

    Returns:
        What was found, and whether the mask is inverted.
    """
    inverted = mask == "inverted"
    found = _pass(rows, inverted)
    if mask == "auto" and found.inverted > found.loss:
        inverted = True
        found = _pass(rows, inverted)
    return found, inverted


def _pass(rows: Rows, inverted: bool) -> Scan:
    count = len(rows)
    found = Scan(np.empty(count, np.int32), np.empty(count, rows.dtype), np.empty(count, rows.dtype))
    at = 0
    for block in rows.map(lambda first, values: _look(rows, first, values, inverted)):
        stop = at + len(block.valid)
        found.valid[at:stop], found.first[at:stop], found.last[at:stop] = block.valid, block.first, block.last
        found.odd.add(block.odd_mask | block.odd_labels, at)
        found.unshifted.add(block.unshifted, at)
        found.masked_end.add(block.masked_end, at)
        found.loss += block.votes[0]
        found.inverted += block.votes[1]
        found.equal += block.equal
        found.pairs += block.pairs
        at = stop
    return found


def _look(rows: Rows, base: int, values: Values, inverted: bool) -> Block:
    inputs, mask, labels = values[:, 0], values[:, 1], values[:, 2]
    check_ids_of(rows, base, inputs)
    count, width = inputs.shape
    counted = (mask == 0) if inverted else (mask != 0)
    totals = np.count_nonzero(counted, axis=1)
    valid = np.full(count, width, np.int32)
    masked_end = np.zeros(count, np.bool_)
    votes = (0, 0)
    partly = np.flatnonzero(totals < width)
    if len(partly):
        ends = Ends(inputs[partly], labels[partly])
        valid[partly], masked_end[partly] = ends.valid(counted[partly])
        votes = ends.votes(mask[partly])
    last = labels[np.arange(count), np.maximum(valid - 1, 0)]
    odd_mask = (totals != valid) | ((mask != 0) & (mask != 1)).any(axis=1)
    within = np.arange(1, width) < valid[:, None]
    odd_labels = ((labels[:, :-1] != inputs[:, 1:]) & within).any(axis=1) | (last == IGNORED)
    unshifted = odd_labels & (~within | (labels[:, 1:] == inputs[:, 1:])).all(axis=1) & (labels[:, 0] == inputs[:, 0])
    equal = int(np.count_nonzero((inputs[:, 1:] == inputs[:, :-1]) & within))
    return Block(
        valid, inputs[:, 0].copy(), last, odd_mask, odd_labels, unshifted, masked_end, votes, equal, int(within.sum())
    )


def check_ids_of(rows: Rows, base: int, inputs: Values) -> None:
    """Raise CorruptError for the first negative input id."""
    if inputs.dtype.kind == "i" and inputs.size and int(inputs.min()) < 0:
        row, column = np.argwhere(inputs < 0)[0].tolist()
        path, local, offset = rows.place(base + row)
        where = f"sample {local:,} has a negative input id at position {column:,}, in what is stored"
        if rows.width == 1 and rows.fields == 1:
            where = f"token {local:,} is negative, in what is stored"
        raise CorruptError(
            path, where, offset=offset, expected="0 or more", found=int(inputs[row, column]),
            remedy="Write the file again",
        )  # fmt: skip


class Ends:
    """The ends of samples that are not counted throughout.

    Attributes:
        fill: The last input id, which is the padding if there is any.
        run: From which position on input_ids and labels are nothing but it (labels may be ignored, -100, as well).
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
        """Real positions of each sample, and which samples have real ones after the last that counts.

        The last token of T is no input in most files; where it is (fine-tuning), it is one more position before the
        padding, and its label is padding already.
        """
        count, width = counted.shape
        each = np.arange(count)
        last = np.where(counted.any(axis=1), width - np.argmax(counted[:, ::-1], axis=1), 0)
        fed = self._fed_after(last, each)
        clean = (last > 0) & ((self.run <= last) | ((self.run == last + 1) & fed))
        before = np.maximum(self.run - 1, 0)
        unclean = np.where((self.run >= 2) & self._fed_after(before, each), before, self.run)
        return np.where(clean, last, unclean).astype(np.int32), ~clean & (last > 0)

    def _fed_after(self, end: NDArray[np.int64], each: NDArray[np.int64]) -> Flags:
        """Whether the input at position `end` is the label before it, with padding for its own label."""
        width = self.inputs.shape[1]
        at = np.minimum(end, width - 1)
        fed = self.inputs[each, at] == self.labels[each, np.maximum(end - 1, 0)]
        return np.asarray((end < width) & (end > 0) & fed & self._padding[each, at])

    def votes(self, mask: Values) -> tuple[int, int]:
        """How many samples start with 1 and have 0 on a constant end, and the other way round."""
        padded = self.run < mask.shape[1]
        loss = padded & (mask[:, 0] == 1) & (mask[:, -1] == 0)
        inverted = padded & (mask[:, 0] == 0) & (mask[:, -1] == 1)
        return int(np.count_nonzero(loss)), int(np.count_nonzero(inverted))
