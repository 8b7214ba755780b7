"""What stands in place of a dataset that cannot be read: why, and what can be looked at all the same."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.tui.session import Session

_WAYS = (
    ("2", "Index: the parts and bytes of its files"),
    ("3", "Findings: everything that is wrong, as far as it can be told"),
)


class Refusal(Static, can_focus=True):
    """Takes the focus, so that keys work as they do beside a list."""

    def __init__(self) -> None:
        super().__init__(id="refusal", markup=False)

    def say(self, session: Session, datasets: int) -> None:
        """Why a session shows nothing."""
        error = session.refused
        known = isinstance(error, TokfmtError)
        why = " ".join(str(error).split()) if known else session.failure
        ways = [*_WAYS]
        ways += [("d", "Another dataset")] if datasets > 1 else []
        ways += [("V", "Another split")] if len(session.splits) > 1 else []
        self.update(
            Content("\n").join(
                [
                    Content.styled("✗ This dataset cannot be read", "bold $text-error"),
                    Content(""),
                    Content(printable(why)),
                    Content(""),
                    *(Content.assemble((f"{key}  ", "bold $text-accent"), text) for key, text in ways),
                ]
            )
        )
