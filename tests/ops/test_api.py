"""The public Python interface: open, convert, formats."""

import json
import subprocess
import sys

import numpy as np
import pytest
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.core.errors import OptionError, SeparatorUnknownError

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def documents():
    expected = json.loads((FIXTURES / "modalities" / "expected.json").read_bytes())
    stored = expected["doc_sets"][expected["pbin"]["D_2byte_gpt2.pbin"]["documents"]]
    return [doc[:-1] for doc in stored]


def test_open_is_a_sequence_of_arrays():
    lists = documents()
    with tokfmt.open(PACK) as dataset:
        assert len(dataset) == 42
        assert dataset[0].dtype == np.uint16
        assert [dataset[0].tolist(), dataset[-1].tolist()] == [lists[0], lists[-1]]
        assert dataset[5:8].tolist() == lists[5:8]
        assert dataset[40:99].tolist() == lists[40:]
        assert dataset[8:5].tolist() == []
        assert [s.tolist() for s in dataset] == lists
        assert [s.tolist() for batch in dataset.batches(100) for s in batch] == lists
        assert "modalities: 42 sequences" in repr(dataset)
        for wrong in (42, -43):
            with pytest.raises(IndexError):
                dataset[wrong]
        with pytest.raises(ValueError, match="step 1"):
            dataset[::2]


def test_open_with_and_without_a_separator():
    assert len(tokfmt.open(PACK, eos="none")[0]) == len(tokfmt.open(PACK)[0]) + 1
    with pytest.raises(SeparatorUnknownError, match="--eos ID"):
        tokfmt.open(FIXTURES / "hdf5" / "packed_overlap")
    samples = tokfmt.open(FIXTURES / "stage1" / "in.bin", options={"view": "samples"})
    assert {len(s) for s in samples} == {8192}


def test_open_text():
    with pytest.raises(OptionError, match="give tokenizer="):
        tokfmt.open(CORPUS)
    dataset = tokfmt.open(CORPUS, tokenizer=str(TOKENIZER))
    assert len(dataset) == len(CORPUS.read_bytes().splitlines())


def test_convert_says_what_it_did(tmp_path):
    done = tokfmt.convert(PACK, tmp_path / "o.zarr", to_options={"chunk": 64}, verify=True, jobs=2)
    assert (done.sequences, done.tokens, done.format) == (42, sum(map(len, documents())), "flat-tokens")
    assert tokfmt.open(tmp_path / "o.zarr")[:].tolist() == documents()


def test_formats():
    assert [f.name for f in tokfmt.formats()] == ["jsonl", "modalities", "stage1", "hdf5", "flat-tokens"]


def test_public_names_are_those_listed():
    assert set(dir(tokfmt)) == set(tokfmt.__all__)
    for name in tokfmt.__all__:
        assert getattr(tokfmt, name) is not None
    with pytest.raises(AttributeError):
        tokfmt.opne  # noqa: B018


def test_importing_the_package_imports_nothing_heavy():
    script = (
        "import sys, tokfmt; print([m for m in ('numpy', 'zarr', 'h5py', 'transformers', 'click') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "[]\n"
