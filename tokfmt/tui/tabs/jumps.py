"""Jumps: to a row, a token position, a byte of a file, anywhere."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from tokfmt.core.errors import OptionError, TokfmtError
from tokfmt.core.inside import Place, place_of, position_of
from tokfmt.core.options import parse_count
from tokfmt.core.records import RecordReader
from tokfmt.tui.facts import place_of_unit
from tokfmt.tui.session import Where, located
from tokfmt.tui.tabs.tab import Tab
from tokfmt.tui.viewport import Span
from tokfmt.tui.widgets.desked import Desked


class Jumps(Tab, Desked):
    """The jumps of a tab that shows rows; `where` and `go` are the tab's."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "jump('row')", "Go to"),
        Binding("t", "jump('token')", "Token position", show=False),
        Binding("o", "jump('byte')", "Byte offset", show=False),
        Binding("r", "random", "Random", show=False),
        Binding("h", "bytes", "Bytes of the token", show=False),
    ]

    @property
    def where(self) -> Where:
        """The row that is shown, and the token under the cursor."""
        raise NotImplementedError

    def go(self, where: Where) -> None:
        """Show a row, the cursor on a token of it."""
        raise NotImplementedError

    def action_random(self) -> None:
        count = self.session.port.count
        if count:
            self.go((random.randrange(count), 0))  # noqa: S311 - for looking about

    async def action_jump(self, what: str) -> None:
        view = self.session.view
        if what == "row":
            await self._ask(f"{view.singular} number, 0 to {max(0, view.port.count - 1):,}", self._to_row)
        elif isinstance(view.reader, RecordReader):
            self.notify("Records have no token axis: nobody has tokenised them all.", severity="warning")
        elif what == "token":
            await self._ask(f"token position, 0 to {max(0, view.reader.info.tokens - 1):,}", self._to_position)
        else:
            await self._ask("byte offset, or file:offset", self._to_byte)

    async def _ask(self, text: str, then: Callable[[str], None]) -> None:
        from tokfmt.tui.screens.question import Question  # the first screen has no use for an Input, which takes 20 ms

        def answered(answer: str | None) -> None:
            if answer:
                try:
                    then(answer)
                except TokfmtError as error:
                    self.notify(str(error), severity="error", markup=False)

        # awaited, so that keys typed at once go to the question
        await self.app.push_screen(Question(text), answered)

    def _to_row(self, answer: str) -> None:
        count, row = self.session.port.count, parse_count(answer)
        row = row + count if row < 0 else row
        if not 0 <= row < count:
            raise OptionError(f"there are {count:,}: 0 to {count - 1:,}")
        self.go((row, 0))

    def _to_position(self, answer: str) -> None:
        reader, position = self.session.view.reader, parse_count(answer)
        tokens = 0 if isinstance(reader, RecordReader) else reader.info.tokens
        position = position + tokens if position < 0 else position
        if not 0 <= position < tokens:
            raise OptionError(f"there are {tokens:,} tokens: 0 to {tokens - 1:,}")
        self.reveal(position)

    def _to_byte(self, answer: str) -> None:
        name, _, number = answer.rpartition(":")
        reader, port, (row, unit), offset = self.session.view.reader, self.session.port, self.where, parse_count(number)
        if isinstance(reader, RecordReader):
            return
        span = port.peek_span(row)
        at = (span.start or 0) + unit if isinstance(span, Span) else 0
        place = place_of(reader, at) if at < reader.info.tokens else None
        if place is None:
            raise OptionError("this format does not tell where its tokens lie")
        path = place.path.parent / name if name else place.path
        position = position_of(reader, Path(path), offset)
        if position is None:
            raise OptionError(f"byte {offset:,} of {path.name} holds no token")
        self.ask_where(lambda: located(port, position))

    def ask_where(self, find: Callable[[], Where | None]) -> None:
        """Find a place on a worker, then go there."""
        raise NotImplementedError

    def action_bytes(self) -> None:
        """Show where the token under the cursor lies, in the index."""
        session, where = self.session, self.where
        self.ask(lambda: place_of_unit(session, *where), self._to_bytes)

    def _to_bytes(self, place: Place | None) -> None:
        if place is None:
            self.notify("This format does not tell in which bytes its tokens lie.", severity="warning")
        else:
            self.app.go_to_bytes(place.path, place.offset, place.width or 0)  # type: ignore[attr-defined]
