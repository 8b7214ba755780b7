"""What is below a directory, as Python walks it."""

import os

import pytest

from tokfmt.files.file import walk


def test_walks_are_those_of_python(tmp_path):
    for name in ("a/b/c", "a/empty", "d"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("a/x", "a/b/y", "d/z.bin", "top", "d/ü"):
        (tmp_path / name).touch()
    for name, target in {"to_file": "top", "to_directory": "d", "to_nothing": "gone", "loop": "loop"}.items():
        (tmp_path / name).symlink_to(target)
    os.mkfifo(tmp_path / "fifo")
    walked = [(str(base), sorted(names)) for base, names in walk(tmp_path)]
    assert dict(walked) == {base: sorted(names) for base, _, names in os.walk(tmp_path)}
    assert walked[-1][0] == str(tmp_path)
    order = [base for base, _ in walked]
    assert all(order.index(base) < order.index(os.path.dirname(base)) for base in order[:-1])
    with pytest.raises(OSError, match="gone"):
        list(walk(tmp_path / "gone"))
