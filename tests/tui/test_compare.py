"""Two datasets side by side, driven without a terminal."""

import asyncio
import json

import pytest
from amount import FUZZ_ONLY
from browsing import Browser, SourceRequest, notes, open_session, opened, settled
from paths import CORPUS, FIXTURES, TOKENIZER

from tokfmt import convert
from tokfmt.browser.tabs.compare import CompareTab

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
    return str(tab.query_one(name).render())


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


@FUZZ_ONLY
@pytest.mark.parametrize("pair", ["a.pbin b.pbin", "a.jsonl b.jsonl"])
def test_from_one_difference_to_the_next(texts, pair):
    a, b = pair.split()

    async def steps(tab, press):
        assert "2 changed, 1 only in A, 1 only in B" in line(tab, "#verdict")
        assert "37 alike" in line(tab, "#verdict")
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


@FUZZ_ONLY
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


@FUZZ_ONLY
@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_every_format_is_identical_to_itself(path):
    async def steps(tab, press):
        assert line(tab, "#verdict").startswith("✓ identical")
        assert shown(tab.sides[0]) == shown(tab.sides[1]) != ""
        await press("n")
        assert tab.step == 0
        assert any("no more" in str(one.message) for one in notes(tab.app))

    compare(path, path, steps)


@FUZZ_ONLY
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


@FUZZ_ONLY
def test_text_and_ids_without_a_tokenizer(texts):
    async def steps(tab, press):
        assert "--tokenizer" in line(tab, "#verdict")
        await press("n", "down", "right_curly_bracket")
        assert "--tokenizer" in line(tab, "#pairline")

    compare(texts / "a.jsonl", PACK, steps)


@FUZZ_ONLY
def test_text_is_tokenised_as_the_manifest_of_the_other_side_says(texts):
    async def steps(tab, press):
        assert line(tab, "#verdict").startswith("✓ identical")
        assert [one.port.unit for one in tab.sessions] == ["token", "token"]
        await press("down")
        assert shown(tab.sides[0]) == shown(tab.sides[1])
        assert "alike" in line(tab, "#pairline")

    compare(texts / "a.jsonl", texts / "a.pbin", steps)


@FUZZ_ONLY
def test_one_dataset_has_no_comparison():
    app = Browser(opened(str(PACK)))

    async def main():
        async with app.run_test() as pilot:
            await settled(app, pilot)
            await pilot.press("5")
            assert app.entry.name == "sequences"
            assert any("--diff" in str(one.message) for one in notes(app))

    asyncio.run(main())


def copied_by(tab, monkeypatch):
    """The copies from now on: each with its words for the toast."""
    copies = []
    monkeypatch.setattr(tab.app, "copy", lambda text, description="": copies.append((text, description)))
    return copies


@FUZZ_ONLY
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
        assert "lacks this row" in str(list(notes(tab.app))[-1].message)
        await press("c")
        assert copies.pop()[0] == a[12]
        await press("g", *"30", "enter", "D")
        assert "alike" in str(list(notes(tab.app))[-1].message)
        assert not copies

    compare(texts / "a.pbin", texts / "b.pbin", steps, tokenizer=str(TOKENIZER))
