"""Files of a replaced dataset are removed, and nothing else."""

import shutil

from tokfmt.files.replacing import remove


def state(home):
    return {path: (path.lstat().st_mode, path.is_file() and path.read_bytes()) for path in home.rglob("*")}


def test_removal_of_what_was_replaced_follows_no_link(tmp_path):
    """A directory of the old dataset becomes a link after its files were listed."""
    private, old = tmp_path / "private", tmp_path / "old"
    (private / "build").mkdir(parents=True)
    for name in ("thesis.tex", "0.0"):
        (private / "build" / name).write_text("three years")
    (old / "build").mkdir(parents=True)
    for name in ("thesis.tex", "0.0"):
        (old / "build" / name).touch()
    (old / "1").symlink_to(private)
    files = [*(old / "build").iterdir(), old / "1", old / "gone"]
    shutil.rmtree(old / "build")
    (old / "build").symlink_to(private / "build")
    before = state(private)
    assert not remove(old, files)
    assert state(private) == before
    (old / "build").unlink()
    (old / "build").mkdir()
    (old / "build" / "0.0").touch()
    assert remove(old, files)
    assert state(private) == before
    assert not old.exists()
