"""--resume, --task and --finish as users meet them; what was changed in between is refused by name."""

import json
import os
import shutil
import signal
import subprocess
import sys

import commands
import forkserver
import numpy as np
import pytest
from amount import FUZZ_ONLY, every
from paths import CORPUS, FIXTURES, TOKENIZER
from processes import running

from tokfmt.testing import tree

SCRIPT = """
import os, resource, signal, sys
from tokfmt.core import format
from tokfmt.commands.convert import request, resume, verify
from tokfmt.files import journal
from tokfmt.run import shuffle
from tokfmt.text import ingest

LARGE, SMALL = format.REGION, 1 << 14
made = request.Request.__init__
made.__defaults__ = tuple(SMALL if value == LARGE else value for value in made.__defaults__)
format.REGION = shuffle.REGION = verify.REGION = ingest._SMALLEST = SMALL
after, number, limit = map(int, os.environ.get("WHEN", "0/0/0").split("/"))
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

class Journal(journal.Journal):
    def add(self, *line):
        global after
        super().add(*line)
        after -= 1
        if not after:
            self.sync()
            os.kill(os.getpid(), number)

resume.Journal = Journal
from tokfmt.cli.main import run

if __name__ == "__main__":
    run(sys.argv[1:])
"""
"""`tokfmt` with small regions and blocks; gets a signal after so many lines of its journal; files of limited size."""


@pytest.fixture
def home(tmp_path):
    ids = np.random.default_rng(1).integers(0, 50_000, 8192 * 60).astype("<i4")
    ids[700::701] = 50256
    ids.tofile(tmp_path / "in.bin")
    (tmp_path / "small.py").write_text(SCRIPT)
    return tmp_path


def start(home, *words, after=0, by=0, limit=0, popen=forkserver.Popen):
    read = ["--from", "stage1"] if "in.bin" in words and "--from" not in words else []  # random ids look like no text's
    words = [sys.executable, home / "small.py", "convert", *words, *read]
    env = {**os.environ, "WHEN": f"{after}/{int(by)}/{limit}"}
    return popen(words, cwd=home, stderr=subprocess.PIPE, text=True, env=env)


def convert(home, *words, check=0, **how):
    with running(start(home, *words, **how)) as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == check, said
    assert "Traceback" not in said
    return said


def interrupted(home, *words, by=signal.SIGKILL, after=5):
    """A conversion that is ended when `after` parts of it are journaled; what it said."""
    return convert(home, *words, after=after, by=by, check=-9 if by is signal.SIGKILL else 128 + by)


def hidden(home):
    return sorted(p.name for p in home.iterdir() if p.name.startswith("."))


HOME = ".out.h5.tokfmt-work"
WORDS = ("in.bin", "out.h5", "--resume", "--seq-len", "512")


WHOLE = []


@pytest.fixture
def expected(home):
    """What one run writes, which is the same for all tests."""
    if not WHOLE:
        convert(home, "in.bin", "whole.h5", "--seq-len", "512", "-q", "--no-manifest")
        WHOLE.append((home / "whole.h5").read_bytes())
        (home / "whole.h5").unlink()
    return WHOLE[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, every(signal.SIGINT), every(signal.SIGHUP)])
def test_interruption_reports_the_kept_work(home, expected, number):
    said = interrupted(home, *WORDS, "-q", by=number)
    assert said == (
        f"tokfmt: error: interrupted by {number.name}; the finished work is kept in {HOME}: run again with --resume to continue\n"
    )
    assert hidden(home) == [HOME]
    finished = len((home / HOME / "journal-0-of-1").read_bytes().splitlines())
    parts = "1 part" if finished == 1 else f"{finished} parts"
    assert f"note: continuing the work in {HOME}: {parts} finished\n" in convert(home, *WORDS)
    assert (home / "out.h5").read_bytes() == expected
    assert hidden(home) == []


@FUZZ_ONLY
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_resume_writes_only_missing_parts(home, expected, executor):
    interrupted(home, *WORDS, "--executor", executor)
    journal = home / HOME / "journal-0-of-1"
    done = {json.loads(line[9:])[1] for line in journal.read_bytes().splitlines()}
    assert done
    parts = {number: home / HOME / "build" / "out.h5.parts" / f"{number:06d}" for number in done}
    before = {number: (part.stat().st_ino, part.stat().st_mtime_ns) for number, part in parts.items()}
    keeper = home / "keeper"  # links show that the same files were used, after the conversion has removed them
    keeper.mkdir()
    for _number, part in parts.items():
        os.link(part, keeper / part.name)
    convert(home, *WORDS, "--executor", executor)
    after = {number: (s.st_ino, s.st_mtime_ns) for number, part in parts.items() if (s := (keeper / part.name).stat())}
    assert after == before
    assert (home / "out.h5").read_bytes() == expected


DEALT = ("in.bin", "out.pbin", "--shuffle", "3", "--split", "train=0.8,validation=0.2", "--resume")
HOMES = [".out.train.pbin.tokfmt-work", ".out.validation.pbin.tokfmt-work"]


@pytest.mark.parametrize("executor", ["threads", every("processes")])
def test_a_shuffle_and_a_split_are_continued(home, executor):
    """Of spills and regions of both splits, none is made twice."""
    whole = home / "whole"
    whole.mkdir()
    convert(home, "in.bin", "whole/out.pbin", *DEALT[2:-1], "-q", "--no-manifest")
    said = interrupted(home, *DEALT, "-q", "--jobs", "2", "--executor", executor, by=signal.SIGTERM, after=50)
    kept = [name for name in HOMES if name in hidden(home)]
    assert kept
    assert said == (
        f"tokfmt: error: interrupted by SIGTERM; the finished work is kept in {', '.join(kept)}: run again with --resume to "
        "continue\n"
    )
    assert "--shuffle was 3 and is 4 now" in convert(home, *DEALT[:3], "4", *DEALT[4:], check=4)
    says = convert(home, *DEALT[:5], "train=0.7,validation=0.3", "--resume", check=4)
    assert 'the shares of the splits was {"names": ["train", "validation"], "shares": ["4/5", "1/5"]' in says
    spills = sorted(home.glob(".out.*/scratch/done-shuffle-*/spill-*"))
    assert spills
    keeper = home / "keeper"
    keeper.mkdir()
    for number, spill in enumerate(spills):
        os.link(spill, keeper / str(number))
    before = [(s.st_ino, s.st_mtime_ns, s.st_nlink) for s in (spill.stat() for spill in spills)]
    interrupted(home, *DEALT, "--jobs", "1", after=2)  # other buckets would be chosen for one job
    assert [(s.st_ino, s.st_mtime_ns, s.st_nlink) for s in (spill.stat() for spill in spills)] == before
    for name in kept:
        lines = [json.loads(line[9:])[:2] for line in (home / name / "journal-0-of-1").read_bytes().splitlines()]
        assert len(lines) == len({tuple(line) for line in lines}), "something was done twice"
    convert(home, *DEALT, "--verify", "--no-manifest", "--executor", executor)
    for name in ("out.train.pbin", "out.validation.pbin"):
        assert (home / name).read_bytes() == (whole / name).read_bytes()
    assert hidden(home) == []


def test_a_torn_or_damaged_line_is_not_believed(home, expected):
    interrupted(home, *WORDS)
    journal = home / HOME / "journal-0-of-1"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + lines[1].replace(b"region", b"regiom") + b"".join(lines[2:]) + lines[0][:-4])
    convert(home, *WORDS)
    assert (home / "out.h5").read_bytes() == expected


def test_a_full_disk_can_be_continued(home):
    convert(home, "in.bin", "whole.jsonl", "-q", "--no-manifest")
    said = convert(home, "in.bin", "out.jsonl", "--resume", "-q", limit=1 << 21, check=4)
    assert said.startswith("tokfmt: error: ")
    assert said.endswith(
        "out.jsonl: cannot be written: the file would be larger than allowed here. "
        "The finished work is kept in .out.jsonl.tokfmt-work: run again with --resume to continue\n"
    )
    convert(home, "in.bin", "out.jsonl", "--resume")
    assert (home / "out.jsonl").read_bytes() == (home / "whole.jsonl").read_bytes()


def test_failure_that_would_repeat_keeps_no_work(home):
    np.array([1, 2**31 - 1], "<u4").tofile(home / "negative.bin")
    words = ("in.bin", "out.zarr", "--resume", "--eos", "5", "--to-opt", "codec=zstandard")
    convert(home, *words, check=2)
    empty = home / "empty.jsonl"
    empty.write_text('{"input_ids": [1]}\n{"input_ids": []}\n')
    assert "--allow-loss empty-sequences" in convert(home, "empty.jsonl", "out.h5", "--eos", "5", check=4)
    assert hidden(home) == []


def test_refusal_that_an_option_accepts_keeps_the_tokens(home):
    """The tokens are kept, whether the next run has the option or not."""
    lines = CORPUS.read_text("utf-8").splitlines()
    lines[3], lines[7] = '{"text": 5}', '{"text": ""}'
    (home / "text.jsonl").write_text("\n".join([*lines, '{"text": "one more"}']), "utf-8")
    words = ("text.jsonl", "out.h5", "--tokenizer", str(TOKENIZER), "--resume")
    said = convert(home, *words, "--eos", "1", check=3)
    for what in (
        "line 4 has a field",
        "1 empty sequence",
        "--allow-loss empty-sequences",
        "run again with --resume and these",
    ):
        assert what in said
    scratch = home / ".out.h5.tokfmt-work" / "scratch" / "done-source-0"
    kept = {shard.name: shard.stat().st_ino for shard in scratch.iterdir()}
    drops = ("--allow-loss", "invalid-lines", "--allow-loss", "empty-sequences", "--allow-loss", "embedded-separators")
    convert(home, *words, "--eos", "1", "--allow-loss", "invalid-lines", check=4)
    assert {shard.name: shard.stat().st_ino for shard in scratch.iterdir()} == kept
    said = convert(home, *words, "--eos", "2", *drops, "--to-opt", "seq_len=64")
    assert "the tokenized text is kept, and the rest is done again" in said
    convert(home, *words[:1], "whole.h5", *words[2:4], "--eos", "2", *drops, "--to-opt", "seq_len=64")
    assert (home / "out.h5").read_bytes() == (home / "whole.h5").read_bytes()
    assert hidden(home) == []


def test_words_that_change_after_writing_began_do_not_mix(home):
    """Interrupted while it writes; then asked for another separator: nothing of what was written stays."""
    (home / "big.jsonl").write_bytes(CORPUS.read_bytes() * 20)
    words = ("big.jsonl", "out.h5", "--tokenizer", str(TOKENIZER), "--resume", "--jobs", "1")
    kinds = []
    for after in (30, 40, 50):
        process = start(home, *words, after=after, by=signal.SIGTERM)
        process.communicate()
        journal = home / ".out.h5.tokfmt-work" / "journal-0-of-1"
        kinds = [json.loads(line[9:])[0] for line in journal.read_bytes().splitlines()]
        if "region" in kinds:
            break
    assert {"region", "shard of source-0"} <= set(kinds)
    said = convert(home, *words, "--eos", "2", "--allow-loss", "embedded-separators")
    assert "--eos was null and is 2 now (and 2 more): the tokenized text is kept" in said
    convert(home, "big.jsonl", "whole.h5", *words[2:4], "--eos", "2", "--allow-loss", "embedded-separators")
    assert (home / "out.h5").read_bytes() == (home / "whole.h5").read_bytes()


def test_an_arrangement_that_is_asked_for_no_more_takes_no_room(home):
    """Interrupted while it shuffles, then asked not to: only the tokenized text stays on the disk."""
    (home / "big.jsonl").write_bytes(CORPUS.read_bytes() * 20)
    words = ("big.jsonl", "out.h5", "--tokenizer", str(TOKENIZER), "--resume", "--jobs", "1")
    scratch = home / HOME / "scratch"

    def arranged():
        return [path for path in scratch.rglob("*") if path.is_file() and path.parent.name != "done-source-0"]

    interrupted(home, *words, "--shuffle", "1", by=signal.SIGTERM, after=20)
    assert len(arranged()) > 5
    interrupted(home, *words, by=signal.SIGTERM, after=2)
    assert arranged() == [] and any(scratch.rglob("*"))


@FUZZ_ONLY
def test_unrelated_failure_keeps_the_work(home, expected):
    """An example is a cluster that cannot be reached, after hours of work."""
    interrupted(home, *WORDS)
    for name in ("dask:nowhere", "dask:tcp://127.0.0.1:x"):
        convert(home, *WORDS, "--executor", name, check=2)
        assert hidden(home) == [HOME]
    convert(home, *WORDS)
    assert (home / "out.h5").read_bytes() == expected


def touched(home):
    os.utime(home / "in.bin", ns=(1, 1))


def grown(home):
    with open(home / "in.bin", "ab") as file:
        file.write(b"\0" * 8192 * 4)


def replaced(home):
    shutil.copy2(home / "in.bin", home / "copy")
    os.replace(home / "copy", home / "in.bin")


@pytest.mark.parametrize("tamper", [touched, grown, replaced])
def test_changed_sources_are_refused(home, tamper):
    interrupted(home, *WORDS)
    kept = tree(home / HOME / "build")
    tamper(home)
    assert convert(home, *WORDS, check=4).splitlines()[-1] == (
        "tokfmt: error: out.h5: an unfinished conversion is kept here, and the source in.bin has changed "
        "since. Ask for the same to continue it; to start over, run once without --resume"
    )
    assert tree(home / HOME / "build") == kept


def test_changed_options_are_refused(home):
    interrupted(home, *WORDS)
    for words, says in (
        (["--eos", "7"], "--eos was null and is 7 now (and 1 more)"),
        (["--select", "0:9"], "--select was null and is 0:9 now"),
        (["--allow-loss", "empty-sequences"], '--allow-loss was [] and is ["empty-sequences"] now'),
        (["--to-opt", "stride=disjoint"], '"stride": "overlap"'),
        (["--from-opt", "seq_len=4096"], '--from-opt was [] and is ["seq_len=4096"] now'),
    ):
        assert says in convert(home, *WORDS, *words, check=4)
        assert hidden(home) == [HOME]


def test_other_regions_jobs_and_executors_are_no_change(home, expected):
    interrupted(home, *WORDS)
    convert(home, *WORDS, "--jobs", "1", "--executor", "serial", "--verify", "--no-manifest")
    assert (home / "out.h5").read_bytes() == expected


def test_another_version_is_refused(home):
    interrupted(home, *WORDS)
    told = home / HOME / "conversion.json"
    told.write_bytes(told.read_bytes().replace(b'"the version of tokfmt": "', b'"the version of tokfmt": "9'))
    assert "the version of tokfmt was 90.1.0 and is 0.1.0 now" in convert(home, *WORDS, check=4)


def test_work_of_an_unknown_request_is_not_continued(home, expected):
    """Without the request that it is of, the work of another one would be published under this one."""
    interrupted(home, *WORDS)
    told = home / HOME / "conversion.json"
    whole = told.read_text()
    for damaged in ("{", "[]", "nul", '{"schema": "tokfmt.conversion/1"}', whole.replace('"facts"', '"fact"')):
        told.write_text(damaged)
        said = commands.run("convert", *WORDS, "--from", "stage1", cwd=home, check=3).stderr
        assert "conversion.json: does not state what is converted" in said
        assert f"Delete {home / HOME} to start over" in said
        assert hidden(home) == [HOME]
    shutil.rmtree(home / HOME)
    convert(home, *WORDS)
    assert (home / "out.h5").read_bytes() == expected


def test_tasks_of_an_unknown_request_are_not_joined(home):
    """Neither a task with other options nor the last step takes the work of the first task."""
    words = ("in.bin", "out.zarr", "--quiet")
    convert(home, *words, "--task", "0/2")
    told = home / ".out.zarr.tokfmt-work"
    (told / "conversion.json").write_text("{")
    for more in ((*words, "--task", "1/2", "--select", "0:10"), (*words[1:], "--finish")):
        assert "conversion.json: does not state what is converted" in convert(home, *more, check=3)
    shutil.rmtree(told)
    convert(home, *words, "--task", "0/2")
    (told / "created.json").write_text("nul")
    assert "created.json: is not JSON" in convert(home, *words, "--task", "1/2", check=3)
    assert not (home / "out.zarr").exists()


def test_run_without_resume_removes_kept_work_with_a_note(home, expected):
    interrupted(home, *WORDS)
    said = convert(home, *(word for word in WORDS if word != "--resume"))
    assert f"note: removed {HOME}, which an unfinished conversion had left; --resume would have continued it" in said
    assert hidden(home) == []
    assert (home / "out.h5").read_bytes() == expected


@FUZZ_ONLY
def test_two_at_a_time(home):
    with running(start(home, *WORDS, "-q", after=3, by=signal.SIGSTOP, popen=subprocess.Popen)) as process:
        os.waitpid(process.pid, os.WUNTRACED)
        assert convert(home, *WORDS, check=4).splitlines()[-1] == (
            f"tokfmt: error: out.h5: another tokfmt is writing it now ({HOME} is locked by process {process.pid} "
            f"on {os.uname().nodename}). Wait for it, or stop it"
        )
        said = convert(home, "in.bin", "out.h5", "--seq-len", "512", "-q", "--overwrite", check=4)
        assert "another tokfmt is writing it now" in said
        assert hidden(home) == [HOME], "a living one must stay"
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=120)
    assert process.returncode == 0
    assert hidden(home) == []


def test_overwrite_and_resume(home, expected):
    (home / "out.h5").write_bytes(b"old")
    words = (*WORDS, "--overwrite")
    interrupted(home, *words)
    assert (home / "out.h5").read_bytes() == b"old"
    convert(home, *words)
    assert (home / "out.h5").read_bytes() == expected
    assert hidden(home) == []


def test_text_that_is_tokenized_is_not_tokenized_again(home):
    text = CORPUS.read_bytes()
    (home / "big.jsonl").write_bytes(text * 20)
    words = ("big.jsonl", "out.pbin", "--resume", "--tokenizer", str(TOKENIZER))
    interrupted(home, *words)
    shards = sorted((home / ".out.pbin.tokfmt-work" / "scratch" / "done-source-0").glob("*.tokens"))
    before = {s.name: s.stat().st_ino for s in shards if s.suffix == ".tokens"}
    keeper = home / "keeper"
    keeper.mkdir()
    for shard in shards:
        os.link(shard, keeper / shard.name)
    interrupted(home, *words)  # again: what was done the first time is still there
    journal = home / ".out.pbin.tokfmt-work" / "journal-0-of-1"
    numbers = [json.loads(line[9:])[1] for line in journal.read_bytes().splitlines()]
    assert len(numbers) == len(set(numbers))
    convert(home, *words, "--jobs", "1")
    convert(home, "big.jsonl", "whole.pbin", "--tokenizer", str(TOKENIZER))
    assert (home / "out.pbin").read_bytes() == (home / "whole.pbin").read_bytes()
    assert before


def test_shards(home, expected):
    words = ("in.bin", "out.h5", "--seq-len", "512")
    processes = [start(home, *words, "--task", f"{i}/4") for i in (3, 1, 2)]
    for process, i in zip(processes, (3, 1, 2), strict=True):
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert said.splitlines()[-1] == f"task {i} of 4 is written; --finish publishes when all are"
    assert convert(home, "--finish", "out.h5", check=4) == (
        "tokfmt: error: out.h5: task 0 of 4 is missing. Run it with the same words and --task 0/4\n"
    )
    interrupted(home, *words, "--task", "0/4")
    said = convert(home, "--finish", "out.h5", check=4)
    assert "task 0 of 4 is missing (begun, not finished: 0)" in said
    said = convert(home, *words, "--eos", "9", "--task", "0/4", check=4)
    assert "--eos was null and is 9 now (and 1 more). Ask for the same" in said
    assert "the number of tasks was 4 and is 5 now" in convert(home, *words, "--task", "0/5", check=4)
    convert(home, *words, "--task", "0/4")
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    done = forkserver.run(
        [sys.executable, home / "small.py", "convert", "--finish", "../out.h5", "--verify", "--json"],
        cwd=elsewhere, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verified"] is True
    assert (home / "out.h5").read_bytes() == expected
    assert hidden(home) == []
    assert "it has no tasks" in convert(home, "--finish", "out.h5", "--overwrite", check=4)


GONE = """
import os, sys
os.rmdir(os.getcwd())
from tokfmt.cli.main import run
run(sys.argv[1:])
"""


@pytest.mark.skipif(
    sys.version_info[:3] == (3, 13, 0),
    reason="without a working directory, CPython 3.13.0 has a SystemError where a module lacks a name: numpy cannot load",
)
@pytest.mark.parametrize("more", [["--resume"], every(["--task", "0/1"])])
def test_a_working_directory_that_is_gone(tmp_path, more):
    """Whoever names all by absolute paths needs none."""
    gone, pack = tmp_path / "gone", FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
    gone.mkdir()
    words = [sys.executable, "-c", GONE, "convert", pack, tmp_path / "out.pbin", *more]
    done = subprocess.run(words, cwd=gone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("tokens", [False, every(True)])
def test_the_manifest_of_shards_is_that_of_one_run(home, tokens):
    """Finished in the directory where they were written, paths are named as there."""
    words = ["in.bin"] if tokens else ["small.jsonl", "--tokenizer", str(TOKENIZER)]
    (home / "small.jsonl").write_bytes(b"".join(CORPUS.read_bytes().splitlines(keepends=True)[:9]))
    convert(home, *words, "one.pbin")
    for task in ("1/2", "0/2"):
        convert(home, *words, "out.pbin", "--task", task)
    convert(home, "--finish", "out.pbin")
    one, out = (json.loads((home / f"{name}.pbin.tokfmt.json").read_text()) for name in ("one", "out"))
    assert {**one, "created": None, "seconds": None} == {**out, "created": None, "seconds": None}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([CORPUS, "o.jsonl", "--task", "0/2"], 2, "lines are copied as they are, which is done in one run"),
        (["in.bin", "o.pbin", "--task", "2/2"], 2, "tasks of 2 are 0/2 to 1/2"),
        (["in.bin", "o.pbin", "--task", "a/2"], 2, "'a/2' is not of the form I/N"),
        (["in.bin", "o.pbin", "--task", "0/2", "--shuffle", "1"], 2, "each task would read all. --executor dask"),
        (["in.bin", "o.pbin", "--task", "0/2", "--split", "a=0.5,b=0.5"], 2, "--finish publishes one destination"),
        (["in.bin", "--finish", "o.pbin"], 2, "--finish takes DST alone"),
        (["--finish", "o.pbin", "--eos", "3"], 2, "--finish takes no --eos"),
        (["--finish", "o.pbin"], 4, "it has no tasks"),
        (["in.bin"], 2, "DST is missing (expected tokfmt convert [OPTIONS] SRC... DST)"),
        ([FIXTURES / "modalities" / "D_2byte_gpt2.pbin", "o.bin", "--executor", "dusk"], 2, "dask"),
    ],
)
def test_misuse(home, words, code, says):
    assert says in commands.run("convert", *words, cwd=home, check=code).stderr
