"""Tasks of text that share only the bucket: each writes a file of its own, and --finish publishes the folder."""

import json

import pytest
from amount import only
from click.testing import CliRunner
from finishing import finish
from paths import TOKENIZER

import tokfmt
from tokfmt.cli.main import cli as command
from tokfmt.commands.convert.tasks import SUFFIXES
from tokfmt.errors import ConversionError, DestinationExistsError, OptionError
from tokfmt.testing import tree

COUNT = 4
HOW = {"tokenizer": str(TOKENIZER), "executor": "serial"}


@pytest.fixture
def texts(bucket):
    """Seven files of text, of which two are empty."""
    (bucket / "text").mkdir()
    for k in range(7):
        lines = [json.dumps({"text": f"file {k}, line {i}: " + "word " * i}) for i in range(30 * (k not in (2, 3)))]
        (bucket / f"text/{k}.jsonl").write_text("".join(line + "\n" for line in lines))
    return "s3://bkt/text"


@pytest.fixture
def task(on_machine, texts):
    def run(index, name="out", to="megatron", count=COUNT, **more):
        on_machine(f"node{index}")
        return tokfmt.convert(
            texts, f"s3://bkt/{name}", to_format=to, task=(index, count), allow_loss="empty-sequences", **HOW, **more
        )

    return run


def ids(place, **how):
    with tokfmt.open(place, **how) as opened:
        return [list(map(int, one)) for one in opened]


@pytest.fixture
def expected(texts, tmp_path):
    tokfmt.convert(texts, tmp_path / "expected.pbin", allow_loss="empty-sequences", **HOW)
    return ids(tmp_path / "expected.pbin")


@pytest.mark.parametrize("to", only(("megatron",), sorted(SUFFIXES.keys() - {"hdf5"})))
def test_any_order_gives_the_order_of_the_sources(bucket, task, expected, on_machine, to):
    for index in (2, 0, 3, 1):
        task(index, to=to)
    on_machine("last")
    done = finish("s3://bkt/out")
    assert done.sequences == len(expected) == 150
    assert ids("s3://bkt/out") == expected
    assert all(not report.findings for report in tokfmt.check("s3://bkt/out"))
    names = {path.name for path in bucket.rglob("*") if path.is_file() and "text" not in path.parts}
    assert {name for name in names if not name.startswith("part-")} == {"out.tokfmt.json"}
    assert not any("tokfmt" in name for name in names - {"out.tokfmt.json"})


def test_a_missing_task_is_named_and_one_that_runs_twice_does_no_harm(bucket, task, expected, on_machine):
    for index in (0, 1, 3):
        task(index)
    with pytest.raises(ConversionError, match="task 2 of 4 is missing.*--task 2/4"):
        finish("s3://bkt/out")
    before = tree(bucket / "out")
    task(3)
    assert tree(bucket / "out") == before, "a complete task is not repeated"
    task(2)
    finish("s3://bkt/out")
    assert ids("s3://bkt/out") == expected
    with pytest.raises(DestinationExistsError, match="its tasks are published"):
        task(1)
    with pytest.raises(ConversionError, match="it has no tasks"):
        finish("s3://bkt/out")


@pytest.mark.parametrize("left", only(["03"], ["", "0", "03"]))
def test_a_finish_that_is_killed_while_it_deletes_receipts_ends_when_it_runs_again(
    bucket, task, expected, on_machine, left
):
    """The folder is published; what is left are the request of the tasks, and some receipts."""
    for index in range(COUNT):
        task(index)
    kept = {path: path.read_bytes() for path in bucket.rglob("*") if path.name == "conversion.json"}
    kept |= {path: path.read_bytes() for k in left for path in bucket.glob(f"out/part-0000{k}-*.tokfmt.json")}
    assert len(kept) == 1 + len(left)
    finish("s3://bkt/out")
    published = tree(bucket / "out")
    for path, content in kept.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    assert finish("s3://bkt/out").sequences == len(expected)
    assert ids("s3://bkt/out") == expected
    assert tree(bucket / "out") == published
    with pytest.raises(ConversionError, match="it has no tasks"):
        finish("s3://bkt/out")


def test_another_request_is_refused(task):
    task(0)
    with pytest.raises(ConversionError, match="tasks of another request.*number of tasks"):
        task(0, count=5)


def test_an_object_that_changed_is_not_published(bucket, task, on_machine, expected):
    for index in range(COUNT):
        task(index)
    (part,) = bucket.glob("out/part-00001*.bin")
    part.write_bytes(b"changed")
    with pytest.raises(ConversionError, match="has changed or is gone since task 1 wrote it.*--task 1/4"):
        finish("s3://bkt/out")
    task(1)
    finish("s3://bkt/out")
    assert ids("s3://bkt/out") == expected


@pytest.mark.parametrize(
    ("to", "name", "more", "says"),
    [
        ("mds", "out", {}, "a folder of files of mds is not a dataset"),
        ("megatron", "out.bin", {}, "does not go with one file. Name a folder"),
        ("megatron", "out", {"to_options": {"shard_size": 100}}, "Leave out shard_size"),
        ("megatron", "out", {"overwrite": True}, "--overwrite"),
        ("megatron", "out", {"select": "0:3"}, "--select"),
    ],
)
def test_refusals(bucket, task, to, name, more, says):
    before = tree(bucket)
    with pytest.raises(OptionError, match=says):
        task(0, name, to, **more)
    assert tree(bucket) == before


def status(name="s3://bkt/out", *more):
    """Exit code and lines of --finish --status."""
    result = CliRunner().invoke(command, ["convert", "--finish", "--status", str(name), *more])
    return result.exit_code, result.output.splitlines()


def test_status_of_parts(bucket, task, on_machine):
    """A task that was killed has its claim, until it runs again."""
    for index in (1, 3):
        task(index)
    claim = {"schema": "tokfmt.claim/1", "run": "r", "host": "node7", "pid": 12, "since": "2026-11-27 10:00 UTC"}
    (bucket / "out/part-00002-of-00004.bin.tokfmt-writing").write_text(json.dumps(claim))
    assert status() == (
        1,
        [
            "task 0 of 4: missing",
            "task 1 of 4: done",
            "task 2 of 4: running (process 12 on node7, since 2026-11-27 10:00 UTC)",
            "task 3 of 4: done",
            "1 task running, 1 task missing",
        ],
    )
    assert status("s3://bkt/out", "--quiet") == (1, ["0,2"])
    for index in (0, 2):
        task(index)
    assert status()[0] == 0
    assert status("s3://bkt/out", "--quiet") == (0, [])
    finish("s3://bkt/out")
    with pytest.raises(ConversionError, match="it has no tasks"):
        CliRunner().invoke(command, ["convert", "--finish", "--status", "s3://bkt/out"], catch_exceptions=False)


@pytest.mark.parametrize("place", ["s3://bkt/m", "m"])
def test_status_of_tasks_of_token_ids(bucket, texts, tmp_path, on_machine, place, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokfmt.convert(texts, "s3://bkt/in.pbin", allow_loss="empty-sequences", **HOW)
    how = {"to_format": "mds", "to_options": {"shard_size": 4000}, "executor": "serial"}
    tokfmt.convert("s3://bkt/in.pbin", place, task=(1, 3), **how)
    assert status(place) == (
        1,
        ["task 0 of 3: missing", "task 1 of 3: done", "task 2 of 3: missing", "2 tasks missing"],
    )
    for index in (0, 2):
        tokfmt.convert("s3://bkt/in.pbin", place, task=(index, 3), **how)
    assert status(place)[0] == 0
    finish(place)
    assert not list(bucket.glob("*.tokfmt-tasks/*"))


def test_a_task_that_was_killed_runs_again_on_another_machine(bucket, task, expected):
    """Its claim and some of its objects are left; nobody has to remove them."""
    task(0)
    (bucket / "out").mkdir(exist_ok=True)
    (bucket / "out/part-00001-of-00004.bin").write_bytes(b"half")
    claim = {"schema": "tokfmt.claim/1", "run": "r", "host": "node7", "pid": 12, "since": "", "format": "megatron"}
    (bucket / "out/part-00001-of-00004.bin.tokfmt-writing").write_text(json.dumps(claim))
    for index in (1, 2, 3):
        task(index)
    finish("s3://bkt/out")
    assert ids("s3://bkt/out") == expected
