"""Pictures of the screen: a state drawn without a terminal (press keys, wait until all is loaded), and saving one."""

from __future__ import annotations

import asyncio
import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tokfmt.core.errors import OptionError
from tokfmt.core.publish import publish_text
from tokfmt.core.text_format import printable

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tokfmt.tui.app import Browser


_PATIENCE = 30.0


def screenshot(app: Browser, keys: Sequence[str], size: tuple[int, int]) -> str:
    """The SVG of the app after some keys.

    Args:
        app: Not yet running.
        keys: Names as Textual has them: "down", "g", "1", "enter".
        size: Columns and lines.
    """
    return asyncio.run(_drawn(app, keys, size))


def unknown_key(name: str) -> bool:
    """Whether no key has this name."""
    from textual.keys import KEY_NAME_REPLACEMENTS, Keys

    *modifiers, key = name.split("+") if len(name) > 1 else [name]
    known = {one.value for one in Keys} | {"space", "tab", *KEY_NAME_REPLACEMENTS.values()}
    if not {"ctrl", "shift", "alt"}.issuperset(modifiers):
        return True
    return len(key) != 1 and key not in known and not _is_character(key)


def _is_character(name: str) -> bool:
    try:
        return bool(unicodedata.lookup(name.replace("_", " ").upper()))
    except KeyError:
        return "_" in name and _is_character(name.replace("_", "-", 1))


async def _drawn(app: Browser, keys: Sequence[str], size: tuple[int, int]) -> str:
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        for key in keys:
            await pilot.press(key)
            await settled(app, pilot)
        return app.picture()


async def settled(app: Browser, pilot: Pilot[None]) -> None:
    """Wait until nothing is being loaded and everything is drawn."""
    loop = asyncio.get_running_loop()
    until, quiet = loop.time() + _PATIENCE, 0
    while quiet < 2 and loop.time() < until:
        await pilot.pause()
        quiet = quiet + 1 if app.idle else 0
        if not quiet:
            await asyncio.sleep(0.005)


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
    publish_text(place, drawing)
    return place


def _place(path: str) -> Path:
    return Path(os.path.expanduser(path.strip()))
