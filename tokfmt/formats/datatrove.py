"""datatrove's `X.ds`: raw tokens, with an index, metadata on width and tokenizer, and an optional loss mask.

    file           content
    X.ds           token IDs, u16 or u32 little-endian
    X.ds.index     one u64 little-endian per document: its exclusive end in tokens. An empty document repeats a value
    X.ds.metadata  text of three lines: TOKENIZER|WIDTH (older: TOKENIZER), number of tokens, the same for people
    X.ds.loss      one byte per token: 1 if the token counts in the loss, else 0

- Index and metadata are written last: a killed job leaves only X.ds. An empty dataset has 0 bytes in .ds and .index.
- Without metadata, the width follows from size and index, and tokfmt checks the IDs against it. Without an index, the
  separator delimits documents.
- A separator may follow each document. The files do not state whether it does, or which ID it is. The default is no
  separator since 2025-04-30.
- Files of `shuffle_chunk_size` end anywhere in a document. A folder of X.ds is read in order of their names.
- Upstream's check_dataset takes every file for one of 2-byte tokens: it refuses valid files of 4-byte tokens.
Source: huggingface/datatrove a649de79, pipeline/tokens/{tokenizer,merger}.py and utils/dataset.py, run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tokfmt.base.options import option
from tokfmt.core.annotation import Column, all_or_none, bounded_entries, reading_width, shown
from tokfmt.core.findings import Problem, fatal, noted
from tokfmt.core.format import Confidence, Hints, Probe
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import Damage, Separators, TokenReader, windows
from tokfmt.core.widths import ends_alike, width_of_size
from tokfmt.errors import CorruptError, UnsupportedError
from tokfmt.files.file import File, matching, open_file
from tokfmt.files.place import AnyPlace, Place
from tokfmt.formats.flat import (
    Extent,
    FileLayout,
    FlatFormat,
    FlatOptions,
    FlatWriter,
    loss_mask,
    stated_tokens,
    whole_tokens,
)
from tokfmt.wording import counted

_AT_ONCE = 1 << 16  # index entries per read or write
_METADATA = 1 << 12  # bytes of metadata that are read, at most


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading .ds files."""

    width: Literal[1, 2, 4, 8] | None = option(None, "bytes per token, if neither index nor metadata state it")


@dataclass(frozen=True, slots=True)
class WriteOptions(FlatOptions):
    """Options for writing .ds files."""

    width: Literal[2, 4] | None = option(None, "bytes per token; auto: 4 if the largest ID is above 65,535, else 2")


class Writer(FlatWriter):
    """A writer of X.ds and X.ds.loss, then of X.ds.index and X.ds.metadata. In a folder, X is 00000_unshuffled."""

    separators, suffix, names, needs_max_id = Separators.TRAILING, ".ds", "{number:05d}_unshuffled.ds", True

    empties = "datatrove counts positions on from there to the end of a window, where return_positions is set"

    def mask_file(self, tokens: Path) -> Path:
        return beside(tokens, ".loss")

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Iterator[tuple[Path, int, bytes]]:
        index, metadata = (beside(self.file(0), suffix) for suffix in (".index", ".metadata"))
        yield index, 0, b""
        for a, b in windows(0, stored.info.sequences, _AT_ONCE):
            yield index, 8 * a, stored.offsets(a, b)[1:].astype("<u8").tobytes()
        count = stored.info.tokens
        yield metadata, 0, f"unknown|{dtype.itemsize}\n{count}\n{for_people(count)}".encode()


class Datatrove(FlatFormat):
    """The format of datatrove's token files."""

    name = "datatrove"
    title = "datatrove and nanotron: .ds with .index and .metadata"
    extensions = (".ds",)
    numbers_files = True
    stores = "sequences in order, empty ones too; loss masks; IDs up to 2^32-1"
    cannot_store = "IDs above 2^32-1"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    # An index or a mask belongs to tokens even if these are missing; .metadata alone may be the total of a merge.
    pattern = r"([^.].*\.ds)(?:\.index|\.loss)?"
    unreadable, masked, other_index, runs_on = "TF721", "TF725", "TF726", False
    suffixes, member = (".ds", ".ds.index", ".ds.metadata", ".ds.loss"), "X.ds"
    entries = ("*.ds.index", "*.ds.metadata")

    def recognize(self, probe: Probe) -> Confidence | None:
        if self.canonical(probe.path).suffix != ".ds":
            return None
        described = any(companion.is_file() for companion in self.companions(probe.path))
        return Confidence.CERTAIN if described else Confidence.NAME

    def files(self, path: Place) -> list[Place]:
        names = [beside(member, end) for member in self.members(path) for end in ("", ".index", ".metadata", ".loss")]
        own = [file for file in names if file.is_file()]
        totals = matching(path, "*.ds.metadata")  # metadata of a merge, without tokens
        return list(dict.fromkeys([*own, *totals]))

    def examine(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> FileLayout:
        files = self.all_files(paths)
        all_or_none([beside(file, ".index") for file in files])
        file_layout = super().examine(paths, options, hints)
        if not file_layout.masks:
            return file_layout
        file_layout = replace(file_layout, loss_masks=f"loss masks of {counted(len(file_layout.masks), 'file')}")
        if len(file_layout.masks) == len(files):
            return file_layout
        error = CorruptError(paths[0], "files with a .loss", expected=len(files), found=len(file_layout.masks))
        return replace(file_layout, masks=(), problems=[*file_layout.problems, fatal("TF725", error)])

    def examine_file(self, file: File, options: ReadOptions, hints: Hints) -> FileLayout:
        index, metadata = (beside(file.path, suffix) for suffix in (".index", ".metadata"))
        tokenizer, stated, count = _read_metadata(metadata) if metadata.is_there() else ("", None, None)
        if index.is_there():  # A link without a target is an error.
            file_layout = _indexed(file, options, stated, index, metadata)
            known = file_layout.extents[0].dtype.itemsize in (options.width, stated)
            if hints.allow_partial and (not known or any(problem.is_fatal for problem in file_layout.problems)):
                file_layout = _certain(file, options.width, stated, file_layout, hints.eos_id)
        elif width := options.width or stated:
            args = file, np.dtype(f"<u{width}")
            if count is None:
                extent, problems = whole_tokens(*args, "TF723")
            else:
                extent, problems = stated_tokens(*args, count, "TF723", options=options)
            file_layout = FileLayout(extents=[extent], separators=Separators.AFTER, problems=problems)
        else:
            remedy = "--from-opt width=2 (or 4) reads it as one stream"
            raise UnsupportedError(file.path, "has neither .index nor .metadata to state its width", remedy=remedy)
        if (mask := beside(file.path, ".loss")).is_there():
            whole, wrong = loss_mask(mask, file_layout.extents[0].tokens, "TF725")
            file_layout = replace(file_layout, masks=[whole], problems=[*file_layout.problems, *wrong])
        named = tokenizer and not tokenizer.lower().startswith("unknown")  # tokfmt and datatrove write that without one
        return replace(file_layout, tokenizers=(shown(tokenizer),) if named else ())


def beside(tokens: AnyPlace, suffix: str) -> AnyPlace:
    """Return the path of a companion of a token file: X.ds.index, X.ds.metadata or X.ds.loss."""
    return tokens.with_name(tokens.name + suffix)


def for_people(count: int) -> str:
    """Return a number of tokens with three digits, as `humanize.metric` writes it: 12768 is "12.8 kT"."""
    power = max(0, (len(str(count)) - 1) // 3)
    value = count / 1000**power
    return f"{value:.{max(0, 3 - len(str(int(value))))}f} {' kMGTPE'[power].strip()}T"


def _read_metadata(metadata: Place) -> tuple[str, int | None, int | None]:
    """Return the tokenizer, the bytes per token and the number of tokens; None for a number that is not stated."""
    text = open_file(metadata)
    line, *rest = text.read(0, min(text.size, _METADATA)).decode("utf-8", "replace").split("\n", 2)
    count = int(rest[0]) if rest and re.fullmatch(r"[0-9]{1,18}", rest[0]) else None
    tokenizer, _, size = line.rpartition("|")
    return (tokenizer, int(size), count) if size in ("2", "4") and tokenizer else (line, None, count)


def _certain(
    file: File, width: int | None, stated: int | None, file_layout: FileLayout, eos_id: int | None
) -> FileLayout:
    """Return the layout of a cut token file or index: the documents that have both an end and all tokens.

    Raises:
        FormatError: The width cannot be determined, as the size of a cut file does not show it; or there is more
            damage than a cut.
    """
    unknown = CorruptError(file.path, "the bytes per token are not known, as tokens may be missing")
    error = next((problem.error for problem in file_layout.problems if problem.is_fatal), None) or unknown
    index, dtype = open_file(beside(file.path, ".index")), file_layout.extents[0].dtype
    dtype = np.dtype(f"<u{width or stated or dtype.itemsize}")
    starts = np.concatenate([np.zeros(1, np.int64), index.array(0, index.size // 8, "<u8").astype(np.int64)])
    if (np.diff(starts) < 0).any():
        raise error
    there, problems = file.size // dtype.itemsize, list[Problem]()
    lost = max(0, there - int(starts[-1]))
    damage = (Damage(error.sentence, None, lost, lost * dtype.itemsize, at_end=True),) if lost or index.size % 8 else ()
    if there < int(starts[-1]):
        problems.append(fatal("TF723", error, is_truncated=True))
    extent = Extent(file, 0, min(there, int(starts[-1])), dtype)
    if width is None and not ends_alike(extent, starts, eos_id):
        if "--from-opt" not in (error.remedy or ""):
            error.advise("Give the bytes per token with --from-opt width=N")
        raise error
    return replace(
        file_layout, extents=[extent], starts=starts, problems=problems, damage=damage, separators=Separators.TRAILING
    )


def _indexed(file: File, options: ReadOptions, stated: int | None, ends_file: Place, metadata: Place) -> FileLayout:
    """Return the layout of a token file X.ds with an index, X.ds.index. `stated` is the bytes per token, as
    X.ds.metadata states them.
    """
    index, problems = open_file(ends_file), list[Problem]()
    bounded_entries(index.path, index.size // 8, file)
    starts, fall = np.zeros(index.size // 8 + 1, np.int64), -1
    for a, b in windows(0, len(starts) - 1, _AT_ONCE):
        starts[a + 1 : b + 1] = index.array(8 * a, b - a, "<u8")
        if fall < 0 and len(falls := np.flatnonzero(np.diff(starts[a : b + 1]) < 0)):
            fall = a + int(falls[0])
    if index.size % 8 or fall >= 0:
        what = f"decreases at entry {fall:,}" if fall >= 0 else "ends inside an entry"
        at = 8 * (fall if fall >= 0 else index.size // 8)
        broken = fatal("TF722", CorruptError(index.path, what, offset=at, remedy="Copy it again"))
        return FileLayout(extents=[Extent(file, 0, 0, np.dtype("<u2"))], starts=offsets_of([]), problems=[broken])
    end, width = int(starts[-1]), options.width
    fitting, inferred = [w for w in (2, 4, 8) if end * w == file.size], tuple[str, ...]()
    extent, sizes = stated_tokens(file, np.dtype(f"<u{width or stated or (fitting or [2])[0]}"), end, "TF723")
    if stated and fitting and stated not in fitting:
        problems.append(_contradicted(file, options, stated, fitting[0], metadata, end))
        sizes = sizes if width else []
    elif not width and not stated:
        try:
            inferred = width_of_size(extent, starts, (2, 4), index.path.name)
        except CorruptError as error:
            sizes = [fatal("TF723", error)]
    return FileLayout(
        extents=[extent],
        starts=starts,
        separators=Separators.TRAILING,
        problems=[*problems, *sizes],
        inferred=inferred,
        sections=[Column(f"ends in {index.path.name}", index, 0, "<u8", len(starts) - 1)],
    )


def _contradicted(file: File, options: ReadOptions, stated: int, fitting: int, metadata: Place, end: int) -> Problem:
    """Return the problem of metadata whose width does not fit the size of the file; a note if `width` is given."""
    expected = f"{end * stated:,}, as {metadata.name} states {stated}-byte tokens"
    width, remedy = options.width, reading_width(options, stated, fitting)
    error = CorruptError(file.path, "bytes of tokens", expected=expected, found=f"{file.size:,}", remedy=remedy)
    if not width:
        return fatal("TF724", error, is_truncated=stated > fitting)
    return noted("TF724", error, f"{metadata.name} states {stated}-byte tokens; read as {width}-byte tokens, as given")


FORMAT = Datatrove()
