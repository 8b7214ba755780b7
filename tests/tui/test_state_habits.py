"""What hands know from vim, from web browsers and from the mouse: hits, ends, half pages, the way back, recent lines."""

from amount import FUZZ_ONLY
from browsing import PACK, browse
from textual.widgets import Input

from tokfmt.browser.data.state import Queries, recall, remember


async def answer(app, press, key, words):
    await press(key)
    app.screen.query_one(Input).value = words
    await press("enter")


# lines that were typed before


@FUZZ_ONLY
def test_arrows_bring_recent_queries_also_after_a_restart():
    async def typed(app, press):
        for words in ("464", "len>50", "3290", "464"):
            await answer(app, press, "slash", words)
        await press("f")
        value = app.screen.query_one(Input)
        assert value.value == "464"
        seen = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await press(key)
            seen.append(value.value)
        assert seen == ["3290", "len>50", "len>50", "3290", "464", "464"]
        value.value = "half"
        await press("up", "down")
        assert value.value == "half"
        await press("escape")

    async def again(app, press):
        await press("slash", "up")
        assert app.screen.query_one(Input).value == "464"
        await press("up")
        assert app.screen.query_one(Input).value == "3290"

    browse([PACK], typed)
    assert recall(PACK)["queries"] == ["len>50", "3290", "464"]
    browse([PACK], again)


def test_queries_of_a_file_that_somebody_edited():
    remember(PACK, queries=["a", 5, None, "x" * 5000, ["b"], "c"])
    assert Queries(PACK).all == ["a", "c"]
    remember(PACK, queries={"a": 1})
    assert Queries(PACK).all == []
