"""The browser's file and overview, over every format."""

import json
import os
import shutil
from collections import Counter
from importlib import import_module

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsing import Row, browse, line, notes, remember
from opened import open_source
from paths import CORPUS, FIXTURES, TOKENIZER

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
BLOCKS = FIXTURES / "stage1" / "blocks"


def shown(widget):
    return [line(widget, y) for y in range(widget.size.height)]


@FUZZ_ONLY
def test_sections_open_and_close():
    async def steps(app, press):
        await press("3", "home")
        parts = app.tab.parts
        before = parts.count
        await press("left")
        assert parts.count == before - 3
        await press("down", "enter")  # the tokens
        assert parts.count == before - 3 + parts.outline.counts[1]
        await press("end")
        assert "sum of lengths" in shown(parts)[-1]
        assert "sum of lengths" in str(app.tab.query_one("#field").render())
        await press("pageup", "up", "home", "enter", "z")
        assert app.tab.hex.has_focus
        assert parts.size.width == 0

    browse([PACK], steps)


def test_a_record_shows_its_line():
    second = CORPUS.read_bytes().split(b"\n")[0] + b"\n"

    async def steps(app, press):
        await press("down", "x")
        assert app.tab.hex.marked.start == len(second)

    browse([CORPUS], steps)


@FUZZ_ONLY
@pytest.mark.parametrize("how", ["another", "grown", "gone"])
def test_nothing_is_told_of_what_was_put_in_its_place(how, tmp_path):
    """The rows on the screen are those that were opened; what reads the files once more says that they are others."""
    path = tmp_path / "x.pbin"
    shutil.copy(PACK, path)

    async def steps(app, press):
        if how == "gone":
            path.unlink()
        elif how == "grown":
            path.write_bytes(path.read_bytes() + b"x")
        else:
            shutil.copy(FIXTURES / "modalities" / "C_2byte_gpt2.pbin", tmp_path / "new")
            os.replace(tmp_path / "new", path)
        await press("3")
        assert "x.pbin: was replaced or changed since it was opened here" in str(app.tab.query_one("#field").render())
        assert app.tab.hex.path is None
        await press("2")
        await press("a")
        assert "was replaced or changed" in str(app.tab.query_one("#counting").render())
        assert app.session.statistics is None

    browse([path], steps)


@FUZZ_ONLY
def test_another_dataset_has_its_own_findings_and_statistics():
    async def steps(app, press):
        await press("3", "2")
        first = app.session.statistics
        await press("d", "end", "enter")
        assert app.session.statistics.sequences != first.sequences
        assert app.session.verdict.path == str(BLOCKS)
        await press("d", "home", "enter")
        assert app.session.statistics is first
        assert app.tab.found is first

    browse([PACK, BLOCKS], steps)


@FUZZ_ONLY
def test_everything_fits_in_any_size():
    async def steps(app, press):
        for width, height in ((80, 24), (40, 10)):
            await press.pilot.resize_terminal(width, height)
            for key in ("2", "3"):
                await press(key)
                assert all(widget.region.right <= width for widget in app.tab.query("*"))
            await press("1")
            for key in ("question_mark", "g", "slash", "f", "e"):
                await press(key)
                box = app.screen.query(".box, #help, Prompt").first()
                assert all(widget.region.right <= box.region.right <= width for widget in box.query("*")), key
                await press("escape")

    browse([PACK], steps, tokenizer=str(TOKENIZER))


STORE = FIXTURES / "flat-tokens" / "multi_chunk.zarr"


HDF5 = FIXTURES / "hdf5" / "padded_eos"


BAD_LINES = FIXTURES / "bad" / "jsonl" / "control_invalid_lines.jsonl"


@FUZZ_ONLY
@pytest.mark.parametrize("path", [PACK, BLOCKS, STORE, HDF5, CORPUS], ids=lambda path: path.name)
def test_every_format_shows_its_parts_their_bytes_and_figures(path):
    async def steps(app, press):
        await press("3", "home", "down")
        parts, view = app.tab.parts, app.tab.hex
        assert parts.has_focus
        assert shown(parts)[0].startswith("▾ ")
        field, section = parts.field, parts.section
        assert str(field.value)[:4] in shown(parts)[1]
        content = (field.path or section.path).read_bytes()
        assert (view.at, view.marked) == (field.offset, range(field.offset, field.offset + field.length))
        row = field.offset // 16
        assert "".join(shown(view)[row - view.top].split()[1:]).startswith(content[row * 16 :][:8].hex())
        await press("2")
        check_figures(app, path)

    browse([path], steps)


@FUZZ_ONLY
@pytest.mark.parametrize(
    ("path", "title"),
    [
        (STORE, "entries of train/seq_starts"),
        (CORPUS, "lines of corpus.jsonl"),
        (HDF5, "storage of /data of examples_1"),
    ],
    ids=["flat-tokens", "jsonl", "hdf5"],
)
def test_fields_of_every_format_lead_to_what_they_are_about(path, title):
    async def steps(app, press):
        await press("3")
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


@FUZZ_ONLY
def test_bytes_by_offset_and_back_to_their_sequence():
    reader = open_source([PACK]).reader

    async def steps(app, press):
        await press("3", "g", *"2012", "enter")
        view = app.tab.hex
        assert view.has_focus
        assert view.at == 2012
        await press("right", "up", "enter")
        place = 2013 - 16
        start = int(reader.offsets(0, reader.info.sequences)[app.tab.where[0]])
        stored = np.frombuffer(PACK.read_bytes()[place - 1 : place + 1], "<u2")[0]
        assert reader.tokens(start + app.tab.where[1], start + app.tab.where[1] + 1)[0] == stored
        await press("x")  # and back again
        assert app.entry.name == "file"
        assert view.marked == range(place - 1, place + 1)
        await press("g", *"1e9", "enter")
        assert view.at == place - 1
        assert any("4,409 bytes" in str(notification.message) for notification in notes(app))
        await press("home", "enter")  # the header is no token
        assert app.entry.name == "file"

    browse([PACK], steps)


@FUZZ_ONLY
def test_findings_lead_to_their_bytes_and_sequences():
    lines = BAD_LINES.read_bytes().split(b"\n")

    async def steps(app, press):
        await press("3")
        parts = app.tab.parts
        assert parts.has_focus
        below = [finding.code for found in parts.outline.findings.values() for finding in found]
        assert sorted(below) == ["TF501", "TF501", "TF503", "TF519"]  # a blank line is no error
        row = parts.outline.row_of(next(one for one in app.session.verdict.findings if "line 5" in one.message))
        parts.choose(parts.outline.line(row))
        await press()
        assert "line 5" in str(app.tab.query_one("#field").render())
        assert app.tab.hex.at == sum(len(text) + 1 for text in lines[:4])

    browse([BAD_LINES], steps)


@FUZZ_ONLY
def test_nothing_is_found_and_everything_is_checked():
    async def steps(app, press):
        await press("3")
        assert not app.session.verdict.deep
        await press("a")  # the separator of this fixture is inside some documents: only decoding tells
        assert app.session.verdict.deep
        assert app.session.verdict.tokens == app.session.view.reader.info.tokens
        finding = app.tab.parts.finding
        await press("enter")
        row, unit = app.tab.where
        position = app.tab.session.port.peek_span(row).start + unit
        assert app.session.view.reader.locate(position).offset == finding.offset

    browse([PACK], steps)


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


@FUZZ_ONLY
def test_what_is_counted_are_the_rows_of_the_list_whatever_tokenizer_is_remembered():
    remember(PACK, tokenizer=str(TOKENIZER))  # its end of text is not what separates these documents

    async def steps(app, press):
        await press("2")
        found = app.session.statistics
        assert app.session.vocabulary.handle.eos_id != found.eos_id
        assert found.tokens == app.session.view.reader.info.tokens
        assert found.eos_from == app.session.opened.separator.source

    browse([PACK], steps)


@FUZZ_ONLY
@pytest.mark.parametrize(("key", "tab"), [("3", "file:FileTab"), ("2", "statistics:StatisticsTab")])
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
