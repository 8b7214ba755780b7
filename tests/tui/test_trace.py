"""How many files of tokfmt a reader has to open to follow what the browser does: those of which code runs."""

import asyncio
import sys
import tempfile

import pytest
import tracing
from browsing import PACK, Browser, SourceRequest, open_session, settled, tab_of
from paths import FIXTURES

MOST = {"open": (58, 26), "find": (41, 26), "down": (27, 17), "down beside hits": (29, 19)}
"""Limits of the browser with its colors, columns, badge, strip, history, excerpts and keys typed ahead, with room for a
module that is split."""


async def quiet(pilot):
    """Wait, longer than it takes; asking the browser whether it is idle would run code of its own."""
    for _ in range(10):
        await pilot.pause(0.08)


def files_run() -> dict[str, tracing.Ran]:
    """The files that run at "open" (to the first rows), "down" (once), "find" (a word, until its hit is marked),
    "down beside hits" (once more, as the hits of what comes into sight are marked, too).

    Of a second round: what is done once in a process does not count. The format is named, as every format there is
    would look at the file otherwise; the tokenizer is loaded beside the first rows, where it is needed to find words.
    """
    found: dict[str, tracing.Ran] = {}

    async def round_(tracer: tracing.Tracer) -> None:
        with tracer.counting() as found["open"]:
            session = open_session(SourceRequest((str(PACK),), "modalities"))
            session.probed = True  # the check for the badge runs beside the rows
            app = Browser(session)
            async with app.run_test(size=(120, 36)) as pilot:
                await quiet(pilot)
        session = open_session(SourceRequest((str(PACK),)), str(FIXTURES / "tokenizer"))
        session.probed = True
        app = Browser(session)
        async with app.run_test(size=(120, 36)) as pilot:
            await settled(app, pilot)
            with tracer.counting() as found["down"]:
                await pilot.press("down")
                await quiet(pilot)
            await settled(app, pilot)
            with tracer.counting() as found["find"]:
                await pilot.press("slash", *"the", "enter")
                await quiet(pilot)
            await settled(app, pilot)
            assert tab_of(app).reader.hits
            row = tab_of(app).list.row
            with tracer.counting() as found["down beside hits"]:
                await pilot.press("down")
                await quiet(pilot)
            await settled(app, pilot)
            assert tab_of(app).reader.row == row + 1

    def whole_round(tracer: tracing.Tracer) -> None:
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as home:
            patch.setenv("XDG_STATE_HOME", home)  # no tokenizer is remembered
            patch.delitem(sys.modules, "tokfmt.stores.account", raising=False)  # another test may have used a store
            asyncio.run(round_(tracer))

    whole_round(tracing.Tracer())
    with tracing.traced() as tracer:
        whole_round(tracer)
    return found


@pytest.mark.slow
def test_few_files_run():
    for name, ran in files_run().items():
        (most, most_inside), inside = MOST[name], ran.of("browser/")
        print(name, len(ran.files), len(inside))
        assert len(ran.files) <= most, name
        assert len(inside) <= most_inside, name
