"""Decode token IDs to text exactly, and read the vocabulary and the decoder of a tokenizer.json.

A byte-level vocabulary (GPT-2, Llama 3, Qwen) maps each ID to bytes. The text of a sequence is the concatenation of its
bytes, read as UTF-8. `tokenizers` decodes any other vocabulary, with all special tokens and without cleaning.

An ID without a token and bytes that are not UTF-8 are errors. With `lenient`, for display and for `--allow-loss
invalid-utf8`, bytes that are not UTF-8 become U+FFFD, and an ID without a token becomes ⟨id⟩.
"""

from __future__ import annotations

import json
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import accumulate, groupby
from math import prod
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.format import Decoder
from tokfmt.errors import ConversionError, TokfmtError
from tokfmt.wording import printable

T = TypeVar("T")

_MOST_IDS = 1 << 24
"""Limit of the vocabulary size, four times the largest in use. Some steps take 8 bytes per ID."""


@dataclass(frozen=True, slots=True)
class Content:
    """A tokenizer.json. Two are equal if their digests are."""

    json: NDArray[np.uint8] = field(compare=False, repr=False)  # uint8[bytes], which worker processes receive only once
    digest: str  # xxh3_128 of the file


class EngineError(TokfmtError):
    """A tokenizer library fails on valid text or IDs, because of a bug or an absurd pattern in the tokenizer."""

    def __init__(self, doing: str, why: str) -> None:
        self.doing, self.why = doing, why
        super().__init__(f"the tokenizer fails to {doing}: {why}. Check that the tokenizer fits this text")


def guarded(call: Callable[[], T], worded: Callable[[str], Exception]) -> T:
    """Call a tokenizer library, and raise `worded(first line of the error)` for any error.

    A panic of Rust code is a BaseException, which `except Exception` does not catch. A MemoryError is raised as it is.
    So is a ModuleNotFoundError: the library is not installed, which says nothing about the tokenizer.
    """
    try:
        return call()
    except BaseException as error:
        if isinstance(error, (MemoryError, ModuleNotFoundError)) or not (
            isinstance(error, Exception) or type(error).__name__ == "PanicException"
        ):
            raise
        lines = str(error).strip().splitlines()
        raise worded(printable(lines[0][:200]) if lines else type(error).__name__) from error


def expansion_of(tokenizer: Any) -> tuple[int, str]:
    """Return how many times longer the steps of a `tokenizers.Tokenizer` can make text, and which steps.

    The growth from Unicode itself (decomposition, lower case) is bounded and not counted. The factors of the steps that
    the file defines are multiplied. The result is the larger of two factors in characters, that of encoding (normalizer
    and pre-tokenizer) and that of decoding, with the name of its steps: "normalizers" or "decoders".
    """
    encoding = _factor(_state(tokenizer.normalizer)) * _factor(_state(tokenizer.pre_tokenizer))
    return max((encoding, "normalizers"), (_factor(_state(tokenizer.decoder)), "decoders"))


def _state(part: Any) -> Any:
    return json.loads(part.__getstate__()) if part else None


def _factor(part: Any) -> int:
    """Return the factor of one step, or the product of a list of steps."""
    if isinstance(part, list):
        return prod(map(_factor, part))
    if not isinstance(part, dict):
        return 1
    kind = part.get("type")
    if kind == "Replace":
        literal = part.get("pattern", {}).get("String")
        content = len(part.get("content", ""))
        return max(1, -(-content // len(literal))) if literal else 1 + content  # a pattern may match between characters
    if kind == "Prepend":
        return 1 + len(part.get("prepend", ""))
    if kind in ("Metaspace", "ByteLevel"):  # adds one at the start, or spells a byte beyond ASCII in two characters
        return 2
    if kind == "Precompiled":
        table = b64decode(part.get("precompiled_charsmap") or "")
        trie = int.from_bytes(table[:4], "little")  # SentencePiece: its size, the trie, then what characters become
        return max(1, *(len(text.decode("utf-8", "replace")) for text in table[4 + trie :].split(b"\0")))
    return prod(map(_factor, part.values()))


def plain_tokenizer(source: bytes) -> Any:
    """Return the `tokenizers.Tokenizer` of a tokenizer.json, without its padding and truncation."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(source)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def without_dropout(source: bytes) -> tuple[bytes, Any]:
    """Return a tokenizer.json without dropout, so that a text always has the same IDs, and its `plain_tokenizer`."""
    tokenizer = plain_tokenizer(source)
    if getattr(tokenizer.model, "dropout", None) is None:
        return source, tokenizer
    vocabulary_of(tokenizer)  # only for its check: `to_str` steps through every number up to the largest ID
    tokenizer.model.dropout = None
    return tokenizer.to_str().encode(), tokenizer


def vocabulary_of(tokenizer: Any) -> dict[int, str]:
    """Return the tokens of a `tokenizers.Tokenizer` by ID, at most 2^24; an added token is its content."""
    found = {token: text for text, token in tokenizer.get_vocab(with_added_tokens=True).items()}
    found.update({token: added.content for token, added in tokenizer.get_added_tokens_decoder().items()})
    top = max(found, default=0)
    if top >= _MOST_IDS:
        raise ConversionError(f"the tokenizer's vocabulary has the ID {top:,} (expected at most {_MOST_IDS - 1:,})")
    return found


def decoder_kinds(tokenizer: Any) -> set[str]:
    """Return the types of the decoders in a tokenizer, such as {"ByteFallback", "Fuse", "Replace"}."""
    return _kinds(_state(tokenizer.decoder)) - {"Sequence"}


def _kinds(part: Any) -> set[str]:
    if isinstance(part, list):
        return set().union(*map(_kinds, part))
    if not isinstance(part, dict):
        return set()
    return {str(part.get("type"))}.union(*map(_kinds, part.values()))


def byte_table(tokenizer: Any) -> dict[int, bytes]:
    """Return the bytes of each ID of a byte-level `tokenizers.Tokenizer`.

    A byte-level vocabulary spells each byte as a visible character. A token with any other character means its own
    UTF-8 bytes. An added token that the model does not have means its UTF-8 bytes too.
    """
    spelled = _spelling()
    own = set(tokenizer.get_vocab(with_added_tokens=False).values())
    return {
        token: _bytes_of(text, spelled) if token in own else text.encode("utf-8", "replace")
        for token, text in vocabulary_of(tokenizer).items()
    }


def _bytes_of(text: str, spelled: Mapping[int, int | str]) -> bytes:
    try:
        return text.translate(spelled).encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _spelling() -> dict[int, int | str]:
    """Return the byte of each character, for `str.translate`.

    Bytes that are visible in Latin-1 spell themselves. The others are spelled U+0100, U+0101 and so on, in order. A
    character below 256 that spells no byte maps to U+FFFF, which Latin-1 lacks, so `_bytes_of` detects it.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {**dict.fromkeys(hidden, "\uffff"), **{256 + i: byte for i, byte in enumerate(hidden)}}


class DecodeError(ConversionError):
    """IDs that cannot be decoded to text."""

    def __init__(self, position: int, token: int, why: str, found: bytes = b"") -> None:
        # position: in its sequence
        # found: its bytes in hexadecimal if they are not UTF-8, else ""
        self.position, self.token, self.found = position, token, found.hex(" ")
        super().__init__(f"token {position:,} of the sequence (ID {token:,}) {why}")

    @staticmethod
    def unknown(position: int, token: int, size: int) -> DecodeError:
        """Return the error for an ID without a token in a vocabulary of `size` tokens."""
        remedy = "Give the tokenizer that the dataset was made with"
        return DecodeError(position, token, f"is not in the tokenizer's vocabulary of {size:,} tokens. {remedy}")

    @staticmethod
    def not_utf8(position: int, token: int, found: bytes) -> DecodeError:
        """Return the error for the token at which the bytes are no longer UTF-8."""
        remedy = "--allow-loss invalid-utf8 writes U+FFFD in their place"
        why = f"gives bytes that are not UTF-8 here ({found.hex(' ')}). {remedy}"
        return DecodeError(position, token, why, found)


class TextDecoder(Decoder, Protocol):
    """A `Decoder` that also decodes tokens one by one. `decode` raises DecodeError. Threads can share it."""

    def pieces(self, tokens: Sequence[int] | NDArray[np.integer]) -> list[bytes | str]:
        """Return each token by itself: bytes if the vocabulary has bytes for it, else a string. Never raises."""


def marker(token: int) -> str:
    """Return the display of an ID without a token."""
    return f"⟨{token}⟩"


class ByteLevelDecoder:
    """Decode with a table of bytes. If it is lenient, bytes and IDs that are not text are replaced."""

    def __init__(self, table: Mapping[int, bytes], *, lenient: bool = False) -> None:
        size = max(table, default=-1) + 1
        # worker processes receive arrays once, and fast
        self._lengths = np.full(size, -1, np.int32)
        self._lengths[list(table)] = [len(entry) for entry in table.values()]
        self._blob = np.frombuffer(b"".join(table[token] for token in sorted(table)), np.uint8)
        self._built: list[bytes | None] | None = None
        self.lenient = lenient

    def decode(self, tokens: Sequence[int] | NDArray[np.integer]) -> str:
        ids = np.asarray(tokens).tolist()
        try:
            data = b"".join(map(self._table().__getitem__, ids))  # type: ignore[arg-type]
            negative = min(ids, default=0) < 0
        except (IndexError, TypeError):  # an ID beyond the table, or one without bytes
            negative = True
        if negative:
            data = self._with_unknown(ids)
        if self.lenient:
            return data.decode("utf-8", "replace")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            ends = list(accumulate(int(self._lengths[token]) for token in ids))
            position = bisect_right(ends, error.start)
            raise DecodeError.not_utf8(position, ids[position], data[error.start : error.start + 4]) from None

    def _with_unknown(self, ids: list[int]) -> bytes:
        pieces = self.pieces(ids)
        if self.lenient:
            return b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces)
        position = next(i for i, piece in enumerate(pieces) if isinstance(piece, str))
        raise DecodeError.unknown(position, ids[position], int((self._lengths >= 0).sum()))

    def pieces(self, tokens: Sequence[int] | NDArray[np.integer]) -> list[bytes | str]:
        table = self._table()
        found = ((token, table[token] if 0 <= token < len(table) else None) for token in np.asarray(tokens).tolist())
        return [marker(token) if piece is None else piece for token, piece in found]

    def _table(self) -> list[bytes | None]:
        if self._built is None:
            lengths, blob = self._lengths.tolist(), BytesIO(self._blob.tobytes())
            self._built = [None if length < 0 else blob.read(length) for length in lengths]
        return self._built

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_built": None}


class VocabularyDecoder:
    """Decode with `tokenizers`, for every vocabulary that is not byte-level; lenient, replace what is no text."""

    def __init__(self, content: Content, *, lenient: bool = False) -> None:
        self.content, self.lenient = content, lenient
        self._loaded: _Vocabulary | None = None

    def decode(self, tokens: Sequence[int] | NDArray[np.integer]) -> str:
        ids = np.asarray(tokens).tolist()
        vocabulary = self._vocabulary()
        if not vocabulary.spelled.keys() >= set(ids):
            if self.lenient:
                return _around_unknown(ids, vocabulary)
            position = next(i for i, token in enumerate(ids) if token not in vocabulary.spelled)
            raise DecodeError.unknown(position, ids[position], len(vocabulary.spelled))
        text = vocabulary.decoded(ids)
        if not self.lenient and "\ufffd" in text:
            _check_runs(ids, vocabulary.byte_of)
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
    """A loaded tokenizer, with the spelling of each ID and the IDs of single bytes."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        vocabulary = vocabulary_of(tokenizer)
        added = tokenizer.get_added_tokens_decoder()
        falls_back = "ByteFallback" in decoder_kinds(tokenizer)
        self.byte_of = {
            token: int(text[3:5], 16)
            for token, text in vocabulary.items()
            if falls_back and token not in added and len(text) == 6 and text.startswith("<0x") and text.endswith(">")
        }
        self.spelled = {token: text if token in added else text.replace("▁", " ") for token, text in vocabulary.items()}

    def decoded(self, ids: list[int]) -> str:
        """Return the text of IDs that all have a token."""
        begins = ", ".join(map(str, ids[:8]))
        return guarded(
            lambda: str(self.tokenizer.decode(ids, skip_special_tokens=False)),
            lambda why: EngineError(f"decode the IDs that begin {begins}", why),
        )

    def piece(self, token: int) -> bytes | str:
        if token in self.byte_of:
            return bytes([self.byte_of[token]])
        return self.spelled.get(token, marker(token))


def _around_unknown(ids: list[int], vocabulary: _Vocabulary) -> str:
    """Decode the runs between IDs without a token, and display these as ⟨id⟩."""
    text = ""
    for known, run in groupby(ids, vocabulary.spelled.__contains__):
        several = list(run)
        text += vocabulary.decoded(several) if known else "".join(map(marker, several))
    return text


def _check_runs(ids: list[int], byte_of: Mapping[int, int]) -> None:
    """Raise DecodeError for the first run of single-byte tokens that is not UTF-8; a token may spell U+FFFD."""
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
