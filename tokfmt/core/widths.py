"""The bytes of a token where nothing states them: what shows a width that only follows from a size.

The end of an index times the width is the size. A file that was cut to half of its bytes fits half the width as well,
so that the bytes themselves have to show which it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.annotation import Extent
from tokfmt.core.errors import CorruptError
from tokfmt.core.messages import Option, from_option
from tokfmt.core.ragged import Offsets

_ENOUGH = 8  # sequences that must end alike before a part of a file means anything
_LOOKED_AT = 1 << 17  # bytes at the beginning that show a width
_FEW_ENDS = 3  # documents in them that end alike: fewer may by chance
_ALIKE = 0.9  # of those documents; some end otherwise, as of a stream that was cut anywhere
_SMALL = 16  # the upper half of a 4-byte token is below: no tokenizer has an id of 2^20
_FEW_VALUES = 4  # lower parts that are not 0, where all upper parts are
_LARGE, _RARE = 16, 0.05  # lower parts that are not small, and the share of them that upper ones may be
_PAIRS = 4096  # bytes whose places show the width of a token; the values are those of `core.raw_ids`
_APART = 0.36  # low bytes of ids of text against high ones: 0.46 and more

Numbers = NDArray[Any]


def ends_alike(extent: Extent, starts: Offsets, eos_id: int | None) -> bool:
    """Whether the sequences before the end of an extent all end with one id, which none has inside.

    Then the width of a token is right: in another, ends lie at any place. The id is `eos_id`, if that is known. Of
    fewer than 8 sequences this is not known: they may end alike by chance.
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
    """What to say of a width that follows from the size: nothing if the tokens show it, else that it was inferred.

    Args:
        extent: All of a file, in the width that its size gives.
        starts: int64[sequences + 1], token positions, from the index.
        wider: Widths that the format knows beyond that one.
        index: Name of the file that they are from.

    Raises:
        CorruptError: The tokens show a greater width: the file is cut.
    """
    file, width = extent.file, extent.dtype.itemsize
    head = file.array(0, min(file.size, _LOOKED_AT) // 8 * 8, "u1")
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
        return (f"{found}; {from_option('width', 'N')} overrides",)
    what = f"its size and {index} give tokens of {width} {'byte' if width == 1 else 'bytes'}, and "
    remedy = (
        f"Copy it again. {from_option('width', looks[-1])} with {Option('allow-partial')} saves the complete "
        "documents of a cut "
    )
    remedy += f"file; {from_option('width', width)} reads {width}-byte tokens all the same"
    raise CorruptError(file.path, what + reason.format(looks[-1]), remedy=remedy)


def _alike(head: Numbers, width: int, ends: Offsets) -> bool:
    """Whether documents end with one id that is rare inside; not if that may be the upper part of a wider token."""
    ids = head.view(f"<u{width}")
    ends = ends[: np.searchsorted(ends, len(ids))]
    if len(ends) < _FEW_ENDS:
        return False
    values, counts = np.unique(ids[ends], return_counts=True)
    common, many = int(values[np.argmax(counts)]), int(counts.max())
    upper = common < _SMALL and float(np.mean(ends % 2 == 1)) >= _ALIKE
    inside = int(np.count_nonzero(ids[: int(ends[-1]) + 1] == common))
    return many >= _ALIKE * len(ends) and inside <= 2 * many and not upper


def _upper(head: Numbers, width: int, other: int) -> tuple[Numbers, Numbers]:
    """The values of one width that are upper parts, and lower parts, of tokens of another of 4 or 8 bytes."""
    values = head.view(f"<u{width}").reshape(-1, other // width)
    first = 4 // width if other == 8 else {1: 3, 2: 1}[width]  # ids below 2^32; and below 2^24, or 2^20
    return values[:, first:], values[:, :first]


def _looks_wide(head: Numbers, width: int, other: int) -> bool:
    """Whether upper parts of tokens of another width are small, and lower parts are not."""
    if other == 2:
        return len(head) // 2 >= _PAIRS and _apart(head) >= _APART
    upper, lower = _upper(head, width, other)
    if not upper.any():
        return int(np.count_nonzero(lower)) >= _FEW_VALUES
    large = int(np.count_nonzero(lower >= _SMALL))
    return other == 2 * width == 4 and large >= _LARGE and int(np.count_nonzero(upper >= _SMALL)) <= _RARE * large


def _excluded(head: Numbers, width: int, other: int) -> bool:
    """Whether tokens of another width would have ids that no tokenizer has."""
    if other == 2:
        return len(head) // 2 >= _PAIRS and _apart(head) < _APART
    upper, _ = _upper(head, width, other)
    large = np.count_nonzero((upper >= (_SMALL if width > 1 else 1)).any(axis=1))
    return len(upper) >= _LARGE and int(large) > _RARE * len(upper)


def _apart(head: Numbers) -> float:
    """How much values of even places differ from those of odd ones: 0 to 2."""
    low, high = (np.bincount(head[k::2], minlength=256) for k in (0, 1))
    return float(np.abs(low - high).sum() / (len(head) // 2))
