"""`check --fix`: what is certain is repaired, exactly; what is not is refused, and nothing is written."""

import json
import os
import pickle
import shutil
import struct
from pathlib import Path

import closed
import h5py
import numpy as np
import pytest
import zarr
from amount import FUZZ_ONLY, first
from check_cases import CASES, asked, documents, flat, pack
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.commands.check import check
from tokfmt.commands.check.fix import fix, repairable
from tokfmt.errors import (
    ConversionError,
    DestinationExistsError,
    LossyConversionError,
    SeparatorUnknownError,
    TokfmtError,
)

BAD = FIXTURES / "bad"
PACKS = json.loads((FIXTURES / "modalities/expected.json").read_bytes())
MERGED = sorted(p.name for p in (FIXTURES / "modalities").glob("E_*.pbin"))


def fixed(path, out, **demands):
    request = asked(path, **demands)
    (verdict,) = check(request)
    return fix(verdict, out, request)


def clean(path):
    (verdict,) = check(asked(path, deep=True))
    return verdict.counts.keys() <= {"TF121", "TF324", "TF418", "TF517", "TF509"}


def documents_of(path):
    """The documents of a pack of layout D, by its own offsets; struct and pickle only."""
    raw = Path(path).read_bytes()
    length, width = struct.unpack_from("<QI", raw)
    index = pickle.loads(raw[12 + length :])
    assert [a for a, _ in index] == np.cumsum([0, *(n for _, n in index)])[: len(index)].tolist()
    return [np.frombuffer(raw, f"<u{width}", n // width, 12 + a).tolist() for a, n in index]


@pytest.mark.parametrize("name", MERGED)
def test_merged_packs(name, tmp_path):
    source = FIXTURES / "modalities" / name
    result = fixed(source, tmp_path / "x.pbin")
    if not result.destination:  # the shifts of this one cancel each other
        assert name == "E_mixed_D_then_C_2byte.pbin"
        return
    assert documents_of(tmp_path / "x.pbin") == PACKS["doc_sets"][PACKS["pbin"][name]["documents"]]
    assert clean(tmp_path / "x.pbin")
    assert "the index was written again from the lengths of the documents" in result.done.values()
    assert json.loads((tmp_path / "x.pbin.tokfmt.json").read_bytes())["sources"][0]["path"] == str(source)


@pytest.mark.parametrize(
    "name", ["A_4byte_gpt2", "A_1byte_byte256", "B_2byte_gpt2", "C_2byte_gpt2", "D_3byte_wide",
             "wild_branch_only_A_broken_offsets_6bcc334f", "wild_branch_only_A_len_plus1_b8211997",
             "wild_branch_only_P1_header4_index_from_1", "wild_branch_only_P2_header4_len_plus3"],
)  # fmt: skip
def test_old_packs(name, tmp_path):
    fixed(FIXTURES / f"modalities/{name}.pbin", tmp_path / "x.pbin")
    expected = PACKS["pbin"][f"{name}.pbin"]
    assert documents_of(tmp_path / "x.pbin") == PACKS["doc_sets"][expected["documents"]]
    assert clean(tmp_path / "x.pbin")


def test_documents_without_separator_stay_so(tmp_path):
    """The repair adds nothing to documents, whatever ends them."""
    docs = [d[: -1 if k % 3 else None] for k, d in enumerate(documents(9))]
    raw = bytearray(pack(tmp_path / "x.pbin", docs).read_bytes())
    raw[:8] = bytes(8)
    (tmp_path / "x.pbin").write_bytes(raw)
    assert fixed(tmp_path / "x.pbin", tmp_path / "y.pbin").done.keys() == {"TF105"}
    assert documents_of(tmp_path / "y.pbin") == docs


def test_n_examples(tmp_path):
    for name in ("control_no_n_examples", "examples_too_few", "examples_too_many", "examples_negative"):
        source = BAD / f"hdf5/{name}.h5"
        out = tmp_path / f"{name}.h5"
        assert fixed(source, out).done.keys() == {"TF308"}
        with h5py.File(source) as before, h5py.File(out) as after:
            assert after.attrs["n_examples"] == len(before["data"])
            assert np.array_equal(before["data"][:], after["data"][:])
            assert before["data"].chunks == after["data"].chunks


def test_n_examples_in_a_directory(tmp_path):
    shutil.copytree(FIXTURES / "hdf5/packed_overlap", tmp_path / "x")
    with h5py.File(tmp_path / "x/examples_1_0.h5", "r+") as file:
        file.attrs["n_examples"] = 3
    fixed(tmp_path / "x", tmp_path / "y")
    for name in sorted(p.name for p in (FIXTURES / "hdf5/packed_overlap").iterdir()):
        with h5py.File(FIXTURES / "hdf5/packed_overlap" / name) as before, h5py.File(tmp_path / "y" / name) as after:
            assert dict(before.attrs) == dict(after.attrs)
    with h5py.File(tmp_path / "x/examples_1_0.h5") as file:
        assert file.attrs["n_examples"] == 3


def items(path, split="train"):
    group = zarr.open_group(path, mode="r", use_consolidated=False)[split]
    return group["encoded_tokens"][:].tolist(), group["seq_starts"][:].tolist(), group.attrs["max_token_id"]


@pytest.mark.parametrize("codec", first(2, ["blosc", "none", "zstd", "gzip"]))
def test_start_bits(codec, tmp_path):
    """Chunks with wrong bits are encoded again; the other split and every other chunk stay as they are."""
    path = flat(tmp_path, [[1, 2], [], [3, 4, 5], [9]], chunk=2, codec=codec)
    shutil.copytree(path / "train", path / "validation")
    good = items(path)
    encoded = zarr.open_array(path / "train/encoded_tokens", mode="r+")
    encoded[2] = encoded[2] & ~np.uint32(1)
    encoded[3] = encoded[3] | np.uint32(1)
    untouched = {
        p: p.read_bytes() for p in path.rglob("*") if p.is_file() and p.parts[-3:-1] != ("train", "encoded_tokens")
    }
    assert fixed(path, tmp_path / "y.zarr").done.keys() == {"TF405"}
    assert items(tmp_path / "y.zarr") == good
    assert clean(tmp_path / "y.zarr")
    assert all((tmp_path / "y.zarr" / p.relative_to(path)).read_bytes() == content for p, content in untouched.items())


@pytest.mark.parametrize("bound", ["{}", '{"max_token_id": 9.5}', '{"max_token_id": 99, "other": [1]}'])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_bound(bound, zarr_format, tmp_path):
    path = flat(tmp_path, [[1, 2], [], [3, 4, 9]], zarr_format=zarr_format)
    place = path / "train" / (".zattrs" if zarr_format == 2 else "zarr.json")
    told = json.loads(bound)
    if zarr_format == 3:
        told = {**json.loads(place.read_bytes()), "attributes": told}
    place.write_text(json.dumps(told))
    fixed(path, tmp_path / "y.zarr")
    assert items(tmp_path / "y.zarr")[2] == 9
    if "other" in bound:
        assert zarr.open_group(tmp_path / "y.zarr", mode="r")["train"].attrs["other"] == [1]


@pytest.mark.parametrize("name", ["index_of_another", "index_cut", "index_shifted", "index_global"])
def test_raw_index(name, tmp_path):
    source = BAD / f"jsonl/{name}.jsonl"
    if name == "index_global":
        with pytest.raises(ConversionError, match="TF516"):
            fixed(source, tmp_path / "x.jsonl")
        return
    fixed(source, tmp_path / "x.jsonl")
    text = (tmp_path / "x.jsonl").read_bytes()
    assert text == source.read_bytes()
    starts = np.cumsum([0, *(len(line) for line in text.splitlines(keepends=True))]).tolist()
    expected = [(a, len(line)) for a, line in zip(starts, text.splitlines(), strict=False)]
    assert pickle.loads((tmp_path / "x.idx").read_bytes()) == expected
    assert clean(tmp_path / "x.jsonl")


def test_marks_and_line_ends(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "a"}\r\n{"text": "b"}\n{"text": "c"}')
    assert fixed(tmp_path / "x.jsonl", tmp_path / "y.jsonl").done.keys() == {"TF507", "TF508"}
    assert (tmp_path / "y.jsonl").read_bytes() == b'{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n'


TWICE = [[5, 6, 17 + number, 3, 9, 9] for number in range(12)]
TWICE[2], TWICE[7], TWICE[8] = [1, 9], [2], [4, 9, 9, 9]
ONCE = [one[:-1] if one[-2:] == [9, 9] else one for one in TWICE]


@pytest.mark.parametrize("name", sorted(closed.INDEXED.keys() - {"levanter"}))
def test_one_of_two_separators_is_left_out_of_each_document(name, tmp_path):
    documents, expected = [*TWICE], [*ONCE]
    if name == "olmo":  # It marks boundaries by separators too: it cannot store one inside, and each document gets one.
        documents[8], expected[7:9] = [4, 9, 9], [[2, 9], [4, 9]]
    path, out = closed.indexed(tmp_path / "in", name, documents), tmp_path / "out" / closed.INDEXED[name]
    out.parent.mkdir()
    done = fixed(path, out, format=name, deep=True)
    assert " 9 " in done.done["TF945"] and " 10 documents" in done.done["TF945"]
    assert [one.tolist() for one in tokfmt.open(out, eos="none")] == expected
    if name == "modalities":
        assert documents_of(out) == expected


@pytest.mark.parametrize("name", sorted(closed.STREAMS.keys() - {"litgpt-packed"}))
def test_one_of_two_separators_is_left_out_of_a_stream(name, tmp_path):
    """A third separator is an empty document, and stays. What is in front of documents in llm.c is behind them here."""
    third = [9] if name in ("nanogpt", "llmc", "array") else []  # the others cannot store an empty document
    documents = [*TWICE[:7], [4, 9, 9, *third], *TWICE[9:], [8, 9]]
    before, after = ([t for one in several for t in (one if name != "llmc" else one[::-1])]
                     for several in (documents, [one[:-1] if one[-2] == 9 else one for one in documents]))  # fmt: skip
    path, options = closed.stream(tmp_path / "in", name, before)
    out = tmp_path / "out" / closed.STREAMS[name]
    out.parent.mkdir()
    done = fixed(path, out, format=name, eos=9, deep=True, options=options)
    assert " 9 " in done.done["TF945"] and " 10 documents" in done.done["TF945"]
    raw = out.read_bytes()
    if name == "hdf5":
        with h5py.File(out) as file:
            assert (file["data"].dtype, file["data"][:].tolist()) == (np.uint16, after)
    elif name == "stage1":
        padded = np.frombuffer(raw, "<i4").tolist()
        assert padded == after + [9] * (options["seq_len"] - len(after))
    else:
        head = {"llmc": 1024, "array": 128}.get(name, 0)
        assert np.frombuffer(raw[head:], "<u2").tolist() == after


def test_samples_keep_their_length_without_the_second_separator(tmp_path):
    """HDF5: windows of 8 that overlap by one token. The masked rest is padding, and no separator."""
    ids = [token for one in TWICE if len(one) > 4 for token in one]
    window = np.full(-(-(len(ids) - 1) // 8) * 8 + 1, 9)
    window[: len(ids)] = ids
    masks = np.arange(1, len(window)) < len(ids)
    rows = np.stack([window[:-1], masks, window[1:]]).reshape(3, -1, 8).transpose(1, 0, 2)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("data", data=rows.astype("<i4"))
        file.attrs["n_examples"] = len(rows)
    fixed(tmp_path / "x.h5", tmp_path / "y.h5", eos=9, deep=True)
    with h5py.File(tmp_path / "y.h5") as file:
        found = file["data"][:]
    expected = [token for one in TWICE if len(one) > 4 for token in one[:-1]]
    mask = found[:, 1].reshape(-1) == 1
    assert found.shape[2] == 8
    assert [found[0, 0, 0], *found[:, 2].reshape(-1)[mask]] == expected


def test_a_few_documents_that_end_with_two_separators_are_content(tmp_path):
    documents = [one if number in (4, 6) else [1, number, 9] for number, one in enumerate(TWICE)]
    path = closed.indexed(tmp_path / "in", "megatron", documents)
    done = fixed(path, tmp_path / "out_text_document.bin", deep=True)
    assert (done.destination, done.done) == ("", {})
    assert [one.tolist() for one in tokfmt.open(path, eos="none")] == documents


def test_convert_keeps_both_separators(tmp_path):
    path = closed.indexed(tmp_path / "in", "modalities", TWICE)
    tokfmt.convert(path, tmp_path / "y.pbin", eos=9, to_eos="none")
    tokfmt.convert(path, tmp_path / "z.pbin", eos=9)
    assert documents_of(tmp_path / "y.pbin") == [one[:-1] if one[-1] == 9 else one for one in TWICE]
    assert documents_of(tmp_path / "z.pbin") == [one if one[-1] == 9 else [*one, 9] for one in TWICE]


REFUSED = [
    ("modalities/index_gap.pbin", "TF108"), ("modalities/index_shuffled_like_a_merge.pbin", "TF109"),
    ("modalities/cut_in_the_data.pbin", "TF103"), ("modalities/opcode_global.pbin", "TF104"),
    ("hdf5/chunk_garbage.h5", "TF331"), ("hdf5/opening_external_link.h5", "TF305"),
    ("flat-tokens/append_tokens_only", "TF404"), ("flat-tokens/bits_ids_not_encoded", "they may not be encoded"),
    ("flat-tokens/bound_too_low", "TF406"), ("flat-tokens/bound_too_large", "max_token_id"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "why"), REFUSED)
def test_refused(name, why, tmp_path):
    with pytest.raises(ConversionError, match=why) as caught:
        fixed(BAD / name, tmp_path / "x", format=name.partition("/")[0])
    assert "not repaired" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["jsonl/cut.jsonl", "stage1/gap"])
def test_a_part_is_saved(name, tmp_path):
    """Where it is not certain what is right, and some of it is certain all the same; see test_partial.py."""
    done = fixed(BAD / name, tmp_path / Path(name).name, format=name.partition("/")[0])
    assert (done.done, done.partial[:9]) == ({}, "partial: ")


def saved_and_offered(path, out, **demands):
    """What `--fix` saves of a dataset, and what `check` offers before.

    None if the dataset has no error, or if `--fix` asks for an option with which it saves what is offered.
    """
    request = asked(path, **demands)
    (verdict,) = check(request)
    if not verdict.errors:
        return None
    offered = repairable(verdict, request)
    try:
        done = fix(verdict, out, request)
    except (LossyConversionError, SeparatorUnknownError):
        return None
    except TokfmtError:
        return "", offered
    return "part" if done.partial else "whole", offered


def megatron(path, lengths, documents, tokens):
    """A pair of Megatron-LM with uint16 tokens: the lengths and the document index that the index states."""
    pointers = 2 * np.cumsum([0, *lengths])[:-1]
    numbers = (
        np.array(lengths, "<i4").tobytes() + pointers.astype("<i8").tobytes() + np.array(documents, "<i8").tobytes()
    )
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(documents))
    path.with_suffix(".idx").write_bytes(head + numbers)
    path.write_bytes(np.arange(tokens, dtype="<u2").tobytes())
    return path


@pytest.mark.parametrize(
    ("documents", "tokens", "expected"),
    [([0], 9, ""), ([0, 1], 9, ""), ([0, 1, 2, 3], 7, "part"), ([0, 1, 2, 3], 1, ""), ([0, 1, 2, 3], 12, "")],
)
def test_nothing_is_offered_that_is_refused_for_megatron(documents, tokens, expected, tmp_path):
    """Three documents of 3 tokens: without a document index, with half of it, cut, cut in the first one, and longer."""
    path = megatron(tmp_path / "x_document.bin", [3, 3, 3], documents, tokens)
    assert saved_and_offered(path, tmp_path / "y_document.bin") == (expected, expected)


OFFERED = [*(name for name, _ in REFUSED), "jsonl/cut.jsonl", "stage1/gap", "hdf5/examples_too_few.h5"]


@pytest.mark.parametrize("name", OFFERED)
def test_what_is_offered_is_written(name, tmp_path):
    found = saved_and_offered(BAD / name, tmp_path / Path(name).name, format=name.partition("/")[0])
    assert found is None or found[0] == found[1]


def test_another_tokenizer_is_no_damage(tmp_path):
    demands = {"tokenizer": str(TOKENIZER), "deep": True}
    path = pack(tmp_path / "x.pbin", [[60000, 5, 6], [7, 60001]])
    assert saved_and_offered(path, tmp_path / "y.pbin", **demands) == ("", "")


@FUZZ_ONLY
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("name", sorted(one.name for one in BAD.iterdir() if one.is_dir() and one.name != "attacks"))
def test_what_is_offered_is_written_of_every_bad_file(name, deep, tmp_path):
    for number, path in enumerate(sorted(BAD.joinpath(name).iterdir())):
        if path.name != "expected.json":
            (tmp_path / str(number)).mkdir()
            found = saved_and_offered(path, tmp_path / str(number) / path.name, format=name, deep=deep)
            assert found is None or found[0] == found[1], path


def test_contradicting_manifest_prevents_a_repair(tmp_path):
    """If the manifest disagrees, more is wrong than the format shows."""
    path, _ = CASES["TF911"](tmp_path)
    with pytest.raises(ConversionError, match="TF911"):
        fixed(path, tmp_path / "y.pbin")


def test_nothing_to_repair(tmp_path):
    result = fixed(FIXTURES / "modalities/D_2byte_gpt2.pbin", tmp_path / "x.pbin")
    assert (result.destination, result.done) == ("", {})
    assert list(tmp_path.iterdir()) == []


def test_destination_that_exists(tmp_path):
    (tmp_path / "x.pbin").write_bytes(b"mine")
    with pytest.raises(DestinationExistsError):
        fixed(FIXTURES / "modalities/E_D_2byte_gpt2.pbin", tmp_path / "x.pbin")
    (tmp_path / "x.h5").write_bytes(b"mine")
    with pytest.raises(DestinationExistsError):
        fixed(BAD / "hdf5/control_no_n_examples.h5", tmp_path / "x.h5")
    assert (tmp_path / "x.h5").read_bytes() == (tmp_path / "x.pbin").read_bytes() == b"mine"


def test_check_fix_saves_complete_sequences(tmp_path):
    """If no repair is certain, the copy has the complete sequences; without any, the repair is refused."""
    lists, path = [[100 + i] * (i % 5 + 1) + [i] for i in range(20, 60)], tmp_path / "x_document.bin"
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in lists))
    tokfmt.convert(tmp_path / "in.jsonl", path, eos=7, manifest=False)
    os.truncate(path, 2 * sum(len(ids) + 1 for ids in lists[:11]) + 1)
    done = fixed(path, tmp_path / "mended_document.bin", eos=7, deep=True)
    assert done.done == {}
    assert done.partial.startswith("partial: 11 of 40 sequences are saved")
    assert done.report is not None
    assert done.report.errors == 0
    with tokfmt.open(done.destination, eos=7) as dataset:
        assert [one.tolist() for one in dataset] == lists[:11]
    assert json.loads((tmp_path / "mended_document.bin.tokfmt.json").read_text())["partial"][0]["sequences"] == 11
    os.truncate(path, 1)
    with pytest.raises(ConversionError, match="no sequence of it is certain to be complete"):
        fixed(path, tmp_path / "none_document.bin", eos=7, deep=True)


def test_the_copy_is_named_as_it_is_written(tmp_path, monkeypatch):
    """Where a format has the suffix of its files by itself, as a conversion reports it."""
    monkeypatch.chdir(tmp_path)
    path = closed.indexed(tmp_path, "megatron", [[1, 2, 9], [3, 4, 9], [5, 6, 9]])
    path.write_bytes(path.read_bytes()[:-2])
    result = fixed(path, "saved")
    assert (result.destination, result.report.path) == ("saved.bin", "saved.bin")
    assert sorted(one.name for one in tmp_path.glob("saved*")) == ["saved.bin", "saved.bin.tokfmt.json", "saved.idx"]
