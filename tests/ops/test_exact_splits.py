"""Splits of exact size, in percent and by Megatron-LM's weights, against counts by hand."""

import json
import tempfile
from pathlib import Path

import pytest
from amount import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tokfmt
from tokfmt.errors import OptionError

LISTS = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=3, max_size=30)


def source_of(home, sequences):
    (home / "a.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in sequences))
    return home / "a.jsonl"


def split(source, suffix, words, **how):
    """The sequences of each split."""
    out = source.with_name(f"out{suffix}")
    tokfmt.convert(source, out, split=words, to_eos=0 if suffix != ".jsonl" else None, **how)
    found = {}
    for path in sorted(source.parent.glob(f"out.*{suffix}")):
        with tokfmt.open(path, eos=0 if suffix != ".jsonl" else None) as dataset:
            found[path.name.split(".")[1]] = [ids.tolist() for ids in dataset]
    return found


@settings(max_examples=examples(40), deadline=None)
@given(LISTS, st.integers(1, 9), st.integers(1, 9), st.sampled_from([".npy", ".jsonl", ".pbin"]), st.integers(0, 5))
def test_exact_numbers_of_sequences(sequences, valid, test, suffix, seed):
    assume(valid + test < len(sequences))
    with tempfile.TemporaryDirectory() as folder:
        source = source_of(Path(folder), sequences)
        found = split(source, suffix, f"train=rest,valid={valid},test={test}", seed=seed)
        assert {name: len(one) for name, one in found.items()} == {
            "train": len(sequences) - valid - test, "valid": valid, "test": test,
        }  # fmt: skip
        assert sorted(sum(found.values(), [])) == sorted(sequences)


@settings(max_examples=examples(40), deadline=None)
@given(LISTS, st.integers(1, 20))
def test_at_least_so_many_tokens_and_less_than_a_sequence_more(sequences, tokens):
    assume(tokens < sum(map(len, sequences[:-1])) - 6)
    with tempfile.TemporaryDirectory() as folder:
        found = split(source_of(Path(folder), sequences), ".npy", f"train=rest,valid={tokens} tokens")
        lengths = [len(ids) for ids in found["valid"]]
        assert sum(lengths) >= tokens and sum(lengths) - max(lengths) < tokens
        assert sorted(sum(found.values(), [])) == sorted(sequences)


def test_a_split_does_not_depend_on_the_format(tmp_path):
    sequences = [[i, i + 1] for i in range(1, 40)]
    found = [
        split(source_of(tmp_path, sequences), suffix, "train=rest,valid=7") for suffix in (".npy", ".pbin", ".jsonl")
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("98,1,1", "train=0.98,valid=0.01,test=0.01"),
        ("90,10", "train=0.9,valid=0.1"),
        ("9,1,0", "train=0.9,valid=0.1"),
        ("train=90%,valid=10%", "train=0.9,valid=0.1"),
        ("train=rest,valid=0.1", "train=0.9,valid=0.1"),
        ("train=rest,valid=10%", "train=0.9,valid=0.1"),
    ],
)
def test_other_ways_to_write_shares(words, same, tmp_path):
    source = source_of(tmp_path, [[i, i + 1] for i in range(1, 60)])
    first = split(source, ".npy", words)
    for path in tmp_path.glob("out.*"):
        path.unlink()
    assert first == split(source, ".npy", same)


@pytest.mark.parametrize(
    ("words", "how"),
    [
        ("train=98,valid=1,test=1", {}),
        ("train=0.98,valid=5,test=5", {}),
        ("train=rest,valid=rest", {}),
        ("train=rest,valid=30", {}),
        ("train=rest,valid=5,test=10%", {}),
        ("train=5,valid=1 tokens", {}),
        ("train=rest,valid=5", {"split_by": "content"}),
        ("0,0", {}),
    ],
)
def test_what_cannot_be_meant_is_refused(words, how, tmp_path):
    with pytest.raises(OptionError):
        split(source_of(tmp_path, [[i] for i in range(1, 20)]), ".npy", words, **how)
    assert not list(tmp_path.glob("out*"))


def test_numbers_beside_a_share_are_refused_with_the_split_that_gets_the_rest(tmp_path):
    with pytest.raises(OptionError, match="train=rest,valid=5"):
        split(source_of(tmp_path, [[i] for i in range(1, 20)]), ".npy", "train=0.98,valid=5,test=5")
