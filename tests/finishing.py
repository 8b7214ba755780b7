"""`--finish` as a function: Python has no public one, as a cluster runs the command."""

from tokfmt.commands.convert.convert import finish

__all__ = ["finish"]
