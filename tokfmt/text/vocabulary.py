"""A tokenizer.json and what is in it: its tokens, what its decoder is made of, the bytes that its tokens stand for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import ConversionError, printable

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
    return _kinds(json.loads(tokenizer.decoder.__getstate__())) - {"Sequence"} if tokenizer.decoder else set()


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
