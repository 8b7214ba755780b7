"""Examine the files of a dataset: empty ones, numbers that their names leave out, widths of their tokens."""

from __future__ import annotations

from collections.abc import Iterator

from tokfmt.core.findings import Finding
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader, has_records
from tokfmt.errors import TokfmtError
from tokfmt.files.file import EMPTY, is_empty
from tokfmt.files.place import Place
from tokfmt.files.shard_names import missing_numbers, names_by_directory, shard_problem
from tokfmt.formats.flat import FlatFormat
from tokfmt.model.readers import dataset_of
from tokfmt.source.manifest import own_manifest
from tokfmt.source.request import SourceFiles
from tokfmt.wording import printable


def other_findings(dataset: SourceFiles) -> Iterator[Finding]:
    """Report empty files of a dataset, and files in its directory that do not belong to it."""
    bare = isinstance(dataset.format, FlatFormat) and not own_manifest(dataset).output
    for file in dataset.files if bare else ():  # An empty file of JSON lines is a corpus without a document.
        if is_empty(file):
            yield Finding("TF919", "warning", str(file), EMPTY, "Copy it again, or remove it")
    if dataset.left_out:
        problem = f"is read as {dataset.format.name}, which leaves out {dataset.left_out}"
        yield Finding(
            "TF915",
            "warning",
            str(dataset.path),
            problem,
            "convert, stats, show and diff refuse it; see `tokfmt check --explain TF915`",
        )


def number_findings(dataset: SourceFiles) -> Iterator[Finding]:
    """Report numbers that are left out in the names of the files of a directory; see `missing_numbers`."""
    for problem in missing_numbers(dataset.files) if dataset.is_numbered else ():
        yield Finding("TF917", "warning", str(dataset.path), problem, "Find it, unless it was left out on purpose")


def empty_findings(path: Place, reader: TokenReader | RecordReader) -> Iterator[Finding]:
    """Report a dataset that holds no tokens, or no records."""
    try:
        if has_records(reader) if isinstance(reader, RecordReader) else reader.info.tokens:
            return
    except TokfmtError:  # reported where records are read
        return
    problem = "holds no records" if isinstance(reader, RecordReader) else "holds no tokens"
    remedy = "Make sure that this is intended: a packer that fails leaves the same, with exit code 0"
    yield Finding("TF941", "warning", str(path), problem, remedy)


def width_findings(path: Place, reader: TokenReader) -> Iterator[Finding]:
    """Report files whose tokens have another number of bytes than those of the first file."""
    stored = dataset_of(reader).axis.readers()
    pieces = [piece for one in stored if one.length for piece in one.pieces(0, one.length) or ()]
    files = {piece.dtype.itemsize: piece.file.path.name for piece in reversed(pieces)}
    if len(files) > 1:
        widths = ", ".join(f"{width} bytes in {printable(name)}" for width, name in sorted(files.items()))
        problem = f"its files have tokens of several widths ({widths})"
        yield Finding(
            "TF943", "warning", str(path), problem, "Find out which tokenizer made each file, and convert them"
        )


def shard_findings(dataset: SourceFiles) -> Iterator[Finding]:
    """Report a directory whose names of files state that one is missing, or that there are two sets of them."""
    for directory, names in names_by_directory(dataset.files if dataset.path.is_dir() else ()).items():
        if problem := shard_problem(names):
            yield Finding("TF918", "error", str(directory), problem, "Find the files, or keep those of one upload")
