"""Tasks of machines that share only the bucket, beside each other and beside other runs: complete, or an error."""

import json

import numpy as np
import pytest
from amount import first
from finishing import finish
from remote.conftest import when

import tokfmt
from tokfmt.errors import ConversionError, CorruptError, DestinationExistsError, OptionError
from tokfmt.testing import tree

HOW = {"to_format": "mds", "eos": 50256, "to_options": {"shard_size": 4000}}
OPTIONS = {"mds": HOW, "litdata": {**HOW, "to_format": "litdata"}, "llmc": {**HOW, "to_format": "llmc"}}


@pytest.fixture
def sources(bucket, tmp_path):
    """Two datasets of 30,000 tokens each, and what is made of them locally."""
    for name, seed in (("in", 0), ("other", 1)):
        lines = np.random.default_rng(seed).integers(0, 50_000, (300, 100)).tolist()
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in lines))
        tokfmt.convert(tmp_path / f"{name}.jsonl", bucket / f"{name}.pbin", eos=50256, manifest=False)


@pytest.fixture
def local(sources, bucket, tmp_path):
    def made(source="in", kind="mds"):
        place = tmp_path / "local" / source / kind
        if not place.exists():
            place.mkdir(parents=True)
            tokfmt.convert(bucket / f"{source}.pbin", place / "m", manifest=False, **OPTIONS[kind])
        return tree(place / "m")

    return made


@pytest.fixture
def task(on_machine, sources):
    def run(number, source="in", kind="mds", **more):
        on_machine(f"node{number}")
        tokfmt.convert(f"s3://bkt/{source}.pbin", "s3://bkt/m", task=(number, 2), **OPTIONS[kind], **more)

    return run


def others(bucket):
    """Objects that are neither sources nor of the dataset."""
    files = {path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file()}
    return {name for name in files - {"in.pbin", "other.pbin", "m.tokfmt.json"} if not name.startswith("m/")}


@pytest.mark.parametrize("kind", first(1, OPTIONS))
def test_a_finish_that_is_refused_can_be_repeated(bucket, local, task, on_machine, kind):
    for number in range(2):
        task(number, kind=kind)
    on_machine("first")
    with pytest.raises(ConversionError, match="cannot read them back"):
        finish("s3://bkt/m", verify=True)
    on_machine("second")
    finish("s3://bkt/m")
    assert tree(bucket / "m") == local(kind=kind) and not others(bucket)


@pytest.mark.parametrize("kind", first(1, OPTIONS))
def test_tasks_whose_objects_were_replaced_are_not_published(bucket, local, task, on_machine, kind):
    """Publishing uploads nothing that another machine built, such as an empty file in its place."""
    for number in range(2):
        task(number, kind=kind)
    on_machine("other")
    tokfmt.convert("s3://bkt/other.pbin", "s3://bkt/m", overwrite=True, **OPTIONS[kind])
    on_machine("last")
    with pytest.raises(DestinationExistsError):
        finish("s3://bkt/m")
    with pytest.raises(ConversionError, match=r"has changed or is gone .* Delete s3://bkt/m.tokfmt-tasks, and run all"):
        finish("s3://bkt/m", overwrite=True)
    assert tree(bucket / "m") == local("other", kind)


def test_tasks_that_overwrite_are_refused(bucket, local, task, on_machine):
    on_machine("old")
    tokfmt.convert("s3://bkt/other.pbin", "s3://bkt/m", **HOW)
    with pytest.raises(OptionError, match="--task does not go with --overwrite in a store"):
        task(0, overwrite=True)
    assert tree(bucket / "m") == local("other") and not others(bucket)


@pytest.mark.parametrize(
    ("name", "format_", "options"),
    [
        ("m.pbin", None, {}),
        ("m_document.bin", None, {}),
        ("m.ds", None, {}),
        ("m.parquet", None, {}),
        ("m.npy", "olmo", {}),
        ("m.h5", "hdf5", {"seq_len": 64}),
    ],
)
def test_tasks_that_write_into_one_file_are_refused(bucket, sources, tmp_path, name, format_, options):
    """Also with a spool: nothing shows that all machines see it, and half of the file would be zeros."""
    (tmp_path / "node").mkdir()
    before = set(tree(bucket))
    with pytest.raises(OptionError, match="^s3://bkt/m.*shard_size"):
        tokfmt.convert(
            "s3://bkt/in.pbin", f"s3://bkt/{name}", task=(0, 2), spool=tmp_path / "node",
            to_format=format_, to_options=options, eos=50256,
        )  # fmt: skip
    assert set(tree(bucket)) == before and not any((tmp_path / "node").iterdir())


def test_a_folder_of_pairs_is_the_way_out(bucket, sources, tmp_path, on_machine):
    how = {"to_format": "megatron", "to_options": {"shard_size": 9000}, "eos": 50256}
    for number in range(2):
        on_machine(f"node{number}")
        tokfmt.convert("s3://bkt/in.pbin", "s3://bkt/m", task=(number, 2), **how)
    on_machine("last")
    finish("s3://bkt/m")
    tokfmt.convert(bucket / "in.pbin", tmp_path / "m", manifest=False, **how)
    assert tree(bucket / "m") == tree(tmp_path / "m") and not others(bucket)


def test_a_task_that_begins_while_another_one_works(server, bucket, local, task, on_machine):
    """It has looked at the destination before the other one claims it."""
    when(server, "PUT", "m.tokfmt-writing", lambda: task(1))
    task(0)
    on_machine("last")
    finish("s3://bkt/m")
    assert tree(bucket / "m") == local() and not others(bucket)


@pytest.mark.parametrize("how", ["alone", "task"])
def test_a_run_that_is_overtaken_stops(server, bucket, local, task, on_machine, how):
    """One request may be under way. It writes no other object, and deletes none of a published dataset."""

    def overtake():
        on_machine("other")
        tokfmt.convert("s3://bkt/other.pbin", "s3://bkt/m", overwrite=True, **HOW)
        assert tree(bucket / "m") == local("other")

    when(server, "PUT", "m/shard.00001.mds", overtake)
    on_machine("node0")
    with pytest.raises(ConversionError, match="the claim of this run was deleted") as caught:
        if how == "task":
            task(0)
        else:
            tokfmt.convert("s3://bkt/in.pbin", "s3://bkt/m", **HOW)
    assert any("another run has taken it over" in note for note in caught.value.__notes__)
    now, then = tree(bucket / "m"), local("other")
    assert now.keys() == then.keys()
    assert [name for name in now if now[name] != then[name]] in ([], ["shard.00001.mds"])


@pytest.mark.parametrize(
    ("method", "name"), [("PUT", "m/index.json"), ("PUT", "m.tokfmt.json"), ("DELETE", "m.tokfmt-writing")]
)
def test_two_runs_that_publish(server, bucket, local, task, on_machine, method, name):
    for number in range(2):
        task(number)

    def second():
        on_machine("second")
        try:
            finish("s3://bkt/m")
        except ConversionError as error:
            seen.append(error)

    seen = []
    when(server, method, name, second)
    on_machine("first")
    try:
        finish("s3://bkt/m")
    except ConversionError as error:
        seen.append(error)
    assert len(seen) < 2, seen
    assert tree(bucket / "m") == local() and (bucket / "m.tokfmt.json").exists() and not others(bucket)


@pytest.mark.parametrize("text", ["{", "{}", "[]"])
def test_a_damaged_record_of_tasks(bucket, task, text):
    task(0)
    (bucket / "m.tokfmt-tasks/conversion.json").write_text(text)
    with pytest.raises(CorruptError, match="is not a record of tasks. Delete s3://bkt/m.tokfmt-tasks, and run all"):
        task(1)


def test_a_store_that_knows_no_if_match(server, bucket, local, task, on_machine):
    """The claim is written, and --finish does not make it its own."""
    server.conditions.remove("If-Match")
    for number in range(2):
        task(number)
    on_machine("last")
    finish("s3://bkt/m")
    assert tree(bucket / "m") == local() and not others(bucket)
