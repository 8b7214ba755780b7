"""diff: what differs is found, named and located; what is the same is the same in every format."""

import json
from collections import Counter

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_tokenizers import llama3_like
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.core.reader import WINDOW
from tokfmt.errors import OptionError

PACKS = FIXTURES / "modalities"


def differ(a, b, eos=None, split=None, **how):
    return tokfmt.diff(a, b, eos=eos, split=split, **how)


GOLDENS = [
    "modalities/A_2byte_gpt2.pbin",
    "modalities/B_1byte_byte256.pbin",
    "modalities/C_2byte_gpt2.pbin",
    "modalities/D_4byte_wide.pbin",
    "modalities/D_2byte_gpt2.pbin",
    "flat-tokens/empties.zarr",
    "flat-tokens/multi_chunk.zarr",
    "hdf5/corpus_uint16",
    "stage1/blocks",
]


@pytest.mark.parametrize("golden", GOLDENS)
def test_conversions_are_identical(tmp_path, golden):
    source = FIXTURES / golden
    eos = 50256 if golden.startswith("hdf5") else 2**30 if golden.startswith("flat-tokens") else None
    if golden.startswith("modalities"):
        eos = json.loads((PACKS / "expected.json").read_bytes())["pbin"][source.name]["eod_id"]
    split = "train" if golden.startswith("flat-tokens") else None
    for target in ("o.zarr", "o.pbin", "o.jsonl"):
        out = tmp_path / target
        tokfmt.convert(source, out, eos=eos, split=split)
        report = differ(source, out, eos=eos, split=split)
        assert report.identical, report.first
        assert (report.same, report.counts) == (report.a.sequences, {})
        assert differ(out, source, eos=eos, split=split, ignore_order=True).identical


def test_losses_of_conversions_are_refused_by_diff(tmp_path):
    """The option would have no effect: every sequence is compared."""
    with pytest.raises(OptionError, match="--allow-loss empty-sequences: every sequence is compared as it is"):
        tokfmt.diff(CORPUS, CORPUS, allow_loss="empty-sequences")


@pytest.mark.parametrize("target", ["stage1", "o.h5"])
def test_conversions_to_formats_of_separators(tmp_path, target):
    pack, out = tmp_path / "o.pbin", tmp_path / target
    tokfmt.convert(CORPUS, pack, tokenizer=str(TOKENIZER))
    words = {"to_format": "stage1"} if target == "stage1" else {"to_options": {"layout": "corpus"}}
    tokfmt.convert(pack, out, allow_loss=["empty-sequences"], **words)
    report = differ(pack, out)
    assert (report.identical, report.same) == (True, 184)


def test_text_with_text_and_with_ids(tmp_path):
    pack = tmp_path / "o.pbin"
    tokfmt.convert([CORPUS], pack, tokenizer=str(TOKENIZER))
    assert differ(CORPUS, pack, tokenizer=str(TOKENIZER)).identical
    lines = CORPUS.read_text().splitlines()
    record = json.loads(lines[20])
    record["text"] += "x"
    other = tmp_path / "o.jsonl"
    other.write_text("\n".join([*lines[:20], json.dumps(record), *lines[21:]]) + "\n")
    as_text = differ(CORPUS, other)
    assert (as_text.unit, as_text.counts) == ("bytes", {"changed": 1})
    assert as_text.first.values == (None, ord("x"))
    assert as_text.first.position == len(record["text"].encode()) - 1
    as_ids = differ(pack, other, tokenizer=str(TOKENIZER))
    assert as_ids.counts == {"changed": 1}
    assert as_ids.first.b.text.endswith("x")
    by_manifest = differ(pack, other)
    assert (by_manifest.unit, by_manifest.counts) == ("tokens", {"changed": 1})
    assert by_manifest.first.b.text.endswith("x")
    (tmp_path / "o.pbin.tokfmt.json").unlink()
    with pytest.raises(OptionError, match="tokenizer"):
        differ(pack, other)


def test_token_ids_of_two_tokenizers_are_compared_as_text(tmp_path):
    texts = [json.loads(line)["text"] for line in CORPUS.read_text().splitlines()]
    (tmp_path / "less.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[1:]))
    llama3_like().save(str(tmp_path / "other.json"))
    mine, theirs, ids = tmp_path / "mine.pbin", tmp_path / "theirs_document.bin", tmp_path / "ids.jsonl"
    tokfmt.convert(CORPUS, mine, tokenizer=str(TOKENIZER))
    tokfmt.convert(tmp_path / "less.jsonl", theirs, tokenizer=str(tmp_path / "other.json"), to_eos="none")
    tokfmt.convert(theirs, ids)
    for b in (theirs, ids):
        for is_any_order in (False, True):
            report = differ(mine, b, ignore_order=is_any_order, output=tmp_path / "o.jsonl")
            assert (report.unit, report.counts) == ("bytes", {"only_in_a": 1})
            assert any("2 tokenizers" in note and "other.json" in note for note in report.a.notes)
            assert json.loads((tmp_path / "o.jsonl").read_text())["a_text"] == texts[0]
    (tmp_path / "other.json").unlink()
    report = differ(mine, theirs)
    assert report.unit == "tokens" and any("2 tokenizers" in note for note in report.a.notes)


def test_the_manifest_gives_the_text_of_differences(tmp_path):
    tokfmt.convert(CORPUS, tmp_path / "a.pbin", tokenizer=str(TOKENIZER))
    tokfmt.convert(tmp_path / "a.pbin", tmp_path / "b.pbin", select="not 3:4")
    differ(tmp_path / "a.pbin", tmp_path / "b.pbin", output=tmp_path / "o.jsonl")
    text = json.loads(CORPUS.read_text().splitlines()[3])["text"]
    assert json.loads((tmp_path / "o.jsonl").read_text()) == {"kind": "only_in_a", "a": 3, "b": None, "a_text": text}


def test_samples_as_stored(tmp_path):
    source = FIXTURES / "hdf5" / "packed_overlap"
    assert differ(source, source, samples=True).identical
    shuffled = FIXTURES / "hdf5" / "shuffled"
    assert differ(source, shuffled, samples=True).counts.keys() <= {"moved", "swapped"}
    with pytest.raises(OptionError, match="samples"):
        differ(PACKS / "D_2byte_gpt2.pbin", source, samples=True)
    with pytest.raises(OptionError, match="ignore"):
        differ(source, source, samples=True, ignore_order=True)


def test_order_ignored():
    a, b = PACKS / "D_2byte_gpt2.pbin", PACKS / "D_2byte_gpt2_shuffled_seed7.pbin"
    assert differ(a, b, eos=50256, ignore_order=True).identical
    assert not differ(a, b, eos=50256).identical
    report = differ(a, PACKS / "D_2byte_gpt2_filtered_mod3.pbin", eos=50256, ignore_order=True, limit=3)
    assert (report.counts, report.surplus[0].examples) == ({"only_in_a": 28}, (1, 2, 4))


def longest_common(a, b):
    """Length of a longest common subsequence, by the book."""
    row = [0] * (len(b) + 1)
    for x in a:
        before, row = row, [0]
        for k, y in enumerate(b):
            row.append(before[k] + 1 if x == y else max(before[k + 1], row[k]))
    return row[-1]


ROWS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=12)


@settings(max_examples=examples(150), deadline=None)
@given(ROWS, ROWS, st.booleans())
def test_the_counts_are_those_of_a_longest_common_subsequence(tmp_path_factory, a, b, edited):
    """What stays in its place is a longest common subsequence; what both hold besides has moved."""
    b = [*a[: len(a) // 2], *b[:2], *a[len(a) // 2 + 1 :]] if edited else b
    home = tmp_path_factory.mktemp("diff")
    for name, rows in (("a", a), ("b", b)):
        (home / f"{name}.jsonl").write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in rows))
    found = differ(home / "a.jsonl", home / "b.jsonl", limit=0)
    counts = Counter(found.counts)
    both = sum((Counter(map(tuple, a)) & Counter(map(tuple, b))).values())
    elsewhere = both - longest_common(a, b)  # of a pair that is swapped one has moved, or both
    assert counts["moved"] + counts["swapped"] <= elsewhere <= counts["moved"] + 2 * counts["swapped"]
    assert counts["changed"] + counts["only_in_a"] + 2 * counts["swapped"] + counts["moved"] + found.same == len(a)
    assert counts["changed"] + counts["only_in_b"] + 2 * counts["swapped"] + counts["moved"] + found.same == len(b)
    assert found.identical == (a == b)


@pytest.mark.parametrize(
    ("order", "counts"),
    [
        ([0, 2, 1, 3, 4, 5, 6, 7], {"swapped": 1}),
        ([0, 2, 1, 3, 5, 4, 6, 7], {"swapped": 2}),
        ([0, 6, 2, 3, 4, 5, 1, 7], {"swapped": 1}),
        ([0, 2, 1, 3, 7, 5, 6, 4], {"swapped": 2}),
        ([0, 3, 1, 2, 4, 5, 6, 7], {"moved": 1}),
        ([1, 0, 2, 4, 5, 6, 7, 3], {"swapped": 1, "moved": 1}),
        ([0, 2, 1, 3, 4, 9, 6, 7], {"swapped": 1, "changed": 1}),
    ],
)
def test_what_changed_places_is_swapped_or_moved(order, counts, tmp_path):
    for name, rows in (("a", range(8)), ("b", order)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"input_ids": [row, 7]}) + "\n" for row in rows))
    found = differ(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert found.counts == counts
    assert found.same == 8 - 2 * counts.get("swapped", 0) - counts.get("moved", 0) - counts.get("changed", 0)


def test_many_sequences_that_differ_far_apart(tmp_path):
    """More than are compared at once: some are gone, some are new, one has moved by thousands of places."""
    rows = [[k, k % 7] for k in range(70_000)]
    other = rows.copy()
    del other[60_000:60_003]
    other[65_000] = [1, 2, 3]
    other.insert(100, other.pop(30_000))
    for name, some in (("a", rows), ("b", other)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in some))
    found = differ(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert Counter(found.counts) == Counter({"only_in_a": 3, "changed": 1, "moved": 1})
    assert not found.identical


@pytest.mark.parametrize("jobs", [1, 2])
def test_long_sequences_that_differ(tmp_path, jobs):
    """The first difference is looked for by the same threads that compared: they must still be there."""
    long = np.arange(4 * WINDOW + 100_000) % 50_000
    for name, odd in (("a", 1), ("b", 2)):
        long[[-7, -1]] = odd, 50_256
        long.astype("<u2").tofile(tmp_path / f"{name}.npy")
    how = {"format": "olmo", "options": {"width": 2}, "eos": 50_256}
    report = tokfmt.diff(tmp_path / "a.npy", tmp_path / "b.npy", jobs=jobs, **how)
    assert (report.counts, report.first.position, report.first.values) == ({"changed": 1}, len(long) - 7, (1, 2))
