"""`stats` of every golden gives the numbers that lists give."""

import json

import h5py
import numpy as np
import pytest
from paths import CORPUS, FIXTURES, TOKENIZER, expected, golden, pieces
from schemas import validate
from stats_oracle import check

import tokfmt


def measured(*paths, tokenizer=None, **how):
    return json.loads(json.dumps(tokfmt.stats(paths, tokenizer=tokenizer, **{"jobs": 1, **how}).as_json()))


PACKS = expected("modalities")["pbin"]


@pytest.mark.parametrize("name", PACKS)
def test_modalities(name):
    case = PACKS[name]
    documents, eos = expected("modalities")["doc_sets"][case["documents"]], case["eod_id"]
    source = golden("modalities", name) if name.startswith("wild_repo_") else FIXTURES / "modalities" / name
    embedded = sum(doc.count(eos) for doc in documents)
    if "P0" in name:
        found = measured(source, format="modalities", options={"layout": "P0"}, eos=eos)
        check(found, pieces([t for doc in documents for t in doc], eos), eos=eos, stored=embedded)
        assert found["padding"] is None
        return
    check(measured(source, eos="none"), documents)
    # a guess needs evidence: eight sequences that end with it, and none that holds it; a manifest is a fact
    told = source.with_name(f"{name}.tokfmt.json").exists()
    evident = len(documents) >= 8 and embedded == len(documents)
    ended = all(doc[-1:] == [eos] for doc in documents) and (told or evident)
    known = eos if ended else None
    found = measured(source)
    check(found, [doc[:-1] for doc in documents] if ended else documents, eos=known)
    if ended:
        assert found["separators"]["count"] == embedded
    assert found["bytes"] == source.stat().st_size


STORES = {k: v for k, v in expected("flat-tokens").items() if not k.startswith("_")}


@pytest.mark.parametrize("name", STORES)
def test_flat_tokens(name):
    case, source = STORES[name], FIXTURES / "flat-tokens" / name
    splits = {None: case["sequences"]} if case["kind"] == "array" else case["splits"]
    for split, sequences in splits.items():
        check(measured(source, split=split), sequences, stored=0)


@pytest.mark.parametrize("name", expected("stage1"))
def test_stage1(name):
    source = FIXTURES / "stage1" / name
    files = sorted(source.glob("stage1_block_*.bin")) if source.is_dir() else [source]
    raw = np.concatenate([np.fromfile(file, "<i4") for file in files])
    ids = np.flatnonzero(raw != 50256)
    stream = min(len(raw), int(ids[-1]) + 2)  # the first separator behind the last document ends it
    documents = pieces(raw[:stream].tolist(), 50256)
    assert [one for one in documents if one] == expected("stage1")[name]
    found = measured(source)
    check(found, documents, eos=50256, stored=int((raw[:stream] == 50256).sum()))
    assert found["padding"]["count"] == len(raw) - stream
    rows = measured(source, options={"view": "samples", "seq_len": "8192"})
    check(rows, raw.reshape(-1, 8192).tolist(), eos=50256, stored=int((raw[:stream] == 50256).sum()))
    assert rows["layout"] == "samples"


HDF5 = expected("hdf5")["fixtures"]


def raw_of(name):
    """input_ids, mask and labels of all rows, read by h5py alone; files in name order."""
    files = sorted((FIXTURES / "hdf5" / name).glob("*.h5"))
    parts = []
    for file in files:
        with h5py.File(file) as opened:
            parts.append(opened["data"][:])
    return np.concatenate(parts)


@pytest.mark.parametrize("name", HDF5)
def test_hdf5(name):
    case, source = HDF5[name], FIXTURES / "hdf5" / name
    eos = case["eos"]
    if case["kind"] != "corpus":
        rows = measured(source, eos="none", options={"view": "samples", "order": "writer"})
        assert rows["sequences"] == len(raw_of(name))
        assert rows["tokens"] == raw_of(name)[:, 0].size
        assert rows["ids"]["distinct"] == len(np.unique(raw_of(name)[:, 0]))
    if case.get("multiset_equals"):
        return
    found = measured(source, eos=eos)
    kept = case.get("recovered_documents") or case.get("recovered_segments")
    if kept:
        check(found, [doc[:-1] if doc[-1:] == [eos] else doc for doc in kept], eos=eos)
    else:
        streams = [stream["tokens"] for stream in case["streams"]]
        stored = sum(stream.count(eos) for stream in streams)
        check(found, [p for s in streams for p in pieces(s, eos)], eos=eos, stored=stored)
    if name.startswith("padded") or name == "new_padded_pad0":
        raw = raw_of(name)
        real = sum(len(doc) - 1 for doc in kept) if name != "new_padded_pad0" else None
        if real is not None:
            # a document of n tokens is a window of n - 1 inputs and as many labels
            assert found["padding"]["count"] == raw[:, 0].size - real


def test_text():
    texts = [json.loads(line) for line in (FIXTURES / "text" / "with_fields.jsonl").read_bytes().splitlines()]
    found = measured(FIXTURES / "text" / "with_fields.jsonl")
    validate(found)
    assert (found["layout"], found["sequences"], found["tokens"]) == ("text", len(texts), None)
    assert found["text"]["characters"] == sum(len(one["text"]) for one in texts)
    assert found["text"]["bytes"] == sum(len(one["text"].encode()) for one in texts)
    ordered = sorted(len(one["text"]) for one in texts)
    assert (found["lengths"]["unit"], found["lengths"]["max"]) == ("characters", ordered[-1])
    assert found["lengths"]["p50"] == ordered[-(-len(ordered) // 2) - 1]
    assert {one["name"]: one["count"] for one in found["text"]["fields"]} == dict.fromkeys(texts[0], len(texts))


def test_text_tokenised():
    from tokenizers import Tokenizer

    coder = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
    texts = [json.loads(line)["text"] for line in CORPUS.read_bytes().splitlines()]
    documents = [coder.encode(text, add_special_tokens=False).ids for text in texts]
    found = measured(CORPUS, tokenizer=str(TOKENIZER), seq_len=64)
    check(found, documents, eos=4095, stored=0)
    assert found["ids"]["vocab_size"] == coder.get_vocab_size()
    assert found["ids"]["coverage"] == found["ids"]["distinct"] / coder.get_vocab_size()
    top = found["ids"]["most_frequent"][0]
    assert top["text"] == coder.decode([top["id"]])


def test_repeated_texts(tmp_path):
    texts = ["a" * 70, "b", "", "a" * 70, "", "c", "b", "a" * 70]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps({"text": text, "n": 1}) + "\n" for text in texts))
    found = measured(path)["duplicates"]
    assert (found["sequences"], found["groups"], found["tokens"]) == (3, 2, 141)
    assert found["share"] == 3 / 6
    first = found["largest"][0]
    assert (first["count"], first["length"], first["sequence"], first["text"]) == (3, 70, 0, "a" * 70)
    assert found["largest"][1]["sequence"] == 1


def test_several_and_their_total(tmp_path):
    """Equal sequences in different datasets, of different widths, are duplicates of each other."""
    packs = ["D_2byte_gpt2.pbin", "D_2byte_gpt2_shuffled_seed7.pbin", "D_4byte_wide.pbin"]
    sets = expected("modalities")
    documents = [sets["doc_sets"][sets["pbin"][name]["documents"]] for name in packs]
    found = measured(*(FIXTURES / "modalities" / name for name in packs), eos="none")
    validate(found)
    for one, own in zip(found["datasets"], documents, strict=True):
        assert (one["sequences"], one["tokens"]) == (len(own), sum(map(len, own)))
    total, everything = found["total"], sum(documents, [])
    counts = {}
    for doc in map(tuple, everything):
        counts[doc] = counts.get(doc, 0) + bool(doc)
    assert total["duplicates"]["sequences"] == sum(count - 1 for count in counts.values() if count > 1) > 40
    assert total["sequences"] == len(everything)
    assert total["ids"]["distinct"] == len({token for doc in everything for token in doc})
    assert total["bytes"] == sum(one["bytes"] for one in found["datasets"])


def test_packing():
    """Cutting shuffled documents from one stream: what the formula says is what happens on average."""
    source = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
    documents = list(expected("modalities")["doc_sets"][PACKS["D_2byte_gpt2.pbin"]["documents"]])
    size = 64
    found = measured(source, seq_len=size)["packing"]
    stream = sum(map(len, documents))
    assert found["concatenated"]["samples"] == -(-stream // size)
    assert found["concatenated"]["padding"] == -(-stream // size) * size - stream
    assert found["padded"]["samples"] == sum(-(-len(doc) // size) for doc in documents)
    assert found["padded"]["documents_cut"] == sum(len(doc) > size for doc in documents)
    rng, cut, rounds = np.random.default_rng(0), 0, 400
    for _ in range(rounds):
        at = int(rng.integers(size))
        for k in rng.permutation(len(documents)):
            cut += at // size != (at + len(documents[k]) - 1) // size
            at += len(documents[k])
    assert abs(found["concatenated"]["documents_cut"] - cut / rounds) < 1


def test_masked_positions():
    """Positions whose mask is 0 are masked, where the reader gives masks."""
    source = FIXTURES / "hdf5" / "padded_pad0"
    found = measured(source, options={"view": "samples"})
    assert found["masked"]["count"] == int((raw_of("padded_pad0")[:, 1] == 0).sum())
