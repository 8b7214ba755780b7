"""What the screen says: which tokenizer, what is unknown, what is listed, which keys there are."""

import pytest
from browsing import PACK, STORE, browse, tab_of
from textual.widgets import Input, Static


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


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
        await press("4")
        inside = next(STORE.rglob("0"))
        app.go_to_bytes(inside, 0, 1)
        await press()
        assert str(app.query_one("HexView").border_title) == str(inside.relative_to(STORE))
        field = app.tab.parts.field  # the part that holds these bytes
        assert field.path == inside
        assert str(app.query_one("#field", Static).render()).startswith(f"{field.name}: ")

    browse([STORE], steps)
