"""Files, options, publication, errors, transport: the core's promises one by one."""

import errno
import os
import pickle
import platform
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from amount import FUZZ_ONLY
from paths import FIXTURES

from tokfmt import errors
from tokfmt.core.output import Output, preallocate
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import check_ids
from tokfmt.errors import (
    ConversionError,
    CorruptError,
    FormatError,
    OptionError,
    SourceChangedError,
    TokenRangeError,
    TruncatedError,
)
from tokfmt.files.file import File, natural_key
from tokfmt.wording import printable

# files


def test_reads_by_position_and_says_where_it_ends(tmp_path):
    (tmp_path / "f").write_bytes(b"0123456789")
    file = File(tmp_path / "f")
    assert file.read(3, 4) == b"3456"
    assert file.array(2, 3, np.dtype("u1")).tolist() == [50, 51, 52]
    with pytest.raises(TruncatedError) as caught:
        file.read(8, 4)
    assert str(caught.value).endswith("f: the file ends too early at byte 10: expected 2 more bytes")
    os.truncate(tmp_path / "f", 5)
    for read in (lambda: file.read(3, 4), lambda: file.array(3, 4, np.dtype("u1"))):
        with pytest.raises(TruncatedError, match=r"it shrank since it was opened at byte 5: expected 2 more bytes$"):
            read()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda p: None, "no such file"),
        (
            os.mkfifo,
            "is not a regular file: found FIFO. Only tokfmt convert reads pipes. Save it to a file first",
        ),
        (lambda p: p.mkdir(), "is not a regular file: found directory"),
        (lambda p: p.symlink_to(p), "a loop of symbolic links"),
        (lambda p: p.symlink_to("/dev/zero"), "is not a regular file: found device"),
        (lambda p: p.symlink_to(p.parent / "gone"), "no such file"),
    ],
)
def test_only_regular_files(tmp_path, make, says):
    path = tmp_path / "it"
    make(path)
    with pytest.raises(FormatError) as caught:
        File(path)
    assert str(caught.value) == f"{path}: {says}"


def test_a_socket_is_refused(tmp_path):
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(FormatError, match="not a regular file"):
            File(tmp_path / "s")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path):
    (tmp_path / "f").touch(mode=0o000)
    with pytest.raises(FormatError, match="permission denied"):
        File(tmp_path / "f")


def test_a_changed_file_is_an_error_not_a_mixture(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    file = File(path)
    file.check_unchanged()
    travelled = pickle.loads(pickle.dumps(file))
    path.write_bytes(b"abcd")
    with pytest.raises(SourceChangedError, match="changed while it was being read"):
        travelled.read(0, 1)
    with pytest.raises(SourceChangedError):
        file.check_unchanged()
    path.unlink()
    with pytest.raises(SourceChangedError, match="disappeared"):
        file.check_unchanged()


def test_threads_share_a_file(tmp_path):
    (tmp_path / "f").write_bytes(np.arange(1 << 16, dtype="<u4").tobytes())
    file, wrong = File(tmp_path / "f"), []

    def reader(seed):
        for at in np.random.default_rng(seed).integers(0, 1 << 16, 300).tolist():
            if int(file.array(at * 4, 1, np.dtype("<u4"))[0]) != at:
                wrong.append(at)

    threads = [threading.Thread(target=reader, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_more_files_than_descriptors(tmp_path):
    """At most 256 files are open at once."""
    for i in range(600):
        (tmp_path / str(i)).write_bytes(b"%d" % i)
    open_before = len(os.listdir("/proc/self/fd"))
    files = [File(tmp_path / str(i)) for i in range(600)]
    assert [int(file.read(0, file.size)) for file in files] == list(range(600))
    assert len(os.listdir("/proc/self/fd")) <= open_before + 256
    for file in files:
        file.close()


def test_natural_order():
    assert sorted(["b10", "b2", "b1", "a", "b01"], key=natural_key) == ["a", "b01", "b1", "b2", "b10"]


def test_ids_never_wrap():
    assert check_ids(np.array([3, 5], np.uint32), 5, 0, "x") == 5
    with pytest.raises(TokenRangeError, match="x: token ID 6 at position 11 is outside 0..5"):
        check_ids(np.array([3, 6], np.uint32), 5, 10, "x")


def test_signed_ids_are_not_negative(tmp_path):
    (tmp_path / "x").write_bytes(np.array([7, 3, -1], ">i4").tobytes())
    file, stored = File(tmp_path / "x"), np.dtype(">i4")
    assert file.ids(0, 2, stored).tolist() == [7, 3]
    assert file.ids(0, 2, stored).dtype == np.uint32
    with pytest.raises(CorruptError, match="x: has a negative ID at byte 8: expected 0 or more, found -1"):
        file.ids(4, 2, stored)


def test_ragged():
    ragged = Ragged.of([[1, 2], [], [3]])
    assert (len(ragged), ragged[0].tolist(), ragged[-1].tolist()) == (3, [1, 2], [3])
    with pytest.raises(IndexError):
        ragged[3]


# errors


def all_errors(kind=errors.TokfmtError):
    for sub in kind.__subclasses__():
        yield sub
        yield from all_errors(sub)


def test_errors_survive_pickling_with_their_facts():
    for error in (
        FormatError("f", "what", offset=3, expected=1, found=2, remedy="Do."),
        errors.LossyConversionError("t", [errors.Loss("fields", "two fields")]),
        TokenRangeError("w", 5, 4, 3),
        errors.AmbiguousFormatError("p", ["a", "b"]),
        OptionError("m", name="n", nearest="o"),
        errors.MissingDependencyError("p", "this"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.facts()) == (type(error), str(error), error.facts())


def test_the_tree_in_the_docstring_is_complete():
    for kind in all_errors():
        if kind.__module__ == errors.__name__:
            assert kind.__name__ in errors.__doc__


def test_names_from_files_cannot_reach_the_terminal():
    assert printable("a\x1b[31mb\u202ec\n") == "a\\x1b[31mb\\u202ec\\n"
    assert "\x1b" not in str(FormatError("\x1b]0;x", "what", found="\x07"))


def test_output_words_the_systems_errors(tmp_path, monkeypatch):
    preallocate(tmp_path / "f", 8)
    with Output(tmp_path / "f") as out:
        out.write(4, np.array([7], "<u4"))
        out.write(0, b"abcd")
        assert out.written == 8
        monkeypatch.setattr(os, "pwrite", lambda *a: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        with pytest.raises(ConversionError, match="no space left on the disk"):
            out.write(0, b"x")
    assert (tmp_path / "f").read_bytes() == b"abcd\x07\0\0\0"


@FUZZ_ONLY
def test_workers_end_with_their_parent(tmp_path):
    script = (
        "import os, sys, time\n"
        "from tokfmt.run.execute import make_executor\n"
        "if __name__ == '__main__':\n"
        "    pool = make_executor('processes', 2).__enter__()\n"
        "    print(pool.submit(os.getpid).result(), flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    (tmp_path / "s.py").write_text(script)
    done = subprocess.run([sys.executable, tmp_path / "s.py"], capture_output=True, text=True)
    worker = int(done.stdout)
    for _ in range(600):
        try:
            if not Path(f"/proc/{worker}/cmdline").read_bytes():
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        threading.Event().wait(0.1)
    pytest.fail(f"worker {worker} outlived its parent")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how glibc keeps freed memory")
def test_freed_memory_is_kept():
    """Pieces of 4 MiB, six at a time: after a job their pages come from the kernel once; an import changes nothing."""
    code = """
import resource, sys
import tokfmt.dataset
if len(sys.argv) > 1:
    tokfmt.stats(sys.argv[1])
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
for _ in range(20):
    kept = [b"%d" % i * (1 << 22) for i in range(6)]
    del kept
print(faults() - before)
"""
    # a variable that sets the allocator, as Dask does, is somebody's wish
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    kept, plain = (
        int(subprocess.run([sys.executable, "-c", code, *word], check=True, capture_output=True, env=alone).stdout)
        for word in ([str(FIXTURES / "modalities" / "D_2byte_gpt2.pbin")], [])
    )
    assert kept < 9_600 < plain  # 6,144 pages a round are 122,880 at worst
