"""Renames without replacement and by exchange, on Linux, by the call of macOS, and in several steps."""

import ctypes
import os

import pytest

from tokfmt.files.durable import EXCHANGE, NOREPLACE, rename, replaced_path

REAL = ctypes.CDLL


class OfMacOS(REAL):
    """The C library of macOS: renamex_np takes other flags than renameat2, which is not there."""

    def __getattr__(self, name):
        if name == "renameat2":
            raise AttributeError(name)
        if name == "renamex_np":
            linux = REAL(None, use_errno=True).renameat2
            return lambda old, new, flags: linux(-100, old, -100, new, {4: 1, 2: 2}[flags])
        return super().__getattr__(name)


class OfNeither(REAL):
    def __getattr__(self, name):
        if name in ("renameat2", "renamex_np"):
            raise AttributeError(name)
        return super().__getattr__(name)


@pytest.mark.parametrize("library", [REAL, OfMacOS, OfNeither])
def test_rename(tmp_path, monkeypatch, library):
    monkeypatch.setattr(ctypes, "CDLL", library)
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_text("new")
    rename(new, old, NOREPLACE)
    assert (os.listdir(tmp_path), old.read_text()) == (["old"], "new")
    new.write_text("newer")
    with pytest.raises(FileExistsError):
        rename(new, old, NOREPLACE)
    rename(new, old, EXCHANGE)
    replaced = replaced_path(new) if library is OfNeither else new
    assert (old.read_text(), replaced.read_text()) == ("newer", "new")
    with pytest.raises(FileNotFoundError):
        rename(replaced, tmp_path / "none", EXCHANGE)
    assert replaced.read_text() == "new"
