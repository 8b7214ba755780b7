"""Files that are joined to one, by the kernel or by reading them."""

import errno
import os

import pytest

from tokfmt.core.output import concatenate


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
