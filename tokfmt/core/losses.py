"""The losses that `--allow-loss` accepts by name. Formats of other packages add theirs with `Format.losses`.

This module imports nothing, so that the help of a command can list the names without numpy.
"""

LOSSES = (
    "embedded-separators", "empty-sequences", "loss-mask", "masked-separators", "last-labels", "inner-boundaries",
    "invalid-lines", "invalid-utf8", "fields", "splits", "order", "tail", "other-files", "tokenizers", "null-rows",
    "modes", "gaps", "leads",
)  # fmt: skip
