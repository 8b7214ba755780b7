"""Several splits, several datasets, and those that cannot be read."""

import shutil

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsing import (
    PACK,
    STORE,
    SourceRequest,
    Spot,
    browse,
    commands,
    first_ids,
    late_session,
    reader_text,
    shown_session,
    split_of,
    tab_of,
)
from by_hand import pack
from paths import FIXTURES

import tokfmt
from tokfmt.browser.widgets.frame import Card, KeyBar, Refusal


def shows(app, split, row):
    """The row of a split is what is on the screen, in the reader and in the list."""
    reader, tab = split_of(app.session.path, split), tab_of(app)
    ids = first_ids(reader, row)
    listed = tab.list.render_line(row + 1 - tab.list.top).text
    return (
        (app.session.split, tab.where, tab.list.count) == (split, (row, 0), reader.info.sequences)
        and reader_text(app).split()[: len(ids)] == ids
        and " ".join(ids[:2]) in listed
    )


def footer(app):
    return app.query_one(KeyBar).render_line(0).text


# splits


@FUZZ_ONLY
def test_another_split_and_back():
    async def steps(app, press):
        assert app.session.splits == ("train", "validation")
        await press("down", "down", "down")
        assert shows(app, "train", 3)
        await press("V")
        assert shows(app, "validation", 0)
        await press("down", "V")
        assert shows(app, "train", 3)
        await press("V")
        assert shows(app, "validation", 1)
        assert "of validation" in str(tab_of(app).list.border_title)
        label = str(app.query_one("#split").render())
        assert label.split() == ["V", "train", "validation"]
        assert "V Split" in footer(app)
        await press("2")
        facts = {fact.name: fact.value for fact in app.tab.query_one("#facts").lines.facts}
        assert facts["splits"] == "train, validation (shown)"

    browse([STORE], steps, size=(140, 36))


def test_which_split_is_shown_is_told_on_a_narrow_screen():
    async def steps(app, press):
        await press("V")
        assert str(app.query_one("#split").render()) == "V validation 2/2"
        assert "V Split" in footer(app)

    browse([STORE], steps, size=(80, 24))


@pytest.mark.parametrize("name", ["train_only.zarr", "multi_chunk_bare.zarr"])
def test_one_split_is_no_choice(name):
    async def steps(app, press):
        session = app.session
        await press("V")
        assert app.session is session
        assert not app.query_one("#split").display
        assert "Split" not in footer(app)
        assert not [name for name in commands(app) if "split" in name.lower()]

    browse([FIXTURES / "flat-tokens" / name], steps)


def test_a_split_that_cannot_be_read_is_a_place_of_its_own(tmp_path):
    store = tmp_path / "half.zarr"
    shutil.copytree(STORE, store)
    (store / "validation" / "encoded_tokens" / ".zarray").write_bytes(b"nothing")

    async def steps(app, press):
        await press("V")
        assert app.query_one(Refusal).has_focus
        assert "encoded_tokens" in str(app.query_one(Refusal).render())
        assert str(app.query_one("#split").render()).split() == ["V", "train", "validation"]
        await press("V")
        assert shows(app, "train", 0)
        assert tab_of(app).list.has_focus

    browse([store], steps, size=(140, 36))


@FUZZ_ONLY
def test_unknown_or_missing_dataset_is_reported(tmp_path):
    (tmp_path / "x.bin").write_bytes(b"\x05" * 41)

    async def steps(app, press):
        for number, findings in ((1, 1), (2, 1)):
            await press("d", "home", *["down"] * number, "enter")
            assert app.query_one(Refusal).has_focus
            assert app.session.format_name is None
            await press("3")
            assert len(app.session.verdict.findings) == findings
            assert (app.tab.hex.path is None) == (number == 2)  # no bytes of what was shown before
            await press("1")
        await press("d", "home", "enter")
        assert tab_of(app).list.has_focus
        assert reader_text(app)

    browse([PACK, tmp_path / "x.bin", tmp_path / "nowhere.pbin"], steps)


def test_what_an_error_and_a_note_advise_is_one_key(tmp_path):
    ids = [int(token) for document in tokfmt.open(PACK)[:] for token in (*document, 50256)] * 8
    np.array(ids, "<u2").tofile(tmp_path / "one.bin")

    async def steps(app, press):
        assert app.query_one(Refusal).has_focus
        await press("enter")
        assert (app.session.format_name, app.session.request.options) == ("array", {"bare": "uint16"})
        await press("2", "shift+tab", "end", "enter")
        assert app.session.request.eos == 50256
        assert app.session.port.count == ids.count(50256)

    browse([tmp_path / "one.bin"], steps, session=shown_session(SourceRequest((tmp_path / "one.bin",))))


# while the documents of a dataset are found


def test_rows_that_are_no_documents_are_shown_only_if_the_documents_take_long(tmp_path):
    documents = [np.append(np.arange(row, row + 60_000), 65535) for row in range(40)]
    late = late_session(pack(tmp_path / "large.pbin", documents))

    async def steps(app, press):
        tab = tab_of(app)
        assert tab.list.count
        app.sessions[1] = late
        app.go(Spot(number=1))
        assert (tab.list.count, tab.reader.lines, str(tab.list.border_title)) == (0, [], "")
        assert " row" not in app.query_one(Card).render().plain
        while not tab.list.count:  # a second
            await press.pilot.pause(0.01)
        assert (late.view.name, tab.list.count) == ("rows", late.port.count)
        assert " row" in app.query_one(Card).render().plain
        late.opened.gate.set()
        await press()
        assert (late.view.name, tab.list.count, tab.where) == ("documents", 40, (0, 0))
        assert reader_text(app).split()[:3] == ["0", "1", "2"]

    browse([STORE, tmp_path / "large.pbin"], steps)
