"""The bytes of a file in hexadecimal and as tokens or characters, with a cursor and a mark; and the file as a bar."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.content import Content
from textual.strip import Strip
from textual.widgets import Static

from tokfmt.browser import keys
from tokfmt.browser.data.cells import Cells
from tokfmt.browser.data.outline import BYTES_IN_ROW, Bytes, cells_of, numbers_at
from tokfmt.browser.data.rows import Damage
from tokfmt.browser.data.types import Place
from tokfmt.browser.widgets.virtual_table import VirtualTable, kinds
from tokfmt.wording import human_bytes, printable

if TYPE_CHECKING:
    from tokfmt.browser.data.types import HexRow

_DIGITS = 4


class HexView(VirtualTable):
    """Show the bytes of a file, with a cursor and a mark."""

    COMPONENT_CLASSES: ClassVar[set[str]] = kinds(
        "offset", "gap", "zero", "print", "other", "token-0", "token-1", "marked", "byte", "byte-blurred", "damage"
    )
    has_line = False  # but the byte is
    BINDINGS = keys.HEX

    def __init__(self) -> None:
        super().__init__(id="hex")
        self.bytes: Bytes | None = None
        self.leads, self.held = True, ""  # the byte under the cursor may hold a token; what it holds, in words
        self._told: tuple[Place | None, int] = (None, -1)
        self.path: Place | None = None
        self.file_size, self.column = 0, 0
        self.marked = range(0)
        self.damage: Damage | None = None

    @property
    def count(self) -> int:
        return -(-self.file_size // BYTES_IN_ROW)

    @property
    def at(self) -> int:
        """Return the byte offset of the cursor."""
        return min(self.cursor * BYTES_IN_ROW + self.column, max(0, self.file_size - 1))

    def show(self, content: Bytes, path: Place, offset: int, length: int) -> None:
        """Show a file of a dataset, mark bytes, and put the cursor on the first of them."""
        self.loader.forget()
        if self.bytes is content and self.path == path and self.damage is None:
            self._go(offset, length)
            return
        self.bytes = content
        self.loader.ask(lambda: content.size(path), lambda size: self._opened(path, size, offset, length))

    def clear(self) -> None:
        """Show nothing."""
        self.loader.forget()
        self.bytes = self.path = self.damage = None
        self.file_size, self.marked = 0, range(0)
        self.goto(0)

    def _opened(self, path: Place, size: int | Damage, offset: int, length: int) -> None:
        self.path = path
        self.damage = size if isinstance(size, Damage) else None
        self.file_size = 0 if isinstance(size, Damage) else size
        self._go(offset, length)
        self._center()

    def _go(self, offset: int, length: int) -> None:
        self.marked = range(offset, offset + length)
        self.goto(offset)

    def on_resize(self) -> None:
        self._center()
        super().on_resize()

    def _center(self) -> None:
        """Keep the mark in the middle: words above it may get their height before or after it is shown."""
        if self.marked and self.at == self.marked.start:
            self.scroll_to(y=max(0, self.cursor - self.height // 2), animate=False, force=True)

    def goto(self, offset: int) -> None:
        """Put the cursor on a byte."""
        offset = max(0, min(offset, self.file_size - 1))
        self.column = offset % BYTES_IN_ROW
        self.point_at(offset // BYTES_IN_ROW)
        self._title()

    def fetch(self) -> None:
        content, path, seen = self.bytes, self.path, self.seen
        if content is None or path is None or not seen:
            return
        if any(content.peek(path, row) is None or content.tokens(path, row) is None for row in seen):
            self.loader.ask(lambda: content.load(path, seen), lambda _: self._loaded())

    def _loaded(self) -> None:
        self.refresh()
        self._title()

    def moved(self) -> None:
        self._title()

    def say(self, held: str, *, leads: bool) -> None:
        """Show what the byte under the cursor holds."""
        self.held, self.leads = held, leads
        self._title()

    def _title(self) -> None:
        if self._told != (self.path, self.at):
            self._told, self.held = (self.path, self.at), ""
            self.post_message(self.Moved(self))
        row = self.bytes.peek(self.path, self.at // BYTES_IN_ROW) if self.bytes and self.path else None
        data = b"" if row is None or isinstance(row, Damage) else row.data[self.at % BYTES_IN_ROW :]
        words = [self._named(self.path)] if self.path is not None else []
        words += [f"byte {self.at:,}", self.held, numbers_at(data)] if self.file_size else []
        self.border_title = " · ".join(map(printable, filter(None, words)))

    def offers(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002 - none has any
        """Return whether an action would do something now (`keys.is_offered`)."""
        return action != "choose" or self.leads

    @property
    def _digits(self) -> int:
        return max(_DIGITS, len(f"{self.file_size:x}"))

    def cells(self, line: int, width: int) -> Cells:  # noqa: ARG002 - a line has 16 bytes
        row = self.bytes.peek(self.path, line) if self.bytes and self.path else None
        digits = self._digits
        if row is None or isinstance(row, Damage):
            text = "…" if row is None else f"✗ {row.why}"
            return [(f"{line * BYTES_IN_ROW:0{digits}x}  {text}", "damage")]
        return [(text, kind) for text, kind, _ in self._cells(line, row, digits)]

    def _cells(self, line: int, row: HexRow, digits: int) -> Sequence[tuple[str, str, int]]:
        tokens = self.bytes.tokens(self.path, line) if self.bytes and self.path else None
        return cells_of(row, tokens or (), digits, self.at, self.marked, "byte" if self.has_focus else "byte-blurred")

    def _named(self, path: Place) -> str:
        """Return the name of a file; in a directory, its path relative to the dataset."""
        root = self.bytes.root if self.bytes is not None else path
        below = path.relative(root)
        return printable(path.name if below is None or path == root else below)

    def render_line(self, y: int) -> Strip:
        if self.damage is None:
            return super().render_line(y)
        width = max(10, self.columns - 2)
        part = f"✗ {self.damage.why}"[y * width : (y + 1) * width]
        return self.strip([Segment(f" {part}", self.get_component_rich_style("table--damage"))])

    def clicked(self, column: int, times: int) -> None:  # noqa: ARG002 - once is enough
        row = self.bytes.peek(self.path, self.cursor) if self.bytes and self.path else None
        left = 0
        for text, _, at in (
            () if row is None or isinstance(row, Damage) else self._cells(self.cursor, row, self._digits)
        ):
            if left <= column < left + cell_len(text) and at >= 0:
                self.column = at % BYTES_IN_ROW
            left += cell_len(text)
        self._title()
        self.refresh()

    def action_to(self, line: int) -> None:
        self.goto(line if line >= 0 else self.file_size - 1)

    def action_bytes(self, count: int) -> None:
        self.goto(self.at + count)


class FileBar(Static):
    """The parts of a file as a bar, with the place of the cursor and of findings; a click goes to a byte."""

    def __init__(self, chosen: Callable[[int], object]) -> None:
        super().__init__(id="bar", markup=False)
        self._chosen = chosen
        self._parts: Sequence[tuple[str, int]] = ()
        self._length, self._at = 0, 0
        self._marks: Mapping[int, tuple[str, str]] = {}

    def show(self, parts: Sequence[tuple[str, int]], size: int, at: int, marks: Mapping[int, tuple[str, str]]) -> None:
        """Show a file by the title and the first byte of its parts, with the cursor, and signs of findings by byte."""
        shown = parts, size, at, marks
        if shown != (self._parts, self._length, self._at, self._marks):
            self._parts, self._length, self._at, self._marks = shown
            self.refresh()

    @property
    def _room(self) -> int:
        return max(1, self.content_size.width - len(human_bytes(self._length)) - 3)

    def _drawn(self) -> list[tuple[range, range, str]]:
        """Return the bytes of each part, its cells, and the cells as text: at least one for a part."""
        begins = [(title, start) for title, start in self._parts if start < self._length]
        if not begins or begins[0][1]:
            begins.insert(0, ("", 0))
        if 2 * len(begins) > self._room:
            begins = [("", 0)]
        stops = [*(start for _, start in begins[1:]), self._length]
        free, left, stretches = self._room - len(begins), 0, list[tuple[range, range, str]]()
        for number, ((title, start), stop) in enumerate(zip(begins, stops, strict=True), 1):
            right = number + free * stop // self._length
            cells = range(left, right)
            middle, half = len(cells) // 2, len(title) // 2 + 1
            signs = [_scaled(at - start, stop - start, len(cells)) for at in self._marks if start <= at < stop]
            fits = title and cell_len(title) == len(title) <= len(cells) - 4
            fits = fits and all(abs(sign - middle) > half for sign in signs)  # which would cover letters
            text = f"├{f' {title} ' if fits else '':─^{len(cells) - 2}}┤" if len(cells) > 1 else "│"
            stretches.append((range(start, stop), cells, text))
            left = right
        return stretches

    def render(self) -> Content:
        if not self._length:
            return Content("")
        drawn = self._drawn()

        def cell_of(offset: int) -> int:
            for span, within, _ in drawn:
                if offset < span.stop:
                    return within.start + _scaled(offset - span.start, len(span), len(within))
            return drawn[-1][1].stop - 1

        cells = list("".join(text for _, _, text in drawn))
        styles = ["$quiet"] * len(cells)
        for offset, (sign, style) in self._marks.items():
            cells[cell_of(offset)], styles[cell_of(offset)] = sign, style
        here = cell_of(self._at)
        if cells[here] in "─├┤│":
            cells[here] = "┃"
        styles[here] = f"{styles[here].replace('$quiet', 'bold $text-primary')} reverse"
        parts = [Content.styled(cell, style) for cell, style in zip(cells, styles, strict=True)]
        return Content.assemble(("0 ", "$quiet"), *parts, (f" {human_bytes(self._length)}", "$quiet"))

    def on_click(self, event: events.Click) -> None:
        column = event.x - self.gutter.left - 2
        for span, within, _ in self._drawn() if self._length else ():
            if column in within:
                self._chosen(span.start + _scaled(column - within.start, len(within), len(span)))


def _scaled(at: int, size: int, other: int) -> int:
    """Return the place in an interval of another size."""
    return at * other // max(1, size)
