"""Marks: one byte per token that states whether it counts in the loss, and whether a document begins with it.

    TARGET      1  the token counts as a target: mask[i] describes token i itself
    MASKED_END  2  the separator after it, which was removed, does not count
    BEGINS      4  a document begins with it, in rows that hold several documents
    OTHER       8  its label is another ID; a reader raises an error for it
    UNENDED    16  no separator is after it, and one that is added does not count: the data does not train it
    PADDING    32  it fills up a row, and is no content

Formats that store a mask of *labels* describe, at each token, the next token. `beside_samples` shifts their masks by
one. The separator of an empty sequence has no token before it that could be marked, so it counts. One that is added
to a document with a mask does not count, because no data states it. Before the first byte is written,
`commands.convert.losses` counts what marks cannot express.

Views, conversions, losses, `--verify` and recipes see marks alone. The encoding of a mask is known only to the reader
and the writer of a format:

    Encoding                                   is decoded in                        is encoded in
    a byte 0 or 1 per token, in a second file  core/annotation.py `mask_bytes`      core/annotation.py `bytes_of_marks`
    labels, positions and masks of rows        model/rows.py `with_columns`         core/loss_mask.py `beside_ids`
    packed rows of Megatron-Bridge             model/rows.py `with_columns`         core/loss_mask.py `of_next`
    a mask and labels of each sample           core/loss_mask.py `beside_samples`   formats/hdf5/writer.py `_blocks`
    what the assistant says in chats           text/chats.py `_marks`               -
    none, made by a recipe                     mix/samples.py `marks`

To give a format a mask, define `marks` on its reader (`TokenReader.marks`), call `source.marks(a, b)` in its
writer, and set `WriterTraits.keeps_masks`. A flat format needs only `FileLayout.masks` and `FlatWriter.mask_file`.
Records (`core.records`) return marks with their IDs, and state them in `RecordInfo.loss_masks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.core.reader import TokenReader, windows
from tokfmt.errors import ConversionError, UnsupportedError
from tokfmt.files.place import Place

TARGET, MASKED_END, BEGINS, OTHER, UNENDED, PADDING = 1, 2, 4, 8, 16, 32
IGNORED = -100
"""The label that losses of PyTorch ignore."""

LABELS, MASKS = "labels", ("completion_mask", "assistant_masks")
"""Names beside `input_ids` of Hugging Face's labels (the ID of the token, or -100), and of TRL's masks of tokens."""
POSITIONS, LENGTHS = "position_ids", "seq_lengths"
"""Names beside `input_ids` of packed rows: positions that begin at 0 in each document, or the lengths of documents."""
ATTENTION, STARTS = "attention_mask", "seq_start_id"
"""Names beside `input_ids` of what excludes padding, and of the starts of documents in rows of Megatron-Bridge."""
LOSS_MASK = "loss_mask"
"""A name of masks that speak of the ID itself or, as those of Megatron-LM, of the ID after it: an option decides."""
COUNTING = (LABELS, *MASKS, LOSS_MASK)
"""Names of labels and masks, which state the tokens that count in the loss."""
MASK_OPTION = "--from-opt loss_mask=own (of each ID) or loss_mask=next (of the ID after it) reads it"
ALL = "all"
"""The choice of all labels and masks: a token counts in the loss if each of them counts it."""
MaskChoice = Literal["own", "next", "labels", "completion_mask", "assistant_masks", "all"]
MASK_CHOICES = (
    "labels or mask to read: a name; own: loss_mask, of each ID; next: loss_mask, of the ID after it; all: a token "
    "counts if each counts it; auto: all but loss_mask, which must agree"
)
"""The help of the option `loss_mask` of formats of records."""

_AT_ONCE = 1 << 18  # tokens whose marks are read together
Marks = NDArray[np.uint8]
Flags = NDArray[np.bool_]


def mask_fields(path: Place, there: Sequence[str], choice: str | None) -> tuple[str, ...]:
    """Return the fields of labels and masks to read: the `choice`, or those that speak of the ID itself."""
    found = tuple(name for name in (LABELS, *MASKS) if name in there)
    if choice in (None, ALL):
        return found
    name = LOSS_MASK if choice in ("own", "next") else str(choice)
    if name not in there:
        listed = ", ".join((*found, *([LOSS_MASK] if LOSS_MASK in there else []))) or None
        raise UnsupportedError(path, f"has no {name}, which --from-opt loss_mask={choice} reads", found=listed)
    return (name,)


def which_of(names: Iterable[str]) -> str:
    """Return the remedy for labels and masks that contradict each other."""
    one = " or ".join(f"loss_mask={name}" for name in names)
    return f"--from-opt {one} reads one of them; loss_mask={ALL} counts a token if each counts it"


def separated(marks: Marks, plain: Flags) -> Marks:
    """Return marks with separators inserted, which count unless the token before has MASKED_END or UNENDED."""
    found = np.full(len(plain), TARGET, np.uint8)
    found[plain] = marks
    masked = plain[:-1] & ~plain[1:] & (found[:-1] & (MASKED_END | UNENDED) != 0)
    found[1:][masked] = 0
    return found & ~np.uint8(MASKED_END | UNENDED)


def unended(marks: Marks, start: int, bounds: Offsets) -> Marks:
    """Return marks from position `start` on, of sequences with offsets `bounds`, none of which has a separator."""
    ended, ends = marks.copy(), bounds[1:][np.diff(bounds) > 0] - 1 - start
    ended[ends[(ends >= 0) & (ends < len(marks))]] |= UNENDED
    return ended


def beside_samples(reader: TokenReader, start: int, stop: int) -> Marks:
    """Return the marks uint8[stop - start] of samples that store a loss mask and a label for each token.

    The first token of a row is not a target. The label of the last token of a row is dropped, because it is not on the
    axis. A label that counts and is not the next token is an error, which a mask cannot express.
    """
    if not reader.has_labels or start == stop:
        return np.zeros(stop - start, np.uint8)
    found, other = _next_tokens(reader, start, stop)
    wrong = np.flatnonzero(other)
    if len(wrong):
        at = start + int(wrong[0])
        label, expected = int(reader.labels(at - 1, at)[0]), int(reader.tokens(at, at + 1)[0])
        raise other_label(at - 1, expected, label)
    marks: Marks = found.astype(np.uint8)
    if reader.has_begins:
        marks[reader.begins(start, stop)] |= BEGINS
    if (padding := reader.is_padding(start, stop)) is not None:
        marks[padding] |= PADDING
    return marks


def _next_tokens(reader: Any, start: int, stop: int) -> tuple[Flags, Flags]:
    """Return for each token whether the label before it counts and is the token, and whether it counts and is not."""
    first = reader.sequence_at(start)
    firsts = reader.offsets(first, reader.sequence_at(stop - 1) + 1)[:-1]
    before = max(int(firsts[0]), start - 1)
    counts, found, other = _counted_labels(reader, before, stop), *np.zeros((2, stop - before), np.bool_)
    equal = reader.labels(before, stop)[:-1] == reader.tokens(before, stop)[1:]
    found[1:], other[1:] = counts[:-1] & equal, counts[:-1] & ~equal
    inner = firsts[firsts >= before] - before
    found[inner] = other[inner] = False
    return found[start - before :], other[start - before :]


def counted_of(reader: TokenReader, start: int, stop: int) -> Flags | None:
    """Return which positions train a target, bool[stop - start]; None if nothing beside the tokens says so.

    Of samples with labels, these are the positions whose label counts in the loss. It may be a token after the row. Of
    other data, they are the tokens that are trained.
    """
    if reader.has_labels:
        return _counted_labels(reader, start, stop)
    return _targets_of_marks(reader, start, stop)


def _counted_labels(reader: TokenReader, start: int, stop: int) -> Flags:
    counts: Flags = (reader.masks(start, stop) != 0) & (reader.labels(start, stop) != IGNORED)
    return counts


def targets_of(reader: TokenReader, start: int, stop: int) -> Flags | None:
    """Return which tokens are trained as targets, bool[stop - start]; None if nothing beside the tokens says so.

    A label says it of the token that it is, which is the next one in most samples. No label of a sample is its first
    token.
    """
    if (found := reader.targets(start, stop)) is not None:
        return found
    if not reader.has_labels:
        return _targets_of_marks(reader, start, stop)
    if start == stop:
        return np.zeros(0, np.bool_)
    if reader.shifted:
        return _next_tokens(reader, start, stop)[0]
    return _counted_labels(reader, start, stop)


def _targets_of_marks(reader: TokenReader, start: int, stop: int) -> Flags | None:
    marks = reader.marks(start, stop)
    return None if marks is None else marks & TARGET != 0


def is_masked(reader: TokenReader) -> bool:
    """Return whether a dataset states which of its positions train a target."""
    return reader.has_labels or reader.marks(0, 0) is not None


def padding_of(reader: TokenReader, start: int, stop: int) -> Flags | None:
    """Return which positions are padding, bool[stop - start], as the reader declares it; None if it declares none."""
    return reader.is_padding(start, stop)


def of_rows(flags: Flags | None, bounds: Offsets) -> NDArray[np.int64]:
    """Return the number of positions of each row, int64[rows], at which a flag is set; zeros without flags."""
    if flags is None:
        return np.zeros(len(bounds) - 1, np.int64)
    found: NDArray[np.int64] = np.diff(offsets_of(flags.view(np.uint8))[bounds - bounds[0]])
    return found


def other_label(position: int, expected: int, label: int) -> ConversionError:
    """Return the error for a label that differs from the next token."""
    what = f"the label at token position {position:,} is {label}, and the next token is {expected}"
    return ConversionError(f"{what}: a loss mask cannot express that. --allow-loss loss-mask drops masks and labels")


def places_stated(rows: TokenReader) -> tuple[str, ...]:
    """Return the names of the columns that rows need beside labels, so that nothing of their marks is lost.

    These are `POSITIONS`, if a row holds several documents, and `ATTENTION`, if one holds padding. The last rows are
    read first, because padding is there, and then others until both are known.
    """
    found, count, step = 0, rows.info.sequences, 1 + _AT_ONCE * rows.info.sequences // max(rows.info.tokens, 1)
    for a, b in ((max(0, count - step), count), *windows(0, max(0, count - step), step)):
        bounds = rows.offsets(a, b)
        marks = rows.marks(int(bounds[0]), int(bounds[-1]))
        if marks is None or found == BEGINS | PADDING:
            break
        inner = marks.copy()
        inner[(bounds[:-1] - bounds[0])[np.diff(bounds) > 0]] &= ~np.uint8(BEGINS)
        found |= int(np.bitwise_or.reduce(inner, initial=0)) & (BEGINS | PADDING)
    return tuple(name for name, bit in ((POSITIONS, BEGINS), (ATTENTION, PADDING)) if found & bit)


def beside_ids(names: Sequence[str], ids: NDArray[Any], marks: Marks, bounds: Offsets) -> Iterator[NDArray[Any]]:
    """Yield columns of rows as models and collators of Hugging Face read them, each with one value per ID. `LABELS`:
    the ID, or -100 if it does not count. `POSITIONS`: from 0 in each document, and in the padding. `ATTENTION`: 0 for
    padding, else 1. The IDs of the rows are joined, with the offsets `bounds`.
    """
    for name in names:
        if name == LABELS:
            yield np.where(marks & TARGET, ids.astype(np.int64), IGNORED)
        elif name == POSITIONS:
            padding = marks & PADDING != 0
            begins = (marks & BEGINS != 0) & ~padding
            begins[1:] |= padding[1:] & ~padding[:-1]
            begins[bounds[:-1][np.diff(bounds) > 0]] = True
            firsts = np.flatnonzero(begins)
            yield np.arange(len(ids)) - np.repeat(firsts, np.diff(firsts, append=len(ids)))
        else:
            yield (marks & PADDING == 0).astype(np.int8)


def of_next(marks: Marks, begins: Flags) -> NDArray[np.int8]:
    """Return the mask of labels int8[tokens], each at the token before the label; 0 at ends of documents."""
    counts = np.append((marks & TARGET != 0) & ~begins, False)
    return counts[1:].astype(np.int8)
