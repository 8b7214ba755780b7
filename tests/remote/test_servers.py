"""Every format is read from servers that others wrote, of each kind of store, as from local files."""

import os
import socket
import subprocess
import sys
import time

import browsers
import numpy as np
import processes
import pytest
from amount import FUZZ_ONLY, first, only
from paths import FIXTURES, ROOT

import tokfmt

BUCKET = "fixtures"
FILES = [
    "modalities/D_2byte_gpt2.pbin", "megatron/gpt2_text_document", "olmo/part-0-00000.npy", "parquet/int32.parquet",
    "datatrove/00000_unshuffled.ds", "llmc/edu_fineweb_train_000001.bin", "jsonl/corpus.jsonl",
]  # fmt: skip
FOLDERS = [
    "stage1/blocks", "nanogpt/openwebtext", "parquet/save_to_disk", "litdata/numpy_uint16", "mds/ndarray_uint32_zstd",
    "levanter/cache_uint32", "flat-tokens/chunk_aligned.zarr",
]  # fmt: skip


def filled(served):
    """Put the datasets into a bucket, with the files whose names continue theirs."""
    served.make_bucket(BUCKET)
    for dataset in FILES + FOLDERS:
        for found in FIXTURES.glob(f"{dataset.rpartition('.')[0] or dataset}*"):
            for path in [found, *found.rglob("*")]:
                if path.is_file():
                    served.put(BUCKET, path.relative_to(FIXTURES).as_posix(), path.read_bytes())
    return served


@pytest.fixture(scope="session")
def s3(moto_server):
    return filled(moto_server)


@pytest.fixture(scope="session")
def az(azure_server):
    return filled(azure_server)


@pytest.fixture(scope="session")
def gs(google_server):
    return filled(google_server)


@pytest.fixture
def local(dataset):
    return tokfmt.open(FIXTURES / dataset, **options(dataset))


def options(dataset):
    return {"tokenizer": FIXTURES / "tokenizer"} if dataset.endswith(".jsonl") else {}


@pytest.mark.parametrize("dataset", only([FILES[0], FOLDERS[0], FOLDERS[-1]], FILES + FOLDERS))
@pytest.mark.parametrize("store", first(1, ["s3", "az", "gs"]))
def test_every_format_of_every_bucket(store, dataset, local, use, request):
    address = use(request.getfixturevalue(store)).address(BUCKET)
    assert same(tokfmt.open(f"{address}/{dataset}", **options(dataset)), local)


@FUZZ_ONLY
@pytest.mark.parametrize("dataset", FILES)
def test_every_file_of_a_web_server(dataset, local, use, web_server):
    assert same(tokfmt.open(f"{use(web_server).endpoint}/{dataset}", **options(dataset)), local)


def same(stored, local):
    return len(stored) == len(local) > 0 and all(np.array_equal(*pair) for pair in zip(stored, local))


@FUZZ_ONLY
def test_a_server_ends_with_the_process_that_started_it(tmp_path):
    script = "import os; from remote import servers\nwith servers.nginx(*[os.getcwd()] * 2) as served: print(served.endpoint, flush=True); input()"
    command, paths = [sys.executable, "-c", script], os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    browsers.program("nginx", "/usr/sbin/nginx")
    with processes.running(
        subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, **pipes)
    ) as started:
        port = int(started.stdout.readline().rpartition(b":")[2])
        socket.create_connection(("127.0.0.1", port)).close()
        started.kill()
        started.wait()
        with pytest.raises(ConnectionRefusedError):
            for _ in range(600):
                socket.create_connection(("127.0.0.1", port)).close()
                time.sleep(0.1)
