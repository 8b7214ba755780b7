"""array under the laws of every format; the oracle is numpy.load and a split."""

import json
import pickle
import shutil
from contextlib import suppress

import h5py
import numpy as np
import pytest
import zarr
from amount import pairs

import tokfmt
from tokfmt.errors import TokfmtError
from tokfmt.formats.array import FORMAT
from tokfmt.testing import FormatContract


def ended(stream, eos):
    """Sequences that each end with the separator, empty ones too."""
    assert not stream or stream[-1] == eos
    found, held = [], []
    for token in stream:
        if token == eos:
            found.append(held)
            held = []
        else:
            held.append(token)
    return found


class TestFile(FormatContract):
    format = FORMAT
    filename = "x.npy"
    eos_id = 50256
    max_id = 2**32 - 1
    write_variants = ({}, {"dtype": "uint32"})

    def oracle(self, path, options):
        array = np.load(path, allow_pickle=False)
        assert array.ndim == 1
        assert array.dtype == options.get("dtype", array.dtype)
        return ended(array.tolist(), self.eos_id)


class TestSigned(TestFile):
    eos_id = 0
    max_id = 2**31 - 1
    write_variants = ({"dtype": "int32"}, {"dtype": "int64"})


class TestShards(FormatContract):
    """Documents run on across shards."""

    format = FORMAT
    filename = "arrays"
    sharded = {"shard_size": 1}
    eos_id = 0
    max_id = 2**32 - 1
    write_variants = ({"shard_size": 7},)
    long_options = {"shard_size": 1 << 20}

    def oracle(self, path, options):
        shards = sorted(path.iterdir())
        assert [p.name for p in shards] == [f"shard_{k:05d}.npy" for k in range(len(shards))]
        held = [np.load(p, allow_pickle=False).tolist() for p in shards]
        assert all(len(part) == 7 for part in held[:-1])
        return ended([t for part in held for t in part], self.eos_id)


class TestPair(FormatContract):
    format = FORMAT
    filename = "pair"
    eos_id = 50256
    max_id = 2**32 - 1
    write_variants = ({"boundaries": "cu_seqlens"},)
    long_options = {"boundaries": "cu_seqlens"}

    def oracle(self, path, options):
        assert sorted(p.name for p in path.iterdir()) == ["cu_seqlens.npy", "tokens.npy"]
        tokens, ends = (np.load(path / name, allow_pickle=False) for name in ("tokens.npy", "cu_seqlens.npy"))
        assert (ends.dtype, ends[0], ends[-1]) == (np.int64, 0, len(tokens))
        found = [tokens[a:b].tolist() for a, b in zip(ends, ends[1:])]
        assert all(one[-1] == self.eos_id for one in found if one)
        return [one[:-1] for one in found]


@pytest.mark.parametrize("dtype", ["<u2", "<i4", "<u8", ">u4", ">i8", "|u1"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_what_numpy_writes(tmp_path, dtype, version):
    array = np.array([5, 6, 0, 7, 0], dtype)
    with open(tmp_path / "x.npy", "wb") as out:
        np.lib.format.write_array(out, array, version)
    with tokfmt.open(tmp_path / "x.npy", eos=0) as dataset:
        assert dataset.format == "array"
        assert [one.tolist() for one in dataset] == [[5, 6], [7]]
    with tokfmt.open(tmp_path / "x.npy", eos=5, options={"side": "before"}) as dataset:
        assert [one.tolist() for one in dataset] == [[6, 0, 7, 0]]


def test_written_bytes_are_those_of_numpy(tmp_path):
    source, out = tmp_path / "x.jsonl", tmp_path / "x.npy"
    source.write_text('{"input_ids": [1, 2]}\n{"input_ids": [3]}\n')
    tokfmt.convert(source, out, eos=0, to_format="array")
    np.save(tmp_path / "y.npy", np.array([1, 2, 0, 3, 0], "<u2"))
    assert out.read_bytes() == (tmp_path / "y.npy").read_bytes()


@pytest.mark.parametrize("overlap", [0, 1, 3])
def test_rows(tmp_path, overlap):
    """Rows are samples, or one stream; what each repeats of the row before is then read once, from any position."""
    stream = np.arange(1, 400, dtype="<u4")
    row, step = 17, 17 - overlap
    rows = np.stack([stream[at : at + row] for at in range(0, len(stream) - row, step)])
    np.save(tmp_path / "x.npy", rows)
    with tokfmt.open(tmp_path / "x.npy") as dataset:
        assert dataset[:].tolist() == rows.tolist()
        assert any("--from-opt overlap=1" in note for note in dataset.info.notes) == (overlap == 1)
    options = {"view": "documents", "overlap": overlap}
    with tokfmt.open(tmp_path / "x.npy", options=options, eos="none") as dataset:
        whole = stream[: step * (len(rows) - 1) + row]
        assert dataset[0].tolist() == whole.tolist()
        source = dataset.reader
        for a in range(0, len(whole), 5):
            for b in (a, a + 1, a + 16, a + 40, len(whole)):
                assert source.tokens(a, min(b, len(whole))).tolist() == whole[a:b].tolist()
            byte = source.locate(a)
            raw = (tmp_path / "x.npy").read_bytes()
            assert int.from_bytes(raw[byte.offset : byte.offset + 4], "little") == whole[a]
            assert source.find(byte.path, byte.offset) == a


def test_rows_of_a_recipe_are_rows(tmp_path):
    source, out = tmp_path / "x.jsonl", tmp_path / "x.npy"
    source.write_text("".join(f'{{"input_ids": [{k}, {k + 1}, {k + 2}]}}\n' for k in range(1, 30)))
    (tmp_path / "x.toml").write_text(
        'tokfmt = 1\nseq_len = 8\nto_eos = 0\nlabels = "same"\n[[source]]\npath = "x.jsonl"\n'
    )
    with tokfmt.open(tmp_path / "x.toml") as mixed:
        expected = [one["input_ids"].tolist() for one in mixed]
    tokfmt.convert(tmp_path / "x.toml", out, to_format="array")
    rows = np.load(out, allow_pickle=False)
    assert rows.shape == (len(expected), 8)
    assert rows.tolist() == expected
    with tokfmt.open(out) as dataset:
        assert dataset[:].tolist() == expected


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_archives(tmp_path, save):
    """The array that is read is stated, and arr_10 comes after arr_9."""
    documents = [list(range(k, k + k % 4)) for k in range(1, 14)]
    save(tmp_path / "many.npz", *(np.array(one, "<u2") for one in documents))
    with tokfmt.open(tmp_path / "many.npz", eos="none") as dataset:
        assert dataset[:].tolist() == documents
    ends = np.cumsum([0, *map(len, documents)])
    flat = np.concatenate([np.array(one, "<i8") for one in documents])
    for name, bounds in (("cu_seqlens", ends), ("offsets", ends), ("lengths", np.diff(ends))):
        save(tmp_path / f"{name}.npz", tokens=flat, **{name: bounds})
        with tokfmt.open(tmp_path / f"{name}.npz", eos="none") as dataset:
            assert dataset[:].tolist() == documents
            assert dataset.info.extras["boundaries"] == name
    save(tmp_path / "named.npz", a=flat, b=flat[:5])
    with pytest.raises(TokfmtError, match="holds several arrays.*found a, b.*member=a"):
        tokfmt.open(tmp_path / "named.npz")
    with tokfmt.open(tmp_path / "named.npz", options={"member": "b"}, eos="none") as dataset:
        assert dataset[:].tolist() == [flat[:5].tolist()]
    save(tmp_path / "rows.npz", flat, np.ones((2, 3), int))
    with pytest.raises(TokfmtError, match="arr_1 has rows, and is one of several.*found arr_0, arr_1.*member=arr_1"):
        tokfmt.open(tmp_path / "rows.npz")
    (finding,) = tokfmt.check(damaged(tmp_path / "many.npz"), deep=True)[0].findings
    assert (finding.code, finding.severity) == ("TF791", "error")


def test_files_of_one_dataset_are_of_one_kind(tmp_path):
    """Documents of one file and a stream of another would run into each other."""
    kinds = {"documents": [0, 1, 4], "stream": None, "rows": None, "long": None}
    for name, ends in kinds.items():
        ids = np.arange(1, 5).reshape({"rows": (2, 2), "long": (1, 4)}.get(name, -1))
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["tokens"] = ids
            if ends is not None:
                file["offsets"] = ends
    for first in kinds:
        for second in kinds.keys() - {first}:
            home = tmp_path / f"{first} and {second}"
            home.mkdir()
            for number, name in enumerate((first, second)):
                shutil.copy(tmp_path / f"{name}.h5", home / f"{number}.h5")
            with pytest.raises(TokfmtError, match=r"1\.h5: is not read as 0\.h5 is: expected "):
                tokfmt.open(home, format="array", eos="none")


@pytest.mark.parametrize("tokens", ["tokens", "input_ids"])
@pytest.mark.parametrize("name", ["cu_seqlens", "offsets", "lengths"])
def test_arrays_of_a_folder(tmp_path, tokens, name):
    """One states the boundaries; others, such as labels, are never read as tokens. Numbered ones are."""
    documents = [[5, 6, 7], [], [8]]
    ends = np.cumsum([0, *map(len, documents)])
    flat = np.concatenate([np.array(one, "<i8") for one in documents])
    np.save(tmp_path / f"{tokens}.npy", flat)
    np.save(tmp_path / "labels.npy", flat + 90)
    with pytest.raises(TokfmtError, match="holds another file, labels.npy.*--allow-loss other-files"):
        tokfmt.open(tmp_path)
    how = {"eos": "none", "allow_loss": "other-files"}
    with tokfmt.open(tmp_path, **how) as dataset:
        assert dataset[:].tolist() == [flat.tolist()]
    np.save(tmp_path / f"{name}.npy", ends if name != "lengths" else np.diff(ends))
    with tokfmt.open(tmp_path, **how) as dataset:
        assert dataset[:].tolist() == documents
    if name == "lengths":
        return
    for bounds, some in (("ends", ends[1:]), ("starts", ends[:-1])):
        np.save(tmp_path / f"{name}.npy", some)
        with pytest.raises(TokfmtError, match=f"--from-opt bounds={bounds} reads them"):
            tokfmt.open(tmp_path, **how)
        with tokfmt.open(tmp_path, **how, options={"bounds": bounds}) as dataset:
            assert dataset[:].tolist() == documents
    np.save(tmp_path / f"{tokens}_1.npy", flat)
    (tmp_path / f"{name}.npy").unlink()
    (tmp_path / "labels.npy").unlink()
    with tokfmt.open(tmp_path, **how) as dataset:
        assert dataset[:].tolist() == [[*flat, *flat]]


def test_sentences_of_paddlenlp(tmp_path):
    """An index of sentences states documents, by either file, in a folder, and of sentences alone; all of it agrees."""
    documents = [[[5, 6], [7]], [[8, 9, 10]], [[11], [12], [13, 2]]]
    flat = [[token for sentence in document for token in sentence] for document in documents]
    sentences = [sentence for document in documents for sentence in document]
    lens = np.array([len(sentence) for sentence in sentences], "i4")
    index = {"lens": lens, "sents": np.cumsum([0, *lens]), "docs": np.cumsum([0, *map(len, documents)])}
    np.save(tmp_path / "x_ids.npy", np.concatenate(flat).astype("u2"))
    np.savez(tmp_path / "x_idx.npz", **index)
    for path in (tmp_path / "x_ids.npy", tmp_path / "x_idx.npz", tmp_path):
        with tokfmt.open(path, eos="none") as dataset:
            assert dataset[:].tolist() == flat
            assert dataset.info.inner[0].sequences == 6
    with tokfmt.open(tmp_path, eos="none", options={"unit": "sequences"}) as dataset:
        assert dataset[:].tolist() == sentences
    np.savez(tmp_path / "x_idx.npz", lens=lens)
    with tokfmt.open(tmp_path, eos="none") as dataset:
        assert dataset[:].tolist() == sentences
        assert not dataset.info.inner
    wrong = {
        "negative length": {"lens": -lens},
        "tokens of all sentences in lens: expected 10, found 6": {"lens": lens[:3]},
        "tokens up to the last end in sents": {"sents": index["sents"][:-1]},
        "sentences up to the last end in docs: expected 6, found 3": {"docs": np.array([0, 3])},
        "dimensions of docs: expected 1, found 2": {"docs": np.zeros((2, 2), int)},
    }
    for reason, change in wrong.items():
        np.savez(tmp_path / "x_idx.npz", **{**index, **change})
        with pytest.raises(TokfmtError, match=reason):
            tokfmt.open(tmp_path)


def damaged(path):
    """Flip a bit of the last array of an archive."""
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"PK\1\2")
    first = raw.index(b"PK\1\2")
    raw[first - 3] ^= 1
    assert at > first
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("shape", ["(9-)", "(9 9,)", "(9e1,)", "(" + "9" * 30 + ",)"])
def test_a_shape_that_is_not_of_numbers(shape, tmp_path):
    head = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\0" + len(head).to_bytes(2, "little") + head + bytes(72))
    with pytest.raises(TokfmtError, match="header at byte 10"):
        tokfmt.open(tmp_path / "x.npy")
    assert [one.severity for one in tokfmt.check(tmp_path / "x.npy")[0].findings] == ["error"]


def test_bare_integers(tmp_path):
    """Options state what the file does not: width, order, header and rows."""
    ids = [7, 8, 9, 0, 5, 0]
    (tmp_path / "x.dat").write_bytes(b"abc" + np.array(ids, ">u4").tobytes())
    options = {"bare": "uint32", "order": "big", "header": 3}
    with tokfmt.open(tmp_path / "x.dat", format="array", options=options, eos=0) as dataset:
        assert dataset[:].tolist() == [[7, 8, 9], [5]]
    with tokfmt.open(tmp_path / "x.dat", format="array", options={**options, "row": 3}) as dataset:
        assert dataset[:].tolist() == [ids[:3], ids[3:]]
    with pytest.raises(TokfmtError, match="its last row has 2 of 4 tokens"):
        tokfmt.open(tmp_path / "x.dat", format="array", options={**options, "row": 4})
    with pytest.raises(TokfmtError, match="a size that is 5 bytes and a multiple of 8"):
        tokfmt.open(tmp_path / "x.dat", format="array", options={**options, "bare": "int64", "header": 5})


def test_zeros_that_fill_a_file_of_tatm(tmp_path):
    """Few zeros may be tokens: the user says."""
    home = tmp_path / "wiki"
    home.mkdir()
    (home / "metadata.yaml").write_text("name: x\ntokenized_info:\n  dtype: uint16\n  file_prefix: /a/b/w\n")
    np.array([1, 2, 3, *[0] * 9], "<u2").tofile(home / "w_2.bin")
    np.array([4, 5, 0, 0], "<u2").tofile(home / "w_10.bin")
    with pytest.raises(TokfmtError, match="w_10.bin: ends with 2 zeros.*fill=drop or fill=keep"):
        tokfmt.open(home)
    for fill, expected in (("drop", [1, 2, 3, 4, 5]), ("keep", [1, 2, 3, *[0] * 9, 4, 5, 0, 0])):
        with tokfmt.open(home, options={"fill": fill}, eos="none") as dataset:
            assert dataset[:].tolist() == [expected]


@pytest.mark.parametrize("dtype", ["<i4", ">u2", "<u8", "|u1"])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"chunks": True},
        {"chunks": True, "compression": "gzip", "shuffle": True},
        {"chunks": True, "compression": "gzip", "fletcher32": True},
    ],
    ids=["contiguous", "chunks", "gzip", "checksums"],
)
def test_hdf5_datasets_of_any_name(tmp_path, dtype, libver, how):
    """Rows, a stream and documents, whatever is beside them; each value as h5py reads it, from any position."""
    rows, path = np.arange(1, 211).astype(dtype).reshape(30, 7), tmp_path / "x.h5"
    cut = {**how, "chunks": (4, 3)} if how else {}
    flat = {**how, "chunks": (16,)} if how else {}
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("rows", data=rows, **cut)
        file.create_dataset("tokens", data=rows.reshape(-1), **flat)
        file.create_dataset("lengths", data=[100, 0, 110])
        file["weights"] = np.ones(3)
    with tokfmt.open(path, options={"member": "rows"}) as dataset:
        assert dataset[:].tolist() == rows.tolist()
    with tokfmt.open(path, eos="none") as dataset:
        assert [len(one) for one in dataset] == [100, 0, 110]
        intervals_are_those_of(dataset.reader, rows.reshape(-1).tolist())
        places_are_those_of(dataset, path, plain=not how.keys() & {"compression"})
        assert any("other arrays are not read: rows" in note for note in dataset.info.notes)


def test_the_only_dataset_of_integers_of_an_hdf5_file_is_read(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["ids"], file["weights"], file["text"] = [5, 6, 0, 7, 0], [0.5], "text"
        file["cube"] = np.zeros((2, 2, 2), int)
    with tokfmt.open(tmp_path / "x.h5", format="array", eos=0) as dataset:
        assert [one.tolist() for one in dataset] == [[5, 6], [7]]
    with tokfmt.open(tmp_path / "x.h5", eos=0) as dataset:
        assert dataset.format == "array"
    with pytest.raises(TokfmtError, match="holds no dataset .data.*--from array reads datasets of other names"):
        tokfmt.open(tmp_path / "x.h5", format="hdf5")


def test_hdf5_datasets_in_groups(tmp_path):
    """A group that links to one above it does not end; boundaries are those of the group."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for split, ids in (("train", [5, 6, 7]), ("test", [8])):
            file[f"{split}/tokens"], file[f"{split}/lengths"] = ids, [len(ids) - 1, 1]
        file["lengths"], file["train/again"] = [1], file["/"]
    with pytest.raises(TokfmtError, match="several datasets.*found lengths, .*--from-opt member=test/tokens reads"):
        tokfmt.open(tmp_path / "x.h5")
    with tokfmt.open(tmp_path / "x.h5", options={"member": "train/tokens"}, eos="none") as dataset:
        assert dataset[:].tolist() == [[5, 6], [7]]
        assert dataset.info.extras["array"] == "train/tokens"
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["images"], file["group/text"], file["w"] = np.zeros((2, 3, 3), "u1"), "text", [0.5]
    says = r"holds no dataset of integers.*found group \(group\), group/text \(1 text\), images \(2 x 3 x 3 uint8\), w"
    with pytest.raises(TokfmtError, match=says):
        tokfmt.open(tmp_path / "y.h5")


def test_hdf5_files_of_a_folder(tmp_path):
    """They are one stream, in natural order. With a dataset data, they are those of Cerebras."""
    for number, ids in ((2, [5, 0]), (10, [7, 0]), (9, [6])):
        with h5py.File(tmp_path / f"part{number}.h5", "w") as file:
            file["ids"] = ids
    with tokfmt.open(tmp_path, eos=0) as dataset:
        assert dataset[:].tolist() == [[5], [6, 7]]
    with h5py.File(tmp_path / "part2.h5", "a") as file:
        file["data"] = [1]
    with tokfmt.open(tmp_path / "part2.h5", eos=0) as dataset:
        assert dataset.format == "hdf5"


def test_hdf5_datasets_that_are_not_read_have_a_reason(tmp_path):
    outside = tmp_path / "outside.h5"
    with h5py.File(outside, "w") as file:
        file["secret"] = [1, 2, 3]
    layout = h5py.VirtualLayout((3,), "i8")
    layout[:] = h5py.VirtualSource(outside, "secret", (3,))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"], file["b"], file["float"], file["cube"] = [1], [2], [0.5], np.zeros((2, 2, 2), int)
        file.create_dataset("lzf", data=[1] * 99, compression="lzf")
        file["group/inside"] = [1]
        file["external"], file["soft"] = h5py.ExternalLink(outside, "secret"), h5py.SoftLink("/a")
        file["folder"] = h5py.ExternalLink(outside, "/")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("huge", (1 << 40,), "i8", chunks=(1 << 20,), compression="gzip")
        file.create_dataset("unwritten", (1 << 40,), "i8")
        file.create_dataset("wide", (1, 1 << 24), "i8", chunks=(1, 16), compression="gzip")
    reasons = {
        None: r"several datasets of integers.*found a, b.*member=a reads one",
        "c": "has no dataset c",
        "float": "'float' does not hold integers.*found floats",
        "cube": "'cube' has 3 dimensions",
        "lzf": "'lzf' is stored with the filter lzf.*compression='gzip'",
        "group": "'group' is not a dataset",
        "group/none": "has no dataset group/none",
        "folder/secret": "has no dataset folder/secret",
        "external": "'external' is a soft or external link",
        "soft": "'soft' is a soft or external link",
        "virtual": "'virtual' is a virtual dataset",
        "huge": "'huge' claims more",
        "unwritten": "'unwritten' was never written",
        "wide": "'wide' claims more",
    }
    for member, reason in reasons.items():
        options = {"member": member} if member else {}
        with pytest.raises(TokfmtError, match=reason):
            tokfmt.open(tmp_path / "x.h5", format="array", options=options)


def test_an_hdf5_file_that_was_cut_is_not_read(tmp_path):
    """Whatever the place of the cut, and whichever byte is damaged: an error of tokfmt, or the values."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("tokens", data=np.arange(600).reshape(30, 20), chunks=(8, 7), compression="gzip")
    content = path.read_bytes()
    for end in range(0, len(content), len(content) // 40):
        path.write_bytes(content[:end])
        with pytest.raises(TokfmtError):
            tokfmt.open(path, format="array")
    for at in range(0, len(content), 67):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        with suppress(TokfmtError), tokfmt.open(path, format="array") as dataset:
            dataset[:]


PLAIN = {"compressors": None}


@pytest.mark.parametrize(
    ("dtype", "stored"),
    pairs(
        ["i4", "i8", "u2", ">u4", "u1"],
        [(2, {}), (2, PLAIN), (3, {}), (3, PLAIN), (3, {"shards": 2}), (3, {"shards": 3, **PLAIN})],
    ),
)
def test_zarr_arrays_of_any_name(tmp_path, dtype, stored):
    """Rows, a stream and documents, whatever is beside them; each value as zarr reads it, from any position."""
    rows, path, (version, how) = np.arange(1, 211).astype(dtype).reshape(30, 7), tmp_path / "x.zarr", stored
    group = zarr.open_group(path, mode="w", zarr_format=version)

    def add(name, data, chunks):
        shards = {"shards": tuple(n * how["shards"] for n in chunks)} if "shards" in how else {}
        group.create_array(name, data=data, chunks=chunks, **{**how, **shards})

    add("rows", rows, (4, 3))
    add("tokens", rows.reshape(-1), (16,))
    add("lengths", np.array([100, 0, 110]), (2,))
    add("weights", np.ones(3), (3,))
    with tokfmt.open(path, options={"member": "rows"}) as dataset:
        assert dataset[:].tolist() == group["rows"][:].tolist() == rows.tolist()
        places_are_those_of(dataset, path, plain="compressors" in how)
    with tokfmt.open(path, eos="none") as dataset:
        assert dataset.format == "array"
        assert [len(one) for one in dataset] == [100, 0, 110]
        intervals_are_those_of(dataset.reader, rows.reshape(-1).tolist())
        places_are_those_of(dataset, path, plain="compressors" in how)
        assert any("other arrays are not read: rows" in note for note in dataset.info.notes)
    assert not tokfmt.check(path, deep=True)[0].findings


def intervals_are_those_of(reader, tokens):
    """Any interval of tokens is read, also after pickling."""
    count = len(tokens)
    for a in range(0, count, 13):
        for b in {a, a + 1, min(a + 40, count), count}:
            assert reader.tokens(a, b).tolist() == tokens[a:b]
    assert pickle.loads(pickle.dumps(reader)).tokens(0, count).tolist() == tokens


def places_are_those_of(dataset, path, *, plain):
    """Each token is at its byte offset, or in the chunk that begins there."""
    for position in range(0, dataset.info.tokens, 11):
        at = dataset.reader.locate(position)
        (wanted,) = dataset.reader.tokens(position, position + 1).tolist()
        found = dataset.reader.find(at.path, at.offset)
        if plain:
            raw = at.path.read_bytes()[at.offset : at.offset + at.width]
            assert wanted in (int.from_bytes(raw, "little"), int.from_bytes(raw, "big"))
            assert found == position
        else:
            assert at.width is None
            assert found <= position


@pytest.mark.parametrize("version", [2, 3])
def test_stores_of_zarr(tmp_path, version):
    """An array is a store, a zip holds one, groups are in groups; what is to be read is unique, or an option."""
    ids, home = np.array([5, 6, 0, 7, 0], "i8"), tmp_path / "x"
    zarr.create_array(home, data=ids, zarr_format=version)
    with tokfmt.open(home, eos=0) as dataset:
        assert [one.tolist() for one in dataset] == [[5, 6], [7]]
        assert dataset.info.extras["zarr_format"] == version
    with zarr.storage.ZipStore(tmp_path / "x.zip", mode="w") as store:
        group = zarr.open_group(store, mode="w", zarr_format=version)
        group.create_array("input_ids", data=ids, chunks=(3,))
        group.create_array("cu_seqlens", data=np.array([0, 2, 5]))
    with tokfmt.open(tmp_path / "x.zip", eos="none") as dataset:
        assert dataset[:].tolist() == [[5, 6], [0, 7, 0]]
    group = zarr.open_group(tmp_path / "splits", mode="w", zarr_format=version)
    for name, ends in (("train", [0, 3, 5]), ("test", [0, 5])):
        group.create_group(name).create_array("tokens", data=ids)
        group[name].create_array("offsets", data=np.array(ends))
    with pytest.raises(
        TokfmtError, match="several arrays.*found test/offsets, test/tokens, .*member=test/tokens reads"
    ):
        tokfmt.open(tmp_path / "splits")
    with tokfmt.open(tmp_path / "splits", options={"member": "train/tokens"}, eos="none") as dataset:
        assert dataset[:].tolist() == [[5, 6, 0], [7, 0]]


@pytest.mark.parametrize("version", [2, 3])
def test_chunks_of_zarr_that_are_not_there(tmp_path, version):
    """zarr writes no chunk that holds only the fill value; a lost one looks the same, so it is the user who says."""
    rows = np.arange(1, 81, dtype="i4").reshape(8, 10)
    rows[:4, 5:] = -1
    zarr.create_array(tmp_path / "x.zarr", data=rows, chunks=(4, 5), zarr_format=version, fill_value=-1)
    (finding,) = tokfmt.check(tmp_path / "x.zarr")[0].findings
    assert (finding.code, finding.severity) == ("TF796", "error")
    with pytest.raises(TokfmtError, match="1 of 4 chunks of x.zarr is not there.*holes=fill reads them as -1"):
        tokfmt.open(tmp_path / "x.zarr")
    options = {"holes": "fill"}
    with tokfmt.open(tmp_path / "x.zarr", options=options) as dataset:
        assert dataset[4:].tolist() == rows[4:].tolist()
        with pytest.raises(TokfmtError, match="has a negative ID.*found -1"):
            dataset[0]
    with tokfmt.open(tmp_path / "x.zarr", allow_partial=True) as dataset:
        assert dataset[:].tolist() == rows[4:].tolist()


def test_zarr_arrays_that_are_not_read_have_a_reason(tmp_path):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=2)
    for name in ("a", "b"):
        group.create_array(name, data=np.array([1]))
    group["float"], group["cube"] = np.ones(3), np.zeros((2, 2, 2), int)
    group.create_array("columns", data=np.ones((4, 4), int), order="F")
    changes = {
        "code": {"compressor": {"id": "pickle"}},
        "filter": {"filters": [{"id": "pickle"}]},
        "huge": {"shape": [1 << 50]},
        "deep": {"shape": [1 << 60, 1 << 60], "chunks": [1, 1]},
        "wide": {"shape": [1, 1 << 30], "chunks": [1, 1 << 10]},
        "padded": {"shape": [1, 1000], "chunks": [1 << 24, 1]},
        "chunky": {"chunks": [1 << 40]},
        "negative": {"shape": [-1]},
        "text": {"shape": "1"},
        "zero": {"chunks": [0]},
    }
    for name, change in changes.items():
        group.create_array(name, data=np.array([1]))
        metadata = tmp_path / "x.zarr" / name / ".zarray"
        metadata.write_text(json.dumps({**json.loads(metadata.read_text()), **change}))
    reasons = {
        "c": "has no array c",
        "float": "float does not hold token IDs.*found 3 <f8",
        "cube": "cube does not hold token IDs.*found 2 x 2 x 2 <i8",
        "columns": "stores its chunks column by column.*order='C'",
        "code": "has a compressor that tokfmt does not read",
        "filter": "has filters that tokfmt does not read",
        "huge": "declares 1,125,899,906,842,624 items of huge, but almost all",
        "deep": "declares more items than a disk holds",
        "wide": "has rows that are too large to read",
        "padded": "has chunks that are almost all padding",
        "chunky": "has chunks that are too large",
        "negative": "wrong value of shape",
        "text": "text does not hold token IDs",
        "zero": "wrong value of chunks",
    }
    for member, reason in reasons.items():
        with pytest.raises(TokfmtError, match=reason):
            tokfmt.open(tmp_path / "x.zarr", options={"member": member})
    group = zarr.open_group(tmp_path / "y.zarr", mode="w")
    group["images"] = np.zeros((2, 3, 3), "u1")
    (tmp_path / "link.zarr").mkdir()
    (tmp_path / "link.zarr/.zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "link.zarr/tokens").symlink_to(tmp_path / "x.zarr/a")
    with pytest.raises(TokfmtError, match="is a symbolic link that leaves the store"):
        tokfmt.open(tmp_path / "link.zarr")
    with pytest.raises(TokfmtError, match=r"holds no array of integers.*found images \(2 x 3 x 3 uint8\)"):
        tokfmt.open(tmp_path / "y.zarr")


@pytest.mark.parametrize("version", [2, 3])
def test_a_zarr_store_that_was_damaged_is_not_read(tmp_path, version):
    """Whichever byte of a store is damaged: an error of tokfmt, or the values."""
    home = tmp_path / "x.zarr"
    group = zarr.open_group(home, mode="w", zarr_format=version)
    group.create_array("tokens", data=np.arange(600), chunks=(256,), **({"shards": (512,)} if version == 3 else {}))
    group.create_array("offsets", data=np.array([0, 200, 600]))
    for path in [path for path in home.rglob("*") if path.is_file()]:
        content = path.read_bytes()
        step = max(1, len(content) // 9)
        for damaged_bytes in [
            *(content[:end] for end in range(0, len(content), step)),
            *(content[:at] + bytes([content[at] ^ 0x15]) + content[at + 1 :] for at in range(0, len(content), step)),
        ]:
            path.write_bytes(damaged_bytes)
            with suppress(TokfmtError), tokfmt.open(home, format="array", eos="none") as dataset:
                dataset[:]
        path.write_bytes(content)


def test_a_group_of_flat_tokens_is_not_an_array(tmp_path):
    """Both may hold tokens. Only flat tokens state their bound."""
    group = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=2)
    group["tokens"] = np.array([5, 6])
    with tokfmt.open(tmp_path / "x.zarr", eos="none") as dataset:
        assert (dataset.format, dataset[:].tolist()) == ("array", [[5, 6]])
    group.attrs["max_token_id"] = 3
    with pytest.raises(TokfmtError, match="holds an array tokens, the name in the documentation's example"):
        tokfmt.open(tmp_path / "x.zarr")
