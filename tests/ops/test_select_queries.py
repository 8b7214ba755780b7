"""`convert --select` with queries: what is taken, and what --rejects lists, against plain Python."""

import json
import tempfile
from pathlib import Path

import pytest
from amount import examples
from commands import run
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import TOKENIZER
from tokenizers import Tokenizer

import tokfmt
from tokfmt.errors import OptionError

PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
LISTS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=9), min_size=1, max_size=8)
QUERIES = {
    "len>=3": lambda i, ids, all_: len(ids) >= 3,
    "1<len<4": lambda i, ids, all_: 1 < len(ids) < 4,
    "token:2,3": lambda i, ids, all_: (2, 3) in zip(ids, ids[1:], strict=False),
    "any:0,4": lambda i, ids, all_: bool({0, 4} & set(ids)),
    "first:1": lambda i, ids, all_: ids[0] == 1,
    "last:1": lambda i, ids, all_: ids[-1] == 1,
    "same:0": lambda i, ids, all_: ids == all_[0],
    "0,2:4,99": lambda i, ids, all_: i in (0, 2, 3),
    "not 1<len<4": lambda i, ids, all_: not 1 < len(ids) < 4,
    "not token:2,3": lambda i, ids, all_: (2, 3) not in zip(ids, ids[1:], strict=False),
    "not last:1": lambda i, ids, all_: ids[-1] != 1,
    "not same:0": lambda i, ids, all_: ids != all_[0],
    "not 0,2:4,99": lambda i, ids, all_: i not in (0, 2, 3),
    "not 1:3": lambda i, ids, all_: i not in (1, 2),
}


def written(path, sequences):
    path.write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in sequences))


def ids_of(path):
    return [
        next(value for value in json.loads(line).values() if isinstance(value, list))
        for line in path.read_text().splitlines()
    ]


@settings(max_examples=examples(60), deadline=None)
@given(LISTS, LISTS, st.sampled_from(sorted(QUERIES)), st.booleans())
def test_a_query_takes_what_it_says_of_all_sources(first, second, query, is_lines):
    with tempfile.TemporaryDirectory() as folder:
        home, sequences = Path(folder), first + second
        written(home / "a.jsonl", first)
        written(home / "b.jsonl", second)
        sources = [home / "a.jsonl", home / "b.jsonl"]
        if not is_lines or "same" in query:  # lines are compared within one file
            tokfmt.convert(sources, home / "joined_document.bin", to_eos=9)
            sources = [home / "joined_document.bin"]
        out, rest = home / "out.jsonl", home / "rest.jsonl"
        done = tokfmt.convert(sources, out, select=query, rejects=rest)
        taken = [QUERIES[query](i, ids, sequences) for i, ids in enumerate(sequences)]
        assert ids_of(out) == [ids for ids, is_taken in zip(sequences, taken, strict=True) if is_taken]
        assert ids_of(rest) == [ids for ids, is_taken in zip(sequences, taken, strict=True) if not is_taken]
        assert done.sequences == sum(taken)
        if not all(taken):
            with tokfmt.open(rest) as left_out:
                assert [ids.tolist() for ids in left_out] == ids_of(rest)


def test_lines_are_copied_as_they_are_and_the_others_are_listed_so(tmp_path):
    lines = [json.dumps({"text": f"{word} {i}", "id": i}) for i, word in enumerate(["cat", "dog", "cat", "bird"])]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    run("convert", "a.jsonl", "b.jsonl", "--select", "not regex:b|d", "--rejects", "c.jsonl", cwd=tmp_path, check=0)
    assert (tmp_path / "b.jsonl").read_text().splitlines() == [lines[0], lines[2]]
    assert (tmp_path / "c.jsonl").read_text().splitlines() == [lines[1], lines[3]]


def test_splits_and_a_shuffle_deal_out_what_was_taken(tmp_path):
    texts = [f"text {i}" for i in range(40)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for by in ("number", "content"):
        shares = {"select": "seq:0:30", "split": "train=0.5,valid=0.5", "split_by": by, "seed": 3, "shuffle": 1}
        tokfmt.convert(tmp_path / "a.jsonl", tmp_path / f"{by}.jsonl", **shares)
        lines = [line for path in tmp_path.glob(f"{by}*.jsonl") for line in path.read_text().splitlines()]
        dealt = [json.loads(line)["text"] for line in lines]
        assert sorted(dealt) == sorted(texts[:30])


def test_texts_are_found_by_their_words_when_they_are_encoded_and_when_they_were(tmp_path):
    texts = ["a cat sat", "the dog", "a cat again", "bird"]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    coded = {text: PLAIN.encode(text, add_special_tokens=False).ids for text in texts}
    found = [ids for text, ids in coded.items() if "cat" in text]
    tokfmt.convert(
        tmp_path / "a.jsonl",
        tmp_path / "b.jsonl",
        tokenizer=str(TOKENIZER),
        select="text:cat",
        to_options={"ids_field": "ids"},
    )
    tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "all.pbin", tokenizer=str(TOKENIZER))
    done = tokfmt.convert(tmp_path / "all.pbin", tmp_path / "c.jsonl", select="text:cat")
    assert any(f"--tokenizer {TOKENIZER} writes their text" in note for note in done.notes)
    assert ids_of(tmp_path / "c.jsonl") == found
    tokfmt.convert(tmp_path / "all.pbin", tmp_path / "d.jsonl", select="not regex:c.t")
    assert ids_of(tmp_path / "d.jsonl") == [ids for text, ids in coded.items() if "cat" not in text]
    assert [one.index for one in tokfmt.show(tmp_path / "all.pbin", "not regex:c.t").shown] == [1, 3]


def test_numbers_of_python_are_a_selection(tmp_path):
    written(tmp_path / "a.jsonl", [[1], [2], [3], [4]])
    tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", select=[3, 0])
    assert ids_of(tmp_path / "b.jsonl") == [[1], [4]]


def test_a_number_with_a_comma_is_not_guessed(tmp_path):
    written(tmp_path / "a.jsonl", [[1]])
    with pytest.raises(OptionError):
        tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", select="1,234")
    assert not (tmp_path / "b.jsonl").exists()


def test_rejects_needs_something_that_leaves_out(tmp_path):
    written(tmp_path / "a.jsonl", [[1], [2]])
    done = run("convert", "a.jsonl", "b.jsonl", "--select", "0:1", "--rejects", "c.jsonl", cwd=tmp_path, check=2)
    assert "--select" in done.stderr
