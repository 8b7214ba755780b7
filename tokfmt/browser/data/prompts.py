"""The tokens at the end of prompts, which most samples of a dataset share, and samples whose loss begins elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tokfmt.browser.data.layout import TokenStyle, words_of
from tokfmt.browser.data.rows import Damage, Piece, RowSource, fetched
from tokfmt.wording import counted

ODD = "▲"
"""The sign of a row that is trained otherwise than most rows."""

_LOOKED = 64  # samples whose prompts are compared
_FEWEST = 8  # samples with a prompt, of which one can say what most share
_MOST_SHARE = 0.75
_LONGEST = 8  # tokens of an end
_READ = 1 << 13  # tokens of a sample
_WORDS = 30  # cells of an end in words


class PromptEnd(NamedTuple):
    """The tokens after which the loss of most samples begins."""

    units: tuple[int, ...]  # the tokens, at most 8
    shared: int  # the number of samples whose loss begins after their first occurrence
    looked_at: int  # the number of samples whose prompts were compared


_found: WeakKeyDictionary[RowSource, PromptEnd | None] = WeakKeyDictionary()


def prompt_end(port: RowSource) -> PromptEnd | None:
    """Return the tokens that end the prompts of three of four samples; None without any. Reads the first 64 samples."""
    if port not in _found:
        _found[port] = _prompt_end(port)
    return _found[port]


def _prompt_end(port: RowSource) -> PromptEnd | None:
    prompts = list[NDArray[np.unsignedinteger]]()
    looked = min(_LOOKED, port.count)
    for row in range(looked):
        piece = fetched(port, row, 0, _READ)
        if isinstance(piece, Piece) and piece.targets is None:
            return None  # nothing states what is trained
        begin = None if isinstance(piece, Damage) else _first_trained(piece)
        if begin and not isinstance(piece, Damage):
            prompts.append(piece.units[:begin])
    if len(prompts) < _FEWEST:
        return None
    for length in range(_LONGEST, 0, -1):
        (units, count), *_ = Counter(tuple(prompt[-length:].tolist()) for prompt in prompts).most_common(1)
        if len(units) < length or count < _MOST_SHARE * looked:
            continue
        # A line feed ends prompts too, and is in most of them: what is there before says nothing about the loss.
        first = sum(_first_place(prompt, units) == len(prompt) - length for prompt in prompts)
        if first >= _MOST_SHARE * looked:
            return PromptEnd(units, first, looked)
    return None


def _first_trained(piece: Piece) -> int | None:
    if piece.targets is None or not piece.targets.any():
        return None
    return int(np.argmax(piece.targets))


def odd_mask(port: RowSource, row: int, filled: int, style: TokenStyle) -> str:
    """Return how the loss mask of a sample differs from that of most samples, in words; "" if it does not. Reads."""
    end, piece = prompt_end(port), fetched(port, row, 0, min(filled, _READ))
    if end is None or isinstance(piece, Damage) or piece.targets is None:
        return ""
    flags = piece.targets
    if not flags.any():
        return "nothing is trained" if filled <= _READ else ""
    words = "".join(text for text, _, _ in words_of(Piece(np.array(end.units)), style, _WORDS)).strip()
    most = f"{end.shared} of {end.looked_at}"
    at = _first_place(piece.units, end.units)
    if at is None:
        return f"no “{words}”, which {most} have before the loss"
    before, begin = int(np.count_nonzero(flags[: at + len(end.units)])), int(np.argmax(flags))
    if before:
        return f"{counted(before, 'trained token')} up to “{words}”; {most} have none"
    missing = begin - at - len(end.units)
    if missing:
        return f"{counted(missing, 'untrained token')} after “{words}”; {most} have none"
    return ""


def _first_place(units: NDArray[np.unsignedinteger], wanted: tuple[int, ...]) -> int | None:
    """Return the first place of some tokens in a row; None if they are not there."""
    if len(units) < len(wanted):
        return None
    same = np.lib.stride_tricks.sliding_window_view(units, len(wanted)) == np.array(wanted)
    places = np.flatnonzero(same.all(axis=1))
    return int(places[0]) if len(places) else None
