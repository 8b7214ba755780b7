"""What a recipe leaves out, listed: the file, record and byte of each text, and of equal ones the twin that was kept."""

import codecs
import gzip
import json
import random
import shutil
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from commands import run
from finishing import finish
from paths import TOKENIZER
from tokenizers import Tokenizer

import tokfmt

WORDS = 3  # that a text has at least
QUOTA = 150
PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
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


def expected(sources, seed):
    """The lines, worked out document by document."""
    kept, found = {}, []
    for name, records in sources.items():
        keys = np.random.Philox(key=34 << 64 | seed, counter=0).random_raw(len(records))
        left, out = QUOTA if name == "some" else 10**9, {}
        for number in np.argsort(keys, kind="stable").tolist():
            file, record, byte, text = records[number]
            about = {"source": name, "file": file, "record": record, "byte_offset": byte}
            if len(text.split()) < WORDS:
                value = len(text.split())
                out[number] = about | {"filter": "short", "rule": "min_words", "value": value, "twin": None}
            elif text in kept:
                out[number] = about | {"filter": "dedup", "rule": "exact", "value": None, "twin": kept[text]}
            else:
                left -= len(PLAIN.encode(text, add_special_tokens=False).ids)
                if left < 0:
                    break
                kept[text] = {key: about[key] for key in ("source", "file", "record")}
                continue
            out[number]["text"] = text
        found += [out[number] for number in sorted(out)]
    return found


@pytest.mark.parametrize("indexed", [False, True])
def test_the_place_of_each_text_and_its_twin(corpora, tmp_path, indexed):
    """In the same order whether a source is read from end to end, or record by record until its quota is full."""
    home, sources = corpora
    shutil.copytree(home, tmp_path / "home")
    if indexed:
        run("index", tmp_path / "home" / "some.jsonl", check=0)
    tokfmt.convert(written(tmp_path / "home"), tmp_path / "a.pbin", rejects=tmp_path / "out.jsonl", allow_loss=DROP)
    wanted = expected(sources, seed=3)
    assert listed(tmp_path / "out.jsonl") == wanted
    twins = [(line["source"], line["twin"]["source"]) for line in wanted if line["twin"]]
    assert len({source for source, _ in twins}) == len(PATHS), "each source has texts that were kept elsewhere"
    assert len({twin for _, twin in twins}) >= len(PATHS) - 2
    assert any(source == twin for source, twin in twins)


def test_the_bytes_do_not_depend_on_how_it_runs(corpora, tmp_path, monkeypatch):
    """Neither on workers and tasks, nor on from where the recipe is named."""
    home, _ = corpora
    recipe = written(home)
    tokfmt.convert(recipe, tmp_path / "a.pbin", jobs=1, rejects=tmp_path / "a.jsonl", allow_loss=DROP)
    whole = (tmp_path / "a.jsonl").read_bytes()
    monkeypatch.chdir(home)
    for jobs, executor in ((1, "serial"), (3, "threads")):
        words = {
            "jobs": jobs,
            "executor": executor,
            "rejects": tmp_path / "b.jsonl",
            "overwrite": True,
            "allow_loss": DROP,
        }
        tokfmt.convert(recipe.name, tmp_path / "b.pbin", **words)
        assert (tmp_path / "b.jsonl").read_bytes() == whole
    for index in (1, 0):
        tokfmt.convert(recipe.name, tmp_path / "c.pbin", task=(index, 2), rejects=tmp_path / "c.jsonl", allow_loss=DROP)
    monkeypatch.chdir(tmp_path)
    finish(tmp_path / "c.pbin")
    assert (tmp_path / "c.jsonl").read_bytes() == whole


@pytest.mark.parametrize("select", [None, (2, 9)])
def test_equal_sequences_of_ids_are_listed_with_their_ids(tmp_path, select):
    """Of files of JSON lines, which are read as one dataset, and of tables, which are several."""
    rows = {
        "a.jsonl": [[1, 2, 3], [4, 5], [1, 2, 3], [], [6], []],
        "b.jsonl": [[4, 5], [7, 8], [7, 8], [9]],
        "c.parquet": [[11, 12], [4, 5], [11, 12]],
        "d.parquet": [[9], [], [13], [13]],
    }
    for name, lists in rows.items():
        if name.endswith(".jsonl"):
            (tmp_path / name).write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in lists))
        else:
            pq.write_table(pa.table({"input_ids": pa.array(lists, pa.list_(pa.int32()))}), tmp_path / name)
    chosen = "" if select is None else f'select = "{select[0]}:{select[1]}"\n'
    (tmp_path / "mix.toml").write_text(
        'tokfmt = 1\ndedup = "exact"\nseed = 3\n'
        f'[[source]]\nname = "lines"\npath = ["a.jsonl", "b.jsonl"]\neos = "none"\n{chosen}'
        '[[source]]\nname = "tables"\npath = ["c.parquet", "d.parquet"]\neos = "none"\n'
    )
    tokfmt.convert(tmp_path / "mix.toml", tmp_path / "out.pbin", to_eos="none", rejects=tmp_path / "out.jsonl")
    kept, wanted = {}, []
    for source, names in (("lines", ["a.jsonl", "b.jsonl"]), ("tables", ["c.parquet", "d.parquet"])):
        records = [(name, number, ids) for name in names for number, ids in enumerate(rows[name])]
        records = records[slice(*select)] if select is not None and source == "lines" else records
        out = {}
        keys = np.random.Philox(key=34 << 64 | 3, counter=0).random_raw(len(records))
        for k in np.argsort(keys, kind="stable").tolist():
            file, record, ids = records[k]
            place = {"source": source, "file": file, "record": record}
            if (twin := kept.setdefault(tuple(ids), place)) is not place:
                why = {"byte_offset": None, "filter": "dedup", "rule": "exact", "value": None, "twin": twin}
                out[k] = place | why | {"input_ids": ids}
        wanted += [out[k] for k in sorted(out)]
    assert listed(tmp_path / "out.jsonl") == wanted
    assert {line["source"] for line in wanted} == {"lines", "tables"}
