"""Jumps: to a row, a token position, a byte of a file, anywhere."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from tokfmt.core.errors import OptionError, TokfmtError
from tokfmt.core.inside import Place, Target
from tokfmt.core.options import parse_count
from tokfmt.core.records import RecordReader
from tokfmt.tui.facts import place_of_unit
from tokfmt.tui.session import Where, row_at
from tokfmt.tui.tabs.rows import RowsTab
from tokfmt.tui.widgets.desked import Desked


class Jumps(RowsTab, Desked):
    """The jumps of a tab that shows rows; `where` and `go` are the tab's."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("g", "jump('row')", "Go to"),
        Binding("t", "jump('token')", "Token position", show=False),
        Binding("o", "jump('byte')", "Byte offset", show=False),
        Binding("r", "random", "Random", show=False),
        Binding("h", "bytes", "Bytes of the token", show=False),
    ]

    def action_random(self) -> None:
        count = self.session.port.count
        if count:
            self.go((random.randrange(count), 0))  # noqa: S311 - for looking about

    async def action_jump(self, what: str) -> None:
        view = self.session.view
        if not self.session.port.count:
            self.notify(f"There are no {view.name} here.")
        elif what == "row":
            await self._ask(f"{view.singular} number, 0 to {max(0, view.port.count - 1):,}", self._to_row)
        elif what == "byte":
            await self._ask("byte offset, or file:offset", self._to_byte)
        elif isinstance(view.reader, RecordReader):
            self.notify("Records have no token axis: nobody has tokenised them all.", severity="warning")
        else:
            await self._ask(f"token position, 0 to {max(0, view.reader.info.tokens - 1):,}", self._to_position)

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
        session, where, (name, _, number) = self.session, self.where, answer.rpartition(":")
        offset = parse_count(number)
        holds = "record" if isinstance(session.view.reader, RecordReader) else "token"

        def find() -> Where | str:
            place = place_of_unit(session, *where)
            if place is None:
                return "this format does not tell where its tokens lie"
            path = place.path.parent / name if name else place.path
            try:
                return row_at(session, Target(path, offset)) or f"byte {offset:,} of {path.name} holds no {holds}"
            except TokfmtError as error:
                return str(error)

        self.ask(find, self._to_found)

    def _to_found(self, found: Where | str) -> None:
        if isinstance(found, str):
            self.notify(found, severity="error", markup=False)
        else:
            self.go(found)

    def action_bytes(self) -> None:
        """Show where the token under the cursor lies, in the index."""
        session, where = self.session, self.where
        self.ask(lambda: place_of_unit(session, *where), self._to_bytes)

    def _to_bytes(self, place: Place | None) -> None:
        if place is None:
            self.notify("This format does not tell in which bytes its tokens lie.", severity="warning")
        else:
            self.app.go_to_bytes(place.path, place.offset, place.width or 0)  # type: ignore[attr-defined]
