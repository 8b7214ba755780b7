"""The formats that are installed, by name: what a plug-in's tests have as an object."""

from tokfmt.registry import get, names

__all__ = ["get", "names"]
