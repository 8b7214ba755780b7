"""What keys and the mouse make of the screen, which is read as a person sees it: what is pointed at is found by its text."""

import json
import re
import shutil

import pytest
from browsing import Fake, browse, session_of
from builder import screens
from paths import FIXTURES
from rich.cells import cell_len
from textual.events import MouseDown, MouseMove, MouseUp

from tokfmt.errors import CorruptError

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

    def place(self, text):
        """Column and line of the first occurrence of a text."""
        y, line = next((y, line) for y, line in enumerate(self.lines()) if text in line)
        return cell_len(line.partition(text)[0]), y - (y > 1)  # the title of a picture is its second line

    async def click(self, text, *, cells=0, times=1):
        """Click on the first occurrence of a text, or some cells to the right of its beginning."""
        x, y = self.place(text)
        for kind in [MouseDown, MouseUp] * times:
            await self.post(kind, x + cells, y)

    async def drag(self, place, *ways):
        """Press the button at a place, and release it at the last one."""
        await self.post(MouseDown, *place)
        for way in ways:
            await self.post(MouseMove, *way)
        await self.post(MouseUp, *ways[-1])

    async def post(self, kind, x, y):
        self.app.post_message(kind(None, x, y, 0, 0, 1, shift=False, meta=False, ctrl=False))
        await self.press.pilot.pause()
        await self.press()


def pointing(path, tmp_path, steps, *more, **how):
    async def run(app, press):
        await steps(Pointer(app, press, tmp_path), press)

    browse([path, *more], run, size=(100, 30), **how)


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
        await pointer.click("2 Overview", cells=2)
        assert pointer.sees("mean length")
        await pointer.click("1 Data", cells=2)
        assert pointer.sees("document 7 ·")

    pointing("corpus.pbin", tmp_path, steps, tokenizer=TOKENIZER)


def test_a_drag_beyond_an_edge_of_the_reader_scrolls_and_marks(tmp_path):
    (tmp_path / "lines.txt").write_text("".join(f"line {k}\n" for k in range(100, 200)))

    async def steps(pointer, press):
        def read():
            return [int(number) for line in pointer.lines() for number in re.findall(r"│line (\d+)", line)]

        before = read()
        assert before[0] == 100
        x, y = pointer.place("│line 101")
        below = y + len(before) + 2
        await pointer.drag((x + 1, y), (x + 1, below), (x + 2, below), (x + 1, below))
        assert read() == [number + 3 for number in before]
        assert pointer.sees(f" · {9 * (read()[-1] - 101) + 1} marked")
        x, y = pointer.place("│line 110")
        await pointer.drag((x + 1, y), (x + 1, 0), (x + 2, 0), (x + 1, 0))
        assert read() == before
        assert pointer.sees(" · 91 marked")

    pointing(tmp_path / "lines.txt", tmp_path, steps)


class BrokenIndex(Fake):
    def offsets(self, first, last):
        if first:
            raise CorruptError("a.bin", "the index is damaged")
        return super().offsets(first, last)


def test_why_a_row_cannot_be_read(tmp_path):
    async def steps(pointer, press):
        await press("g", *"100000", "enter")
        assert pointer.sees("╭─ document 100,000 ──")
        assert pointer.sees("│  ✗ a.bin: the index is damaged")

    pointing("", tmp_path, steps, session=session_of(BrokenIndex()))


def test_findings_of_a_dataset_are_not_listed_for_another_that_changed(tmp_path):
    first, second = (shutil.copy("sample/merged.pbin", tmp_path / f"{name}.pbin") for name in ("first", "second"))

    async def steps(pointer, press):
        await press("d", "down", "enter", "d", "up", "enter", "3")
        assert pointer.sees("✗ TF107 index entry 5")
        second.write_bytes(second.read_bytes() + b"x")
        await press("d", "down", "enter")
        assert not pointer.sees("TF107")

    pointing(first, tmp_path, steps, second)


def test_marks_of_a_split_are_not_those_of_another(tmp_path):
    async def steps(pointer, press):
        await press("V", "enter", "space", "right", "right")
        assert pointer.sees("document 0 · 3 tokens · 3 marked")
        await press("V")
        assert pointer.sees("no documents of train")
        assert not pointer.sees("marked")

    pointing(FIXTURES / "flat-tokens/train_empty.zarr", tmp_path, steps)


@pytest.fixture
def prepared(tmp_path, monkeypatch):
    """A pack beside a file that names the tokenizer `words`, of which the directory of the pack has another one."""
    home = tmp_path / "made"
    for place in (tmp_path / "words", home / "words"):
        shutil.copytree("sample/tokenizer", place)
    found = json.loads((home / "words/tokenizer.json").read_text())
    found["model"]["vocab"] = {
        piece: 4300 - token if 300 <= token <= 4000 else token for piece, token in found["model"]["vocab"].items()
    }
    (home / "words/tokenizer.json").write_text(json.dumps(found))
    (home / "data_params.json").write_text(json.dumps({"setup": {"huggingface_tokenizer": "words"}}))
    shutil.copy("corpus.pbin", home)
    monkeypatch.chdir(tmp_path)
    return home / "corpus.pbin"


def test_a_tokenizer_is_looked_for_here_and_then_beside_the_dataset(prepared, tmp_path):
    async def here(pointer, press):
        assert pointer.sees("The museum owns")
        assert pointer.sees("text · words")

    async def beside(pointer, press):
        assert pointer.sees("text · words")
        assert not pointer.sees("The museum owns eleven")

    pointing(prepared, tmp_path, here)
    shutil.rmtree(tmp_path / "words")
    pointing(prepared, tmp_path, beside)


def test_why_a_tokenizer_cannot_be_loaded(prepared, tmp_path):
    (tmp_path / "words/tokenizer.json").write_text("{")

    async def steps(pointer, press):
        assert pointer.sees("✗ tokenizer words · 3 shows why")
        assert not pointer.sees("text · words")
        await press("2")
        assert pointer.sees("✗ tokenizer words: ")
        await press("3")
        assert pointer.sees("tokenizer words: ")

    pointing(prepared, tmp_path, steps)
