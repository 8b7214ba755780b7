"""The command line: one module per command, and `main`, which maps errors to exit codes."""

import gc

# Set before anything is imported: imports, including those of click, create far more objects than Python's threshold of
# 700, and the garbage collector's search through them costs browse 0.1 seconds.
gc.set_threshold(100_000)
