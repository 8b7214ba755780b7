"""`tokfmt check`: is a dataset valid? Every violation, with its byte offset and a remedy; and what can be repaired."""

from tokfmt.ops.check.check import CheckRequest, Fixed, Verdict, check, fix
from tokfmt.ops.check.codes import Explanation, explain

__all__ = ["CheckRequest", "Explanation", "Fixed", "Verdict", "check", "explain", "fix"]
