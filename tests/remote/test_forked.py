"""Processes that are forked after, or while, their parent reads from a bucket: a helper process reads for them."""

import contextlib
import os
import pickle
import shutil
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from amount import FUZZ_ONLY
from paths import FIXTURES
from remote.conftest import noise

import tokfmt
from tokfmt.errors import SourceChangedError, UnreachableError
from tokfmt.plugin import Url, open_file

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


@FUZZ_ONLY
def test_a_child_reads(dataset, local):
    assert in_child(lambda: [ids.tolist() for ids in dataset]) == local
    assert in_child(lambda: [ids.tolist() for ids in tokfmt.open(f"s3://bkt/{PACK}")]) == local
    assert in_child(lambda: in_child(lambda: [ids.tolist() for ids in dataset])) == local, "a child of a child"
    assert [ids.tolist() for ids in dataset] == local, "the parent goes on"


@FUZZ_ONLY
def test_a_parent_that_is_reading_at_the_moment_of_the_fork(dataset, local, bucket):
    """Threads hold the locks of caches and requests, in whatever state the fork finds them."""
    (bucket / "x.bin").write_bytes(noise(8 << 20))
    url, stop = Url.parse("s3://bkt/x.bin"), threading.Event()

    def read():
        file, places = open_file(url), np.random.default_rng(threading.get_ident())
        while not stop.is_set():
            start = int(places.integers(0, 8 << 20))
            list(file.read_ranges([(start, min(start + 100_000, file.size)), (0, 10)]))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(6):
            assert in_child(lambda: [ids.tolist() for ids in dataset]) == local
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@FUZZ_ONLY
def test_errors_are_those_of_the_store(dataset, fresh, bucket, monkeypatch):
    fresh.forever[f"bkt/{PACK}"] = "503"
    with pytest.raises(UnreachableError, match=f"^s3://bkt/{PACK}: cannot be reached: 503"):
        in_child(lambda: dataset[2])
    fresh.forever.clear()
    (bucket / PACK).write_bytes(b"x" + (bucket / PACK).read_bytes())
    with pytest.raises(SourceChangedError, match=f"^s3://bkt/{PACK}: changed while it was being read"):
        in_child(lambda: dataset[2])


def test_workers_of_a_data_loader(dataset, local):
    torch = pytest.importorskip("torch")
    loader = torch.utils.data.DataLoader(
        dataset, num_workers=2, batch_size=None, multiprocessing_context="fork", timeout=HANGING
    )
    assert [np.asarray(ids).tolist() for ids in loader] == local


def test_threads_of_a_child_read(dataset, bucket, server):
    content = noise(4 << 20)
    (bucket / "x.bin").write_bytes(content)

    def child():
        file, found = open_file(Url.parse("s3://bkt/x.bin")), {}

        def read(number):
            found[number] = file.read(number * 1000, 300_000)

        threads = [threading.Thread(target=read, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return all(found[number] == content[number * 1000 :][:300_000] for number in range(12))

    assert in_child(child) is True


def helpers():
    """The processes that this one has started."""
    return [int(number) for path in Path("/proc/self/task").glob("*/children") for number in path.read_text().split()]


@FUZZ_ONLY
def test_the_helper_ends_with_the_child(dataset):
    def child():
        assert len(dataset[1])
        return helpers()

    (helper,) = in_child(child)
    until = time.monotonic() + 30
    while os.path.exists(f"/proc/{helper}") and time.monotonic() < until:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{helper}")


@FUZZ_ONLY
def test_a_helper_that_is_killed_is_an_error_and_another_one_is_started(dataset, local):
    def child():
        assert len(dataset[1])
        (helper,) = helpers()
        os.kill(helper, signal.SIGKILL)
        while Path(f"/proc/{helper}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
            time.sleep(0.01)
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
