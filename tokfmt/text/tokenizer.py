"""Load tokenizers by name, directory or file, and make their encoders and decoders.

    handle = load_tokenizer("gpt2")            # or a directory, or a tokenizer.json
    handle.encoder().encode(["some text"])     # Ragged of uint32
    handle.decoder().decode([464, 3290])       # "The dog"

A file or a directory with tokenizer.json is read with `tokenizers` only: without a network, and without `transformers`,
which takes more than a second to import. This module imports neither library.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from xxhash import xxh3_128_hexdigest

from tokfmt.core.format import Encoder
from tokfmt.core.tokenizer_ids import TokenizerIds
from tokfmt.errors import CorruptError, UnsafeError
from tokfmt.files.file import open_file
from tokfmt.files.place import LocalPlace, Place, place_of
from tokfmt.text.chats import ChatEncoder, ChatTemplate, template_of
from tokfmt.text.decoding import (
    ByteLevelDecoder,
    Content,
    TextDecoder,
    VocabularyDecoder,
    byte_table,
    decoder_kinds,
    expansion_of,
    guarded,
    plain_tokenizer,
    without_dropout,
)
from tokfmt.text.engine import ClassMaker, EngineChoice, EngineName, TextEncoder, choose, engine_title
from tokfmt.text.hub import TokenizerError, kind_of_vocabulary, pretrained, snapshot
from tokfmt.wording import printable

__all__ = ["EngineChoice", "SpecialTokens", "TokenizerError", "TokenizerHandle", "load_tokenizer"]

SpecialTokens = Literal["text", "parse"]

_END = re.compile(r"end|eos|eot|</s>", re.IGNORECASE)
_MOST_EXPANSION = 1_000
"""Limit of `expansion_of`. The normalizers of XLM-R, the largest seen, make up to 72 characters of one."""
_LARGEST = 1 << 27  # bytes of a tokenizer file: four times the largest of 2026


class Maker(Protocol):
    """Make encoders and decoders. The engine is chosen on first use."""

    @property
    def engine(self) -> str: ...
    @property
    def note(self) -> str: ...
    def encoder(self) -> Encoder: ...
    def decoder(self, *, lenient: bool) -> TextDecoder: ...
    def tried_on(self, texts: Sequence[str]) -> Maker: ...
    def parsing(self, parse: bool) -> Maker: ...


@dataclass(frozen=True)
class TokenizerHandle:
    """A tokenizer. Picklable."""

    name: str  # as the user gave it
    kind: str  # "BPE (byte-level)", "BPE (byte fallback)", "Unigram" or another type of model
    ids: TokenizerIds  # of all tokens, including added tokens
    eos_id: int | None  # of the end-of-text token; None if no configuration file names one
    digest: str  # xxh3_128 of tokenizer.json
    # "text" to encode the literal text of a special token as text, "parse" to encode it as its ID
    special_tokens: SpecialTokens
    maker: Maker  # of encoders and decoders
    remarks: tuple[str, ...] = ()  # contradictions in the files of the tokenizer, one sentence each
    added: frozenset[int] = frozenset()  # end of text, padding, roles
    ends: tuple[tuple[str, int], ...] = ()  # special tokens whose names suggest end of text
    bos_id: int | None = None  # that its template puts in front of a text, which tokfmt does not add
    special: Mapping[str, int] = field(default_factory=dict)  # the special tokens

    @property
    def vocab_size(self) -> int:
        """Return the number of tokens. IDs are compared with `ids`, because they may leave numbers out."""
        return self.ids.size

    @property
    def engine(self) -> str:
        """Return the engine that encodes, with its version: "fastokens 0.3.5". Loads and compares the engines."""
        return self.maker.engine

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the remarks, and why fastokens is not used. Loads and compares the engines."""
        return self.remarks + ((f"tokenizer {printable(self.name)}: {self.maker.note}",) if self.maker.note else ())

    def encoder(self) -> Encoder:
        """Return an encoder of text to IDs."""
        return self.maker.encoder()

    def chat_encoder(self, *, masked: bool, templated: bool = True) -> ChatEncoder:
        """Return an encoder of chats, with marks on what the assistant says if `masked`. What the assistant says, or
        the completion of a prompt, is marked if `masked`. Chats are messages if `templated`; else prompts and
        completions of text, without a chat template.
        """
        if not isinstance(self.maker, JsonMaker):
            what = f"a {self.kind} does not state where each token is in a text, which the loss masks of chats need"
            raise TokenizerError(self.name, f"{what}. Give a tokenizer with tokenizer.json")
        template = _chat_template(self.name) if templated else None
        return ChatEncoder(self.maker.content, template, masked, self.special_tokens == "parse", self.special)

    def decoder(self, *, lenient: bool = False) -> TextDecoder:
        """Return a decoder of IDs to text; `lenient` writes U+FFFD or ⟨id⟩ instead of raising."""
        return self.maker.decoder(lenient=lenient)

    def tried_on(self, texts: Sequence[str]) -> TokenizerHandle:
        """Return this tokenizer with more texts to compare the engines on before one is chosen: the first of a run."""
        return replace(self, maker=self.maker.tried_on(texts))

    def parsing(self, special_tokens: SpecialTokens) -> TokenizerHandle:
        """Return this tokenizer with another way to encode special tokens that are spelled in a text."""
        if special_tokens == self.special_tokens:
            return self
        return replace(self, special_tokens=special_tokens, maker=self.maker.parsing(special_tokens == "parse"))

    def describe(self, *, chats: bool = False) -> dict[str, object]:
        """Return the facts for a manifest; with `chats`, also the digest of the chat template if it has one."""
        own, how = ("name", "digest"), ("eos_id", "engine", "special_tokens")
        return {
            **{key: getattr(self, key) for key in own},
            **self.ids.facts(),
            **{key: getattr(self, key) for key in how},
            **(self._chat_template() if chats else {}),
        }

    def _chat_template(self) -> dict[str, object]:
        """Return the digest of the chat template for a manifest; nothing without one."""
        with contextlib.suppress(TokenizerError):
            return {"chat_template": _chat_template(self.name).digest}
        return {}


@dataclass(frozen=True)
class JsonMaker:
    """Make encoders and decoders from a tokenizer.json."""

    content: Content
    choice: EngineChoice
    parse: bool
    byte_level: bool
    first: tuple[str, ...] = ()

    @cached_property
    def _chosen(self) -> tuple[EngineName, str]:
        return choose(self.choice, self.content, self.first, parse=self.parse, byte_level=self.byte_level)

    @property
    def engine(self) -> str:
        return engine_title(self._chosen[0])

    @property
    def note(self) -> str:
        return self._chosen[1]

    def encoder(self) -> TextEncoder:
        return TextEncoder(self.content, self._chosen[0], parse=self.parse, strict=self.choice == "fastokens")

    def decoder(self, *, lenient: bool) -> ByteLevelDecoder | VocabularyDecoder:
        if self.byte_level:
            return ByteLevelDecoder(byte_table(plain_tokenizer(self.content.json.tobytes())), lenient=lenient)
        return VocabularyDecoder(self.content, lenient=lenient)

    def tried_on(self, texts: Sequence[str]) -> JsonMaker:
        return replace(self, first=tuple(texts))

    def parsing(self, parse: bool) -> JsonMaker:
        return replace(self, parse=parse)


def load_tokenizer(
    spec: str | os.PathLike[str],
    *,
    special_tokens: SpecialTokens = "text",
    engine: EngineChoice = "auto",
    local: bool = False,
) -> TokenizerHandle:
    """Find and load a tokenizer. `spec` is a directory or a tokenizer.json, which may be in a store, or a name on the
    Hugging Face hub. A path that exists wins over a name. The engine "auto" is fastokens if it gives the same IDs as
    tokenizers. With `local`, only tokenizers on this machine are used.
    """
    spec = os.fspath(spec)
    if not spec:
        raise TokenizerError(spec, "the name is empty. Give a name, a directory or a tokenizer.json")
    place = place_of(spec)
    spec = spec if place.is_local else str(place)  # an address may hold a signature
    path = place if not place.is_local or place.exists() else LocalPlace(snapshot(spec, local=local))
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.exists():
        if not path.is_local:
            what = "has no tokenizer.json. Download the directory to load it without one"
            raise TokenizerError(spec, what if path.is_dir() else "does not exist")
        return _from_transformers(spec, str(path), special_tokens, engine)
    source = _read(file)
    plain, tokenizer = guarded(lambda: without_dropout(source), lambda why: _not_json(spec, file, source, why))
    eos_id, remarks = _beside(spec, file.parent, tokenizer)
    content = Content(np.frombuffer(plain, np.uint8), xxh3_128_hexdigest(source))
    handle = _handle(spec, tokenizer, content, special_tokens, engine)
    return replace(handle, eos_id=eos_id, remarks=remarks)


_REMEDIES = {
    "a SentencePiece model": "Give the directory that holds it and its tokenizer_config.json",
    "a Tekken vocabulary": "Give the directory that holds it, without other vocabularies",
    "a tiktoken vocabulary": "It lacks the pattern and the special tokens of its tokenizer: give their tokenizer.json",
}


def _not_json(spec: str, file: Place, content: bytes, why: str) -> TokenizerError:
    """Return the error of a file that is not a tokenizer.json, with the remedy for what it is."""
    kind = kind_of_vocabulary(content)
    if kind:
        return TokenizerError(spec, f"{printable(file.name)} is {kind}, not a tokenizer.json. {_REMEDIES[kind]}")
    remedy = "Give tokenizer.json or the directory that holds it"
    return TokenizerError(spec, f"{printable(file.name)} is not a tokenizer.json ({why}). {remedy}")


def _from_transformers(
    spec: str, directory: str, special_tokens: SpecialTokens, engine: EngineChoice
) -> TokenizerHandle:
    found = pretrained(directory)
    if hasattr(found, "backend_tokenizer"):
        source = found.backend_tokenizer.to_str().encode()
        content = Content(np.frombuffer(source, np.uint8), xxh3_128_hexdigest(source))
        handle = _handle(spec, plain_tokenizer(source), content, special_tokens, engine)
        return replace(handle, eos_id=found.eos_token_id)
    if engine != "auto":
        raise TokenizerError(spec, f"{type(found).__name__} has no tokenizer.json, which the engine {engine} needs")
    vocabulary = found.get_vocab()
    digest = xxh3_128_hexdigest(json.dumps(sorted(vocabulary.items())).encode())
    name, added = type(found).__name__, frozenset(found.get_added_vocab().values())
    ids = TokenizerIds.of([*vocabulary.values(), *added])
    maker = ClassMaker(directory, special_tokens == "parse", ids)
    return TokenizerHandle(spec, name, ids, found.eos_token_id, digest, special_tokens, maker, added=added)


def _handle(
    spec: str, tokenizer: Any, content: Content, special_tokens: SpecialTokens, engine: EngineChoice
) -> TokenizerHandle:
    """Return the handle of a `tokenizers.Tokenizer`, without an end-of-text token; refuse extreme steps."""
    factor, steps = expansion_of(tokenizer)
    if factor > _MOST_EXPANSION:
        what = f"the {steps} of this tokenizer can make text {factor:,} times longer, which would fill the memory"
        raise UnsafeError(spec, what, expected=f"at most {_MOST_EXPANSION:,} times", remedy="Give another tokenizer")
    kind, parts = type(tokenizer.model).__name__, decoder_kinds(tokenizer)
    byte_level = parts == {"ByteLevel"}
    if byte_level or "ByteFallback" in parts:
        kind += " (byte-level)" if byte_level else " (byte fallback)"
    maker = JsonMaker(content, engine, special_tokens == "parse", byte_level)
    tokens = tokenizer.get_added_tokens_decoder()
    ids = TokenizerIds.of([*tokenizer.get_vocab(with_added_tokens=True).values(), *tokens])
    special = [(token.content, token_id) for token_id, token in tokens.items() if token.special]
    ends = special if len(special) == 1 else [pair for pair in special if _END.search(pair[0])]
    return TokenizerHandle(
        spec,
        kind,
        ids,
        None,
        content.digest,
        special_tokens,
        maker,
        added=frozenset(tokens),
        ends=tuple(ends),
        bos_id=_bos_of(tokenizer),
        special=dict(special),
    )


def _bos_of(tokenizer: Any) -> int | None:
    """Return the ID that the template of a tokenizer puts in front of a text; None without one."""

    def encoded(text: str, special: bool) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=special).ids
        return ids

    with contextlib.suppress(Exception):  # A template may name a token that the vocabulary lacks.
        first, whole, plain = guarded(
            lambda: [encoded(*way) for way in (("", True), ("a", True), ("a", False))], ValueError
        )
        return first[0] if first and whole[1 : 1 + len(plain)] == plain and whole[0] == first[0] else None
    return None


def _beside(spec: str, directory: Place, tokenizer: Any) -> tuple[int | None, tuple[str, ...]]:
    """Return the end-of-text ID in the configuration files next to a tokenizer.json, and their contradictions."""
    remarks = []
    config = _config(directory / "tokenizer_config.json")
    for number, added in _mapping(config.get("added_tokens_decoder")).items():
        content = _mapping(added).get("content")
        if isinstance(content, str) and str(_id_of(tokenizer, content)) != number:
            remarks.append(
                f"tokenizer {printable(spec)}: tokenizer_config.json has the token {printable(content)} with ID "
                f"{printable(number)}, which tokenizer.json lacks; only tokenizer.json is used"
            )
            break
    for settings in (config, _config(directory / "special_tokens_map.json")):
        value = settings.get("eos_token")
        eos = _mapping(value).get("content", value)
        if isinstance(eos, str):
            eos_id = _id_of(tokenizer, eos)
            if eos_id is not None:
                return eos_id, tuple(remarks)
            remarks.append(f"tokenizer {printable(spec)}: its eos_token {printable(eos)} is not in the vocabulary")
    value = _config(directory / "generation_config.json").get("eos_token_id")
    known = type(value) is int and 0 <= value < 1 << 32 and tokenizer.id_to_token(value) is not None
    return value if known else None, tuple(remarks)


def _chat_template(spec: str) -> ChatTemplate:
    """Return the chat template in the files of a tokenizer that `load_tokenizer` has found."""
    place = place_of(spec)
    path = place if not place.is_local or place.exists() else LocalPlace(snapshot(spec, local=True))
    directory = path if path.is_dir() else path.parent
    settings = [_config(directory / name) for name in ("tokenizer_config.json", "special_tokens_map.json")]
    file, source = directory / "chat_template.jinja", settings[0].get("chat_template")
    if file.exists():
        try:
            source = _read(file).decode()
        except UnicodeDecodeError as error:
            raise CorruptError(file, "is not UTF-8", offset=error.start, remedy="Repair it") from error
    return template_of(spec, source, settings)


def _id_of(tokenizer: Any, token: str) -> int | None:
    with contextlib.suppress(UnicodeEncodeError):  # JSON can spell lone surrogates, which no token contains
        found: int | None = tokenizer.token_to_id(token)
        return found
    return None


def _config(path: Place) -> Mapping[str, Any]:
    """Return the content of a configuration file; {} if it does not exist."""
    if not path.exists():
        return {}
    try:
        return _mapping(json.loads(_read(path)))
    except (ValueError, RecursionError) as error:
        raise CorruptError(path, "is not JSON", remedy="Repair or remove it") from error


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _read(path: Place) -> bytes:
    file = open_file(path)
    try:
        if file.size > _LARGEST:
            expected = f"at most {_LARGEST:,} bytes"
            raise UnsafeError(path, "is too large for a tokenizer file", expected=expected, found=f"{file.size:,}")
        return file.read(0, file.size)
    finally:
        file.close()
