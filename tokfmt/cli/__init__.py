"""The command line: one small module a command; the only place that maps errors to exit codes."""

import gc

# before anything is imported: imports, those of click too, make far more objects than Python's 700, and looking for
# garbage among them cost browse 0.1 seconds
gc.set_threshold(100_000)
