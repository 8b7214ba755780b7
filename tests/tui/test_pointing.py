"""What is pointed at on the screen: found by its text, clicked at its cells, and read from the screen again."""

import pytest
from browsing import browse
from builder import screens
from rich.cells import cell_len
from textual.events import MouseDown, MouseUp

TOKENIZER = "sample/tokenizer"


@pytest.fixture(autouse=True)
def _own_place(shown, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(shown)


class Pointer:
    """The screen as a person sees it, and a mouse."""

    def __init__(self, app, press, home):
        self.app, self.press, self.picture = app, press, home / "screen.svg"

    def lines(self):
        self.picture.write_text(self.app.export_screenshot())
        return screens.text_of(self.picture)

    def sees(self, text):
        return any(text in line for line in self.lines())

    async def click(self, text, *, cells=0, times=1):
        """Click on the first occurrence of a text, or some cells to the right of its beginning."""
        y, line = next((y, line) for y, line in enumerate(self.lines()) if text in line)
        x, y = cell_len(line.partition(text)[0]) + cells, y - (y > 1)  # the title of a picture is its second line
        for kind in [MouseDown, MouseUp] * times:
            self.app.post_message(kind(None, x, y, 0, 0, 1, shift=False, meta=False, ctrl=False))
            await self.press.pilot.pause()
        await self.press()


def pointing(path, tmp_path, steps, **how):
    async def run(app, press):
        await steps(Pointer(app, press, tmp_path), press)

    browse([path], run, size=(100, 30), **how)


def test_columns_of_a_dialog(tmp_path):
    async def steps(pointer, press):
        assert not pointer.sees("lang")
        await press("vertical_line")
        await pointer.click("· lang")
        assert pointer.sees("✓ lang")
        await pointer.click("✓ lang")
        assert pointer.sees("· lang")
        await pointer.click("· id")
        assert pointer.sees("✓ id")
        await press("escape")
        assert pointer.sees("  id")
        assert not pointer.sees("lang")

    pointing("fields.jsonl", tmp_path, steps)


def test_a_token_of_the_reader(tmp_path):
    async def steps(pointer, press):
        await press("g", "3", "enter")
        await pointer.click("climb", cells=1)
        assert pointer.sees("climb”")
        await pointer.click("tires")
        assert pointer.sees("“ t")
        assert not pointer.sees("climb”")

    pointing("corpus.pbin", tmp_path, steps, tokenizer=TOKENIZER)


def test_rows_and_tabs(tmp_path):
    async def steps(pointer, press):
        await pointer.click("The museum owns")
        assert pointer.sees("document 7 ·")
        await pointer.click("4 Statistics", cells=2)
        assert pointer.sees("mean length")
        await pointer.click("1 Sequences", cells=2)
        assert pointer.sees("document 7 ·")

    pointing("corpus.pbin", tmp_path, steps, tokenizer=TOKENIZER)
