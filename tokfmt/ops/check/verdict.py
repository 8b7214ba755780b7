"""What a check has found, bounded however much is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tokfmt.core.audit import Code
from tokfmt.core.format import Finding

MOST = 100
"""Findings of one code that are kept; the others are counted."""


@dataclass(slots=True)
class Verdict:
    """What was found in one dataset.

    Attributes:
        path: As given.
        format: Its format's name, None when it could not be opened.
        deep: Everything was decoded.
        sequences, tokens: How many, separators not counted, when it was read to its end.
        findings: At most `most` of each code, in the order in which they were met.
        counts: How many there are of each code.
        severities: How many there are of each severity.
        unsafe: Reading on could execute code, leave the dataset, or exhaust memory.
    """

    path: str
    format: str | None = None
    deep: bool = False
    sequences: int | None = None
    tokens: int | None = None
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    severities: dict[str, int] = field(default_factory=dict)
    unsafe: bool = False
    most: int = MOST

    def add(self, found: Iterable[Finding], meanings: Mapping[str, Code]) -> None:
        """Take up findings, and let go of those beyond the limit.

        Args:
            found: As they are met.
            meanings: Of their codes, as far as they are explained; a finding without a remedy refers to them.
        """
        for given in found:
            finding = given
            if not given.remedy and given.code in meanings:
                finding = given._replace(remedy=f"tokfmt check --explain {given.code} says more")
            number = self.counts[finding.code] = self.counts.get(finding.code, 0) + 1
            self.severities[finding.severity] = self.severities.get(finding.severity, 0) + 1
            self.unsafe = self.unsafe or (finding.code in meanings and meanings[finding.code].unsafe)
            if number <= self.most:
                self.findings.append(finding)

    @property
    def errors(self) -> int:
        return self.severities.get("error", 0)

    @property
    def left_out(self) -> dict[str, int]:
        """How many of each code were counted and not kept."""
        return {code: count - self.most for code, count in self.counts.items() if count > self.most}

    @property
    def exit_code(self) -> int:
        """0 without errors, 1 with some, 3 when it could not be opened or is unsafe."""
        if self.unsafe or "TF900" in self.counts:
            return 3
        return 1 if self.errors else 0
