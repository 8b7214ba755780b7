"""Two runs for one destination, in every order, many times; signals in the very step that publishes."""

import os

import pytest

from tokfmt.core import atomic_output
from tokfmt.core.atomic_output import Staging, publish_all, rename
from tokfmt.core.errors import ConversionError

# another run between two calls


def test_a_manifest_goes_while_its_permissions_are_read(tmp_path, monkeypatch):
    """Another run sets it aside right before it publishes."""
    inherit = atomic_output.inherit
    (tmp_path / "out").write_text("old")
    (tmp_path / "out.json").write_text("of old")

    def too_late(new, old):
        old.unlink() if old.name == "out.json" else None
        inherit(new, old)

    monkeypatch.setattr(atomic_output, "inherit", too_late)
    with Staging(tmp_path / "out", overwrite=True) as staging:
        staging.path.write_text("new")
        staging.publish({"out.json": b"{}"})
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"out": "new", "out.json": "{}"}


@pytest.mark.parametrize("sees", ["a stranger", FileNotFoundError, "permissions"])
def test_a_directory_is_replaced_while_it_is_looked_at(tmp_path, monkeypatch, sees):
    """What a look has met of two datasets is no reason to stop; what is there afterwards is looked at again."""
    out, looks, inherit = tmp_path / "out", [], atomic_output.inherit

    def replaced():
        looks.append(1)
        if len(looks) == 2:  # the first is at the beginning
            out.rename(tmp_path / "gone")
            out.mkdir()
            (out / "other").write_text("of another run")
            return True
        return False

    def objection(path):
        if path == out and sees != "permissions" and replaced():
            if sees is FileNotFoundError:
                os.lstat(out / "part")
            return sees
        return ""

    def names_of_both(new, old):
        looks.append(1)
        if replaced():
            os.lstat(out / "part")
        inherit(new, old)

    out.mkdir()
    (out / "part").write_text("old")
    if sees == "permissions":
        monkeypatch.setattr(atomic_output, "inherit", names_of_both)
    with Staging(out, overwrite=True, objection=objection) as staging:
        staging.path.mkdir()
        (staging.path / "part").write_text("new")
        staging.publish()
    assert len(looks) > 2
    assert [path.name for path in out.iterdir()] == ["part"]
    assert (out / "part").read_text() == "new"


# signals


class Stop(BaseException):
    pass


def old_and_new(home, names, kept=""):
    for name in names:
        (home / name).write_text(f"old {name}")
    return [Staging(home / name, overwrite=True, kept=kept) for name in names]


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_signal_right_after_the_rename(tmp_path, monkeypatch, portable, existing, kind):
    """The run knows that it published, says so, puts what belongs beside it, and a later step must not do it again."""
    out = tmp_path / "out"

    def fill(path, text):
        if kind == "directory":
            path.mkdir()
            path = path / "part"
        path.write_text(text)

    def renames_and_stops(*job):
        (atomic_output.rename_portably if portable else rename)(*job)
        raise Stop

    if existing:
        fill(out, "old")
    monkeypatch.setattr(atomic_output, "rename", renames_and_stops)
    anything = {"overwrite": True, "objection": lambda path: ""}
    with pytest.raises(Stop) as stopped, Staging(out, **anything) as staging:
        fill(staging.path, "new")
        staging.publish({"out.json": b"{}"})
    assert staging.published
    assert stopped.value.__notes__ == [f"{out} is complete"]
    assert (out / "part" if kind == "directory" else out).read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["out", "out.json"]


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_signal_after_each_step_of_a_rename_without_renameat2(tmp_path, monkeypatch, kind, step):
    """Old or new, and the run knows which."""
    out = tmp_path / "out"
    left = step

    def then_stop(call):
        def calls(*args):
            nonlocal left
            call(*args)
            left -= 1
            if not left:
                raise Stop

        return calls

    def fill(path, text):
        path.mkdir() if kind == "directory" else None
        (path / "part" if kind == "directory" else path).write_text(text)

    fill(out, "old")
    monkeypatch.setattr(atomic_output, "rename", atomic_output.rename_portably)
    staging = Staging(out, overwrite=True, objection=lambda path: "")
    try:
        with staging:
            fill(staging.path, "new")
            for name in ("rename", "link", "unlink", "replace"):
                monkeypatch.setattr(os, name, then_stop(getattr(os, name)))
            try:
                staging.publish()
            finally:
                monkeypatch.undo()
    except Stop as stop:
        whole = [f"{out} is complete"] if staging.published else []
        assert getattr(stop, "__notes__", []) == whole
    content = (out / "part" if kind == "directory" else out).read_text()
    assert content == ("new" if staging.published else "old")
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_signal_between_several_takes_all_back(tmp_path, monkeypatch, step):
    """Right after any of the renames: all of the old ones come back, or all are published."""
    calls = 0

    def stops(*job):
        nonlocal calls
        rename(*job)
        calls += 1
        if calls == step:
            raise Stop

    monkeypatch.setattr(atomic_output, "rename", stops)
    a, b, c = old_and_new(tmp_path, "abc")
    with pytest.raises(Stop), a, b, c:
        for staging in (a, b, c):
            staging.path.write_text("new")
        publish_all({a: {}, b: {}, c: {}})
    left = {p.name: p.read_text() for p in tmp_path.iterdir()}
    assert left == (dict.fromkeys("abc", "new") if step == 3 else {name: f"old {name}" for name in "abc"})
    assert all(staging.published == (step == 3) for staging in (a, b, c))


def test_taken_back_what_an_earlier_run_had_published(tmp_path, monkeypatch):
    """Killed between two renames, continued, and then the second fails: the first is the old one again."""
    a, b = old_and_new(tmp_path, "ab", kept="resume")
    with pytest.raises(Stop), a, b:
        for staging in (a, b):
            staging.path.write_text("new")
        a.publish()
        raise Stop  # both are kept, as SIGKILL would have it
    assert [(tmp_path / name).read_text() for name in "ab"] == ["new", "old b"]
    a, b = (Staging(tmp_path / name, overwrite=True, kept="resume") for name in "ab")

    def fails(old, new, how):
        if new.name == "b":
            raise OSError(28, "No space left on device")
        rename(old, new, how)

    with a, b:
        assert (a.published, b.published) == (True, False)
        assert a.path == tmp_path / "a"
        with monkeypatch.context() as patched, pytest.raises(Exception, match="no space left"):
            patched.setattr(atomic_output, "rename", fails)
            publish_all({a: {}, b: {}})
        assert [(tmp_path / name).read_text() for name in "ab"] == ["old a", "old b"]
        publish_all({a: {}, b: {}})
        a.keep = b.keep = False
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "new", "b": "new"}


def test_taken_back_with_what_stood_beside(tmp_path, monkeypatch):
    """Old manifests never stand beside new destinations, and are there again when the old destinations are."""
    staged = old_and_new(tmp_path, "ab")
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(f"of old {name}")
    seen = []

    def watched(old, new, how):
        if new.name == "b":
            raise OSError(5, "Input/output error")
        rename(old, new, how)
        seen.append(sorted(os.listdir(tmp_path)))

    beside = {staging: {f"{staging.destination.name}.json": b"new"} for staging in staged}
    with staged[0], staged[1]:
        for staging in staged:
            staging.path.write_text("new")
        with monkeypatch.context() as patched, pytest.raises(ConversionError, match="the disk reports"):
            patched.setattr(atomic_output, "rename", watched)
            publish_all(beside)
        assert all("a.json" not in names for names in seen)
        left = {p.name: p.read_text() for p in tmp_path.iterdir() if p.is_file()}
        assert left == {"a": "old a", "b": "old b", "a.json": "of old a", "b.json": "of old b"}
        publish_all(beside)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == dict.fromkeys(("a", "b", "a.json", "b.json"), "new")
