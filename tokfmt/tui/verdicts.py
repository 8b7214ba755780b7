"""What a check has found, in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from textual.content import Content

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.core.format import Finding
from tokfmt.ops.check import Verdict, explain

ORDER = {"error": 0, "warning": 1, "info": 2}
"""Severities, the worst first."""

_QUIET = "$foreground 60%"


def summary(verdict: Verdict) -> str:
    """How many findings there are, and how deep it was looked for them."""
    depth = "every token checked" if verdict.deep else "headers and index checked"
    counts = [
        f"{verdict.severities[name]:,} {name}{'' if name == 'info' or verdict.severities[name] == 1 else 's'}"
        for name in ORDER
        if verdict.severities.get(name)
    ]
    kept = f" · {len(verdict.findings):,} of them listed" if verdict.left_out else ""
    return f"{', '.join(counts) or 'no findings'} · {depth}{kept}"


def nothing_found(verdict: Verdict) -> Content:
    """No findings, in a sentence."""
    depth = "the whole of it" if verdict.deep else "headers, index and metadata"
    return Content(f"Nothing is wrong, as far as {depth} can tell.")


def in_full(finding: Finding, *, explained: bool) -> Content:
    """A finding: where, what, what to do about it, and what its code means if that is wanted."""
    return Content("\n").join(_lines(finding, explained=explained))


def _lines(finding: Finding, *, explained: bool) -> Iterator[Content]:
    place = printable(finding.path) + ("" if finding.offset is None else f", byte {finding.offset:,}")
    yield Content.assemble((f"{finding.code} ", "bold"), place)
    yield Content(printable(finding.message))
    if finding.remedy:
        yield Content.assemble(("→ ", "bold"), printable(finding.remedy))
    if explained:
        with suppress(TokfmtError):  # a plug-in need not explain its codes
            told = explain(finding.code)
            yield Content("")
            yield Content.assemble((f"{told.title}. ", f"bold {_QUIET}"), (told.text, _QUIET))
