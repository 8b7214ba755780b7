"""Everything that a key does, done with a mouse: lists of dialogs, ranges, the wheel beside the panes, words that lead on."""

import pytest
from amount import FUZZ_ONLY
from browsing import PACK, browse, tab_of
from paths import CORPUS
from textual.events import MouseDown, MouseScrollDown, MouseUp


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


async def clicks(app, press, x, y, times=1):
    """Click in the way of a terminal: the app counts the clicks, which all happen within a moment."""
    kinds = [MouseDown, MouseUp] * times
    for event in [kind(None, x, y, 0, 0, 1, shift=False, meta=False, ctrl=False) for kind in kinds]:
        app.post_message(event)
        await press.pilot.pause()
    await press()


@FUZZ_ONLY
def test_a_double_click_on_one_screen_still_opens():
    async def steps(app, press):
        tab = tab_of(app)
        await clicks(app, press, tab.list.content_region.x + 4, tab.list.content_region.y + 4, times=2)
        assert tab.where[0] == 3
        assert tab.reader.has_focus

    browse([PACK], steps)


@FUZZ_ONLY
def test_the_wheel_turns_long_lines_aside():
    async def steps(app, press):
        tab = tab_of(app)
        await press("g", *"11", "enter")
        tab_of(app).action_toggle_reader("wrap")
        await press()
        reader = tab.reader
        assert max(sum(run.cells for run in one.runs) for one in reader.lines) > reader.columns + 12
        for shift in (True, True, False):
            reader.post_message(MouseScrollDown(reader, 0, 0, 0, 0, 0, shift, False, False))
            await press()
        assert reader.left == 12
        assert tab.where == (11, 0)
        await press("enter", "right")
        assert (tab.where, reader.left) == ((11, 1), 0)  # the cursor is in sight

    browse([CORPUS], steps, size=(80, 24))
