"""A local destination keeps the laws of publishing; and what only a file system has."""

import contextlib
import errno
import fcntl
import itertools
import os
import shutil

import commands
import pytest
from amount import NIGHTLY, first
from paths import FIXTURES
from publishing import DATA, INDEX, KILLED, PublisherContract
from steps import KINDS, Steps

import tokfmt
from tokfmt.errors import ConversionError, TokfmtError
from tokfmt.files.publisher import LocalPublisher, publish_all


class TestLocal(PublisherContract):
    @pytest.fixture(autouse=True)
    def _at(self, tmp_path):
        self.home, self.steps = tmp_path, Steps(tmp_path)

    def publisher(self, *, overwrite=False, keep=False):
        return LocalPublisher(self.home / DATA, overwrite=overwrite, kept="resume" if keep else "", companions=[INDEX])

    def seen(self):
        return {path.name: path.read_bytes() for path in self.home.iterdir() if not path.name.startswith(".")}

    def put(self, content):
        for name, data in content.items():
            (self.home / name).write_bytes(data)

    def left(self):
        return [path.name for path in self.home.iterdir() if path.name.startswith(".")]

    def clear(self):
        for path in self.home.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


# Several destinations, directories, and file systems with less


def test_several_appear_together_unless_the_process_is_killed(tmp_path):
    """A fault at each step: all of them, or what was there; after a kill, no manifest before all are there."""
    steps, names = Steps(tmp_path), "abc"

    def run():
        with contextlib.ExitStack() as stack:
            several = [stack.enter_context(LocalPublisher(tmp_path / name, overwrite=True)) for name in names]
            for one in several:
                one.path.write_bytes(b"new")
            publish_all({one: {f"{one.destination.name}.json": b"new"} for one in several})

    def seen():
        return {path.name: path.read_bytes() for path in tmp_path.iterdir() if not path.name.startswith(".")}

    old, new = ({f"{name}{end}": text for name in names for end in ("", ".json")} for text in (b"old", b"new"))
    with steps.fail() as raised:
        run()
    assert not raised and seen() == new
    count = len(steps.names)
    others = itertools.cycle(fault for fault in KINDS if fault != KILLED)
    some = [(at, KILLED if at % 2 else next(others)) for at in range(count)]
    for at, fault in itertools.product(range(count), KINDS) if NIGHTLY else some:
        for name, content in old.items():
            (tmp_path / name).write_bytes(content)
        with steps.fail(at, fault):
            run()
        found = seen()
        if fault != KILLED:
            assert found in (old, new), (fault, at, found)
        elif any(found.get(f"{name}.json") == b"new" for name in names):
            assert all(found[name] == b"new" for name in names)
        run()
        assert seen() == new


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory(tmp_path, overwrite):
    """It is replaced in one step; a file that it gains meanwhile is no part of a dataset, so nothing is replaced."""
    out = tmp_path / "out"

    def strangers(place):
        return "it holds a stranger" if (place / "stranger").exists() else ""

    if overwrite:
        out.mkdir()
        (out / "part").write_text("old")
    for gains in (True, False):
        with contextlib.suppress(TokfmtError), LocalPublisher(out, overwrite=overwrite, objection=strangers) as one:
            one.path.mkdir()
            (one.path / "part").write_text("new")
            if gains and overwrite:
                (out / "stranger").touch()
            one.publish()
        if gains and overwrite:
            assert (out / "part").read_text() == "old"
            (out / "stranger").unlink()
        else:
            break
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("part", "new")]
    assert os.listdir(tmp_path) == ["out"]


def test_what_a_replaced_directory_gains_at_the_end_is_kept(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("old")
    with LocalPublisher(out, overwrite=True, objection=lambda path: "") as one:
        one.path.mkdir()
        (one.path / "new").write_text("new")
        one.publish()
        one.objection = lambda path: "it holds something"
    (kept,) = (path for path in tmp_path.iterdir() if path != out)
    assert kept.name.startswith("out.old-")
    assert [(kept / "old").read_text(), (out / "new").read_text()] == ["old", "new"]


def test_a_directory_of_somebody_else_that_has_the_name(tmp_path):
    """Neither used nor emptied, as long as it has no lock of tokfmt."""
    home = tmp_path / ".out.tokfmt-work"
    home.mkdir(mode=0o700)
    (home / "thesis.tex").write_text("three years")
    with pytest.raises(ConversionError, match="is not a directory of tokfmt"), LocalPublisher(tmp_path / "out"):
        pass
    assert (home / "thesis.tex").read_text() == "three years"


def test_dead_leftovers_go_and_living_ones_stay(tmp_path):
    home = tmp_path / ".out.tokfmt-work"
    (home / "build").mkdir(parents=True, mode=0o700)
    (home / "build" / "out").write_text("half")
    lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(ConversionError, match="another tokfmt is writing it now"), LocalPublisher(tmp_path / "out"):
        pass
    os.close(lock)
    home.chmod(0o700)
    with LocalPublisher(tmp_path / "out") as one:
        assert not one.path.exists()
    assert os.listdir(tmp_path) == []


def test_no_directory_to_write_to(tmp_path):
    with (
        pytest.raises(ConversionError, match="the directory it should go to does not exist"),
        LocalPublisher(tmp_path / "no" / "out"),
    ):
        pass


@pytest.mark.parametrize("code", first(1, [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK]))
def test_conversions_where_there_are_no_locks(tmp_path, monkeypatch, code):
    """Lustre mounted without flock, some FUSE, NFS whose server has no locks."""

    def flock(fd, how):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", flock)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # not where other runs look for leftovers
    source = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
    tokfmt.convert(source, tmp_path / "a.zarr", resume=True)
    tokfmt.convert(source, tmp_path / "a.zarr", overwrite=True, shuffle=1)
    with LocalPublisher(tmp_path / "e.zarr"):
        tokfmt.convert(source, tmp_path / "b.zarr")
    for task in ((0, 2), (1, 2)):
        tokfmt.convert(source, tmp_path / "c.zarr", task=task)
    commands.run("convert", tmp_path / "c.zarr", "--finish", check=0)
    assert {name for name in os.listdir(tmp_path) if not name.endswith(".json")} == {"a.zarr", "b.zarr", "c.zarr"}
    holder = f"process {os.getpid()} on {os.uname().nodename}"
    with (
        LocalPublisher(tmp_path / "d.zarr", kept="resume"),
        pytest.raises(ConversionError, match=f"locked by {holder}"),
    ):
        tokfmt.convert(source, tmp_path / "d.zarr", resume=True)
