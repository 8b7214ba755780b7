"""Datasets as commands open them: as they are stored, and split into documents."""

from tokfmt.source.open import open_dataset
from tokfmt.source.request import Reading, SourceRequest


def open_source(paths, *, jobs=None, collect_invalid=False, **how):
    """A dataset without separators; several paths are files that join."""
    return open_dataset(SourceRequest.of(paths, **how), Reading(jobs=jobs, collect_invalid=collect_invalid))


def stored(paths):
    """A dataset as it is stored."""
    return open_dataset(SourceRequest(tuple(paths)), Reading(as_stored=True))
