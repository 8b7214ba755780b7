"""Filters by the number of tokens, of texts and of token IDs, against plain Python."""

import json
from collections import Counter

import pytest
from amount import examples
from commands import run
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import TOKENIZER
from tokenizers import Tokenizer

import tokfmt

PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
LISTS = st.lists(st.lists(st.integers(1, 3), min_size=0, max_size=8), min_size=1, max_size=12)


def recipe(home, rules, *, source="", top=""):
    (home / "mix.toml").write_text(
        f'tokfmt = 1\nto_eos = 9\n{top}[[source]]\nname = "a"\npath = "a.jsonl"\nfilter = "some"\n{source}'
        f"[filter.some]\n{rules}\n"
    )
    return home / "mix.toml"


def of_ids(path, sequences):
    path.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in sequences))


@settings(max_examples=examples(50), deadline=None)
@given(LISTS, st.integers(0, 6), st.integers(0, 8), st.booleans())
def test_sequences_of_ids_are_kept_by_their_length(tmp_path_factory, sequences, low, high, is_distinct):
    home = tmp_path_factory.mktemp("filter")
    of_ids(home / "a.jsonl", sequences)
    top = 'dedup = "exact"\n' if is_distinct else ""
    mix = recipe(home, f"min_tokens = {low}\nmax_tokens = {high}", top=top)
    done = tokfmt.convert(mix, home / "out.jsonl", rejects=home / "rest.jsonl")
    found = [json.loads(line)["input_ids"] for line in (home / "out.jsonl").read_text().splitlines()]
    listed = [json.loads(line) for line in (home / "rest.jsonl").read_text().splitlines()]
    out = {one["record"]: one for one in listed}
    assert found == [ids for number, ids in enumerate(sequences) if number not in out]
    assert done.sequences == len(found) and list(out) == sorted(out)
    fitting = Counter(tuple(ids) for ids in sequences if low <= len(ids) <= high)
    # The seed decides which of several equal sequences is kept.
    assert Counter(map(tuple, found)) == (Counter(set(fitting)) if is_distinct else fitting)
    for number, one in out.items():
        size = len(sequences[number])
        rule = "min_tokens" if size < low else "max_tokens" if size > high else "exact"
        assert (one["rule"], one["input_ids"]) == (rule, sequences[number])
    assert all(one["value"] == len(one["input_ids"]) for one in listed if one["rule"] != "exact")
    rows = [row for row in done.prepared if row["rejected"]]
    assert all(part["characters"] is row["characters"] is None for row in rows for part in row["rejected"].values())
    if listed:
        with tokfmt.open(home / "rest.jsonl") as left_out:
            assert [ids.tolist() for ids in left_out] == [one["input_ids"] for one in listed]


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_texts_are_kept_by_the_number_of_their_tokens(tmp_path, executor):
    texts = [" ".join(["word"] * count) for count in (1, 5, 9, 2, 30, 7)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    ids = [PLAIN.encode(text, add_special_tokens=False).ids for text in texts]
    low, high = sorted(map(len, ids))[1], sorted(map(len, ids))[-2]
    mix = recipe(
        tmp_path, f"min_words = 2\nmin_tokens = {low}\nmax_tokens = {high}", top=f'tokenizer = "{TOKENIZER}"\n'
    )
    tokfmt.convert(mix, tmp_path / "out.jsonl", rejects=tmp_path / "rest.jsonl", executor=executor)
    found = [json.loads(line)["input_ids"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert found == [one for one, text in zip(ids, texts, strict=True) if low <= len(one) <= high and " " in text]
    rest = [json.loads(line) for line in (tmp_path / "rest.jsonl").read_text().splitlines()]
    assert [(one["text"], one["rule"]) for one in rest] == [(texts[0], "min_words"), (texts[4], "max_tokens")]


def test_a_quota_counts_what_passes(tmp_path):
    of_ids(tmp_path / "a.jsonl", [[1] * (1 + k % 5) for k in range(200)])
    mix = recipe(tmp_path, "min_tokens = 4", source="tokens = 100\n")
    done = tokfmt.convert(mix, tmp_path / "out.jsonl")
    found = [json.loads(line)["input_ids"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert min(map(len, found)) == 4 and 95 <= done.tokens <= 100


def test_rules_on_text_are_refused_for_ids(tmp_path):
    of_ids(tmp_path / "a.jsonl", [[1]])
    done = run("convert", recipe(tmp_path, "min_tokens = 1\nmin_words = 2"), tmp_path / "out.jsonl")
    assert done.returncode == 2 and "min_tokens" in done.stderr
