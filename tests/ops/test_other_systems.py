"""Other systems than Linux, as far as their missing calls go: all that CPython and libc have on Linux alone is taken away."""

import os
import resource
import subprocess
import sys

import numpy as np
import pytest
from amount import FUZZ_ONLY
from paths import FIXTURES

import tokfmt

pytestmark = pytest.mark.slow

# by the documentation of CPython 3.13; the first two of them, and those of libc, are what tokfmt knows to use
MISSING = """\
import builtins, ctypes, errno, os, select, signal

for name in (
    "copy_file_range", "posix_fadvise", "POSIX_FADV_DONTNEED", "posix_fallocate", "fdatasync", "sched_getaffinity",
    "sched_setaffinity", "memfd_create", "eventfd", "pidfd_open", "splice", "sendfile", "getxattr", "setxattr", "listxattr",
    "getrandom", "O_TMPFILE", "O_PATH", "O_DIRECT", "O_NOATIME", "getresuid", "unshare", "setns", "pipe2", "accept4", "statx",
):
    if hasattr(os, name):
        delattr(os, name)
for name in ("sigtimedwait", "sigwaitinfo", "SIGSTKFLT", "SIGPWR", "SIGPOLL", "SIGRTMIN", "SIGRTMAX", "pidfd_send_signal"):
    if hasattr(signal, name):
        delattr(signal, name)
del select.epoll, errno.ENOMEDIUM, errno.EREMOTEIO

class Library(ctypes.CDLL):
    def __getattr__(self, name):
        if name in ("renameat2", "syncfs", "prctl", "gettid", "sched_getcpu"):
            raise AttributeError(name)
        return super().__getattr__(name)

ctypes.CDLL, real = Library, builtins.open

def opened(path, *args, **kwargs):
    if str(path).startswith(("/proc/", "/sys/")):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
    return real(path, *args, **kwargs)

builtins.open = opened
"""

COMMANDS = """\
convert {text} a.pbin --tokenizer {tokenizer} -j 2 --executor processes
convert a.pbin a.pbin b.pbin --verify
convert b.pbin out.zarr -j 2 --executor processes
convert a.pbin out.zarr --overwrite --shuffle 1
convert out.zarr samples --to hdf5 --seq-len 64
convert samples a.jsonl
convert a.pbin out --to megatron
diff a.pbin out
check out.zarr samples
stats b.pbin --json
show b.pbin 3 --tokenizer {tokenizer}
recipe a=a.pbin:0.5 b=b.pbin:0.5 --seq-len 64 --shuffle samples -o mix.toml
convert mix.toml mix.ds --to stage1
"""


IN_TURN = """
import sys
from tokfmt.cli.main import cli

if __name__ == "__main__":
    for line in sys.stdin.read().splitlines():
        print(line, flush=True)
        assert not cli.main(line.split(), prog_name="tokfmt", standalone_mode=False)
"""


@FUZZ_ONLY
@pytest.mark.slow
def test_commands(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(MISSING)
    names = {"text": FIXTURES / "text" / "corpus.jsonl", "tokenizer": FIXTURES / "tokenizer"}
    done = subprocess.run(
        [sys.executable, "-c", IN_TURN], cwd=tmp_path, capture_output=True, text=True, input=COMMANDS.format(**names),
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr)
    lost = subprocess.run(
        [sys.executable, "-c", "import os; os.copy_file_range"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    )  # fmt: skip
    assert "AttributeError" in lost.stderr  # the calls were missing indeed


def test_few_open_files(tmp_path):
    """The limit is 256 on macOS, and a file of more would fail."""
    for number in range(100):
        (tmp_path / f"{number}.bin").write_bytes(np.array([number + 1, 1, 0], "<u2").tobytes())
    done = subprocess.run(
        [sys.executable, "-m", "tokfmt", "convert", *(f"{number}.bin" for number in range(100)), "out.zarr"]
        + ["--from", "nanogpt", "--eos", "0", "-j", "2"],
        cwd=tmp_path, capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [ids.tolist() for ids in tokfmt.open(tmp_path / "out.zarr")] == [[number + 1, 1] for number in range(100)]
