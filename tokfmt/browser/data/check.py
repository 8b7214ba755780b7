"""The check of a dataset: the cheap one, which runs as soon as it is loaded, and that of every token."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tokfmt.browser.data.opening import stamp_of
from tokfmt.browser.data.session import Session, Where, row_at
from tokfmt.browser.data.workers import Job
from tokfmt.core.findings import Finding
from tokfmt.errors import TokfmtError
from tokfmt.files.fields import Pointer
from tokfmt.files.place import place_of
from tokfmt.source.open import open_dataset
from tokfmt.source.request import Reading, SourceRequest

if TYPE_CHECKING:
    from tokfmt.commands.check import CheckReport
    from tokfmt.commands.check.codes import Explanation

MOST = 1 << 22
"""Limit of the rows of a dataset that is checked without a key, because a check reads its whole index."""


def is_cheap(session: Session) -> bool:
    """Return whether a check of headers and index takes no longer, and no more memory, than opening took.

    A dataset in a store is not checked unasked: its headers would be fetched again.
    """
    known = not session.opened.pending and session.port.count <= MOST
    return session.path.is_local and (session.refused is not None or known)


def checked(session: Session, job: Job, *, deep: bool = False) -> CheckReport:
    """Check all splits of a dataset, unless the user named one, and compare it with the tokenizer in use."""
    from tokfmt.commands.check import CheckRequest, check

    session.check_unchanged()
    used = session.choice is not None and session.vocabulary is not None and not session.of_text
    tokenizer = session.choice.name if session.choice is not None and used else None
    request = session.asked or session.request
    asked = replace(request, paths=request.paths[:1], format=session.format_name, allow_loss=frozenset())
    found = next(check(CheckRequest(asked, deep, tokenizer), job))
    for finding in found.findings[:1]:
        explained(finding.code)  # imports every format here, not when the finding is shown
    fatal = next((k for k, one in enumerate(found.findings) if one.severity == "error"), None)
    if fatal is not None and (session.refused is not None or session.failure or session.opened.damage):
        remedies = filter(None, (found.findings[fatal].remedy, _saved(asked, job, deep=deep)))
        found.findings[fatal] = replace(found.findings[fatal], remedy=". ".join(remedies))
    return found


_READ = 1 << 28
"""Limit of bytes of a damaged dataset that is read without a key to count what can be saved."""


def _saved(request: SourceRequest, job: Job, *, deep: bool) -> str:
    """Return what a conversion saves of a damaged dataset, in words; "" for nothing."""
    stamp = stamp_of(place_of(request.paths[0]))
    is_exact = deep or (stamp is not None and stamp.size <= _READ)
    try:
        source = open_dataset(replace(request, allow_partial=True), Reading(progress=job, reads_ends=is_exact))
    except TokfmtError:
        return ""
    source.reader.close()
    if source.partial is None or source.partial.sequences is None:
        return "" if source.partial is None else "tokfmt convert SRC DST --allow-partial saves the complete records"
    sequences, lost = source.partial.sequences, source.partial.lost_sequences
    of = "" if lost is None else f" of {sequences + lost:,}"
    at_most = "" if is_exact else "at most "
    return f"tokfmt convert SRC DST --allow-partial saves {at_most}{sequences:,}{of} sequences"


def explained(code: str) -> Explanation | None:
    """Return the explanation of a code; None for one of a plug-in without any."""
    from tokfmt.commands.check import explain

    try:
        return explain(code)
    except TokfmtError:
        return None


def row_of_finding(session: Session, finding: Finding) -> Where | None:
    """Return the row and the token at the byte of a finding; None without one. Reads."""
    return None if finding.offset is None else row_at(session, Pointer(place_of(finding.path), finding.offset))
