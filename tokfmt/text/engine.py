"""Text to ids by one of two engines, and the comparison that keeps them equal.

`fastokens` is some 40 times faster; `tokenizers` is the reference, whose ids are right by definition. Both read the
same tokenizer.json, without its padding, truncation, dropout and templates, so only the text decides about ids. Texts
are given one by one: a batch would go to an engine's own thread pool, while tokfmt's workers already are as many as the
user said, and one by one costs no more CPU (118 MB/cpu-s against 79 for batches of 256; GPT-2, two cores).

Only byte-level tokenizers are trusted to the fast engine unasked. The engines are compared before a run, on strings
made to part them (`hostile_texts`); in every process on the first texts; and on one text in 1,024 later on, chosen by
its ids, so that the same input always compares the same. Once a run is under way a difference stops it: ids never
depend on which texts happened to be compared.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from tokfmt.core.errors import ConversionError, printable
from tokfmt.core.ragged import Ragged, offsets_of
from tokfmt.text.vocabulary import Content, guarded, plain_tokenizer, vocabulary_of

EngineName = Literal["fastokens", "tokenizers"]
EngineChoice = Literal["auto", "fastokens", "tokenizers"]

_FIRST = 16
"""Texts that each process compares before it trusts the fast engine."""
_SAMPLED = 1023
"""Mask of the hash of a text's ids; 0 means compare. One in 1,024 costs about a tenth of the fast engine's time."""
_COMPARED = 1 << 14
"""Characters of a text that are compared at most: 7 ms of the reference."""
_loading = threading.Lock()


class EngineDifferenceError(ConversionError):
    """The fast engine and the reference give different ids, or the fast one fails.

    Attributes:
        text: How the text begins. position: Token at which they part. fast, reference: What each says there.
    """

    def __init__(self, text: str, position: int, fast: object, reference: object) -> None:
        self.text, self.position, self.fast, self.reference = text[:60], position, fast, reference
        super().__init__(
            f"fastokens and tokenizers disagree on the text that begins {printable(repr(self.text))}: at token "
            f"{position:,}, {fast} instead of {reference}. --engine tokenizers takes the reference"
        )


class Engine(Protocol):
    """One way to turn a text into ids. Threads may share it."""

    def encode(self, text: str) -> bytes:
        """The ids of a text, uint32 little-endian, without special tokens added."""


class Fastokens:
    """The fast engine.

    Args:
        content: A tokenizer.json.
        parse: Whether the literal text of a special token becomes its id.

    Raises:
        ValueError: A tokenizer that fastokens does not support.
    """

    def __init__(self, content: bytes, *, parse: bool) -> None:
        from fastokens import Tokenizer

        self._tokenizer = Tokenizer.from_json_str(content.decode())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._split = not parse

    def encode(self, text: str) -> bytes:
        ids: bytes = self._tokenizer.encode_batch_flat(
            [text], add_special_tokens=False, split_special_tokens=self._split
        )[0]
        return ids


class Reference:
    """The reference engine, `tokenizers`. Arguments as for Fastokens."""

    def __init__(self, content: bytes, *, parse: bool) -> None:
        self._tokenizer = plain_tokenizer(content)
        self._tokenizer.encode_special_tokens = not parse

    def encode(self, text: str) -> bytes:
        # a batch of one: `encode` holds the GIL and keeps offsets
        encoding = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0]
        return np.asarray(encoding.ids, "<u4").tobytes()

    def vocabulary(self) -> dict[int, str]:
        """Id to token."""
        return vocabulary_of(self._tokenizer)


def engine_title(name: str) -> str:
    """An engine and its version, as manifests have it: "fastokens 0.3.5"."""
    from importlib.metadata import version  # slow to import

    return f"{name} {version(name)}"


def first_difference(fast: Engine, reference: Engine, texts: Iterable[str]) -> EngineDifferenceError | None:
    """Compare two engines on the beginnings of texts; None when they agree on all."""
    for text in texts:
        sample = text[:_COMPARED]
        expected = reference.encode(sample)
        try:
            found = guarded(lambda sample=sample: fast.encode(sample), ValueError)  # type: ignore[misc]
        except ValueError as error:
            return EngineDifferenceError(sample, 0, f"the failure {str(error)!r}", _ids(expected)[:1].tolist())
        if found != expected:
            return _difference(sample, found, expected)
    return None


def _difference(text: str, found: bytes, expected: bytes) -> EngineDifferenceError:
    a, b = _ids(found), _ids(expected)
    both = min(len(a), len(b))
    unequal = np.flatnonzero(a[:both] != b[:both])
    at = int(unequal[0]) if len(unequal) else both
    said = [f"id {ids[at]}" if at < len(ids) else "the end" for ids in (a, b)]
    return EngineDifferenceError(text, at, *said)


def _ids(raw: bytes) -> NDArray[np.uint32]:
    return np.frombuffer(raw, "<u4").astype(np.uint32, copy=False)


_fast = lru_cache(maxsize=2)(lambda content, parse: Fastokens(content.json.tobytes(), parse=parse))
_reference = lru_cache(maxsize=2)(lambda content, parse: Reference(content.json.tobytes(), parse=parse))


def fast_engine(content: Content, *, parse: bool) -> Fastokens:
    """The fast engine, loaded once a process."""
    with _loading:
        return _fast(content, parse)


def reference_engine(content: Content, *, parse: bool) -> Reference:
    """The reference engine, loaded once a process."""
    with _loading:
        return _reference(content, parse)


def choose(
    choice: EngineChoice, content: Content, texts: Iterable[str], *, parse: bool, byte_level: bool
) -> tuple[EngineName, str]:
    """The engine to use, and a note when it is not the one hoped for.

    Args:
        choice: What was asked for.
        content: The tokenizer.
        texts: Texts to compare the engines on, besides those that this module has.
        parse: Whether the literal text of a special token becomes its id.
        byte_level: Its decoder is byte-level.

    Raises:
        EngineDifferenceError: "fastokens" was asked for, and its ids differ on one of the texts.
        ConversionError: "fastokens" was asked for, and it does not support this tokenizer.
    """
    if choice == "tokenizers":
        return choice, ""
    try:
        if choice == "auto" and not byte_level:
            # seen in 0.3.5: with byte fallback, the six characters <0x41> become the token for the byte 0x41
            raise ConversionError("fastokens is trusted with byte-level tokenizers only")  # noqa: TRY301
        fast = guarded(lambda: fast_engine(content, parse=parse), ConversionError)
        reference = reference_engine(content, parse=parse)
        difference = first_difference(fast, reference, chain(hostile_texts(reference.vocabulary()), texts))
        if difference:
            raise difference
    except ConversionError as error:
        if choice == "auto":
            return "tokenizers", f"the engine is tokenizers, fastokens would be faster: {error}"
        raise
    return "fastokens", ""


class TextEncoder:
    """Text to ids, by one engine. Picklable; loads its tokenizer on first use in a process; threads may share it.

    Args:
        content: The tokenizer.
        engine: Which engine encodes.
        parse: Whether the literal text of a special token becomes its id.
        strict: A text that fastokens fails on stops the run, instead of going to the reference.
    """

    def __init__(self, content: Content, engine: EngineName, *, parse: bool, strict: bool = False) -> None:
        self.content, self.engine, self.parse, self.strict = content, engine, parse, strict
        self._engines: tuple[Engine, Engine] | None = None
        self._compared = 0

    def encode(self, texts: list[str]) -> Ragged:
        """The ids of each text, in order, no special tokens added: Ragged of uint32.

        Raises:
            EngineDifferenceError: A text that was compared has other ids by the reference.
        """
        fast, reference = self._engines or self._load()
        if fast is reference:
            parts = [reference.encode(text) for text in texts]
        else:
            parts = self._encode_fast(texts, fast, reference)
            self._compare(texts, parts, fast, reference)
        return Ragged(_ids(b"".join(parts)), offsets_of([len(part) // 4 for part in parts]))

    def _encode_fast(self, texts: list[str], fast: Engine, reference: Engine) -> list[bytes]:
        try:
            return guarded(lambda: [fast.encode(text) for text in texts], ValueError)
        except ValueError as error:
            if len(texts) > 1:
                return [ids for text in texts for ids in self._encode_fast([text], fast, reference)]
            if self.strict:
                raise EngineDifferenceError(texts[0], 0, f"the failure {str(error)!r}", "ids") from error
            return [reference.encode(texts[0])]

    def _compare(self, texts: list[str], parts: list[bytes], fast: Engine, reference: Engine) -> None:
        first = min(len(texts), max(0, _FIRST - self._compared))
        sampled = (i for i in range(first, len(texts)) if not xxh3_64_intdigest(parts[i]) & _SAMPLED)
        for i in chain(range(first), sampled):
            self._compared += 1
            sample, found = texts[i], parts[i]
            if len(sample) > _COMPARED:
                sample = sample[:_COMPARED]
                found = self._encode_fast([sample], fast, reference)[0]
            expected = reference.encode(sample)
            if found != expected:
                raise _difference(sample, found, expected)

    def _load(self) -> tuple[Engine, Engine]:
        reference = reference_engine(self.content, parse=self.parse)
        fast = fast_engine(self.content, parse=self.parse) if self.engine == "fastokens" else reference
        self._engines = (fast, reference)
        return self._engines

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_engines": None, "_compared": 0}


def hostile_texts(vocabulary: Mapping[int, str]) -> Iterator[str]:
    """Texts on which tokenizers are known to part: every script and category, runs of spaces, tokens spelled out.

    Args:
        vocabulary: Id to token; the tokens that look special are tried, and a thousand of the others.
    """
    yield from _SPACES
    yield from _WORDS
    step = 89  # a prime, and small enough to touch every block of assigned characters
    spread = [chr(c) for c in (*range(1, 0xD800, step), *range(0xE000, 0x20000, step), *range(0xE0000, 0xE0200, step))]
    for i in range(0, len(spread), 64):
        yield "".join(spread[i : i + 64])
        yield " x".join(spread[i : i + 64])
    tokens = [vocabulary[token] for token in sorted(vocabulary)]
    special = [token for token in tokens if len(token) > 2 and token[0] in "<[|" and token[-1] in ">]|"]
    for token in (*special[:128], *special[-128:]):
        yield f"a{token}b {token} {token}{token}\n{token[:-1]} {token.upper()}"
    for token in tokens[:: max(1, len(tokens) // 1000)]:
        yield f"{token} {token}"
        yield f"x{token}{token}".replace("Ġ", " ").replace("▁", " ")


_SPACES = (
    *(
        "",
        " ",
        "  ",
        "\n",
        "\r\n\r\n",
        "\t \n \t",
        " " * 200 + "x",
        "\n" * 70,
        "\u00a0\u3000 \u2028\ufeff \x85\x0b\x0c",
    ),
    *("x=1;  y=2\n\tif (x<y) {\r\n    return x-y; }\n\n\n", " a  b   c    ", "\n a\n  b \n"),
)
_WORDS = (
    *("a" * 300, "0123456789" * 9, "-" * 80, "don't DON'T we'll we'LL I\u2019m 'tis ''s '", "\x00\x01\x7f\u200b\u202e"),
    *(
        "e\u0301 \u00e9 \ufb01 \u1e9b\u0323",
        "\u4f60\u597d\uff0c\u4e16\u754c\u3002",
        "\u0928\u092e\u0938\u094d\u0924\u0947",
    ),
    "\u0645\u0631\u062d\u0628\u0627 \u0663\u0664",
    "\U0001f469\u200d\U0001f52c\U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd",
)
