"""Steps of datatrove pipelines: any tokfmt source as documents, and documents as a dataset of any format.

    from datatrove.executor import LocalPipelineExecutor
    from tokfmt.integrations.datatrove import TokfmtReader, TokfmtWriter, finish

    LocalPipelineExecutor([TokfmtReader("mix.toml"), ..., TokfmtWriter("corpus.pbin")], tasks=8).run()
    finish("corpus.pbin", tokenizer="gpt2")

Task r of n reads the r-th part of a source's order, and `finish` puts what tasks wrote together in the order of tasks.
So documents that no step moves stay in the order of their source, however many tasks there are and however they end.

Needs datatrove, which is no dependency of tokfmt.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec

from tokfmt.core.atomic_output import Staging, write_whole
from tokfmt.core.errors import ConversionError, OptionError, missing_package
from tokfmt.core.files import names_in, write_error, writing
from tokfmt.core.options import given_options
from tokfmt.core.protocols import LocatedRecords
from tokfmt.core.reader import TokenReader, batches, windows
from tokfmt.core.records import Block, RecordReader, json_lines
from tokfmt.core.text_format import printable
from tokfmt.ops.convert.convert import convert
from tokfmt.ops.prepare.prepare import selected_records
from tokfmt.ops.source.draft import TextRecipe, TextSource
from tokfmt.ops.source.manifest import extent, manifest_path, read_manifest
from tokfmt.ops.source.open import open_sources
from tokfmt.ops.source.request import EosChoice, Options, SourceRequest, check_losses, several
from tokfmt.ops.source.stored import Source, tokenizer_of

try:
    from datatrove.data import Document
    from datatrove.pipeline.base import PipelineStep
    from datatrove.pipeline.readers.base import BaseReader
except ModuleNotFoundError as error:
    raise missing_package(error, "tokfmt.integrations.datatrove", ["datatrove"]) from error

if TYPE_CHECKING:
    from tokfmt.core.format import Decoder
    from tokfmt.core.ragged import Ragged
    from tokfmt.ops.convert.request import Conversion

PathLike = str | os.PathLike[str]

_BLOCK = 1 << 20  # bytes of records, the same for any number of tasks: ids of documents depend on it
_SEQUENCES = 1 << 10
_NAMED = 5
_FILES = 20_000  # that a manifest names
_PART = re.compile(r"(\d{5,})-of-(\d{5,})\.jsonl")


class _Records(NamedTuple):
    """What one task reads at a time: a block of records, with their `fields` if those can be had."""

    path: str
    source: str | None
    reader: RecordReader
    block: Block
    format: str

    def file(self, number: int) -> str:
        """The file of a record of the block; of a text file that is one record a block holds several."""
        if not isinstance(self.reader, LocatedRecords):
            return self.path
        files = self.reader.files
        return str(files[self.block.file + (number if self.reader.info.records == len(files) else 0)])


class _Sequences(NamedTuple):
    """What one task reads at a time: some sequences, by their numbers."""

    path: str
    source: str | None
    reader: TokenReader
    numbers: range

    def file(self, number: int) -> str:
        """The dataset of a sequence."""
        del number
        return self.path


_Piece = _Records | _Sequences


class TokfmtReader(BaseReader):  # type: ignore[misc] # datatrove is no dependency
    """Documents of whatever tokfmt opens: texts as they are, ids decoded.

    A recipe with text gives the records of its sources in the order of its file, as they stand there: neither filtered
    nor drawn, compared nor shuffled; `metadata["recipe_source"]` is the name of their source in the recipe. Any other
    recipe gives what it gives to every command.

    A task takes whole blocks: about a mebibyte of lines or rows, a compressed file, 1,024 sequences. Other fields of
    JSON lines, and other columns of Parquet and Arrow, become the id and metadata, as with datatrove's own readers;
    documents without one get an id of file and place that does not depend on the number of tasks.
    """

    name = "tokfmt"

    def __init__(
        self,
        paths: PathLike | Sequence[PathLike],
        *,
        format: str | None = None,  # noqa: A002 - the word users know
        options: Options = (),
        tokenizer: str | None = None,
        text_field: str | None = None,
        split: str | None = None,
        eos: EosChoice = None,
        allow_loss: str | Iterable[str] = (),
        recursive: bool = False,
        **reading: Any,
    ) -> None:
        """Say what to read; nothing is opened before a task runs.

        Args:
            paths: Files, directories and patterns, one after the other.
            format, options, text_field, split, eos, recursive: How to read them, as for `tokfmt.convert`.
            tokenizer: Decodes ids; not needed for text. A recipe with text names its own.
            allow_loss: What may be given up, by name; "invalid-utf8" writes U+FFFD where ids are no text.
            reading: Of datatrove's readers: `limit` and `skip` for each task, `adapter`, `text_key`, `id_key`,
                `default_metadata`.
        """
        super().__init__(**reading)
        self.paths = [os.path.abspath(path) for path in several(paths)]  # tasks may run elsewhere
        self.format, self.options, self.tokenizer = format, given_options(options), tokenizer
        self.text_field, self.split, self.eos = text_field, split, eos
        self.allow_loss, self.recursive = sorted(check_losses(allow_loss)), recursive

    def run(
        self, data: Iterable[Document] | None = None, rank: int = 0, world_size: int = 1
    ) -> Generator[Document, None, None]:
        """The documents of one task, behind those of steps before this one.

        Raises:
            TokfmtError: The source cannot be read, or holds ids and there is no tokenizer.
        """
        if data:
            yield from data
        self._log_limit_scope(rank, world_size)
        last = None if self.limit < 0 else self.skip + self.limit
        for document in islice(self._documents(rank, world_size), self.skip, last):
            self.update_doc_stats(document)
            yield document

    def _documents(self, rank: int, world: int) -> Iterator[Document]:
        request = SourceRequest(
            tuple(self.paths), self.format, self.eos, self.options, self.text_field, self.split,
            frozenset(self.allow_loss) | {"fields"}, self.recursive,
        )  # fmt: skip
        handle = tokenizer_of(self.tokenizer)
        sources = open_sources(request, handle)
        try:
            recipe = next((source.reader for source in sources if isinstance(source.reader, TextRecipe)), None)
            handle = handle or (recipe.tokenizer if recipe is not None else None)
            decoder = handle.decoder(lenient="invalid-utf8" in self.allow_loss) if handle is not None else None
            pieces = [piece for source in sources for piece in _pieces(source)]
            for piece in pieces[len(pieces) * rank // world : len(pieces) * (rank + 1) // world]:
                for k, (number, fields) in enumerate(self._records(piece, decoder)):
                    path = piece.file(k)
                    document = self.get_document_from_dict(fields, path, number)
                    if document is None:  # datatrove's own rule for those without text; it has said so
                        self.stat_update("empty")
                        continue
                    document.id = str(document.id)
                    if piece.source is not None:
                        document.metadata["recipe_source"] = piece.source
                    document.metadata.setdefault("file_path", path)
                    self.stat_update("documents")
                    yield document
        finally:
            for source in sources:
                source.reader.close()

    def _records(self, piece: _Piece, decoder: Decoder | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Where each record of a piece is, in a word, and what it holds."""
        if isinstance(piece, _Records) and piece.reader.info.kind == "text":
            reader, block = piece.reader, piece.block
            name = f"{block.file}-{block.start}"
            if reader.info.json_lines:
                lines = (line for batch in json_lines(reader, block) for line in batch.lines)
                found = (_with_text(json.loads(line), reader.info.field, self.text_key) for line in lines)
            elif piece.format in ("parquet", "arrow"):
                found = ({**others, self.text_key: text} for text, others in reader.records(block))  # type: ignore[attr-defined]
            else:
                found = ({self.text_key: text} for batch in reader.texts(block) for text in batch.texts)
            yield from ((f"{name}-{k}", fields) for k, fields in enumerate(found))
            return
        if decoder is None:
            raise OptionError(f"{printable(piece.path)}: holds ids; give tokenizer= to read it as documents")
        if isinstance(piece, _Records):
            name, first, found_ids = f"{piece.block.file}-{piece.block.start}-", 0, piece.reader.ids(piece.block)
            ragged: Iterator[Ragged] = (batch.ragged for batch in found_ids if batch.ragged is not None)
        else:
            name, first = "", piece.numbers.start
            ragged = batches(piece.reader, first, piece.numbers.stop)
        sequences = enumerate((ids for some in ragged for ids in some), first)
        yield from ((f"{name}{k}", {self.text_key: decoder.decode(ids)}) for k, ids in sequences)


def _pieces(source: Source) -> Iterator[_Piece]:
    """A source in pieces that tasks share, in order."""
    if not isinstance(source.reader, TextRecipe):
        yield from _pieces_of(source.reader, str(source.paths[0]), None, source.format.name, (0, None))
        return
    for inner in source.reader.sources:
        if not isinstance(inner, TextSource):
            yield from _pieces_of(inner.reader, str(inner.paths[0]), inner.name, inner.format, (0, None))
            continue
        for part, window in zip(inner.parts, selected_records(inner), strict=True):
            yield from _pieces_of(part.reader, str(part.paths[0]), inner.name, part.format.name, window)


def _pieces_of(
    reader: RecordReader | TokenReader, path: str, source: str | None, format_: str, window: tuple[int, int | None]
) -> Iterator[_Piece]:
    if isinstance(reader, RecordReader):
        for block in reader.blocks(_BLOCK, *window):
            yield _Records(path, source, reader, block, format_)
        return
    for a, b in windows(0, reader.info.sequences, _SEQUENCES):
        yield _Sequences(path, source, reader, range(a, b))


def _with_text(record: Any, field: str, key: str) -> dict[str, Any]:
    """A record of JSON whose text is at a dotted path, as one that has it under `key`."""
    *above, name = field.split(".")
    holder = record
    for word in above:
        holder = holder[word]
    text = holder.pop(name)
    return {**record, key: text}


class TokfmtWriter(PipelineStep):  # type: ignore[misc] # datatrove is no dependency
    """Documents for a dataset: each task writes a part beside it, and `finish` makes the dataset of all parts.

    A part is JSON lines (`text`, `id`, `metadata`; with a tokenizer `input_ids`, so that tasks share that work) and
    appears whole when its task ends; a task that runs again replaces its own. Documents go on to the next step.
    """

    name = "tokfmt"
    type = "💽 - WRITER"

    def __init__(self, destination: PathLike, tokenizer: str | None = None, **encoding: Any) -> None:
        """Say where to; nothing is made before a task runs.

        Args:
            destination: As `finish` is given it. Parts are in `DESTINATION.parts`, which all tasks must see.
            tokenizer: Each task tokenises its own documents; None: `finish` does, or keeps text.
            encoding: Then, as for `tokfmt.convert`: `special_tokens`, `engine`, `eos`.
        """
        super().__init__()
        self.destination, self.tokenizer, self.encoding = os.path.abspath(destination), tokenizer, encoding

    def run(
        self, data: Iterable[Document] | None, rank: int = 0, world_size: int = 1
    ) -> Generator[Document, None, None]:
        """Write the part of one task.

        Raises:
            ConversionError: It cannot be written, or a document holds what JSON lines cannot.
        """
        home = _parts_of(self.destination)
        with writing(home):
            home.mkdir(exist_ok=True)
        part, files = home / _part(rank, world_size), dict[str | None, None]()
        with Staging(part, overwrite=True) as staging:
            texts = staging.path if self.tokenizer is None else staging.scratch / "texts.jsonl"
            with open(texts, "wb") as file:
                for document in data or ():
                    with self.track_time():
                        self._write(document, file)
                    self.update_doc_stats(document)
                    files[document.metadata.get("file_path")] = None
                    yield document
            self._write_files(part, list(files))
            if self.tokenizer is None:
                staging.publish({manifest_path(part).name: None})
                return
            with self.track_time():
                convert(
                    texts, part, format="jsonl", to_format="jsonl", text_field="text", tokenizer=self.tokenizer,
                    options={"kind": "text"}, allow_loss="fields", overwrite=True, jobs=1, executor="serial",
                    **self.encoding,
                )  # fmt: skip

    def _write_files(self, part: Path, files: list[str | None]) -> None:
        """Say where the documents of a part come from, as far as they tell; of very many files nobody would."""
        with writing(part):
            write_whole(_files_of(part), json.dumps(files if len(files) <= _FILES else [None]).encode())

    def _write(self, document: Document, file: BinaryIO) -> None:
        line = _line(document)
        try:  # for each document: without the cost of `writing`
            file.write(line)
        except OSError as error:
            raise write_error(_parts_of(self.destination), error) from error
        self.stat_update("documents")


def _line(document: Document) -> bytes:
    if document.media:
        raise ConversionError(f"document {printable(document.id)}: has media, and token datasets hold text alone")
    record = {"text": document.text, "id": document.id, "metadata": document.metadata}
    try:
        return msgspec.json.encode(record) + b"\n"
    except (TypeError, ValueError, OverflowError) as error:  # an object of Python; half of a surrogate pair
        raise ConversionError(f"document {printable(document.id)}: cannot be written as JSON: {error}") from error


def _parts_of(destination: PathLike) -> Path:
    path = Path(os.path.abspath(destination))
    return path.with_name(f"{path.name}.parts")


def finish(destination: PathLike, **converting: Any) -> Conversion:
    """Make the dataset of what all tasks of a `TokfmtWriter` have written; whole or not at all.

    Parts are read in the order of tasks, and removed once the dataset is there. It is the one that `tokfmt convert`
    makes of their texts in this order. Its sources are the files that documents came from, by their `file_path`; the
    parts, where a document has none.

    Args:
        destination: As the writer was given it.
        converting: As for `tokfmt.convert`: `tokenizer`, `to_format`, `to_options`, `seq_len`, `shuffle` ...
            Metadata stays in JSON lines alone.

    Raises:
        ConversionError: Parts are missing (they are named), or of runs with different numbers of tasks.
        TokfmtError: As for `tokfmt.convert`. The parts stay.
    """
    home = _parts_of(destination)
    parts = _all_parts(home)
    done = convert(parts, destination, format="jsonl", text_field="text", **converting)
    if not done.dry_run:
        if files := _files(parts):
            done = _with_sources(done, files)
        for part in parts:
            part.unlink()
            for beside in (manifest_path(part), _files_of(part)):
                beside.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody keeps something of his own there
            home.rmdir()
    return done


def _files_of(part: Path) -> Path:
    """Where stands which files the documents of a part come from."""
    return part.with_suffix(".files.json")


def _files(parts: Sequence[Path]) -> list[str]:
    """The files that all documents come from, in order; none where that is not known of each of them."""
    found = dict[str | None, None]()
    for part in parts:
        beside = _files_of(part)
        found |= dict.fromkeys(json.loads(beside.read_bytes()) if beside.exists() else [None])
    return [] if None in found or len(found) > _FILES else [file for file in found if file is not None]


def _with_sources(done: Conversion, files: Sequence[str]) -> Conversion:
    """The same with other sources than the parts, in its manifests too; of files elsewhere no size is known."""
    for destination in {str(split["destination"]) for split in done.splits.values()} or {done.destination}:
        said = read_manifest(Path(destination))
        if said.content:
            nothing = {"bytes": None, "files": 1, "xxh3_128": None}
            facts = (extent([Path(file)]) if os.path.isfile(file) else nothing for file in files)
            sources = [{"path": file, "format": None, **one} for file, one in zip(files, facts, strict=True)]
            content = {**said.content, "sources": sources}
            write_whole(said.path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())
    return replace(done, sources=[{"path": file, "format": None} for file in files])


def _all_parts(home: Path) -> list[Path]:
    """The parts of all tasks, in order.

    Raises:
        ConversionError: It is not one part of each.
    """
    names = names_in(home) if home.is_dir() else []
    found = sorted((int(m[2]), int(m[1])) for m in map(_PART.fullmatch, names) if m)
    if not found:
        raise ConversionError(f"{printable(home)}: holds no parts. Run a pipeline with a TokfmtWriter first")
    worlds = sorted({world for world, _ in found})
    if len(worlds) > 1:
        told = " and ".join(f"{world:,}" for world in worlds)
        raise ConversionError(f"{printable(home)}: holds parts of runs of {told} tasks. Remove those of the old run")
    world = worlds[0]
    missing = sorted(set(range(world)) - {rank for _, rank in found})
    if missing:
        told = ", ".join(map(str, missing[:_NAMED])) + (" ..." if len(missing) > _NAMED else "")
        raise ConversionError(
            f"{printable(home)}: the parts of {len(missing):,} of {world:,} tasks are missing ({told}). Run these first"
        )
    return [home / _part(rank, world) for rank in range(world)]


def _part(rank: int, world: int) -> str:
    return f"{rank:05d}-of-{world:05d}.jsonl"
