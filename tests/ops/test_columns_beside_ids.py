"""Columns beside `input_ids` of rows for instruction tuning: masks of TRL, masks of either meaning, packed rows."""

import json
import re

import numpy as np
import pytest
from amount import examples
from examples_of_tensorflow import example
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import tokfmt
from tokfmt.errors import FormatError, LossyConversionError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

EOS = 99
IDS = [[1, 2, 3, 4], [5, 6], [7, 8, 9]]
MASK = [[0, 0, 1, 1], [1, 0], [0, 1, 1]]
AFTER = [[0, 0, 0, 1], [0, 1], [0, 0, 1]]
"""Which IDs count, if the mask speaks of the ID after each."""


def stored(path, **columns):
    """Write columns of lists: a Parquet file, or lines."""
    if path.suffix == ".jsonl":
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        items = {name: pa.bool_() if isinstance(rows[0][0], bool) else pa.int64() for name, rows in columns.items()}
        kinds = {name: pa.array(rows, pa.list_(items[name])) for name, rows in columns.items()}
        pq.write_table(pa.table(kinds), path)
    return path


def marks(source, home, **words):
    """The sequences of a dataset and the mark of each ID, as datatrove stores them."""
    tokfmt.convert(source, home / "out.ds", eos=EOS, overwrite=True, verify=True, **words)
    ids, mask = np.fromfile(home / "out.ds", "<u2"), np.fromfile(home / "out.ds.loss", "u1")
    ends = np.flatnonzero(ids == EOS)
    parts = [np.split(some, ends[:-1] + 1) for some in (ids, mask)]
    return [[part[:-1].tolist() for part in some] for some in parts]


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_masks_of_trl_are_masks_of_their_ids(name, tmp_path):
    labels = [[i if m else -100 for i, m in zip(*rows, strict=True)] for rows in zip(IDS, MASK, strict=True)]
    source = stored(tmp_path / name, input_ids=IDS, labels=labels, completion_mask=MASK, assistant_masks=MASK)
    assert marks(source, tmp_path) == [IDS, MASK]
    flags = [list(map(bool, row)) for row in MASK]
    source = stored(
        tmp_path / name, input_ids=IDS, completion_mask=flags, attention_mask=[[True] * len(row) for row in IDS]
    )
    assert marks(source, tmp_path) == [IDS, MASK]


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_the_finding_of_a_field_of_another_length_states_both_lengths(name, tmp_path):
    (report,) = tokfmt.check(stored(tmp_path / name, input_ids=[[1, 2, 3]], labels=[[1, 2]]))
    (finding,) = report.findings
    assert finding.message.endswith("has labels of another length: expected 3, found 2")


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_masks_that_contradict_each_other_are_refused_until_an_option_chooses(name, tmp_path):
    other = [[0, 0, 1, 1], [1, 0], [0, 0, 1]]
    both = {"completion_mask": MASK, "assistant_masks": other}
    source = stored(tmp_path / name, input_ids=IDS, **both)
    record = "line 3" if name == "a.jsonl" else "row 2 of row group 0"
    words = (
        f"{record} has completion_mask and assistant_masks that differ: .* its token 1 .*loss_mask=completion_mask or"
    )
    with pytest.raises(FormatError, match=words):
        marks(source, tmp_path)
    (report,) = tokfmt.check(source)
    assert {"TF520", "TF665"} & {finding.code for finding in report.findings}
    for choice, mask in (*both.items(), ("all", other)):
        assert marks(source, tmp_path, options={"loss_mask": choice}) == [IDS, mask]
    if name == "a.jsonl":  # any later line may have them
        assert marks(source, tmp_path, options={"loss_mask": "labels"}) == [IDS, [[1] * len(ids) for ids in IDS]]
        return
    with pytest.raises(FormatError, match=r"has no labels, which --from-opt loss_mask=labels reads"):
        marks(source, tmp_path, options={"loss_mask": "labels"})


def test_padding_of_records_is_left_out_as_that_of_rows_is(tmp_path):
    """TRL's collators, and tokenizers with padding, write attention_mask; a 0 inside of a record is content."""
    padded = {"input_ids": [[0, 1, 2, 0], [3, 4, 0]], "attention_mask": [[0, 1, 1, 0], [1, 1, 0]]}
    source = stored(tmp_path / "a.jsonl", **padded)
    assert [one.tolist() for one in tokfmt.open(source)] == [[1, 2], [3, 4]]
    assert not tokfmt.check(source)[0].findings
    rows, attention = [[4, 5], [1, 2, 3, 0]], [[1, 1], [1, 0, 1, 0]]
    for name in ("b.jsonl", "b.parquet"):  # the first record has nothing of it
        source = stored(tmp_path / name, input_ids=rows, attention_mask=attention)
        assert marks(source, tmp_path) == [[[4, 5], [1, 2, 3]], [[1, 1], [1, 0, 1]]]
        with pytest.raises(LossyConversionError, match="loss-mask"):
            tokfmt.convert(source, tmp_path / "x.pbin", eos=EOS)
        assert not tokfmt.check(source)[0].findings


LATE = [
    {"input_ids": [7, 8, 3]},
    {"input_ids": [5, 6, 3], "labels": [-100, 6, 3]},
    {"input_ids": [1, 2], "labels": None},
]


def lines(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_labels_that_only_later_records_have_are_not_passed_over(tmp_path):
    source = lines(tmp_path / "a.jsonl", *LATE)
    for read in (tokfmt.open, tokfmt.stats, lambda path: tokfmt.convert(path, tmp_path / "x.parquet", eos="none")):
        with pytest.raises(FormatError, match=r"line 2 has labels.*--from-opt loss_mask=labels"):
            list(read(source))
    with pytest.raises(tokfmt.TokfmtError, match=r'line 2 has labels.* loss_mask = "labels"'):
        tokfmt.recipe([source], seq_len=4, to_eos=EOS)
    (report,) = tokfmt.check(source)
    assert [(finding.code, finding.severity) for finding in report.findings] == [("TF520", "error")]
    found = [[7, 8, 3], [5, 6, 3], [1, 2]], [[1, 1, 1], [0, 1, 1], [1, 1]]
    assert marks(source, tmp_path, options={"loss_mask": "labels"}) == [*found]
    done = tokfmt.convert(source, tmp_path / "x.parquet", eos="none", options={"loss_mask": "labels"})
    assert any("2 rows of 3 have no labels" in note for note in done.notes)
    counted = tokfmt.stats(source, options={"loss_mask": "labels"}).datasets[0]
    assert any("2 rows of 3 have no labels" in note for note in counted.notes)
    with tokfmt.open(source, allow_loss="loss-mask") as dataset:
        assert dataset[:].tolist() == found[0]
    assert marks(lines(source, *LATE[1:], LATE[0]), tmp_path)[1] == [*found[1][1:], found[1][0]]


def test_padding_of_later_records_is_left_out_and_packed_rows_are_refused(tmp_path):
    padded = {"input_ids": [5, 6, 0], "attention_mask": [1, 1, 0]}
    source = lines(tmp_path / "a.jsonl", LATE[0], padded)
    assert tokfmt.open(source)[:].tolist() == [[7, 8, 3], [5, 6]]
    packed = {"input_ids": [5, 6, 7], "position_ids": [0, 1, 0]}
    with pytest.raises(FormatError, match="line 2 holds several documents"):
        len(tokfmt.open(lines(source, LATE[0], packed))[:])
    whole = {"input_ids": [5, 6], "position_ids": [0, 1]}
    assert tokfmt.open(lines(source, LATE[0], whole))[:].tolist() == [[7, 8, 3], [5, 6]]
    mrope = [
        {"input_ids": [1, 2], "position_ids": [[0, 1], [0, 0], [0, 1]]},
        {"input_ids": [3], "position_ids": [[0]] * 3},
    ]
    with tokfmt.open(lines(source, *mrope)) as dataset:
        assert dataset[:].tolist() == [[1, 2], [3]]
        assert any("position_ids" in note for note in dataset.notes)
    assert tokfmt.convert(source, tmp_path / "x.parquet", eos="none").sequences == 2
    other = [{"input_ids": [1, 2], "labels": 1}, {"input_ids": [3], "labels": [3, 4]}]  # a class, no labels of IDs
    assert tokfmt.open(lines(source, *other), allow_loss="fields")[:].tolist() == [[1, 2], [3]]


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_a_loss_mask_is_read_as_the_option_states(name, tmp_path):
    source = stored(tmp_path / name, input_ids=IDS, loss_mask=MASK)
    with pytest.raises(LossyConversionError, match="loss_mask"):
        tokfmt.convert(source, tmp_path / "x.ds", eos=EOS)
    with pytest.raises(tokfmt.TokfmtError, match="loss_mask"):
        tokfmt.recipe([source], seq_len=4, to_eos=EOS)
    assert marks(source, tmp_path, options={"loss_mask": "own"}) == [IDS, MASK]
    assert marks(source, tmp_path, options={"loss_mask": "next"}) == [IDS, AFTER]
    with tokfmt.open(source) as opened:
        assert "loss_mask=next" in " ".join((*opened.notes, opened.info.loss_masks))


@st.composite
def packed_rows(draw):
    """Rows of documents, each with IDs and the labels of Hugging Face."""
    document = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=5)
    return draw(st.lists(st.lists(document, min_size=1, max_size=4), min_size=1, max_size=4))


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(packed_rows(), st.sampled_from(["position_ids", "seq_lengths"]), st.sampled_from([".parquet", ".jsonl"]))
def test_packed_rows_are_divided_into_their_documents(tmp_path_factory, rows, how, suffix):
    home = tmp_path_factory.mktemp("packed")
    ids = [[token for one in row for token, _ in one] for row in rows]
    labels = [[token if counts else -100 for one in row for token, counts in one] for row in rows]
    lengths = [[len(one) for one in row] for row in rows]
    places = [[k for length in row for k in range(length)] for row in lengths]
    source = stored(
        home / f"a{suffix}", input_ids=ids, labels=labels, **{how: places if how == "position_ids" else lengths}
    )
    if how == "position_ids":  # documents of one masked ID at the end of a row are what padding looks like
        assume(not any(len(row[-1]) == 1 and not row[-1][0][1] for row in rows))
    documents = [one for row in rows for one in row]
    wanted = (
        [[token for token, _ in one] for one in documents],
        [[int(counts) for _, counts in one] for one in documents],
    )
    with tokfmt.open(source) as opened:
        assert [one.tolist() for one in opened] == wanted[0]
        numbers = rows and [len(documents) - 1, 0]
        assert [opened[k].tolist() for k in numbers] == [wanted[0][k] for k in numbers]
    if any(label == -100 for row in labels for label in row):
        assert marks(source, home) == list(wanted)
    if suffix == ".jsonl":
        return
    tokfmt.convert(source, home / "b.parquet", options={"view": "samples"}, verify=True)
    found = pq.read_table(home / "b.parquet").to_pylist()
    assert [row["input_ids"] for row in found] == ids
    assert [row["labels"] for row in found] == labels
    if any(len(row) > 1 for row in lengths):
        assert [row["position_ids"] for row in found] == places
    assert {*found[0]} - {"position_ids"} == {"input_ids", "labels"}
    (report,) = tokfmt.check(home / "b.parquet", deep=True)
    assert not [finding for finding in report.findings if finding.severity == "error"]


def test_rows_that_only_had_positions_get_no_labels(tmp_path):
    columns = {"position_ids": [[0, 1, 0, 0], [0, 1], [0, 1, 2]], "attention_mask": [[1, 1, 1, 0], [1, 1], [1, 1, 1]]}
    source = stored(tmp_path / "a.parquet", input_ids=IDS, **columns)
    tokfmt.convert(source, tmp_path / "b.arrow", options={"view": "samples"}, verify=True)
    with pa.memory_map(str(tmp_path / "b.arrow")) as file:
        assert pa.ipc.open_stream(file).read_all().to_pydict() == {"input_ids": IDS, **columns}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"position_ids": [[0, 1, 1, 4], [0, 1], [0, 1, 2]]}, "row 0.*position_ids.*expected more than 1, found 1"),
        ({"position_ids": [[0, 1, 2, 3], [0, 1], [0, 1]]}, "row 2.*position_ids of another length"),
        ({"seq_lengths": [[4], [1, 2], [3]]}, "row 1.*seq_lengths.*sum of 2, found 3"),
        ({"seq_lengths": [[4], [2], [3, 0]]}, "row 2.*seq_lengths"),
        ({"completion_mask": [[1, 1, 1, 1], [1], [1, 1, 1]]}, "row 1.*completion_mask of another length"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns, words, tmp_path):
    source = stored(tmp_path / "a.parquet", input_ids=IDS, **columns)
    with pytest.raises(FormatError, match=words):
        tokfmt.open(source)
    (report,) = tokfmt.check(source)
    assert "TF665" in [finding.code for finding in report.findings]


def test_a_row_may_go_on_with_a_document(tmp_path):
    """Positions of a row that is cut from a longer one need not begin at 0."""
    source = stored(tmp_path / "a.parquet", input_ids=IDS, position_ids=[[0, 1, 0, 1], [2, 3], [4, 0, 1]])
    with tokfmt.open(source) as opened:
        assert [one.tolist() for one in opened] == [[1, 2], [3, 4], [5, 6], [7], [8, 9]]


def test_packed_rows_of_trl_are_packed_again_in_a_recipe(tmp_path):
    ids, lengths = [[1, 2, 3, 4, 5], [6, 7, 8]], [[3, 2], [3]]
    labels = [[-100, 2, 3, -100, 5], [-100, -100, 8]]
    source = stored(tmp_path / "a.parquet", input_ids=ids, labels=labels, seq_lengths=lengths)
    view = tokfmt.recipe([source], seq_len=4, pack="document", to_eos=EOS)
    ids, labels = ([sample[name].tolist() for sample in view] for name in ("input_ids", "labels"))
    assert ids == [[1, 2, 3, EOS], [4, 5, EOS, EOS], [6, 7, 8, EOS]]
    assert labels == [[2, 3, -100, -100], [5, -100, -100, -100], [-100, 8, -100, -100]]  # no data trains what is added


def rows_that_contradict():
    """Columns of 400 rows, and the 50 of them whose masks differ or have another length, by turns."""
    ids = [[i % 50, i % 50 + 1, i % 50 + 2] for i in range(1, 401)]
    masks, wrong = [[0, 1, 1] for _ in ids], range(7, 400, 8)
    others = [[0, 1] if i % 16 == 7 else [1, 1, 1] if i in wrong else [0, 1, 1] for i in range(400)]
    return {"input_ids": ids, "completion_mask": masks, "assistant_masks": others}, list(wrong)


def records_of(columns):
    """Each row as a record of tf.train.Example whose size is a multiple of 4, by a feature that holds nothing."""
    for row in zip(*columns.values(), strict=True):
        features = dict(zip(columns, row, strict=True))
        padded = (example(**features, **{"x" * length: (1, b"")}) for length in range(1, 9))
        yield next(record for record in padded if len(record) % 4 == 0)


def written(path, columns):
    """Write rows in the format of a name. TFRecord and ArrayRecord take the bytes of an Example as bare integers."""
    if path.suffix in (".parquet", ".jsonl"):
        return stored(path, **columns)
    if path.suffix == ".arrow":
        table = pa.table({name: pa.array(rows, pa.list_(pa.int64())) for name, rows in columns.items()})
        with pa.ipc.new_file(path, table.schema) as out:
            out.write_table(table, max_chunksize=64)
        return path
    bare = [np.frombuffer(record, "<i4").tolist() for record in records_of(columns)]
    source = stored(path.with_suffix(".jsonl"), input_ids=bare)
    tokfmt.convert(source, path, eos="none", to_eos="none", to_options=["bare=int32"])
    path.with_name(f"{path.name}.tokfmt.json").unlink()  # It states that they are bare.
    return path


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.jsonl", "a.tfrecord", "a.array_record"])
def test_a_check_lists_every_row_whose_fields_contradict_each_other(name, tmp_path):
    """A reader stops at the first; the numbers of rows are those of the file, whatever is wrong with those before."""
    columns, wrong = rows_that_contradict()
    path = written(tmp_path / name, columns)
    (report,) = tokfmt.check(path, deep=True)
    words = [re.search(r"(\w+) (\d+)(?: of r.* (\d))? has (.*)", one.message) for one in report.findings]
    numbers = [int(one[2]) + 64 * int(one[3] or 0) - (one[1] == "line") for one in words if one]
    assert sorted(numbers) == wrong and {one[4].partition(": ")[0] for one in words} == {
        "assistant_masks of another length",
        "completion_mask and assistant_masks that differ",
    }
