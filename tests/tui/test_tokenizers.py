"""Tokenizers chosen and changed in the browser, and two of them side by side."""

import json
from dataclasses import replace

import pytest
from amount import FUZZ_ONLY
from browsing import (
    BLOCKS,
    PACK,
    Choice,
    SourceRequest,
    browse,
    load,
    notes,
    open_session,
    reader_text,
    tab_of,
)
from made_tokenizers import llama3_like
from paths import CORPUS, TOKENIZER, golden
from textual.widgets import Input
from tokenizers import Tokenizer

import tokfmt
from tokfmt.browser.tokenizers import TokenizerPair

TEXTS = [json.loads(line)["text"] for line in CORPUS.read_text().splitlines()]
PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))


def rate(size, tokens):
    return f"{size / tokens:.2f} bytes per token"


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another tokenizer, in a directory."""
    home = tmp_path_factory.mktemp("llama")
    llama3_like().save(str(home / "tokenizer.json"))
    return home


def test_a_recipe_is_shown_with_the_tokenizer_of_its_sources(tmp_path, other):
    lines = ["tokfmt = 1"]
    for name, made in (("a", TOKENIZER), ("b", TOKENIZER), ("c", other)):
        tokfmt.convert(CORPUS, tmp_path / f"{name}.pbin", tokenizer=str(made), select="0:2", to_eos=1)
        lines.append(f'[[source]]\nname = "{name}"\npath = "{name}.pbin"')
        (tmp_path / f"{name}.toml").write_text("\n".join(lines))
    agreed, differing = (SourceRequest((str(tmp_path / f"{name}.toml"),)) for name in "bc")
    assert open_session(agreed).choice == (str(TOKENIZER), "manifests of the sources")
    assert open_session(replace(differing, allow_loss=frozenset({"tokenizers"}))).choice is None


def spans(tokenizer, text):
    """The bytes of each token, by the offsets of the tokenizer."""
    at = [len(text[:k].encode()) for k in range(len(text) + 1)]
    return [(at[a], at[b]) for a, b in tokenizer.encode(text, add_special_tokens=False).offsets]


@FUZZ_ONLY
def test_two_tokenizers_are_shown_side_by_side(other):
    lengths = [len(PLAIN.encode(text, add_special_tokens=False).ids) for text in TEXTS]
    made = Tokenizer.from_file(str(other / "tokenizer.json"))
    others = [len(made.encode(text, add_special_tokens=False).ids) for text in TEXTS]
    sizes = [len(text.encode()) for text in TEXTS]

    async def steps(app, press):
        await press("down", "down", "down", "T")
        app.screen.query_one(Input).value = str(other)
        await press("ctrl+b")
        pair = app.screen
        assert isinstance(pair, TokenizerPair)
        for row, keys in ((3, ()), (4, ("right_square_bracket",)), (3, ("left_square_bracket",))):
            await press(*keys)
            titles = [str(pair.query_one(f"#{name}").border_title) for name in "ab"]
            assert f"{lengths[row]} tokens · {rate(sizes[row], lengths[row])}" in titles[0]
            assert f"{others[row]} tokens · {rate(sizes[row], others[row])}" in titles[1]
        total = str(pair.query_one("#pairline").render())
        assert f"A {rate(sum(sizes), sum(lengths))}" in total
        assert f"B {rate(sum(sizes), sum(others))}" in total
        await press("n")
        a, b = (side.pane for side in pair.sides)
        first = pair.marks.hunks[0].a
        assert a.cursor == first or a.cursor > 0
        assert b.cursor == pair.marks.across(0, a.cursor)
        assert any(a.cursor in hunk.side(0) for hunk in pair.marks.hunks)
        await press("escape")
        assert not isinstance(app.screen, TokenizerPair)
        assert app.session.choice.name == str(TOKENIZER)

    browse([CORPUS], steps, tokenizer=str(TOKENIZER), size=(140, 40))


@FUZZ_ONLY
def test_stored_ids_are_side_a():
    async def steps(app, press):
        await press("T")
        app.screen.query_one(Input).value = str(TOKENIZER)
        await press("ctrl+b")
        pair = app.screen
        ids = tokfmt.open(PACK)[0].tolist()
        assert pair.marks.cuts[0].tokens.tolist() == [one for one in ids if one != 50256]
        text = b"".join(
            one if isinstance(one, bytes) else one.encode() for one in app.session.vocabulary.decoder.pieces(ids)
        )
        assert pair.marks.size == len(text)
        assert pair.marks.cuts[1].tokens.tolist() == PLAIN.encode(text.decode(), add_special_tokens=False).ids

    browse([PACK], steps, tokenizer=str(golden("gpt2")), size=(140, 40))


# the token under the cursor


def overlapping(own, others, k):
    """The tokens of the other side that share a byte with token k."""
    start, stop = own[k]
    return [n for n, (low, high) in enumerate(others) if low < stop and high > start]


@FUZZ_ONLY
def test_the_pair_opens_at_the_token_under_the_cursor(other):
    made = Tokenizer.from_file(str(other / "tokenizer.json"))
    mine, theirs = spans(made, TEXTS[3]), spans(PLAIN, TEXTS[3])
    several = next(k for k in range(20, len(mine)) if len(overlapping(mine, theirs, k)) > 1)

    async def steps(app, press):
        await press("down", "down", "down", "enter", *["right"] * several)
        assert tab_of(app).where == (3, several)
        await press("T")
        app.screen.query_one(Input).value = str(TOKENIZER)
        await press("ctrl+b")
        a, b = (side.pane for side in app.screen.sides)
        assert a.cursor == several
        assert b.cursor == overlapping(mine, theirs, several)[0]
        assert list(b.beside) == overlapping(mine, theirs, several)
        assert list(a.beside) == []
        for _ in range(5):
            await press("right")
            assert b.cursor == overlapping(mine, theirs, a.cursor)[0]
            assert list(b.beside) == overlapping(mine, theirs, a.cursor)
        await press("tab")
        assert b.has_focus
        for _ in range(5):
            await press("right")
            assert list(a.beside) == overlapping(theirs, mine, b.cursor)
            assert list(b.beside) == []
        await press("right_square_bracket")
        assert (a.cursor, b.cursor) == (0, 0)

    browse([CORPUS], steps, tokenizer=str(other), size=(140, 40))


@FUZZ_ONLY
def test_separators_that_are_left_out_move_the_cursor():
    """A sample of several documents has separators, which have no text."""

    async def steps(app, press):
        await press("v")
        ids = app.session.port.peek(0, 0, 1 << 20).units.tolist()
        unit = ids.index(50256) + 9
        await press("slash")
        app.screen.query_one(Input).value = "token:50256"
        await press("enter", "enter", *["right"] * 9)
        assert tab_of(app).where == (0, unit)
        await press("T")
        app.screen.query_one(Input).value = str(TOKENIZER)
        await press("ctrl+b")
        a = app.screen.leader.pane
        assert a.cursor == unit - ids[:unit].count(50256)
        assert app.screen.marks.cuts[0].tokens[a.cursor] == ids[unit]

    browse([BLOCKS], steps, tokenizer=str(golden("gpt2")), size=(140, 40))


async def choose(app, press, name):
    await press("T")
    assert type(app.screen).__name__ == "TokenizerList"
    app.screen.query_one(Input).value = str(name)
    await press("enter")


@FUZZ_ONLY
def test_the_one_in_use_stays_if_another_cannot_be_loaded(tmp_path):
    (tmp_path / "bad.json").write_text("{}")

    async def steps(app, press):
        tab = tab_of(app)
        before = tab.session.vocabulary
        await choose(app, press, tmp_path / "bad.json")
        assert "bad.json" in str(list(notes(app))[-1].message)
        assert tab.session.vocabulary is before
        assert app.session.choice == Choice(str(TOKENIZER), "--tokenizer")
        assert tab.session.port.unit == "token"

    browse([CORPUS], steps, tokenizer=str(TOKENIZER))


@FUZZ_ONLY
def test_ids_are_shown_with_a_tokenizer_that_is_chosen():
    async def steps(app, press):
        assert reader_text(app).split()[0].isdecimal()
        await choose(app, press, golden("gpt2"))
        first = load(str(golden("gpt2"))).decoder.pieces(tokfmt.open(PACK)[0][:3].tolist())
        text = b"".join(one if isinstance(one, bytes) else one.encode() for one in first).decode()
        assert reader_text(app).replace("\n", "").startswith(text.strip())

    browse([PACK], steps)
