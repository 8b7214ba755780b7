"""Stored samples as a function: Python has no public one, as `tokfmt show --samples` prints them."""

from tokfmt.commands.show import show
from tokfmt.source.request import SourceRequest


def samples(path, selection=None, *, tokenizer=None, **how):
    """What `tokfmt show PATH SELECTION --samples` prints, as values."""
    return show.samples(SourceRequest((path,), **how), selection, tokenizer=tokenizer)
