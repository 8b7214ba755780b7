"""What hands know from vim, from web browsers and from the mouse: hits, ends, half pages, the way back, recent lines."""

import pytest
from amount import FUZZ_ONLY
from browsing import BLOCKS, PACK, browse, tab_of
from paths import CORPUS, FIXTURES
from textual.widgets import Input, Label, OptionList

from tokfmt.browser.dialogs import OneOf


@FUZZ_ONLY
def test_dialogs_with_a_list_and_pages_take_keys_of_vim():
    async def steps(app, press):
        await press("d", "j", "j", "k", "enter")
        assert app.current == 1
        await press("d", "G", "enter")
        assert app.current == 2
        await press("d", "g", "g", "enter")
        assert app.current == 0
        await press("d", "q")
        assert len(app.screen_stack) == 1
        await press("question_mark")
        await press("shift+tab")
        page = app.screen.query_one("#help")
        assert page.has_focus
        for key, forth in (("j", True), ("k", False), ("ctrl+d", True), ("ctrl+u", False), ("G", True), ("g", False)):
            await press(key)
            assert (page.scroll_target_y > 0) == forth, key

    browse([PACK, BLOCKS, CORPUS], steps, size=(80, 24))


@FUZZ_ONLY
def test_ctrl_c_leaves_a_question_unless_it_copies():
    async def steps(app, press):
        await press("slash", *"words", "ctrl+c")
        assert not app.screen.query(Input)
        assert tab_of(app).search is None
        await press("g", "1", "2", "shift+home", "ctrl+c")
        assert app.screen.query(Input)
        assert app.clipboard == "12"
        await press("end", "ctrl+c")
        assert not app.screen.query(Input)

    browse([PACK], steps)


# digits of a question that has no answer are no keys of the browser


@FUZZ_ONLY
@pytest.mark.parametrize(("path", "keys", "why"), [
    (FIXTURES / "flat-tokens" / "train_empty.zarr", ("V", "V", "g"), "This dataset has no documents"),
], ids=["g"])  # fmt: skip
def test_a_question_without_an_answer_keeps_its_digits(path, keys, why):
    async def steps(app, press):
        await press(*keys, "4", "0")
        assert app.entry.name == "sequences"
        assert app.screen.query_one(Input).value == "40"
        assert str(app.screen.query_one("#meaning", Label).render()) == why
        await press("enter")
        assert app.screen.query(Input)
        await press("escape")
        assert not app.screen.query(Input)

    browse([path], steps)


def test_a_choice_is_left_and_kept():
    async def steps(app, press):
        await press("d")
        assert isinstance(app.screen, OneOf)
        app.screen.query_one(OptionList).highlighted = 1
        await press("escape")
        assert app.current == 0

    browse([PACK, BLOCKS], steps)
