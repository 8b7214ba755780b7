"""Find and open the sources of a conversion. Pipes and standard output go through private scratch in $TMPDIR."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokfmt import registry
from tokfmt.commands.convert.request import Notes, Request
from tokfmt.commands.convert.retokenize import as_texts
from tokfmt.commands.convert.selection import query_of
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordInfo
from tokfmt.errors import (
    NAME_SEPARATOR,
    DetectionError,
    OptionError,
    SeparatorUnknownError,
    TokenizerMismatchError,
    TokfmtError,
    replace_paths,
)
from tokfmt.files.file import reading_error, write_error, writing
from tokfmt.files.listing import Listing
from tokfmt.files.locks import Scratch
from tokfmt.files.place import LocalPlace, Place, local_path
from tokfmt.files.store import Identity
from tokfmt.run.progress import Progress
from tokfmt.source.content import Manifest
from tokfmt.source.discover import find_sources
from tokfmt.source.manifest import own_manifest
from tokfmt.source.open import open_datasets
from tokfmt.source.request import STREAM, Reading, SourceFiles, SourceRequest, needed
from tokfmt.source.stored import Source, agreed_tokenizer, files_of_sources, tokenizer_of
from tokfmt.source.zeros import zeros_at_end
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.mix import TextRecipe
    from tokfmt.text.tokenizer import TokenizerHandle


_NOTES, _NAMED = 20, 3  # notes on sources that are reported, and other sources that one names

OpenedSources = tuple[Sequence[Source], TokenReader]
"""Sources that are open already, and the axis over them that is written instead of all their sequences."""


class FoundFiles(NamedTuple):
    """The datasets that a conversion reads, before they are opened."""

    named: Sequence[SourceFiles]  # that the request names
    files: tuple[SourceFiles, ...]  # these, all that recipes among them name, and the evals of --without


@dataclass(frozen=True, slots=True)
class Inputs:
    """The open sources of a conversion."""

    files: tuple[SourceFiles, ...]  # every dataset that is read, including those that recipes name
    before: Mapping[Place, Identity]  # of these files, before they were opened
    # manifests, reduced to the size, number and checksum of files; empty with --ignore-manifest
    stated: Mapping[Place, Manifest]
    sources: tuple[Source, ...]
    read: tuple[Source, ...]  # what is converted: the sources, or one with a reader over them, or of packed rows
    tokenizer: TokenizerHandle | None  # encodes text or decodes token IDs
    # the tokenizer that is known to have made all token IDs, and the accepted differences, in words
    made_by: tuple[Mapping[str, Any] | None, str]

    @property
    def holds_something(self) -> bool:
        """True if the sources hold a sequence, or a byte that may belong to a record."""
        infos = [source.reader.info for source in self.sources]
        return any(info.size if isinstance(info, RecordInfo) else info.sequences for info in infos)

    def of_reader(self, reader: TokenReader) -> Inputs:
        """Return the same with another reader of the only source."""
        source = (self.sources[0]._replace(reader=reader),)
        return replace(self, sources=source, read=source)


def find_files(request: Request, opened: OpenedSources | None, listing: Listing) -> FoundFiles:
    """Find the datasets that a request names. Their places carry the listing."""
    named = files_of_sources(opened[0], listing) if opened else find_sources(request.source, listing=listing)
    if any(one.format.name == "recipe" for one in named):
        from tokfmt.mix import named_by  # only recipes need what it imports

        named = [one._replace(named=named_by(one.path)) if one.format.name == "recipe" else one for one in named]
    paths = getattr(query_of(request.select), "evals", ())  # of `OverlapRules`, which most conversions do not import
    evals = find_sources(SourceRequest(paths), listing=listing) if paths else []
    return FoundFiles(named, tuple(one for dataset in (*named, *evals) for one in dataset.all()))


def open_inputs(
    request: Request,
    files: FoundFiles,
    before: Mapping[Place, Identity],
    tokenizer: TokenizerHandle | None,
    opened: OpenedSources | None,
    notes: Notes,
) -> Inputs:
    """Open the sources of a request, and add the notes on them."""
    maker = tokenizer_of(request.from_tokenizer)
    sources = opened[0] if opened else _opened(request, maker or tokenizer, files.named, notes)
    if maker is not None:
        sources = as_texts(request, sources, maker, tokenizer)
    compared = () if request.source.ignore_manifest else files.files
    stated = {one.path: own_manifest(one).of_files for one in compared}
    read = [sources[0]._replace(reader=opened[1])] if opened else sources
    if any(source.format.is_computed for source in sources):
        tokenizer = _named_tokenizer(sources, tokenizer)
    _pass_on(sources, notes)
    for source in sources:
        reader = source.reader if isinstance(source.reader, TokenReader) and not source.format.is_computed else None
        if reader is not None and (zeros := zeros_at_end(reader)) is not None:
            notes.add(f"{source.paths[0]}: {zeros.sentence(reader)}")
    made_by = agreed_tokenizer(sources, tokenizer, request.source.allow_loss)
    return Inputs(files.files, before, stated, tuple(sources), tuple(read), tokenizer, made_by)


def _opened(
    request: Request, tokenizer: TokenizerHandle | None, named: Sequence[SourceFiles], notes: Notes
) -> Sequence[Source]:
    try:
        most = None if query_of(request.select) is not None else needed(request.select, 0) if request.select else None
        reading = Reading(tokenizer, request.jobs, notes, True, most, keeps_files=True)
        return open_datasets(request.source, reading, named)
    except SeparatorUnknownError as error:
        if error.remedy != NAME_SEPARATOR:  # A recipe names its keys.
            raise
        raise SeparatorUnknownError(error.path, error.why, name_separator(tokenizer)) from error
    except TokenizerMismatchError as error:
        error.add_note(encode_again())
        raise


def name_separator(tokenizer: TokenizerHandle | None, option: str = "--eos") -> str:
    """Return the remedy for a separator that is not known: the option that names it."""
    if tokenizer is None:
        return NAME_SEPARATOR
    if not tokenizer.ends:
        return "Give its token ID with --eos ID"
    tokens = " or ".join(f"{printable(name)} = {token}: {option} {token}" for name, token in tokenizer.ends[:3])
    return f"The tokenizer has {tokens}"


def encode_again(source: str = "SRC", destination: str = "DST", tokenizer: str = "NEW") -> str:
    """Return the sentence with the command that encodes the token IDs of another tokenizer again."""
    return (
        f"To encode them again, name the tokenizer that made them for OLD: tokfmt convert {source} {destination} "
        f"--from-tokenizer OLD --tokenizer {tokenizer}"
    )


def text_recipe_of(source: Source) -> TextRecipe | None:
    """Return the recipe of text that a source is, whose samples do not exist yet; None for any other source."""
    if not source.format.is_computed:
        return None
    from tokfmt.mix import TextRecipe  # only recipes need what it imports

    return source.reader if isinstance(source.reader, TextRecipe) else None


def _named_tokenizer(sources: Sequence[Source], tokenizer: TokenizerHandle | None) -> TokenizerHandle | None:
    """Return the tokenizer that a recipe of text names, else the one that was given."""
    for source in sources:
        recipe = text_recipe_of(source)
        if recipe is None or recipe.tokenizer is None:  # a recipe of token IDs needs no tokenizer
            continue
        named = recipe.tokenizer
        if tokenizer is not None and tokenizer.describe()["digest"] != named.describe()["digest"]:
            raise OptionError(f"--tokenizer: {printable(source.paths[0])} names another tokenizer, {named.name}")
        tokenizer = named
    return tokenizer


def _pass_on(sources: Sequence[Source], notes: Notes) -> None:
    """Add the notes on the sources, except those on losses, which the result has."""
    remarks = dict[str, list[tuple[Place, str]]]()
    for source in sources:
        for note in source.notes:
            if note.removeprefix("left out: ") not in source.left_out and note not in source.accepted:
                separator = source.separator
                same = separator.doubt or str(separator.eos_id) if note in separator.guess else note
                remarks.setdefault(same, []).append((source.paths[0], note))
    for (path, note), *others in list(remarks.values())[:_NOTES]:
        own = path.name if note.startswith((f"{path.name}: ", f"{path.name} ")) else ""
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        also = f". The same: {', '.join(other.name for other, _ in others[:_NAMED])}{more}" if others else ""
        notes.add((f"{path}{note.removeprefix(own)}" if own else f"{path}: {note}") + also)
    if len(remarks) > _NOTES:
        notes.add(f"{len(remarks) - _NOTES:,} more notes of this kind on the other sources")


_PIECE = 1 << 20


@contextmanager
def printed(request: Request) -> Iterator[Request]:
    """Yield the request that writes to scratch if the destination is standard output, and copy the result there."""
    if request.destination != LocalPlace(STREAM):
        yield request
        return
    format_ = registry.get(request.to or "jsonl")
    with Scratch() as home:
        place = LocalPlace(home / "piped")
        with renamed({str(place): STREAM}):
            yield replace(request, destination=place, to=format_.name, manifest=False, overwrite=False)
            if not request.dry_run:
                print_files(format_.files(place))


@contextmanager
def unpiped(request: Request, pipes: Sequence[int], progress: Progress) -> Iterator[Request]:
    """Copy pipes among the sources to scratch, and yield the request that reads these copies."""
    if not pipes:
        yield request
        return
    paths, names = list(request.source.paths), dict[str, str]()
    with ExitStack() as stack:
        for number in pipes:
            copy, name = stack.enter_context(Scratch()) / "piped.jsonl", str(paths[number])
            names[str(copy)] = name
            progress.note(f"{printable(name)} is copied to {printable(copy.parent)} before it is read")
            _copy(name, copy)
            paths[number] = copy
        with renamed(names):
            for place in names:
                _need_lines(Path(place), names[place])
            yield replace(request, source=replace(request.source, paths=tuple(paths)), piped=names)


def _copy(path: str | os.PathLike[str], copy: Path) -> None:
    if os.fspath(path) == STREAM and (sys.stdin is None or sys.stdin.isatty()):
        state = "closed" if sys.stdin is None else "a terminal"
        raise OptionError(f"-: standard input is {state}. Pipe something into it, or name a file")
    try:
        fd = os.dup(sys.stdin.fileno()) if os.fspath(path) == STREAM else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise reading_error(path, error) from error
    with writing(copy), open(fd, "rb") as source, open(copy, "xb") as target:
        shutil.copyfileobj(source, target, _PIECE)


def _need_lines(copy: Path, name: str) -> None:
    try:
        format_name = registry.detect(copy).name if copy.stat().st_size else "jsonl"
    except DetectionError:
        return  # opening raises the same error with its remedy
    if format_name != "jsonl":
        raise OptionError(f"{printable(name)}: is {format_name}, and only jsonl is read from a pipe. Save it to a file")


@contextmanager
def renamed(names: Mapping[str, str]) -> Iterator[None]:
    """Replace paths in scratch by the names that the user gave, in errors that the block raises."""
    try:
        yield
    except TokfmtError as error:
        for real, shown in names.items():
            replace_paths(error, real, shown)
        raise


def print_files(files: Sequence[Place]) -> None:
    """Copy files to standard output, in order."""
    sys.stdout.flush()
    try:
        for path in files:
            with open(local_path(path, "a copy to print"), "rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer, _PIECE)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise write_error(Path(STREAM), error) from error
