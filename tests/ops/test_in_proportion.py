"""What is asked for decides what is read: `show` and `open` of a few sequences do not walk the dataset."""

import gzip
import json

import numpy as np
import pytest
import xxhash
from amount import FUZZ_ONLY
from commands import run
from paths import TOKENIZER
from reads import asked_of

import tokfmt
from tokfmt import show

COUNT = 30_000  # 15 MB


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    home = tmp_path_factory.mktemp("corpus")
    lines = [json.dumps({"text": f"document {i} of many " + "x" * (i % 900), "id": i}) + "\n" for i in range(COUNT)]
    (home / "c.jsonl").write_text("".join(lines))
    (home / "c.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode(), 1))
    (home / "parts").mkdir()
    for k in range(10):
        (home / "parts" / f"p{k}.jsonl").write_text("".join(lines[k * COUNT // 10 : (k + 1) * COUNT // 10]))
    return home


def texts_of(preview):
    return [shown.text for shown in preview.shown]


@pytest.mark.parametrize("name", ["c.jsonl", "c.jsonl.gz", "parts"])
@pytest.mark.parametrize("tokenizer", [None, str(TOKENIZER)])
@pytest.mark.parametrize(("selection", "numbers"), [("0", [0]), (None, range(5)), ("7:9", [7, 8]), ("400", [400])])
def test_the_first_sequences_of_text(corpus, name, tokenizer, selection, numbers):
    with asked_of(corpus) as asked:
        found = texts_of(show(corpus / name, selection, tokenizer=tokenizer))
    assert found == [f"document {i} of many " + "x" * (i % 900) for i in numbers]
    if name != "c.jsonl.gz":  # whose pieces are what the library gives
        assert asked.bytes_of() < 1_000_000 * (1 + len(numbers))  # a few pieces of 256 KiB for each, of 15 MB


def test_what_counts_from_the_end_needs_all(corpus):
    assert texts_of(show(corpus / "c.jsonl", "-1", tokenizer=str(TOKENIZER)))[0].startswith(f"document {COUNT - 1} ")
    assert show(corpus / "c.jsonl", "-1").sequences == COUNT


def test_open_takes_another_field(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"body": "some text", "id": 1}\n')
    with tokfmt.open(tmp_path / "x.jsonl", tokenizer=str(TOKENIZER), text_field="body") as dataset:
        assert len(dataset[0])


def test_the_command_says_no_number_it_did_not_count(tmp_path):
    (tmp_path / "x.jsonl").write_text((json.dumps({"text": "y" * 1000}) + "\n") * 6000)
    done = run("show", tmp_path / "x.jsonl", "1", check=0)
    assert done.stderr.startswith(f"{tmp_path}/x.jsonl: jsonl (")
    assert "records" not in done.stderr


@FUZZ_ONLY
def test_a_source_of_any_size_has_a_checksum(tmp_path):
    source, out = tmp_path / "stage1_block_0000.bin", tmp_path / "out.pbin"
    tokens = np.random.default_rng(1).integers(0, 50_000, 2100 * 8192, np.int32)
    tokens[::500] = 50256
    tokens.tofile(source)
    with asked_of(tmp_path) as asked:
        tokfmt.convert(source, out, eos=50256, jobs=2)
    stated = json.loads((tmp_path / "out.pbin.tokfmt.json").read_bytes())["sources"][0]
    assert stated["xxh3_128"] == xxhash.xxh3_128(source.read_bytes()).hexdigest()
    # once for the separators, once for the tokens, once for the checksum
    assert asked.bytes_of(source.name) <= 3.1 * source.stat().st_size
