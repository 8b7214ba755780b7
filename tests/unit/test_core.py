"""Files, options, publication, errors, transport: the core's promises one by one."""

import dataclasses
import errno
import fcntl
import os
import pickle
import platform
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from tokfmt import registry
from tokfmt.core import atomic_output, errors, files
from tokfmt.core import reader as token_axis
from tokfmt.core.atomic_output import Staging
from tokfmt.core.errors import (
    ConversionError,
    CorruptError,
    DestinationExistsError,
    FormatError,
    OptionError,
    SourceChangedError,
    TokenRangeError,
    TruncatedError,
)
from tokfmt.core.files import File, natural_key
from tokfmt.core.options import described, option, parse_count, parse_options
from tokfmt.core.output import Output, concatenate, preallocate
from tokfmt.core.ragged import Ragged
from tokfmt.core.text_format import printable
from tokfmt.run.execute import SerialExecutor, SharedPayload, make_executor, receive, run_tasks

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


def test_more_files_than_descriptors(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MOST_OPEN", 2)
    for i in range(6):
        (tmp_path / str(i)).write_bytes(bytes([i]))
    held = [File(tmp_path / str(i)) for i in range(6)]
    open_before = len(os.listdir("/proc/self/fd"))
    assert [file.read(0, 1)[0] for file in held] == list(range(6))
    assert len(os.listdir("/proc/self/fd")) <= open_before + 1
    for file in held:
        file.close()


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


def test_natural_order():
    assert sorted(["b10", "b2", "b1", "a", "b01"], key=natural_key) == ["a", "b01", "b1", "b2", "b10"]


# options


@dataclass(frozen=True)
class Some:
    size: int = option(1, "how many")
    layout: Literal["A", "D"] = option("D", "which")
    width: int | None = option(None, "bytes")
    fast: bool = option(False, "quickly")


def test_options_parse_against_their_types():
    assert parse_options(Some, ["size=4Ki", "layout=A", "width=2", "fast=yes"], "it") == Some(4096, "A", 2, True)
    assert parse_options(Some, {"size": 5, "width": None, "fast": True}, "it") == Some(5, fast=True)
    for name, value in {"size": [1], "layout": 3, "width": 1.5, "fast": 2}.items():  # nothing gets by as it is
        with pytest.raises(OptionError):
            parse_options(Some, {name: value}, "it")
    assert parse_options(Some, ["width=auto"], "it").width is None
    assert [o["type"] for o in described(Some)] == ["int", "A|D", "int", "bool"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sise=4"], "it has no option 'sise' (expected size, layout, width, fast). Did you mean size?"),
        (["layout=Z"], "it option layout: 'Z' is not one of A, D"),
        (["size=many"], "'many' is not a whole number (expected a number such as 4096, 1_000_000, 1e6, 10M or 4Ki)"),
        (["size"], "'size' is not of the form key=value"),
    ],
)
def test_options_that_do_not_exist(words, says):
    with pytest.raises(OptionError) as caught:
        parse_options(Some, words, "it")
    assert str(caught.value) == says


@pytest.mark.parametrize(
    ("text", "value"),
    [("1_000_000", 10**6), ("1e6", 10**6), ("10M", 10**7), ("4Ki", 4096), ("1,024", 1024), ("-3", -3), ("1.5k", 1500)],
)
def test_counts(text, value):
    assert parse_count(text) == value


@pytest.mark.parametrize("text", ["0,1", "1,2", "3,17", "1,0000", "0,100", "1,024,5", "1,,024", ","])
def test_a_list_is_no_count(text):
    """`show PATH 0,1` is asked for two sequences: it never answers with sequence 1."""
    with pytest.raises(OptionError, match="is not a whole number"):
        parse_count(text)


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e21", "9" * 5000, "1e20T", "-" + "9" * 22])
def test_numbers_beyond_any_file_are_refused_in_a_line(text):
    with pytest.raises(OptionError, match="is too large") as caught:
        parse_count(text)
    assert len(str(caught.value)) < 120


# ids


def test_ids_never_wrap():
    assert token_axis.check_ids(np.array([3, 5], np.uint32), 5, 0, "x") == 5
    with pytest.raises(TokenRangeError, match="x: token ID 6 at position 11 is outside 0..5"):
        token_axis.check_ids(np.array([3, 6], np.uint32), 5, 10, "x")
    assert [token_axis.smallest(n).itemsize for n in (0, 255, 256, 65535, 65536, 2**32 - 1, 2**32)] == [
        1,
        1,
        2,
        2,
        4,
        4,
        8,
    ]


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
        errors.MissingDependencyError("p", "x", "this"),
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


# publication


def test_whole_or_absent(tmp_path):
    with pytest.raises(ZeroDivisionError), Staging(tmp_path / "out") as staging:
        staging.path.write_bytes(b"half")
        1 / 0  # noqa: B018
    assert os.listdir(tmp_path) == []


def test_publishes_once_and_never_over(tmp_path):
    with Staging(tmp_path / "out") as staging:
        staging.path.write_bytes(b"new")
        staging.publish()
    assert os.listdir(tmp_path) == ["out"]
    with pytest.raises(DestinationExistsError, match="--overwrite replaces it"), Staging(tmp_path / "out"):
        pass


def test_a_race_for_one_destination_has_one_winner(tmp_path):
    with Staging(tmp_path / "out") as first, Staging(tmp_path / "out") as second:
        first.path.write_bytes(b"1")
        second.path.write_bytes(b"2")
        first.publish()
        with pytest.raises(DestinationExistsError):
            second.publish()
    assert (tmp_path / "out").read_bytes() == b"1"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_overwrite_exchanges(tmp_path, monkeypatch, portable, kind):
    if portable:
        monkeypatch.setattr(atomic_output, "rename", atomic_output.rename_portably)
    out = tmp_path / "out"
    old, new = (out / "a", "b") if kind == "directory" else (out, None)
    old.parent.mkdir(exist_ok=True)
    old.write_bytes(b"old")
    with Staging(out, overwrite=True, objection=lambda path: "") as staging:
        target = staging.path / new if new else staging.path
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(b"new")
        assert old.read_bytes() == b"old"
        staging.publish()
    assert (out / new if new else out).read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out"]


def test_dead_leftovers_go_and_living_ones_stay(tmp_path):
    dead, living = tmp_path / ".out.tokfmt-00000000", tmp_path / ".out.tokfmt-11111111"
    for home in (dead, living, tmp_path / ".other.tokfmt-00000000"):
        (home / "scratch").mkdir(parents=True)
        (home / "lock").touch()
    lock = os.open(living / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with Staging(tmp_path / "out"):
        assert sorted(p.name for p in tmp_path.iterdir() if p in (dead, living)) == [living.name]
    os.close(lock)
    assert (tmp_path / ".other.tokfmt-00000000").exists()


def test_no_directory_to_write_to(tmp_path):
    with (
        pytest.raises(ConversionError, match="the directory it should go to does not exist"),
        Staging(tmp_path / "no" / "out"),
    ):
        pass


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


@pytest.mark.parametrize("kernel", [True, False])
def test_concatenate(tmp_path, monkeypatch, kernel):
    if not kernel:
        monkeypatch.setattr(os, "copy_file_range", lambda *a: (_ for _ in ()).throw(OSError(errno.EXDEV, "")))
    parts = [tmp_path / str(i) for i in range(3)]
    for part, content in zip(parts, (b"ab", b"", b"c" * 3_000_000), strict=True):
        part.write_bytes(content)
    concatenate(parts, tmp_path / "all")
    assert (tmp_path / "all").read_bytes() == b"ab" + b"c" * 3_000_000
    assert not any(part.exists() for part in parts)


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
    """Pieces of 256 KiB, six at a time: their pages come from the kernel once, not once a round."""
    code = """
import resource, sys
if "keep" in sys.argv:
    import tokfmt.core.files
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = faults()
for _ in range(50):
    kept = [b"%d" % i * (1 << 18) for i in range(6)]
    del kept
print(faults() - before)
"""
    # a variable that sets the allocator, as Dask does, is somebody's wish
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    kept, plain = (
        int(subprocess.run([sys.executable, "-c", code, *word], check=True, capture_output=True, env=alone).stdout)
        for word in (["keep"], [])
    )
    assert kept < 1500 < plain  # 384 pages a round are 19,200 at worst


@pytest.mark.parametrize("format_", registry.formats(), ids=lambda f: f.name)
def test_numbers_have_bounds(format_):
    """No format takes 0, a negative number, or one beyond its most; and each says what it takes."""
    for kind in (format_.read_options, format_.write_options):
        for field in dataclasses.fields(kind):
            literal = "Literal" in str(field.type)
            if not isinstance(field.default, int) or isinstance(field.default, bool) or literal:
                continue
            assert field.metadata["minimum"] is not None, f"{format_.name} {field.name}"
            most = field.metadata["maximum"]
            for value in (0, -8, *([] if most is None else [most + 1])):
                with pytest.raises(OptionError, match=rf"{field.name}: -?[\d,]+ is outside [\d,]+\.\.[\d,]*$"):
                    parse_options(kind, {field.name: value}, format_.name)
                with pytest.raises(OptionError, match="is outside"):
                    parse_options(kind, [f"{field.name}={value}"], format_.name)
