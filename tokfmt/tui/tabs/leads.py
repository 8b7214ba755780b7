"""A tab from which one goes to sequences: to the token that a byte or a field is about."""

from __future__ import annotations

from collections.abc import Callable

from tokfmt.core.errors import TokfmtError
from tokfmt.tui.session import Where
from tokfmt.tui.tabs.tab import Tab
from tokfmt.tui.widgets.desked import Desked

_NOTHING = "no sequence lies there"


class Leads(Tab, Desked):
    """Finds places on its desk, and goes there."""

    def lead(self, find: Callable[[], Where | None], otherwise: str = _NOTHING) -> None:
        """Show what `find` finds, on a worker, in the tab of sequences; else say why not."""

        def tried() -> Where | str:
            try:
                return find() or otherwise
            except TokfmtError as error:
                return str(error)

        self.ask(tried, self._go)

    def _go(self, found: Where | str) -> None:
        if isinstance(found, str):
            self.notify(found, severity="warning", markup=False)
        else:
            self.app.go_to_where(found)  # type: ignore[attr-defined]
