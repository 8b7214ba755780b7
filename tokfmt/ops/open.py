"""Open a dataset of any format: detection, options, separators."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tokfmt import registry
from tokfmt.core.axis import TokenReader
from tokfmt.core.dataset import Dataset
from tokfmt.core.errors import OptionError
from tokfmt.core.format import Format, Hints
from tokfmt.core.options import parse_options
from tokfmt.core.ragged import Tokens
from tokfmt.core.records import RecordReader
from tokfmt.ops.progress import Progress
from tokfmt.ops.separator import EosChoice, Separator, last_ids, resolve, told, without_separators

Options = Iterable[str] | Mapping[str, object]


class Source(NamedTuple):
    """An opened source: a token axis without separators, or records not yet tokenised.

    Attributes:
        paths: One path, or several that are one dataset.
        format: Its format.
        reader: TokenReader or RecordReader.
        separator: How its separator is known.
        notes: What a person should be told.
        endings: Distinct last ids of sequences looked at; see `separator.last_ids`.
    """

    paths: tuple[Path, ...]
    format: Format
    reader: TokenReader | RecordReader
    separator: Separator
    notes: tuple[str, ...]
    endings: Tokens | None = None


def open_stored(
    paths: Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    eos: EosChoice = None,
    tokenizer_eos: int | None = None,
    options: Options = (),
    drop: Iterable[str] = (),
) -> Source:
    """Open one dataset as it is stored: its reader's axis still has the separators.

    Raises:
        DetectionError, FormatError, OptionError.
    """
    chosen = registry.get(format) if format else registry.detect(paths[0])
    places = tuple(Path(path) for path in paths)
    parsed: Any = parse_options(chosen.read_options, options, chosen.name)
    known = told(eos, tokenizer_eos, places)
    no_eos = known is not None and known.eos_id is None
    stored = chosen.open(places, parsed, Hints(known.eos_id if known else None, frozenset(drop), no_eos))
    info = stored.info
    notes = (*info.inferred, *info.notes)
    if isinstance(stored, RecordReader):
        return Source(places, chosen, stored, known or Separator(None), notes)
    endings = last_ids(stored)
    return Source(places, chosen, stored, resolve(known, stored, endings), notes, endings)


def open_source(
    paths: Sequence[str | os.PathLike[str]],
    *,
    format: str | None = None,  # noqa: A002
    eos: EosChoice = None,
    tokenizer_eos: int | None = None,
    options: Options = (),
    drop: Iterable[str] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Source:
    """Open one dataset (several paths only for formats whose files join).

    Raises:
        DetectionError, FormatError, OptionError, SeparatorUnknownError.
    """
    source = open_stored(paths, format=format, eos=eos, tokenizer_eos=tokenizer_eos, options=options, drop=drop)
    if isinstance(source.reader, RecordReader):
        return source
    reader, decided = without_separators(
        source.reader, source.separator, source.endings, source.paths[0], jobs, progress
    )
    return source._replace(reader=reader, notes=(*source.notes, *decided))


def open(  # noqa: A001 - the verb users expect: tokfmt.open
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002
    eos: EosChoice = None,
    options: Options = (),
    tokenizer: str | None = None,
) -> Dataset:
    """Open a dataset for reading, whatever its format.

    Args:
        path: A file or a directory.
        format: Its format's name; detected from the content when left out.
        eos: The separator's id, "none" for no separator, or None to find out.
        options: The format's own read options, as {"view": "samples"} or ["view=samples"].
        tokenizer: Name, directory or tokenizer.json; needed for text, which is tokenised into a temporary directory.

    Returns:
        A Dataset: `len(ds)`, `ds[i]` (uint array), `ds[a:b]` (Ragged), `ds.batches(size)`, `ds.info`.

    Raises:
        TokfmtError: One of its kinds; see `tokfmt.core.errors`.
    """
    from tokfmt.ops.tokenize import tokenized

    source = open_source([path], format=format, eos=eos, options=options)
    if isinstance(source.reader, RecordReader):
        if source.reader.info.kind == "text" and tokenizer is None:
            raise OptionError(f"{path}: holds text; give tokenizer= to read it as tokens")
        return Dataset(tokenized(source.reader, tokenizer), source.format.name)
    return Dataset(source.reader, source.format.name)
