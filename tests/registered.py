"""The formats that are installed, by name: what a plug-in's tests have as an object."""

from tokfmt.core.format import look
from tokfmt.registry import detect, get, list_formats, names

__all__ = ["detect", "get", "list_formats", "names", "own_names", "sniffed"]


def own_names():
    """The names of the formats that no plug-in adds."""
    return {format_.name for format_ in list_formats() if type(format_).__module__.startswith("tokfmt.")}


def sniffed(format_, place):
    """How certain a format is of a place."""
    return format_.sniff(look(place))
