"""What only fills up the end of a sample."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Tokens

IGNORED = -100


def padding_of(
    ids: Tokens, mask: NDArray[np.uint8] | None, labels: NDArray[np.integer] | None, pad_id: int | None
) -> int:
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
