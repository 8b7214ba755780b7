"""Places that files name: the sources of recipes, blend lists and ledgers.

A file of the user's own machine may name any place. A file in a store may be written by another person, and names only
what is in the same bucket, host or repository. No file names an address that holds a secret. Endpoints, profiles and
other options of stores come from the user only.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from urllib.parse import parse_qsl

from tokfmt.errors import FormatError, OptionError, UnsafeError
from tokfmt.files.place import LocalPlace, Place, Url, is_address, place_of
from tokfmt.wording import printable

_OF_A_SIGNATURE = re.compile(
    r"signature|\bsig\b|token|credential|password|secret|\bkey\b|api_?key|expires", re.IGNORECASE
)
_SHARED = {"hf": 2}
"""Schemes whose authority is shared by many owners, with the number of names of the key that tell owners apart."""


def place_named(file: Place, name: str, home: Place | None = None) -> Place:
    """Return the place that a file names: an address, or a path relative to `home` (default: the directory of the
    file). A file in a store must not name something outside of that store, nor an address that holds a signature or a
    password.
    """
    home = file.parent if home is None else home
    if not isinstance(file, Url) or not isinstance(home, Url):
        return _without_secrets(file, place_of(name).asking(file.listing)) if is_address(name) else home / name
    try:
        place = (place_of(name) if is_address(name) else _joined(home, name)).asking(file.listing)
    except OptionError:
        raise _outside(file, name) from None
    if not (isinstance(place, Url) and _owner(place) == _owner(file)):
        raise _outside(file, place)
    return _without_secrets(file, place)


def _joined(home: Url, name: str) -> Place:
    """Return the place of a path. `..` leads up to the bucket, and an absolute path is a local one."""
    if name.startswith("/"):
        return LocalPlace(name)
    key = posixpath.normpath(posixpath.join(home.key, name))
    return replace(home, key="" if key == "." else key, query="")


def _owner(url: Url) -> Url:
    names = url.key.split("/")[: _SHARED.get(url.scheme, 0)]
    return replace(url, key="/".join(names).partition("@")[0], query="")


def _outside(file: Url, place: Place | str) -> UnsafeError:
    remedy = "Copy it to a local file, which may name any place"
    return UnsafeError(file, f"names {printable(place)}, which is outside of {_owner(file)}", remedy=remedy)


def _without_secrets(file: Place, place: Place) -> Place:
    if isinstance(place, Url):
        if "@" in place.authority:
            raise FormatError(file, f"names {place} with a password", remedy="Name it without")
        if any(_OF_A_SIGNATURE.search(key) for key, _ in parse_qsl(place.query, keep_blank_values=True)):
            remedy = "Name the object without it, and give credentials to its store"
            raise FormatError(
                file, f"names {place} with a signature, which ends, and opens it to readers", remedy=remedy
            )
    return place
