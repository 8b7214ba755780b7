"""Ids back to text, exactly; and what a tokenizer.json says of its tokens, its decoder and the bytes they stand for.

A byte-level vocabulary (GPT-2, Llama 3, Qwen ...) is a table of byte strings: a sequence is their concatenation, and
its text is that, read as UTF-8. Any other vocabulary is decoded by `tokenizers`, with nothing skipped and nothing
cleaned up. Neither guesses: an id without a token and bytes that are no UTF-8 are errors, unless `lenient`, which is
for display and for `--allow-loss invalid-utf8`: bytes that are no UTF-8 become U+FFFD, an id without a token ⟨id⟩.
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

from tokfmt.core.errors import ConversionError, TokfmtError
from tokfmt.core.format import Decoder
from tokfmt.core.messages import allowing
from tokfmt.core.text_format import printable

T = TypeVar("T")

_MOST_IDS = 1 << 24
"""Four times more than any tokenizer in use has. Some of what is done with a vocabulary takes 8 bytes an id."""


@dataclass(frozen=True, slots=True)
class Content:
    """A tokenizer.json; equal by digest.

    Attributes:
        json: uint8[bytes]; an array, so that it travels to worker processes once.
        digest: Of the file it came from, xxh3_128.
    """

    json: NDArray[np.uint8] = field(compare=False, repr=False)
    digest: str


class EngineError(TokfmtError):
    """A tokenizer library failed on a text, or on ids, that it should take: an absurd pattern, a bug."""

    def __init__(self, doing: str, why: str) -> None:
        self.doing, self.why = doing, why
        super().__init__(f"the tokenizer fails to {doing}: {why}. Is it the tokenizer that such text was made for?")


def guarded(call: Callable[[], T], worded: Callable[[str], Exception]) -> T:
    """Call into a tokenizer library; whatever it raises becomes `worded(its first line)`.

    A panic of Rust code arrives as a BaseException that no `except Exception` sees.
    """
    try:
        return call()
    except BaseException as error:
        if isinstance(error, MemoryError) or not (
            isinstance(error, Exception) or type(error).__name__ == "PanicException"
        ):
            raise
        lines = str(error).strip().splitlines()
        raise worded(printable(lines[0][:200]) if lines else type(error).__name__) from error


def expansion_of(tokenizer: Any) -> tuple[int, str]:
    """How many times longer the steps of a `tokenizers.Tokenizer` can make what goes through them, and which steps.

    What Unicode itself does (decomposing, lower case) is bounded and does not add up; what a file says, multiplies.

    Returns:
        The larger of the factors, in characters, of encoding (normalizer and pre-tokenizer) and decoding; its steps'
        name: "normalizers" or "decoders".
    """
    encoding = _factor(_state(tokenizer.normalizer)) * _factor(_state(tokenizer.pre_tokenizer))
    return max((encoding, "normalizers"), (_factor(_state(tokenizer.decoder)), "decoders"))


def _state(part: Any) -> Any:
    return json.loads(part.__getstate__()) if part else None


def _factor(part: Any) -> int:
    """Of one step, or of all in a list."""
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
    if kind in ("Metaspace", "ByteLevel"):  # one more at the start; two characters for a byte beyond ASCII
        return 2
    if kind == "Precompiled":
        table = b64decode(part.get("precompiled_charsmap") or "")
        trie = int.from_bytes(table[:4], "little")  # SentencePiece: its size, the trie, then what characters become
        return max(1, *(len(text.decode("utf-8", "replace")) for text in table[4 + trie :].split(b"\0")))
    return prod(map(_factor, part.values()))


def plain_tokenizer(source: bytes) -> Any:
    """A `tokenizers.Tokenizer` from a tokenizer.json, without its padding and truncation.

    Raises:
        ValueError: It is not one. A panic of the library is possible too; see `guarded`.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(source)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def without_dropout(source: bytes) -> tuple[bytes, Any]:
    """A tokenizer.json by which the ids of a text are always the same, and its `plain_tokenizer`.

    Raises:
        ValueError: It is not one.
    """
    tokenizer = plain_tokenizer(source)
    if getattr(tokenizer.model, "dropout", None) is None:
        return source, tokenizer
    vocabulary_of(tokenizer)  # only for its check: writing steps through every number up to the largest id
    tokenizer.model.dropout = None
    return tokenizer.to_str().encode(), tokenizer


def vocabulary_of(tokenizer: Any) -> dict[int, str]:
    """Id to token of a `tokenizers.Tokenizer`, added tokens by their content.

    Raises:
        ConversionError: It has an id that no vocabulary has.
    """
    found = {token: text for text, token in tokenizer.get_vocab(with_added_tokens=True).items()}
    found.update({token: added.content for token, added in tokenizer.get_added_tokens_decoder().items()})
    top = max(found, default=0)
    if top >= _MOST_IDS:
        raise ConversionError(f"the tokenizer's vocabulary has the id {top:,}; at most {_MOST_IDS - 1:,} is supported")
    return found


def decoder_kinds(tokenizer: Any) -> set[str]:
    """The types of a tokenizer's decoder and of what it is made of, e.g. {"ByteFallback", "Fuse", "Replace"}."""
    return _kinds(_state(tokenizer.decoder)) - {"Sequence"}


def _kinds(part: Any) -> set[str]:
    if isinstance(part, list):
        return set().union(*map(_kinds, part))
    if not isinstance(part, dict):
        return set()
    return {str(part.get("type"))}.union(*map(_kinds, part.values()))


def byte_table(tokenizer: Any) -> dict[int, bytes]:
    """Bytes of each id of a byte-level `tokenizers.Tokenizer`.

    Byte-level vocabularies spell each byte as a visible character. A token with any other character stands for its own
    UTF-8; so does an added token, unless the model has it too.
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
    """Character to byte, for `str.translate`.

    Bytes that are visible in Latin-1 spell themselves; the others, in order, are U+0100, U+0101, ... A character below
    256 that spells nothing goes to one that Latin-1 cannot have, so that `_bytes_of` notices.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {**dict.fromkeys(hidden, "\uffff"), **{256 + i: byte for i, byte in enumerate(hidden)}}


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
        remedy = f"{allowing('invalid-utf8')} writes U+FFFD in their place"
        why = f"gives bytes that are not UTF-8 here ({found.hex(' ')}). {remedy}"
        return DecodeError(position, token, why, found)


class TextDecoder(Decoder, Protocol):
    """A `Decoder` that also tells tokens apart; `decode` raises DecodeError. Threads may share it."""

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
        size = max(table, default=-1) + 1
        # arrays travel to worker processes once, and fast
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
        except (IndexError, TypeError):  # beyond the table, or None in it
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
    """Decodes by `tokenizers`, for everything that is not byte-level.

    Args:
        content: The tokenizer.
        lenient: Show what is no text instead of raising.
    """

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
    """A loaded tokenizer and what its decoding needs: how ids are spelled, which stand for a single byte."""

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
        """The text of ids that all have a token."""
        begins = ", ".join(map(str, ids[:8]))
        return guarded(
            lambda: str(self.tokenizer.decode(ids, skip_special_tokens=False)),
            lambda why: EngineError(f"decode the ids that begin {begins}", why),
        )

    def piece(self, token: int) -> bytes | str:
        if token in self.byte_of:
            return bytes([self.byte_of[token]])
        return self.spelled.get(token, marker(token))


def _around_unknown(ids: list[int], vocabulary: _Vocabulary) -> str:
    """Decode the runs between ids without a token, and show these."""
    text = ""
    for known, run in groupby(ids, vocabulary.spelled.__contains__):
        several = list(run)
        text += vocabulary.decoded(several) if known else "".join(map(marker, several))
    return text


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
