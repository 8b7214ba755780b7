"""The mouse on what is between and beside the panes, and calling off what takes long."""

import threading
from pathlib import Path

import numpy as np
import pytest
from browsing import BLOCKS, PACK, browse, line, session_of, tab_of
from browsing import Fake as Trillion

from tokfmt.browser.data.workers import Job
from tokfmt.browser.export import Export
from tokfmt.browser.widgets.frame import Divider, Summary
from tokfmt.core.reader import Info, Layout


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


# the mouse


def test_the_divider_is_dragged():
    async def steps(app, press):
        pilot, tab, divider = press.pilot, tab_of(app), app.query_one(Divider)
        before = tab.list.size.width
        assert await pilot.mouse_down(Divider, offset=(0, 5))
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


@pytest.mark.usefixtures("_any_format")
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


@pytest.mark.usefixtures("_any_format")
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


@pytest.fixture
def _any_format(monkeypatch):
    monkeypatch.setattr("tokfmt.browser.app.summary", lambda *_: (Summary("fake"), ""))


# calling off


class Held:
    """Holds the first step of every job until it is let go on."""

    def __init__(self, monkeypatch):
        self.begun, self.gate, self.jobs = threading.Event(), threading.Event(), []
        step = Job.advance

        def advance(job, amount):
            if amount and job not in self.jobs:
                self.jobs.append(job)
                self.begun.set()
                assert self.gate.wait(60)
            step(job, amount)

        monkeypatch.setattr(Job, "advance", advance)


async def until(pilot, holds):
    for _ in range(6000):
        if holds():
            return
        await pilot.pause(0.01)
    raise AssertionError


@pytest.fixture
def held(monkeypatch):
    return Held(monkeypatch)


def test_a_scan_for_documents_is_called_off_and_begun_again(held, monkeypatch):
    monkeypatch.setattr("tokfmt.browser.data.opening.SMALL", 0)
    monkeypatch.setattr("tokfmt.browser.data.opening.AT_ONCE", 0)

    async def steps(app, press):
        pilot = press.pilot
        assert (app.session.shown, app.session.opened.pending) == ("samples", "documents")
        await pilot.press("v")
        await until(pilot, held.begun.is_set)
        loading = app.loadings[0]
        assert "esc stops" in str(app.query_one("#loading").render())
        await pilot.press("down", "escape")
        assert loading.job is None
        held.gate.set()
        await until(pilot, lambda: not held.jobs[0].running)
        await press()
        assert tab_of(app).where == (1, 0)
        assert (app.session.shown, app.session.opened.pending, app.session.failure) == ("samples", "documents", "")
        assert "v finds the documents" in str(app.query_one("#loading").render())
        await press("v")
        assert app.session.shown == "documents"

    browse([BLOCKS], steps)


def test_an_export_is_called_off_and_leaves_nothing(held):
    before = sorted(Path.cwd().rglob("*"))

    async def steps(app, press):
        pilot = press.pilot
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, Export))
        what, path = app.screen.query("Input")
        what.value, path.value = "0:40", "out.jsonl"
        await pilot.press("enter")
        await until(pilot, held.begun.is_set)
        assert not app.screen.idle
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, Export))
        held.gate.set()
        await until(pilot, lambda: not held.jobs[0].running)
        await press()
        assert "stopped" in str(list(app._notifications)[-1].message)
        assert [path for path in sorted(Path.cwd().rglob("*")) if path.parent.name != "state"] == before

    browse([PACK], steps)


@pytest.mark.parametrize("key", ["3", "2"])
def test_a_pass_over_everything_is_called_off_and_begun_again(held, key):
    async def steps(app, press):
        pilot = press.pilot
        await pilot.press(key)
        if key == "3":
            await until(pilot, lambda: app.session.verdict is not None)
            await pilot.press("c")
        await until(pilot, held.begun.is_set)
        await pilot.press("escape")
        assert app.tab.job is None
        held.gate.set()
        await until(pilot, lambda: not held.jobs[0].running)
        await press()
        done = app.session.statistics if key == "2" else app.session.verdict.deep
        assert not done
        await press("c")
        assert app.session.statistics if key == "2" else app.session.verdict.deep

    browse([PACK], steps)
