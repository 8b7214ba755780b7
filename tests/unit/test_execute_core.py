"""Files, options, publication, errors, transport: the core's promises one by one."""

import os
import pickle
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tokfmt.errors import (
    ConversionError,
    OptionError,
    TruncatedError,
    UnsafeError,
)
from tokfmt.run.execute import SerialExecutor, SharedPayload, make_executor, may_spawn, receive, run_tasks

# executors


def add(shared, item):
    return int(shared["base"][0]) + item


def fail(shared, item):
    raise TruncatedError("f", "ended", offset=item)


def die(shared, item):
    os._exit(9)


@pytest.mark.parametrize("name", ["serial", "threads", "processes"])
def test_executors_do_the_same(tmp_path, name):
    with make_executor(name, 2) as executor:
        shared = {"base": np.full(1 << 15, 10)}
        assert sorted(run_tasks(add, shared, range(20), executor, 2, tmp_path)) == list(range(10, 30))
        with pytest.raises(TruncatedError, match="ended at byte 0"):
            list(run_tasks(fail, None, [0], executor, 2, tmp_path))


def test_a_worker_that_dies_is_an_error(tmp_path):
    with make_executor("processes", 1) as executor, pytest.raises(ConversionError, match="ended abruptly"):
        list(run_tasks(die, None, [0, 1], executor, 1, tmp_path))


def test_few_tasks_are_under_way(tmp_path):
    with make_executor("threads", 2) as executor:
        drawn = []
        results = run_tasks(add, {"base": [0]}, (drawn.append(i) or i for i in range(1000)), executor, 2, tmp_path)
        next(results)
        assert len(drawn) <= 8
        results.close()  # type: ignore[attr-defined]


def test_unknown_executor():
    with pytest.raises(OptionError, match="Did you mean threads"):
        make_executor("thread", 1)
    assert isinstance(make_executor("serial", 1), SerialExecutor)


def test_large_arrays_travel_as_files(tmp_path):
    parcel = SharedPayload.pack({"big": np.arange(1 << 16), "small": np.arange(3)}, tmp_path)
    assert len(pickle.dumps(parcel)) < 10_000
    assert len(list(tmp_path.iterdir())) == 1
    thing = receive(parcel)
    assert thing["big"].sum() == np.arange(1 << 16).sum()
    assert receive(parcel) is thing


@pytest.mark.parametrize(
    "thing",
    [Path("data/__main__/x.bin"), {"path": "__main__.jsonl"}, {"__main__": ["__main__", "__main__", len, Path()]}],
    ids=["path", "file", "word"],
)
def test_a_path_with_the_word_in_it_is_nothing_of_the_main_module(thing, tmp_path):
    """Workers would run the user's script for it."""
    assert SharedPayload.pack(thing, tmp_path).main == {}
    assert may_spawn(thing)


class Scripted:
    """Stands in the main module, as what a script defines does."""


@pytest.mark.parametrize("before", [[], ["__main__"], ["Scripted", "__main__"], [Path("a"), Path, "__main__", 1, Path]])
def test_objects_of_the_main_module_are_found_in_any_container(before, monkeypatch):
    monkeypatch.setattr(Scripted, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Scripted", Scripted, raising=False)
    for thing in (Scripted, Scripted()):
        assert not may_spawn([*before, thing])
        assert not may_spawn([*before, "__main__", thing, "__main__"])


def test_a_parcel_is_what_was_packed(tmp_path):
    """Whoever changes it, or puts another in its place: nothing of that is unpickled."""
    parcel = SharedPayload.pack({"offsets": np.arange(1 << 15)}, tmp_path)
    assert receive(parcel)["offsets"][-1] == (1 << 15) - 1
    (path,) = tmp_path.iterdir()
    assert path == parcel.parts
    raw = path.read_bytes()
    at = raw.index(b"offsets")
    path.write_bytes(raw[:at] + b"OFFSETS" + raw[at + 7 :])
    with pytest.raises(UnsafeError, match="is not what was written there"):
        receive(SharedPayload("another key", path, parcel.digest, {}))
    path.rename(tmp_path / "moved")
    path.symlink_to("moved")
    with pytest.raises(OSError, match="symbolic links"):
        receive(SharedPayload("a third", path, parcel.digest, {}))


def slow_failure(delays, item):
    time.sleep(delays[item])
    if delays[item]:
        raise ValueError(item)
    return item


@pytest.mark.parametrize("jobs", [2, 5])
def test_the_error_is_that_of_the_first_item_whoever_is_first(tmp_path, jobs):
    delays = {0: 0, 1: 0.3, 2: 0.02, 3: 0, 4: 0.01}
    with make_executor("threads", jobs) as executor, pytest.raises(ValueError, match="^1$"):
        list(run_tasks(slow_failure, delays, range(5), executor, jobs, tmp_path))
    with SerialExecutor() as executor, pytest.raises(ValueError, match="^1$"):
        list(run_tasks(slow_failure, delays, range(5), executor, 1, tmp_path))
