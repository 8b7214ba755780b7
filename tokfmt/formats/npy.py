"""The header of NumPy's `.npy`, parsed as the literal that it is: nothing is evaluated, and no pickle is loaded."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from tokfmt.core.annotation import shown
from tokfmt.errors import CorruptError, UnsafeError, UnsupportedError
from tokfmt.files.place import Place
from tokfmt.wording import printable

MAGIC = b"\x93NUMPY"
HEAD = 128
"""Bytes before the integers of the files that are written: what NumPy writes for one dimension, and for two."""

_AGAIN = "Write it again as integers"
_HEADER = 10_000  # bytes of a header, as NumPy limits it
_ITEM = re.compile(
    r"\s*(['\"])(descr|fortran_order|shape)\1\s*:\s*(['\"][^'\"]*['\"]|\[.*\]|True|False|\([-\d, L]*\))\s*"
)


class Bytes(Protocol):
    """A file, or the content of a member of an archive."""

    @property
    def path(self) -> Place: ...

    @property
    def size(self) -> int: ...

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes from a byte offset."""


class Header(NamedTuple):
    """What a header states."""

    dtype: np.dtype[Any]  # of the integers, in their byte order
    shape: tuple[int, ...]  # one or two dimensions
    begin: int  # byte offset of the first integer


def header_of(file: Bytes, begin: int = 0, size: int | None = None, *, flags: bool = False) -> Header:
    """Parse the header of a `.npy` file, or of a member of a zip that is stored as it is.

    Args:
        file: The file.
        begin: Byte offset of its magic number.
        size: Bytes of the array with its header; None: the file from there to its end.
        flags: The array may hold booleans, which are bytes of 0 or 1.
    """
    size = file.size - begin if size is None else size
    head = file.read(begin, min(size, 12))
    if not head.startswith(MAGIC):
        remedy = "--from-opt bare=DTYPE reads it as bare integers"
        raise UnsupportedError(
            file.path, "has no header of NumPy", offset=begin, found=head[:6].hex(" "), remedy=remedy
        )
    version = tuple(head[6:8])
    if version not in ((1, 0), (2, 0), (3, 0)):
        found = ".".join(map(str, version)) or "nothing"
        raise UnsupportedError(
            file.path, "version of NumPy's format", offset=6, expected="1.0, 2.0 or 3.0", found=found
        )
    text = 10 if version == (1, 0) else 12
    length = int.from_bytes(head[8:text], "little")
    if length > _HEADER:
        raise UnsafeError(file.path, "length of the header", offset=8, expected=f"at most {_HEADER:,}", found=length)
    raw = file.read(begin + text, length) if size >= text + length else b""
    if len(raw) < length or not raw:
        raise CorruptError(file.path, "ends inside its header", offset=begin + size, remedy="Copy it again")
    values = _literal(raw.decode("latin-1" if version < (3, 0) else "utf-8", "replace").strip())
    sizes = [n.strip(" L") for n in values["shape"][1:-1].split(",") if n.strip()] if values else []
    if values is None or not all(n.removeprefix("-").isdecimal() and len(n) < 20 for n in sizes):
        expected, found = "a dictionary of descr, fortran_order and shape", printable(raw[:60].decode("latin-1"))
        raise CorruptError(file.path, "header", offset=begin + text, expected=expected, found=found)
    descr, shape = values["descr"].strip("'\""), [int(n) for n in sizes]
    if re.fullmatch(r"[|=<>]?O\d*", descr):
        rows = "pyarrow.Table.from_pylist(list(numpy.load(PATH, allow_pickle=True)))"
        trusted = f"packed rows of a maker you trust with pyarrow.parquet.write_table({rows}, 'x.parquet')"
        remedy = f"{_AGAIN}; {trusted}"
        raise UnsafeError(file.path, "holds pickled objects, which can run code when they are loaded", remedy=remedy)
    descr = "|u1" if flags and descr == "|b1" else descr
    kind = re.fullmatch(r"[|=<>]?([iu])([1248])", descr)
    if not kind or not 1 <= len(shape) <= 2 or min(shape) < 0:
        expected, found = "integers in one or two dimensions", f"{shown(descr)} of shape {shown(values['shape'])}"
        remedy = "Save ARRAY.reshape(-1, ROW)" if kind and len(shape) > 2 else _AGAIN
        raise UnsupportedError(file.path, "is not an array of token IDs", expected=expected, found=found, remedy=remedy)
    if values["fortran_order"] == "True" and len(shape) > 1:
        what, remedy = (
            "stores columns, not rows (fortran_order)",
            "numpy.save(PATH, numpy.ascontiguousarray(ARRAY)) writes rows",
        )
        raise UnsupportedError(file.path, what, remedy=remedy)
    return Header(np.dtype(descr), tuple(shape), text + length)


def _literal(text: str) -> Mapping[str, str] | None:
    """Return the three values of a header as text; None if it is anything but a dictionary of them."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    inner, at, values = text[1:-1], 0, dict[str, str]()
    while found := _ITEM.match(inner, at):
        values[found[2]], at = found[3], found.end()
        if at < len(inner) and inner[at] == ",":
            at += 1
    return values if len(values) == 3 and not inner[at:].strip() and values["shape"][:1] == "(" else None


def header_bytes(dtype: np.dtype[Any], *shape: int) -> bytes:
    """Return the header that NumPy writes, of `HEAD` bytes."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return out.getvalue()
