"""The bytes of a file in hexadecimal and as characters, with a cursor and a mark."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.message import Message
from textual.strip import Strip

from tokfmt.browser import keys
from tokfmt.browser.data.cells import Cells
from tokfmt.browser.data.outline import BYTES_IN_ROW, Bytes, cells_of, numbers_at
from tokfmt.browser.data.rows import Damage
from tokfmt.browser.data.types import Place
from tokfmt.browser.widgets.virtual_table import VirtualTable, kinds
from tokfmt.wording import printable

_DIGITS = 8


class HexView(VirtualTable):
    """Show the bytes of a file, with a cursor and a mark.

    Attributes:
        leads: The byte under the cursor may hold a token.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = kinds(
        "offset", "gap", "zero", "print", "other", "marked", "byte", "byte-blurred", "damage"
    )
    blurs = False
    BINDINGS = keys.HEX

    class Chosen(Message):
        """The user wants the token at a byte."""

        def __init__(self, path: Place, offset: int) -> None:
            super().__init__()
            self.path, self.offset = path, offset

    class Moved(Message):
        """The cursor is on another byte."""

    def __init__(self) -> None:
        super().__init__(id="hex")
        self.bytes: Bytes | None = None
        self.leads = True
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
        """Show a file of a dataset, mark bytes, and put the cursor on the first of them.

        Args:
            content: The bytes of the dataset.
            path: The file.
            offset: Byte offset of the mark.
            length: Number of bytes to mark.
        """
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
        if any(content.peek(path, row) is None for row in seen):
            self.loader.ask(lambda: content.load(path, seen), lambda _: self._loaded())

    def _loaded(self) -> None:
        self.refresh()
        self._title()

    def moved(self) -> None:
        self._title()

    def _title(self) -> None:
        row = self.bytes.peek(self.path, self.at // BYTES_IN_ROW) if self.bytes and self.path else None
        self.border_title = "" if self.path is None else self._named(self.path)
        data = b"" if row is None or isinstance(row, Damage) else row.data[self.at % BYTES_IN_ROW :]
        subtitle = f"byte {self.at:,} of {self.file_size:,}   {numbers_at(data)}"
        self.border_subtitle = subtitle if self.file_size else ""
        if self._told != (self.path, self.at):
            self._told = self.path, self.at
            self.post_message(self.Moved())

    def offers(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002 - none has any
        """Return whether an action would do something now (`keys.is_offered`)."""
        return action != "choose" or self.leads

    def cells(self, line: int, width: int) -> Cells:  # noqa: ARG002 - a line has 16 bytes
        row = self.bytes.peek(self.path, line) if self.bytes and self.path else None
        digits = max(_DIGITS, len(f"{self.file_size:x}"))
        if row is None or isinstance(row, Damage):
            text = "…" if row is None else f"✗ {row.why}"
            return [(f"{line * BYTES_IN_ROW:0{digits}x}  {text}", "damage")]
        return cells_of(row, digits, self.at, self.marked, "byte" if self.has_focus else "byte-blurred")

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
        within = column - max(_DIGITS, len(f"{self.file_size:x}")) - 2
        number = (within - (within > BYTES_IN_ROW * 3 // 2)) // 3
        characters = within - BYTES_IN_ROW * 3 - 2
        if 0 <= number < BYTES_IN_ROW:
            self.column = number
        elif 0 <= characters < BYTES_IN_ROW:
            self.column = characters
        self._title()
        self.refresh()

    def action_to(self, line: int) -> None:
        self.goto(line if line >= 0 else self.file_size - 1)

    def action_bytes(self, count: int) -> None:
        self.goto(self.at + count)

    def action_choose(self) -> None:
        if self.path is not None and self.file_size:
            self.post_message(self.Chosen(self.path, self.at))
