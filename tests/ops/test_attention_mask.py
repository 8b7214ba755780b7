"""Rows of IDs with `attention_mask`: what it excludes at the ends of rows is padding, and is counted once."""

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import tokfmt
from tokfmt.core.errors import CorruptError, LossyConversionError

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


def test_a_mask_that_excludes_nothing_changes_nothing(tmp_path):
    path = write(tmp_path / "x.parquet", input_ids=ROWS[:3], attention_mask=[[1] * len(row) for row in ROWS[:3]])
    told = tokfmt.info(path)
    assert (told.tokens, told.padding, told.notes) == (sum(map(len, ROWS)), None, ())


def test_samples_are_rows_as_they_are_stored(tmp_path):
    ids, masks = padded(ROWS, "right")
    path = write(tmp_path / "x.parquet", input_ids=ids, attention_mask=masks)
    with tokfmt.open(path, options={"view": "samples"}) as dataset:
        assert dataset[:].tolist() == ids
