"""Rows of IDs with `attention_mask`: what it excludes at the ends of rows is padding, and is counted once."""

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import tokfmt
from tokfmt.errors import CorruptError, LossyConversionError

ROWS = [[5, 6, 7], [8], [9, 9, 4, 3, 2], []]
WIDTH = 6


def padded(rows, side, pad=0):
    """IDs and masks of the rows, padded on one side, or on both."""
    ids, masks = [], []
    for row in rows:
        free = WIDTH - len(row)
        before = {"right": 0, "left": free, "both": free // 2}[side]
        ids.append([pad] * before + row + [pad] * (free - before))
        masks.append([0] * before + [1] * len(row) + [0] * (free - before))
    return ids, masks


def write(path, **columns):
    table = pa.table({name: pa.array(values, pa.list_(pa.int32())) for name, values in columns.items()})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=2)
    else:
        feather.write_feather(table, path, chunksize=2)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("side", ["right", "left", "both"])
def test_padding_is_left_out_and_every_command_counts_it_the_same(side, suffix, tmp_path):
    ids, masks = padded(ROWS, side)
    path = write(tmp_path / f"x{suffix}", input_ids=ids, attention_mask=masks)
    tokens = sum(map(len, ROWS))
    padding = WIDTH * len(ROWS) - tokens
    with tokfmt.open(path) as dataset:
        assert dataset[:].tolist() == ROWS
        assert dataset[2].tolist() == ROWS[2]
    (found,) = tokfmt.stats(path).datasets
    assert (found.tokens, found.padding.count, found.padding.share) == (tokens, padding, padding / WIDTH / len(ROWS))
    told = tokfmt.info(path)
    assert (told.tokens, told.padding) == (tokens, padding)
    (verdict,) = tokfmt.check(path, deep=True)
    assert (verdict.tokens, verdict.findings) == (tokens, [])
    done = tokfmt.convert(path, tmp_path / "out.zarr", verify=True)
    assert done.tokens == tokens
    assert any(f"{padding} positions" in note and "attention_mask" in note for note in done.notes)


def test_an_excluded_position_inside_a_row_is_content_that_does_not_count(tmp_path):
    path = write(
        tmp_path / "x.parquet",
        input_ids=[[0, 5, 6, 7, 0], [8, 9, 0, 0, 0]],
        attention_mask=[[0, 1, 0, 1, 0], [1, 1, 0, 0, 0]],
    )
    with tokfmt.open(path) as dataset:
        assert dataset[:].tolist() == [[5, 6, 7], [8, 9]]
    with pytest.raises(LossyConversionError, match="loss-mask"):
        tokfmt.convert(path, tmp_path / "out.zarr")
    done = tokfmt.convert(path, tmp_path / "out.parquet", verify=True)
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {
        "input_ids": [[5, 6, 7], [8, 9]],
        "labels": [[5, -100, 7], [8, 9]],
    }
    assert any("1 position inside" in note for note in done.notes)


def test_labels_keep_their_places(tmp_path):
    ids, masks = padded([[5, 6, 7], [8, 9]], "left")
    labels = [[-100] * 3 + [-100, 6, 7], [-100] * 4 + [-100, 9]]
    path = write(tmp_path / "x.parquet", input_ids=ids, attention_mask=masks, labels=labels)
    tokfmt.convert(path, tmp_path / "out.parquet", verify=True)
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {
        "input_ids": [[5, 6, 7], [8, 9]],
        "labels": [[-100, 6, 7], [-100, 9]],
    }


def test_a_mask_of_another_length_is_refused_with_its_row(tmp_path):
    path = write(tmp_path / "x.parquet", input_ids=[[1, 2], [3, 4]], attention_mask=[[1, 1], [0]])
    with pytest.raises(CorruptError, match=r"row 1 .*attention_mask.*expected 2, found 1"):
        tokfmt.open(path)
    (verdict,) = tokfmt.check(path)
    assert "TF665" in verdict.counts


def test_a_mask_that_numbers_packed_documents_divides_rows(tmp_path):
    """As LLaMA-Factory's neat_packing writes it, and as position_ids beside it do."""
    columns = {"input_ids": [[5, 6, 7, 8, 0], [9, 9, 0, 0, 0]], "attention_mask": [[1, 1, 2, 2, 0], [1, 1, 0, 0, 0]]}
    path = write(tmp_path / "x.parquet", **columns)
    with tokfmt.open(path) as dataset:
        assert dataset[:].tolist() == [[5, 6], [7, 8], [9, 9]]
    full = write(tmp_path / "full.parquet", input_ids=[[1, 2, 3]], position_ids=[[0, 1, 0]])
    total = tokfmt.stats([path, full]).total
    assert (total.padding.count, total.padding.share) == (4, 4 / 13)
    write(path, **columns, position_ids=[[0, 1, 0, 1, 0], [0, 1, 0, 0, 0]])
    with tokfmt.open(path) as dataset:
        assert dataset[:].tolist() == [[5, 6], [7, 8], [9, 9]]
    write(path, **columns, position_ids=[[0, 1, 2, 3, 0], [0, 1, 0, 0, 0]])
    with pytest.raises(CorruptError, match=r"row 0 .*position_ids.* differ"):
        tokfmt.open(path)


def test_a_mask_that_excludes_nothing_changes_nothing(tmp_path):
    path = write(tmp_path / "x.parquet", input_ids=ROWS[:3], attention_mask=[[1] * len(row) for row in ROWS[:3]])
    told = tokfmt.info(path)
    assert (told.tokens, told.padding, told.notes) == (sum(map(len, ROWS)), None, ())


def test_samples_are_rows_as_they_are_stored(tmp_path):
    ids, masks = padded(ROWS, "right")
    path = write(tmp_path / "x.parquet", input_ids=ids, attention_mask=masks)
    with tokfmt.open(path, options={"view": "samples"}) as dataset:
        assert dataset[:].tolist() == ids


IDS, CONTENT = padded([[5, 6, 7], [8, 9], [4, 3, 2, 1], [1, 2, 3, 4, 5, 6]], "right")
INVERTED = [[1 - one for one in row] for row in CONTENT]
SHORT = [row if number % 2 else [1, 1, 0, 0, 0, 0] for number, row in enumerate(CONTENT)]
OWN = [[token if one else -100 for token, one in zip(*row)] for row in zip(IDS, CONTENT, strict=True)]


@pytest.mark.parametrize(("suffix", "code"), [(".parquet", "TF669"), (".arrow", "TF689")])
@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"attention_mask": CONTENT}, None),
        ({"attention_mask": CONTENT, "labels": OWN}, None),
        ({"attention_mask": CONTENT, "completion_mask": CONTENT}, None),
        ({"attention_mask": [[1] * WIDTH] * 4, "labels": IDS}, None),  # no position is padding
        ({"attention_mask": INVERTED}, "4 of 4 rows"),
        ({"attention_mask": SHORT}, "2 of 4 rows (first: row 0, position 2)"),
        ({"attention_mask": [[0] * WIDTH if row == CONTENT[2] else row for row in CONTENT]}, "1 of 4 rows (first: row 2, position 0)"),
        ({"attention_mask": CONTENT, "labels": IDS}, "3 of 4 rows (first: row 0, position 3)"),
        ({"attention_mask": CONTENT, "completion_mask": INVERTED}, "3 of 4 rows (first: row 0, position 3)"),
    ],
)  # fmt: skip
def test_a_mask_that_contradicts_the_padding_is_reported(columns, expected, suffix, code, tmp_path):
    path = write(tmp_path / f"x{suffix}", input_ids=IDS, **columns)
    (verdict,) = tokfmt.check(path, deep=True)
    found = [one for one in verdict.findings if one.code == code]
    assert [one.severity for one in found] == ["warning"] * (expected is not None)
    assert all(expected in one.message for one in found)
    assert verdict.exit_code == 0


def test_a_mask_of_the_next_token_may_count_the_last_padding_before_a_row(tmp_path):
    ids, masks = padded([[5, 6, 7], [8, 9]], "left")
    following = [[*row[1:], 0] for row in masks]
    path = write(tmp_path / "x.parquet", input_ids=ids, attention_mask=masks, loss_mask=following)
    (verdict,) = tokfmt.check(path, deep=True, options={"loss_mask": "next"})
    assert "TF669" not in verdict.counts
    path = write(tmp_path / "y.parquet", input_ids=ids, attention_mask=masks, loss_mask=[[1] * WIDTH] * 2)
    (verdict,) = tokfmt.check(path, deep=True, options={"loss_mask": "next"})
    assert "2 of 2 rows (first: row 0, position 0)" in verdict.findings[0].message


def test_a_mask_that_numbers_documents_without_padding_divides_rows(tmp_path):
    """The footer states that nothing is excluded, and not that a row is one document."""
    path = write(tmp_path / "x.parquet", input_ids=[[5, 6, 7, 8], [9, 9]], attention_mask=[[1, 1, 2, 2], [1, 1]])
    with tokfmt.open(path) as dataset:
        assert dataset[:].tolist() == [[5, 6], [7, 8], [9, 9]]
