"""Two datasets side by side, driven without a terminal."""

import asyncio
import json
import shutil

import numpy as np
import pytest
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt import convert
from tokfmt.browser.app import Browser, settled
from tokfmt.browser.rows import Viewport
from tokfmt.browser.session import Opened, Session, View, open_session
from tokfmt.browser.tabs.compare import CompareTab
from tokfmt.browser.widgets.frame import Summary
from tokfmt.core.reader import Info, Layout
from tokfmt.plugin import TokenReader
from tokfmt.source.request import SourceRequest
from tokfmt.source.stored import Separator

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
BLOCKS = FIXTURES / "stage1" / "blocks"
STORE = FIXTURES / "flat-tokens" / "multi_chunk.zarr"
HDF5 = FIXTURES / "hdf5" / "padded_eos"
EVERY = [PACK, BLOCKS, STORE, HDF5, CORPUS]


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def compare(a, b, steps, *, tokenizer=None, size=(120, 36)):
    """Run the app on two datasets; `steps` gets the tab and a function that presses keys and waits."""
    requests = [SourceRequest((str(path),)) for path in (a, b)]
    first, second = (open_session(request, tokenizer) for request in requests)
    app = Browser(first, requests[1:], tokenizer, compared=second)

    async def main():
        async with app.run_test(size=size) as pilot:
            await settled(app, pilot)

            async def press(*keys):
                for key in keys:
                    await pilot.press(key)
                    await settled(app, pilot)

            press.pilot = pilot  # type: ignore[attr-defined]
            await steps(app.query_one(CompareTab), press)

    asyncio.run(main())


def line(tab, name):
    return tab.query_one(name).words


def shown(side):
    return "\n".join("".join(run.text for run in one.runs) for one in side.pane.lines)


def marked(side):
    return {run.token for one in side.pane.lines for run in one.runs if any(run.token in hit for hit in side.pane.hits)}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Text, and the same with a word changed (3), two inserted (3), an end cut (9), one gone (12) and one more (25)."""
    home = tmp_path_factory.mktemp("texts")
    a = [json.loads(one)["text"] for one in CORPUS.read_text().splitlines()][:40]
    b = list(a)
    words = b[3].split(" ")
    b[3] = " ".join([*words[:5], "ELEPHANT", *words[6:20], "two", "more", *words[20:]])
    b[9] = b[9][:-5]
    del b[12]
    b.insert(24, "A document that is only here.")
    for name, held in (("a", a), ("b", b)):
        (home / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in held))
        convert([home / f"{name}.jsonl"], home / f"{name}.pbin", tokenizer=str(TOKENIZER))
    return home


PLACES = [(3, 3), (9, 9), (12, None), (None, 24)]


@pytest.mark.parametrize("pair", ["a.pbin b.pbin", "a.jsonl b.jsonl"])
def test_from_one_difference_to_the_next(texts, pair):
    a, b = pair.split()

    async def steps(tab, press):
        assert "2 changed, 1 only in A, 1 only in B" in line(tab, "#verdict")
        assert "37 alike" in line(tab, "#verdict")
        assert " 3, " in line(tab, "#verdict").partition("first: ")[2]
        found = []
        await press("right_curly_bracket")
        for _ in PLACES:
            found.append((tab.pair.a, tab.pair.b))
            await press("right_curly_bracket")
        assert found == PLACES
        assert "only in B" in line(tab, "#pairline")
        assert tab.sides[0].absent
        assert tab.leader is tab.sides[1]
        back = []
        for _ in PLACES[1:]:
            await press("left_curly_bracket")
            back.append((tab.pair.a, tab.pair.b))
        assert back == PLACES[-2::-1]
        await press("right_square_bracket")
        assert (tab.pair.a, tab.pair.b, line(tab, "#pairline").split(" ")[0]) == (4, 4, "alike")
        await press("g", *"30", "enter")
        assert (tab.pair.a, tab.pair.b) == (30, 30)
        await press("g", *"50", "percent_sign", "enter")
        assert tab.pair.a == tab.sessions[0].port.count // 2

    compare(texts / a, texts / b, steps)


def test_differing_tokens_are_marked_on_both_sides_and_the_cursors_keep_step(texts):
    async def steps(tab, press):
        a, b = tab.sides
        await press("n")
        assert a.pane.cursor == b.pane.cursor == min(marked(a)) == min(marked(b))
        assert "ELEPHANT" in shown(b)
        assert "≠" in line(tab, "#pairline")
        assert "differs in 2 places" in line(tab, "#pairline")
        await press("n")  # two words that A lacks
        assert b.pane.cursor in marked(b)
        assert b.pane.cursor > a.pane.cursor
        more = len(marked(b)) - len(marked(a))
        await press("down")
        ids = [side.pane.scroll.roll.peek(0).piece.units[side.pane.cursor] for side in (a, b)]
        assert ids[0] == ids[1]
        assert "=" in line(tab, "#pairline")
        await press("end")
        assert b.pane.cursor - a.pane.cursor == more
        await press("tab", "home")
        assert tab.leader is b
        assert (a.pane.cursor, b.pane.cursor) == (0, 0)
        await press("p")
        assert tab.pair.a == 3

    compare(texts / "a.pbin", texts / "b.pbin", steps, tokenizer=str(TOKENIZER))


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_every_format_is_identical_to_itself(path):
    async def steps(tab, press):
        assert line(tab, "#verdict").startswith("✓ identical")
        assert shown(tab.sides[0]) == shown(tab.sides[1]) != ""
        await press("n")
        assert tab.step == 0
        assert any("no more" in str(one.message) for one in tab.app._notifications)

    compare(path, path, steps)


def test_samples_are_compared_as_they_lie():
    async def steps(tab, press):
        assert "documents" in line(tab, "#verdict")
        await press("v")
        assert line(tab, "#verdict").startswith("✓ identical")
        assert "samples" in line(tab, "#verdict")
        assert "sample 0" in tab.sides[1].border_title
        await press("v")
        assert "document 0" in tab.sides[1].border_title

    compare(BLOCKS, BLOCKS, steps)


def test_text_and_ids_without_a_tokenizer(texts):
    async def steps(tab, press):
        assert "--tokenizer" in line(tab, "#verdict")
        await press("n", "down", "right_curly_bracket")
        assert "--tokenizer" in line(tab, "#pairline")

    compare(texts / "a.jsonl", PACK, steps)


def test_text_is_tokenised_as_the_manifest_of_the_other_side_says(texts):
    async def steps(tab, press):
        assert line(tab, "#verdict").startswith("✓ identical")
        assert [one.port.unit for one in tab.sessions] == ["token", "token"]
        await press("down")
        assert shown(tab.sides[0]) == shown(tab.sides[1])
        assert "alike" in line(tab, "#pairline")

    compare(texts / "a.jsonl", texts / "a.pbin", steps)


def test_sizes_modes_and_the_way_they_stand(texts):
    async def steps(tab, press):
        a, b = tab.sides
        assert tab.has_class("stacked")
        assert a.size.width == b.size.width > 70
        await press("s")
        assert a.region.y == b.region.y
        await press("s")
        await press.pilot.resize_terminal(160, 48)
        await press("s", "n", "m", "w")
        assert not tab.has_class("stacked")
        assert a.pane.mode is b.pane.mode
        assert a.pane.whitespace
        assert shown(a).split()[0].isdigit()
        await press("1")
        assert tab.app.entry.name == "sequences"
        await press("d", "down", "enter", "5")
        assert tab.pair.a == 3

    compare(texts / "a.pbin", texts / "b.pbin", steps, size=(80, 24))


def test_one_dataset_has_no_comparison():
    app = Browser(open_session(SourceRequest((str(PACK),))))

    async def main():
        async with app.run_test() as pilot:
            await settled(app, pilot)
            await pilot.press("5")
            assert app.entry.name == "sequences"
            assert any("--diff" in str(one.message) for one in app._notifications)

    asyncio.run(main())


class Long(TokenReader):
    """`count` documents of 100 tokens, alike but for number `other`; waits at `gate` before it reads on."""

    def __init__(self, count, other=None, gate=None):
        self.info = Info(Layout.DOCUMENTS, np.dtype(np.uint32), count, count * 100)
        self.other, self.gate = other, gate

    def tokens(self, start, stop):
        if self.gate is not None and stop > 1_000_000:
            self.gate.wait(60)
        found = (np.arange(start, stop) % 50_000).astype(np.uint32)
        if self.other is not None and start <= self.other * 100 + 7 < stop:
            found[self.other * 100 + 7 - start] = 1
        return found

    def offsets(self, first, last):
        return np.arange(first, last + 1, dtype=np.int64) * 100

    def close(self):
        pass


def test_the_search_goes_on_while_one_looks_and_can_be_stopped(monkeypatch):
    """A difference far away is waited for, the wait is called off, and begun again."""
    import threading

    from tokfmt.commands.compare.diff import OpenedPair
    from tokfmt.commands.compare.fingerprint import AxisSide

    gate = threading.Event()
    readers = Long(50_000, gate=gate), Long(50_000, other=40_000)
    sources = [type("S", (), {"reader": reader})() for reader in readers]
    both = OpenedPair(*sources, *map(AxisSide, readers), None, "tokens", 1)  # type: ignore[call-arg]
    monkeypatch.setattr("tokfmt.browser.pairing._opening", lambda sessions: lambda progress, jobs: both)
    monkeypatch.setattr("tokfmt.browser.app.summary", lambda *_: (Summary("fake"), ""))
    monkeypatch.setattr("tokfmt.browser.tabs.compare.printable", lambda _: "fake")

    def session(name, reader):
        view = View("documents", Viewport(reader))
        format_ = type("F", (), {"name": "fake"})()
        return Session(SourceRequest((name,)), Opened(format_, (view,), Separator(None)), "documents")

    first, second = session("a", readers[0]), session("b", readers[1])
    app = Browser(first, [second.request], compared=second)

    async def main():
        async with app.run_test(size=(120, 36)) as pilot:
            tab = app.query_one(CompareTab)
            for _ in range(6000):
                await pilot.pause(0.01)
                if "identical so far" in line(tab, "#verdict"):
                    break
            assert "identical so far" in line(tab, "#verdict")
            await pilot.press("n")
            assert "searching for the next difference" in line(tab, "#verdict")
            await pilot.press("escape")
            assert "looking" not in line(tab, "#verdict")
            assert tab.comparison.walking
            await pilot.press("escape")
            assert tab.comparison.state == "stopped"
            assert "stopped at" in line(tab, "#verdict")
            gate.set()
            await pilot.press("n")
            await settled(app, pilot)
            assert tab.pair.a == tab.pair.b == 40_000
            assert tab.sides[0].pane.cursor == 7
            assert "first: document 40,000, token 7: 7 ≠ 1" in line(tab, "#verdict")

    asyncio.run(main())


# copies


def copied_by(tab, monkeypatch):
    """The copies from now on: each with its words for the toast."""
    copies = []
    monkeypatch.setattr(tab.app, "copy", lambda text, description="": copies.append((text, description)))
    return copies


def test_the_row_of_a_side_and_the_difference_are_copied(texts, monkeypatch):
    a, b = ([json.loads(one)["text"] for one in (texts / f"{name}.jsonl").read_text().splitlines()] for name in "ab")

    async def steps(tab, press):
        copies = copied_by(tab, monkeypatch)
        await press("right_curly_bracket", "c")
        text, words = copies.pop()
        assert text == a[3]
        assert words.startswith("A: ")
        assert "of document 3 as text" in words
        await press("D")
        text, words = copies.pop()
        assert text == f"-  {a[3].split(' ')[5]}\n+  ELEPHANT"  # tokens begin with a blank
        assert words.startswith("difference 1 of ")
        assert words.endswith(" of document 3 of B")
        await press("n", "D")
        assert "two more" in copies.pop()[0].replace("\n+ ", " ")
        await press("tab", "c")
        assert tab.leader.number == 1
        assert copies.pop()[0] == b[3]
        await press("right_curly_bracket", "right_curly_bracket")
        assert tab.sides[1].absent
        await press("D")
        assert "lacks this row" in str(list(tab.app._notifications)[-1].message)
        await press("c")
        assert copies.pop()[0] == a[12]
        await press("g", *"30", "enter", "D")
        assert "alike" in str(list(tab.app._notifications)[-1].message)
        assert not copies

    compare(texts / "a.pbin", texts / "b.pbin", steps, tokenizer=str(TOKENIZER))


def test_ids_are_copied_without_a_tokenizer(texts, tmp_path, monkeypatch):
    for name in "ab":  # without the manifest, which lists the tokenizer
        shutil.copy(texts / f"{name}.pbin", tmp_path)
    a, b = ([row.tolist() for row in tokfmt.open(texts / f"{name}.pbin")] for name in "ab")

    async def steps(tab, press):
        copies = copied_by(tab, monkeypatch)
        await press("right_curly_bracket", "c")
        assert "Copy the IDs with C" in str(list(tab.app._notifications)[-1].message)
        await press("C")
        assert copies.pop()[0] == " ".join(map(str, a[3]))
        await press("D")
        minus, plus = copies.pop()[0].split("\n")
        hunk = tab.marks.hunks[0]
        assert minus == "- " + " ".join(map(str, a[3][hunk.a : hunk.a_stop]))
        assert plus == "+ " + " ".join(map(str, b[3][hunk.b : hunk.b_stop]))

    compare(tmp_path / "a.pbin", tmp_path / "b.pbin", steps)
