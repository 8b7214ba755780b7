"""Files, options, publication, errors, transport: the core's promises one by one."""

import os
import time

import numpy as np
import pytest

from tokfmt.errors import ConversionError, OptionError, TruncatedError
from tokfmt.run.execute import SerialExecutor, make_executor, receive, run_tasks, store_payload

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


def test_large_arrays_are_one_copy_in_all_workers(tmp_path):
    path = store_payload({"big": np.arange(1 << 16), "small": np.arange(3)}, tmp_path)
    thing = receive(path)
    assert thing["big"].sum() == np.arange(1 << 16).sum()
    assert not thing["big"].flags.writeable, "it is mapped"
    assert receive(path) is thing


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
