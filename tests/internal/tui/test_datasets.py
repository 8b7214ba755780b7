"""Several splits, several datasets, and those that cannot be read."""

import gzip
import random
import shutil
import sys

import forkserver
import pytest
from browsing import PACK, STORE, browse, reader_text, tab_of
from opened import open_source
from paths import FIXTURES
from textual.widgets import OptionList, Static

from tokfmt.browser.data.opening import SMALL
from tokfmt.browser.data.session import open_session
from tokfmt.browser.dialogs import OneOf
from tokfmt.browser.widgets.frame import Refusal, StatusLine
from tokfmt.errors import TokfmtError
from tokfmt.source.request import SourceRequest

BAD = FIXTURES / "bad"


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def split_of(path, split):
    return open_source([path], options=[f"split={split}"]).reader


def first_ids(reader, row, count=3):
    start, stop = reader.offsets(row, row + 1).tolist()
    return [str(token) for token in reader.tokens(start, min(stop, start + count)).tolist()]


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


def test_one_of_several_splits_is_asked_for(tmp_path):
    store = tmp_path / "three.zarr"
    shutil.copytree(STORE, store)
    shutil.copytree(store / "validation", store / "test")

    async def steps(app, press):
        assert app.session.splits == ("test", "train", "validation")
        await press("V")
        assert isinstance(app.screen, OneOf)
        assert app.screen.query_one(OptionList).highlighted == 1
        await press("up", "enter")
        assert shows(app, "test", 0)
        await press("V", "escape")
        assert app.session.split == "test"

    browse([store], steps)


def test_the_split_that_was_named_is_shown_and_checked_alone():
    session = open_session(SourceRequest((str(STORE),), options={"split": "validation"}))

    async def steps(app, press):
        assert shows(app, "validation", 0)
        await press("V")
        assert shows(app, "train", 0)
        assert app.session.request.options == {}
        assert app.session.asked is session.request

    browse([], steps, session=session)


def test_another_split_while_the_first_is_still_being_opened(monkeypatch):
    monkeypatch.setattr("tokfmt.browser.data.opening.SMALL", 0)

    async def steps(app, press):
        for _ in range(3):
            app.show_split("validation")
            app.show_split("train")
        await press("V")
        assert shows(app, "validation", 0)
        await press("V")
        assert shows(app, "train", 0)

    browse([STORE], steps)


# what cannot be read


@pytest.mark.parametrize("format_name", ["flat-tokens", "hdf5", "jsonl", "modalities", "stage1"])
def test_whatever_cannot_be_read_is_a_place_of_its_own(format_name):
    bad = [path for path in sorted((BAD / format_name).iterdir()) if refuses(path)]
    some = bad[:: max(1, len(bad) // 7)]

    async def steps(app, press):
        for number in range(1, len(some) + 1):
            app.show_dataset(number)
            await press()
            told = " ".join(str(app.query_one(Refusal).render()).split())
            assert " ".join(str(app.session.refused).split())[:60] in told
            assert app.query_one(Refusal).has_focus
            if number % 3 == 1:
                await press("g", "slash", "v", "e", "r")
                assert len(app.screen_stack) == 1
                await tabs_of_what_cannot_be_read(app, press)
        app.show_dataset(0)
        await press("down")
        assert tab_of(app).where == (1, 0)

    assert len(some) > 3
    browse([PACK, *some], steps)


def refuses(path):
    if path.suffix in (".py", ".json", ".idx"):
        return False
    try:
        open_session(SourceRequest((str(path),)))
    except TokfmtError:
        return True
    return False


async def tabs_of_what_cannot_be_read(app, press):
    await press("4")
    assert app.tab.parts.outline.count
    await press("3")
    assert app.session.verdict.findings
    await press("2")
    assert "✗" in str(app.query_one("#counting", Static).render())
    assert app.query_one("#lengths").is_mounted
    await press("1")


@pytest.fixture
def late(tmp_path):
    """Compressed lines that end too early, the second of which is none: opening them tells neither."""
    path = tmp_path / "late.jsonl.gz"
    rng = random.Random(5)
    lines = b"".join(b'{"text": "%s"}\n' % rng.randbytes(1000).hex().encode() for _ in range(6000))
    path.write_bytes(gzip.compress(b'{"text": "one"}\n{"text": \n' + lines, 1)[:-1000])
    assert path.stat().st_size > SMALL
    return path


def test_late_failure_is_reported_in_its_place(late):
    async def steps(app, press):
        assert "late.jsonl.gz" in str(app.query_one(Refusal).render())
        assert app.query_one(Refusal).has_focus
        assert "cannot be read" in str(app.query_one("#card").render())
        await tabs_of_what_cannot_be_read(app, press)
        await press("d", "end", "enter")
        assert tab_of(app).list.has_focus
        await press("d", "home", "enter")
        assert app.query_one(Refusal).has_focus

    browse([late, PACK], steps)


def test_leaving_what_could_not_be_shown_ends_with_3(late, tmp_path):
    out = tmp_path / "out.svg"
    words = [sys.executable, "-m", "tokfmt", "browse", str(late), "--screenshot", str(out)]
    ended = forkserver.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 3
    assert ended.stderr.startswith(f"tokfmt: error: {late}: ")
    assert "cannot" in out.read_text()


async def compared(app, press):
    await press("5")
    assert app.tab.comparison.state == "failed"
    assert "index" in app.query_one("#verdict", StatusLine).words
