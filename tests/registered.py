"""The formats that are installed, by name: what a plug-in's tests have as an object."""

from tokfmt.core.format import look
from tokfmt.registry import detect, get, names

__all__ = ["detect", "get", "names", "sniffed"]


def sniffed(format_, place):
    """How certain a format is of a place."""
    return format_.sniff(look(place))
