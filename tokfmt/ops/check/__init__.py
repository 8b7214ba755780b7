"""`tokfmt check`: report every problem of a dataset with its byte offset and a remedy, and repair what can be."""

from tokfmt.ops.check.check import CheckReport, CheckRequest, check
from tokfmt.ops.check.codes import Explanation, explain

__all__ = ["CheckReport", "CheckRequest", "Explanation", "check", "explain"]
