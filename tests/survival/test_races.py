"""Two runs for one destination, in every order, many times; signals in the very step that publishes."""

import random

import pytest
from amount import only
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


@pytest.mark.parametrize("target", only(["stage1"], ["modalities", "stage1"]))
def test_many_races(tmp_path, stage, pack, target):
    """Both may overwrite: at least one succeeds, a loser says why, and what is there is one of them, with its manifest."""
    place, choices, results = two_conversions(tmp_path, stage, pack, target)
    rng, won = random.Random(3), set()
    for number in range(300 if EVERY else 10):
        if number % 2:
            place.reset()
        pids = [stage.start(place.home, *words) for words in rng.sample(choices, 2)]
        ended = [stage.wait(pid) for pid in pids]
        assert sorted(run.code for run in ended) in ([0, 0], [0, 4]), [run.stderr for run in ended]
        assert all("another tokfmt is writing it now" in run.error() for run in ended if run.code)
        assert not any(run.left for run in ended)
        held = place.held()
        for k, whole in enumerate(results):
            if held == whole:
                won.add(k)
                break
        else:
            raise AssertionError(f"a mixture: {sorted(held)}")
        assert place.hidden() == []
    assert len(won) > 1, "the same run won always"


def test_the_destination_goes_between_looking_and_renaming(tmp_path, stage, pack):
    place, (slow, fast, _), results = two_conversions(tmp_path, stage, pack, "modalities")
    stage.run(place.home, *fast)
    at = next(k for k, name in enumerate(stage.run(place.home, *slow).operations) if name.startswith("renameat2"))
    first, _ = racing(place, stage, at, slow, (place.home / place.name).unlink)
    assert first.code == 0, first.stderr
    assert place.held() == results[0]
    assert place.hidden() == []
