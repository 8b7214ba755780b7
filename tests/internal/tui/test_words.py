"""What the screen says: which tokenizer, what is unknown, what is listed, which keys there are."""

import json

import pytest
from browsing import PACK, browse, line, reader_text, tab_of
from paths import TOKENIZER
from textual.widgets import Input, Static

from tokfmt import convert
from tokfmt.browser.app import unknown_key
from tokfmt.browser.data.state import remember
from tokfmt.browser.tabs.findings import FindingTable
from tokfmt.browser.widgets.frame import KeyBar
from tokfmt.browser.widgets.reader import Reader, TokenDetails


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def pack_of(tmp_path, rows):
    source = tmp_path / "ids.jsonl"
    source.write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
    convert([source], tmp_path / "ids.pbin", eos=0)
    return tmp_path / "ids.pbin"


def said(app):
    return [str(notification.message) for notification in app._notifications]


def test_an_id_that_is_none_has_no_bytes_and_does_not_look_like_one(tmp_path):
    path = pack_of(tmp_path, [[60_000, 5, 6]])

    async def steps(app, press):
        assert reader_text(app).startswith("⟨id 60000⟩")
        told = str(app.query_one(TokenDetails).render())
        assert "not in the vocabulary" in told
        assert "bytes" not in told
        await press("tab", "right")
        assert "bytes" in str(app.query_one(TokenDetails).render())

    browse([path], steps, tokenizer=str(TOKENIZER))


def test_findings_compare_with_the_tokenizer_in_use(tmp_path):
    path = pack_of(tmp_path, [[60_000, 5, 6]] * 9)
    manifest = tmp_path / "ids.pbin.tokfmt.json"
    content = json.loads(manifest.read_text())
    content["tokenizer"] = {"name": str(tmp_path / "gone"), "digest": "0" * 16, "vocab_size": 70_000}
    manifest.write_text(json.dumps(content))

    async def steps(app, press):
        await press("3")
        codes = {finding.code for finding in app.session.verdict.findings}
        assert {"TF921", "TF926"} <= codes
        assert app.query_one(FindingTable).finding is not None

    browse([path], steps, tokenizer=str(TOKENIZER))


def test_which_tokenizer_is_used_is_on_the_screen():
    def subtitle(app):
        return str(app.query_one("#reading").border_subtitle)

    async def named(app, press):
        assert subtitle(app).endswith(f"· {TOKENIZER.name}")

    async def again(app, press):
        assert subtitle(app).endswith("(as last time)")
        assert "as last time; --tokenizer sets another" in said(app)[-1]

    remember(PACK, tokenizer=None)
    browse([PACK], named, tokenizer=str(TOKENIZER))
    browse([PACK], again)


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_help_and_quit_are_in_the_last_line_of_any_screen(columns):
    async def steps(app, press):
        words = line(app.query_one(KeyBar), 0)
        assert "? Help" in words
        assert "q Quit" in words

    browse([PACK], steps, size=(columns, 20))


def test_keys_that_do_nothing_say_so_and_one_thing_is_said_at_a_time():
    async def steps(app, press):
        await press("V")
        assert said(app) == ["This dataset has no other splits."]
        await press("d", "n", "5")
        assert len(said(app)) == 1
        await press("enter")
        assert isinstance(app.focused, Reader)
        await press("g")
        app.screen.query_one(Input).value = "-1"
        await press("enter")
        assert tab_of(app).where == (41, 0)
        await press("question_mark")
        told = " ".join(str(one.render()) for one in app.screen.query(Static))
        for words in ("Next pane", "wheel", "Focus the reader"):
            assert words in told

    browse([PACK], steps)


def test_names_of_keys():
    for name in ("down", "g", "1", "ctrl+p", "question_mark", "n", "slash",
                 "escape", "space", "minus", "left_square_bracket", "é"):  # fmt: skip
        assert not unknown_key(name), name
    for name in ("nosuchkey", "hyper+x", "ctrl+nothing", "Enterr"):
        assert unknown_key(name), name
