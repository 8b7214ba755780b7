"""The terminal browser without a terminal: the first screen against that of a bare Textual app, and a jump in the list.

Both sides draw at 160 x 48; imports count. What is still being loaded when the first screen is there does not.
"""

import asyncio
import os
import time

from benchmarks.cases import case
from benchmarks.data import HOME
from benchmarks.scaling import sparse_pack

BLOCK = 8192 * 65_536  # tokens of 4 bytes: 2 GiB


class FirstScreen:
    def prepare(self):
        self.source()

    def peer(self, out):
        began = time.perf_counter()
        from textual.app import App
        from textual.widgets import Footer, Static

        class Bare(App):
            def compose(self):
                yield Static("bare")
                yield Footer()

        return asyncio.run(drawn(Bare())) - began

    def tokfmt(self, out):
        os.environ["XDG_STATE_HOME"] = str(out)
        began = time.perf_counter()
        from tokfmt.ops.sources import SourceRequest
        from tokfmt.tui.session import open_session

        session = open_session(SourceRequest((str(self.source()),)))
        from tokfmt.tui.app import Browser

        return asyncio.run(drawn(Browser(session), "begins with")) - began


async def drawn(app, word=""):
    """When the first screen was there; with a word, when the first row was too."""
    async with app.run_test(size=(160, 48)) as pilot:
        await pilot.pause()
        while word and not app.query_one("#list").port.peek(0, 0, 8):
            await pilot.pause(0.001)
        return time.perf_counter()


@case("browse: first screen of 1 MB (peer: of a bare Textual app)", "<= +150 ms, <= 250 MB", "screens", "seconds")
class Small(FirstScreen):
    def source(self):
        path = HOME / "one-megabyte.bin"
        if not path.exists():
            with open(HOME / "stage1_block_0000.bin", "rb") as block:
                path.write_bytes(block.read(8192 * 4 * 32))
        return path


@case("browse: first screen of a sparse 1 TB (peer: of a bare Textual app)", "<= +150 ms, <= 250 MB", "screens", "seconds")
class Terabyte(FirstScreen):
    def source(self):
        home = HOME / "terabyte"
        home.mkdir(exist_ok=True)
        for number in range(512):
            path = home / f"stage1_block_{number:04d}.bin"
            if not path.exists():
                with open(path, "wb") as file:
                    file.truncate(BLOCK * 4)
        return home


@case("browse: to the last of 50 M documents (peer: of 1,000)", "<= 50 ms", "jumps", "seconds")
class Jump:
    def prepare(self):
        for count in (1_000, 50_000_000):
            self.source(count)

    def source(self, count):
        path = HOME / f"sparse-{count}.pbin"
        if not path.exists():
            sparse_pack(path, count)
        return path

    def peer(self, out):
        return self.jump(out, 1_000)

    def tokfmt(self, out):
        return self.jump(out, 50_000_000)

    def jump(self, out, count):
        os.environ["XDG_STATE_HOME"] = str(out)
        from tokfmt.ops.sources import SourceRequest
        from tokfmt.tui.app import Browser
        from tokfmt.tui.session import open_session

        app = Browser(open_session(SourceRequest((str(self.source(count)),))))
        return asyncio.run(self.jumped(app, count))

    async def jumped(self, app, count):
        async with app.run_test(size=(160, 48)) as pilot:
            rows = app.query_one("#list")
            while rows.port is None or rows.port.count != count:
                await pilot.pause(0.01)
            await pilot.pause(0.3)
            began = time.perf_counter()
            rows.action_to(-1)
            while rows.port.peek(count - 1, 0, 8) is None or not app.idle:
                await asyncio.sleep(0.0005)
            return time.perf_counter() - began
