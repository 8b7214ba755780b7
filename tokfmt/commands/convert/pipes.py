"""Read standard input and FIFOs, and write standard output, through private scratch in $TMPDIR."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from tokfmt import registry
from tokfmt.commands.convert.request import Request
from tokfmt.commands.source.request import STREAM
from tokfmt.errors import DetectionError, OptionError, TokfmtError, replace_paths
from tokfmt.files.file import reading_error, write_error, writing
from tokfmt.files.locks import Scratch
from tokfmt.files.place import LocalPlace, Place, local_path
from tokfmt.run.progress import Progress
from tokfmt.wording import printable

_PIECE = 1 << 20


@contextmanager
def printed(request: Request) -> Iterator[Request]:
    """Yield the request that writes to scratch if the destination is standard output, and copy the result there.

    Raises:
        BrokenPipeError: The reader of standard output has closed it.
    """
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
    """Copy pipes among the sources to scratch, and yield the request that reads these copies.

    Args:
        request: The request.
        pipes: The numbers of the sources that are pipes.
        progress: Receives notes.

    Raises:
        OptionError: Standard input is a terminal, or a pipe does not bring JSON Lines.
    """
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
        what = "closed" if sys.stdin is None else "a terminal"
        raise OptionError(f"-: standard input is {what}. Pipe something into it, or name a file")
    try:
        fd = os.dup(sys.stdin.fileno()) if os.fspath(path) == STREAM else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise reading_error(path, error) from error
    with writing(copy), open(fd, "rb") as source, open(copy, "xb") as target:
        shutil.copyfileobj(source, target, _PIECE)


def _need_lines(copy: Path, name: str) -> None:
    try:
        found = registry.detect(copy).name if copy.stat().st_size else "jsonl"
    except DetectionError:
        return  # opening raises the same error with its remedy
    if found != "jsonl":
        raise OptionError(f"{printable(name)}: is {found}, and only jsonl is read from a pipe. Save it to a file")


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
    """Copy files to standard output, in order.

    Raises:
        BrokenPipeError: The reader of standard output has closed it.
        OutageError: Standard output cannot be written.
    """
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
