"""Split texts into words, in numpy, for n-grams.

A word is a run of letters, marks and numbers (Unicode's L, M, N) in lower case. Everything else separates words:
`It's 3.14!` is `it`, `s`, `3`, `14`. Each Chinese character and each Japanese kana is a word, because nothing separates
them. A word of more than 256 KiB is several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.text.filters import WORD, characters_at, kinds_of

PIECE = 1 << 18
"""Bytes of text that are split at once, so that the arrays stay in the processor's cache."""
_BEHIND = b"\n" * 4  # behind the last text, as a character is looked at with the three bytes after its first
_WORDS = bytes(chr(code).isalnum() and code < 128 for code in range(256))
_ALONE = np.array([0x3041, 0x3100, 0x3400, 0x4DC0, 0x4E00, 0xA000, 0xF900, 0xFB00, 0x20000, 0x33480], np.uint32)
"""The first code point of each range of characters that are words by themselves, and the one after its last."""


class Words(NamedTuple):
    """The words of some texts, or of a piece of a long one."""

    data: bytes  # texts in lower case as UTF-8, joined
    starts: Offsets  # byte offsets of the words
    stops: Offsets
    texts: Sequence[int]  # the number of each text
    firsts: Offsets  # int64[texts + 1], the number of the first word of each
    before: int = 0  # words of a long text before this piece

    def spelled(self, numbers: Offsets | slice) -> list[bytes]:
        """Return some words."""
        pairs = zip(self.starts[numbers].tolist(), self.stops[numbers].tolist(), strict=True)
        return [self.data[start:stop] for start, stop in pairs]


def lowered(text: str) -> bytes:
    """Return a text in lower case as UTF-8."""
    return text.lower().encode("utf-8", "surrogatepass")


def bounds_of(data: bytes) -> tuple[Offsets, Offsets]:
    """Return the byte offsets at which the words of lower-case UTF-8 begin and end."""
    codes = np.frombuffer(data + _BEHIND, np.uint8)
    flags = np.frombuffer((data + _BEHIND).translate(_WORDS), np.uint8)
    if data.isascii():
        alone, after = np.empty(0, np.int64), np.empty(0, np.int64)
    else:
        lead = np.flatnonzero(codes >= 0xC0)
        points = characters_at(codes, lead)
        is_word, flags = kinds_of(points) == WORD, flags.copy()
        for k in range(4):
            flags[lead[is_word & (codes[lead] >= _LEADS[k])] + k] = 1
        is_alone = is_word & ((np.searchsorted(_ALONE, points, side="right") & 1) == 1)
        alone = lead[is_alone]
        after = alone + 1 + sum((codes[alone] >= least).astype(np.int64) for least in _LEADS[1:])
    before = np.zeros_like(flags)
    before[1:] = flags[:-1]
    begins, ends = flags > before, flags < before
    ends[alone[before[alone] > 0]] = True
    begins[alone] = ends[after] = True
    begins[after[flags[after] > 0]] = True
    return np.flatnonzero(begins), np.flatnonzero(ends)


_LEADS = (0xC0, 0xC0, 0xE0, 0xF0)  # the least first byte of a character that has a byte 0, 1, 2 or 3 behind it


def words_of(texts: Sequence[str]) -> Iterator[Words]:
    """Yield the words of texts, of several short ones at once, and of long ones in pieces."""
    group, numbers, size = list[bytes](), list[int](), 0
    for number, text in enumerate(texts):
        data = lowered(text)
        if group and size + len(data) >= PIECE:
            yield _of_texts(group, numbers)
            group, numbers, size = [], [], 0
        if len(data) > PIECE:
            yield from _of_long(data, number)
            continue
        group.append(data)
        numbers.append(number)
        size += len(data) + 1
    if group:
        yield _of_texts(group, numbers)


def _of_texts(texts: Sequence[bytes], numbers: Sequence[int]) -> Words:
    data = b"\n".join(texts)
    starts, stops = bounds_of(data)
    begins = offsets_of([len(text) + 1 for text in texts])
    return Words(data, starts, stops, numbers, np.searchsorted(starts, begins))


def _of_long(data: bytes, number: int) -> Iterator[Words]:
    """Yield the words of a text, each once."""
    at, before = 0, 0
    while at < len(data):
        end = min(at + PIECE, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80:  # within a character
            end -= 1
        piece = data[at:end]
        starts, stops = bounds_of(piece)
        is_cut = end < len(data) and len(stops) > 0 and int(stops[-1]) == len(piece)
        if is_cut and int(starts[-1]) > 0:  # the last word goes on
            piece, starts, stops = piece[: int(starts[-1])], starts[:-1], stops[:-1]
        yield Words(piece, starts, stops, [number], np.array([0, len(starts)]), before)
        at, before = at + len(piece), before + len(starts)


def spans_of(text: str) -> tuple[Offsets, Offsets]:
    """Return the characters of a text at which its words begin and end."""
    data, before = lowered(text), 0
    spans = list[Offsets]()
    for words in words_of([text]):
        spans.append(np.stack([words.starts, words.stops]) + before)
        before += len(words.data)
    bytes_of_spans = np.concatenate([np.empty((2, 0), np.int64), *spans], axis=1)
    codes = np.frombuffer(data, np.uint8)
    characters = offsets_of((codes & 0xC0) != 0x80)[bytes_of_spans]
    if len(text.lower()) != len(text):  # some characters become several
        lengths = offsets_of([len(character.lower()) for character in text])
        characters = np.searchsorted(lengths, characters, side="right") - 1
    return characters[0], characters[1]
