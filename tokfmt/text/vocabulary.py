"""A tokenizer.json and what is in it: its tokens, what its decoder is made of, the bytes that its tokens stand for."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import ConversionError, TokfmtError
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
