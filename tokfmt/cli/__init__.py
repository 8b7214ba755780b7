"""The command line: one small module a command; the only place that maps errors to exit codes."""
