"""What a recipe leaves out, listed: the file, record and byte of each text, and of equal ones the twin that was kept."""

import codecs
import gzip
import json
import random
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from paths import TOKENIZER

import tokfmt

WORDS = 3  # that a text has at least
QUOTA = 150
INVALID = "\ud800"
"""What makes a line invalid, which is left out and counts as no record."""
DROP = ("invalid-lines", "fields")
PATHS = {
    "plain": '["one.jsonl", "t*.jsonl"]',
    "gz": '"x.jsonl.gz"',
    "zst": '"sub"',
    "rows": '"rows.parquet"',
    "book": '"book.txt"\noptions = { separator = "<|endoftext|>" }',
    "some": f'"some.jsonl"\ntokens = {QUOTA}',
    "part": '"some.jsonl"\nselect = "30:90"',
}


def packed(texts, end="\n", mark=b""):
    """A file of JSON lines, and at which byte each line begins; the first before its byte order mark."""
    encoded = [json.dumps({"text": text}).encode() + end.encode() for text in texts]
    begins = list(accumulate(map(len, encoded[:-1]), initial=len(mark)))
    return mark + b"".join(encoded), [0, *begins[1:]]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Files of every kind; of each source the file, record, byte and text of its records, in order."""
    home, draw = tmp_path_factory.mktemp("rejects"), random.Random(11)
    pool = [" ".join(draw.choice("abcdefgh") for _ in range(draw.randrange(1, 9))) for _ in range(300)] + [INVALID]
    # blank lines are no records
    plain = {"one": ("\n", codecs.BOM_UTF8), "three": ("\r\n", b""), "two": ("\n\n", b"")}
    sources = {name: [] for name in PATHS}

    def add(source, file, texts, begins):
        valid = [one for one in zip(begins, texts, strict=True) if one[1] != INVALID]
        sources[source] += [(file, record, begin, text) for record, (begin, text) in enumerate(valid)]

    for name, how in plain.items():
        texts = draw.choices(pool, k=60)
        data, begins = packed(texts, *how)
        (home / f"{name}.jsonl").write_bytes(data)
        add("plain", f"{name}.jsonl", texts, begins)
    (home / "sub").mkdir()
    compressed = {"gz": ("x.jsonl.gz", gzip.compress), "zst": ("sub/y.jsonl.zst", zstandard.compress)}
    for name, (file, compress) in compressed.items():
        texts = draw.choices(pool, k=70)
        data, begins = packed(texts)
        (home / file).write_bytes(compress(data))
        add(name, file, texts, begins)
    texts = draw.choices(pool[:-1], k=50)
    pq.write_table(pa.table({"text": texts}), home / "rows.parquet", row_group_size=16)
    add("rows", "rows.parquet", texts, [None] * len(texts))
    texts = [f"{text}\n" for text in draw.choices(pool[:-1], k=20)] * 2
    (home / "book.txt").write_text("<|endoftext|>\n".join(texts))
    add("book", "book.txt", texts, accumulate((len(text) + 14 for text in texts[:-1]), initial=0))
    texts = draw.choices(pool, k=400)
    data, begins = packed(texts)
    (home / "some.jsonl").write_bytes(data)
    add("some", "some.jsonl", texts, begins)
    sources["part"] = sources["some"][30:90]
    return home, sources


def written(home, path=None, **keys):
    keys = {"tokenizer": json.dumps(str(TOKENIZER)), "dedup": '"exact"', "seed": 3, **keys}
    found = ["tokfmt = 1", *(f"{key} = {value}" for key, value in keys.items()), f"[filter.short]\nmin_words = {WORDS}"]
    for name, said in PATHS.items():
        named = said if path is None else said.replace('"some.jsonl"', json.dumps(str(path)))
        found.append(f'[[source]]\nname = "{name}"\nfilter = "short"\npath = {named}')
    (home / "mix.toml").write_text("\n".join(found) + "\n")
    return home / "mix.toml"


def listed(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_path_that_the_recipe_has_as_absolute_stays_absolute(corpora, tmp_path):
    home, sources = corpora
    tokfmt.convert(
        written(home, home / "some.jsonl"), tmp_path / "a.pbin", rejects=tmp_path / "out.jsonl", allow_loss=DROP
    )
    files = {line["source"]: line["file"] for line in listed(tmp_path / "out.jsonl")}
    assert files == {name: records[-1][0] for name, records in sources.items()} | {
        "some": str(home / "some.jsonl"), "part": str(home / "some.jsonl"),
    }  # fmt: skip
