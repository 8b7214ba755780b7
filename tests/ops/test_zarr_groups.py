"""Groups, arrays and stores of zarr are opened, and a group is the destination of a conversion."""

import shutil

import numpy as np
import pytest
import zarr
from paths import CORPUS, FIXTURES, TOKENIZER
from zarr.storage import LocalStore, MemoryStore, ZipStore

import tokfmt
from tokfmt.errors import CorruptError, DestinationExistsError, OptionError, TokenRangeError

pytestmark = pytest.mark.slow

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
STORE = FIXTURES / "flat-tokens" / "multi_chunk.zarr"
BARE = FIXTURES / "flat-tokens" / "multi_chunk_bare.zarr"


def documents(source, **words):
    with tokfmt.open(source, **words) as dataset:
        return [one.tolist() for one in dataset]


@pytest.fixture(params=[2, 3])
def group(request):
    return zarr.open_group(MemoryStore(), mode="w", zarr_format=request.param)


def test_a_group_of_a_local_store_is_the_dataset_at_its_path():
    wanted = documents(STORE)
    for node in (
        zarr.open_group(STORE, mode="r"),
        LocalStore(STORE, read_only=True),
        zarr.open_group(STORE, mode="r")["train"],
    ):
        with tokfmt.open(node) as dataset:
            assert dataset.format == "flat-tokens"
            assert [one.tolist() for one in dataset] == wanted


def test_a_conversion_into_a_group_holds_the_same_sequences(group):
    done = tokfmt.convert(PACK, group)
    assert (done.destination, done.format) == (str(group.store_path), "flat-tokens")
    assert documents(group) == documents(PACK)
    assert documents(group.store) == documents(PACK)
    assert (done.sequences, done.tokens) == (len(documents(PACK)), sum(map(len, documents(PACK))))
    assert group.attrs["max_token_id"] == max(max(one) for one in documents(PACK) if one)
    with tokfmt.open(group) as dataset:
        assert dataset[::3].tolist() == documents(PACK)[::3]


def test_the_arrays_of_a_group_are_those_of_the_store_that_tokfmt_writes(group, tmp_path):
    number = group.metadata.zarr_format
    tokfmt.convert(PACK, tmp_path / "x.zarr", to_options={"split": "none", "zarr_format": number, "chunk": 500})
    tokfmt.convert(PACK, group, to_options={"chunk": 500})
    ours = zarr.open_group(tmp_path / "x.zarr", mode="r")
    for name in ("encoded_tokens", "seq_starts"):
        assert ours[name][:].tolist() == group[name][:].tolist()
        assert (ours[name].chunks, ours[name].dtype) == (group[name].chunks, group[name].dtype)
        assert ours[name].compressors == group[name].compressors
        assert ours[name].filters == group[name].filters
    assert ours.attrs.asdict() == group.attrs.asdict()


def test_options_of_a_conversion_apply(group, tmp_path):
    tokfmt.convert(CORPUS, group, tokenizer=str(TOKENIZER), shuffle=3, verify=True)
    tokfmt.convert(CORPUS, tmp_path / "x.zarr", tokenizer=str(TOKENIZER), shuffle=3)
    assert documents(group) == documents(tmp_path / "x.zarr")
    tokfmt.convert(PACK, group.create_group("halves"), split="train=0.5,validation=0.5", seed=1)
    parts = [documents(group["halves"], options={"split": name}) for name in ("train", "validation")]
    assert sorted(parts[0] + parts[1]) == sorted(documents(PACK))


def test_a_group_is_not_replaced_unless_that_is_asked(group):
    tokfmt.convert(PACK, group)
    with pytest.raises(DestinationExistsError):
        tokfmt.convert(BARE, group)
    assert documents(group) == documents(PACK)
    tokfmt.convert(BARE, group, overwrite=True)
    assert documents(group) == documents(BARE)


def test_an_array_is_a_stream(group):
    array = group.create_array("ids", shape=(7,), dtype="uint16", chunks=(3,))
    array[:] = [5, 6, 0, 7, 0, 8, 9]
    assert documents(array, eos=0) == [[5, 6], [7], [8, 9]]
    with tokfmt.open(array) as dataset:
        assert [one.tolist() for one in dataset] == [[5, 6, 0, 7, 0, 8, 9]]
        assert "--eos ID" in dataset.notes[0]
    rows = group.create_array("rows", data=np.arange(12).reshape(4, 3), chunks=(3, 2))
    assert documents(rows) == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    with tokfmt.open(rows) as dataset:
        assert dataset.reader.tokens(2, 8).tolist() == [2, 3, 4, 5, 6, 7]


def test_an_array_of_a_local_store_is_the_dataset_at_its_path(tmp_path):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    array = group.create_array("ids", data=np.array([5, 6, 0, 7, 0]))
    group.create_array("ends", data=np.array([-1]))
    with tokfmt.open(array, eos=0) as dataset:
        assert (dataset.format, dataset[:].tolist()) == ("array", [[5, 6], [7]])
    with tokfmt.open(group, options={"member": "ids"}, eos="none") as dataset:
        assert dataset[:].tolist() == [[5, 6, 0, 7, 0]]


def test_a_zip_is_opened_by_its_path(tmp_path):
    store = ZipStore(shutil.make_archive(tmp_path / "x", "zip", BARE), mode="r")
    assert documents(store) == documents(BARE)
    store.close()


def test_what_is_wrong_is_said(group):
    with pytest.raises(OptionError, match="has no encoded_tokens"):
        tokfmt.open(group)
    floats = group.create_array("floats", shape=(3,), dtype="float64")
    with pytest.raises(OptionError, match="expected integers in 1 or 2 dimensions, found 1 dimensions of float64"):
        tokfmt.open(floats)
    signed = group.create_array("signed", data=np.array([5, -7]))
    with pytest.raises(CorruptError, match="has a negative ID: expected 0 or more, found -7"):
        documents(signed, eos="none")
    tokfmt.convert(PACK, group)
    with pytest.raises(OptionError, match="Open the group"):
        tokfmt.open(group["encoded_tokens"])
    with pytest.raises(OptionError, match="stores flat-tokens"):
        tokfmt.convert(PACK, group, to_format="hdf5", overwrite=True)
    kept = group["encoded_tokens"][7]
    group["encoded_tokens"][7] = kept ^ 1
    with pytest.raises(CorruptError, match="contradicts seq_starts at token 7"):
        documents(group)
    group["encoded_tokens"][7] = np.uint32(2**31)
    with pytest.raises(CorruptError):
        documents(group)
    group["encoded_tokens"][7] = kept
    group["seq_starts"][1] = 10**6
    with pytest.raises(CorruptError, match="does not rise"):
        tokfmt.open(group)


def test_what_fails_leaves_the_group_as_it_was(group, monkeypatch, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"input_ids": [1, 4294967295]}\n')
    with pytest.raises(TokenRangeError):
        tokfmt.convert(tmp_path / "x.jsonl", group)
    assert list(group.keys()) == []
    tokfmt.convert(PACK, group, dry_run=True)
    assert list(group.keys()) == []

    def failing(self, key, value):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zarr.Array, "__setitem__", failing)
    with pytest.raises(OSError, match="No space"):
        tokfmt.convert(PACK, group)
    assert list(group.keys()) == []
