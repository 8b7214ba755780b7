"""The cheap check of a dataset, which runs as soon as it is loaded, and its result in a few characters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual.content import Content

from tokfmt.browser.session import Session
from tokfmt.browser.workers import Job

if TYPE_CHECKING:
    from tokfmt.browser.data import CheckReport

MOST = 1 << 22
"""Limit of the rows of a dataset that is checked without a key, because a check reads its whole index."""


def is_cheap(session: Session) -> bool:
    """Return whether a check of headers and index takes no longer, and no more memory, than opening took.

    A dataset in a store is not checked unasked: its headers would be fetched again.
    """
    known = not session.opened.pending and session.port.count <= MOST
    return session.path.is_local and (session.refused is not None or known)


def checked(session: Session, job: Job, *, deep: bool = False, tokenizer: str | None = None) -> CheckReport:
    """Check a dataset.

    Args:
        session: The dataset; all its splits are checked, unless the user named one.
        job: The progress of the check.
        deep: Decode every token.
        tokenizer: The tokenizer to compare with.

    Raises:
        TokfmtError: The files have changed since they were opened.
    """
    from tokfmt.browser.data import CheckRequest, check

    session.check_unchanged()
    request = session.asked or session.request
    asked = replace(request, paths=request.paths[:1], format=session.format_name, allow_loss=frozenset())
    return next(check(CheckRequest(asked, deep, tokenizer), job))


def badge(verdict: CheckReport | None) -> Content:
    """Return the number of errors and of warnings, for the label of a tab; empty without any."""
    counts = verdict.severities if verdict is not None else {}
    parts = [
        Content.styled(f"{mark}{counts[name]:,}", f"bold {style}")
        for name, mark, style in (("error", "✗", "$text-error"), ("warning", "▲", "$text-warning"))
        if counts.get(name)
    ]
    return Content(" ").join(parts)
