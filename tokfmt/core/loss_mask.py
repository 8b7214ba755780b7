"""Marks: one byte per token that states whether it counts in the loss, and whether a document begins with it.

    TARGET      1  the token counts as a target: mask[i] describes token i itself
    MASKED_END  2  the separator after it, which was removed, does not count
    BEGINS      4  a document begins with it, in rows that hold several documents

Formats that store a mask of *labels* describe, at each token, the next token. `beside_samples` shifts their masks by
one. The separator of an empty sequence has no token before it that could be marked, so it counts. Before the first byte
is written, `ops.convert.losses` counts what marks cannot express.

Views, conversions, losses, `--verify` and recipes see marks alone. The encoding of a mask is known only to the reader
and the writer of a format:

    Encoding                                   is decoded in                        is encoded in
    a byte 0 or 1 per token, in a second file  core/annotation.py `mask_bytes`      core/annotation.py `bytes_of_marks`
    a column of labels (Hugging Face)          formats/arrow/reader.py `_labeled`   core/loss_mask.py `labels_of`
    a field of labels or of a mask             formats/jsonl/reader.py `_marks`     -
    columns of packed rows (Megatron Bridge)   formats/arrow/reader.py `_packed`    core/loss_mask.py `of_next`
    a mask and labels of each sample           core/loss_mask.py `beside_samples`   formats/hdf5/writer.py `_blocks`
    none, made by a recipe                     recipes/samples.py `marks`

To give a format a mask, define `marks` on its reader (`TokenReader.marks`), call `source.marks(a, b)` in its
writer, and set `WriterTraits.keeps_masks`. A flat format needs only `FileLayout.masks` and `FlatWriter.mask_file`.
Records (`core.records`) return marks with their IDs, and state them in `RecordInfo.loss_masks`.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import ConversionError
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import TokenReader

TARGET, MASKED_END, BEGINS = 1, 2, 4
IGNORED = -100
"""The label that losses of PyTorch ignore."""

LABELS, MASKS = "labels", ("completion_mask", "assistant_masks")
"""Names beside `input_ids` of Hugging Face's labels (the ID of the token, or -100), and of TRL's masks of tokens."""
POSITIONS, LENGTHS = "position_ids", "seq_lengths"
"""Names beside `input_ids` of packed rows: positions that begin at 0 in each document, or the lengths of documents."""
LOSS_MASK = "loss_mask"
"""A name of masks that speak of the ID itself or, as those of Megatron-LM, of the ID after it: an option decides."""
MASK_OPTION = "--from-opt loss_mask=own (of each ID) or loss_mask=next (of the ID after it) reads it"

Marks = NDArray[np.uint8]
Flags = NDArray[np.bool_]


def unseparated(marks: Marks, plain: Flags) -> Marks:
    """Return marks without those of separators. The token before a separator takes over its mark.

    Args:
        marks: uint8[n], of a window that begins with a token and ends with a token or its separator.
        plain: bool[n], False at separators.
    """
    found = marks[plain]
    ends = np.flatnonzero(~plain[1:] & plain[:-1] & (marks[1:] & TARGET == 0))
    found[np.cumsum(plain)[ends] - 1] |= MASKED_END
    return found


def separated(marks: Marks, plain: Flags) -> Marks:
    """Return marks with separators inserted. A separator counts unless the token before it has MASKED_END.

    Args:
        marks: uint8[tokens].
        plain: bool[n], False where separators are inserted; `tokens` of them are True.
    """
    found = np.full(len(plain), TARGET, np.uint8)
    found[plain] = marks
    masked = plain[:-1] & ~plain[1:] & (found[:-1] & MASKED_END != 0)
    found[1:][masked] = 0
    return found & ~np.uint8(MASKED_END)


def beside_samples(reader: TokenReader, start: int, stop: int) -> Marks:
    """Return the marks uint8[stop - start] of samples that store a loss mask and a label for each token.

    The first token of a row is not a target. The label of the last token of a row is dropped, because it is not on the
    axis.

    Args:
        reader: Reader of the samples.
        start: First token position.
        stop: Position after the last token.

    Raises:
        ConversionError: If a label that counts is not the next token, which a mask cannot express.
    """
    if not reader.has_labels or start == stop:
        return np.zeros(stop - start, np.uint8)
    before = max(start - 1, 0)
    tokens, labels = reader.tokens(before, stop), reader.labels(before, stop)
    counted = (reader.masks(before, stop) != 0) & (labels != IGNORED)
    inner = np.ones(stop - before, np.bool_)
    firsts = reader.offsets(reader.sequence_at(before), reader.sequence_at(stop - 1) + 1)[:-1]
    inner[firsts[firsts >= before] - before] = False
    found = np.zeros(stop - before, np.uint8)
    found[1:] = counted[:-1] & inner[1:]
    wrong = np.flatnonzero((found[1:] == TARGET) & (labels[:-1] != tokens[1:]))
    if len(wrong):
        at, expected, label = int(wrong[0]), int(tokens[wrong[0] + 1]), int(labels[wrong[0]])
        raise other_label(before + at, expected, label)
    found = found[start - before :]
    if reader.has_begins:
        found[reader.begins(start, stop)] |= BEGINS
    return found


def other_label(position: int, expected: int, label: int) -> ConversionError:
    """Return the error for a label that differs from the next token.

    Args:
        position: Position of the token with the label.
        expected: The next token.
        label: The label.
    """
    what = f"the label at token position {position:,} is {label}, and the next token is {expected}"
    return ConversionError(f"{what}: a loss mask cannot express that. --allow-loss loss-mask drops masks and labels")


def labels_of(ids: NDArray[Any], marks: Marks) -> NDArray[np.int64]:
    """Return labels for models of Hugging Face: the ID of each token, or -100 if the token does not count."""
    return np.where(marks & TARGET, ids.astype(np.int64), IGNORED)


def of_next(marks: Marks, begins: Flags) -> NDArray[np.int8]:
    """Return the mask of labels int8[tokens], each at the token before the label. The last token of a document is 0.

    Args:
        marks: uint8[tokens].
        begins: bool[tokens], True where documents begin.
    """
    counts = np.append((marks & TARGET != 0) & ~begins, False)
    return counts[1:].astype(np.int8)


@runtime_checkable
class Padded(Protocol):
    """Samples that know the length of their padding."""

    def filled(self, sample: int) -> int:
        """Return the number of positions of a sample before its padding."""


def padding_in(
    reader: TokenReader, row: int, ids: Tokens, mask: Marks | None, labels: NDArray[np.integer] | None
) -> int:
    """Return the number of padding tokens at the end of a row: as its reader knows it, else by its tokens.

    Args:
        reader: The reader of the row.
        row: The number of the row.
        ids: The last token IDs of the row.
        mask: Their loss mask, or None.
        labels: Their labels, or None.
    """
    if isinstance(reader, Padded) and reader.info.sample_length is not None:
        return min(len(ids), reader.info.sample_length - reader.filled(row))
    return padding_of(ids, mask, labels, reader.info.pad_id)


def padding_of(ids: Tokens, mask: Marks | None, labels: NDArray[np.integer] | None, pad_id: int | None) -> int:
    """Return the number of padding tokens at the end of a row.

    Padding is a run of the last ID of the row (of `pad_id`, if known) that does not count in the loss. Its labels are
    the same ID or -100. Without a mask, the first ID of the run is treated as the separator of the last document.

    Args:
        ids: The token IDs of a row.
        mask: Its loss mask, or None.
        labels: Its labels, or None.
        pad_id: Token ID of the padding, or None if unknown.
    """
    fill = int(ids[-1]) if len(ids) else -1
    if not len(ids) or (pad_id is not None and fill != pad_id):
        return 0
    pads = ids == fill
    if mask is not None:
        pads &= mask == 0
    if labels is not None:
        pads &= (labels == fill) | (labels == IGNORED)
    run = len(ids) if pads.all() else int(np.argmin(pads[::-1]))
    if mask is None:
        return run - 1 if pad_id is not None and run > 1 else 0
    return run
