"""`tokfmt check`: report every problem of a dataset with its byte offset and a remedy, and repair what can be."""

from tokfmt.commands.check.check import Checked, CheckReport, CheckRequest, check
from tokfmt.commands.check.codes import Explanation, explain

__all__ = ["CheckReport", "CheckRequest", "Checked", "Explanation", "check", "explain"]
