"""The dataset opened again at the same place, and the badge of the tab of findings."""

import json

import pytest
from amount import FUZZ_ONLY
from browsing import PACK, STORE, SourceRequest, browse, notes, other_split, reopened, shown_session, tab_of
from paths import CORPUS, FIXTURES, TOKENIZER

BAD = FIXTURES / "bad" / "megatron" / "meg_ptr_overflow.idx"


@FUZZ_ONLY
def test_the_place_is_kept_with_a_tokenizer_and_a_view():
    async def steps(app, press):
        tab = tab_of(app)
        await press("v", "down", "down")
        assert app.session.shown == "samples"
        await press("R")
        assert app.session.shown == "samples"
        assert tab.where == (2, 0)
        assert app.session.vocabulary is not None

    browse([FIXTURES / "hdf5" / "padded_eos"], steps, tokenizer=str(TOKENIZER))


def test_the_split_is_kept():
    session = other_split(shown_session(SourceRequest([STORE])), "validation")
    again = reopened(session)
    assert (again.split, again.splits, again.asked) == ("validation", ("train", "validation"), session.asked)


@pytest.mark.parametrize(("keys", "tab", "widget", "place"), [
    ("3 tab g 1 0 0 enter", "file", "hex", lambda app: app.focused.at),
    ("3 home down down down", "file", "parts", lambda app: app.focused.row),
    ("2 tab", "statistics", "groups", lambda app: app.focused.display),
])  # fmt: skip
def test_each_tab_keeps_its_place(tmp_path, keys, tab, widget, place):
    file = tmp_path / "grows.jsonl"
    lines = [json.dumps({"text": f"line {number % 7}"}) for number in range(30)]
    file.write_text("".join(f"{one}\n" for one in lines))

    async def steps(app, press):
        await press("down", *keys.split())
        before = app.entry.name, app.focused.id, place(app)
        assert before[:2] == (tab, widget)
        with file.open("a") as opened:
            opened.write(f"{lines[0]}\n")
        await press("R")
        assert app.session.port.count == len(lines) + 1
        assert (app.entry.name, app.focused.id, place(app))[:2] == before[:2]
        assert str(place(app)).split(" of ")[0] == str(before[2]).split(" of ")[0]
        await press("1")
        assert tab_of(app).where[0] == 1

    browse([file], steps)


# the badge


def label(app):
    return str(app.query_one("#label-file").render())


def test_damage_is_on_the_label_of_the_findings():
    async def steps(app, press):
        assert label(app).endswith("File ✗1")
        await press("3")
        assert app.tab.parts.finding is not None

    browse([BAD], steps)


def test_a_healthy_dataset_has_no_badge():
    async def steps(app, press):
        assert label(app).endswith("File")
        assert app.session.verdict is not None
        verdict = app.session.verdict
        await press("3")
        assert app.session.verdict is verdict  # not checked twice

    browse([PACK], steps)


LINES = CORPUS.read_bytes().splitlines(keepends=True)


@FUZZ_ONLY
def test_a_file_that_is_gone_leaves_what_was_read(tmp_path):
    file = tmp_path / "some.jsonl"
    file.write_bytes(b"".join(LINES[:20]))

    async def steps(app, press):
        await press("down")
        file.unlink()
        before = app.session
        await press("R")
        assert app.session is before
        assert list(notes(app))[-1].message.startswith("Not opened again: ")
        assert tab_of(app).where == (1, 0)

    browse([file], steps)
