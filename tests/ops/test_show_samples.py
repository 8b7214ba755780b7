"""Rows as they are stored, and what is told of them."""

import h5py
import numpy as np
import pytest
from paths import CORPUS, FIXTURES, TOKENIZER
from showing import samples

from tokfmt.errors import FormatError, OptionError

HOME = FIXTURES / "hdf5"


def rows_of(path):
    return np.concatenate([h5py.File(p)["data"][:] for p in sorted(path.glob("*.h5"))])


@pytest.mark.parametrize("name", ["padded_eos", "padded_pad0", "packed_overlap", "vsl_old"])
def test_against_h5py(name):
    stored = rows_of(HOME / name)
    view = samples(HOME / name, f"0:{len(stored)}", eos=50256)
    shown = list(view.shown)
    assert (view.samples, view.sample_length, view.eos_id) == (len(stored), stored.shape[2], 50256)
    assert [s.index for s in shown] == list(range(len(stored)))
    assert np.array_equal([s.ids for s in shown], stored[:, 0])
    assert np.array_equal([s.mask for s in shown], stored[:, 1])
    assert np.array_equal([s.labels for s in shown], stored[:, 2])
    for sample, row in zip(shown, stored, strict=True):
        if name.startswith("padded"):
            assert sample.padding == np.count_nonzero(row[1] == 0)
        real = row.shape[1] - sample.padding
        begins = np.flatnonzero(row[4] == 0) if len(row) == 5 else np.flatnonzero(row[0, :-1] == 50256) + 1
        assert np.flatnonzero(sample.begins).tolist() == [k for k in begins.tolist() if k < real]


def test_selections():
    def shown(selection):
        return [s.index for s in samples(HOME / "padded_eos", selection).shown]

    count = samples(HOME / "padded_eos").samples
    assert shown(None) == [0, 1]
    assert shown("3") == [3]
    assert shown("-2:") == [count - 2, count - 1]
    assert shown(f"{count - 1}:{count + 1}") == [count - 1]
    with pytest.raises(OptionError):
        shown(f"{count}")


def test_ids_alone_of_stage1():
    view = samples(FIXTURES / "stage1" / "blocks", "1", eos=50000)
    (sample,) = view.shown
    stored = np.frombuffer((FIXTURES / "stage1" / "blocks" / "stage1_block_0001.bin").read_bytes(), "<i4")
    assert sample.ids.tolist() == stored.tolist()
    assert sample.mask is None and sample.labels is None
    assert np.flatnonzero(sample.begins).tolist() == (np.flatnonzero(stored[:-1] == 50000) + 1).tolist()


def test_padding_of_the_last_stage1_sample():
    view = samples(FIXTURES / "stage1" / "blocks", "-1", eos=50000)
    (sample,) = view.shown
    run = len(sample.ids) - 1 - int(np.flatnonzero(sample.ids != 50000)[-1])
    assert sample.padding == max(0, run - 1)


def test_pieces(tmp_path):
    from tokfmt import convert

    convert([CORPUS], tmp_path / "x.h5", tokenizer=str(TOKENIZER), to_options=["seq_len=32"])
    (sample,) = samples(tmp_path / "x.h5", "0", tokenizer=str(TOKENIZER)).shown
    from tokenizers import Tokenizer

    text = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json")).decode(sample.ids.tolist(), skip_special_tokens=False)
    assert "".join(sample.pieces) == text


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (FIXTURES / "modalities" / "D_2byte_gpt2.pbin", "modalities stores no samples"),
        (CORPUS, "jsonl stores no samples"),
    ],
)
def test_formats_without_samples(path, why):
    with pytest.raises(OptionError, match=why):
        samples(path)


def test_a_corpus_has_none():
    with pytest.raises(FormatError, match="holds a corpus"):
        samples(HOME / "corpus_uint16")
