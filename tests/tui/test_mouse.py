"""The mouse on what is between and beside the panes, and calling off what takes long."""

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsing import PACK, Info, Layout, browse, line, session_of, tab_of
from browsing import Fake as Trillion
from textual.events import MouseScrollDown
from textual.scrollbar import ScrollBar


def test_a_click_chooses_the_row_that_is_clicked():
    async def steps(app, press):
        tab = tab_of(app)
        y = next(y for y in range(tab.list.size.height) if tab.list.render_line(y).text.split()[:1] == ["3"])
        assert await press.pilot.click(tab.list, offset=(10, y + tab.list.gutter.top))
        await press()
        assert (tab.list.row, tab.where[0]) == (3, 3)
        await press.pilot.click(tab.list, offset=(10, tab.list.gutter.top))  # the name of a column, which sorts
        await press()
        assert tab.list.order is not None
        assert tab.list.row == tab.list.row_of(0) == tab.where[0]

    browse([PACK], steps)


def thumb(track):
    """The middle of the thumb of a scrollbar, in its own cells."""
    share = track.window_size / track.window_virtual_size
    room = track.window_virtual_size - track.window_size
    return min(track.size.height - 1, int(track.size.height * (track.position / room * (1 - share) + share / 2)))


@pytest.mark.parametrize("pane", ["#list", "#reader"])
def test_the_scrollbar_is_dragged(pane):
    def top(app):
        tab = tab_of(app)
        return tab.list.top if pane == "#list" else tab.reader.lines[0].first

    async def still(app, press):
        """Wait until the drag has moved what it moves."""
        await press()
        before = None
        while before != (before := top(app)):
            await press.pilot.pause(0.1)

    async def steps(app, press):
        if pane == "#reader":
            await press("g", "1", "1", "enter")  # the longest
        pilot, where = press.pilot, tab_of(app).where
        pane_ = app.query_one(pane)
        track = pane_.vertical_scrollbar if pane == "#list" else pane_.query_one(ScrollBar)
        first, at = line(app.query_one(pane), 1), thumb(track)
        assert await pilot.mouse_down(track, offset=(0, at))
        await pilot.hover(track, offset=(0, track.size.height - 1))
        await still(app, press)
        last = top(app)
        assert last > 0
        assert track.display
        assert line(app.query_one(pane), 1) != first
        await pilot.hover(track, offset=(0, track.size.height // 2))
        await still(app, press)
        assert 0 < top(app) < last
        await pilot.hover(track, offset=(0, 0))
        await pilot.mouse_up(track, offset=(0, 0))
        await still(app, press)
        assert top(app) == 0
        assert tab_of(app).where == where  # looking about moves no cursor

    browse([PACK], steps, size=(80, 20))


def test_the_scrollbar_pages_beside_its_thumb():
    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot
        track = tab.list.vertical_scrollbar
        height = tab.list.size.height
        await pilot.click(track, offset=(0, track.size.height - 1))
        await press()
        assert height - 4 <= tab.where[0] < height
        await pilot.click(track, offset=(0, track.size.height - 1))
        await press()
        below = tab.where[0]
        await pilot.click(track, offset=(0, 0))
        await press()
        assert tab.where[0] < below

    browse([PACK], steps, size=(80, 20))


def test_the_wheel_scrolls_what_it_is_over():
    async def steps(app, press):
        tab = tab_of(app)
        for _ in range(2):
            tab.list.post_message(MouseScrollDown(tab.list, 5, 5, 0, 0, 0, shift=False, meta=False, ctrl=False))
        await press()
        assert tab.list.top == 6
        assert tab.where == (0, 0)

    browse([PACK], steps, size=(80, 20))


@FUZZ_ONLY
def test_the_divider_is_dragged():
    async def steps(app, press):
        pilot, tab, divider = press.pilot, tab_of(app), app.query_one("Divider")
        before = tab.list.size.width
        assert await pilot.mouse_down("Divider", offset=(0, 5))
        assert divider.has_class("held")
        await pilot.hover(offset=(84, 6))
        await press()
        assert abs(divider.region.x - 84) <= 2
        assert tab.list.size.width > before
        await pilot.hover(offset=(2, 6))  # not narrower than it can be used
        await press()
        assert 20 <= tab.list.size.width < before
        narrow = tab.list.size.width
        await pilot.mouse_up(offset=(2, 6))
        assert not divider.has_class("held")
        await pilot.hover(offset=(70, 6))  # nobody holds it
        await press()
        assert tab.list.size.width == narrow

    browse([PACK], steps)


@FUZZ_ONLY
def test_the_scrollbar_of_a_trillion_rows():
    async def steps(app, press):
        track, pilot = tab_of(app).list.vertical_scrollbar, press.pilot
        assert await pilot.mouse_down(track, offset=(0, 0))
        await pilot.hover(track, offset=(0, track.size.height // 2))
        await press()
        await pilot.mouse_up(track, offset=(0, track.size.height // 2))
        assert 4 * 10**11 < tab_of(app).list.top < 6 * 10**11

    browse([], steps, session=session_of(Trillion()))


class Most(Trillion):
    """2^53 documents."""

    def __init__(self):
        super().__init__()
        self.info = Info(Layout.DOCUMENTS, np.dtype(np.uint32), 1 << 53, 100 << 53)


@FUZZ_ONLY
def test_no_row_is_skipped_among_as_many_as_there_may_be():
    async def steps(app, press):
        listed, last = tab_of(app).list, (1 << 53) - 1

        def shown():
            return [int(line(listed, y).split()[0].replace(",", "")) for y in range(1, listed.size.height)]

        await press("end")
        assert listed.row == last
        assert shown() == list(range(last - listed.height + 1, last + 1))
        for count in range(1, listed.height + 3):
            await press("up")
            assert listed.row == last - count
        assert shown() == list(range(listed.row, listed.row + listed.height))
        await press("pageup", "g", *str(last - 5), "enter")
        assert tab_of(app).where == (last - 5, 0)
        assert last - 5 in shown()

    browse([], steps, session=session_of(Most()), size=(120, 16))
