"""The browser driven without a terminal, over every format."""

import itertools
import json
import pickle
import re
import struct

import numpy as np
import pytest
from amount import FUZZ_ONLY, first
from browsing import BLOCKS, EVERY, PACK, Fake, Mode, browse, line, notes, reader_text, recall, session_of, tab_of
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.errors import CorruptError


def list_line(app, row):
    return tab_of(app).list.render_line(row + 1 - tab_of(app).list.top).text


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_every_format_shows_what_it_holds(path):
    expected = tokfmt.open(path).reader
    count = expected.info.sequences

    async def steps(app, press):
        tab = tab_of(app)
        for row, keys in ((0, ()), (1, ("down",)), (count - 1, ("end",))):
            await press(*keys)
            assert tab.where == (row, 0)
            start, stop = expected.offsets(row, row + 1).tolist()
            shown = [run.token for line in tab.reader.lines for run in line.runs]
            assert shown[:1] == ([0] if stop > start else [])
            ids = expected.tokens(start, min(stop, start + 3)).tolist()
            assert reader_text(app).split()[: len(ids)] == [str(token) for token in ids]
            assert " ".join(map(str, ids[:2])) in list_line(app, row)
        await press("home")
        assert tab.where == (0, 0)

    browse([path], steps)


def test_samples_are_shown_when_nothing_tells_where_documents_end():
    async def steps(app, press):
        tab = tab_of(app)
        assert tab.session.shown == "samples"
        assert any("--eos" in note for note in tab.session.opened.notes)
        await press("v", "down")
        assert tab.where == (1, 0)

    browse([FIXTURES / "hdf5" / "packed_overlap"], steps)


@FUZZ_ONLY
def test_text_without_a_tokenizer_is_shown_as_characters():
    record = json.loads(CORPUS.read_text().splitlines()[3])["text"]

    async def steps(app, press):
        await press("g", "3", "enter", "tab", "right", "right")
        tab = tab_of(app)
        assert tab.where == (3, 2)
        assert reader_text(app).replace("\n", "").startswith(record[:20])
        assert f"{ord(record[2])}" in str(tab.query_one("#detail").render())

    browse([CORPUS], steps)


@FUZZ_ONLY
def test_moves_in_the_reader():
    async def steps(app, press):
        tab = tab_of(app)
        await press("g", "1", "1", "enter", "tab")
        assert tab.where == (11, 0)
        for keys, token in ((("right", "right"), 2), (("left",), 1), (("end",), 1115), (("home",), 0)):
            await press(*keys)
            assert tab.where == (11, token)
        await press("pagedown")
        below = tab.where[1]
        assert below > 100
        await press("up")
        assert tab.where[1] < below
        await press("right_square_bracket")
        assert tab.where == (12, 0)
        await press("left_square_bracket", "left_square_bracket")
        assert tab.where == (10, 0)

    browse([PACK], steps)


def test_documents_and_samples():
    async def steps(app, press):
        tab = tab_of(app)
        assert tab.session.shown == "documents"
        await press("v")
        assert tab.session.shown == "samples"
        assert tab.session.port.peek_span(0).length == 8192
        await press("v")
        assert tab.session.shown == "documents"
        assert tab.where[0] == 0

    browse([BLOCKS], steps)


@FUZZ_ONLY
def test_sizes_and_panes():
    async def steps(app, press):
        tab = tab_of(app)
        for width, height in ((80, 24), (200, 60), (40, 10), (160, 48)):
            await press.pilot.resize_terminal(width, height)
            await press()
            assert reader_text(app)
            assert tab.list.size.width + tab.reader.size.width < width
        await press("z")
        assert tab.reader.size.width > 150
        await press("z")
        assert tab.reader.size.width < 150

    browse([PACK], steps, tokenizer=str(TOKENIZER))


@FUZZ_ONLY
def test_several_datasets_and_one_that_is_damaged(tmp_path):
    bad = tmp_path / "x.pbin"
    bad.write_bytes(b"\x05" * 40)

    async def steps(app, press):
        await press("d", "down", "enter")
        assert app.session.opened.format.name == "stage1"
        await press("d", "end", "enter")
        assert "x.pbin" in str(app.session.refused)
        assert "cannot be read" in str(app.query_one("#card").render())
        await press("d", "home", "enter")
        assert app.session.opened.format.name == "modalities"

    browse([PACK, BLOCKS, bad], steps)


@pytest.mark.parametrize("part", ["tokens", "index"])
def test_the_tokens_that_a_cut_pack_has_are_shown(part, tmp_path):
    """Whatever part is cut: rows without documents, and the error among the findings, with what can be saved."""
    raw, path = PACK.read_bytes(), tmp_path / "x.pbin"
    length, width = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:12], "little")
    path.write_bytes(raw[: 12 + length // 2 + 1] if part == "tokens" else raw[:-40])
    there = min(path.stat().st_size - 12, length) // width
    expected = np.frombuffer(raw, f"<u{width}", there, 12)

    async def steps(app, press):
        tab = tab_of(app)
        assert not tab.session.failure
        assert tab.session.view.reader.info.tokens == there
        assert reader_text(app).split()[:5] == [str(token) for token in expected[:5]]
        assert any(str(path) in note for note in tab.session.opened.notes)
        await press("2")
        facts = {fact.name: fact.value for fact in app.tab.query_one("#facts").lines.facts}
        assert (facts["tokens"], facts["different IDs"]) == (f"{there:,}", f"{len(np.unique(expected)):,}")
        (error,) = [one for one in app.session.verdict.findings if one.severity == "error"]
        assert f" {saved} " in error.remedy if saved else "allow-partial" not in error.remedy

    saved = 0
    if part == "index":
        tokfmt.convert(path, tmp_path / "saved.jsonl", allow_partial=True, eos="none")
        saved = len((tmp_path / "saved.jsonl").read_text().splitlines())
        assert 0 < saved < 42
    browse([path], steps)


@pytest.mark.parametrize("columns", range(60, 80, 4))
def test_a_message_is_broken_between_words(columns):
    why = "the chunk is damaged beyond everything that anybody has ever seen of that kind"

    class Broken(Fake):
        def tokens(self, start, stop):
            raise CorruptError("a.bin", why)

    async def steps(app, press):
        reader = tab_of(app).reader
        drawn = " ".join(reader.render_line(y).text.strip() for y in range(reader.size.height - 5))
        assert set(why.split()) <= {*drawn.split(), *reader_text(app).split()}

    browse([], steps, session=session_of(Broken()), size=(columns, 30))


def test_the_answer_of_a_stale_worker_is_dropped():
    async def steps(app, press):
        tab = tab_of(app)
        called = []
        tab.loader.ask(lambda: 1, called.append)
        tab.loader.forget()
        await press()
        assert called == []

    browse([PACK], steps)


def test_a_filter_that_finds_nothing_shows_nothing_until_it_is_removed():
    async def steps(app, press):
        tab = tab_of(app)

        def shown():
            return reader_text(app), tab.strip.display, str(tab.query_one("#detail").render()).strip()

        await press("v", "down", "down", "enter", "right")
        where = tab.where
        assert all(shown())
        await press("f", *"len", "greater_than_sign", *"99999", "enter")
        assert tab.list.count == 0
        assert shown() == ("", False, "")
        for key in ("m", "T", "escape", "right_square_bracket", "right"):  # IDs, tokenizers
            await press(key)
            assert shown() == ("", False, ""), key
        await press("m", "m")
        for size in ((80, 24), (120, 36)):
            await press.pilot.resize_terminal(*size)
            await press()
            assert shown() == ("", False, ""), size
        app.use_tokenizer(str(TOKENIZER))
        await press()
        assert shown() == ("", False, "")
        await press("F")
        assert all(shown())
        assert tab.where == where

    browse([FIXTURES / "hdf5" / "padded_eos"], steps)


@pytest.mark.parametrize("kind", first(1, ["pack", "text"]))
def test_one_of_a_kind_is_counted_in_the_singular(kind, tmp_path):
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps({"text": "word"} if kind == "text" else {"input_ids": [7]}) + "\n")
    if kind == "pack":
        tokfmt.convert(path, tmp_path / "one.pbin", eos=0)
        path = tmp_path / "one.pbin"

    async def steps(app, press):
        for keys in ((), ("2",), ("1", "g"), ("escape", "e")):
            await press(*keys)
            widgets = list(app.screen.query("*"))
            drawn = [line(one, y) for one in widgets if not one.children for y in range(one.size.height)]
            words = "\n".join([*(str(one.border_title) for one in widgets), *drawn])
            assert not re.search(r"\b1 (record|document|token|row|group|dataset)s\b", words)
            assert keys or re.search(r"\b1 (record|document)\b", words)

    browse([path], steps)


@pytest.mark.parametrize("odd", [[5, 6, 7], []])
def test_a_row_that_ends_otherwise_than_all_that_were_looked_at(tmp_path, odd):
    """Row 80 of 6,000 is shown by its own end, and so are those around it."""
    contents = [[1, 2 + k % 7] for k in range(6000)]
    tokfmt_pack(
        tmp_path / "x.pbin", [*([*one, 9] for one in contents[:80]), odd, *([*one, 9] for one in contents[80:])]
    )
    contents.insert(80, odd)

    async def steps(app, press):
        port = tab_of(app).session.view.port
        for row in (6000, 79, 80, 81, 80, 3, 6000):
            port.load_spans(row, row + 1)
            for _ in range(2):
                port.load(row, 0, 9)
            assert port.peek(row, 0, 9).units.tolist() == contents[row]
        await press("/", *"token:1,4", "enter")
        search = tab_of(app).search
        assert search.failure == ""
        assert search.results.hits == sum(one == [1, 4] for one in contents)

    browse([tmp_path / "x.pbin"], steps)


def tokfmt_pack(place, documents):
    bounds = np.cumsum([0, *map(len, documents)]) * 2
    data = np.array([token for one in documents for token in one], "<u2").tobytes()
    index = pickle.dumps([(int(a), int(b - a)) for a, b in itertools.pairwise(bounds)])
    place.write_bytes(struct.pack("<QI", len(data), 2) + data + index)


@FUZZ_ONLY
def test_text_is_decoded_when_the_tokenizer_is_there():
    first = json.loads(CORPUS.read_text().splitlines()[3])["text"]

    async def steps(app, press):
        await press("down", "down", "down")
        assert reader_text(app).replace("\n", "").startswith(first[:20])
        assert first[:20] in list_line(app, 3)
        assert tab_of(app).session.port.unit == "token"
        await press("m")
        assert tab_of(app).reader.mode is Mode.IDS
        numbers = [int(word) for word in reader_text(app).split()]
        await press("m")
        assert tab_of(app).reader.mode is Mode.BOTH
        assert set(map(str, numbers[:3])) <= set(reader_text(app).split())

    browse([CORPUS], steps, tokenizer=str(TOKENIZER))


@FUZZ_ONLY
def test_a_trillion_documents():
    async def steps(app, press):
        tab = tab_of(app)
        await press("end")
        assert tab.where == (10**12 - 1, 0)
        assert "999,999,999,999" in list_line(app, 10**12 - 1)
        await press("tab", "end")
        assert tab.where == (10**12 - 1, 99)
        await press("g", *"5e11", "enter")
        assert tab.where == (5 * 10**11, 0)
        await press("pageup", "shift+tab", "pageup", "up")
        tab.list.scroll_to(y=25 * 10**10, animate=False)
        await press()
        assert abs(tab.list.top - 25 * 10**10) < 100

    browse([], steps, session=session_of(Fake()))


@FUZZ_ONLY
def test_damage_is_shown_in_its_place():
    async def steps(app, press):
        tab = tab_of(app)
        assert "✗ a.bin" in list_line(app, 0)
        assert "the chunk is damaged" in reader_text(app)
        await press("g", *"200", "enter")
        assert reader_text(app).split()[0] == "20000"
        assert tab.where == (200, 0)

    browse([], steps, session=session_of(Fake(broken=(3,))))


@FUZZ_ONLY
def test_a_tokenizer_is_remembered_for_the_dataset():
    async def nothing(app, press):
        assert app.session.vocabulary is not None

    browse([PACK], nothing, tokenizer=str(TOKENIZER))
    assert recall(PACK)["tokenizer"] == str(TOKENIZER)
    browse([PACK], nothing)


@FUZZ_ONLY
def test_a_tokenizer_that_cannot_be_loaded_is_a_notification(tmp_path):
    bad = tmp_path / "tokenizer.json"
    bad.write_text("{}")

    async def steps(app, press):
        assert any("is not a tokenizer.json" in str(one.message) for one in notes(app))
        assert reader_text(app).split()[0] == "464"
        await press("down")
        assert app.is_running

    browse([PACK], steps, tokenizer=str(bad))


@FUZZ_ONLY
def test_the_first_line_is_told_before_and_after_its_labels_are_there():
    """What a store answers may arrive while the browser starts or ends."""

    async def steps(app, press):
        bar = app.query_one("#topbar")
        await bar.remove_children()
        app.say()
        bar.say_filter("len>5")

    browse([PACK], steps)
