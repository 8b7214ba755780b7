"""`tokfmt info`: what a dataset is, in at most 15 lines, from a bounded read."""

import gzip
import json
import os
from dataclasses import replace

import commands
import h5py
import numpy as np
import pytest
import registered
from paths import CORPUS, FIXTURES, TOKENIZER
from reads import asked_of
from schemas import validate

import tokfmt
from tokfmt.cli.info import lines
from tokfmt.errors import FormatError, SeparatorUnknownError, UnknownFormatError

DATASETS = {
    "modalities/D_2byte_gpt2.pbin": {}, "modalities/A_1byte_byte256.pbin": {}, "modalities/D_2byte_empty.pbin": {},
    "stage1/blocks": {}, "hdf5/padded_eos": {}, "hdf5/new_vsl": {}, "hdf5/packed_overlap": {"eos": 50256},
    "flat-tokens/multi_chunk.zarr": {}, "flat-tokens/doc_example.zarr": {}, "flat-tokens/empties.zarr": {},
    "datatrove/00000_unshuffled.ds": {}, "litdata/torch_int32": {}, "mds/packed256_static": {},
    "levanter/cache_int32": {}, "megatron/gpt2_text_document": {}, "megatron/empty_docs_text_document.bin": {},
    "llmc/edu_fineweb_train_000001.bin": {}, "llmc/shards": {}, "nanogpt/openwebtext/train.bin": {"eos": 50256},
    "olmo/core-00000.npy": {}, "array/cu_pair": {}, "litgpt-packed/tinyllama": {"eos": 2}, "parquet/uint16.parquet": {},
}  # fmt: skip
"""Datasets of token IDs of every format that has no records, and what opening them takes."""


@pytest.mark.parametrize("name", DATASETS)
def test_facts_are_those_of_the_opened_dataset(name):
    found, path = tokfmt.info(FIXTURES / name, **DATASETS[name]), FIXTURES / name
    with tokfmt.open(path, **DATASETS[name]) as dataset:
        assert (found.format, found.sequences, found.tokens) == (dataset.format, len(dataset), dataset.info.tokens)
        assert (found.dtype, found.counts_from) == (str(dataset.info.dtype), "dataset")
        first = next((one for one in dataset if len(one)), np.empty(0, np.uint8))
        assert list(found.ids) == first[:32].tolist()
        if len(dataset):
            stored = max(max(one.tolist(), default=-1) for one in dataset)
            assert found.max_id in {stored, max(stored, -1 if found.eos_id is None else found.eos_id)}
    told = lines(found)
    assert len(told) <= 15 and not any("\n" in line for line in told)
    assert len([line for line in told if line.startswith("  separator")]) <= 1


def test_a_recipe_has_the_samples_that_it_computes():
    path = FIXTURES / "recipe" / "mix.toml"
    found = tokfmt.info(path)
    assert (found.format, found.layout, found.sample_length) == ("recipe", "samples", 128)
    assert (found.sequences, found.tokens) == (len(tokfmt.open(path)), 128 * len(tokfmt.open(path)))
    draft = tokfmt.info(FIXTURES / "recipe" / "prepare.toml")
    assert (draft.format, draft.sequences, draft.text) == ("recipe", None, None)


def test_every_format_is_identified():
    named = {tokfmt.info(FIXTURES / name, **words).format for name, words in DATASETS.items()}
    others = {
        "recipe": FIXTURES / "recipe" / "mix.toml",
        "run": FIXTURES / "runs" / "megatron_core" / "run.toml",
        "jsonl": CORPUS,
        "internevo": FIXTURES / "internevo" / "sft",
        "arrayrecord": FIXTURES / "arrayrecord" / "example_inputs.array_record",
        "tfrecord": FIXTURES / "tfrecord" / "input_ids.tfrecord",
        "webdataset": FIXTURES / "webdataset" / "tokshuf_rs",
        "text": FIXTURES / "text" / "PROVENANCE.md",
        "arrow": FIXTURES / "parquet" / "save_to_disk",
    }
    for name, path in others.items():
        assert tokfmt.info(path).format == name
    assert {*named, *others} == {*registered.names()} - {"tape", "reel"}


FIRST = json.loads(CORPUS.read_text().partition("\n")[0])["text"]


def said(*words):
    return commands.run("info", *words)


def test_the_lines_of_a_pack(tmp_path):
    tokfmt.convert(CORPUS, tmp_path / "c.pbin", tokenizer=str(TOKENIZER))
    told = said(tmp_path / "c.pbin").stdout
    digest = json.loads((tmp_path / "c.pbin.tokfmt.json").read_text())["tokenizer"]["digest"][:8]
    size = (tmp_path / "c.pbin").stat().st_size
    assert [" ".join(line.split()) for line in told.splitlines()[1:-3]] == [
        "layout documents, width 2, layout D",
        f"size {size / 1000:.1f} kB in 1 file", "sequences 184", "tokens 17,450; 17,634 with separators", "dtype uint16", "largest ID 4,095 (by the manifest)",
        "separator 4095 (manifest of c.pbin; each of 184 sequences ends with it)", f"tokenizer {TOKENIZER} (digest {digest}, by the manifest)",
    ]  # fmt: skip
    manifest, ids, words = told.splitlines()[-3:]
    assert manifest.split() == ["manifest", "c.pbin.tokfmt.json", "of", "tokfmt", f"{tokfmt.__version__},",
                                "from", str(CORPUS)]  # fmt: skip
    with tokfmt.open(tmp_path / "c.pbin") as dataset:
        assert ids.split()[2:] == list(map(str, dataset[0][:32].tolist()))
    assert words.partition("first words ")[2].strip()[:20] == FIRST[:20]


def test_a_document_of_json_is_as_its_schema_says():
    for name in (*DATASETS, "text/corpus.jsonl", "jsonl/crlf.jsonl"):
        done = said(FIXTURES / name, "--json")
        if "nanogpt" not in name:
            assert done.returncode == 0, done.stderr
        validate(json.loads(done.stdout))


def test_text_has_its_first_words_and_no_tokens():
    found = tokfmt.info(CORPUS)
    assert (found.layout, found.sequences, found.tokens, found.ids) == ("text", 184, None, None)
    assert found.text == FIRST[:200]


@pytest.fixture
def huge(tmp_path):
    """A terabyte of zeros after three documents: a sparse file that takes no space."""
    path = tmp_path / "train.bin"
    path.write_bytes(np.array([5, 6, 7, 50256, 8, 9, 50256, 1], np.uint16).tobytes())
    with path.open("r+b") as file:
        file.truncate(1 << 40)
        file.seek((1 << 40) - 2)
        file.write(b"\x50\xc4")  # 50256, as a writer leaves it that was not killed
    return path


def test_a_terabyte_is_read_in_part(huge):
    with asked_of(huge.parent) as asked:
        found = tokfmt.info(huge, format="nanogpt", options={"width": 2})
    assert found.ids == (5, 6, 7)
    assert (found.stored_tokens, found.sequences, found.tokens) == (1 << 39, None, None)
    assert (found.max_id, found.max_id_from) == (50256, "65,536 tokens")
    assert asked.bytes_of() < 1 << 21
    told = lines(found)
    assert any("549,755,813,888 with separators" in line for line in told)
    assert any("not known; tokfmt stats counts them" in line for line in told)


def test_a_stream_whose_separator_is_not_known_is_identified_all_the_same(tmp_path):
    np.arange(1, 900, dtype=np.uint16).tofile(tmp_path / "train.bin")
    found = tokfmt.info(tmp_path / "train.bin", format="nanogpt", eos="none")
    assert (found.sequences, found.eos_from) == (None, "--eos none")
    assert "  separator   none (--eos none)" in lines(found)
    np.arange(1, 900, dtype="<i4").repeat(1000)[: 100 * 8192].tofile(tmp_path / "stage1_block_0000.bin")
    found = tokfmt.info(tmp_path / "stage1_block_0000.bin")
    assert "  separator   50256 (stage1 convention; not among the first 65,536 tokens)" in lines(found)


def test_samples_whose_separator_is_not_known_are_identified_all_the_same():
    """`tokfmt.open` refuses them without it."""
    path = FIXTURES / "hdf5" / "corpus_uint16"
    with pytest.raises(SeparatorUnknownError):
        tokfmt.open(path)
    found = tokfmt.info(path)
    assert (found.sequences, found.eos_id, found.separators) == (None, None, "between")
    assert "  separator   not known; --eos ID states it" in lines(found)


def test_what_is_broken_or_unknown_is_one_line(tmp_path):
    with pytest.raises(FormatError):
        tokfmt.info(FIXTURES / "bad" / "modalities" / "opcode_global.pbin")
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 9)
    with pytest.raises(UnknownFormatError):
        tokfmt.info(tmp_path / "noise")
    done = said(tmp_path / "noise")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)


def test_the_format_of_a_damaged_dataset_is_reported(tmp_path):
    for name in ("gpt2_text_document.bin", "gpt2_text_document.idx"):
        content = (FIXTURES / "megatron" / name).read_bytes()
        (tmp_path / name).write_bytes(content[: 9_000 if name.endswith(".bin") else None])
    done = said(tmp_path / "gpt2_text_document.bin")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)
    assert "expected 25,536, found 9,000" in done.stderr
    assert done.stderr.endswith("tokfmt check --deep lists every problem\n")
    told = said(FIXTURES / "megatron" / "multimodal_document.bin").stderr
    assert "holds modes of multimodal data at byte 1,566. --allow-loss modes reads the tokens without them. It" in told


def test_a_directory_of_several_datasets_names_the_command_that_lists_them(tmp_path):
    for name in ("megatron/gpt2_text_document.bin", "megatron/gpt2_text_document.idx", "nanogpt/openwebtext/val.bin"):
        (tmp_path / name.rpartition("/")[2]).write_bytes((FIXTURES / name).read_bytes())
    found = tokfmt.info(tmp_path, eos=50256)
    assert found.format == "megatron"
    assert found.notes == ("left out: another file, val.bin; tokfmt browse lists the datasets in a directory",)


def test_the_dtype_of_a_file_is_listed_once_and_tokens_are_counted_with_separators_too():
    told = lines(tokfmt.info(FIXTURES / "litdata" / "torch_int32"))
    assert [line for line in told[1:] if "dtype" in line or "int32" in line] == [
        "  dtype       uint32, stored as int32"
    ]
    assert "  tokens      12,738; 12,768 with separators" in told
    told = lines(tokfmt.info(FIXTURES / "stage1" / "blocks"))  # three blocks of one sample
    assert "  tokens      21,286; 21,362 with separators" in told
    told = lines(tokfmt.info(FIXTURES / "hdf5" / "new_vsl"))
    assert "  tokens      1,366" in told and "  dtype       uint32" in told


def samples_of(stream, width, pad_id):
    """Return the samples of Cerebras ModelZoo: windows that overlap by a token, and padding after the last."""
    starts = range(0, len(stream) - 1, width)
    samples = np.full((len(starts), 3, width), pad_id, np.int32)
    samples[:, 1] = 0
    for sample, start in zip(samples, starts, strict=True):
        window = stream[start : start + width + 1]
        sample[0, : len(window) - 1], sample[2, : len(window) - 1] = window[:-1], window[1:]
        sample[1, : len(window) - 1] = 1
    return samples


def documents_in(stream, eos):
    """Return the number of documents of a stream that ends with a separator, and the number of their tokens."""
    count = int(np.count_nonzero(stream == eos))
    return count, len(stream) - count


def write_hdf5(path, samples):
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=samples)
        file.attrs["n_examples"] = len(samples)


def test_samples_are_counted_with_their_padding_and_without_what_the_reader_inserts(tmp_path):
    stream = np.random.default_rng(1).integers(1, 900, 3_000, np.int32)
    stream[50::150], stream[-1] = 0, 0
    count, tokens = documents_in(stream, 0)
    samples = samples_of(stream, 128, 7)
    write_hdf5(tmp_path / "examples_0_0.h5", samples)
    used = int(samples[:, 1].sum())
    found = tokfmt.info(tmp_path, eos=0)
    assert (found.sequences, found.tokens, found.stored_tokens) == (count, tokens, len(stream))
    assert (found.samples, found.sample_length) == (len(samples), 128)
    assert found.padding == samples[:, 1].size - used > 0
    share = f"{100 * used / samples[:, 1].size:.4f}".partition(".")
    full = float(f"{share[0]}.{share[2][:2]}")  # Rounded down.
    assert f"  samples     {len(samples)} of 128, {full:g} % full" in lines(found)
    assert f"  tokens      {tokens:,}; {len(stream):,} with separators" in lines(found)


def test_a_single_position_of_padding_is_less_than_full(tmp_path):
    stream = np.random.default_rng(1).integers(1, 900, 400 * 128, np.int32)  # The last window lacks a token.
    samples = samples_of(stream, 128, 0)
    write_hdf5(tmp_path / "examples_0_0.h5", samples)
    found = tokfmt.info(tmp_path)
    assert (found.samples, found.padding) == (400, 1)
    assert any(line.split()[:3] == ["samples", "400", "of"] and "99.99 %" in line for line in lines(found))
    write_hdf5(tmp_path / "examples_0_0.h5", samples[:-1])
    assert "  samples     399 of 128, 100 % full" in lines(tokfmt.info(tmp_path))


def test_long_samples_are_counted_and_their_padding_is_not_claimed(tmp_path):
    stream = np.random.default_rng(1).integers(1, 900, 23_000 * 256, np.int32)  # 70 MB of samples
    stream[50::150], stream[-1] = 0, 0
    samples = samples_of(stream, 256, 0)
    write_hdf5(tmp_path / "examples_0_0.h5", samples)
    with asked_of(tmp_path) as asked:
        found = tokfmt.info(tmp_path, eos=0)
    assert asked.bytes_of() < samples.nbytes / 2
    assert (found.samples, found.sample_length, found.padding, found.sequences) == (23_000, 256, None, None)
    assert "  samples     23,000 of 256" in lines(found)


@pytest.mark.parametrize("run", [0, 1, 2, 500])
def test_samples_of_a_stream_are_full_but_for_separators_after_the_last_document(run, tmp_path):
    stream = np.random.default_rng(1).integers(1, 900, 2 * 8192).astype("<i4")
    stream[50::150], stream[9_000:9_500], stream[-1] = 0, 0, 5
    stream[len(stream) - run :] = 0
    stream.tofile(tmp_path / "stage1_block_0000.bin")
    found = tokfmt.info(tmp_path, eos=0)
    padding = max(0, run - 1)
    assert (found.samples, found.sample_length, found.padding) == (2, 8192, padding)
    assert found.sequences == int(np.count_nonzero(stream == 0)) - padding + (run == 0)
    assert found.stored_tokens == len(stream) - padding
    stream[:-3].tofile(tmp_path / "stage1_block_0000.bin")
    assert tokfmt.info(tmp_path, eos=0).samples is None


def test_notes_beyond_fifteen_lines_are_counted():
    found = tokfmt.info(FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin")
    many = replace(found, notes=("one", "two", "three", "four", "five", "six"))
    told = lines(many)
    assert len(told) == 15
    assert told[-1].split(maxsplit=1)[1].endswith("other notes; --json lists all")


def test_the_manifest_states_what_is_not_read(tmp_path):
    """Of more tokens than `info` reads, the counts of the manifest are those of the dataset."""
    ids = np.arange(1, 1_200_001) % 50_000
    ids[999::1000] = 50256
    ids.astype("<u2").tofile(tmp_path / "val.bin")
    tokfmt.convert(tmp_path / "val.bin", tmp_path / "train.bin", format="nanogpt", to_format="nanogpt", eos=50256)
    known = tokfmt.info(tmp_path / "train.bin", format="nanogpt")
    assert (known.counts_from, known.sequences, known.tokens) == ("manifest", 1200, 1_200_000 - 1200)


def test_large_text_is_not_counted(tmp_path):
    """Its first record is shown."""
    lines = CORPUS.read_bytes()
    (tmp_path / "c.jsonl").write_bytes(lines * (2 + (1 << 22) // len(lines)))
    noise = "".join(f'{{"text": "{os.urandom(300).hex()}"}}\n' for _ in range(1500))
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(lines + noise.encode()))
    for name in ("c.jsonl", "c.jsonl.gz"):
        found = tokfmt.info(tmp_path / name)
        assert (found.sequences, found.text) == (None, FIRST[:200])
