"""Whatever is typed into a question, and whichever keys are pressed, the browser goes on."""

import asyncio

import pytest
from amount import examples
from browsing import BLOCKS, PACK, browse, tab_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import CORPUS, FIXTURES
from textual.widgets import Input

from tokfmt.browser.app import Browser, settled
from tokfmt.browser.data.session import shown_session
from tokfmt.browser.keys import _bindings
from tokfmt.browser.tabs.compare import CompareTab
from tokfmt.browser.tabs.findings import FindingsTab, FindingTable
from tokfmt.browser.tabs.index import HexView, IndexTab
from tokfmt.browser.tabs.sequences import SequencesTab
from tokfmt.browser.tabs.statistics import StatisticsTab
from tokfmt.browser.widgets.outline import Parts
from tokfmt.browser.widgets.reader import Reader
from tokfmt.browser.widgets.row_view import RowView
from tokfmt.browser.widgets.table import Table
from tokfmt.source.request import SourceRequest


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def said(app):
    return [str(notification.message) for notification in app._notifications]


async def answer(app, press, key, *words):
    await press(key)
    for place, text in zip(app.screen.query(Input), words):
        place.value = text
    await press("enter")


@pytest.mark.parametrize(("key", "words", "says"), [
    ("g", "1e400", "is too large"), ("g", "t:1e400", "is too large"), ("g", "@1e400", "is too large"),
    ("g", "9" * 5000, "is too large"), ("g", "1e20*1e20", "is too large"), ("g", "1e400%", "0% to 100%"),
    ("g", "t:-1e400", "is too large"), ("g", "@x:1e400", "is too large"),
])  # fmt: skip
def test_numbers_beyond_a_float_are_refused_in_a_line(key, words, says):
    async def steps(app, press):
        await answer(app, press, key, words)
        assert says in said(app)[-1]
        assert len(said(app)[-1]) < 200
        assert tab_of(app).where == (0, 0)

    browse([PACK], steps)


def test_such_numbers_are_refused_while_a_filter_or_an_export_is_typed():
    async def steps(app, press):
        await answer(app, press, "f", "len>1e9999")
        assert "is too large" in str(app.screen.query_one("#meaning").render())
        await press("escape")
        await answer(app, press, "e", "1e400", "x.jsonl")
        assert "1e400" in str(app.screen.query_one("#saying").render())
        await press("escape")
        await press("4")
        await answer(app, press, "g", "1e400")
        assert "is too large" in said(app)[-1]

    browse([PACK], steps)


KINDS = (
    Browser,
    SequencesTab,
    IndexTab,
    FindingsTab,
    StatisticsTab,
    CompareTab,
    Reader,
    RowView,
    Parts,
    HexView,
    FindingTable,
    Table,
)
ENDING = {"q", "ctrl+z"}
KEYS = sorted(
    {binding.key for kind in KINDS for binding in _bindings(kind)} - ENDING | {"tab", "shift+tab", "enter", "ctrl+p"}
)
keys = st.sampled_from(KEYS)
numbers = st.one_of(
    st.integers().map(str),
    st.floats().map(repr),
    st.builds("{}e{}".format, st.integers(-9, 9), st.integers(-(10**5), 10**5)),
    st.builds(
        "{}{}".format, st.integers(-(10**30), 10**30), st.sampled_from(["k", "Ki", "T", "%", "*7", ":5", "_", ","])
    ),
)
queries = st.one_of(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["len", "length", "token:", "text:", "Len"]),
        st.sampled_from([">", "<=", "=", ""]),
        numbers,
    ),
    st.builds("{}<{}<{}".format, numbers, st.sampled_from(["len", "length", "token"]), numbers),
    st.from_regex(r"[(\[{*+?^$|\\a-c1-9)\]}:]{1,12}", fullmatch=True),
)
words = st.one_of(numbers, queries, st.text(max_size=40))
steps_of = st.lists(st.one_of(keys, st.tuples(st.sampled_from("gto/fdVBeS:"), words)), min_size=1, max_size=25)


DAMAGED = FIXTURES / "bad" / "megatron" / "meg_ptr_overflow.idx"


@pytest.mark.parametrize("paths", [[PACK, BLOCKS], [CORPUS], [DAMAGED]], ids=["ids", "text", "damaged"])
def test_no_key_and_no_line_ends_the_browser(paths, monkeypatch):
    monkeypatch.setattr("tokfmt.browser.data.search.PATIENCE", 0.2)

    async def go_through(pressed):
        requests = [SourceRequest((str(path),)) for path in paths]
        app = Browser(shown_session(requests[0]), requests[1:])
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(app, pilot)
            for step in pressed:
                if app._exit:  # `:q`, or Quit in the palette
                    break
                key, typed = (step, None) if isinstance(step, str) else step
                await pilot.press({"/": "slash", ":": "colon"}.get(key, key))
                line = app.screen.query(Input)
                if typed is not None and line and len(app.screen_stack) > 1:
                    line.first().value = typed
                    await pilot.press("enter")
            await settled(app, pilot)
            assert app._exception is None
            assert not [text for text in said(app) if "unexpected" in text or "Error:" in text]

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps_of)
    def machine(pressed):
        asyncio.run(go_through(pressed))

    machine()
