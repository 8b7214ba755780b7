"""Tokenizers chosen and changed in the browser, and two of them side by side."""

import json

import pytest
from browsing import PACK, browse, reader_text, tab_of
from made_tokenizers import llama3_like, sentencepiece_like
from paths import CORPUS, TOKENIZER, golden
from textual.widgets import Input
from tokenizers import Tokenizer

import tokfmt
from tokfmt.browser.data.session import Choice, load, open_session
from tokfmt.browser.data.state import recall, remember, tokenizers_of_all
from tokfmt.browser.data.tokenizers import NONE, both_of, known_tokenizers
from tokfmt.browser.tokenizers import TokenizerList
from tokfmt.source.request import SourceRequest

TEXTS = [json.loads(line)["text"] for line in CORPUS.read_text().splitlines()]
PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Another tokenizer, in a directory."""
    home = tmp_path_factory.mktemp("llama")
    llama3_like().save(str(home / "tokenizer.json"))
    return home


async def choose(app, press, name):
    await press("T")
    assert isinstance(app.screen, TokenizerList)
    app.screen.query_one(Input).value = str(name)
    await press("enter")


def test_a_tokenizer_is_chosen_and_changed(other):
    ids = PLAIN.encode(TEXTS[3], add_special_tokens=False).ids
    others = Tokenizer.from_file(str(other / "tokenizer.json")).encode(TEXTS[3], add_special_tokens=False).ids

    async def steps(app, press):
        tab = tab_of(app)
        await press("down", "down", "down")
        assert tab.session.port.unit == "character"
        await choose(app, press, TOKENIZER)
        assert tab.where == (3, 0)
        assert tab.session.port.peek(3, 0, 9999).units.tolist() == ids
        assert TEXTS[3][:20] in reader_text(app).replace("\n", " ")
        assert recall(CORPUS)["tokenizer"] == str(TOKENIZER)
        await choose(app, press, other)
        assert tab.session.port.peek(3, 0, 9999).units.tolist() == others
        assert tokenizers_of_all() == [str(other)]
        await choose(app, press, NONE)
        assert tab.session.port.unit == "character"
        assert "tokenizer" not in recall(CORPUS)

    browse([CORPUS], steps)


def test_a_tokenizer_is_offered_once_however_it_was_named(monkeypatch):
    monkeypatch.chdir(TOKENIZER.parent)
    remember(CORPUS, tokenizer=str(TOKENIZER))
    session = open_session(SourceRequest((str(CORPUS),)), TOKENIZER.name)
    assert [one.name for one in known_tokenizers(session)] == [TOKENIZER.name]
    remember(PACK, tokenizer="gpt2")
    assert [one.name for one in known_tokenizers(session)] == [TOKENIZER.name, "gpt2"]


def test_the_one_in_use_stays_if_another_cannot_be_loaded(tmp_path):
    (tmp_path / "bad.json").write_text("{}")

    async def steps(app, press):
        tab = tab_of(app)
        before = tab.session.vocabulary
        await choose(app, press, tmp_path / "bad.json")
        assert "bad.json" in str(list(app._notifications)[-1].message)
        assert tab.session.vocabulary is before
        assert app.session.choice == Choice(str(TOKENIZER), "--tokenizer")
        assert tab.session.port.unit == "token"

    browse([CORPUS], steps, tokenizer=str(TOKENIZER))


def test_ids_are_shown_with_a_tokenizer_that_is_chosen():
    async def steps(app, press):
        assert reader_text(app).split()[0].isdecimal()
        await choose(app, press, golden("gpt2"))
        first = load(str(golden("gpt2"))).decoder.pieces(tokfmt.open(PACK)[0][:3].tolist())
        text = b"".join(one if isinstance(one, bytes) else one.encode() for one in first).decode()
        assert reader_text(app).replace("\n", "").startswith(text.strip())

    browse([PACK], steps)


def spans(tokenizer, text):
    """The bytes of each token, by the offsets of the tokenizer."""
    at = [len(text[:k].encode()) for k in range(len(text) + 1)]
    return [(at[a], at[b]) for a, b in tokenizer.encode(text, add_special_tokens=False).offsets]


@pytest.mark.parametrize("kind", [llama3_like, sentencepiece_like])
def test_two_tokenizers_are_compared_by_bytes(kind, tmp_path):
    file = tmp_path / "tokenizer.json"
    made = kind()
    made.save(str(file))
    session = open_session(SourceRequest((CORPUS,)))
    a, b = load(str(TOKENIZER), encoding=True), load(str(file), encoding=True)
    for row in (0, 3, 17):
        text = TEXTS[row]
        both = both_of(session, row, a, b)
        assert both.size == len(text.encode())
        assert both.cuts[0].tokens.tolist() == PLAIN.encode(text, add_special_tokens=False).ids
        assert both.cuts[1].tokens.tolist() == made.encode(text, add_special_tokens=False).ids
        mine = list(zip(both.cuts[0].starts, both.cuts[0].ends, strict=True))
        assert mine == spans(PLAIN, text)
        theirs = list(zip(both.cuts[1].starts, both.cuts[1].ends, strict=True))
        assert theirs[-1][1] == len(text.encode())
        for side, (own, others) in enumerate(((mine, theirs), (theirs, mine))):
            marked = {k for run in both.differing[side] for k in run}
            assert marked == {k for k, span in enumerate(own) if span not in set(others)}
            for k in range(0, len(own), 7):
                start, stop = others[both.across(side, k)]
                assert start <= own[k][0] < stop or own[k][0] == own[k][1] or start == stop


# a comparison uses one tokenizer


@pytest.mark.parametrize("swapped", [False, True])
def test_a_remembered_tokenizer_is_used_on_both_sides(swapped, tmp_path):
    """Of two texts, of which one has a remembered tokenizer, both are shown in its tokens."""
    from tokfmt.browser.data.state import remember

    copy = tmp_path / "copy.jsonl"
    lines = CORPUS.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join([*lines[:5], *lines[6:]]))
    remember(CORPUS, tokenizer=str(TOKENIZER))
    paths = [copy, CORPUS] if swapped else [CORPUS, copy]

    async def steps(app, press):
        await press("5")
        assert [one.port.unit for one in app.sessions.values()] == ["token", "token"]
        assert "other token IDs" not in str(app.tab.query_one("#pairline").render())
        assert app.tab.comparison.differing["only_in_b" if swapped else "only_in_a"] == 1

    browse(paths, steps)


def test_two_texts_are_compared_with_the_tokenizer_of_a(tmp_path, other):
    from tokfmt.browser.data.state import remember

    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(CORPUS.read_bytes())
    remember(CORPUS, tokenizer=str(TOKENIZER))
    remember(copy, tokenizer=str(other))

    async def steps(app, press):
        await press("5")
        assert [one.choice.name for one in app.sessions.values()] == [str(TOKENIZER)] * 2
        assert not app.tab.comparison.differing

    browse([CORPUS, copy], steps)
