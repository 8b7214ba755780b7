"""The losses that `--allow-loss` accepts by name, and the policy of each command: what it accepts without being asked.

Formats of other packages add theirs with `Format.losses`.

This module imports nothing, so that the help of a command can list the names without numpy.
"""

LOSSES = (
    "embedded-separators", "empty-sequences", "loss-mask", "masked-separators", "last-labels", "inner-boundaries",
    "invalid-lines", "invalid-utf8", "fields", "splits", "order", "tail", "other-files", "tokenizers", "null-rows",
    "modes", "gaps", "leads",
)  # fmt: skip

READS = {
    "open": frozenset({"fields"}),
    "show": frozenset({"fields"}),
    "stats": frozenset({"fields"}),
    "diff": frozenset({"fields"}),
    "info": frozenset({"fields", "other-files"}),
    "check": frozenset({"other-files", "tokenizers"}),
    "fix": frozenset({"other-files"}),
    "browse": frozenset({"fields", "other-files", "tokenizers"}),
}
"""The losses that a command which reads accepts by itself, because it loses nothing by them, or reports them."""

WRITES = frozenset(
    {
        "embedded-separators", "empty-sequences", "masked-separators", "last-labels", "inner-boundaries", "leads",
        "invalid-utf8",
    }
)  # fmt: skip
"""The losses that only commands which write have. Such a command accepts none by itself."""
