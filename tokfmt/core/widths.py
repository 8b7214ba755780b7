"""Infer the bytes per token if no file states it, and check it against the tokens.

The last offset in an index, times the width, is the size of the token file. A file that was cut to half its size also
fits half the width, so the bytes have to show which one is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.annotation import Extent
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.raw_ids import LARGEST
from tokfmt.errors import CorruptError

LOOKED_AT = 1 << 17
"""Bytes at the beginning of a file that are examined."""
_ENOUGH = 8  # Smallest number of sequences with the same end that is evidence.
_FEW_ENDS = 3  # Smallest number of documents in them with the same end that is evidence.
_ALIKE = 0.9  # Smallest share of these documents. Others may end differently, as in a stream cut at any position.
_SMALL = 16  # The upper half of a 4-byte token is below it, because no tokenizer has an ID of 2^20.
_FEW_VALUES = 6  # Smallest number of lower parts that are not 0, if all upper parts are 0.
_LARGE, _RARE = 16, 0.05  # Smallest number of lower parts that are not small, and largest share of such upper parts.
_PAIRS_OF_IDS = 16  # IDs that are needed to question a width.
_PAIRS = 4096  # Pairs of bytes that are needed to compare low and high bytes, as in `core.raw_ids`.
_APART = 0.36  # Distance of low and high bytes. IDs of text have at least 0.46.

Numbers = NDArray[Any]


def ends_alike(extent: Extent, starts: Offsets, eos_id: int | None) -> bool:
    """Return whether all sequences before the end of an extent end with the same ID, which none has inside. If so, the
    width is right: with another width, sequences end anywhere. The ID is `eos_id`, if that is known. With fewer than 8
    sequences the result is False, because they may end alike by chance. `starts` is int64[sequences + 1].
    """
    last = int(np.searchsorted(starts, extent.tokens, side="right")) - 1
    bounds, found = starts[: last + 1], 0
    ends = np.unique(bounds[1:][np.diff(bounds) > 0]) - 1
    if len(ends) < _ENOUGH:
        return False
    width = extent.dtype.itemsize
    wanted = int(extent.file.ids(extent.begin + int(ends[0]) * width, 1, extent.dtype)[0])
    for a in range(0, int(bounds[-1]), 1 << 20):
        b = min(a + (1 << 20), int(bounds[-1]))
        places = a + np.flatnonzero(extent.file.ids(extent.begin + a * width, b - a, extent.dtype) == wanted)
        inside = ends[np.searchsorted(ends, a) : np.searchsorted(ends, b)]
        if not np.array_equal(places, inside):
            return False
        found += len(places)
    return found == len(ends) and eos_id in (None, wanted)


def width_of_size(extent: Extent, starts: Offsets, wider: Sequence[int], index: str) -> tuple[str, ...]:
    """Return notes on a width that follows from the size; () if the tokens confirm the width. `wider` are larger widths
    that the format supports. If the tokens show one, the file is truncated, which is an error.
    """
    file, width = extent.file, extent.dtype.itemsize
    head = file.array(0, min(file.size, LOOKED_AT) // 8 * 8, "u1")
    wider = [other for other in wider if other > width]
    if not wider or not extent.tokens or not starts[-1]:
        return ()
    ends = np.unique(starts[1 : np.searchsorted(starts, len(head) // width, side="right")]) - 1
    ends = ends[ends >= 0]
    alike, others = _alike(head, width, ends), [other for other in wider if _alike(head, other, ends)]
    looks = [other for other in wider if _looks_wide(head, width, other)]
    reason = ""
    if alike and not others:
        return ()
    if others and not alike:
        looks, reason = others, "documents end alike only in tokens of {} bytes"
    elif looks:
        reason = "the bytes look like tokens of {}"
    elif alike or all(_excluded(head, width, other) for other in wider):
        return ()
    elif width == 1:
        looks, reason = wider[:1], "nothing shows that the file is not the rest of one with tokens of {}"
    if not reason:
        found = f"{width}-byte tokens of {file.path.name} inferred from its size and the last end in {index}"
        return (f"{found}; --from-opt width=N overrides",)
    what = f"its size and {index} give tokens of {width} {'byte' if width == 1 else 'bytes'}, and "
    remedy = f"Copy it again. --from-opt width={looks[-1]} with --allow-partial saves the complete documents of a cut "
    remedy += f"file; --from-opt width={width} reads {width}-byte tokens anyway"
    raise CorruptError(file.path, what + reason.format(looks[-1]), remedy=remedy)


def likely_width(head: Numbers, wider: Sequence[int] = (8, 4), width: int = 2) -> int:
    """Return the widest bytes per token whose upper parts are small in the head, uint8[n], or `width`."""
    return next((other for other in wider if other > width and _looks_wide(head, width, other)), width)


def contradicted_width(ids: Tokens) -> tuple[str, int] | None:
    """Return what shows that token IDs were read in a wrong width, and the likely width; None without such a sign.

    Every second ID is 0 if wider IDs were read in halves. IDs of 2^32 and more, or many of 2^22 and more, are two
    narrower ones that were read as one. The IDs are the first of a file, in the width that is questioned.
    """
    width = ids.dtype.itemsize
    if width == 8 and len(high := np.flatnonzero(ids >> np.uint64(32))):
        return f"has the ID {int(ids[high[0]]):,}, which no tokenizer has", 4
    above = int(np.count_nonzero(ids >= LARGEST)) if width == 4 else 0
    if above >= _PAIRS_OF_IDS and above > _RARE * len(ids):
        return f"{above:,} of its first {len(ids):,} IDs are above {LARGEST:,}, which no tokenizer has", 2
    pairs = ids[: len(ids) // 8 * 8]
    if width in (2, 4) and len(pairs) >= _PAIRS_OF_IDS and not pairs[1::2].any():
        likely = likely_width(pairs.view(np.uint8), [other for other in (8, 4) if other > width], width)
        return ("every second ID is 0", likely) if likely != width else None
    return None


def _alike(head: Numbers, width: int, ends: Offsets) -> bool:
    """Return whether documents end with one ID, which is rare inside and not the upper part of a wider token. Where all
    IDs are that one, as in `9 7 9 7` read as wider tokens, it shows nothing.
    """
    ids = head.view(f"<u{width}")
    ends = ends[: np.searchsorted(ends, len(ids))]
    if len(ends) < _FEW_ENDS:
        return False
    values, counts = np.unique(ids[ends], return_counts=True)
    common, many = int(values[np.argmax(counts)]), int(counts.max())
    upper = common < _SMALL and float(np.mean(ends % 2 == 1)) >= _ALIKE
    inside = int(np.count_nonzero(ids[: int(ends[-1]) + 1] == common))
    return many >= _ALIKE * len(ends) and inside <= min(2 * many, int(ends[-1])) and not upper


def _upper(head: Numbers, width: int, other: int) -> tuple[Numbers, Numbers]:
    """Split values of one width into the upper and the lower parts of tokens of 4 or 8 bytes."""
    values = head.view(f"<u{width}").reshape(-1, other // width)
    # IDs of 8 bytes are below 2^32. IDs of 4 bytes are below 2^24 (width 1), or 2^20 (width 2, with `_SMALL`).
    first = 4 // width if other == 8 else {1: 3, 2: 1}[width]
    return values[:, first:], values[:, :first]


def _looks_wide(head: Numbers, width: int, other: int) -> bool:
    """Return whether upper parts of tokens of another width are small, and lower parts are not."""
    if other == 2:
        return len(head) // 2 >= _PAIRS and _apart(head) >= _APART
    upper, lower = _upper(head, width, other)
    if not upper.any():
        return int(np.count_nonzero(lower)) >= _FEW_VALUES
    large = int(np.count_nonzero(lower >= _SMALL))
    return other == 2 * width == 4 and large >= _LARGE and int(np.count_nonzero(upper >= _SMALL)) <= _RARE * large


def _excluded(head: Numbers, width: int, other: int) -> bool:
    """Return whether tokens of another width would have IDs that no tokenizer has."""
    if other == 2:
        return len(head) // 2 >= _PAIRS and _apart(head) < _APART
    upper, _ = _upper(head, width, other)
    large = np.count_nonzero((upper >= (_SMALL if width > 1 else 1)).any(axis=1))
    return len(upper) >= _LARGE and int(large) > _RARE * len(upper)


def _apart(head: Numbers) -> float:
    """Return how much the values of even and odd bytes differ, from 0 to 2."""
    low, high = (np.bincount(head[k::2], minlength=256) for k in (0, 1))
    return float(np.abs(low - high).sum() / (len(head) // 2))
