"""litdata under the laws of every format; the oracle is json and numpy."""

import json
import tracemalloc

import numpy as np
import zstandard

import tokfmt
from tokfmt.formats.litdata import FORMAT
from tokfmt.testing import FormatContract

DTYPES = {
    "no_header_numpy:5": "<u2",
    "no_header_numpy:6": "<u4",
    "no_header_tensor:16": "<i4",
    "no_header_tensor:20": "<u2",
}
CHUNK_KEYS = ["chunk_bytes", "chunk_size", "dim", "filename"]


def documents(folder):
    """Items of the chunks as stored."""
    index = json.loads((folder / "index.json").read_text())
    config, found = index["config"], []
    assert (config["encryption"], config["item_loader"]) == (None, "TokensLoader")
    assert json.loads(config["data_spec"]) == [1, {"type": None, "context": None, "children_spec": []}]
    (kind,) = config["data_format"]
    for chunk in index["chunks"]:
        assert sorted(chunk) == CHUNK_KEYS
        raw = (folder / chunk["filename"]).read_bytes()
        if config["compression"]:
            assert chunk["filename"].endswith(f".{config['compression']}.bin")
            raw = zstandard.decompress(raw)  # in one go: the size is in the frame
        count = int.from_bytes(raw[:4], "little")
        places = np.frombuffer(raw, "<u4", count + 1, 4).tolist()
        assert (count, len(raw)) == (chunk["chunk_size"], chunk["chunk_bytes"])
        assert (places[0], places[-1]) == (4 * (count + 2), len(raw))
        items = [np.frombuffer(raw[a:b], DTYPES[kind]).tolist() for a, b in zip(places, places[1:])]
        assert sum(map(len, items)) == chunk["dim"]
        found.append(items)
    return found


class TestFolder(FormatContract):
    format = FORMAT
    filename = "chunks"
    sharded = {"shard_size": 1}
    eos_id = 128001
    max_id = 2**32 - 1
    write_variants = ({"shard_size": 30}, {})
    long_options = {"shard_size": 1 << 20}

    def oracle(self, path, options):
        chunks = documents(path)
        most = options.get("shard_size", 1 << 24)
        for held, after in zip(chunks, chunks[1:]):
            size = sum(map(len, held))
            assert held and (size <= most or len(held) == 1) and size + len(after[0]) > most
        stored = [document for held in chunks for document in held]
        if self.eos_id == "none":
            return stored
        assert all(document[-1] == self.eos_id for document in stored if document)
        return [document[:-1] for document in stored]


class TestTensors(TestFolder):
    max_id = 2**31 - 1
    write_variants = ({"codes": "tensor"}, {"codes": "tensor", "shard_size": 1})


class TestNoSeparator(TestFolder):
    eos_id = "none"
    write_variants = ({"shard_size": 7},)


class TestCompressed(TestFolder):
    write_variants = ({"compression": "zstd", "shard_size": 30}, {"compression": "zstd:9", "codes": "numpy"})


DOCUMENTS = [[], [1, 2, 3], [4, 5, 6, 7, 8], [], [9]]


def noted(tmp_path, format_, documents=DOCUMENTS, **demands):
    """The notes of a conversion of five documents, two of them empty, and its result."""
    source = tmp_path / "x.jsonl"
    source.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in documents))
    done = tokfmt.convert(source, tmp_path / "out", to_format=format_, jobs=1, overwrite=True, verify=True, **demands)
    return [note for note in done.notes if note.startswith("out: ")], done


def test_note_on_tokens_that_tokensloader_drops(tmp_path):
    """With `--seq-len 3`, chunks of 5, 6 and 3 tokens leave 2 tokens."""
    closed = [[*ids, 99] for ids in DOCUMENTS]
    (told,), done = noted(tmp_path, "litdata", closed, eos=99, seq_len=3, to_options={"shard_size": 5})
    assert [sum(map(len, chunk)) for chunk in documents(tmp_path / "out")] == [5, 6, 3]
    assert told == "out: TokensLoader(block_size=3) drops 2 of 14 tokens, at the ends of 3 chunks"
    assert done.sample_length is None
    told = told.removeprefix("out: ")
    with tokfmt.open(tmp_path / "out") as dataset:  # with the options it was written with, by its manifest
        assert told in dataset.notes
    (tmp_path / "out.tokfmt.json").unlink()
    (verdict,) = tokfmt.check(tmp_path / "out", options={"seq_len": 3})
    assert told in verdict.notes
    assert tokfmt.check(tmp_path / "out")[0].notes != verdict.notes
    assert noted(tmp_path, "litdata", closed, eos=99, to_options={"shard_size": 5})[0] == []
    assert noted(tmp_path, "litdata", closed, eos=99, seq_len=7)[0] == []


def test_note_on_empty_documents_for_upstream(tmp_path):
    """Without a separator, an empty document is an item of no bytes. It gets none that it did not have."""
    for format_, why in (("litdata", "TokensLoader"), ("mds", "MDSWriter")):
        for demands in ({"to_eos": "none", "eos": "none"}, {"eos": 99}):
            (told,), _ = noted(tmp_path, format_, **demands)
            assert told.startswith("out: 2 empty sequences (first: sequence 0): ")
            assert why in told
        assert noted(tmp_path, format_, [[*ids, 99] for ids in DOCUMENTS], eos=99)[0] == []


def test_opening_takes_16_bytes_a_document(tmp_path):
    """While it opens, of many chunks; 8 stay. Of one 40: what is known of the places of a chunk is of all of them."""
    count = 1 << 19
    np.tile(np.array([7, 9], "<u2"), count).tofile(tmp_path / "train.bin")
    for tokens, most in ((50_000, 16), (1 << 24, 40)):
        demands = {"to_options": {"shard_size": tokens}, "eos": 9, "jobs": 1, "overwrite": True}
        tokfmt.convert(tmp_path / "train.bin", tmp_path / "x", format="nanogpt", to_format="litdata", **demands)
        tracemalloc.start()
        with tokfmt.open(tmp_path / "x", eos="none") as dataset:
            assert len(dataset) == count
            peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < most * count


def test_a_dim_that_is_not_the_tokens_is_a_finding_and_is_not_read_by(tmp_path):
    """tokfmt reads items by their places; TokensLoader would cut windows by dim."""
    source = tmp_path / "s.jsonl"
    source.write_text('{"input_ids": [5, 6, 7]}\n')
    tokfmt.convert(source, tmp_path / "x", to_format="litdata", eos=0)
    index = json.loads((tmp_path / "x" / "index.json").read_text())
    for dim in (9, 3, "4"):
        index["chunks"][0]["dim"] = dim
        (tmp_path / "x" / "index.json").write_text(json.dumps(index))
        for deep in (False, True):
            (verdict,) = tokfmt.check(tmp_path / "x", deep=deep)
            (found,) = [one for one in verdict.findings if one.code == "TF747"]
            assert (found.severity, found.path.endswith("chunk-0-0.bin")) == ("error", True)
            assert f"expected 4, found {dim}" in found.message
        with tokfmt.open(tmp_path / "x", eos=0, ignore_manifest=True) as dataset:
            assert [one.tolist() for one in dataset] == [[5, 6, 7]]
            assert any("dim in index.json is" in note for note in dataset.notes)
