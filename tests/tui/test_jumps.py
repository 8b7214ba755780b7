"""Keys pressed faster than a disk answers: every jump and every move arrives, in the order they were asked for."""

import asyncio
import threading
import time

import numpy as np
from amount import FUZZ_ONLY
from browsing import PACK, Browser, Fake, MemoryReader, Ragged, browse, session_of, settled, tab_of


def test_a_search_beside_a_filter_says_how_many_of_its_rows_are_listed():
    """And each note that says that there is no other hit is in the place of the one before."""

    async def main():
        app = Browser(session_of(MemoryReader(Ragged.of([[k, 50] for k in range(20)]))))
        async with app.run_test(size=(120, 36), notifications=True) as pilot:
            await settled(app, pilot)
            tab_of(app).filter("seq:3,5")
            await settled(app, pilot)
            for ids, words in (
                ("token:7", "1 hit in 1 document, none listed"),
                ("any:3,7", "hit 1 of 2 in 2 documents, 1 listed"),
            ):
                tab_of(app).find(ids)
                await settled(app, pilot)
                assert words in str(app.query_one("#findbar").render())
            places = set()
            for _ in range(3):
                await pilot.press("n")
                await settled(app, pilot)
                await pilot.pause(0.05)
                places.add(app.query_one("Toast").region.y)
            assert places == {35}  # the last line

    asyncio.run(main())


class Uneven(Fake):
    """Reads take their time, the earlier ones more of it."""

    def __init__(self):
        super().__init__()
        self.info = self.info.__class__(self.info.layout, np.dtype(np.uint32), 2000, 200_000)
        self.slow, self.reads = False, 0
        self.main = threading.get_ident()

    def tokens(self, start, stop):
        assert threading.get_ident() != self.main, "read on the thread of the screen"
        if self.slow:
            self.reads += 1
            time.sleep(max(0.0, 0.1 - self.reads * 0.02))
        return (np.arange(start, stop) % 50_000).astype(np.uint32)


@FUZZ_ONLY
def test_the_next_hit_pressed_fast_is_as_many_hits_further():
    reader = Uneven()

    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot
        await press("slash", "7", "7", "enter")
        assert tab.where == (0, 77)
        reader.slow = True
        for _ in range(9):
            app.simulate_key("n")
            await pilot.pause(0.01)
        app.simulate_key("N")
        await press()
        assert tab.search.results.hits == 4  # tokens are numbered to 50,000, and there are 200,000
        assert tab.query_one("#findbar").number == 0  # eight further, around twice
        assert tab.where == (0, 77)
        await press("down", "n", "n")
        assert tab.query_one("#findbar").number == 2
        assert tab.where == (1000, 77)

    browse([], steps, session=session_of(reader))


@FUZZ_ONLY
def test_no_key_is_lost_while_the_next_hit_is_looked_for():
    """One that waits for a disk: the keys pressed meanwhile are steps from where it leads."""
    gate = threading.Event()

    async def steps(app, press):
        tab = tab_of(app)
        await press("slash", "7", "7", "enter")
        following = tab.search.following
        tab.search.following = lambda *words: following(*words) if gate.wait(60) else None
        for _ in range(3):
            app.simulate_key("n")
            await press.pilot.pause(0.01)
        gate.set()
        await press()
        assert tab.query_one("#findbar").number == 3

    browse([], steps, session=session_of(Uneven()))


class Long(Fake):
    """Three documents of 100,000 tokens, each of a read that waits for the gate."""

    def __init__(self):
        super().__init__()
        self.info = self.info.__class__(self.info.layout, np.dtype(np.uint32), 3, 300_000)
        self.gate = threading.Event()
        self.gate.set()

    def offsets(self, first, last):
        return np.arange(first, last + 1, dtype=np.int64) * 100_000

    def tokens(self, start, stop):
        assert self.gate.wait(60)
        return super().tokens(start, stop)


@FUZZ_ONLY
def test_moves_that_wait_for_a_disk_are_all_made():
    reader = Long()

    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot
        await press("tab")
        reader.gate.clear()
        for key in ("end", "left", "left", "left", "up"):
            await pilot.press(key)
        reader.gate.set()
        await press()
        line = next(line for line in tab.reader.lines if line.first <= tab.reader.cursor < line.last)
        await press("end", "left", "left", "left", "up")
        again = next(line for line in tab.reader.lines if line.first <= tab.reader.cursor < line.last)
        assert line == again
        reader.gate.clear()
        for key in ("home", "right", "right"):
            await pilot.press(key)
        reader.gate.set()
        await press()
        assert tab.where == (0, 2)
        reader.gate.clear()
        for key in ("right_square_bracket", "right", "right", "right"):  # in a row that is still being opened
            await pilot.press(key)
        reader.gate.set()
        await press()
        assert tab.where == (1, 3)

    browse([], steps, session=session_of(reader))


def test_the_key_to_the_right_reads_a_row():
    async def steps(app, press):
        await press("down", "right")
        assert tab_of(app).reader.has_focus
        await press("right")
        assert tab_of(app).where == (1, 1)

    browse([PACK], steps)


def test_the_palette_finds_the_overview_by_what_it_shows():
    async def steps(app, press):
        await press("ctrl+p", *"stat", "enter")
        assert app.entry.name == "statistics"

    browse([PACK], steps)
