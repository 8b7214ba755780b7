"""`tokfmt browse`: time to the first screen, jumps, search, memory."""

import os
import pickle
import struct
import time

import numpy as np

from benchmarks.cases import case, documents, p50
from benchmarks.data import EOS, HOME
from benchmarks.scaling import sparse_pack
from benchmarks.screen import until_screen

BARE = """
from textual.app import App
from textual.widgets import Static

class Bare(App):
    def compose(self):
        yield Static("a bare app")

Bare().run()
"""
BLOCK_BYTES = 62_500 * 8192 * 4
TERABYTE = 1 << 40
DOCUMENTS = 50_000_000
BROWSED = 2  # seconds


def small_pack():
    """Half a million tokens of 2 bytes."""
    path = HOME / "megabyte.pbin"
    if not path.exists():
        stream, ends = documents()
        count = int(np.searchsorted(ends, 500_000))
        sizes = np.diff(ends[:count] + 1, prepend=0) * 2
        data = stream[: ends[count - 1] + 1].astype("<u2").tobytes()
        index = list(zip((np.cumsum(sizes) - sizes).tolist(), sizes.tolist(), strict=True))
        path.write_bytes(struct.pack("<QI", len(data), 2) + data + pickle.dumps(index, protocol=4))
    return path


def terabyte():
    """537 whole blocks of stage1, sparse."""
    home = HOME / "terabyte"
    if not home.exists():
        draft = home.with_suffix(".draft")
        draft.mkdir(exist_ok=True)
        for number in range(TERABYTE // BLOCK_BYTES + 1):
            with open(draft / f"stage1_block_{number:04d}.bin", "wb") as block:
                block.truncate(BLOCK_BYTES)
        os.replace(draft, home)
    return home


class Start:
    """The screen is whole when the last line, and what is known of the first token, are on it."""

    def peer(self, out):
        return until_screen(["a bare app"], "-c", BARE)

    def tokfmt(self, out):
        return until_screen(["Quit", "byte "], "-m", "tokfmt", "browse", str(self.data()))


@case("browse-start: a pack of 1 MB (peer: a bare Textual app)", "<= +300 ms", "starts", "seconds")
class StartSmall(Start):
    data = staticmethod(small_pack)
    prepare = staticmethod(small_pack)


@case("browse-start: stage1 of 1 TB, sparse (peer: a bare Textual app)", "<= +300 ms", "starts", "seconds")
class StartLarge(Start):
    data = staticmethod(terabyte)
    prepare = staticmethod(terabyte)


@case("browse-jump: last of 50 M documents, the index loaded (peer: one pread)", "<= 50 ms", "jumps", "seconds")
class Jump:
    def data(self):
        return sparse_pack(HOME / "fifty-million.pbin", DOCUMENTS)

    prepare = data

    def peer(self, out):
        fd = os.open(self.data(), os.O_RDONLY)
        return p50(lambda back: os.pread(fd, 8192, os.fstat(fd).st_size // 2 - back * 8192), range(40))

    def tokfmt(self, out):
        from tokfmt.source.request import SourceRequest
        from tokfmt.browser.data.opening import opened
        from tokfmt.browser.data.rows import Viewport, fetched, fetched_span

        request = SourceRequest((self.data(),), eos="none")
        reader = opened(request).grown().views[0].reader
        last = reader.info.sequences - 1

        def jump(_):
            port = Viewport(reader)  # with nothing cached
            assert port.row_at(reader.info.tokens - 1) == last
            return fetched_span(port, last), fetched(port, last, 0, 4096)

        return p50(jump, range(40))


@case("browse-find: one id in 2-byte tokens (peer: numpy compares)", ">= 300 M/s", "tokens")
class Find:
    """An id that occurs once in some 100,000 tokens."""

    TIMES = 20

    def prepare(self):
        from benchmarks.merging import packs

        packs()

    def peer(self, out):
        ids, done = np.fromfile(HOME / "merge-0.pbin", "<u2", 39_000_000, offset=12), 0
        for _ in range(self.TIMES):
            for a in range(0, len(ids), 1 << 20):
                np.flatnonzero(ids[a : a + (1 << 20)] == 40_001)
                done += len(ids[a : a + (1 << 20)])
        return done

    def tokfmt(self, out):
        from tokfmt.commands.search.search import find
        from tokfmt.source.open import open_dataset
        from tokfmt.source.request import SourceRequest
        from tokfmt.commands.search.query import TokenQuery

        reader = open_dataset(SourceRequest((HOME / "merge-0.pbin",))).reader
        for _ in range(self.TIMES):
            hits = sum(1 for _ in find(reader, TokenQuery((40_001,))))
            assert hits
        return self.TIMES * reader.info.tokens


@case("browse-memory: 1 TB for 2 s: keys, jumps, search (peer: a bare app, keys)", "<= 250 MB", "keys", "seconds")
class Memory:
    """Seconds for a key; what counts is the peak of memory."""

    prepare = staticmethod(terabyte)

    def peer(self, out):
        import asyncio  # here, as it would weigh 7 MB in every other row

        from textual.app import App

        return asyncio.run(_keys(App(), ["down"]))

    def tokfmt(self, out):
        import asyncio
        import threading

        from tokfmt.commands.search.search import find
        from tokfmt.commands.search.query import TokenQuery
        from tokfmt.source.request import SourceRequest
        from tokfmt.browser.app import Browser
        from tokfmt.browser.data.session import open_session

        session = open_session(SourceRequest((terabyte(),)))
        search = find(session.view.reader, TokenQuery((EOS,)))
        threading.Thread(target=lambda: next(search, None), daemon=True).start()
        keys = ["pagedown", "end", "pageup", "r", "down", "home", "r", "down", "m"]
        return asyncio.run(_keys(Browser(session), keys))


async def _keys(app, keys):
    """Seconds for each key until the screen has been drawn again, pressed for some seconds."""
    import asyncio

    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        began, pressed = time.monotonic(), 0
        while time.monotonic() - began < BROWSED:
            drawn = asyncio.Event()
            app.simulate_key(keys[pressed % len(keys)])
            app.screen.call_after_refresh(drawn.set)
            await drawn.wait()  # pilot.press would wait for the search to be over
            pressed += 1
        each = (time.monotonic() - began) / pressed
        await asyncio.sleep(0.5)  # the last key may be on its way, and needs a screen
        return each
