"""Steps for datatrove pipelines: read any tokfmt source as documents, and write documents as a dataset of any format.

    from datatrove.executor import LocalPipelineExecutor
    from tokfmt.integrations.datatrove import TokfmtReader, TokfmtWriter, finish

    LocalPipelineExecutor([TokfmtReader("mix.toml"), ..., TokfmtWriter("corpus.pbin")], tasks=8).run()
    finish("corpus.pbin", tokenizer="gpt2")

Task r of n reads the r-th share of the order of a source, and `finish` joins the outputs in the order of the tasks.
Documents that no step moves therefore keep the order of their source, whatever the number of tasks and the order in
which they end.

This module needs datatrove, which is not a dependency of tokfmt.
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

from tokfmt.api import convert
from tokfmt.base.options import given_options
from tokfmt.core.losses import READS
from tokfmt.core.reader import TokenReader, windows
from tokfmt.core.records import Block, RecordReader
from tokfmt.errors import ConversionError, OptionError, missing_package
from tokfmt.files.durable import replace_file
from tokfmt.files.file import names_in, write_error, writing
from tokfmt.files.place import LocalPlace, local_path, place_of
from tokfmt.files.publisher import LocalPublisher
from tokfmt.mix import TextRecipe, TextSource, selected_records
from tokfmt.model.readers import batches_of
from tokfmt.source.manifest import extent, manifest_path, read_manifest
from tokfmt.source.open import open_datasets
from tokfmt.source.request import EosChoice, Options, Reading, SourceRequest, check_losses, several
from tokfmt.source.stored import Source, tokenizer_of
from tokfmt.wording import printable

try:
    from datatrove.data import Document
    from datatrove.pipeline.base import PipelineStep
    from datatrove.pipeline.readers.base import BaseReader
except ModuleNotFoundError as error:
    raise missing_package(error, "tokfmt.integrations.datatrove", ["datatrove"]) from error

if TYPE_CHECKING:
    from tokfmt.commands.convert.request import Conversion
    from tokfmt.core.format import Decoder
    from tokfmt.core.ragged import Ragged

PathLike = str | os.PathLike[str]

_BLOCK = 1 << 20  # bytes of records; constant, because the IDs of documents depend on it
_SEQUENCES = 1 << 10
_NAMED = 5
_FILES = 20_000  # limit of source files in a manifest
_PART = re.compile(r"(\d{5,})-of-(\d{5,})\.jsonl")


class _Records(NamedTuple):
    """A block of records, which one task reads at a time."""

    path: str
    source: str | None
    reader: RecordReader
    block: Block

    def file(self, number: int) -> str:
        """Return the file of a record of the block. If each file is one record, a block covers several files."""
        if not self.reader.files:
            return self.path
        files = self.reader.files
        return str(files[self.block.file + (number if self.reader.info.records == len(files) else 0)])


class _Sequences(NamedTuple):
    """An interval of sequences, which one task reads at a time."""

    path: str
    source: str | None
    reader: TokenReader
    numbers: range

    def file(self, number: int) -> str:
        """Return the dataset of a sequence."""
        del number
        return self.path


_Piece = _Records | _Sequences


class TokfmtReader(BaseReader):  # type: ignore[misc] # datatrove is not a dependency
    """Read any dataset that tokfmt opens as documents: text unchanged, token IDs decoded.

    A recipe of text yields the records of its sources in the order of its file, unchanged: not filtered, drawn,
    compared or shuffled. `metadata["recipe_source"]` is the name of the source in the recipe. Any other recipe yields
    its sequences.

    A task reads whole blocks: about 1 MiB of lines or rows, one compressed file, or 1,024 sequences. Other fields of
    JSON lines, and other columns of Parquet and Arrow, become the ID and the metadata, as in datatrove's readers. A
    document without an ID gets one of file and position that does not depend on the number of tasks.
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
        bos: EosChoice = None,
        allow_loss: str | Iterable[str] = (),
        recursive: bool = False,
        **reading: Any,
    ) -> None:
        """Store the settings. Nothing is opened before a task runs.

        Args:
            paths: Files, directories and patterns, in order.
            format: Format of the sources (default: detected from content).
            options: Options of the source format.
            tokenizer: Tokenizer that decodes IDs; text needs none. A recipe of text names its own.
            text_field: Field of the text in a record, as a dotted path.
            split: Split to read.
            eos: Separator ID, or "none".
            bos: ID of the lead, which is no content at the beginning of sequences, or "none".
            allow_loss: Losses to accept, by name. "invalid-utf8" writes U+FFFD for IDs that are not text.
            recursive: Read subdirectories too.
            reading: Arguments of datatrove's readers: `limit` and `skip` per task, `adapter`, `text_key`, `id_key`,
                `default_metadata`.
        """
        super().__init__(**reading)
        places = map(place_of, several(paths))
        self.paths = [place.normalized().text for place in places]  # tasks may run in other directories
        self.format, self.options, self.tokenizer = format, given_options(options), tokenizer
        self.text_field, self.split, self.eos, self.bos = text_field, split, eos, bos
        self.allow_loss, self.recursive = sorted(check_losses(allow_loss)), recursive

    def run(
        self, data: Iterable[Document] | None = None, rank: int = 0, world_size: int = 1
    ) -> Generator[Document, None, None]:
        """Yield the documents of earlier steps, then those of one task.

        Args:
            data: Documents of earlier steps.
            rank: Number of the task, from 0.
            world_size: Number of tasks.

        Raises:
            TokfmtError: The source cannot be read, or holds token IDs and no tokenizer is given.
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
            tuple(self.paths),
            self.format,
            self.eos,
            self.options,
            self.text_field,
            self.split,
            frozenset(self.allow_loss) | READS["open"],
            self.recursive,
            bos=self.bos,
        )
        handle = tokenizer_of(self.tokenizer)
        sources = open_datasets(request, Reading(handle))
        try:
            recipe = next((source.reader for source in sources if isinstance(source.reader, TextRecipe)), None)
            handle = handle or (recipe.tokenizer if recipe is not None else None)
            decoder = handle.decoder(lenient="invalid-utf8" in self.allow_loss) if handle is not None else None
            pieces = [piece for source in sources for piece in _pieces(source)]
            for piece in pieces[len(pieces) * rank // world : len(pieces) * (rank + 1) // world]:
                for k, (number, fields) in enumerate(self._records(piece, decoder)):
                    path = piece.file(k)
                    document = self.get_document_from_dict(fields, path, number)
                    if document is None:  # datatrove skips records without text, and logs them
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
        """Yield the ID and the fields of each record of a piece."""
        if isinstance(piece, _Records) and piece.reader.info.is_text:
            reader, block = piece.reader, piece.block
            name = f"{block.file}-{block.start}"
            if reader.info.json_lines:
                lines = (line for batch in reader.lines(block) for line in batch.lines)
                found = (_with_text(json.loads(line), reader.info.field, self.text_key) for line in lines)
            elif reader.is_table:
                found = ({**others, self.text_key: text} for text, others in reader.texts_with_columns(block))
            else:
                found = ({self.text_key: text} for batch in reader.texts(block) for text in batch.texts)
            yield from ((f"{name}-{k}", fields) for k, fields in enumerate(found))
            return
        if decoder is None:
            raise OptionError(f"{printable(piece.path)}: holds token IDs. Give tokenizer= to decode them")
        if isinstance(piece, _Records):
            name, first, found_ids = f"{piece.block.file}-{piece.block.start}-", 0, piece.reader.ids(piece.block)
            ragged: Iterator[Ragged] = (batch.ragged for batch in found_ids if batch.ragged is not None)
        else:
            name, first = "", piece.numbers.start
            ragged = batches_of(piece.reader, first, piece.numbers.stop)
        sequences = enumerate((ids for some in ragged for ids in some), first)
        yield from ((f"{name}{k}", {self.text_key: decoder.decode(ids)}) for k, ids in sequences)


def _pieces(source: Source) -> Iterator[_Piece]:
    """Yield the pieces of a source in order; the tasks share them."""
    if not isinstance(source.reader, TextRecipe):
        yield from _pieces_of(source.reader, str(source.paths[0]), None, (0, None))
        return
    for inner in source.reader.sources:
        if not isinstance(inner, TextSource):
            yield from _pieces_of(inner.reader, str(inner.paths[0]), inner.name, (0, None))
            continue
        for part, window in zip(inner.parts, selected_records(inner), strict=True):
            yield from _pieces_of(part.reader, str(part.paths[0]), inner.name, window)


def _pieces_of(
    reader: RecordReader | TokenReader, path: str, source: str | None, window: tuple[int, int | None]
) -> Iterator[_Piece]:
    if isinstance(reader, RecordReader):
        for block in reader.blocks(_BLOCK, *window):
            yield _Records(path, source, reader, block)
        return
    for a, b in windows(0, reader.info.sequences, _SEQUENCES):
        yield _Sequences(path, source, reader, range(a, b))


def _with_text(record: Any, field: str, key: str) -> dict[str, Any]:
    """Return a JSON record with the text at a dotted path moved to `key`."""
    *above, name = field.split(".")
    holder = record
    for word in above:
        holder = holder[word]
    text = holder.pop(name)
    return {**record, key: text}


class TokfmtWriter(PipelineStep):  # type: ignore[misc] # datatrove is not a dependency
    """Write documents for a dataset: each task writes a part next to it, and `finish` makes the dataset of all parts.

    A part is JSON lines with `text`, `id` and `metadata`, or with `input_ids` if a tokenizer is given, so that the
    tasks share its work. It is complete, or not written. A repeated task replaces its part. The next step gets the
    documents.
    """

    name = "tokfmt"
    type = "💽 - WRITER"

    def __init__(self, destination: PathLike, tokenizer: str | None = None, **encoding: Any) -> None:
        """Store the settings. Nothing is written before a task runs.

        Args:
            destination: The destination of `finish`. Parts are in `DESTINATION.parts`, which all tasks must reach.
            tokenizer: Tokenizer of each task; None: `finish` tokenizes, or keeps text.
            encoding: With a tokenizer, arguments of `tokfmt.convert`: `special_tokens`, `engine`, `eos`.
        """
        super().__init__()
        self.destination, self.tokenizer, self.encoding = os.path.abspath(destination), tokenizer, encoding

    def run(
        self, data: Iterable[Document] | None, rank: int = 0, world_size: int = 1
    ) -> Generator[Document, None, None]:
        """Write the part of one task, and yield its documents.

        Args:
            data: Documents of earlier steps.
            rank: Number of the task, from 0.
            world_size: Number of tasks.

        Raises:
            ConversionError: The part cannot be written, or JSON cannot hold a document.
        """
        home = _parts_of(self.destination)
        with writing(home):
            home.mkdir(exist_ok=True)
        part, files = home / _part(rank, world_size), dict[str | None, None]()
        texts = part if self.tokenizer is None else part.with_name(f"{part.name}.texts")
        with LocalPublisher(texts, overwrite=True) as staging:
            with open(staging.path, "wb") as file:
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
                    staging.path,
                    part,
                    format="jsonl",
                    to_format="jsonl",
                    text_field="text",
                    tokenizer=self.tokenizer,
                    options={"kind": "text"},
                    allow_loss="fields",
                    overwrite=True,
                    jobs=1,
                    executor="serial",
                    **self.encoding,
                )

    def _write_files(self, part: Path, files: list[str | None]) -> None:
        """Write the files that the documents of a part come from; [null] if there are more than 20,000."""
        with writing(part):
            replace_file(_files_of(part), json.dumps(files if len(files) <= _FILES else [None]).encode())

    def _write(self, document: Document, file: BinaryIO) -> None:
        line = _line(document)
        try:  # `writing` would cost too much per document
            file.write(line)
        except OSError as error:
            raise write_error(_parts_of(self.destination), error) from error
        self.stat_update("documents")


def _line(document: Document) -> bytes:
    if document.media:
        raise ConversionError(f"document {printable(document.id)}: has media, but token datasets hold only text")
    record = {"text": document.text, "id": document.id, "metadata": document.metadata}
    try:
        return msgspec.json.encode(record) + b"\n"
    except (TypeError, ValueError, OverflowError) as error:  # a Python object, or half of a surrogate pair
        raise ConversionError(f"document {printable(document.id)}: cannot be written as JSON: {error}") from error


def _parts_of(destination: PathLike) -> Path:
    path = Path(os.path.abspath(destination))
    return path.with_name(f"{path.name}.parts")


def finish(destination: PathLike, **converting: Any) -> Conversion:
    """Make the dataset of the parts that all tasks of a `TokfmtWriter` wrote. It is complete, or not written.

    The parts are read in the order of the tasks, and removed when the dataset is complete. The dataset is that of
    `tokfmt convert` for their texts in this order. Its sources in the manifest are the `file_path` of all documents, or
    the parts if a document has no `file_path`.

    Args:
        destination: The destination of the writer.
        converting: Arguments of `tokfmt.convert`: `tokenizer`, `to_format`, `to_options`, `seq_len`, `shuffle` and
            others. Only JSON lines keep metadata.

    Raises:
        ConversionError: Parts are missing, or belong to runs with different numbers of tasks.
        TokfmtError: See `tokfmt.convert`. The parts stay.
    """
    home = _parts_of(destination)
    parts = _all_parts(home)
    done = convert(parts, destination, format="jsonl", text_field="text", **converting)
    if not done.dry_run:
        if files := _files(parts):
            done = _with_sources(done, files)
        for part in parts:
            part.unlink()
            for companion in (manifest_path(part), _files_of(part)):
                companion.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the directory holds other files
            home.rmdir()
    return done


def _files_of(part: Path) -> Path:
    """Return the path of the list of files that the documents of a part come from."""
    return part.with_suffix(".files.json")


def _files(parts: Sequence[Path]) -> list[str]:
    """Return the files that all documents come from, in order; [] if the file of any document is unknown."""
    found = dict[str | None, None]()
    for part in parts:
        companion = _files_of(part)
        found |= dict.fromkeys(json.loads(companion.read_bytes()) if companion.exists() else [None])
    return [] if None in found or len(found) > _FILES else [file for file in found if file is not None]


def _with_sources(done: Conversion, files: Sequence[str]) -> Conversion:
    """Replace the parts by the files of origin as the sources of a result, and in its manifests.

    The size of a file that is not on this machine is null.
    """
    for destination in {str(split["destination"]) for split in done.splits.values()} or {done.destination}:
        manifest = read_manifest(LocalPlace(destination))
        if manifest.content:
            nothing = {"bytes": None, "files": 1, "xxh3_128": None}
            facts = (extent([LocalPlace(file)]) if os.path.isfile(file) else nothing for file in files)
            sources = [{"path": file, "format": None, **one} for file, one in zip(files, facts, strict=True)]
            content = {**manifest.content, "sources": sources}
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            replace_file(local_path(manifest.path, "a manifest"), text.encode())
    return replace(done, sources=[{"path": file, "format": None} for file in files])


def _all_parts(home: Path) -> list[Path]:
    """Return the parts of all tasks in order.

    Raises:
        ConversionError: A part is missing, or parts belong to different runs.
    """
    names = names_in(home) if home.is_dir() else []
    found = sorted((int(m[2]), int(m[1])) for m in map(_PART.fullmatch, names) if m)
    if not found:
        raise ConversionError(f"{printable(home)}: holds no parts. Run a pipeline with a TokfmtWriter first")
    worlds = sorted({world for world, _ in found})
    if len(worlds) > 1:
        counts = " and ".join(f"{world:,}" for world in worlds)
        raise ConversionError(f"{printable(home)}: holds parts of runs of {counts} tasks. Remove those of the old run")
    world = worlds[0]
    missing = sorted(set(range(world)) - {rank for _, rank in found})
    if missing:
        listed = ", ".join(map(str, missing[:_NAMED])) + (" ..." if len(missing) > _NAMED else "")
        raise ConversionError(
            f"{printable(home)}: the parts of {len(missing):,} of {world:,} tasks are missing ({listed}). "
            "Run these tasks first"
        )
    return [home / _part(rank, world) for rank in range(world)]


def _part(rank: int, world: int) -> str:
    return f"{rank:05d}-of-{world:05d}.jsonl"
