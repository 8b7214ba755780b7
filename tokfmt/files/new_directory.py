"""Write a directory of small files that is complete, or not written."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tokfmt.errors import ConversionError, DestinationExistsError
from tokfmt.wording import printable


def write_new_directory(directory: Path, contents: Mapping[str, bytes]) -> list[Path]:
    """Write files, by their path, to a directory that is empty or does not exist, and return their paths."""
    if os.path.lexists(directory) and not (directory.is_dir() and not any(directory.iterdir())):
        raise DestinationExistsError(directory, "it is not an empty directory", has_overwrite=False)
    try:
        _write(directory, contents)
    except OSError as error:
        raise ConversionError(f"{printable(directory)}: cannot be written: {error.strerror}") from error
    return [directory / path for path in contents]


def _write(directory: Path, contents: Mapping[str, bytes]) -> None:
    directory.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        for path, content in contents.items():
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_bytes(content)
        draft.chmod(0o777 & ~_umask())
        draft.rename(directory)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
