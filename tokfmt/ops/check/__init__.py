"""`tokfmt check`: is a dataset valid? Every violation, with its byte offset and a remedy; and what can be repaired."""

from tokfmt.ops.check.check import CheckRequest, Verdict, check
from tokfmt.ops.check.codes import Explanation, explain
from tokfmt.ops.check.fix import Fixed, fix

__all__ = ["CheckRequest", "Explanation", "Fixed", "Verdict", "check", "explain", "fix"]
