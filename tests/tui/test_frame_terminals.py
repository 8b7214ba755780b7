"""Any terminal: from 40x12 to 200x60, of few colors or none, with scripts whose width is its own; left as it was."""

from types import SimpleNamespace

import pytest
from amount import FUZZ_ONLY, only
from browsing import PACK, browse, line
from paths import CORPUS, FIXTURES, TOKENIZER
from rich.cells import cell_len

from tokfmt.browser.widgets.frame import Card, FindBar, KeyBar

SIZES = [(40, 12), (60, 16), (80, 24), (120, 36), (200, 60)]


THEMES = ["tokyo-night", "catppuccin-latte", "ansi-dark"]
DRAWN = [(size, theme) for theme in THEMES for size in SIZES]


@pytest.mark.parametrize(("size", "theme"), only([DRAWN[k] for k in (0, 12)], DRAWN))
def test_every_tab_is_drawn_at_every_size(size, theme):
    async def steps(app, press):
        app.theme = theme
        for key in "123":
            await press(key)
            for label in app.query(".tab"):
                text = str(label.render())
                assert label.size.width >= cell_len(text), (key, text)
            assert str(app.query_one(f"#label-{app.entry.name}").render()).startswith(f"{key} {app.entry.title}")
            assert "? All keys" in line(app.query_one(KeyBar), 0)
            assert app.tab.size.height == size[1] - 3

    browse([PACK, CORPUS], steps, size=size, tokenizer=str(TOKENIZER))


def of_dataset(app):
    """The facts in the first line, if all of them are drawn."""
    place = app.query_one(Card)
    text = str(place.render())
    assert cell_len(text) <= place.content_size.width, text
    return text


def test_the_first_line_numbers_the_datasets():
    async def steps(app, press):
        assert "(1 of 2, d)" in of_dataset(app)
        await press("d", "j", "enter")
        assert of_dataset(app).startswith("corpus.jsonl (2 of 2, d)")

    browse([PACK, CORPUS], steps)


@FUZZ_ONLY
@pytest.mark.parametrize("columns", [60, 72, 80, 100])
def test_name_and_rows_are_in_the_first_line_beside_a_filter(columns):
    async def steps(app, press):
        assert "D_2by" in of_dataset(app)
        assert "42 documents" in of_dataset(app)
        await press("f", *"len>40", "enter")
        assert "len>40" in str(app.query_one("#filtered").render())
        assert columns < 72 or "42 documents" in of_dataset(app)
        await press("F")
        titles = [str(label.render()) for label in app.query(".tab")]
        assert [title.split()[1] for title in titles] == ["Data", "Overview", "File"]

    browse([PACK, CORPUS], steps, size=(columns, 24), tokenizer=str(TOKENIZER))


@FUZZ_ONLY
def test_the_line_of_a_search_has_its_hits_and_its_progress_in_any_width():
    search = SimpleNamespace(
        words="a long expression of words", marks=True, failure="", running=True, cancelled=False,
        scope=SimpleNamespace(singular="document"), job=SimpleNamespace(share=0.18),
        results=SimpleNamespace(hits=1158, sequences=1149, capped=False),
    )  # fmt: skip

    async def steps(app, press):
        bar = app.query_one(FindBar)
        for columns in (160, 120, 100, 80, 60):
            await press.pilot.resize_terminal(columns, 24)
            bar.say(search)
            await press.pilot.pause()
            text = line(bar, 0)
            assert "1,158… hits" in text
            assert text.rstrip().endswith("18%")

    browse([PACK], steps)


def test_a_finding_and_its_bytes_and_the_part_that_holds_them_are_in_step():
    async def steps(app, press):
        await press("3")
        tab = app.tab
        assert tab.hex.at == tab.parts.finding.offset
        assert tab.parts.finding.code in str(tab.query_one("#field").render())
        await press("tab")
        assert tab.hex.has_focus
        await press("right", "left")  # the parts follow the byte
        field = tab.parts.field
        assert field.offset <= tab.hex.at < field.offset + max(1, field.length)
        assert field.name in str(tab.query_one("#field").render())
        await press("home", "up")  # to the header
        assert tab.parts.field.offset == 0
        assert "To the sequence" not in line(app.query_one(KeyBar), 0)
        while "To the sequence" not in line(app.query_one(KeyBar), 0):
            await press("down")
        await press("enter")
        assert app.entry.name == "sequences"

    browse([FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin"], steps)
