"""The dataset opened again at the same place, a file that is still written, the badge of the tab of findings, the map."""

import os
import shutil

import pytest
from browsing import PACK, Fake, browse, session_of, tab_of
from opened import open_source
from paths import CORPUS, TOKENIZER

from tokfmt import convert
from tokfmt.browser.data.check import is_cheap
from tokfmt.browser.data.frequency import frequencies_of
from tokfmt.browser.data.rows import Viewport


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


LINES = CORPUS.read_bytes().splitlines(keepends=True)


def append(file, data):
    with open(file, "ab") as opened:
        opened.write(data)


def test_a_file_is_opened_again_and_followed(tmp_path):
    file = tmp_path / "some.jsonl"
    file.write_bytes(b"".join(LINES[:20]))

    async def steps(app, press):
        tab = tab_of(app)
        await press("down", "down", "down", "enter", "right", "right")
        assert tab.where == (3, 2)
        append(file, b"".join(LINES[20:25]))
        await press("R")
        assert app.session.port.count == 25
        assert tab.where == (3, 2)
        assert "R stops" in str(app.query_one("#loading").render())
        tab.list.focus()
        await press("end")
        assert tab.where == (24, 0)
        append(file, LINES[25])
        app._look_after_followed()
        await press()
        assert app.session.port.count == 26
        assert tab.where == (25, 0)
        await press("R")
        append(file, LINES[26])
        app._look_after_followed()
        await press()
        assert app.session.port.count in (26, 27)  # R opened it again, and nothing does afterwards
        assert not app._followed

    browse([file], steps)


def test_an_old_file_is_opened_again_and_not_followed(tmp_path):
    file = tmp_path / "some.pbin"
    shutil.copy(PACK, file)
    os.utime(file, (1e9, 1e9))

    async def steps(app, press):
        before = app.session
        await press("down", "R")
        assert app.session is not before
        assert tab_of(app).where == (1, 0)
        assert not app._followed

    browse([file], steps)


def test_a_file_that_is_gone_leaves_what_was_read(tmp_path):
    file = tmp_path / "some.jsonl"
    file.write_bytes(b"".join(LINES[:20]))

    async def steps(app, press):
        await press("down")
        file.unlink()
        before = app.session
        await press("R")
        assert app.session is before
        assert list(app._notifications)[-1].title == "Not opened again"
        assert tab_of(app).where == (1, 0)

    browse([file], steps)


def test_large_datasets_and_stores_are_not_checked_unasked():
    assert not is_cheap(session_of(Fake()))


# facts about tokens


def test_the_frequency_of_a_token():
    reader = open_source([PACK]).reader
    rows = [reader.tokens(*reader.offsets(k, k + 1).tolist()).tolist() for k in range(reader.info.sequences)]
    every = [token for row in rows for token in row]
    counts = {token: every.count(token) for token in set(every)}
    found = frequencies_of(Viewport(reader))
    for token in {rows[0][0], rows[3][1], max(counts, key=counts.get)}:
        rank = 1 + sum(count > counts[token] for count in counts.values())
        assert found.of(token) == (rank, counts[token], sum(token in row for row in rows))
    assert found.of(60_000) is None or 60_000 in counts

    async def steps(app, press):
        rank, count, held = found.of(rows[0][0])
        told = str(tab_of(app).query_one("#detail").render())
        assert f"rank {rank:,}" in told
        assert f"found {count:,} times in {held} documents" in told

    browse([PACK], steps)


def test_frequencies_of_a_large_dataset_are_not_counted():
    found = frequencies_of(Viewport(Fake()))
    assert not len(found.tokens)
    assert found.of(3) is None


# the minimap


def test_a_dataset_with_a_prefix_is_followed(tmp_path):
    """Both files of a prefix change, one after the other; the dataset between these states cannot be read."""
    for name, count in (("one", 20), ("two", 30)):
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(LINES[:count]))
        convert(tmp_path / f"{name}.jsonl", tmp_path / f"{name}.bin", to_format="megatron", tokenizer=str(TOKENIZER))
    prefix = tmp_path / "grows_text_document"
    for suffix in (".bin", ".idx"):
        os.replace(tmp_path / f"one{suffix}", f"{prefix}{suffix}")

    async def steps(app, press):
        assert app.session.port.count == 20
        await press("end", "R")
        assert "R stops" in str(app.query_one("#loading").render())
        looks = app.session.stamp
        os.replace(tmp_path / "two.idx", f"{prefix}.idx")
        app._look_after_followed()
        await press()
        assert app.session.stamp != looks
        assert app._followed == {0}
        os.replace(tmp_path / "two.bin", f"{prefix}.bin")
        app._look_after_followed()
        await press()
        assert app.session.port.count == 30
        assert tab_of(app).where == (29, 0)
        assert app._followed == {0}

    browse([prefix], steps)
