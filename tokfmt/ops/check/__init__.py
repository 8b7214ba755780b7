"""`tokfmt check`: is a dataset valid? Every violation, with its byte offset and a remedy; and what can be repaired."""

from tokfmt.ops.check.codes import Explanation, explain
from tokfmt.ops.check.fix import Fixed, fix
from tokfmt.ops.check.run import Demands, check
from tokfmt.ops.check.verdict import Verdict

__all__ = ["Demands", "Explanation", "Fixed", "Verdict", "check", "explain", "fix"]
