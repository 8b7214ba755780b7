"""Two runs for one destination, in every order, many times; signals in the very step that publishes."""

import random

import pytest
from amount import FUZZ_ONLY
from survival.stage import EVERY, TARGETS, Place
from survival.test_limits import racing


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


@FUZZ_ONLY
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
