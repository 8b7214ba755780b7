"""Files, options, publication, errors, transport: the core's promises one by one."""

import dataclasses
import errno
import os

import numpy as np
import pytest

from tokfmt import registry
from tokfmt.core import files
from tokfmt.core import reader as token_axis
from tokfmt.core.errors import (
    OptionError,
    TokenRangeError,
)
from tokfmt.core.files import File
from tokfmt.core.options import parse_options
from tokfmt.core.output import concatenate


def test_more_files_than_descriptors(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MOST_OPEN", 2)
    for i in range(6):
        (tmp_path / str(i)).write_bytes(bytes([i]))
    held = [File(tmp_path / str(i)) for i in range(6)]
    open_before = len(os.listdir("/proc/self/fd"))
    assert [file.read(0, 1)[0] for file in held] == list(range(6))
    assert len(os.listdir("/proc/self/fd")) <= open_before + 1
    for file in held:
        file.close()


# ids


def test_ids_never_wrap():
    assert token_axis.check_ids(np.array([3, 5], np.uint32), 5, 0, "x") == 5
    with pytest.raises(TokenRangeError, match="x: token ID 6 at position 11 is outside 0..5"):
        token_axis.check_ids(np.array([3, 6], np.uint32), 5, 10, "x")
    assert [token_axis.smallest(n).itemsize for n in (0, 255, 256, 65535, 65536, 2**32 - 1, 2**32)] == [
        1,
        1,
        2,
        2,
        4,
        4,
        8,
    ]


@pytest.mark.parametrize("kernel", [True, False])
def test_concatenate(tmp_path, monkeypatch, kernel):
    if not kernel:
        monkeypatch.setattr(os, "copy_file_range", lambda *a: (_ for _ in ()).throw(OSError(errno.EXDEV, "")))
    parts = [tmp_path / str(i) for i in range(3)]
    for part, content in zip(parts, (b"ab", b"", b"c" * 3_000_000), strict=True):
        part.write_bytes(content)
    concatenate(parts, tmp_path / "all")
    assert (tmp_path / "all").read_bytes() == b"ab" + b"c" * 3_000_000
    assert not any(part.exists() for part in parts)


@pytest.mark.parametrize("format_", registry.list_formats(), ids=lambda f: f.name)
def test_numbers_have_bounds(format_):
    """No format takes 0, a negative number, or one beyond its most; and each says what it takes."""
    for kind in (format_.read_options, format_.write_options):
        for field in dataclasses.fields(kind):
            literal = "Literal" in str(field.type)
            if not isinstance(field.default, int) or isinstance(field.default, bool) or literal:
                continue
            assert field.metadata["minimum"] is not None, f"{format_.name} {field.name}"
            most = field.metadata["maximum"]
            for value in (0, -8, *([] if most is None else [most + 1])):
                with pytest.raises(
                    OptionError,
                    match=rf"{field.name}: expected a whole number (of at least|from) [\d,]+( to [\d,]+)?, found -?[\d,]+$",
                ):
                    parse_options(kind, {field.name: value}, format_.name)
                with pytest.raises(OptionError, match="expected a whole number"):
                    parse_options(kind, [f"{field.name}={value}"], format_.name)
