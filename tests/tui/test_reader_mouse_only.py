"""Everything that a key does, done with a mouse: lists of dialogs, ranges, the wheel beside the panes, words that lead on."""

from amount import FUZZ_ONLY
from browsing import PACK, browse, clicks, line, listed, tab_of
from paths import FIXTURES
from textual.events import MouseScrollDown

from tokfmt.browser.widgets.reader import TokenDetails


@FUZZ_ONLY
def test_the_wheel_over_the_details_turns_the_reader():
    async def steps(app, press):
        tab = tab_of(app)
        await press("g", *"11", "enter")
        details = tab.query_one(TokenDetails)
        before, (x, y, *_) = tab.reader.lines[0].first, details.region
        details.post_message(MouseScrollDown(details, 0, 0, 0, 0, 0, False, False, False, x, y))
        await press()
        assert tab.reader.lines[0].first > before
        assert tab.where == (11, 0)

    browse([PACK], steps, size=(80, 24))


# words that lead on


async def click_words(app, press, widget, words):
    """Click on words that a widget shows."""
    text = [line(widget, y) for y in range(widget.size.height)]
    y = next(y for y, one in enumerate(text) if words in one)
    region = widget.content_region
    await clicks(app, press, region.x + text[y].index(words) + 1, region.y + y)


@FUZZ_ONLY
def test_the_facts_of_a_token_lead_on():
    async def steps(app, press):
        tab, detail = tab_of(app), app.query_one(TokenDetails)
        await press("g", *"11", "enter", "enter", "right", "right")
        token = int(app.session.port.peek(11, 2, 3).units[0])
        await click_words(app, press, detail, str(token))
        assert tab.filtered.words == f"token:{token}"
        assert 11 in listed(app)
        await press("F", "g", *"11", "enter")
        await click_words(app, press, detail, " of D_2byte_gpt2.pbin")
        assert app.entry.name == "file"

    browse([PACK], steps)


@FUZZ_ONLY
def test_the_origin_of_a_token_leads_to_it():
    async def steps(app, press):
        await press("g", *"3", "enter")
        await click_words(app, press, app.query_one(TokenDetails), "#")
        assert len(app.requests) == 2
        assert app.session.shown == "documents"

    browse([FIXTURES / "recipe" / "mix.toml"], steps, size=(140, 40))
