"""Recipes of text stored: what filters, quotas and equal texts leave, token by token, against an oracle of its own."""

import json
import random
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zstandard
from amount import examples
from filter_oracle import broken
from hypothesis import given, settings
from hypothesis import strategies as st
from made_corpora import FIELDS, SUFFIXES, WORDS
from paths import TOKENIZER
from tokenizers import Tokenizer

import tokfmt
from tokfmt.core.errors import TokfmtError
from tokfmt.core.files import File
from tokfmt.formats.jsonl.index import index_path, write_index
from tokfmt.ops.convert import write
from tokfmt.ops.prepare import prepare
from tokfmt.ops.prepare.draw import Kept, draw, in_order
from tokfmt.ops.prepare.prepare import Preparation
from tokfmt.ops.source import ingest
from tokfmt.text import ingest as text_ingest
from tokfmt.text.filters import ENTRY, FilterChain

EOS = 4095
GARBAGE = {
    "min_words": 50, "min_chars": 200, "max_symbol_ratio": 0.3, "max_char_repetition": 0.2, "min_word_diversity": 0.1,
    "max_word_share": 0.3,
}  # fmt: skip
SOME = {"min_words": 1}
PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))


def order(seed, count):
    """How documents are drawn: by words of a counter-based generator, whose key says what they are for."""
    keys = np.random.Philox(key=34 << 64 | seed, counter=0).random_raw(max(1, count))[:count]
    return sorted(range(count), key=lambda number: (keys[number], number))


def expected(texts, sources, *, seed=0, dedup=False):
    """The documents of a recipe, and of each source what became of its texts."""
    documents, reports, seen = [], [], {}
    for name, (quota, rules, epochs) in sources.items():
        rejected, equal, kept, total, full = Counter(), Counter(), [], 0, False
        encoded = {}  # of those that get as far
        for number in order(seed, len(texts[name])):
            text = texts[name][number]
            fault = broken(text, rules or {})
            if fault:
                rejected[fault[0]] += 1
                continue
            if dedup and text in seen:
                equal[seen[text]] += 1
                continue
            encoded[number] = PLAIN.encode(text, add_special_tokens=False).ids
            if quota is not None and total + len(encoded[number]) > quota:
                full = True
                break
            seen.setdefault(text, name)
            kept.append(number)
            total += len(encoded[number])
        rows = [sorted(kept)]
        if quota is not None and not full and total:
            left, again = quota - total * (quota // total), []
            assert quota // total <= epochs
            for number in kept if left else ():  # once more in the same order
                if len(encoded[number]) > left:
                    break
                left -= len(encoded[number])
                again.append(number)
            rows = [sorted(kept)] * (quota // total) + [sorted(again)]
        documents += [encoded[number] for row in rows for number in row]
        reports.append((name, rejected, equal, len(kept), total))
    return documents, reports


def written(directory, sources, **keys):
    """A recipe file."""
    lines = ["tokfmt = 1", f'tokenizer = "{TOKENIZER}"', *(f"{key} = {value}" for key, value in keys.items())]
    for name, (quota, rules, epochs) in sources.items():
        lines += ["[[source]]", f'path = "{name}{SUFFIXES.get(name, ".jsonl")}"']
        lines += [f"tokens = {quota}"] if quota is not None else []
        lines += [f"epochs = {epochs}"] if epochs > 1 else []
        lines += [f'filter = "{"garbage" if rules is GARBAGE else "some"}"'] if rules else []
        lines += [f'text = "{FIELDS[name]}"'] if name in FIELDS else []
    lines += ["[filter.some]", *(f"{rule} = {least}" for rule, least in SOME.items())]
    path = directory / "mix.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def documents_of(path):
    with tokfmt.open(path, eos=EOS) as dataset:
        return [row.tolist() for row in dataset]


@pytest.mark.parametrize(("quota", "share"), [(900, 0.25), (4_000, 0.4)])
@pytest.mark.parametrize("dedup", [False, True])
def test_a_source_far_larger_than_its_quota_is_not_read_whole(tmp_path, monkeypatch, quota, share, dedup):
    """With an index; what is drawn is the same as of one that is read from end to end. Most of it is garbage."""
    draw_, texts = random.Random(3), []
    for _ in range(4_000):
        words = " ".join(draw_.choice(WORDS) for _ in range(draw_.randrange(60, 400)))
        texts.append("!" * 1_000 if draw_.random() < 0.6 else words if draw_.random() < 0.8 or not texts else texts[0])
    path = tmp_path / "web.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    recipe = written(tmp_path, {"web": (quota, GARBAGE, 1)}, seed=1, **({"dedup": '"exact"'} if dedup else {}))
    tokfmt.convert(recipe, tmp_path / "whole.pbin", manifest=False)
    documents, _ = expected({"web": texts}, {"web": (quota, GARBAGE, 1)}, seed=1, dedup=dedup)
    assert documents_of(tmp_path / "whole.pbin") == documents
    write_index(path, index_path(path))
    read = []
    whole = File.read

    def counting(self, offset, length):
        if self.path == path:
            read.append(length)
        return whole(self, offset, length)

    monkeypatch.setattr(File, "read", counting)
    done = tokfmt.convert(recipe, tmp_path / "some.pbin", manifest=False, jobs=1, executor="serial")
    assert (tmp_path / "some.pbin").read_bytes() == (tmp_path / "whole.pbin").read_bytes()
    assert sum(read) < share * path.stat().st_size
    assert done.prepared[0]["documents"] < len(texts) / 4


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 6)), max_size=60),
    st.integers(0, 3), st.none() | st.integers(0, 80), st.integers(1, 9),
)  # fmt: skip
@settings(max_examples=examples(200))
def test_drawing_in_parts(rows, seed, quota, at_once):
    """Whatever is held in memory, and however much is drawn at once."""
    entries = np.array([(tokens, tokens, rule, word % 2, word) for tokens, rule, word in rows], ENTRY)
    kept, seen, total = set(), set(), 0
    for number in order(seed, len(rows)):
        tokens, rule, word = rows[number]
        if rule or word in seen:
            continue
        if quota is not None and total + tokens > quota:
            break
        kept.add(number)
        seen.add(word)
        total += tokens
    chosen, looked, tally, _ = draw(entries, in_order(seed, len(rows), at_once), quota, 0, Kept(Path(), 1 << 30))
    assert set(np.flatnonzero(chosen).tolist()) == kept
    assert (tally.kept, tally.tokens, tally.documents) == (len(kept), total, int(looked.sum()))


def test_hashes_that_memory_does_not_hold(tmp_path):
    """Spilled again and again, the same is found; different documents may share their first 64 bits."""
    generator = np.random.default_rng(1)
    held, spilled = Kept(tmp_path, 1 << 30), Kept(tmp_path, 1_000)
    for source in range(12):
        entries = np.zeros(300, ENTRY)
        entries["high"], entries["low"] = generator.integers(0, 300, 300), generator.integers(0, 3, 300)
        first = np.unique(entries, return_index=True)[1]
        expected = held.sources(entries)
        assert np.array_equal(spilled.sources(entries), expected)
        new = entries[first][expected[first] < 0]
        for kept in (held, spilled):
            kept.add(new, source, np.arange(len(new)))
    assert len(list(tmp_path.iterdir())) > 1
    assert json.dumps(sorted(path.name for path in tmp_path.iterdir())).count("kept-") > 1


@pytest.mark.parametrize(("quota", "distinct", "again"), [(2_000, 2_000, False), (11_000, 60, True)])
@pytest.mark.parametrize(("dedup", "cut", "jobs"), [(False, 900, 1), (True, 900, 3), (True, 2_000, 1)])
def test_compressed_source_tokenizes_only_texts_that_may_be_drawn(
    tmp_path, monkeypatch, quota, distinct, again, dedup, cut, jobs
):
    """If more texts are duplicates than estimated, the rest is read afterwards."""
    draw_, held = random.Random(4), []
    pool = [" ".join(draw_.choice(WORDS) for _ in range(draw_.randrange(60, 200))) for _ in range(distinct)]
    texts = [draw_.choice(pool) if draw_.random() < 0.9 else "!" * 1_000 for _ in range(2_000)]
    lines = [json.dumps({"text": text}) + "\n" for text in texts]
    (tmp_path / "web.jsonl").write_text("".join(lines))
    sources = {"web": (quota, GARBAGE, 1)}
    recipe = written(tmp_path, sources, seed=1, **({"dedup": '"exact"'} if dedup else {}))
    tokfmt.convert(recipe, tmp_path / "plain.pbin", manifest=False)
    assert documents_of(tmp_path / "plain.pbin") == expected({"web": texts}, sources, seed=1, dedup=dedup)[0]
    for name, part in zip("abc", (lines[:cut], lines[cut : cut + 1], lines[cut + 1 :]), strict=True):
        if part:
            (tmp_path / f"{name}.jsonl.zst").write_bytes(zstandard.compress("".join(part).encode()))
    recipe.write_text(recipe.read_text().replace("web.jsonl", "?.jsonl.zst"))
    whole = ingest.ShardReader

    def noting(*given):
        held.append(whole(*given))
        return held[-1]

    monkeypatch.setattr(ingest, "ShardReader", noting)
    tokfmt.convert(recipe, tmp_path / "packed.pbin", manifest=False, jobs=jobs)
    assert (tmp_path / "packed.pbin").read_bytes() == (tmp_path / "plain.pbin").read_bytes()
    assert held[0].info.tokens < 100_000
    assert held[0].info.sequences > 1_700
    assert len(held) == (2 if again and dedup else 1)
    assert not (again and dedup) or held[-1].info.tokens > 200_000


@pytest.mark.parametrize(
    ("files", "misled", "dedup", "jobs"), [(1, False, False, 1), (3, False, True, 2), (3, False, False, 2), (1, True, False, 2)]
)  # fmt: skip
def test_plain_source_tokenizes_only_drawn_texts(tmp_path, monkeypatch, files, misled, dedup, jobs):
    """Each block has its record numbers; if the survey was wrong, all texts are read."""
    monkeypatch.setattr("tokfmt.ops.prepare.prepare._SURVEYED", 1)
    monkeypatch.setattr("tokfmt.ops.prepare.prepare._TEXTS", 16)
    monkeypatch.setattr("tokfmt.text.ingest._SMALLEST", 1 << 16)
    if misled:
        monkeypatch.setattr(Preparation, "_minimum_tokens", lambda *_: (10_000_000.0, 1_000.0))
    draw_, held, judged, lines = random.Random(6), [], [], []
    for number in range(3_200):
        text = " ".join(draw_.choice(WORDS) for _ in range(draw_.randrange(100, 200)))
        lines.append(json.dumps({"text": "!" * 1_000 if number % 5 == 4 else text}) + "\n")
    for name, part in zip("abc", np.array_split(np.array(lines, object), files), strict=False):
        (tmp_path / f"{name}.jsonl").write_text("".join(part))
    sources = {"web": (60_000, GARBAGE, 1)}
    recipe = written(tmp_path, sources, seed=1, **({"dedup": '"exact"'} if dedup else {}))
    recipe.write_text(recipe.read_text().replace("web.jsonl", "?.jsonl"))
    whole, entries = ingest.ShardReader, FilterChain.entries

    def judging(self, texts):
        judged.append(len(texts))
        return entries(self, texts)

    def noting(*given):
        held.append(whole(*given))
        return held[-1]

    monkeypatch.setattr(ingest, "ShardReader", noting)
    monkeypatch.setattr(FilterChain, "entries", judging)
    tokfmt.convert(recipe, tmp_path / "out.pbin", manifest=False, jobs=jobs, executor="threads")
    texts = [json.loads(line)["text"] for line in lines]
    assert documents_of(tmp_path / "out.pbin") == expected({"web": texts}, sources, seed=1, dedup=dedup)[0]
    assert len(held) == 1 + misled
    assert len(held[0].shards) > 7
    assert held[0].info.tokens < (1 + dedup) * 60_000 * 1.6
    assert misled or sum(judged) < len(lines) * 0.55


@pytest.mark.parametrize("failing", [0, 2])
def test_a_part_that_is_missing_is_read_with_the_numbers_of_its_records(tmp_path, monkeypatch, failing):
    """Several workers left parts behind it; one worker alone, who does not count records first, goes on."""
    monkeypatch.setattr("tokfmt.ops.prepare.prepare._SURVEYED", 1)
    monkeypatch.setattr("tokfmt.ops.prepare.prepare._TEXTS", 16)
    monkeypatch.setattr("tokfmt.text.ingest._SMALLEST", 1 << 16)
    draw_ = random.Random(7)
    texts = [" ".join(draw_.choice(WORDS) for _ in range(draw_.randrange(100, 200))) for _ in range(1_600)]
    (tmp_path / "web.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    sources = {"web": (60_000, GARBAGE, 1)}
    recipe, done, broken_once = written(tmp_path, sources, seed=1), list[int](), [failing]
    ingest_block = ingest.ingest_block

    def ending(job, item):
        if item[0] in broken_once:
            broken_once.clear()
            raise OSError(28, "No space left on device")
        shard = ingest_block(job, item)
        done.append(shard.number)
        return shard

    monkeypatch.setattr("tokfmt.ops.source.ingest.ingest_block", ending)
    with pytest.raises(TokfmtError):
        tokfmt.convert(recipe, tmp_path / "out.pbin", manifest=False, resume=True, jobs=4, executor="threads")
    before = list(done)
    tokfmt.convert(recipe, tmp_path / "out.pbin", manifest=False, resume=True, jobs=1)
    assert documents_of(tmp_path / "out.pbin") == expected({"web": texts}, sources, seed=1)[0]
    assert max(before) > failing
    assert failing in done[len(before) :]


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    """Nor does it with what is drawn; a bit for each record, and some bytes for each document that is kept.

    What Python and numpy allocate is counted, which is the same on every machine. Blocks and regions are so small that
    each corpus has many: up to one of them, memory does grow.
    """
    draw_, peaks, sizes = random.Random(5), [], (1_500, 1_500, 9_000)  # the first time is for what is imported and kept
    pool = [" ".join(draw_.choice(WORDS) for _ in range(draw_.randrange(100, 190))) for _ in range(500)]
    plan = write.plan
    monkeypatch.setattr(write, "plan", lambda source, writer, size: plan(source, writer, 1 << 14))
    bounds = ((text_ingest, "_SMALLEST"), (text_ingest, "_LARGEST"), (text_ingest, "_JUDGED"), (prepare, "_BLOCK"))
    for module, name in bounds:
        monkeypatch.setattr(module, name, 1 << 18)
    tracemalloc.start()
    try:
        for number, size in enumerate(sizes):
            home = tmp_path / str(number)
            home.mkdir()
            lines = "".join(json.dumps({"text": f"{row} {draw_.choice(pool)}"}) + "\n" for row in range(size))
            (home / "web.jsonl").write_text(lines)
            (home / "papers.jsonl.zst").write_bytes(
                zstandard.compress(lines.replace('"text": "', '"text": "1').encode())
            )
            del lines
            sources = {"web": (None, GARBAGE, 1), "papers": (size * 50, GARBAGE, 1)}
            recipe = written(home, sources, dedup='"exact"', shuffle='"documents"')
            recipe.write_text(recipe.read_text().replace('text = "body.text"\n', ""))
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            tokfmt.convert(recipe, home / "out.pbin", executor="serial")
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
            assert (home / "out.pbin").stat().st_size > 2 * size * 150
    finally:
        tracemalloc.stop()
    documents = 2 * (sizes[2] - sizes[1])
    assert peaks[2] - peaks[1] < 64 * documents, peaks
