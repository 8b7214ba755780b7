"""Whatever is typed into a question, and whichever keys are pressed, the browser goes on."""

import asyncio

import pytest
from amount import FUZZ_ONLY, examples, pairs
from browsing import BLOCKS, PACK, browse, browser_of, every_key, has_ended, line, notes, settled, tab_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paths import CORPUS, FIXTURES
from textual.widgets import Input


async def answer(app, press, key, *words):
    await press(key)
    for text in words:
        app.screen.query_one(Input).value = text
        await press("enter")


def test_the_word_of_the_column_is_a_query():
    async def steps(app, press):
        await answer(app, press, "f", "length > 200")
        filtered = tab_of(app).filtered
        assert (filtered.query.low, filtered.query.high) == (201, None)
        assert filtered.results.sequences

    browse([CORPUS], steps)


def test_the_list_is_filtered_while_a_query_is_typed():
    """Escape shows all rows again, at the same place; Enter keeps what is listed."""

    async def steps(app, press):
        tab = tab_of(app)
        count = tab.list.count
        await press("down", "down", "f", *"len>200")
        listed = tab.list.count
        assert 0 < listed < count
        await press("escape")
        assert (tab.list.count, tab.where, tab.filtered) == (count, (2, 0), None)
        await press("f", *"len>200", "enter")
        assert tab.list.count == listed
        assert tab.search is None, "the hits of a text that was listed before the line was complete are gone"
        words = line(app.query_one("#keys"), 0)
        assert "Unfilter" in words and "Next hit" not in words, "a filter by length has no hits"

    browse([CORPUS], steps)


def test_the_first_line_says_that_the_dataset_is_not_the_one_that_was_opened(tmp_path):
    (tmp_path / "a.pbin").write_bytes(PACK.read_bytes())

    async def steps(app, press):
        async def said(words):
            while words not in str(app.query_one("#card").render()):
                await press.pilot.pause(0.1)

        await said("✓ index checked")
        (tmp_path / "a.pbin").write_bytes(PACK.read_bytes() + b" ")
        await said("▲ grew; R ")
        (tmp_path / "a.pbin").write_bytes(PACK.read_bytes()[:-1] + b" ")
        await said("▲ changed; R ")
        (tmp_path / "a.pbin").unlink()
        await said("▲ deleted")

    browse([tmp_path / "a.pbin"], steps)


@pytest.mark.parametrize(("keys", "height"), pairs(["ctrl+p s", "d"], [1, 4]))
def test_pages_of_a_menu_without_room_for_a_line(keys, height):
    async def steps(app, press):
        await press(*keys.split())
        assert len(app.screen_stack) == 2
        await press("pageup", "pagedown", "down", "pageup", "end", "pageup", "home", "pagedown")
        await press("escape")
        assert len(app.screen_stack) == 1
        await press("down")
        assert tab_of(app).where == (1, 0)

    browse([PACK, BLOCKS], steps, size=(80, height))


def test_keys_that_come_before_the_list_of_commands():
    async def steps(app, press):
        for row, action in enumerate(("command_list('page_down')", "command_list('last')", "cursor_down"), 1):
            app.action_command_palette()
            for _ in range(2):
                await app.run_action(action, app.screen)
                await press.pilot.pause()
            await press("escape", "down")
            assert tab_of(app).where == (row, 0)

    browse([PACK], steps)


def test_a_browser_that_ends_below_its_list_of_commands():
    async def steps(app, press):
        app.action_command_palette()
        app.exit()

    browse([PACK], steps)


@FUZZ_ONLY
@pytest.mark.parametrize("name", ["a\0b.svg", "\ud800.svg", "x" * 5000, "nowhere/x.svg", "~nobody/x.svg"])
def test_names_that_no_file_can_have(name):
    async def steps(app, press):
        await answer(app, press, "e", "0", name.replace(".svg", ".jsonl"))
        await press("escape")

    browse([PACK], steps)


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


def said(app):
    return [str(notification.message) for notification in notes(app)]


@FUZZ_ONLY
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


@FUZZ_ONLY
def test_such_numbers_are_refused_while_a_filter_or_an_export_is_typed():
    async def steps(app, press):
        await answer(app, press, "f", "len>1e9999")
        assert "is too large" in str(app.screen.query_one("#meaning").render())
        await press("escape")
        await answer(app, press, "e", "1e400")
        assert "1e400" in str(app.screen.query_one("#meaning").render())
        await press("escape")
        await press("3")
        await answer(app, press, "g", "1e400")
        assert "is too large" in said(app)[-1]

    browse([PACK], steps)


ENDING = {"q", "ctrl+z"}
keys = st.sampled_from(sorted(every_key() - ENDING | {"tab", "shift+tab", "enter", "ctrl+p"}))
steps_of = st.lists(st.one_of(keys, st.tuples(st.sampled_from("gto/fdVBeS:"), words)), min_size=1, max_size=25)


DAMAGED = FIXTURES / "bad" / "megatron" / "meg_ptr_overflow.idx"


@FUZZ_ONLY
@pytest.mark.parametrize("paths", [[PACK, BLOCKS], [CORPUS], [DAMAGED]], ids=["ids", "text", "damaged"])
def test_no_key_and_no_line_ends_the_browser(paths):
    async def go_through(pressed):
        app = browser_of(paths)
        async with app.run_test(size=(80, 24)) as pilot:
            await settled(app, pilot)
            for step in pressed:
                if has_ended(app):  # `:q`, or Quit in the palette
                    break
                key, typed = (step, None) if isinstance(step, str) else step
                await pilot.press({"/": "slash", ":": "colon"}.get(key, key))
                line = app.screen.query(Input)
                if typed is not None and line:
                    line.first().value = typed
                    await pilot.press("enter")
            await settled(app, pilot)
            assert not [text for text in said(app) if "unexpected" in text or "Error:" in text]

    @settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps_of)
    def machine(pressed):
        asyncio.run(go_through(pressed))

    machine()
