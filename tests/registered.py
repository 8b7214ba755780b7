"""The formats that are installed, by name: what a plug-in's tests have as an object."""

from opened import open_source

from tokfmt.core.format import probe_of
from tokfmt.registry import candidates, detect, for_destination, get, list_formats, names
from tokfmt.source.ingest import tokenized
from tokfmt.unsupported import foreign

__all__ = [
    "claims",
    "detect",
    "for_destination",
    "get",
    "list_formats",
    "names",
    "opened",
    "own_names",
    "sign_of",
    "sniffed",
    "tokens_of",
]


def own_names():
    """The names of the formats that no plug-in adds."""
    return {format_.name for format_ in list_formats() if type(format_).__module__.startswith("tokfmt.")}


def sniffed(format_, place):
    """How certain a format is of a place."""
    return format_.sniff(probe_of(place))


def claims(place):
    """How certain each format is that claims a place; only those are asked whose signature may fit."""
    return candidates(probe_of(place))


def sign_of(place):
    """What shows that a file is of a kind that no format reads."""
    return foreign(probe_of(place))


def opened(path, **how):
    """The reader of a dataset as commands open it: of records, where those are stored."""
    return open_source([path], **how).reader


def tokens_of(records):
    """The reader of the IDs of records."""
    return tokenized(records, None)
