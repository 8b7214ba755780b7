"""Which id separates sequences, how that is known, and the axis without it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from tokfmt.core.axis import Separators, TokenReader
from tokfmt.core.dtypes import distinct
from tokfmt.core.errors import SeparatorUnknownError
from tokfmt.core.ragged import Tokens
from tokfmt.ops.manifest import read_manifest
from tokfmt.ops.progress import Progress, Silent
from tokfmt.views.separated import WithoutTrailing

_RUNS, _RUN = 64, 64  # sequences whose last ids are looked at: neighbours, so that one read serves many
_READ = 1 << 14  # tokens; reading on over so many costs less than another read

EosChoice = int | Literal["none"] | None


class Separator(NamedTuple):
    """A separator and how it is known.

    Attributes:
        eos_id: The id, or None when there is none.
        source: In words: "--eos", "tokenizer", "manifest", "stage1 convention", "every sequence ends with it" ...
        inferred: Nobody said so; the data shows it.
    """

    eos_id: int | None
    source: str = ""
    inferred: bool = False


def told(choice: EosChoice, tokenizer_eos: int | None, paths: Sequence[Path]) -> Separator | None:
    """What is known before a source is opened: --eos, the tokenizer's, a manifest beside the source; else None."""
    if choice == "none":
        return Separator(None, "--eos none")
    if choice is not None:
        return Separator(choice, "--eos")
    if tokenizer_eos is not None:
        return Separator(tokenizer_eos, "tokenizer")
    for path in paths:
        eos_id = read_manifest(path).get("eos_id")
        if isinstance(eos_id, int):
            return Separator(eos_id, f"manifest of {path.name}")
    return None


def resolve(known: Separator | None, stored: TokenReader, endings: Tokens | None) -> Separator:
    """The separator of an opened source: what was told, else what the format knows, else what the data shows.

    Args:
        known: From `told`.
        stored: The source.
        endings: From `last_ids`.
    """
    info = stored.info
    if known is not None:
        return known
    if info.eos_id is not None:
        return Separator(info.eos_id, info.eos_from or "format")
    if endings is not None and len(endings) == 1:
        return Separator(int(endings[0]), "every sequence ends with it", inferred=True)
    return Separator(None)


def without_separators(
    stored: TokenReader,
    separator: Separator,
    endings: Tokens | None,
    path: Path,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[TokenReader, list[str]]:
    """The axis that commands see, and notes on what was decided. Streams are scanned, by `jobs` threads.

    Raises:
        SeparatorUnknownError: A stream, and nothing says where its documents end.
    """
    info, eos_id = stored.info, separator.eos_id
    if info.separators is Separators.NONE or not info.tokens:
        return stored, []
    if info.separators is Separators.BETWEEN:
        if eos_id is not None:
            from tokfmt.views.split import SplitAt  # and its pool of threads

            watched = progress or Silent()
            watched.phase("finding separators", info.tokens, "tokens")
            return SplitAt(stored, eos_id, jobs=jobs, scanned=watched.advance), []
        if separator.source == "--eos none":
            return stored, [f"{path.name}: read as one sequence of {info.tokens:,} tokens (--eos none)"]
        raise SeparatorUnknownError(path, "a stream of tokens, and nothing says which id ends a document")
    if eos_id is None:
        return stored, [f"{path.name}: no separator known; sequences are kept as stored"]
    if endings is None or len(endings) != 1 or int(endings[0]) != eos_id:
        return stored, [f"{path.name}: not every sequence ends with {eos_id}; sequences are kept as stored"]
    return WithoutTrailing(stored, eos_id, str(path)), []


def last_ids(stored: TokenReader) -> Tokens | None:
    """Distinct last ids of up to 4,096 sequences, in runs spread over the dataset, where separators may trail them.

    What is not looked at here is looked at when it is read: WithoutTrailing raises on the first exception.

    Returns:
        info.dtype[distinct], or None: no separators trail, there is no sequence, or one of those looked at is empty.
    """
    count = stored.info.sequences
    if stored.info.separators is not Separators.TRAILING or not count:
        return None
    starts = np.linspace(0, max(count - _RUN, 0), min(-(-count // _RUN), _RUNS)).astype(np.int64).tolist()
    found = []
    for first in starts:
        last = _last_within(stored, first, min(first + _RUN, count))
        if last is None:
            return None
        found.append(last)
    return distinct(np.concatenate(found))


def _last_within(stored: TokenReader, first: int, last: int) -> Tokens | None:
    bounds = stored.offsets(first, last)
    if not np.diff(bounds).all():
        return None
    ends, begin = bounds[1:] - 1, int(bounds[1]) - 1
    if ends[-1] - begin > len(ends) * _READ:
        return np.concatenate([stored.tokens(at, at + 1) for at in ends.tolist()])
    return stored.tokens(begin, int(bounds[-1]))[ends - begin]
