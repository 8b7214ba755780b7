"""The laws of a publisher, which hold whichever step fails: complete, or not written; nobody is overwritten silently."""

import contextlib
import fcntl
import os
import shutil
from pathlib import Path

import pytest
from steps import KINDS, Steps

from tokfmt.core.errors import ConversionError, DestinationExistsError, TokfmtError
from tokfmt.core.publisher import Publisher, publish_all

NEW = {"out": b"new", "out.idx": b"new index", "out.json": b"new manifest"}
OLD = {"out": b"old", "out.idx": b"old index", "out.json": b"old manifest"}
KILLED = {"kill": 1}


def name_of(fault):
    return "-".join(map(str, *fault.items()))


class PublisherContract:
    """Laws of every backend. A subclass builds datasets of the files `out`, `out.idx` and `out.json`."""

    home: Path
    steps: Steps

    def publisher(self, *, overwrite=False, keep=False):
        """Return a publisher of `out` with the companion `out.idx`."""
        raise NotImplementedError

    def build(self, publisher, content):
        """Write the files of a dataset where a publisher builds them."""
        publisher.path.write_bytes(content["out"])
        publisher.path.with_name("out.idx").write_bytes(content["out.idx"])

    def seen(self):
        """Return the files that a reader finds, by name."""
        raise NotImplementedError

    def put(self, content):
        """Write the files of a dataset without a publisher."""
        raise NotImplementedError

    def left(self):
        """Return what a run left that is no part of a dataset."""
        raise NotImplementedError

    def clear(self):
        """Remove everything."""
        raise NotImplementedError

    def run(self, *, overwrite=False, keep=False):
        with self.publisher(overwrite=overwrite, keep=keep) as one:
            if not one.published and not one.path.exists():
                self.build(one, NEW)
            one.publish({"out.json": NEW["out.json"]})
            one.keep = False

    def readable(self, states):
        """Whether what a reader finds is one of these states, or one that lacks files and so is not read as a dataset."""
        found = self.seen()
        return found in states or (
            any(found.items() <= state.items() for state in states) and not {"out", "out.idx"} <= found.keys()
        )

    @pytest.mark.parametrize("before", [{}, OLD], ids=["fresh", "old"])
    @pytest.mark.parametrize("fault", KINDS, ids=name_of)
    def test_complete_or_not_written(self, before, fault):
        """After a fault at any step, what is there is old, absent or new; the next run works, and leaves nothing."""
        self.put(before)
        with self.steps.fail() as raised:
            self.run(overwrite=bool(before))
        assert not raised, raised
        assert self.seen() == NEW
        steps = list(self.steps.names)
        for at in range(len(steps)):
            self.clear()
            self.put(before)
            with self.steps.fail(at, fault) as raised:
                self.run(overwrite=bool(before))
            what = f"{fault} at {at} of {len(steps)}: {steps[at]}; {raised}, {self.seen()}"
            if fault == KILLED:
                manifest_lacks = [{k: v for k, v in state.items() if k != "out.json"} for state in (before, NEW)]
                assert self.readable([before, NEW, *manifest_lacks]), what
            else:
                assert self.seen() in (before, NEW), what
                complete = any("is complete" in note for one in raised for note in getattr(one, "__notes__", ()))
                assert not raised or complete == (self.seen() == NEW), what
                assert not self.left() or "errno" in fault, what
            again = self.seen() == before and not before
            self.run(overwrite=not again)
            assert self.seen() == NEW and not self.left(), what

    @pytest.mark.parametrize("fault", KINDS, ids=name_of)
    def test_a_run_that_is_kept_goes_on(self, fault):
        """What it has built is published by the next run, wherever it stopped, once there is a request to continue."""
        with self.steps.fail() as raised:
            self.run_kept()
        assert not raised, raised
        steps = list(self.steps.names)
        for at in range(len(steps)):
            self.clear()
            with self.steps.fail(at, fault):
                self.run_kept()
            what = f"{fault} at {at} of {len(steps)}: {steps[at]}"
            if self.seen() == NEW:  # Only the cleaning was cut short.
                self.run(overwrite=True)
            else:
                self.run_kept()
            assert self.seen() == NEW and not self.left(), what

    def run_kept(self):
        with self.publisher(keep=True) as one:
            request = one.home / "conversion.json"
            one.keep = request.exists()
            if not request.exists():
                request.write_text("{}")
                one.keep = True
            if not one.published and not (one.home / "built").exists():
                self.build(one, NEW)
                (one.home / "built").touch()
            one.publish({"out.json": NEW["out.json"]})
            one.keep = False

    def test_one_writer_at_a_time(self):
        """The other one is refused before it has built anything, and takes nothing along."""
        for overwrite in (False, True):
            with self.publisher(overwrite=overwrite) as first:
                self.build(first, NEW)
                with pytest.raises(ConversionError, match="another tokfmt is writing it"):
                    self.run(overwrite=overwrite)
                first.publish({"out.json": NEW["out.json"]})
            assert self.seen() == NEW
            assert not self.left()

    def test_what_exists_stays_without_overwrite(self):
        self.put(OLD)
        with pytest.raises(DestinationExistsError, match="--overwrite"):
            self.run()
        assert self.seen() == OLD and not self.left()

    def test_what_appears_meanwhile_stays(self):
        """Written by another program."""
        with pytest.raises(DestinationExistsError), self.publisher() as one:
            self.build(one, NEW)
            self.put({"out": b"mine"})
            one.publish({"out.json": NEW["out.json"]})
        assert self.seen() == {"out": b"mine"} and not self.left()

    def test_a_run_that_fails_leaves_nothing(self):
        with pytest.raises(ZeroDivisionError), self.publisher() as one:
            self.build(one, NEW)
            1 / 0  # noqa: B018
        assert self.seen() == {} and not self.left()


class TestLocal(PublisherContract):
    @pytest.fixture(autouse=True)
    def _at(self, tmp_path):
        self.home, self.steps = tmp_path, Steps(tmp_path)

    def publisher(self, *, overwrite=False, keep=False):
        return Publisher(self.home / "out", overwrite=overwrite, kept="resume" if keep else "", companions=["out.idx"])

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
    """Each fault at each step: all of them, or what was there; after a kill, no manifest before all are there."""
    steps, names = Steps(tmp_path), "abc"

    def run():
        with contextlib.ExitStack() as stack:
            several = [stack.enter_context(Publisher(tmp_path / name, overwrite=True)) for name in names]
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
    for fault in KINDS:
        for at in range(0, count, 2):
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
        with contextlib.suppress(TokfmtError), Publisher(out, overwrite=overwrite, objection=strangers) as one:
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
    with Publisher(out, overwrite=True, objection=lambda path: "") as one:
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
    with pytest.raises(ConversionError, match="is not a directory of tokfmt"), Publisher(tmp_path / "out"):
        pass
    assert (home / "thesis.tex").read_text() == "three years"


def test_dead_leftovers_go_and_living_ones_stay(tmp_path):
    home = tmp_path / ".out.tokfmt-work"
    (home / "build").mkdir(parents=True, mode=0o700)
    (home / "build" / "out").write_text("half")
    lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(ConversionError, match="another tokfmt is writing it now"), Publisher(tmp_path / "out"):
        pass
    os.close(lock)
    home.chmod(0o700)
    with Publisher(tmp_path / "out") as one:
        assert not one.path.exists()
    assert os.listdir(tmp_path) == []


def test_no_directory_to_write_to(tmp_path):
    with (
        pytest.raises(ConversionError, match="the directory it should go to does not exist"),
        Publisher(tmp_path / "no" / "out"),
    ):
        pass
