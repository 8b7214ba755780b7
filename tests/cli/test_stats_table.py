"""The table of `tokfmt stats`: no number is cut, however narrow the terminal is."""

import io
import re

import pytest
from rich.console import Console
from stats_reports import reports_of

from tokfmt.cli.stats_table import show


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160])
def test_no_number_is_cut_or_broken(width, monkeypatch, tmp_path):
    """Whatever the width, and of lengths of six digits and more: every number is there with all its digits."""
    lengths, reports = reports_of(tmp_path)
    for report in reports:
        numbers = {}
        for room in (width, 4000):
            out = io.StringIO()
            show(report, Console(file=out, width=room))
            assert all(len(line) <= room for line in out.getvalue().splitlines())
            numbers[room] = set(re.findall(r"[\d,.]*\d", out.getvalue()))
            assert not re.search(r"\d…", out.getvalue())
        assert numbers[width] <= numbers[4000]
        for number in (lengths.total, lengths.weight):
            assert f"{number:,}" in numbers[width]
        if report.total is None:
            assert {"327,681", "1,234,567", "98,765,432", "19,876,543"} <= numbers[width]
