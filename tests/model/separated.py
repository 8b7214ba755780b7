"""Readers with separators put in or taken off, as commands make them."""

from tokfmt.core.reader import Separators
from tokfmt.model.batch import Boundaries
from tokfmt.model.readers import ContentReader, LaidReader, from_reader, laid_reader
from tokfmt.model.select import View


def with_separators(reader, eos, *, before=False):
    """The axis of a destination that stores a separator after each sequence, or before each."""
    return laid_reader(reader, Boundaries(eos, "before" if before else "after"))


def without_trailing(reader, eos, path="x"):
    """The contents of an index whose sequences all end with the separator."""
    return ContentReader(from_reader(reader, eos, where=Separators.TRAILING, path=path))


def split_at(reader, eos, jobs=None):
    """The contents of a stream."""
    where = reader.info.separators
    return ContentReader(from_reader(reader, eos, where=where if where.alone else Separators.BETWEEN, jobs=jobs))


def is_laid(reader):
    """Whether a reader has separators put in."""
    return isinstance(reader, LaidReader)


def beneath(reader):
    """The readers that a view reads of."""
    if isinstance(reader, (ContentReader, LaidReader)):
        return reader.dataset.axis.readers()
    return getattr(reader, "sources", None) or ([reader.source] if isinstance(reader, View) else [])
