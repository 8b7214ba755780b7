"""Two runs for one destination, in every order, many times; signals in the very step that publishes."""

import os
import random

import pytest
from survival.stage import EVERY, TARGETS, Place
from survival.test_limits import racing

from tokfmt.core import atomic_output
from tokfmt.core.atomic_output import Staging, rename
from tokfmt.core.errors import ConversionError, DestinationExistsError
from tokfmt.core.together import publish_together


def two_conversions(tmp_path, stage, pack, target):
    """A place, the words of two conversions to it that give different bytes, and what each of them leaves."""
    words = [pack.name, *TARGETS[target], "--executor", "serial", "--overwrite"]
    place = Place(tmp_path / "home", words, pack)
    choices = [words, [*words, "--select", "0:3"], [*words, "--select", "2:7", "--no-manifest"]]
    results = []
    for choice in choices:
        place.words = choice
        place.learn(stage)
        results.append(place.new)
    return place, choices, results


@pytest.mark.parametrize("target", ["modalities", "stage1"])
def test_many_races(tmp_path, stage, pack, target):
    """Both may overwrite: both succeed, and what is there is one of them, with the manifest of that one or none."""
    place, choices, results = two_conversions(tmp_path, stage, pack, target)
    rng, won = random.Random(3), set()
    for number in range(300 if EVERY else 10):
        if number % 2:
            place.reset()
        pids = [stage.start(place.home, *words) for words in rng.sample(choices, 2)]
        ended = [stage.wait(pid) for pid in pids]
        assert [run.code for run in ended] == [0, 0], [run.stderr for run in ended]
        assert not any(run.left for run in ended)
        held = place.held()
        manifest = held.pop(place.manifest.name, None)
        for k, whole in enumerate(results):
            if held == {name: content for name, content in whole.items() if name != place.manifest.name}:
                assert manifest in (None, whole.get(place.manifest.name)), "the manifest is of the other"
                won.add(k)
                break
        else:
            raise AssertionError(f"a mixture: {sorted(held)}")
        assert place.hidden() == []
    assert len(won) > 1, "the same run won always"


@pytest.mark.parametrize("target", ["modalities", "stage1"])
@pytest.mark.parametrize("portable", [False, True])
def test_the_destination_comes_between_looking_and_renaming(tmp_path, stage, pack, target, portable):
    place, (slow, fast, _), results = two_conversions(tmp_path, stage, pack, target)
    at = next(k for k, name in enumerate(stage.run(place.home, *slow).operations) if name.startswith("renameat2"))
    place.reset()
    first, second = racing(place, stage, at, slow, lambda: stage.run(place.home, *fast, portable=portable))
    assert (first.code, second.code) == (0, 0), (first.stderr, second.stderr)
    assert place.held() == results[0], "who renames last has replaced the other"
    assert place.hidden() == []


def test_the_destination_goes_between_looking_and_renaming(tmp_path, stage, pack):
    place, (slow, fast, _), results = two_conversions(tmp_path, stage, pack, "modalities")
    stage.run(place.home, *fast)
    at = next(k for k, name in enumerate(stage.run(place.home, *slow).operations) if name.startswith("renameat2"))
    first, _ = racing(place, stage, at, slow, (place.home / place.name).unlink)
    assert first.code == 0, first.stderr
    assert place.held() == results[0]
    assert place.hidden() == []


def test_a_manifest_never_joins_the_destination_of_another_run(tmp_path, stage, pack):
    """One run is held at each step after its rename, while another replaces what it has published."""
    place, (slow, *others), results = two_conversions(tmp_path, stage, pack, "modalities")
    operations = stage.run(place.home, *slow).operations
    begins = next(k for k, name in enumerate(operations) if name.startswith("renameat2"))
    assert len(operations) - begins > 4
    for at in range(begins, len(operations)):
        for k, other in enumerate(others, 1) if EVERY else [(2 - at % 2, others[1 - at % 2])]:
            place.reset()
            first, second = racing(place, stage, at, slow, lambda: stage.run(place.home, *other))
            (place.home.parent / f"signs-{at}").rename(place.home.parent / f"signs-{at}-{k}")
            assert (first.code, second.code) == (0, 0), (operations[at], first.stderr, second.stderr)
            held = place.held()
            winner = results[0] if held[place.name] == results[0][place.name] else results[k]
            assert held[place.name] == winner[place.name]
            allowed = (None, winner.get(place.manifest.name))
            assert held.get(place.manifest.name) in allowed, operations[at]


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


def test_a_sibling_is_taken_for_a_leftover_before_it_is_locked(tmp_path, monkeypatch):
    mkdir, made = os.mkdir, []

    def made_and_removed(path, *mode):
        mkdir(path, *mode)
        made.append(path)
        if len(made) == 1:
            atomic_output.remove_leftovers(tmp_path / "out")

    monkeypatch.setattr(os, "mkdir", made_and_removed)
    with Staging(tmp_path / "out") as staging:
        staging.path.write_text("new")
        staging.publish()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert made[0] != staging.home


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
        publish_together({a: {}, b: {}, c: {}})
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {name: f"old {name}" for name in "abc"}
    assert not any(staging.published for staging in (a, b, c))


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
            publish_together({a: {}, b: {}})
        assert [(tmp_path / name).read_text() for name in "ab"] == ["old a", "old b"]
        publish_together({a: {}, b: {}})
        a.keep = b.keep = False
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"a": "new", "b": "new"}


def test_race_does_not_overwrite_without_overwrite(tmp_path):
    with pytest.raises(DestinationExistsError), Staging(tmp_path / "out") as staging:
        staging.path.write_text("new")
        (tmp_path / "out").write_text("mine")
        staging.publish()
    assert (tmp_path / "out").read_text() == "mine"


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
            publish_together(beside)
        assert all("a.json" not in names for names in seen)
        left = {p.name: p.read_text() for p in tmp_path.iterdir() if p.is_file()}
        assert left == {"a": "old a", "b": "old b", "a.json": "of old a", "b.json": "of old b"}
        publish_together(beside)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == dict.fromkeys(("a", "b", "a.json", "b.json"), "new")


@pytest.mark.parametrize("old", [False, True], ids=["fresh", "old"])
def test_a_companion_that_cannot_appear_takes_all_back(tmp_path, monkeypatch, old):
    """A pair is complete, or not written: what had appeared goes, and what it replaced comes back."""
    names = ["out.bin", "out.idx", "out.loss"]
    if old:
        for name in names:
            (tmp_path / name).write_text(f"old {name}")
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    replace = os.replace

    def fails(draft, place):
        if place == tmp_path / "out.loss" and draft.name.endswith(".draft"):
            raise OSError(5, "Input/output error")
        replace(draft, place)

    with pytest.raises(ConversionError, match=r"out\.bin: cannot be written: the disk reports") as caught:
        with Staging(tmp_path / "out.bin", overwrite=old, objection=lambda path: "", companions=names[1:]) as staging:
            for name in names:
                staging.path.with_name(name).write_text(f"new {name}")
            with monkeypatch.context() as patched:
                patched.setattr(os, "replace", fails)
                staging.publish()
    assert getattr(caught.value, "__notes__", []) == ["Nothing was left behind"]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before
