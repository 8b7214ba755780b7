"""--shuffle and --split NAME=SHARE,...: every format, every executor, whole or not at all."""

import gzip
import json
import os
import tempfile
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
import registered
from amount import examples
from arranged import EOS, NAMES, content, convert
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import CORPUS, TOKENIZER
from xxhash import xxh3_128_intdigest

import tokfmt
from tokfmt.base.seeds import SHUFFLE, SPLIT, draws
from tokfmt.core.ragged import Ragged
from tokfmt.errors import LossyConversionError, OptionError
from tokfmt.testing import write

each = pytest.mark.parametrize("name", NAMES)


def shuffled(lists, seed):
    keys = draws(seed, SHUFFLE, 0, len(lists)).tolist()
    return [lists[i] for i in sorted(range(len(lists)), key=lambda i: keys[i])]


def dealt(lists, shares, seed):
    """The lists of each split, by the definition."""
    bounds = [share * 2**64 for share in accumulate(shares)]
    drawn = draws(seed, SPLIT, 0, len(lists)).tolist()
    number = [sum(draw >= bound for bound in bounds[:-1]) for draw in drawn]
    return [[s for s, k in zip(lists, number, strict=True) if k == part] for part in range(len(shares))]


WORD = 2**64 - 1


def by_content(documents, shares, seed):
    """The documents of each split, by the definition: integers only."""
    keys = np.random.Philox(key=0x243F6A8885A308D3B7E151628AED2A6A).random_raw(130)[:65].tolist()
    seeded = int(np.random.Philox(key=SPLIT << 64 | seed).random_raw())
    bounds = [share * 2**64 for share in accumulate(shares)]
    parts = [[] for _ in shares]
    for document in documents:
        if isinstance(document, str) or len(document) > 64:
            data = document.encode() if isinstance(document, str) else np.array(document, "<u4").tobytes()
            drawn = xxh3_128_intdigest(data) >> 64
        else:
            mixed = [token * 0x9E3779B97F4A7C15 & WORD for token in document]
            drawn = len(document) * keys[64] + sum((m ^ m >> 32) * key for m, key in zip(mixed, keys, strict=False))
            drawn = ((drawn & WORD) ^ (drawn & WORD) >> 32) * 0x9E3779B97F4A7C15 & WORD
            drawn ^= drawn >> 32
        drawn ^= seeded
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            drawn = (drawn ^ drawn >> shift) * factor & WORD
        drawn ^= drawn >> 31
        parts[sum(drawn >= bound for bound in bounds[:-1])].append(document)
    return parts


@each
def test_shuffle_to(name, lists, pack, tmp_path):
    done = convert(pack, tmp_path / NAMES[name], name, shuffle=7)
    assert content(name, tmp_path / NAMES[name]) == shuffled(lists, 7)
    assert (done.shuffle, done.verified, done.sequences) == (7, True, 300)
    manifest = json.loads((tmp_path / f"{NAMES[name]}.tokfmt.json").read_bytes())
    assert (manifest["shuffle"], manifest["split"]) == (7, None)


def test_dropped_empty_sequences_do_not_move_others(tmp_path):
    lists = [[i] if i % 3 else [] for i in range(200)]
    source = write(registered.get("modalities"), tmp_path / "in.pbin", Ragged.of(lists), eos_id=EOS)
    with pytest.raises(LossyConversionError, match=r"67 empty sequences \(first: sequence 0\)"):
        convert(source, tmp_path / "out.h5", "hdf5", split="a=0.5,b=0.5", shuffle=1)
    assert sorted(os.listdir(tmp_path)) == ["in.pbin", "in.pbin.scratch"]
    convert(source, tmp_path / "out.h5", "hdf5", split="a=0.5,b=0.5", shuffle=1, allow_loss=["empty-sequences"])
    for split, wanted in zip("ab", dealt(lists, (0.5, 0.5), 0), strict=True):
        assert content("hdf5", tmp_path / f"out.{split}.h5") == [s for s in shuffled(wanted, 1) if s]


def test_embedded_separators_are_split_where_they_go(tmp_path):
    lists = [[1, EOS, 2], [3], [4, 5], [6, EOS]] * 20
    source = write(registered.get("modalities"), tmp_path / "in.pbin", Ragged.of(lists), eos_id=EOS)
    convert(source, tmp_path / "out.h5", "hdf5", shuffle=4, allow_loss=["embedded-separators"])
    pieces = {1: [[1], [2]], 3: [[3]], 4: [[4, 5]], 6: [[6], []]}
    wanted = [piece for s in shuffled(lists, 4) for piece in pieces[s[0]]]
    assert content("hdf5", tmp_path / "out.h5") == wanted


def test_select_comes_first(lists, pack, tmp_path):
    convert(pack, tmp_path / "x.pbin", "modalities", select="100:200", shuffle=2)
    assert content("modalities", tmp_path / "x.pbin") == shuffled(lists[100:200], 2)


# text


def test_text_is_dealt_out_and_shuffled(tmp_path):
    """Text is tokenized once; the order is that of its lines."""
    lines = CORPUS.read_bytes().splitlines()
    tokfmt.convert(CORPUS, tmp_path / "a.pbin", tokenizer=str(TOKENIZER), split="p=0.5,q=0.5", shuffle=9, verify=True)
    tokfmt.convert(CORPUS, tmp_path / "a.jsonl", split="p=0.5,q=0.5", shuffle=9, verify=True)
    for split, wanted in zip("pq", dealt(lines, (0.5, 0.5), 0), strict=True):
        copied = (tmp_path / f"a.{split}.jsonl").read_bytes().splitlines()
        assert copied == shuffled(wanted, 9)
        tokfmt.convert(tmp_path / f"a.{split}.jsonl", tmp_path / f"b.{split}.pbin", tokenizer=str(TOKENIZER))
        assert (
            tokfmt.open(tmp_path / f"b.{split}.pbin")[:].tolist()
            == tokfmt.open(tmp_path / f"a.{split}.pbin")[:].tolist()
        )


def test_lines_stay_as_they_are(tmp_path):
    """Spaces, other fields, CRLF, no final newline, invalid lines left out, selections, several files."""
    (tmp_path / "a.jsonl").write_bytes(b'{"text":  "one", "id": 1}\r\n{"text": "two"}\n{broken\n{"text": "\\u2028"}')
    (tmp_path / "b.jsonl").write_bytes('{"text": "\u2028 four"}\n{"text": ""}\n'.encode())
    tokfmt.convert(
        [tmp_path / "a.jsonl", tmp_path / "b.jsonl"],
        tmp_path / "plain.jsonl",
        allow_loss=["invalid-lines"],
        select="1:",
    )
    done = tokfmt.convert(
        [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out.jsonl", allow_loss=["invalid-lines"], select="1:",
        shuffle=3, verify=True,
    )  # fmt: skip
    plain = (tmp_path / "plain.jsonl").read_bytes().split(b"\n")[:-1]
    assert (tmp_path / "out.jsonl").read_bytes().split(b"\n")[:-1] == shuffled(plain, 3)
    invalid = "1 invalid line (a.jsonl: line 3 is not valid JSON (expecting property name enclosed in double quotes) at byte 44)"
    assert (done.sequences, done.tokens, done.losses) == (4, None, {"invalid-lines": invalid})


@pytest.mark.usefixtures("kept_workers")
def test_many_lines_in_any_way(tmp_path):
    lines = [json.dumps({"text": "x" * (i % 97), "n": i}).encode() for i in range(5000)]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    found = set()
    for number, executor in enumerate(("serial", "threads", "processes")):
        tokfmt.convert(tmp_path / "in.jsonl", tmp_path / f"{number}.jsonl", shuffle=1, executor=executor, jobs=2)
        found.add((tmp_path / f"{number}.jsonl").read_bytes())
    assert found == {b"\n".join(shuffled(lines, 1)) + b"\n"}


token = st.integers(0, 9)
document = st.lists(token, max_size=3) | st.lists(token, min_size=60, max_size=70)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(document, min_size=1, max_size=30),
    st.integers(0, 2**64 - 1),
    st.sampled_from([None, 7]),
    st.sampled_from([(1, np.uint8), (3, np.uint32)]),
)
def test_equal_documents_are_in_one_split(documents, seed, shuffle, how):
    """Whatever the shuffle, the dtype and the workers; no document of one split equals one of another."""
    jobs, dtype = how
    with tempfile.TemporaryDirectory() as home:
        tokens = np.array([token for one in documents for token in one], dtype)
        np.savez(f"{home}/in.npz", tokens=tokens, offsets=np.cumsum([0, *map(len, documents)]))
        done = tokfmt.convert(
            f"{home}/in.npz", f"{home}/x.pbin", split="a=0.6,b=0.4", split_by="content", seed=seed, shuffle=shuffle,
            jobs=jobs, to_eos=EOS, executor="threads", manifest=False,
        )  # fmt: skip
        parts = [content("modalities", split["destination"]) for split in done.splits.values()]
    assert not set(map(tuple, parts[0])) & set(map(tuple, parts[1]))
    wanted = by_content(documents, [0.6, 0.4], seed)
    assert parts == wanted if shuffle is None else list(map(sorted, parts)) == list(map(sorted, wanted))


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_equal_texts_are_in_one_split_whatever_their_other_fields(name, tmp_path):
    texts = [f"text {k % 300}" for k in range(900)]
    lines = [{"id": k, "text": text, "more": "x" * (k % 7)} for k, text in enumerate(texts)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    how = {"split": "a=0.9,b=0.1", "split_by": "content", "seed": 3}
    done = tokfmt.convert(tmp_path / "in.jsonl", tmp_path / name, verify=True, resume=True, **how)
    unpacked = gzip.decompress if name.endswith(".gz") else bytes
    files = [Path(split["destination"]).read_bytes() for split in done.splits.values()]
    parts = [list(map(json.loads, unpacked(file).splitlines())) for file in files]
    assert [[line["text"] for line in part] for part in parts] == by_content(texts, [0.9, 0.1], 3)
    assert sorted((line for part in parts for line in part), key=lambda line: line["id"]) == lines
    assert any("equal sequences are in the same split" in note for note in done.notes)
    manifest = json.loads((tmp_path / f"{name.replace('x.', 'x.b.')}.tokfmt.json").read_bytes())
    assert manifest["split"] == {"shares": {"a": 0.9, "b": 0.1}, "seed": 3, "by": "content"}
    assert {split["sequences"] for split in done.splits.values()} == {len(part) for part in parts}
    with pytest.raises(OptionError, match="split-by: nothing is dealt out"):
        tokfmt.convert(tmp_path / "in.jsonl", tmp_path / "y.jsonl", split_by="content")
