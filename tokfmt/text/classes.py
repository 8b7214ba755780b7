"""Tokenizers without a tokenizer.json: Python classes of `transformers` (ByT5 and a few others). Slow, but right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Ragged
from tokfmt.text.decoding import DecodeError, marker
from tokfmt.text.engine import engine_title
from tokfmt.text.hub import pretrained

_loaded = lru_cache(maxsize=2)(pretrained)


@dataclass(frozen=True)
class ClassMaker:
    """Makes encoders and decoders that load the class anew in each process."""

    directory: str
    parse: bool
    note: str = ""

    @property
    def engine(self) -> str:
        return engine_title("transformers")

    def encoder(self) -> ClassEncoder:
        return ClassEncoder(self.directory, self.parse)

    def decoder(self, *, lenient: bool) -> ClassDecoder:
        return ClassDecoder(self.directory, lenient)

    def tried_on(self, _texts: Sequence[str]) -> ClassMaker:
        return self


@dataclass(frozen=True)
class ClassEncoder:
    """Text to ids."""

    directory: str
    parse: bool

    def encode(self, texts: list[str]) -> Ragged:
        """The ids of each text, in order, no special tokens added: Ragged of uint32."""
        if not texts:
            return Ragged.of([])
        tokenizer = _loaded(self.directory)
        settings = {"add_special_tokens": False, "padding": False, "truncation": False, "verbose": False}
        return Ragged.of(tokenizer(texts, split_special_tokens=not self.parse, **settings)["input_ids"])


@dataclass(frozen=True)
class ClassDecoder:
    """Ids to text. A class replaces bytes that are not UTF-8 on its own terms; nothing tells them apart."""

    directory: str
    lenient: bool

    def decode(self, tokens: Sequence[int] | NDArray[np.integer]) -> str:
        ids = np.asarray(tokens).tolist()
        tokenizer = _loaded(self.directory)
        beyond = next((i for i, token in enumerate(ids) if not 0 <= token < len(tokenizer)), None)
        if beyond is None:
            text: str = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            return text
        if self.lenient:
            return "".join(map(str, self.pieces(ids)))
        raise DecodeError.unknown(beyond, ids[beyond], len(tokenizer))

    def pieces(self, tokens: Sequence[int] | NDArray[np.integer]) -> list[bytes | str]:
        tokenizer: Any = _loaded(self.directory)
        size = len(tokenizer)
        return [
            tokenizer.decode([token], skip_special_tokens=False) if 0 <= token < size else marker(token)
            for token in np.asarray(tokens).tolist()
        ]
