"""The sources of a conversion: opened, tokenised if they are text, concatenated, cut to the selection."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokfmt import registry
from tokfmt.core.axis import TokenReader
from tokfmt.core.errors import ConversionError, FormatError, OptionError, SourceChangedError, printable
from tokfmt.core.files import natural_key, reading_error, walk
from tokfmt.core.format import Format
from tokfmt.core.options import nearest, parse_count
from tokfmt.core.records import RecordReader
from tokfmt.ops.open import Options, Source, open_source
from tokfmt.ops.progress import Progress
from tokfmt.ops.separator import EosChoice, Separator
from tokfmt.views.concat import Concat
from tokfmt.views.select import Slice

if TYPE_CHECKING:
    from tokfmt.run.plan import Workers
    from tokfmt.text.tokenizer import TokenizerHandle

_NAMED = 5
Path_ = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """What a user says of the sources.

    Attributes:
        paths: Files and directories, in order.
        format: A format's name, or None to detect each.
        eos: The separator's id, "none", or None to find out.
        options: The formats' own read options.
        text_field: Dotted path of the text in JSON records.
        split: Which split to read, for formats that have them.
        drop: What may be given up.
    """

    paths: tuple[Path_, ...]
    format: str | None = None
    eos: EosChoice = None
    options: Options = ()
    text_field: str | None = None
    split: str | None = None
    drop: frozenset[str] = frozenset()

    @property
    def one_split(self) -> bool:
        """The user said which split of the sources is meant."""
        return self.split is not None or any(word.startswith("split=") for word in pairs(self.options))

    def of_split(self, split: str) -> SourceRequest:
        """The same sources, but this split of them."""
        others = tuple(word for word in pairs(self.options) if not word.startswith("split="))
        return replace(self, options=others, split=split)


def expanded(paths: Iterable[Path_]) -> tuple[Path_, ...]:
    """Paths, with patterns that the shell left alone (`'part-*.jsonl'`) replaced by what they match, in natural order.

    Raises:
        FormatError: A pattern matches nothing.
    """
    found: list[Path_] = []
    for path in paths:
        if not glob.has_magic(os.fspath(path)) or os.path.lexists(path):
            found.append(path)
            continue
        matches = sorted(glob.glob(os.fspath(path), recursive=True), key=natural_key)
        if not matches:
            raise FormatError(path, "no file matches this pattern")
        found += matches
    return tuple(found)


def option_names(kind: type) -> set[str]:
    """Names of the fields of an options dataclass."""
    return {field.name for field in fields(kind)}


def pairs(options: Options) -> list[str]:
    """Options as `key=value` words."""
    return [f"{k}={v}" for k, v in options.items()] if isinstance(options, Mapping) else list(options)


def open_sources(
    request: SourceRequest, tokenizer_eos: int | None, jobs: int | None = None, progress: Progress | None = None
) -> list[Source]:
    """Open every source; files of one format that join (blocks, samples, JSONL) are opened together.

    Raises:
        DetectionError, FormatError, OptionError, SeparatorUnknownError.
    """
    chosen = [registry.get(request.format) if request.format else registry.detect(path) for path in request.paths]
    # files of one dataset join; directories are datasets of their own, one after the other
    same = all(format_ is chosen[0] for format_ in chosen) and not any(os.path.isdir(path) for path in request.paths)
    together = len(chosen) > 1 and chosen[0].joins and same
    groups: Iterable[Sequence[Path_]] = [request.paths] if together else [[path] for path in request.paths]
    return [
        open_source(
            group,
            format=format_.name,
            eos=request.eos,
            tokenizer_eos=tokenizer_eos,
            options=read_options(request, format_),
            drop=request.drop,
            jobs=jobs,
            progress=progress,
        )
        for group, format_ in zip(groups, chosen, strict=False)
    ]


def read_options(request: SourceRequest, format_: Format) -> list[str]:
    """What the user said of the sources, as options that this format has."""
    known, words = option_names(format_.read_options), pairs(request.options)
    if request.text_field and "text_field" in known:
        words.append(f"text_field={request.text_field}")
    if request.split and "split" in known:
        words.append(f"split={request.split}")
    return words


def agreed_separator(sources: Sequence[Source], choice: EosChoice, tokenizer_eos: int | None) -> Separator:
    """The separator that the target will use: what the user said, else what all sources agree on.

    Raises:
        ConversionError: Sources have different separators and nobody chose.
    """
    known = {source.separator.eos_id: source.separator for source in sources if source.separator.eos_id is not None}
    if choice is not None and choice != "none":
        return Separator(choice, "--eos")
    if tokenizer_eos is not None and choice is None:
        return Separator(tokenizer_eos, "tokenizer")
    if len(known) > 1:
        firsts = {s.separator.eos_id: printable(s.paths[0].name) for s in reversed(sources)}
        told = [f"{eos_id} in {firsts[eos_id]}" for eos_id in known]
        listed = ", ".join(told[:_NAMED]) + (f" and {len(told) - _NAMED:,} more" if len(told) > _NAMED else "")
        raise ConversionError(f"the sources have different separators ({listed}). Choose the target's with --eos ID")
    return next(iter(known.values()), sources[0].separator)


def token_axis(
    sources: Sequence[Source],
    tokenizer: TokenizerHandle | None,
    selection: str | None,
    workers: Workers,
    progress: Progress,
) -> tuple[TokenReader, int]:
    """All sources as one token axis without separators, and how many invalid records were left out."""
    readers: list[TokenReader] = []
    invalid = 0
    for number, source in enumerate(sources):
        if not isinstance(source.reader, RecordReader):
            readers.append(source.reader)
            continue
        first, last = 0, None
        if selection is not None and len(sources) == 1:
            first, last = parse_selection(selection, source.reader.count())
            selection = None
        shards = _tokenise(source.reader, tokenizer, workers, progress, (number, first, last))
        invalid += sum(shard.invalid for shard in shards.shards)
        readers.append(shards)
    axis = readers[0] if len(readers) == 1 else Concat(readers)
    if selection is not None:
        axis = Slice(axis, *parse_selection(selection, axis.info.sequences))
    return axis, invalid


def _tokenise(
    records: RecordReader,
    tokenizer: TokenizerHandle | None,
    workers: Workers,
    progress: Progress,
    part: tuple[int, int, int | None],
) -> Any:
    from tokfmt.ops.tokenize import ingest  # brings multiprocessing along, which opening alone needs not

    number, first, last = part
    text = records.info.kind == "text"
    progress.phase("tokenizing" if text else "reading ids", records.info.size, "bytes")
    encoder = tokenizer.encoder() if text and tokenizer is not None else None
    return ingest(
        records,
        encoder,
        workers,
        first=first,
        last=last,
        name=f"source-{number}",
        progress=lambda shard: progress.advance(shard.size),
    )


def refuse_records(sources: Sequence[Source]) -> None:
    """Records cannot be cut into shares before they are counted and tokenised, which each shard would do for all.

    Raises:
        OptionError: A source holds records.
    """
    for source in sources:
        if isinstance(source.reader, RecordReader):
            raise OptionError(
                f"{printable(source.paths[0])}: --shard cuts token ids, and {source.format.name} has none to cut yet. "
                "Convert it to a pack first (tokfmt convert SRC x.pbin), or give each shard files of its own"
            )


def first_texts(sources: Sequence[Source], most: int = 64) -> list[str]:
    """Some texts from the beginning of the first source that holds text."""
    for source in sources:
        if isinstance(source.reader, RecordReader) and source.reader.info.kind == "text":
            for block in source.reader.blocks(1 << 16)[:1]:
                for batch in source.reader.texts(block):
                    return list(batch.texts[:most])
    return []


def parse_selection(text: str, count: int) -> tuple[int, int]:
    """`A:B` as sequence numbers, like a Python slice: `5`, `0:10`, `-3:`, `:1e6`.

    Raises:
        OptionError: It is no selection, or leaves the dataset.
    """
    first, colon, last = text.strip().partition(":")
    a = parse_count(first) if first.strip() else 0
    b = parse_count(last) if last.strip() else count
    if not colon:
        a, b = (a + count if a < 0 else a), (a + count if a < 0 else a) + 1
    a, b = (a + count if a < 0 else a), (b + count if b < 0 else b)
    if not 0 <= a <= b <= count:
        raise OptionError(f"selection {text!r} leaves the {count:,} sequences there are (0:{count})")
    return a, b


def snapshot(paths: Iterable[Path_]) -> dict[Path, tuple[int, int, int]]:
    """Size, modification time and inode of every file of the sources."""
    found = {}
    for path in map(Path, paths):
        try:
            files = [base / name for base, names in walk(path) for name in names] if path.is_dir() else [path]
            for file in files:
                status = os.stat(file)
                found[file] = (status.st_size, status.st_mtime_ns, status.st_ino)
        except OSError as error:
            raise reading_error(error.filename or path, error) from error
    return found


def check_unchanged(before: Mapping[Path, tuple[int, int, int]], paths: Iterable[Path_]) -> None:
    """Raise SourceChangedError if a file of the sources changed since the snapshot."""
    try:
        now = snapshot(paths)
    except FormatError as error:
        raise SourceChangedError(error.path, "disappeared while it was being read") from error
    for file in sorted(before.keys() | now.keys()):
        if before.get(file) != now.get(file):
            raise SourceChangedError(file, "changed while it was being read", remedy="Run again when it is still")


def check_drops(names: Iterable[str]) -> frozenset[str]:
    """The words of --drop.

    Raises:
        OptionError: A word that means nothing; names the nearest.
    """
    known = (
        "embedded-separators", "empty-sequences", "loss-mask", "invalid-lines", "invalid-utf8", "fields", "splits",
        "order", "tail",
    )  # fmt: skip
    for name in names:
        if name not in known:
            raise OptionError(f"--drop {name}: is none of {', '.join(known)}", name=name, nearest=nearest(name, known))
    return frozenset(names)
