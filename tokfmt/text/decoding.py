"""Ids back to text, exactly.

A byte-level vocabulary (GPT-2, Llama 3, Qwen ...) is a table of byte strings: a sequence is their concatenation, and
its text is that, read as UTF-8. Any other vocabulary is decoded by `tokenizers`, with nothing skipped and nothing
cleaned up. Neither guesses: an id without a token and bytes that are no UTF-8 are errors, unless `lenient`, which is
for display and for `--drop invalid-utf8`: bytes that are no UTF-8 become U+FFFD, an id without a token ⟨id⟩.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import ConversionError
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.text.vocabulary import Content, decoder_kinds, plain_tokenizer, vocabulary_of


class DecodeError(ConversionError):
    """Ids that are no text.

    Attributes:
        position: Of the token in its sequence. token: Its id. found: Its bytes, when they are the trouble.
    """

    def __init__(self, position: int, token: int, why: str, found: bytes = b"") -> None:
        self.position, self.token, self.found = position, token, found.hex(" ")
        super().__init__(f"token {position:,} of the sequence (id {token:,}) {why}")

    @staticmethod
    def unknown(position: int, token: int, size: int) -> DecodeError:
        """An id without a token, in a vocabulary of `size`."""
        remedy = "Is it the tokenizer that the dataset was made with?"
        return DecodeError(position, token, f"is not in the tokenizer's vocabulary of {size:,} tokens. {remedy}")

    @staticmethod
    def not_utf8(position: int, token: int, found: bytes) -> DecodeError:
        """A token at which the bytes stop being UTF-8."""
        remedy = "--drop invalid-utf8 writes U+FFFD in their place"
        why = f"gives bytes that are not UTF-8 here ({found.hex(' ')}). {remedy}"
        return DecodeError(position, token, why, found)


class TextDecoder(Protocol):
    """Ids to text. Picklable; threads may share it."""

    def decode(self, tokens: Sequence[int] | NDArray[np.integer]) -> str:
        """The text of one sequence.

        Raises:
            DecodeError: An id without a token, or bytes that are not UTF-8; not if lenient.
        """

    def pieces(self, tokens: Sequence[int] | NDArray[np.integer]) -> list[bytes | str]:
        """What each token stands for by itself: bytes where it is bytes, else a string. Never raises."""


def marker(token: int) -> str:
    """How an id without a token is shown."""
    return f"⟨{token}⟩"


class ByteLevelDecoder:
    """Decodes by a table of bytes.

    Args:
        table: Bytes of each id; ids may be missing.
        lenient: Show what is no text instead of raising.
    """

    def __init__(self, table: Mapping[int, bytes], *, lenient: bool = False) -> None:
        self.size = max(table, default=-1) + 1
        entries = [table.get(token, b"") for token in range(self.size)]
        self.blob = np.frombuffer(b"".join(entries), np.uint8)
        self.bounds: Offsets = offsets_of([len(entry) for entry in entries])
        self.known = np.zeros(self.size, np.bool_)
        self.known[list(table)] = True
        self.lenient = lenient
        self._entries: list[bytes] | None = entries

    def decode(self, tokens: Sequence[int] | NDArray[np.integer]) -> str:
        ids = np.asarray(tokens)
        if not len(ids):
            return ""
        if self.lenient and len(_unknown(ids, self.known)):
            return b"".join(_as_bytes(piece) for piece in self.pieces(ids)).decode("utf-8", "replace")
        _check_known(ids, self.known)
        data = b"".join(map(self._table().__getitem__, ids.tolist()))
        if self.lenient:
            return data.decode("utf-8", "replace")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._not_utf8(ids, data, error.start) from None

    def _not_utf8(self, ids: NDArray[np.integer], data: bytes, at: int) -> DecodeError:
        ends = np.cumsum(np.diff(self.bounds)[ids])
        position = int(np.searchsorted(ends, at, side="right"))
        return DecodeError.not_utf8(position, int(ids[position]), data[at : at + 4])

    def pieces(self, tokens: Sequence[int] | NDArray[np.integer]) -> list[bytes | str]:
        table, known, size = self._table(), self.known, self.size
        return [
            table[token] if 0 <= token < size and known[token] else marker(token)
            for token in np.asarray(tokens).tolist()
        ]

    def _table(self) -> list[bytes]:
        if self._entries is None:
            blob, bounds = self.blob.tobytes(), self.bounds.tolist()
            self._entries = [blob[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
        return self._entries

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_entries": None}


class VocabularyDecoder:
    """Decodes by `tokenizers`, for everything that is not byte-level.

    Args:
        content: The tokenizer.
        lenient: Show what is no text instead of raising.
    """

    def __init__(self, content: Content, *, lenient: bool = False) -> None:
        self.content, self.lenient = content, lenient
        self._loaded: _Vocabulary | None = None

    def decode(self, tokens: Sequence[int] | NDArray[np.integer]) -> str:
        ids = np.asarray(tokens)
        if not len(ids):
            return ""
        vocabulary = self._vocabulary()
        if self.lenient and len(_unknown(ids, vocabulary.known)):
            return self._around_unknown(ids, vocabulary)
        _check_known(ids, vocabulary.known)
        plain = ids.tolist()
        text: str = vocabulary.tokenizer.decode(plain, skip_special_tokens=False)
        if not self.lenient and "\ufffd" in text:
            _check_runs(plain, vocabulary.byte_of)
        return text

    def _around_unknown(self, ids: NDArray[np.integer], vocabulary: _Vocabulary) -> str:
        """Decode the runs between ids without a token, and show these."""
        unknown = set(ids[_unknown(ids, vocabulary.known)].tolist())
        text = ""
        for strange, run in groupby(ids.tolist(), unknown.__contains__):
            several = list(run)
            text += "".join(map(marker, several)) if strange else vocabulary.tokenizer.decode(several, False)
        return text

    def pieces(self, tokens: Sequence[int] | NDArray[np.integer]) -> list[bytes | str]:
        vocabulary = self._vocabulary()
        return [vocabulary.piece(token) for token in np.asarray(tokens).tolist()]

    def _vocabulary(self) -> _Vocabulary:
        if self._loaded is None:
            self._loaded = _Vocabulary(plain_tokenizer(self.content.json.tobytes()))
        return self._loaded

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_loaded": None}


class _Vocabulary:
    """A loaded tokenizer and what its decoding needs: which ids have a token, which stand for a single byte."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        vocabulary = vocabulary_of(tokenizer)
        self.known = np.zeros(max(vocabulary, default=-1) + 1, np.bool_)
        self.known[list(vocabulary)] = True
        added = tokenizer.get_added_tokens_decoder()
        falls_back = "ByteFallback" in decoder_kinds(tokenizer)
        self.byte_of = {
            token: int(text[3:5], 16)
            for token, text in vocabulary.items()
            if falls_back and token not in added and len(text) == 6 and text.startswith("<0x") and text.endswith(">")
        }
        self._spelled = {
            token: text if token in added else text.replace("▁", " ") for token, text in vocabulary.items()
        }

    def piece(self, token: int) -> bytes | str:
        if token in self.byte_of:
            return bytes([self.byte_of[token]])
        return self._spelled.get(token, marker(token))


def _unknown(ids: NDArray[np.integer], known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Positions of ids that have no token, int64[n]."""
    outside = (ids < 0) | (ids >= len(known))
    if outside.any():
        return np.flatnonzero(outside | ~known[np.where(outside, 0, ids)]) if len(known) else np.arange(len(ids))
    return np.flatnonzero(~known[ids])


def _check_known(ids: NDArray[np.integer], known: NDArray[np.bool_]) -> None:
    unknown = _unknown(ids, known)
    if len(unknown):
        position = int(unknown[0])
        raise DecodeError.unknown(position, int(ids[position]), int(known.sum()))


def _check_runs(ids: list[int], byte_of: Mapping[int, int]) -> None:
    """Raise for the first run of single-byte tokens that is not UTF-8; a U+FFFD may also be what a token says."""
    for position, run in _byte_runs(ids, byte_of):
        try:
            run.decode("utf-8")
        except UnicodeDecodeError as error:
            at = position + error.start
            raise DecodeError.not_utf8(at, ids[at], run[error.start : error.start + 4]) from None


def _byte_runs(ids: list[int], byte_of: Mapping[int, int]) -> Iterator[tuple[int, bytes]]:
    at = 0
    for is_byte, group in groupby(ids, byte_of.__contains__):
        run = list(group)
        if is_byte:
            yield at, bytes(byte_of[token] for token in run)
        at += len(run)


def _as_bytes(piece: bytes | str) -> bytes:
    return piece if isinstance(piece, bytes) else piece.encode()
