"""Driving the browser without a terminal, and datasets to look at."""

import asyncio
import threading

import numpy as np
from paths import FIXTURES
from textual import _wait
from textual._compositor import Compositor
from textual.binding import Binding
from textual.css.stylesheet import Stylesheet
from textual.events import MouseDown, MouseUp

import tokfmt
from tokfmt.base.options import given_options
from tokfmt.browser import app as apps
from tokfmt.browser import keys
from tokfmt.browser.app import Browser
from tokfmt.browser.data.catalog import Catalog
from tokfmt.browser.data.layout import Kind, Mode, TokenStyle, glyphs, lines_of
from tokfmt.browser.data.opening import Opening
from tokfmt.browser.data.outline import Row
from tokfmt.browser.data.rows import WINDOW, Characters, Piece, View, Viewport, fetched, fetched_span
from tokfmt.browser.data.session import (
    Choice,
    Session,
    load,
    open_session,
    other_split,
    refused_session,
    reopened,
    shown_session,
)
from tokfmt.browser.data.spots import ByteSpot, Spot
from tokfmt.browser.data.state import recall, remember
from tokfmt.browser.datasets import CatalogList
from tokfmt.browser.dialogs import Commands
from tokfmt.browser.tabs.sequences import SequencesTab
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import Info, Layout, TokenReader
from tokfmt.errors import CorruptError, TokfmtError
from tokfmt.files.place import place_of
from tokfmt.source.request import SourceRequest
from tokfmt.source.stored import Separator

__all__ = [
    "BLOCKS",
    "EVERY",
    "HDF5",
    "PACK",
    "STORE",
    "WINDOW",
    "Browser",
    "ByteSpot",
    "Characters",
    "Choice",
    "Fake",
    "Kind",
    "Layout",
    "MemoryReader",
    "Mode",
    "Piece",
    "Ragged",
    "Row",
    "SourceRequest",
    "Spot",
    "TokenStyle",
    "Viewport",
    "browse",
    "browse_folder",
    "browser_of",
    "catalog_rows",
    "commands",
    "every_key",
    "fetched",
    "fetched_span",
    "glyphs",
    "has_ended",
    "late_session",
    "line",
    "lines_of",
    "load",
    "notes",
    "open_session",
    "opened",
    "other_split",
    "reader_text",
    "recall",
    "remember",
    "reopened",
    "session_of",
    "settled",
    "tab_of",
]
"""What tests of the browser drive, and look at."""

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
BLOCKS = FIXTURES / "stage1" / "blocks"
STORE = FIXTURES / "flat-tokens" / "multi_chunk.zarr"
HDF5 = FIXTURES / "hdf5" / "padded_eos"
EVERY = [PACK, BLOCKS, STORE, HDF5]


parse, parsed = Stylesheet._parse_rules, {}


def parse_once(sheet, css, *place, **how):
    """Parse each style sheet once: Textual parses them for each app, in a sixth of the time that one starts in."""
    key = css, place, *sorted(how.items()), *sorted(sheet._variables.items())
    if key not in parsed:
        parsed[key] = parse(sheet, css, *place, **how)
    return parsed[key]


draw = Compositor.render_update


def draw_all(compositor, full=False, **how):
    """Draw a screen when all of it is asked for, and not after each change: that takes a third of the time."""
    return draw(compositor, full, **how) if full else None


Stylesheet._parse_rules = parse_once
Compositor.render_update = draw_all
_wait.SLEEP_GRANULARITY, _wait.SLEEP_IDLE = 1 / 250, 1 / 5000
"""Textual takes an app for idle that has used no processor for 20 ms, several times for each key; here, for 4 ms."""


async def settled(app, pilot):
    """Wait until nothing is loading, and draw the screen once."""
    await apps.settled(app, pilot)
    app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)


def browse(paths, steps, *, size=(120, 36), tokenizer=None, session=None, at=None, options=()):
    """Run the app; `steps` is called with it and a function that presses keys and waits until all is loaded."""
    requests = [SourceRequest((str(path),), options=given_options(options)) for path in paths]
    app = Browser(session or open_session(requests[0], tokenizer), requests[1:], tokenizer, at=at)

    _run(app, steps, size)


def browse_folder(folder, steps, size=(120, 36), *, wait=True):
    """Run the app on a folder of datasets as `browse` does; without `wait`, before its catalog is complete."""
    request, place = SourceRequest((folder,)), place_of(folder)
    session = refused_session(request, TokfmtError("no dataset is open"))
    _run(Browser(session, catalog=Catalog(request, place)), steps, size, wait=wait)


def _run(app, steps, size, *, wait=True):
    async def main():
        async with app.run_test(size=size) as pilot:
            if wait:
                await settled(app, pilot)

            async def press(*keys):
                for key in keys:
                    await pilot.press(key)
                await settled(app, pilot)

            press.pilot = pilot  # type: ignore[attr-defined]
            await steps(app, press)

    asyncio.run(main())


def catalog_rows(app):
    """The words of each line of a catalog on the screen."""
    shown = app.screen.query_one(CatalogList)
    return [line(shown, y).split() for y in range(1, min(shown.count, shown.size.height - 1) + 1)]


def line(widget, y):
    """The text of a line that a widget draws."""
    return widget.render_line(y).text


def commands(app):
    """The names of the commands in the palette."""
    return [name for name, _, _ in Commands(app.screen).offered()]


def tab_of(app):
    return app.query_one(SequencesTab)


def reader_text(app):
    reader = tab_of(app).reader
    return "\n".join("".join(run.text for run in line.runs) for line in reader.lines)


def opened(path):
    """The session of a dataset, as the browser opens it."""
    return open_session(SourceRequest((str(path),)))


class Late(Opening):
    """A dataset whose documents are found after the gate opens."""

    gate = threading.Event()

    def grown(self, *words, **more):
        assert self.gate.wait(60)
        return super().grown(*words, **more)


def late_session(path):
    """The session of a dataset of more than 4 MiB, whose documents are found once `opened.gate` is set."""
    session = opened(path)
    session.opened = Late(*session.opened)
    session.opened.gate = threading.Event()
    return session


def browser_of(paths):
    """The browser of some datasets, also of one that cannot be read."""
    requests = [SourceRequest((str(path),)) for path in paths]
    return Browser(shown_session(requests[0]), requests[1:])


def every_key():
    """All keys of the tables of keys."""
    tables = [table for table in vars(keys).values() if isinstance(table, list)]
    return {binding.key for table in tables for binding in Binding.make_bindings(table)}


def has_ended(app):
    """Whether the browser ends, which an error of its own must not do."""
    assert app._exception is None
    return app._exit


def notes(app):
    """What the browser has said, and says still."""
    return list(app._notifications)


class Fake(TokenReader):
    """10^12 documents of 100 tokens; those in `broken` cannot be read."""

    def __init__(self, broken=()):
        self.info = Info(Layout.DOCUMENTS, np.dtype(np.uint32), 10**12, 10**14)
        self.broken = broken

    def tokens(self, start, stop):
        assert stop - start <= 1 << 16
        if any(start <= row * 100 < stop for row in self.broken):
            raise CorruptError("a.bin", "the chunk is damaged", offset=start)
        return (np.arange(start, stop) % 50_000).astype(np.uint32)

    def offsets(self, first, last):
        return np.arange(first, last + 1, dtype=np.int64) * 100

    def close(self):
        pass


def session_of(reader):
    view = View("documents", Viewport(reader))
    return Session(
        SourceRequest(("fake",)), Opening(SourceRequest(("fake",)), None, (view,), Separator(None)), "documents"
    )


DOCUMENTS = [[7, 8, 9], [5], [7, 8, 9], [], [1, 2, 3, 4], [5], [7, 8, 9], [4, 4], [1, 2, 3, 4], [9, 8, 7]]
"""Those of the fixture `repeated`."""


def listed(app):
    """The rows that the tab of sequences lists."""
    assert app.entry.name == "sequences"
    rows = tab_of(app).list
    return [rows.row_of(k) for k in range(rows.count)]


async def to(app, press, name):
    """Go to the statistics, and to a list of it."""
    await press("2")
    app.tab.query_one(f"#{name}").focus()
    await press()


async def to_finding(app, press, finding):
    """Press Enter on a finding in the tab of the file."""
    parts = app.tab.parts
    parts.choose(parts.outline.line(parts.outline.row_of(finding)))
    await press()
    await press("enter")


async def clicks(app, press, x, y, times=1):
    """Click in the way of a terminal: the app counts the clicks, which all happen within a moment."""
    kinds = [MouseDown, MouseUp] * times
    for event in [kind(None, x, y, 0, 0, 1, shift=False, meta=False, ctrl=False) for kind in kinds]:
        app.post_message(event)
        await press.pilot.pause()
    await press()


def split_of(path, split):
    return tokfmt.open(path, options=[f"split={split}"]).reader


def first_ids(reader, row, count=3):
    start, stop = reader.offsets(row, row + 1).tolist()
    return [str(token) for token in reader.tokens(start, min(stop, start + count)).tolist()]
