"""Take away: copies to the clipboard, rows to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from tokfmt.core.errors import TokfmtError
from tokfmt.tui.tabs.rows import RowsTab

if TYPE_CHECKING:  # exporting takes half of tokfmt, which the first screen does not wait for
    from tokfmt.tui.finding import Finding
    from tokfmt.tui.taken import Numbers, Taken


class TakeAway(RowsTab):
    """The part of a tab that takes away; `reader`, `where`, `finding` and `filtered` are the tab's."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "mark", "Mark from here; again: no mark", show=False),
        Binding("c", "copy(False)", "Copy text", show=False),
        Binding("C", "copy(True)", "Copy ids", show=False),
        Binding("e", "export", "Export", show=False),
    ]
    finding: Finding | None
    filtered: Finding | None

    def action_mark(self) -> None:
        self.reader.toggle_mark()

    def action_copy(self, ids: bool) -> None:
        """Copy the marked tokens, or all of the row."""
        from tokfmt.tui.taken import taken

        session, (row, _), part = self.session, self.where, self.reader.marked

        def work() -> Taken | TokfmtError:
            try:
                return taken(session, row, part, ids=ids)
            except TokfmtError as error:
                return error

        if session.port.count:
            self.reader.ask(work, self._copied)

    def _copied(self, found: Taken | TokfmtError) -> None:
        if isinstance(found, TokfmtError):
            self.notify(str(found), title="Not copied", severity="warning", markup=False)
            return
        self.app.copy_to_clipboard(found.text)
        self.notify(found.said, title="Copied", markup=False)

    async def action_export(self) -> None:
        from tokfmt.tui.screens.export import Export

        sets: dict[str, Numbers] = {}
        if self.filtered is not None:
            sets["listed"] = self.filtered.kept.rows()
        if self.finding is not None and self.finding.kept.hits:
            sets["hits"] = self.finding.kept.rows()
        if not self.session.view.whole:
            self.notify(f"The {self.session.view.name} are still being counted.", severity="warning")
            return
        what = "listed" if self.filtered is not None else str(self.where[0])

        def written(said: str | None) -> None:
            if said is not None:
                self.notify(said, title="Exported", markup=False)

        await self.app.push_screen(Export(self.session, what, sets), written)
