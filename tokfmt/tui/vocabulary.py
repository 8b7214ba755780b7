"""The tokenizer of a dataset: which one, and what a browser needs of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokfmt.ops.manifest import read_manifest
from tokfmt.tui.letters import Pieces
from tokfmt.tui.records import Encoder
from tokfmt.tui.remembered import recall

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_PARAMS = "data_params.json"
_LIMIT = 1 << 20


class Choice(NamedTuple):
    """A tokenizer by name, and who named it: "--tokenizer", "manifest", "data_params.json", "last time"."""

    name: str
    source: str


class Vocabulary(NamedTuple):
    """A loaded tokenizer; its encoder where there is text to be tokenised."""

    handle: TokenizerHandle
    decoder: Pieces
    encoder: Encoder | None = None

    @property
    def specials(self) -> frozenset[int]:
        """Ids of special tokens."""
        eos = self.handle.eos_id
        return self.handle.added if eos is None else self.handle.added | {eos}


def choose(path: Path, given: str | None) -> Choice | None:
    """The tokenizer to show a dataset with; None when nothing names one."""
    if given is not None:
        return Choice(given, "--tokenizer")
    manifest = read_manifest(path).get("tokenizer")
    named = manifest.get("name") if isinstance(manifest, dict) else None
    if isinstance(named, str) and named:
        return Choice(_located(named, path), f"manifest of {path.name}")
    named = _of_params(path)
    if named:
        return Choice(_located(named, path), _PARAMS)
    last = recall(path).get("tokenizer")
    return Choice(last, "last time") if isinstance(last, str) and last else None


def _located(name: str, path: Path) -> str:
    """A path in a manifest was relative to where the conversion ran, or stands beside the dataset."""
    beside = path.parent / name
    return str(beside) if not os.path.exists(name) and beside.exists() else name


def _of_params(path: Path) -> str:
    place = (path if path.is_dir() else path.parent) / _PARAMS
    try:
        if not place.is_file() or place.stat().st_size > _LIMIT:
            return ""
        content: Any = json.loads(place.read_bytes())
    except (OSError, ValueError, RecursionError):
        return ""
    for section in content.values() if isinstance(content, dict) else ():
        named = section.get("huggingface_tokenizer") if isinstance(section, Mapping) else None
        if isinstance(named, str):
            return named
    return ""


def load(name: str, *, encoding: bool = False) -> Vocabulary:
    """Load a tokenizer, with its encoder if asked for. Takes from a tenth of a second to several.

    Raises:
        TokfmtError: There is none, or it cannot be loaded.
    """
    from tokfmt.text.tokenizer import load_tokenizer

    handle = load_tokenizer(name)
    decoder = handle.decoder(lenient=True)
    decoder.pieces([0])  # its tables are built now, not at the first key
    return Vocabulary(handle, decoder, handle.encoder() if encoding else None)
