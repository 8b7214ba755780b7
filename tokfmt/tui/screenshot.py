"""A state of the browser as a picture, without a terminal: press keys, wait until all is loaded, draw."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

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


async def _drawn(app: Browser, keys: Sequence[str], size: tuple[int, int]) -> str:
    async with app.run_test(size=size) as pilot:
        await settled(app, pilot)
        for key in keys:
            await pilot.press(key)
            await settled(app, pilot)
        return app.export_screenshot(title=app.TITLE)


async def settled(app: Browser, pilot: Pilot[None]) -> None:
    """Wait until nothing is being loaded and everything is drawn."""
    loop = asyncio.get_running_loop()
    until, quiet = loop.time() + _PATIENCE, 0
    while quiet < 2 and loop.time() < until:
        await pilot.pause()
        quiet = quiet + 1 if app.idle else 0
        if not quiet:
            await asyncio.sleep(0.005)
