"""What stands beside tokens: which count in the loss, and where documents begin inside of a row. A byte a token:

    TARGET      1  the token counts as a target: mask[i] speaks of token i itself
    MASKED_END  2  the separator that follows it, and was taken away, does not count
    BEGINS      4  a document begins with it, in rows that hold several

Formats that store the mask of a *label*, at the token that predicts it, speak of the next token: they are moved by one
(`beside_samples`). The separator of an empty sequence has no token that could tell of it; it counts. What no mark, or
none of a token that is written, can tell is counted before the first byte is (`ops.convert.losses`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import ConversionError
from tokfmt.core.messages import allowing
from tokfmt.core.protocols import Sampled, Segmented
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import TokenReader, sequence_at

TARGET, MASKED_END, BEGINS = 1, 2, 4
IGNORED = -100
"""The label that collators put where none counts."""

Marks = NDArray[np.uint8]
Flags = NDArray[np.bool_]


def unseparated(marks: Marks, plain: Flags) -> Marks:
    """Without the separators among some tokens, whose marks go to the token in front of each.

    Args:
        marks: uint8[n], of a window that begins with a token and ends with one or with its separator.
        plain: bool[n], false at separators.
    """
    found = marks[plain]
    ends = np.flatnonzero(~plain[1:] & plain[:-1] & (marks[1:] & TARGET == 0))
    found[np.cumsum(plain)[ends] - 1] |= MASKED_END
    return found


def separated(marks: Marks, plain: Flags) -> Marks:
    """With separators between, which count unless the token in front of one says otherwise.

    Args:
        marks: uint8[tokens].
        plain: bool[n], false where separators go; tokens of them are true.
    """
    found = np.full(len(plain), TARGET, np.uint8)
    found[plain] = marks
    masked = plain[:-1] & ~plain[1:] & (found[:-1] & MASKED_END != 0)
    found[1:][masked] = 0
    return found & ~np.uint8(MASKED_END)


def beside_samples(reader: TokenReader, start: int, stop: int) -> Marks:
    """The marks of samples, which store a mask and a label for each token: uint8[stop - start].

    What a row begins with is no target; the label of its last token, which is on no axis, is left out.

    Raises:
        ConversionError: A label that counts is not the next token, which no mask can say.
    """
    if not isinstance(reader, Sampled) or start == stop:
        return np.zeros(stop - start, np.uint8)
    before = max(start - 1, 0)
    tokens, labels = reader.tokens(before, stop), reader.labels(before, stop)
    counted = (reader.masks(before, stop) != 0) & (labels != IGNORED)
    inner = np.ones(stop - before, np.bool_)
    firsts = reader.offsets(sequence_at(reader, before), sequence_at(reader, stop - 1) + 1)[:-1]
    inner[firsts[firsts >= before] - before] = False
    found = np.zeros(stop - before, np.uint8)
    found[1:] = counted[:-1] & inner[1:]
    wrong = np.flatnonzero((found[1:] == TARGET) & (labels[:-1] != tokens[1:]))
    if len(wrong):
        at, expected, label = int(wrong[0]), int(tokens[wrong[0] + 1]), int(labels[wrong[0]])
        raise other_label(before + at, expected, label)
    found = found[start - before :]
    if isinstance(reader, Segmented):
        found[reader.begins(start, stop)] |= BEGINS
    return found


def other_label(position: int, expected: int, label: int) -> ConversionError:
    """A label that is another id than the token that it should be."""
    what = f"the label at token position {position:,} is {label}, and the next token is {expected}"
    return ConversionError(
        f"{what}: a loss mask cannot say that. {allowing('loss-mask')} does without masks and labels"
    )


def labels_of(ids: NDArray[Any], marks: Marks) -> NDArray[np.int64]:
    """Labels as models of Hugging Face take them, of the token itself: its id, or -100 where it does not count."""
    return np.where(marks & TARGET, ids.astype(np.int64), IGNORED)


def of_next(marks: Marks, begins: Flags) -> NDArray[np.int8]:
    """The mask of labels, at the token that predicts each: int8[tokens]. What a document ends with predicts nothing.

    Args:
        marks: uint8[tokens].
        begins: bool[tokens], where documents begin.
    """
    counts = np.append((marks & TARGET != 0) & ~begins, False)
    return counts[1:].astype(np.int8)


def padding_of(ids: Tokens, mask: Marks | None, labels: NDArray[np.integer] | None, pad_id: int | None) -> int:
    """How many tokens at the end of a row only fill it up.

    Padding is one id, that of the row's end (`pad_id`, where that is known), with the same label or none, and does not
    count in the loss. Without a mask, the first of such a run is taken for the separator of the last document.
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
