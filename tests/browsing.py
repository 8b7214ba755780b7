"""Driving the browser without a terminal, for tests."""

import asyncio

from tokfmt.ops.sources import SourceRequest
from tokfmt.tui.app import Browser
from tokfmt.tui.screenshot import settled
from tokfmt.tui.session import open_session


def browse(paths, steps, *, size=(120, 36), tokenizer=None, session=None):
    """Run the app; `steps` is called with it and a function that presses keys and waits until all is loaded."""
    requests = [SourceRequest((str(path),)) for path in paths]
    app = Browser(session or open_session(requests[0], tokenizer), requests[1:], tokenizer)

    async def main():
        async with app.run_test(size=size) as pilot:
            await settled(app, pilot)

            async def press(*keys):
                for key in keys:
                    await pilot.press(key)
                await settled(app, pilot)

            press.pilot = pilot
            await steps(app, press)

    asyncio.run(main())


def line(widget, y):
    """The text of a line that a widget draws."""
    return widget.render_line(y).text
