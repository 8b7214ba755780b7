"""The list during a search: the words around the first hit of each row, read for the rows on the screen only."""

import json

import pytest
from amount import only
from browsing import browse, line, tab_of
from rich.cells import cell_len
from textual.widgets import Input


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def texts_of(tmp_path, texts):
    path = tmp_path / "some.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


async def find(app, press, words):
    await press("slash")
    app.screen.query_one(Input).value = words
    await press("enter")


def hits_at(app, y):
    """What a line of the list shows in the style of hits."""
    shown = tab_of(app).list
    color = shown.get_component_rich_style("table--excerpt").bgcolor
    return "".join(part.text for part in shown.render_line(y) if part.style and part.style.bgcolor == color)


@pytest.mark.parametrize("columns", only([200, 24], [200, 80, 40, 24]))
def test_the_list_shows_the_words_around_a_hit(tmp_path, columns):
    far, near = "many words go before it, " * 40, "the needle is here"
    path = texts_of(tmp_path, [far + "a needle in hay " + far, "nothing here " * 9, near, far + "needle", "needle"])

    async def steps(app, press):
        shown = tab_of(app).list
        before = [line(shown, y) for y in range(1, 6)]
        assert "needle" not in before[0]
        await find(app, press, "needle")
        drawn = [line(shown, y) for y in range(1, 6)]
        assert all(cell_len(one) <= shown.size.width for one in drawn)
        if columns >= 80:
            assert [hits_at(app, y) for y in range(1, 6)] == ["needle", "", "needle", "needle", "needle"]
            assert ("…go before it, a needle" if columns == 200 else "…a needle") in drawn[0]
            assert "…" not in drawn[2]  # all before the hit is shown
            assert drawn[3].rstrip().endswith("needle")  # nothing follows it, so that more is shown before it
        assert drawn[1] == before[1]
        await press("escape")
        assert [line(shown, y)[6:] for y in range(1, 6)] == [one[6:] for one in before]

    browse([path], steps, size=(columns, 24))
