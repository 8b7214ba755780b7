"""A tokenizer.json and what is in it: its tokens, what its decoder is made of, the bytes that its tokens stand for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import printable

T = TypeVar("T")


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


def plain_tokenizer(content: bytes) -> Any:
    """A `tokenizers.Tokenizer` from a tokenizer.json, by which ids depend on the text alone.

    Raises:
        ValueError: It is not one. A panic of the library is possible too; see `guarded`.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(content)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if getattr(tokenizer.model, "dropout", None) is not None:
        tokenizer.model.dropout = None
    return tokenizer


def vocabulary_of(tokenizer: Any) -> dict[int, str]:
    """Id to token of a `tokenizers.Tokenizer`, added tokens by their content."""
    found = {token: text for text, token in tokenizer.get_vocab(with_added_tokens=True).items()}
    found.update({token: added.content for token, added in tokenizer.get_added_tokens_decoder().items()})
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

    Byte-level vocabularies spell each byte as a visible character. A token with any other character, and an added
    token, stands for its own UTF-8.
    """
    spelled = _spelling()
    added = tokenizer.get_added_tokens_decoder()
    return {
        token: text.encode("utf-8", "replace") if token in added else _bytes_of(text, spelled)
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
