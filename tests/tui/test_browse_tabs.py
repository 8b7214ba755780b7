"""The browser's bytes, problems and overview, over every format."""

import os
import shutil

import pytest
from amount import FUZZ_ONLY
from browsing import browse, line
from paths import CORPUS, FIXTURES, TOKENIZER

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
BLOCKS = FIXTURES / "stage1" / "blocks"


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def shown(widget):
    return [line(widget, y) for y in range(widget.size.height)]


@FUZZ_ONLY
def test_sections_open_and_close():
    async def steps(app, press):
        await press("4", "home")
        parts = app.tab.parts
        before = parts.count
        await press("left")
        assert parts.count == before - 3
        await press("down", "enter")  # the tokens
        assert parts.count == before - 3 + parts.outline.counts[1]
        await press("end")
        assert "sum of lengths" in shown(parts)[-1]
        assert "sum of lengths" in str(app.tab.query_one("#field").render())
        await press("pageup", "up", "home", "enter", "z")
        assert app.tab.hex.has_focus
        assert parts.size.width == 0

    browse([PACK], steps)


def test_a_record_shows_its_line():
    second = CORPUS.read_bytes().split(b"\n")[0] + b"\n"

    async def steps(app, press):
        await press("down", "x")
        assert app.tab.hex.marked.start == len(second)

    browse([CORPUS], steps)


@FUZZ_ONLY
@pytest.mark.parametrize("how", ["another", "grown", "gone"])
def test_nothing_is_told_of_what_was_put_in_its_place(how, tmp_path):
    """The rows on the screen are those that were opened; what reads the files once more says that they are others."""
    path = tmp_path / "x.pbin"
    shutil.copy(PACK, path)

    async def steps(app, press):
        if how == "gone":
            path.unlink()
        elif how == "grown":
            path.write_bytes(path.read_bytes() + b"x")
        else:
            shutil.copy(FIXTURES / "modalities" / "C_2byte_gpt2.pbin", tmp_path / "new")
            os.replace(tmp_path / "new", path)
        await press("3")
        assert "x.pbin: was replaced or changed since it was opened here" in str(app.tab.list.border_title)
        await press("4")
        assert "was replaced or changed" in str(app.tab.parts.border_title)
        await press("2", "c")
        assert "was replaced or changed" in str(app.tab.query_one("#counting").render())
        assert app.session.statistics is None

    browse([path], steps)


@FUZZ_ONLY
def test_another_dataset_has_its_own_findings_and_statistics():
    async def steps(app, press):
        await press("3", "2")
        first = app.session.statistics
        await press("d", "end", "enter")
        assert app.session.statistics.sequences != first.sequences
        assert app.session.verdict.path == str(BLOCKS)
        await press("d", "home", "enter")
        assert app.session.statistics is first
        assert app.tab.found is first

    browse([PACK, BLOCKS], steps)


@FUZZ_ONLY
def test_everything_fits_in_any_size():
    async def steps(app, press):
        for width, height in ((80, 24), (40, 10)):
            await press.pilot.resize_terminal(width, height)
            for key in ("2", "3", "4"):
                await press(key)
                assert all(widget.region.right <= width for widget in app.tab.query("*"))
            await press("1")
            for key in ("question_mark", "g", "slash", "f", "e"):
                await press(key)
                assert len(app.screen_stack) == 2, key
                box = app.screen.query_one(".box")
                assert all(widget.region.right <= box.region.right <= width for widget in box.query("*")), key
                await press("escape")

    browse([PACK], steps, tokenizer=str(TOKENIZER))
