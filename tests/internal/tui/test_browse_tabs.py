"""The browser's index, findings and statistics, over every format."""

import json
from collections import Counter
from importlib import import_module

import numpy as np
import pytest
from browsing import browse, line
from opened import open_source
from paths import CORPUS, FIXTURES, TOKENIZER

from tokfmt.browser.data.outline import Row
from tokfmt.browser.data.session import Opened, open_session
from tokfmt.browser.data.state import remember
from tokfmt.commands.show.parts import Raw
from tokfmt.core.annotation import Listed, Part
from tokfmt.core.format import Format
from tokfmt.files.fields import Field, Pointer
from tokfmt.source.request import SourceRequest

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
BLOCKS = FIXTURES / "stage1" / "blocks"
STORE = FIXTURES / "flat-tokens" / "multi_chunk.zarr"
HDF5 = FIXTURES / "hdf5" / "padded_eos"
BAD_LINES = FIXTURES / "bad" / "jsonl" / "control_invalid_lines.jsonl"


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def shown(widget):
    return [line(widget, y) for y in range(widget.size.height)]


# the index


@pytest.mark.parametrize("path", [PACK, BLOCKS, STORE, HDF5, CORPUS], ids=lambda path: path.name)
def test_every_format_shows_its_parts_their_bytes_and_figures(path):
    async def steps(app, press):
        await press("4")
        parts, view = app.tab.parts, app.tab.hex
        assert parts.has_focus
        assert shown(parts)[0].startswith("▾ ")
        field, section = parts.field, parts.section
        assert str(field.value)[:10] in shown(parts)[1]
        content = (field.path or section.path).read_bytes()
        assert (view.at, view.marked) == (field.offset, range(field.offset, field.offset + field.length))
        row = field.offset // 16
        assert shown(view)[row - view.top].split()[1:9] == content[row * 16 :][:8].hex(" ").split()
        await press("2")
        check_figures(app, path)

    browse([path], steps)


@pytest.mark.parametrize(
    ("path", "title"),
    [(STORE, "items of train/seq_starts"), (CORPUS, "lines of corpus.jsonl"), (HDF5, "storage of /data of examples_1")],
    ids=["flat-tokens", "jsonl", "hdf5"],
)
def test_fields_of_every_format_lead_to_what_they_are_about(path, title):
    async def steps(app, press):
        await press("4")
        parts = app.tab.parts
        number = next(i for i, part in enumerate(parts.outline.sections) if part.title.startswith(title))
        parts.choose(parts.outline.line(Row(number)))
        if not parts.outline.is_open(number):
            await press("right")
        parts.choose(parts.outline.line(Row(number, 7)))
        await press()
        field = parts.field
        await press("enter")
        if path == HDF5:  # a chunk is a sample; the list shows the documents in them
            reader = app.session.view.reader
            first = reader.find(field.path or parts.section.path, field.offset)
            span = app.session.port.peek_span(app.tab.where[0])
            assert first == span.start + app.tab.where[1]
        else:
            assert app.tab.where == (7, 0)

    browse([path], steps)


def test_bytes_by_offset_and_back_to_their_sequence():
    reader = open_source([PACK]).reader

    async def steps(app, press):
        await press("4", "g", *"2012", "enter")
        view = app.tab.hex
        assert view.has_focus
        assert view.at == 2012
        await press("right", "up", "enter")
        place = 2013 - 16
        start = int(reader.offsets(0, reader.info.sequences)[app.tab.where[0]])
        stored = np.frombuffer(PACK.read_bytes()[place - 1 : place + 1], "<u2")[0]
        assert reader.tokens(start + app.tab.where[1], start + app.tab.where[1] + 1)[0] == stored
        await press("x")  # and back again
        assert app.entry.name == "index"
        assert view.marked == range(place - 1, place + 1)
        await press("g", *"1e9", "enter")
        assert view.at == place - 1
        assert any("4,409 bytes" in str(notification.message) for notification in app._notifications)
        await press("home", "enter")  # the header is no token
        assert app.entry.name == "index"

    browse([PACK], steps)


class Endless:
    """10^8 fields, decoded as they are asked for."""

    title, count = "index", 10**8

    def __init__(self, path):
        self.path, self.asked = path, 0

    def fields(self, first, last):
        self.asked += last - first
        return [Field(f"entry {i:,}", i % 4000, 2, str(i), "a thing", i % 7 == 3) for i in range(first, last)]


def test_a_hundred_million_entries(monkeypatch):
    endless = Endless(PACK)
    raw = Raw(PACK, "modalities", (), [Part("header", PACK, lambda: Listed([Field("a", 0, 8, "x")])), endless])
    monkeypatch.setattr("tokfmt.browser.tabs.index.sections", lambda *_, **__: raw)

    async def steps(app, press):
        await press("4", "down", "enter", "end")
        parts = app.tab.parts
        assert parts.count == 10**8 + 3
        assert "entry 99,999,999" in shown(parts)[-1]
        assert app.tab.hex.marked == range(99_999_999 % 4000, 99_999_999 % 4000 + 2)
        parts.scroll_to(y=parts.max_scroll_y // 2, animate=False)
        await press()
        assert any(text.startswith("✗") for text in shown(parts))
        assert endless.asked < 2000

    browse([PACK], steps)


def test_a_format_that_does_not_name_its_parts(monkeypatch):
    opened = open_session(SourceRequest((str(PACK),)))
    stated = {"name": "plain", "read_options": opened.opened.format.read_options}
    named = {**stated, "sections": lambda self, path, options: None, **dict.fromkeys(("sniff", "inspect"))}
    plain = type("Plain", (Format,), named)()
    monkeypatch.setattr("tokfmt.registry.get", lambda name: plain)
    opened.opened = Opened(plain, opened.opened.views, opened.opened.separator)

    async def steps(app, press):
        await press("4", "end")
        assert "last bytes" in shown(app.tab.parts)[3]
        assert "does not name its parts" in app.tab.parts.border_subtitle
        assert app.tab.hex.marked.stop == PACK.stat().st_size

    browse([], steps, session=opened)


def test_targets_beyond_the_axis_lead_nowhere():
    from tokfmt.browser.data.session import row_at

    session = open_session(SourceRequest((str(STORE),)))
    chunk = STORE / "train" / "encoded_tokens" / "0"
    assert row_at(session, Pointer(chunk, 0)) == (0, 0)
    assert row_at(session, Pointer(chunk, 0, 10**12)) is None
    assert row_at(session, Pointer(STORE / "train" / ".zgroup", 3)) is None


# findings


def test_findings_lead_to_their_bytes_and_sequences():
    lines = BAD_LINES.read_bytes().split(b"\n")

    async def steps(app, press):
        await press("3")
        found = app.tab.list
        assert found.has_focus
        assert [finding.code for finding in found.findings] == [
            "TF501",
            "TF501",
            "TF503",
            "TF519",
        ]  # a blank line is no error
        assert "3 errors" in str(app.tab.query_one("#checked").render())
        await press("down")
        assert "line 5" in str(app.tab.query_one("#finding").render())
        await press("enter")
        assert app.entry.name == "index"
        assert app.tab.hex.at == sum(len(text) + 1 for text in lines[:4])

    browse([BAD_LINES], steps)


def test_nothing_is_found_and_everything_is_checked():
    async def steps(app, press):
        await press("3")
        words = str(app.tab.query_one("#finding").render())
        assert "index of 42 documents" in words and "tokens: c checks each of them" in words
        await press("s", "x", "enter")
        assert app.entry.name == "findings"
        assert not app.session.verdict.deep
        await press("c")  # the separator of this fixture is inside some documents: only decoding tells
        assert app.session.verdict.deep
        assert app.session.verdict.tokens == app.session.view.reader.info.tokens
        finding = app.tab.list.finding
        await press("s")
        row, unit = app.tab.where
        position = app.tab.session.port.peek_span(row).start + unit
        assert app.session.view.reader.locate(position).offset == finding.offset

    browse([PACK], steps)


# statistics


def check_figures(app, path):
    """The statistics tab of a dataset against numpy, or of text against its characters."""
    found, reader = app.session.statistics, open_source([path]).reader
    if path == CORPUS:
        texts = [json.loads(text)["text"] for text in CORPUS.read_text().splitlines()]
        assert found.text.characters == sum(map(len, texts))
        assert found.lengths.max == max(map(len, texts))
        return
    lengths = np.diff(reader.offsets(0, reader.info.sequences))
    assert (found.sequences, found.tokens) == (len(lengths), int(lengths.sum()))
    assert (
        found.ids.most_frequent[0].count == Counter(reader.tokens(0, reader.info.tokens).tolist()).most_common(1)[0][1]
    )


def test_what_is_counted_are_the_rows_of_the_list_whatever_tokenizer_is_remembered():
    remember(PACK, tokenizer=str(TOKENIZER))  # its end of text is not what separates these documents

    async def steps(app, press):
        await press("2")
        found = app.session.statistics
        assert app.session.vocabulary.handle.eos_id != found.eos_id
        assert found.tokens == app.session.view.reader.info.tokens
        assert found.eos_from == app.session.opened.separator.source

    browse([PACK], steps)


# charts


# sizes


@pytest.mark.parametrize(("key", "tab"), [("4", "index:IndexTab"), ("2", "statistics:StatisticsTab")])
def test_a_tab_knows_its_size_though_the_screen_was_touched_before_it_was_laid_out(key, tab, monkeypatch):
    """Textual tells no size to what became known in between; how often that happens is a matter of timing."""
    module, _, name = tab.partition(":")
    kind = getattr(import_module(f"tokfmt.browser.tabs.{module}"), name)

    def touch(self):
        self.screen._compositor._full_map_invalidated = True  # as the layout before leaves it
        known.append(self.region.width)

    known = []
    monkeypatch.setattr(kind, "on_mount", lambda self: self.call_later(touch, self), raising=False)

    async def steps(app, press):
        await press(key)
        assert known == [160]
        assert app.tab.has_class("wide")
        await press.pilot.resize_terminal(80, 24)
        await press()
        assert not app.tab.has_class("wide")

    browse([PACK], steps, size=(160, 48))
