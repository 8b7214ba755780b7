"""What the screen says: which tokenizer, what is unknown, what is listed, which keys there are."""

import json

import pytest
from amount import FUZZ_ONLY
from browsing import PACK, STORE, ByteSpot, Spot, browse, line, notes, reader_text, remember, tab_of
from paths import TOKENIZER
from textual.widgets import Input, Static

from tokfmt import convert


def test_the_title_of_the_list_follows_the_filter():
    async def steps(app, press):
        tab = tab_of(app)
        await press("f")
        app.screen.query_one(Input).value = "len>20"
        await press("enter")
        assert " of 42 documents" in str(tab.list.border_title)
        await press("F")
        assert str(tab.list.border_title) == "42 documents"

    browse([PACK], steps)


def test_bytes_of_a_directory_say_of_which_file():
    async def steps(app, press):
        await press("3")
        inside = next(STORE.rglob("0"))
        app.go(Spot(tab="file", inside=ByteSpot(inside, 0, 1)))
        await press()
        assert str(app.query_one("HexView").border_title).startswith(f"{inside.relative_to(STORE)} · ")
        field = app.tab.parts.field  # the part that holds these bytes
        assert field.path == inside
        assert str(app.query_one("#field", Static).render()).startswith(f"{field.name}: ")

    browse([STORE], steps)


def pack_of(tmp_path, rows):
    source = tmp_path / "ids.jsonl"
    source.write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
    convert([source], tmp_path / "ids.pbin", eos=0)
    return tmp_path / "ids.pbin"


def said(app):
    return [str(notification.message) for notification in notes(app)]


@FUZZ_ONLY
def test_an_id_that_is_none_has_no_bytes_and_does_not_look_like_one(tmp_path):
    path = pack_of(tmp_path, [[60_000, 5, 6]])

    async def steps(app, press):
        assert reader_text(app).startswith("⟨id 60000⟩")
        told = str(app.query_one("#detail").render())
        assert "not in the vocabulary" in told
        assert "bytes" not in told
        await press("tab", "right")
        assert "bytes" in str(app.query_one("#detail").render())

    browse([path], steps, tokenizer=str(TOKENIZER))


def test_findings_compare_with_the_tokenizer_in_use(tmp_path):
    """From the first screen on: no dataset is said to be checked before it is compared."""
    path = pack_of(tmp_path, [[60_000, 5, 6]] * 9)
    manifest = tmp_path / "ids.pbin.tokfmt.json"
    content = json.loads(manifest.read_text())
    content["tokenizer"] = {"name": str(tmp_path / "gone"), "digest": "0" * 16, "vocab_size": 70_000}
    manifest.write_text(json.dumps(content))

    async def steps(app, press):
        codes = {finding.code for finding in app.session.verdict.findings}
        assert {"TF921", "TF926"} <= codes
        await press("3")
        assert app.tab.parts.finding.code in codes

    browse([path], steps, tokenizer=str(TOKENIZER))


@FUZZ_ONLY
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


@FUZZ_ONLY
@pytest.mark.parametrize("columns", [36, 60, 80])
def test_all_keys_and_quit_are_in_the_last_line_of_any_tab_and_a_click_away(columns):
    async def steps(app, press):
        for tab in "2341":
            await press(tab)
            keys = app.query_one("#keys")
            words = line(keys, 0)
            assert words.rstrip().endswith("? All keys  q Quit")
            assert await press.pilot.click(keys, offset=(keys.content_region.x + words.index("? All keys"), 0))
            await press()
            assert app.screen.query("#help")
            await press("escape")

    browse([PACK], steps, size=(columns, 20))


@FUZZ_ONLY
def test_keys_that_do_nothing_say_so_and_one_thing_is_said_at_a_time():
    async def steps(app, press):
        await press("V")
        assert said(app) == ["This dataset has no other splits."]
        await press("d", "n")
        assert len(said(app)) == 1
        await press("enter")
        assert type(app.focused).__name__ == "Reader"
        await press("g")
        app.screen.query_one(Input).value = "-1"
        await press("enter")
        assert tab_of(app).where == (41, 0)

    browse([PACK], steps)
