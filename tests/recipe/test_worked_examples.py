"""The worked examples that upstream packages document, and their loaders' conventions."""

import json

import numpy as np
import pytest
from paths import ROOT

import tokfmt


@pytest.fixture
def tiny(tmp_path):
    """The example of flat-tokens: three sequences of eight tokens."""
    lines = [json.dumps({"input_ids": ids}) for ids in ([1, 2], [3, 4, 5], [6, 7, 8])]
    (tmp_path / "tiny.jsonl").write_text("\n".join(lines) + "\n")
    tokfmt.convert(tmp_path / "tiny.jsonl", tmp_path / "tiny.zarr")
    return tmp_path / "tiny.zarr"


def test_packed_length_8_of_flat_tokens(tiny):
    view = tokfmt.recipe([tiny], seq_len=8, labels="starts")
    assert len(view) == 1
    assert view[0]["input_ids"].tolist() == [0, 1, 0, 3, 4, 0, 6, 7]
    assert view[0]["labels"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_length_4_sample_1_is_positions_4_to_7(tiny):
    view = tokfmt.recipe([tiny], seq_len=4, labels="starts")
    assert view[1]["labels"].tolist() == [5, 6, 7, 8]
    assert view[1]["input_ids"].tolist() == [0, 0, 6, 7]
    assert view.spans(1) == [(0, 1, 2, 3), (0, 2, 0, 3)]


def test_unpacked_sequence_1(tiny):
    assert tokfmt.recipe([tiny])[1].tolist() == [3, 4, 5]


def test_a_file_says_the_same_as_the_call(tiny):
    path = tiny.parent / "mix.toml"
    path.write_text('tokfmt = 1\nseq_len = 4\nlabels = "starts"\n[[source]]\npath = "tiny.zarr"\n')
    view, other = tokfmt.open(path), tokfmt.recipe([tiny], seq_len=4, labels="starts")
    assert view.fingerprint == other.fingerprint
    assert np.array_equal(view.samples(range(2))["input_ids"], other.samples(range(2))["input_ids"])


@pytest.mark.parametrize("pack", ["bestfit", "document"])
def test_a_model_that_shifts_labels_itself_learns_no_token_from_another_part(tmp_path, pack):
    """The loss of Hugging Face compares logits[i] with labels[i + 1]. Its collators mask labels where positions are 0.

    The third document has a part of one token, which no token predicts and which predicts none.
    """
    documents = [[1, 2, 3], [4, 5], [6, 7, 8, 9, 10, 11, 12, 13, 14], [15]]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in documents))
    view = tokfmt.recipe([tmp_path / "x.jsonl"], seq_len=8, pack=pack, labels="same", to_eos="none")
    found = view.samples(range(len(view)), ["input_ids", "labels", "position_ids", "loss_mask"])
    assert np.array_equal(found["labels"] == -100, found["loss_mask"] == 0)
    assert (found["labels"][found["position_ids"] == 0] == -100).all()
    ids, labels = found["input_ids"], found["labels"]
    learned = {(int(a), int(b)) for a, b in zip(ids[:, :-1].flat, labels[:, 1:].flat, strict=True) if b != -100}
    within = {
        (a, b) for one in documents for k in range(0, len(one), 8) for a, b in zip(one[k : k + 8], one[k + 1 : k + 8])
    }
    assert learned == within
    assert set(ids[found["loss_mask"] == 1].tolist()) == {b for _, b in within}
    assert not {14, 15} & set(ids.flatten().tolist())


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("block", [7, 64, 333])
@pytest.mark.parametrize("name", ["D_2byte_gpt2_shuffled_seed7", "D_2byte_gpt2_filtered_mod3", "D_4byte_wide"])
def test_modalities_continuous(reuse, block, name):
    """PackedMemMapDatasetContinuous: a sample is `block` tokens of the data section, and the collator shifts it.

    With `reuse_last_target` the next one begins with the last of the one before. What does not fill one is left out.
    """
    path = ROOT / "fixtures/modalities" / f"{name}.pbin"
    content = path.read_bytes()
    length, width = int.from_bytes(content[:8], "little"), int.from_bytes(content[8:12], "little")
    stream = np.frombuffer(content, f"<u{width}", length // width, 12)
    step = block - 1 if reuse else block
    count = (len(stream) - block) // step + 1
    view = tokfmt.recipe(
        [{"path": path, "eos": "none"}], seq_len=block - 1, tail="drop", labels="next" if reuse else "disjoint"
    )
    assert len(view) == count
    got = view.samples(range(count))
    for k in range(count):
        window = stream[k * step : k * step + block]
        assert got["input_ids"][k].tolist() == window[:-1].tolist()
        assert got["labels"][k].tolist() == window[1:].tolist()


@pytest.mark.parametrize("number", range(4))
def test_overlap_of_hdf5(number):
    """Packed samples of Cerebras: rows of input_ids, loss mask and labels that the upstream tool has written."""
    import h5py

    path = ROOT / f"fixtures/hdf5/packed_overlap/examples_{number}_0.h5"
    with h5py.File(path) as file:
        rows = file["data"][:]
    tail = "drop" if rows[:, 1].all() else "pad"  # a document that goes on elsewhere gets a separator when read
    view = tokfmt.recipe([{"path": path, "eos": 50256}], seq_len=rows.shape[2], tail=tail)
    got = view.samples(range(len(view)), ["input_ids", "labels", "loss_mask"])
    assert len(view) == len(rows)
    assert (got["loss_mask"] == rows[:, 1]).all()
    real = rows[:, 1] == 1
    assert (got["input_ids"][real] == rows[:, 0][real]).all()
    assert (got["labels"][real] == rows[:, 2][real]).all()


def test_rows_of_hdf5_as_they_are_stored():
    import h5py

    path = ROOT / "fixtures/hdf5/packed_overlap/examples_0_0.h5"
    with h5py.File(path) as file:
        rows = file["data"][:]
    view = tokfmt.recipe([path], seq_len=rows.shape[2], pack="stored")
    got = view.samples(range(len(view)), ["input_ids", "labels", "loss_mask"])
    assert (got["input_ids"] == rows[:, 0]).all()
    assert (got["loss_mask"] == rows[:, 1]).all()
    assert (got["labels"] == np.where(rows[:, 1], rows[:, 2], -100)).all()


def test_positions_beyond_a_recipe_are_refused(tiny):
    reader = tokfmt.recipe([tiny], seq_len=8, labels="starts").reader
    for read in (reader.tokens, reader.labels, reader.masks):
        for start, stop in ((-1, 2), (0, 9), (5, 4)):
            with pytest.raises(IndexError):
                read(start, stop)
