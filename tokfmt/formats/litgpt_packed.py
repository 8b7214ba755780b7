"""LITPKDS chunks: the packed datasets of lit-llama, lit-gpt and TinyLlama.

    bytes        content
    0 .. 6       "LITPKDS"
    7 .. 14      u64 little-endian version: 1
    15           code of the dtype: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f32, 7 f64, 8 u16
    16 .. 23     u64 tokens of the chunk
    24 ..        token IDs, little-endian

- PREFIX_NNNNNNNNNN.bin, numbered from 0, are one stream, cut anywhere. A folder has one stream for each PREFIX, in
  order of prefixes: `prefix=NAME` reads one.
- The last chunk of a stream is filled with an ID that no header states: BOS of Llama, or EOS. A run of one ID at the
  end is padding if it has 8 IDs and is not the separator, which may end empty documents there; `fill=drop` says it does
  not, and `fill_id=ID` names the ID.
- Documents begin with BOS (lit-llama; `side=before`) or end with EOS (TinyLlama), as the tokenizer wrote them; or
  nothing bounds them. `--eos ID` states that ID.
- TinyLlama drops the last chunk. Upstream takes dtype and size of the first file for all, and compares no size.
Source: jzhang38/TinyLlama bf122247 and Lightning-AI/lit-gpt f241d94d, lit_gpt/packed_dataset.py, run.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tokfmt.base.options import option
from tokfmt.core.findings import Problem, fatal
from tokfmt.core.format import Confidence, Hints, Probe
from tokfmt.core.reader import Separators
from tokfmt.errors import CorruptError, FormatError, UnsupportedError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.formats.flat import Extent, FileLayout, FlatFormat, Struct, stated_tokens
from tokfmt.wording import counted, printable

MAGIC = b"LITPKDS"
HEADER = Struct(magic="V7", version="<u8", code="u1", tokens="<u8")
CODES: Mapping[int, str] = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
_FLOATS = {6: "float32", 7: "float64"}
_CHUNK = re.compile(r"(.+)_(\d{10})\.bin")
_FEW = 8  # So many equal IDs at the end of a stream are padding, if nothing says so.


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading chunks."""

    prefix: str | None = option(None, "stream of a folder to read; auto: all, one after the other")
    side: Literal["after", "before"] = option("after", "the separator is after documents, or before them")
    fill: Literal["drop", "keep"] | None = option(
        None, "a run of one ID at the end of a stream; auto: dropped if it has 8 IDs and is not the separator"
    )
    fill_id: int | None = option(None, "ID that fills the last chunk of a stream; auto: not known")
    dtype: Literal["uint8", "uint16", "int32", "int64"] | None = option(
        None, "dtype of the tokens, if the header states a wrong one"
    )


class LitGptPacked(FlatFormat):
    """The format of LITPKDS chunks."""

    name = "litgpt-packed"
    title = "lit-gpt, lit-llama and TinyLlama: LITPKDS chunks"
    joins_files = numbers_files = read_only = True
    stores = "sequences in order, empty ones too; IDs up to 2^31-1"
    read_options = ReadOptions
    pattern, unreadable = _CHUNK.pattern, "TF861"
    member, counted = "PREFIX_NNNNNNNNNN.bin", "chunks"

    def recognize(self, probe: Probe) -> Confidence | None:
        return Confidence.CERTAIN if probe.head.startswith(MAGIC) else None

    def members(self, path: Place) -> list[Place]:
        """See `FlatFormat.members`. Streams follow each other in order of their prefixes, chunks by their numbers."""
        return sorted(super().members(path), key=_order) if path.is_dir() else [path]

    def examine(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> FileLayout:
        files = self.all_files(paths)
        if options.prefix is not None:
            there = sorted({_prefix(file) for file in files})
            files = [file for file in files if _prefix(file) == options.prefix]
            if not files:
                found = ", ".join(map(printable, there))
                raise FormatError(paths[0], f"holds no stream {printable(options.prefix)}", found=found)
        layout = super().examine(files, options, hints)
        extents, problems, notes = list[Extent](), list(layout.problems), list(layout.notes)
        streams = 0
        for _, group in itertools.groupby(layout.extents, key=lambda extent: _prefix(extent.file.path)):
            chunks, streams = list(group), streams + 1
            problems += _unfit(chunks)
            if paths[0].is_dir() and (first := _order(chunks[0].file.path)[1]):
                what = f"begins with chunk {first:,}, inside a document"
                remedy = "Copy the chunks before it, or name the files themselves"
                problems.append(fatal("TF863", CorruptError(chunks[0].file.path, what, remedy=remedy)))
            fill, token = _fill(chunks[-1])
            known = options.fill == "drop" or (fill > 0 and token == options.fill_id)
            if hints.allow_partial or (fill < _FEW and not known):
                fill = 0
            elif options.fill is None and not known and token == hints.eos_id:
                many = f"{chunks[-1].file.path.name} ends with {fill:,} separators"
                notes.append(f"{many}; --from-opt fill=drop leaves them out")
                fill = 0
            elif fill and options.fill != "keep":
                last = f"{chunks[-1].file.path.name} ends with {fill:,} times {token}, which fill it"
                notes.append(f"{last}: they are left out; --from-opt fill=keep reads them")
            fill = 0 if options.fill == "keep" else fill
            extents += [*chunks[:-1], chunks[-1]._replace(tokens=chunks[-1].tokens - fill)]
        if streams > 1:
            notes.append(f"{counted(streams, 'stream')} are read one after the other; --from-opt prefix=NAME reads one")
        return replace(layout, extents=extents, problems=problems, notes=tuple(notes))

    def examine_file(self, file: File, options: ReadOptions, hints: Hints) -> FileLayout:  # noqa: ARG002
        head = HEADER.read(file)
        if head["magic"] != MAGIC or head["version"] != 1:
            found = f"{printable(head['magic'].decode('latin-1'))}, version {head['version']}"
            if head["version"] == 1 << 56:
                found = "version 1 with its bytes reversed: written by a big-endian machine"
            raise UnsupportedError(file.path, "is not a chunk", offset=0, expected="LITPKDS, version 1", found=found)
        if head["code"] in _FLOATS and options.dtype is None:
            found = _FLOATS[head["code"]]
            raise UnsupportedError(file.path, "does not hold token IDs", offset=15, expected="integers", found=found)
        if head["code"] not in CODES and options.dtype is None:
            raise CorruptError(file.path, "code of the dtype", offset=15, expected="1 to 8", found=head["code"])
        extent, problems = stated_tokens(
            file,
            np.dtype(options.dtype or CODES[head["code"]]),
            head["tokens"],
            "TF862",
            begin=HEADER.size,
            short=True,
            options=options,
        )
        return FileLayout(
            extents=[extent],
            separators=Separators.BEFORE if options.side == "before" else Separators.AFTER,
            problems=problems,
            sections=[HEADER.part(f"header of {file.path.name}", file)],
            extras={"dtype": extent.dtype.name},
        )


def _prefix(path: Place) -> str:
    chunk = _CHUNK.fullmatch(path.name)
    return chunk[1] if chunk else path.name


def _order(path: Place) -> tuple[str, int]:
    chunk = _CHUNK.fullmatch(path.name)
    return (chunk[1], int(chunk[2])) if chunk else (path.name, 0)


def _unfit(chunks: Sequence[Extent]) -> list[Problem]:
    """Return the problems of chunks of one stream: numbers that are left out, and other dtypes than the first has."""
    problems = list[Problem]()
    for before, after in itertools.pairwise(chunks):
        (_, one), (_, other) = _order(before.file.path), _order(after.file.path)
        if other != one + 1:
            expected, remedy = f"{one + 1:010d}", "Copy what is missing"
            error = CorruptError(
                after.file.path, "does not follow", expected=expected, found=f"{other:010d}", remedy=remedy
            )
            problems.append(fatal("TF863", error))
        if after.dtype != before.dtype:
            what, expected, found = "dtype of a chunk", before.dtype.name, after.dtype.name
            remedy = "Build the stream again: upstream reads all chunks as the first"
            error = CorruptError(after.file.path, what, offset=15, expected=expected, found=found, remedy=remedy)
            problems.append(fatal("TF863", error))
    return problems


def _fill(chunk: Extent) -> tuple[int, int]:
    """Return the length of the run of one ID at the end of a chunk, and the ID."""
    width, end, token = chunk.dtype.itemsize, chunk.tokens, None
    while end:
        begin = max(0, end - (1 << 20))
        ids = chunk.file.array(chunk.begin + begin * width, end - begin, chunk.dtype)
        token = int(ids[-1]) if token is None else token
        other = np.flatnonzero(ids != token)
        if len(other):
            begin += int(other[-1]) + 1
            return chunk.tokens - begin, token
        end = begin
    return chunk.tokens, token or 0


FORMAT = LitGptPacked()
