"""Others may rename in the directory of a destination: its hidden sibling gets another name right after it was made.

One user is enough: what may be renamed follows from the permissions of the directory.
"""

import os
import shutil
from pathlib import Path

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.core.atomic_output import Staging
from tokfmt.core.errors import ConversionError
from tokfmt.core.locks import Scratch, held, may_be_renamed
from tokfmt.core.output import remove

PACK = FIXTURES / "modalities/D_2byte_gpt2.pbin"

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="without descriptors as paths")


@pytest.fixture
def team(tmp_path):
    place = tmp_path / "team"
    place.mkdir()
    place.chmod(0o777)
    return place


@pytest.fixture
def private(tmp_path):
    """What the caller owns elsewhere, under the names that a hidden sibling has."""
    home = tmp_path / "private"
    for part in ("build", "scratch"):
        (home / part).mkdir(parents=True)
        for name in ("out.pbin", "out.zarr", "thesis.tex"):
            (home / part / name).write_text("three years")
            (home / part / name).chmod(0o600)
    (home / "lock").write_text("three years")
    return home


def state(home):
    return {path: (path.lstat().st_mode, path.is_file() and path.read_bytes()) for path in home.rglob("*")}


@pytest.fixture(params=["link", "directory"])
def swapped(request, monkeypatch, team, private):
    """Right after the sibling is locked, its name is that of a link to what is private, or of links to parts of it."""
    occupy = Staging._occupy

    def occupied(self):
        occupy(self)
        name = self.sibling
        name.rename(team / "moved")
        if request.param == "link":
            name.symlink_to(private)
        else:
            name.mkdir()
            for part in ("build", "scratch", "lock"):
                (name / part).symlink_to(private / part)

    monkeypatch.setattr(Staging, "_occupy", occupied)


@pytest.mark.usefixtures("swapped", "kept_workers")
@pytest.mark.parametrize(
    ("name", "executor"), [("out.pbin", "serial"), pytest.param("out.zarr", "processes", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("words", [{}, {"resume": True}, {"overwrite": True}], ids=lambda words: ", ".join(words))
def test_nothing_outside_is_touched(team, private, name, words, executor):
    if "overwrite" in words:
        old = FIXTURES / {"out.pbin": "modalities/A_2byte_gpt2.pbin", "out.zarr": "flat-tokens/empties.zarr"}[name]
        (shutil.copytree if old.is_dir() else shutil.copyfile)(old, team / name)
        (team / name).chmod(0o777)
    before = state(private)
    tokfmt.convert(PACK, team / name, executor=executor, jobs=2, verify=True, **words)
    assert state(private) == before
    with tokfmt.open(PACK) as source, tokfmt.open(team / name) as copy:
        assert [list(one) for one in source] == [list(one) for one in copy]
    assert not os.path.lexists(team / "moved") or not os.listdir(team / "moved")


def test_scratch_stays_the_same_directory(team, private, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(team))
    before = state(private)
    with Scratch() as path:
        (name,) = team.iterdir()
        name.rename(team / "moved")
        name.symlink_to(private)
        (path / "tokens").write_text("secret")
    assert state(private) == before
    assert os.listdir(team / "moved") == []


def test_messages_name_the_destination(team, monkeypatch):
    """And not the descriptor."""
    with pytest.raises(ConversionError) as refused, Staging(team / "out.pbin") as staging:
        assert staging.home != staging.sibling
        raise ConversionError(f"{staging.path}: {staging.home}/x: cannot be written")
    assert str(refused.value).startswith(f"{team}/out.pbin: {staging.sibling}/x: cannot be written")


@pytest.mark.parametrize(("mode", "expected"), [(0o700, False), (0o755, False), (0o1777, False), (0o775, True)])
def test_who_may_rename(tmp_path, mode, expected):
    tmp_path.chmod(mode)
    assert may_be_renamed(tmp_path / "any") is expected
    (tmp_path / "home").mkdir(mode=0o700)
    with held(tmp_path / "home") as place:
        assert (place != tmp_path / "home") is expected
        assert place.samefile(tmp_path / "home")


def test_removal_of_what_was_replaced_follows_no_link(team, private):
    """A directory of the old dataset becomes a link after its files were listed."""
    old = team / "old"
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
    assert not Path(old).exists()
