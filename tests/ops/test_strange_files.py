"""Files that people name as datasets, as their reports describe them: they are read, or the error says what they are."""

import json

import numpy as np
import pytest

import tokfmt
from tokfmt.errors import FormatError, TokfmtError

LISTS = [[5, 6, 7], [8], [9, 10]]


def refusal(path):
    with pytest.raises(TokfmtError) as caught:
        tokfmt.info(path)
    return caught.value


def listed(path, **options):
    return [np.asarray(ids).tolist() for ids in tokfmt.open(path, **options)]


@pytest.mark.parametrize(
    ("content", "command"),
    [
        (json.dumps({"text": "a", "meta": {"n": 1}}, indent=2) + "\n", "jq -c . PATH"),
        (json.dumps([{"text": "a"}, {"text": "b"}], indent=1) + "\n", "jq -c '.[]' PATH"),
        (json.dumps([{"text": "a"}, {"text": "b"}]), "jq -c '.[]' PATH"),
        ("".join(f"{json.dumps(ids)}\n" for ids in LISTS), "jq -c '{input_ids: .}' PATH"),
    ],
    ids=["over several lines", "array over several lines", "array", "lists of IDs"],
)
def test_json_that_is_not_json_lines(tmp_path, content, command):
    """The remedy makes lines of it. To leave out invalid lines, as for a single bad line, would leave out everything."""
    path = tmp_path / "x.jsonl"
    path.write_text(content)
    assert command in refusal(path).remedy


def test_ids_that_are_floats(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"input_ids": [5, 6.0]}\n')
    assert refusal(path).found == "6.0 in it"


def test_parquet_of_ids_as_text(tmp_path):
    """A column named input_ids that holds text is not encoded as text, unless it is asked for."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"input_ids": [json.dumps(ids) for ids in LISTS]}), path)
    error = refusal(path)
    assert '"input_ids" holds text' in error.what and "input_ids" in error.remedy
    assert tokfmt.info(path, text_field="input_ids").sequences == 3
    pq.write_table(pa.table({"input_ids": ["5 6", "7"], "text": ["a", "b"]}), path)
    assert tokfmt.info(path).sequences == 2


@pytest.mark.parametrize("first", [True, False], ids=["first file", "last file"])
def test_parquet_with_a_file_of_empty_lists_only(tmp_path, first):
    """Its writer states list<null>, because no value tells the type."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parts = [
        pa.table({"input_ids": pa.array([[], []])}),
        pa.table({"input_ids": pa.array(LISTS, pa.list_(pa.int32()))}),
    ]
    assert str(parts[0].schema.field(0).type.value_type) == "null"
    (tmp_path / "d").mkdir()
    for k, part in enumerate(parts if first else parts[::-1]):
        pq.write_table(part, tmp_path / f"d/part-{k}.parquet")
    expected = [[], [], *LISTS] if first else [*LISTS, [], []]
    assert listed(tmp_path / "d") == expected
    tokfmt.convert(tmp_path / "d", tmp_path / "x.jsonl")
    assert [json.loads(line)["input_ids"] for line in (tmp_path / "x.jsonl").read_text().splitlines()] == expected
    alone = tmp_path / "null.parquet"
    pq.write_table(pa.table({"input_ids": pa.array([[None], []])}), alone)
    with pytest.raises(TokfmtError, match="NULL"):
        tokfmt.convert(alone, tmp_path / "y.jsonl")


def test_a_split_of_a_format_without_splits(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"input_ids": [5]}\n')
    assert any("no splits" in note for note in tokfmt.info(tmp_path / "x.jsonl", split="train").notes)
    assert not any("no splits" in note for note in tokfmt.info(tmp_path / "x.jsonl").notes)


@pytest.fixture
def lost(tmp_path):
    """A folder with the manifest of a pack that is not there."""
    tokfmt.convert(rows(tmp_path / "x.jsonl"), tmp_path / "x.pbin", eos=0)
    (tmp_path / "copied").mkdir()
    (tmp_path / "x.pbin.tokfmt.json").rename(tmp_path / "copied" / "x.pbin.tokfmt.json")
    return tmp_path / "copied"


def rows(path):
    path.write_text("".join(f"{json.dumps({'input_ids': ids})}\n" for ids in LISTS))
    return path


@pytest.mark.parametrize("format_", [None, "modalities"])
def test_a_dataset_of_which_only_the_manifest_is_there(lost, format_):
    path = lost / "x.pbin"
    for call in (
        lambda: tokfmt.info(path, format=format_),
        lambda: tokfmt.stats(path, format=format_),
        lambda: tokfmt.open(path, format=format_),
        lambda: tokfmt.diff(path, lost.parent / "x.pbin"),
        lambda: tokfmt.convert(path, lost / "y.zarr", format=format_),
    ):
        with pytest.raises(FormatError, match=r"x\.pbin: no such file; .*manifest, x\.pbin\.tokfmt\.json, is there"):
            call()
    (report,) = tokfmt.check(path, format=format_)
    assert "x.pbin.tokfmt.json" in report.findings[0].message


def test_a_manifest_that_is_named_instead_of_its_dataset(lost):
    manifest = lost / "x.pbin.tokfmt.json"
    error = refusal(manifest)
    assert "manifest" in str(error) and "x.pbin, is not there" in error.remedy
    error = refusal(lost)
    assert "manifests without their datasets" in str(error) and "x.pbin" in error.remedy
    (lost.parent / "x.pbin").rename(lost / "x.pbin")
    assert refusal(manifest).remedy == "Name the dataset, x.pbin"
    assert tokfmt.info(lost / "x.pbin").manifest is not None
