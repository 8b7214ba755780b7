"""A dataset compared with several, changed sequences that are paired by likeness, and the list of all differences."""

import json
import random

import pytest
from amount import examples
from commands import run
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import TOKENIZER

import tokfmt
from tokfmt.errors import TokfmtError

LISTS = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=5), min_size=1, max_size=6)


def of_ids(path, sequences):
    path.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in sequences))
    return path


def of_texts(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@settings(max_examples=examples(40), deadline=None)
@given(LISTS, LISTS, LISTS, st.booleans())
def test_several_are_compared_as_if_they_were_joined(tmp_path_factory, first, second, other, ignore_order):
    home = tmp_path_factory.mktemp("diff")
    one, two = of_ids(home / "1.jsonl", first), of_ids(home / "2.jsonl", second)
    if len(first) % 2:
        tokfmt.convert(one, home / "1_document.bin", to_eos=9)
        one = home / "1_document.bin"
    both, a = of_ids(home / "both.jsonl", first + second), of_ids(home / "a.jsonl", other)
    joined, apart = (tokfmt.diff(a, b, ignore_order=ignore_order) for b in (both, [one, two]))
    assert (joined.identical, joined.counts, joined.differences) == (apart.identical, apart.counts, apart.differences)
    assert joined.surplus == apart.surplus
    assert tokfmt.diff(both, [one, two], ignore_order=ignore_order).identical


def test_splits_of_a_text_are_compared_with_it(tmp_path):
    texts = [f"text number {number} of many" for number in range(60)]
    of_texts(tmp_path / "all.jsonl", texts)
    how = ("--tokenizer", TOKENIZER)
    run("convert", "all.jsonl", "out.bin", "--to", "megatron", "--split", "80,10,10", *how, cwd=tmp_path, check=0)
    splits = [f"out.{name}.bin" for name in ("train", "valid", "test")]
    run("diff", "all.jsonl", *splits, "--ignore-order", *how, cwd=tmp_path, check=0)
    run("diff", "all.jsonl", "out.*.bin", "--ignore-order", *how, cwd=tmp_path, check=0)
    run("diff", "all.jsonl", *splits[:2], "--ignore-order", *how, cwd=tmp_path, check=1)


def test_changed_documents_are_paired_and_listed_with_their_text(tmp_path):
    draw = random.Random(4)
    texts = [" ".join(f"w{draw.randrange(400)}" for _ in range(30)) for _ in range(50)]
    changed = list(texts)
    changed[7] = changed[7].replace("w", "v", 3)
    changed[20] += " and an end"
    del changed[33]
    draw.shuffle(changed)
    new = "nothing like any other text in here at all"
    of_texts(tmp_path / "a.jsonl", texts)
    of_texts(tmp_path / "b.jsonl", [*changed, new])
    done = run("diff", "a.jsonl", "b.jsonl", "--ignore-order", "--json", "--output", "all.jsonl", cwd=tmp_path, check=1)
    report = json.loads(done.stdout)
    assert report["counts"] == {"changed": 2, "only_in_a": 1, "only_in_b": 1}
    assert [one["a"] for one in report["differences"]] == [7, 20] and min(report["likeness"]) > 0.5
    listed = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [one["a_text"] for one in listed if one["kind"] == "changed"] == [texts[7], texts[20]]
    assert [one["a_text"] for one in listed if one["kind"] == "only_in_a"] == [texts[33]]
    assert [one["b_text"] for one in listed if one["kind"] == "only_in_b"] == [new]


def test_all_differences_in_order_are_listed_with_their_ids(tmp_path):
    a = of_ids(tmp_path / "a.jsonl", [[i, i + 1] for i in range(40)])
    b = of_ids(tmp_path / "b.jsonl", [[i, i + 1 + (i % 2)] for i in range(40)])
    report = tokfmt.diff(a, b, limit=3, output=tmp_path / "all.jsonl")
    listed = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert len(listed) == 20 == report.more + 3
    assert listed[0] == {"kind": "changed", "a": 1, "b": 1, "a_ids": [1, 2], "b_ids": [1, 3]}
    tokfmt.diff(a, b, output=tmp_path / "all.jsonl")  # an older list is replaced
    (tmp_path / "notes.jsonl").write_text("mine\n")
    with pytest.raises(TokfmtError):
        tokfmt.diff(a, b, output=tmp_path / "notes.jsonl")
    assert (tmp_path / "notes.jsonl").read_text() == "mine\n"
