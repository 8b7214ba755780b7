"""Datasets as commands open them: as they are stored, and split into documents."""

from tokfmt.source.discover import find_sources
from tokfmt.source.open import open_source, open_stored
from tokfmt.source.request import SourceRequest

__all__ = ["open_source", "stored"]


def stored(paths):
    """A dataset as it is stored."""
    request = SourceRequest(tuple(paths))
    return open_stored(find_sources(request), request)
