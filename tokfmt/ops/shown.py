"""One sequence to look at, read as far as somebody looks: a long one needs no more memory than a short one."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tokfmt.core.axis import TokenReader, windows
from tokfmt.core.ragged import Tokens
from tokfmt.ops.find_text import Spelling
from tokfmt.text.decoding import DecodeError, TextDecoder, VocabularyDecoder

AT_ONCE = 1 << 16
"""Tokens read at once."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Look:
    """How sequences are read.

    Attributes:
        reader: Where from; None for records of text.
        decoder: Strict; None without a tokenizer.
        spelling: Of its ids.
    """

    reader: TokenReader | None
    decoder: TextDecoder | None = None
    spelling: Spelling | None = None

    def spelled(self, tokens: Tokens) -> bytes:
        """What ids stand for, one after the other; nothing without a tokenizer."""
        return b"" if self.spelling is None else b"".join(map(self.spelling.__getitem__, tokens.tolist()))


@dataclass(frozen=True, slots=True)
class Shown:
    """One sequence.

    Attributes:
        index: Its number.
        length: Tokens; characters when there are no ids.
        start: Where it begins on the axis.
        found: What a search found in it, positions within the sequence; None without a search for something inside.
        record: The text of a record that nobody tokenised.
    """

    index: int
    length: int
    start: int
    found: Span | None
    look: Look = field(repr=False)
    record: str | None = None

    @property
    def ids(self) -> list[int] | None:
        """All its ids; None for text that nobody tokenised."""
        if self.look.reader is None:
            return None
        return [token for tokens in self.tokens(0, self.length) for token in tokens.tolist()]

    @property
    def text(self) -> str | None:
        """All its text; None without a tokenizer. A byte that is no text is `\\xff`, an id without a token ⟨id⟩."""
        if self.record is None and self.look.decoder is None:
            return None
        return "".join(self.texts([(0, self.length)]))

    def tokens(self, start: int, stop: int) -> Iterator[Tokens]:
        """The ids at positions `start <= p < stop` within the sequence, some at a time."""
        if self.look.reader is not None:
            for a, b in windows(self.start + start, self.start + stop, AT_ONCE):
                yield self.look.reader.tokens(a, b)

    def texts(self, spans: list[Span]) -> Iterator[str]:
        """The text of adjoining spans of positions, in pieces; a character of several spans belongs to the last."""
        if self.record is not None:
            yield from (self.record[a:b] for a, b in spans)
            return
        whole = spans == [(0, self.length)] and self.length <= AT_ONCE
        if whole and isinstance(self.look.decoder, VocabularyDecoder):
            yield self._decoded(self.look.decoder)
            return
        utf8 = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        for k, (a, b) in enumerate(spans):
            text = ""
            for tokens in self.tokens(a, b):
                text += utf8.decode(self.look.spelled(tokens))
                if len(spans) == 1:
                    yield text
                    text = ""
            if k == len(spans) - 1:
                text += utf8.decode(b"", final=True)
            yield text

    def _decoded(self, decoder: VocabularyDecoder) -> str:
        """Such a tokenizer has rules of its own for what stands at the beginning, or between tokens."""
        tokens = np.concatenate([np.empty(0, np.uint8), *self.tokens(0, self.length)])
        try:
            return decoder.decode(tokens)
        except DecodeError:
            return self.look.spelled(tokens).decode("utf-8", "backslashreplace")
