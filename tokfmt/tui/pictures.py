"""Pictures of the screen in files: whole or absent, never in place of another."""

from __future__ import annotations

import os
from pathlib import Path

from tokfmt.core.errors import OptionError, printable
from tokfmt.core.publish import Staging, write_error


def free_name(stem: str, suffix: str) -> str:
    """A name in the current directory that is not taken: `stem.svg`, `stem-2.svg` ..."""
    number = 1
    while os.path.lexists(name := f"{stem}{f'-{number}' if number > 1 else ''}{suffix}"):
        number += 1
    return name


def refusal(path: str) -> str:
    """What happens to a path that is typed.

    Raises:
        OptionError: It is taken, or no name.
    """
    place = _place(path)
    if not path.strip() or place.is_dir():
        raise OptionError("name a file")
    if os.path.lexists(place):
        raise OptionError(f"{printable(path.strip())} is there already: choose another name")
    return "enter writes it"


def saved(drawing: str, path: str) -> Path:
    """Write a picture.

    Raises:
        TokfmtError: It cannot be written, or something has that name.
    """
    place = _place(path)
    with Staging(place) as staging:
        try:
            staging.path.write_text(drawing, encoding="utf-8")
        except OSError as error:
            raise write_error(place, error) from error
        staging.publish()
    return place


def _place(path: str) -> Path:
    return Path(os.path.expanduser(path.strip()))
