"""Chunks of hostile bytes: a FormatError or the right number of bytes, never more memory than a chunk."""

from pathlib import Path

import pytest

from tokfmt.core.errors import UnsafeError
from tokfmt.formats.zarr_arrays import codecs
from tokfmt.formats.zarr_arrays.array import _chain


def test_names_that_are_never_decoded():
    plain = {"name": "bytes", "configuration": {"endian": "little"}}
    for name in (
        "numcodecs.pickle",
        "pickle",
        "numcodecs.msgpack2",
        "numcodecs.json2",
        "vlen-utf8",
        "numcodecs.blosc2",
    ):
        with pytest.raises(UnsafeError):
            _chain(Path("x"), [plain, {"name": name, "configuration": {}}], 4)
    assert {"blosc", "zstd", "lz4", "gzip", "zlib"} == codecs.COMPRESSORS
