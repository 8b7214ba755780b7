"""A sequence without its separator, or an empty one, that no look at a sample of the dataset has seen.

Every command gives what a plain list gives. Sequence 80 of 6,000 is between the runs that are looked at.
"""

import pickle
import sys
from itertools import islice

import forkserver
import numpy as np
import pytest
from amount import first
from by_hand import megatron, pack
from finishing import finish

import tokfmt

EOS, COUNT, LATE = 9, 6000, 80
KINDS = {"bare": [5, 6, 7], "empty": []}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(params=KINDS)
def late(request):
    """Documents of which one has no separator, and their contents."""
    return lists(KINDS[request.param])


def lists(other, lengths=lambda k: 2 + k % 3):
    """Return documents with separators, and without; document `LATE` is stored as `other`."""
    contents = [[1 + k % 5, *(2 + (k + i) % 6 for i in range(lengths(k) - 1))] for k in range(COUNT)]
    contents[LATE] = other
    return [one if k == LATE else [*one, EOS] for k, one in enumerate(contents)], contents


@pytest.fixture(params=first(1, [megatron, pack]))
def source(request, late, tmp_path):
    name = "in.bin" if request.param is megatron else "in.pbin"
    return request.param(tmp_path / name, late[0])


@pytest.fixture
def contents(late):
    return late[1]


def listed(dataset):
    return [one.tolist() for one in dataset]


# Python


def test_each_way_to_read_a_dataset(source, contents):
    def opened():
        return tokfmt.open(source, eos=EOS)

    assert opened()[LATE].tolist() == contents[LATE]
    assert listed(opened()) == contents
    assert listed(opened()[LATE - 9 : LATE + 9]) == contents[LATE - 9 : LATE + 9]
    assert listed(one for batch in opened().batches(100) for one in batch) == contents
    assert [one.tolist() for one in opened().__getitems__([3, LATE])] == [contents[3], contents[LATE]]
    dataset = opened()
    assert dataset.lengths.tolist() == [len(one) for one in contents]
    assert dataset.info.tokens == sum(map(len, contents))
    assert listed(pickle.loads(pickle.dumps(opened()))) == contents


def test_positions_that_were_asked_for_stay_true(source, contents):
    dataset = tokfmt.open(source, eos=EOS)
    before = dataset.offsets(0, COUNT).tolist()
    assert before == [0, *np.cumsum([len(one) for one in contents]).tolist()]
    assert listed(dataset)[LATE] == contents[LATE]
    assert dataset.offsets(0, COUNT).tolist() == before
    assert dataset.tokens(before[LATE], before[LATE + 2]).tolist() == contents[LATE] + contents[LATE + 1]


def test_selected_shuffled_and_joined_datasets(source, contents):
    dataset = tokfmt.open(source, eos=EOS)
    assert listed(dataset.select([LATE, 3])) == [contents[LATE], contents[3]]
    assert listed(tokfmt.open(source, eos=EOS).select(slice(70, 99))) == contents[70:99]
    assert sorted(listed(tokfmt.open(source, eos=EOS).shuffle(1))) == sorted(contents)
    both = tokfmt.open(source, eos=EOS) + tokfmt.open(source, eos=EOS)
    assert listed(pickle.loads(pickle.dumps(both))) == contents + contents


@pytest.mark.parametrize("shuffled", [False, True])
def test_saved(source, contents, tmp_path, shuffled):
    dataset = tokfmt.open(source, eos=EOS)
    done = (dataset.shuffle(4) if shuffled else dataset).save(tmp_path / "out.pbin")
    is_filled = bool(contents[LATE])  # What is empty, and has no separator, gets none beside an index.
    assert [done.separators[name] for name in ("kept", "added", "bare")] == [COUNT - 1, is_filled, not is_filled]
    found = listed(tokfmt.open(tmp_path / "out.pbin"))
    assert sorted(found) == sorted(contents) if shuffled else found == contents


# commands


def test_stats(source, contents, tmp_path):
    others = megatron(tmp_path / "others.bin", [[1, 2, EOS]] * 9)
    (alone,) = tokfmt.stats(source, eos=EOS).datasets
    report = tokfmt.stats([source, others], eos=EOS)
    assert not report.failures
    for one in (alone, report.datasets[0]):
        assert (one.sequences, one.tokens) == (COUNT, sum(map(len, contents)))
        assert one.duplicates.sequences == COUNT - len(set(map(tuple, contents)))


@pytest.mark.parametrize("how", [{}, {"ignore_order": True}])
def test_diff(source, contents, tmp_path, how):
    other = megatron(tmp_path / "other.bin", [[*one, EOS] for one in contents])
    assert tokfmt.diff(source, other, eos=EOS, **how).identical
    contents[LATE] = [5, 6]
    other = megatron(tmp_path / "third.bin", [[*one, EOS] for one in contents])
    assert not tokfmt.diff(source, other, eos=EOS, **how).identical


def test_check(source, late, tmp_path):
    (report,) = tokfmt.check(source, eos=EOS, deep=True)
    assert "TF901" not in report.counts
    assert (report.sequences, report.tokens) == (COUNT, sum(map(len, late[1])))
    corpus = megatron(tmp_path / "corpus.bin", late[0])
    (report,) = tokfmt.check(source, eos=EOS, against=corpus)
    assert not {"TF901", "TF921"} & report.counts.keys()


def shown(source, selection, **how):
    return [(one.index, one.ids) for one in tokfmt.show(source, selection, eos=EOS, **how).shown]


def test_show(source, contents):
    near = range(LATE - 2, LATE + 3)
    assert shown(source, f"{near[0]}:{near[-1] + 1}") == [(k, contents[k]) for k in near]
    assert shown(source, f"seq:{LATE - 1},{LATE}") == [(k, contents[k]) for k in (LATE - 1, LATE)]
    assert all(ids == contents[k] for k, ids in shown(source, "random:300"))


def wanted(contents, fits, most=None):
    return list(islice(((k, one) for k, one in enumerate(contents) if fits(one)), most))


def test_search(source, contents):
    size = len(contents[LATE])
    assert shown(source, f"len=={size}", limit=90) == wanted(contents, lambda one: len(one) == size, 90)
    assert shown(source, f"same:{LATE}", limit=0) == wanted(contents, lambda one: one == contents[LATE])
    assert shown(source, "last:7", limit=90) == wanted(contents, lambda one: one[-1:] == [7], 90)
    assert shown(source, "first:5", limit=20) == wanted(contents, lambda one: one[:1] == [5], 20)
    found = wanted(contents, lambda one: (6, 7) in zip(one, one[1:], strict=False), 90)
    assert shown(source, "token:6,7", limit=90) == found


# conversions


@pytest.mark.parametrize("to", ["pbin", "parquet", "jsonl", "zarr"])
def test_convert(source, contents, tmp_path, to):
    done = tokfmt.convert(source, tmp_path / f"out.{to}", eos=EOS, verify=True)
    assert (done.sequences, done.tokens) == (COUNT, sum(map(len, contents)))
    assert listed(tokfmt.open(done.destination)) == contents


def written(home):
    return {path.name: path.read_bytes() for path in home.iterdir() if path.suffix == ".pbin"}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_tasks_in_any_order(source, tmp_path, order):
    (tmp_path / "whole").mkdir(), (tmp_path / "tasks").mkdir()
    tokfmt.convert(source, tmp_path / "whole" / "out.pbin", eos=EOS)
    for k in order:
        tokfmt.convert(source, tmp_path / "tasks" / "out.pbin", eos=EOS, task=(k, 3))
    finish(tmp_path / "tasks" / "out.pbin")
    assert written(tmp_path / "tasks") == written(tmp_path / "whole")


def test_a_resumed_conversion_that_was_killed_before_and_after(late, tmp_path):
    stored, contents = late
    source = megatron(tmp_path / "in.bin", [np.append(np.arange(1, 1_200_000) % 8 + 10, EOS), *stored])
    words, kills = [sys.executable, "-c", KILLED, str(source), str(tmp_path / "out.zarr")], 0
    for lines in (1, 2, 99):
        done = forkserver.run([*words, str(lines)], capture_output=True, text=True)
        kills += done.returncode == -9
    assert (kills, done.returncode) == (2, 0)
    found = tokfmt.open(tmp_path / "out.zarr")
    assert listed(found[1:]) == contents
    assert found.info.tokens == 1_199_999 + sum(map(len, contents))
    assert tokfmt.convert(source, tmp_path / "out.zarr", eos=EOS, resume=True).sequences == COUNT + 1


KILLED = """
import os, signal, sys
import tokfmt
from tokfmt.files.journal import Journal

add, left = Journal.add, [int(sys.argv[3])]

def killing(self, *line):
    add(self, *line)
    self.sync()
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

Journal.add = killing
tokfmt.convert(sys.argv[1], sys.argv[2], eos=9, resume=True, jobs=1)
"""


# recipes


def recipe(tmp_path, source, more="seq_len = 64"):
    place = tmp_path / "mix.toml"
    place.write_text(f'tokfmt = 1\n{more}\n[[source]]\npath = "{source.name}"\neos = {EOS}\n')
    return place


def stream(contents):
    return [token for one in contents if one for token in [*one, EOS]]


def test_samples_of_a_recipe(source, contents, tmp_path):
    place, flat = recipe(tmp_path, source), stream(contents)
    view = tokfmt.open(place)
    found = view[:]["input_ids"].reshape(-1).tolist()
    assert found[: len(flat)] == flat
    tokfmt.convert(place, tmp_path / "out", to_format="stage1")
    assert tokfmt.stats(place).datasets[0].sequences == len(view)
    stored = np.concatenate(list(tokfmt.open(tmp_path / "out", options={"view": "samples"}))).tolist()
    assert stored[: len(flat)] == flat


def test_documents_of_a_recipe(source, contents, tmp_path):
    assert listed(tokfmt.open(recipe(tmp_path, source, ""))) == contents


def test_training(source, contents, tmp_path):
    pytest.importorskip("torch", exc_type=ImportError)
    from tokfmt.torch import Loader

    loader, flat = Loader(str(recipe(tmp_path, source)), batch_size=4), stream(contents)
    found = [token for batch in loader for row in batch["input_ids"].tolist() for token in row]
    assert found == flat[: len(found)]
    assert len(found) > LATE * 3
