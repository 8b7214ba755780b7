"""Encode text with one of two engines, and compare them so that both give the same IDs.

`fastokens` is about 40 times faster. `tokenizers` is the reference: its IDs are right by definition. Both read the same
tokenizer.json without its padding, truncation, dropout and templates, so only the text decides about the IDs.

Texts are encoded in batches. One call per text would take the interpreter lock for each, so that two jobs are no faster
than one, and would use half as much CPU time again. Each engine has one pool of threads for all callers
(`run.execute.POOLS`), which the command line makes as large as the number of jobs.

Without --engine, only byte-level tokenizers use the fast engine. The engines are compared

- before a run, on strings that are known to make tokenizers differ (`hostile_texts`);
- in every process, on the first texts;
- on one text in 1,024 after that, chosen by its IDs, so that the same source always compares the same texts.

During a run, a difference stops the run, so that IDs never depend on which texts are compared.

Tokenizers without a tokenizer.json are Python classes of `transformers` (ByT5 and a few others), which are slow.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.format import Encoder
from tokfmt.core.ragged import Ragged, Tokens
from tokfmt.core.tokenizer_ids import TokenizerIds
from tokfmt.errors import ConversionError, EngineDifferenceError
from tokfmt.text.decoding import Content, DecodeError, EngineError, guarded, marker, plain_tokenizer, vocabulary_of
from tokfmt.text.hub import pretrained
from tokfmt.text.long_texts import NOWHERE, cuts_of, in_pieces
from tokfmt.wording import printable

EngineName = Literal["fastokens", "tokenizers"]
EngineChoice = Literal["auto", "fastokens", "tokenizers"]

_FIRST = 16
"""Number of texts that each process compares first."""
_SAMPLED = 1023
"""Mask of the hash in `_sampled`; 0 means compare. One text in 1,024 costs a tenth of the time of the fast engine."""
_COMPARED = 1 << 14
"""Limit of characters compared of a text, which take the reference 7 ms."""
_BATCH = 256
"""Texts compared in one call."""
_loading = threading.Lock()


class Fastokens(Encoder):
    """The fast engine, `fastokens`. With `parse`, the literal text of a special token is encoded as its ID."""

    def __init__(self, content: bytes, *, parse: bool) -> None:
        from fastokens import Tokenizer

        self._tokenizer = Tokenizer.from_json_str(content.decode())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._split = not parse

    def encode(self, texts: list[str]) -> Ragged:
        ids, offsets = self._tokenizer.encode_batch_flat(
            texts, add_special_tokens=False, split_special_tokens=self._split
        )
        return Ragged(np.frombuffer(ids, "<u4"), np.frombuffer(offsets, "<u8").astype(np.int64))


class Reference(Encoder):
    """The reference engine, `tokenizers`. It takes the arguments of `Fastokens`."""

    def __init__(self, content: bytes, *, parse: bool) -> None:
        self._tokenizer = plain_tokenizer(content)
        self._tokenizer.encode_special_tokens = not parse

    def encode(self, texts: list[str]) -> Ragged:
        try:
            found = guarded(lambda: self._tokenizer.encode_batch_fast(texts, add_special_tokens=False), ValueError)
        except ValueError as error:
            if len(texts) > 1:  # to find the text that fails
                return Ragged.of(self.encode([text]).tokens for text in texts)
            raise EngineError(f"encode the text that begins {printable(repr(texts[0][:60]))}", str(error)) from error
        return Ragged.of(encoding.ids for encoding in found)

    def encodings(self, texts: list[str]) -> list[Any]:
        """Return a `tokenizers.Encoding` of each text, with the characters of each token."""
        return guarded(
            lambda: list(self._tokenizer.encode_batch(texts, add_special_tokens=False)),
            lambda why: EngineError("encode a chat", why),
        )

    def vocabulary(self) -> dict[int, str]:
        """Return the token of each ID."""
        return vocabulary_of(self._tokenizer)


def engine_title(name: str) -> str:
    """Return the name and the version of an engine, as in manifests: "fastokens 0.3.5"."""
    from importlib.metadata import version  # imported here because it is slow

    return f"{name} {version(name)}"


def first_difference(fast: Encoder, reference: Encoder, texts: Iterable[str]) -> EngineDifferenceError | None:
    """Compare two engines on the beginnings of texts; return None if all IDs are equal."""
    samples = (text[:_COMPARED] for text in texts)
    batches = iter(lambda: list(islice(samples, _BATCH)), [])
    return next(filter(None, (_difference_within(batch, fast, reference) for batch in batches)), None)


def _difference_within(batch: list[str], fast: Encoder, reference: Encoder) -> EngineDifferenceError | None:
    expected = reference.encode(batch)
    try:
        found = guarded(lambda: fast.encode(batch), ValueError)
    except ValueError as error:
        if len(batch) == 1:
            return EngineDifferenceError(batch[0], 0, f"the failure {str(error)!r}", expected.tokens[:1].tolist())
        return next(filter(None, (_difference_within([text], fast, reference) for text in batch)), None)
    for text, a, b in zip(batch, found, expected, strict=True):
        if not np.array_equal(a, b):
            return _difference(text, a, b)
    return None


def _difference(text: str, found: Tokens, expected: Tokens) -> EngineDifferenceError:
    both = min(len(found), len(expected))
    unequal = np.flatnonzero(found[:both] != expected[:both])
    at = int(unequal[0]) if len(unequal) else both
    words = [f"ID {ids[at]}" if at < len(ids) else "the end" for ids in (found, expected)]
    return EngineDifferenceError(text, at, *words)


_fast = lru_cache(maxsize=2)(lambda content, parse: Fastokens(content.json.tobytes(), parse=parse))
_reference = lru_cache(maxsize=2)(lambda content, parse: Reference(content.json.tobytes(), parse=parse))


def fast_engine(content: Content, *, parse: bool) -> Fastokens:
    """Return the fast engine, loaded once per process."""
    with _loading:
        return _fast(content, parse)


def reference_engine(content: Content, *, parse: bool) -> Reference:
    """Return the reference engine, loaded once per process."""
    with _loading:
        return _reference(content, parse)


@lru_cache(maxsize=2)
def _known_difference(content: Content, parse: bool) -> EngineDifferenceError | None:
    """Compare the engines on the strings of this module, once per process."""
    fast, reference = fast_engine(content, parse=parse), reference_engine(content, parse=parse)
    return first_difference(fast, reference, hostile_texts(reference.vocabulary()))


def choose(
    choice: EngineChoice, content: Content, texts: Iterable[str], *, parse: bool, byte_level: bool
) -> tuple[EngineName, str]:
    """Return the engine to use, after a comparison on `texts` too, and a note if "auto" is not fastokens."""
    if choice == "tokenizers":
        return choice, ""
    try:
        if choice == "auto" and not byte_level:
            # fastokens 0.3.5 encodes the six characters <0x41> as the token of the byte 0x41 if there is byte fallback
            raise ConversionError("fastokens is used for byte-level tokenizers only")  # noqa: TRY301
        fast = guarded(lambda: fast_engine(content, parse=parse), ConversionError)
        difference = _known_difference(content, parse) or first_difference(
            fast, reference_engine(content, parse=parse), texts
        )
        if difference:
            raise difference
    except ConversionError as error:
        if choice == "auto":
            return "tokenizers", f"the engine is tokenizers, fastokens would be faster: {error}"
        raise
    return "fastokens", ""


class TextEncoder(Encoder):
    """Encode text with one engine. Picklable; it loads its tokenizer on first use in a process. Threads can share it.
    If it is strict, a text on which fastokens fails raises, instead of being encoded with the reference.
    """

    def __init__(self, content: Content, engine: EngineName, *, parse: bool, strict: bool = False) -> None:
        self.content, self.engine, self.parse, self.strict = content, engine, parse, strict
        self._engines: tuple[Encoder, Encoder] | None = None
        self._compared = 0

    def encode(self, texts: list[str]) -> Ragged:
        return in_pieces(texts, self._encode, lambda: cuts_of(self.content))

    def _encode(self, texts: list[str]) -> Ragged:
        fast, reference = self._engines or self._load()
        if fast is reference:
            return reference.encode(texts)
        ragged = self._encode_fast(texts, fast, reference)
        self._compare(texts, ragged, fast, reference)
        return ragged

    def _encode_fast(self, texts: list[str], fast: Encoder, reference: Encoder) -> Ragged:
        try:
            return guarded(lambda: fast.encode(texts), ValueError)
        except ValueError as error:
            if len(texts) > 1:
                return Ragged.of(self._encode_fast([text], fast, reference).tokens for text in texts)
            if self.strict:
                raise EngineDifferenceError(texts[0], 0, f"the failure {str(error)!r}", "ids") from error
            return reference.encode(texts)

    def _compare(self, texts: list[str], ragged: Ragged, fast: Encoder, reference: Encoder) -> None:
        first = min(len(texts), max(0, _FIRST - self._compared))
        for i in chain(range(first), (first + _sampled(ragged)[first:].nonzero()[0]).tolist()):
            self._compared += 1
            sample, found = texts[i][:_COMPARED], ragged[i]
            if len(sample) < len(texts[i]):
                found = self._encode_fast([sample], fast, reference)[0]
            expected = reference.encode([sample])[0]
            if not np.array_equal(found, expected):
                raise _difference(sample, found, expected)

    def _load(self) -> tuple[Encoder, Encoder]:
        reference = reference_engine(self.content, parse=self.parse)
        fast = fast_engine(self.content, parse=self.parse) if self.engine == "fastokens" else reference
        self._engines = (fast, reference)
        return self._engines

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_engines": None, "_compared": 0}


def _sampled(ragged: Ragged) -> NDArray[np.bool_]:
    """Return which texts to compare. The choice depends on the length and four IDs of a text, not on its batch."""
    lengths = np.diff(ragged.offsets)
    filled = lengths > 0
    mixed = lengths.astype(np.uint64)
    for third in range(4):
        mixed[filled] += ragged.tokens[(ragged.offsets[:-1] + (lengths - 1) * third // 3)[filled]]
        mixed *= np.uint64(0x9E3779B97F4A7C15)  # Knuth's multiplier: the high bits depend on every addend
    return np.asarray(mixed >> np.uint64(40) & np.uint64(_SAMPLED) == 0)


def hostile_texts(vocabulary: Mapping[int, str]) -> Iterator[str]:
    """Yield texts on which tokenizers differ: scripts, categories, runs of spaces, literal tokens."""
    yield from _SPACES
    yield from _WORDS
    step = 89  # a prime that is small enough to reach every block of assigned characters
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


_loaded = lru_cache(maxsize=2)(pretrained)


@dataclass(frozen=True)
class ClassMaker:
    """Make encoders and decoders that load the class once per process."""

    directory: str
    parse: bool
    ids: TokenizerIds
    note: str = ""

    @property
    def engine(self) -> str:
        return engine_title("transformers")

    def encoder(self) -> ClassEncoder:
        return ClassEncoder(self.directory, self.parse)

    def decoder(self, *, lenient: bool) -> ClassDecoder:
        return ClassDecoder(self.directory, self.ids, lenient)

    def tried_on(self, _texts: Sequence[str]) -> ClassMaker:
        return self

    def parsing(self, parse: bool) -> ClassMaker:
        return replace(self, parse=parse)


@dataclass(frozen=True)
class ClassEncoder(Encoder):
    """Encode text with a class of `transformers`."""

    directory: str
    parse: bool

    def encode(self, texts: list[str]) -> Ragged:
        return in_pieces(texts, self._encode, lambda: NOWHERE) if texts else Ragged.of([])

    def _encode(self, texts: list[str]) -> Ragged:
        tokenizer = _loaded(self.directory)
        settings = {"add_special_tokens": False, "padding": False, "truncation": False, "verbose": False}
        found = guarded(
            lambda: tokenizer(texts, split_special_tokens=not self.parse, **settings)["input_ids"],
            lambda why: EngineError("encode a text", why),
        )
        return Ragged.of(found)


@dataclass(frozen=True)
class ClassDecoder:
    """Decode IDs with a class of `transformers`, which replaces bytes that are not UTF-8 in its own way."""

    directory: str
    ids: TokenizerIds
    lenient: bool

    def decode(self, tokens: Sequence[int] | NDArray[np.integer]) -> str:
        ids = np.asarray(tokens).tolist()
        tokenizer = _loaded(self.directory)
        unknown = next((i for i, token in enumerate(ids) if token not in self.ids), None)
        if unknown is None:
            return guarded(
                lambda: str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)),
                lambda why: EngineError(f"decode the IDs that begin {', '.join(map(str, ids[:8]))}", why),
            )
        if self.lenient:
            return "".join(map(str, self.pieces(ids)))
        raise DecodeError.unknown(unknown, ids[unknown], self.ids.size)

    def pieces(self, tokens: Sequence[int] | NDArray[np.integer]) -> list[bytes | str]:
        tokenizer: Any = _loaded(self.directory)
        return [
            tokenizer.decode([token], skip_special_tokens=False) if token in self.ids else marker(token)
            for token in np.asarray(tokens).tolist()
        ]
