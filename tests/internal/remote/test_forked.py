"""Processes that are forked after, or while, their parent reads from a bucket: a helper process reads for them."""

import contextlib
import os
import pickle
import shutil
import signal
import threading
import time

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import UnreachableError
from tokfmt.stores import forked

PACK = "modalities/D_2byte_gpt2.pbin"
HANGING = 60.0


def in_child(call):
    """What a call gives in a forked child, or raises; a child that hangs is killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:  # pragma: no cover -- in another process
        try:
            answer = call()
        except Exception as error:
            answer = error
        with contextlib.suppress(BaseException):
            os.write(writing, pickle.dumps(answer))
        os._exit(0)
    killer = threading.Timer(HANGING, os.kill, (child, signal.SIGKILL))
    killer.start()
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    assert os.waitpid(child, 0)[1] == 0, "the child hung, and was killed"
    killer.cancel()
    killer.join()
    found = pickle.loads(answer)
    if isinstance(found, Exception):
        raise found
    return found


@pytest.fixture
def dataset(fresh, bucket):
    """A dataset that this process has read from, so that obstore would hang in a child."""
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    dataset = tokfmt.open(f"s3://bkt/{PACK}")
    assert len(dataset[0])
    return dataset


@pytest.fixture(scope="module")
def local():
    return [ids.tolist() for ids in tokfmt.open(FIXTURES / PACK)]


def test_the_helper_ends_with_the_child(dataset):
    def child():
        assert len(dataset[1])
        return forked._HELPER[0]._process.pid

    helper = in_child(child)
    until = time.monotonic() + 30
    while os.path.exists(f"/proc/{helper}") and time.monotonic() < until:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{helper}")


def test_a_helper_that_is_killed_is_an_error_and_another_one_is_started(dataset, local):
    def child():
        assert len(dataset[1])
        helper = forked._HELPER[0]
        helper._process.kill()
        helper._process.wait()
        failed = []
        for _ in range(2):
            try:
                return failed, [ids.tolist() for ids in dataset]
            except UnreachableError as error:
                failed.append(str(error))
        return failed, []

    failed, found = in_child(child)
    assert found == local
    assert failed in ([], ["s3://bkt: the process that reads it has ended"])
