"""`tokfmt stats` as a function and as a command: samples, expectations, baselines, annotations, executors, memory."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import forkserver
import numpy as np
import pytest
from amount import FUZZ_ONLY
from click.testing import CliRunner
from moments import At
from opened import SourceRequest, open_source, stored
from paths import CORPUS, FIXTURES, TOKENIZER
from reads import asked_of
from schemas import validate
from stats_oracle import check

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.commands.stats import StatsRequest, glance, stats, stats_of
from tokfmt.commands.stats.report import (
    StatsReport,
    deviations,
    known_keys,
    parse_expectation,
    parse_tolerance,
    read_baseline,
    unmet,
)
from tokfmt.errors import ConversionError, FormatError, OptionError, SourceChangedError

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
BLOCKS = FIXTURES / "stage1" / "blocks"
MEMORY = 300 << 20


def measured(*paths, **how):
    return tokfmt.stats(paths, **{"jobs": 1, **how})


def tokfmt_stats(*words):
    """The command in a process of its own: exit code, stdout, stderr."""
    done = forkserver.run([sys.executable, "-m", "tokfmt", "stats", *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A stage-1 block of 20 Mi tokens: three regions, repeated documents, one of 3 Mi tokens, twice."""
    home = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(5)
    ids = rng.integers(0, 250, 20 << 20, dtype=np.uint8).astype("<i4")
    ids[rng.integers(0, 9 << 20, 60_000)] = 50256
    ids[11 << 20 : 14 << 20] = ids[16 << 20 : 19 << 20]
    ids[[(11 << 20) - 1, 14 << 20, (16 << 20) - 1, 19 << 20]] = 50256
    ids.tofile(home / "stage1_block_0000.bin")
    return home / "stage1_block_0000.bin"


def bare(path):
    """The IDs of a block that ends within a document, and the interval of each document without its separator."""
    ids = np.fromfile(path, "<i4")
    ends = np.concatenate(([-1], np.flatnonzero(ids == 50256), [len(ids)]))
    spans = [(a + 1, b) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
    return ids, spans


@FUZZ_ONLY
def test_many_regions(large):
    ids, spans = bare(large)
    found = measured(large, jobs=1).datasets[0]
    lengths = [b - a for a, b in spans]
    documents = [ids[a:b].tobytes() for a, b in spans]
    assert (found.sequences, found.tokens) == (len(spans), sum(lengths))
    assert (found.lengths.max, found.lengths.mean) == (max(lengths), sum(lengths) / len(lengths))
    assert found.empty.count == lengths.count(0)
    assert found.ids.distinct == len(np.unique(ids[ids != 50256]))
    assert found.ids.most_frequent[0].count == int(np.bincount(ids)[:50256].max())
    filled = [document for document in documents if document]
    assert found.duplicates.sequences == len(filled) - len(set(filled))
    first = {}
    for number, document in enumerate(documents):
        first.setdefault(document, number)
    for group in found.duplicates.largest:
        document = documents[group.sequence]
        assert first[document] == group.sequence
        assert (group.count, group.length) == (documents.count(document), len(document) // 4)
    assert found.duplicates.tokens >= 3 << 20


def test_nothing_is_shown_where_no_sequences_are_equal():
    assert list(tokfmt.show(PACK, "dup", limit=0).shown) == []


@pytest.mark.usefixtures("kept_workers")
def test_schedule_changes_nothing(large, tmp_path):
    tokfmt.convert(large, tmp_path / "x.pbin", executor="threads")
    pack, block = measured(tmp_path / "x.pbin", jobs=1).as_json(), measured(large, jobs=1).as_json()
    assert measured(tmp_path / "x.pbin", jobs=3).as_json() == pack
    assert measured(large, jobs=3).as_json() == block
    same = ("sequences", "tokens", "lengths", "ids", "first_tokens", "last_tokens", "duplicates", "max_id")
    assert {key: pack[key] for key in same} == {key: block[key] for key in same}


@pytest.mark.parametrize("tokenizer", [None, TOKENIZER])
def test_groups_list_all_members_of_all_datasets(tokenizer, tmp_path):
    texts = [f"Text number {k % 40}." for k in range(130)] + ["", ""]
    halves = {"a.jsonl": texts[:70], "b.jsonl": texts[70:]}
    for name, half in halves.items():
        (tmp_path / name).write_text("".join(json.dumps({"text": text}) + "\n" for text in half))
    out, how = tmp_path / "groups.jsonl", {} if tokenizer is None else {"tokenizer": str(tokenizer)}
    report = measured(*(tmp_path / name for name in halves), duplicate_groups=out, **how)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == report.total.duplicates.groups == 40
    assert sum(line["count"] - 1 for line in lines) == report.total.duplicates.sequences
    assert [line["group"] for line in lines] == list(range(40))
    for line in lines:
        named = [(m["path"].rpartition("/")[2], number) for m in line["members"] for number in m["sequences"]]
        assert line["count"] == len(named) == len(set(named))
        assert {halves[name][number] for name, number in named} == {line["text"]}
        assert (line["unit"], line["ids"] is None) == (("tokens", False) if tokenizer else ("characters", True))
    pack = tmp_path / "x.pbin"
    tokfmt.convert(tmp_path / "a.jsonl", pack, tokenizer=str(TOKENIZER), manifest=False)
    for path, given in ((tmp_path / "a.jsonl", how), (pack, {})):
        shown = list(tokfmt.show(path, "dup", limit=0, **given).shown)
        assert [one.equal.tolist() for one in shown] == [
            [k, k + 40] for k in sorted(range(30), key=lambda k: (-shown_length(shown, k), k))
        ]
    with pytest.raises(OptionError, match="--duplicate-groups and --sample cannot be combined"):
        measured(pack, duplicate_groups=out, sample=5)
    before = out.read_bytes()
    assert measured(pack, tmp_path / "nothing", duplicate_groups=out).failures
    assert out.read_bytes() == before
    with pytest.raises(ConversionError, match="not a list of duplicate groups"):
        measured(pack, duplicate_groups=tmp_path / "a.jsonl")


def shown_length(shown, number):
    return next(one.length for one in shown if one.index == number)


def test_duplicates_can_be_switched_off():
    assert measured(PACK, duplicates=False).datasets[0].duplicates is None


def test_stream_without_a_known_separator():
    found = measured(FIXTURES / "hdf5" / "packed_overlap").datasets[0]
    assert found.sequences == 1
    assert "--eos ID" in found.notes[-1]


def test_no_sequences(tmp_path):
    for name in ("modalities/D_2byte_empty.pbin", "flat-tokens/train_empty.zarr"):
        found = measured(FIXTURES / name).as_json()
        validate(found)
        assert (found["sequences"], found["tokens"], found["max_id"], found["lengths"]["p50"]) == (0, 0, None, None)
    (tmp_path / "x.jsonl").write_text('{"text": ""}\n')
    assert measured(tmp_path / "x.jsonl").datasets[0].empty.count == 1


def test_vocabulary():
    ids = measured(PACK, vocab_size=1000).datasets[0].ids
    documents = [doc.tolist() for doc in tokfmt.open(PACK)]
    flat = [token for doc in documents for token in doc]
    assert ids.coverage == len({token for token in flat if token < 1000}) / 1000
    assert ids.beyond == sum(token >= 1000 for token in flat)


# samples


def test_sample_of_an_index():
    one, again, other = (measured(PACK, sample=10, seed=seed).datasets[0] for seed in (1, 1, 2))
    assert one == again != other
    assert (one.estimated, one.sampled.sequences, one.sampled.of) == (True, 10, 42)
    assert (one.sequences, one.tokens, one.duplicates) == (42, 2004, None)
    validate(StatsReport([one]).as_json())
    everything = measured(PACK, sample=42).datasets[0]
    assert not everything.estimated


def test_sample_is_fair(tmp_path):
    """Over many seeds every sequence is as likely as any other, in an index and in a stream."""
    documents = [[number] * (1 + 40 * (number % 5)) for number in range(1, 2000)]
    stream = np.array([token for doc in documents for token in [*doc, 50256]], "<i4")
    path = tmp_path / "stage1_block_0000.bin"
    stream.tofile(path)
    tokfmt.convert(path, tmp_path / "x.pbin", executor="serial")
    mean = sum(map(len, documents)) / len(documents)
    for source, close in ((tmp_path / "x.pbin", 0.03), (path, 0.03)):
        means = []
        for seed in range(20):
            means.append(measured(source, sample=400, seed=seed).datasets[0].lengths.mean)
        assert np.mean(means) == pytest.approx(mean, rel=close)


@pytest.mark.parametrize("name", ["train.bin", "x_train_000001.bin"])
def test_empty_sequences_of_streams_count(name, tmp_path):
    """A separator ends (nanoGPT) or begins (llm.c) each document: two in a row are an empty one, as `open` reads it."""
    documents = [[], [5, 6], [], [], [7], [5, 6], []]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in documents))
    tokfmt.convert(source, tmp_path / name, eos=50256)
    with tokfmt.open(tmp_path / name) as dataset:
        assert [list(ids) for ids in dataset] == documents
    report = measured(tmp_path / name)
    check(json.loads(json.dumps(report.as_json())), documents, eos=50256)
    found = report.datasets[0]
    assert (found.sequences, found.empty.count, found.padding) == (7, 4, None)
    assert [group.sequence for group in found.duplicates.largest] == [1]


def test_a_sample_of_a_stream_knows_that_many_sequences_are_empty(tmp_path):
    draw = random.Random(4)
    documents = [[k % 90 + 1] * (0 if draw.random() < 0.5 else 30) for k in range(9000)]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in documents))
    for name in ("train.bin", "x_train_000001.bin"):
        tokfmt.convert(source, tmp_path / name, eos=50256)
        found = [measured(tmp_path / name, sample=900, seed=seed).datasets[0] for seed in range(8)]
        assert np.mean([one.sequences for one in found]) == pytest.approx(9000, rel=0.05)
        assert np.mean([one.empty.share for one in found]) == pytest.approx(0.5, rel=0.05)


def test_sample_of_a_stream(large):
    ids, spans = bare(large)
    found = measured(large, sample=2000, seed=3).datasets[0]
    assert found.estimated
    assert 2000 <= found.sampled.sequences < len(spans) / 4
    assert "sequences" not in found.sampled.exact
    assert found.sequences == pytest.approx(len(spans), rel=0.5)
    assert found.tokens == pytest.approx(len(ids), rel=0.5)


def test_sample_of_text(tmp_path):
    path = tmp_path / "x.jsonl"
    line = json.dumps({"text": "word " * 200}) + "\n"
    path.write_text(line * 6000)
    found = measured(path, sample=500).datasets[0]
    assert found.estimated
    assert found.lengths.p50 == 1000
    assert 500 <= found.sampled.sequences < 6000
    assert found.sequences == pytest.approx(6000, rel=0.05)


def ids_of(path, lengths):
    """A pack of sequences of these lengths, of ids that tell how long theirs is; no separators."""
    text = path.with_suffix(".jsonl")
    text.write_text("".join(json.dumps({"input_ids": [length] * length}) + "\n" for length in lengths))
    tokfmt.convert(text, path, to_eos="none", eos="none", executor="serial")
    return path


@pytest.fixture(scope="module")
def unlike(tmp_path_factory):
    """Two packs: 200 sequences of 1,000 tokens, and 20,000 of 10."""
    home = tmp_path_factory.mktemp("unlike")
    return ids_of(home / "long.pbin", [1000] * 200), ids_of(home / "short.pbin", [10] * 20_000)


def test_a_sample_of_text_is_all_that_is_tokenized(tmp_path):
    """With a tokenizer too, only the drawn blocks of 1 MiB are read."""
    lines = CORPUS.read_bytes()
    (tmp_path / "x.jsonl").write_bytes(lines * 60)
    exact = measured(CORPUS, tokenizer=str(TOKENIZER)).datasets[0].tokens
    found = measured(tmp_path / "x.jsonl", sample=100, tokenizer=str(TOKENIZER)).datasets[0]
    assert 100 <= found.sampled.sequences < 60 * 184 / 4
    assert found.tokens == pytest.approx(60 * exact, rel=0.05)


def test_total_of_samples(unlike):
    """Datasets weigh in the total what they are, however much of each was looked at."""
    how = {"eos": "none", "seq_len": 128}
    total, exact = measured(*unlike, sample=100, **how).total, measured(*unlike, **how).total
    # all sequences of a dataset are alike, so that every sample tells all
    for key in ("sequences", "tokens", "bytes", "lengths", "ids", "first_tokens", "last_tokens", "empty", "packing"):
        assert getattr(total, key) == getattr(exact, key), key
    assert (total.estimated, total.sampled.sequences, total.sampled.of) == (True, 200, 20_200)
    assert {"sequences", "tokens", "bytes_per_token"} < set(total.sampled.exact)
    assert unmet(measured(*unlike, sample=100, **how), [parse_expectation("total.lengths.mean < 20")]) == []
    half = measured(*unlike, sample=200, **how)
    assert [one.estimated for one in half.datasets] == [False, True]
    assert (half.total.lengths, half.total.sampled.sequences) == (exact.lengths, 400)


def test_total_of_samples_of_text(tmp_path):
    """One text that is read whole and one that is sampled."""
    for name, count in (("small", 1000), ("big", 60_000)):
        (tmp_path / f"{name}.jsonl").write_text((json.dumps({"text": "word " * 20}) + "\n") * count)
    report = measured(tmp_path / "small.jsonl", tmp_path / "big.jsonl", sample=5000)
    assert [one.estimated for one in report.datasets] == [False, True]
    assert report.total.sequences == pytest.approx(61_000, rel=0.001)
    assert report.total.text.characters == pytest.approx(6_100_000, rel=0.001)
    assert sum(one.text.fields[0].count for one in report.datasets) == report.total.text.fields[0].count


def test_an_empty_file_is_of_no_kind(tmp_path):
    """Beside text and beside ids; text beside ids is refused."""
    empty, text = tmp_path / "empty.jsonl", tmp_path / "text.jsonl"
    empty.touch()
    text.write_text('{"text": "one two"}\n')
    for paths in ((empty, text), (text, empty)):
        report = measured(*paths)
        assert sorted(one.sequences for one in report.datasets) == [0, 1]
        assert (report.total.sequences, report.total.text.characters) == (1, 7)
    assert measured(empty, PACK).total.tokens == measured(PACK).datasets[0].tokens
    with pytest.raises(OptionError, match="holds text, other paths hold token IDs"):
        measured(text, PACK)


@pytest.mark.parametrize("sample", [42, 43, 10**9])
def test_a_sample_of_everything_is_exact(sample):
    sources = (PACK, FIXTURES / "flat-tokens" / "train_only.zarr", BLOCKS, FIXTURES / "hdf5" / "corpus_uint16")
    found, exact = measured(*sources, sample=10**9, duplicates=False), measured(*sources, duplicates=False)
    assert found.as_json() == exact.as_json()
    assert measured(PACK, sample=sample, duplicates=False).as_json() == measured(PACK, duplicates=False).as_json()
    text = FIXTURES / "text" / "corpus.jsonl"
    assert measured(text, text, sample=10**9, duplicates=False) == measured(text, text, duplicates=False)


@FUZZ_ONLY
@pytest.mark.slow
def test_estimates_have_no_bias(tmp_path):
    """The mean of many samples' counts is the count: each sequence weighs one over how likely it was to be drawn."""
    lengths = [1 + (k * k) % 37 for k in range(60)]
    path, other = ids_of(tmp_path / "a.pbin", lengths), ids_of(tmp_path / "b.pbin", [5, 5, 40])
    exact = measured(path, other, eos="none").total
    tokens, fives, bins = [], [], []
    for seed in range(200):
        total = measured(path, other, sample=7, seed=seed, eos="none", duplicates=False, jobs=1).total
        tokens.append(total.lengths.mean * total.sequences)
        fives.append(next((one.count for one in total.ids.most_frequent if one.id == 40), None))
        bins.append(sum(total.lengths.histogram.counts))
    assert np.mean(tokens) == pytest.approx(exact.tokens, rel=0.02)
    assert max(abs(count - 63) for count in bins) <= 4  # each is rounded
    assert set(fives) == {40}  # a dataset that is read whole counts as it is


@pytest.mark.parametrize(("how", "message"), [
    ({"sample": 0}, "sample: expected a whole number of at least 1, found 0"), ({"seed": -1}, "--seed: expected a whole number"),
])  # fmt: skip
def test_invalid_requests_are_refused(how, message):
    with pytest.raises(OptionError, match=message):
        measured(PACK, **how)


# several datasets


def test_largest_id_is_of_the_data(tmp_path):
    """The same sequences have the same figures in every format, whatever their separator is."""
    source = tmp_path / "x.jsonl"
    source.write_text("".join(json.dumps({"input_ids": [k, 7, 300 + k]}) + "\n" for k in range(1, 20)))
    names = ("x.pbin", "x.zarr", "x.h5", "stage1_block_0000.bin")
    for name in names:
        tokfmt.convert(source, tmp_path / name, eos=50256, executor="serial")
    found = [measured(tmp_path / name, eos=50256).as_json() for name in names]
    same = ("sequences", "tokens", "max_id", "lengths", "ids", "first_tokens", "last_tokens", "duplicates")
    assert found[0]["max_id"] == 319
    for one in found[1:]:
        assert {key: one[key] for key in same} == {key: found[0][key] for key in same}
    baseline = tmp_path / "old.json"
    baseline.write_text(json.dumps(found[0]))
    for name in names:
        assert deviations(measured(tmp_path / name, eos=50256), read_baseline(baseline), 0) == [], name


def test_one_of_several_cannot_be_read(tmp_path):
    """What can be read is told, what cannot is named; there is no total of a part."""
    cut = tmp_path / "cut.pbin"
    cut.write_bytes(PACK.read_bytes()[:-40])
    (tmp_path / "bad.jsonl").write_text('{"input_ids": [1]}\n{"input_ids": [-1]}\n')
    for bad in (tmp_path / "nothing.pbin", cut, tmp_path / "bad.jsonl"):
        report = measured(PACK, bad, PACK)
        assert [one.path for one in report.datasets] == [str(PACK)] * 2
        assert [one.path for one in report.failures] == [str(bad)]
        assert report.total is None
        validate(report.as_json())
        told = unmet(report, [parse_expectation("total.tokens > 1"), parse_expectation("tokens > 1")])
        assert [one.message for one in told] == [f"expected total.tokens > 1, but {bad} could not be read"]
    code, out, err = tokfmt_stats(PACK, cut, PACK)
    assert code == 3
    assert out.count("2,004") == 2
    assert next(line for line in err.splitlines() if "error" in line).startswith(f"tokfmt: error: {cut}: ")
    code, out, err = tokfmt_stats(cut, tmp_path / "nothing.pbin", "-q")
    assert (code, out, len(err.splitlines())) == (3, "", 2)
    document = json.loads(tokfmt_stats(PACK, cut, "--json")[1])
    assert (len(document["datasets"]), document["total"], document["errors"][0]["path"]) == (1, None, str(cut))


def test_a_source_that_changes_meanwhile_is_an_error(tmp_path):
    path = Path(shutil.copy(PACK, tmp_path))
    with pytest.raises(SourceChangedError, match=rf"{path.name}: changed while it was being read"):
        stats(StatsRequest(SourceRequest([path])), At("counting", lambda: os.utime(path, (1, 1))))


@FUZZ_ONLY
def test_many_paths_are_linear(tmp_path):
    """So many files more, so many questions to the file system more."""
    paths = [tmp_path / f"{k}.pbin" for k in range(240)]
    for path in paths:
        shutil.copy(PACK, path)
    measured(*paths[:5])
    amounts = []
    for count in (60, 120, 240):
        with asked_of(tmp_path) as asked:
            measured(*paths[:count], duplicates=False)
        amounts.append(asked.questions)
    assert amounts[2] - amounts[1] == pytest.approx(2 * (amounts[1] - amounts[0]), rel=0.05)


# what must hold


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("tokens >= 2e3", True), ("tokens>=2_004", True), ("tokens > 2004", False), ("max_id < 50257", True),
        ("max_id<50256", False), ("duplicates.share < 1%", True), ("eos_id == 50256", True), ("dtype == uint16", True),
        ("dtype != uint16", False), ("lengths.p50 = 16", True), ("empty.share < 0.01", False), ("tokens < 1Ki", False), ("tokens > 1B", False), ("bytes < 10MB", True),
        ("masked.share == null", True), ("packing.padded.samples > 1", False), ("total.tokens > 2k", True), ("dtype == 'uint16'", True), ("max_id != null", True), ("format != 5", True),
        ("eos_inferred == false", True), ("lengths.mean < 47.8", True),
    ],
)  # fmt: skip
def test_expectations(text, holds):
    report = measured(PACK)
    assert bool(unmet(report, [parse_expectation(text)])) is not holds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tokns > 5", "Did you mean tokens"), ("duplicates > 5", "Did you mean duplicates"), ("tokens", "KEY OP VALUE"),
        ("tokens >= 99%", "is a share"), ("tokens > many", "is not a number"), ("tokens > nan", "is not a number"), ("empty < 5", "empty"), ("", "KEY OP VALUE"),
        ("max_id != <50257", "KEY OP VALUE"), ("tokens != foo", "'foo' is not a number. Write KEY OP VALUE"),
        ("tokens => 1e6", "KEY OP VALUE"), ("tokens =< 5", "KEY OP VALUE"), ("tokens =! 5", "KEY OP VALUE"),
        ("tokens === 5", "KEY OP VALUE"), ("tokens <> 5", "KEY OP VALUE"), ("tokens >", "KEY OP VALUE"),
        ("tokens = true", "'true' is not a number"), ("eos_inferred = 1", "neither true nor false"),
        ("dtype < uint16", "< compares numbers"), ("max_id < null", "< compares numbers"),
        ("tokens > 5 and max_id < 9", "is not a number"), ("dtype => uint16", "KEY OP VALUE"),
    ],
)  # fmt: skip
def test_expectations_that_mean_nothing(text, message):
    with pytest.raises(OptionError, match=message):
        parse_expectation(text)
    with pytest.raises(OptionError, match=f"^--expect {re.escape(repr(text))}" if "KEY" in message else message):
        tokfmt.stats(PACK, expect=text)
    code, out, err = tokfmt_stats("nothing.pbin", "--expect", text)
    assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_expectations_in_python():
    report = tokfmt.stats(PACK, expect=["tokens > 1e6", "max_id < 50257"])
    assert [(one.path, one.message) for one in report.unmet] == [(str(PACK), "expected tokens > 1e6, found 2,004")]
    assert tokfmt.stats(PACK, expect="max_id < 50257").unmet == []


def test_expectations_of_several():
    report = measured(PACK, FIXTURES / "modalities" / "D_1byte_byte256.pbin")
    found = unmet(report, [parse_expectation("max_id < 300"), parse_expectation("total.sequences > 84")])
    assert [(os.path.basename(one.path), one.message) for one in found] == [
        ("D_2byte_gpt2.pbin", "expected max_id < 300, found 50,256"), ("total", "expected total.sequences > 84, found 84"),
    ]  # fmt: skip


def test_every_key_is_in_the_document():
    document = measured(PACK, seq_len=64, vocab_size=60_000).as_json()
    validate(document)
    for key in known_keys():
        where = document
        for part in key.split("."):
            assert part in where
            where = where[part]
            if where is None:
                break


def test_baseline(tmp_path):
    old = tmp_path / "old.json"
    old.write_text(json.dumps(measured(PACK).as_json()))
    now = measured(PACK)
    assert deviations(now, read_baseline(old), 0) == []
    changed = json.loads(old.read_text())
    changed["tokens"] = 2000
    changed["max_id"] = 50255
    changed["empty"]["share"] += 0.005
    old.write_text(json.dumps(changed))
    told = [one.message for one in deviations(now, read_baseline(old), 0)]
    assert [text.split()[0] for text in told] == ["tokens", "max_id", "empty.share"]
    assert told[0] == "tokens was 2,000, is 2,004 (+0.20%)"
    assert [one.message.split()[0] for one in deviations(now, read_baseline(old), parse_tolerance("1%"))] == ["max_id"]
    assert len(deviations(measured(PACK, PACK), read_baseline(old), 0)) == 1


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"schema_version": 99}', "[" * 100_000])
def test_no_baseline(tmp_path, content):
    (tmp_path / "old.json").write_text(content)
    with pytest.raises(FormatError, match=r"old.json: is not"):
        read_baseline(tmp_path / "old.json")


@pytest.mark.parametrize("text", ["x", "-1%", "nan", "inf", ""])
def test_no_tolerance(text):
    with pytest.raises(OptionError, match="--tolerance"):
        parse_tolerance(text)


# the command


def run(*words):
    return CliRunner().invoke(cli, ["stats", *map(str, words)], standalone_mode=False)


def test_json_on_stdout():
    code, out, err = tokfmt_stats(PACK, "--json", "-q")
    assert (code, err) == (0, "")
    validate(json.loads(out))
    assert json.loads(out)["lengths"]["p50"] == 16


def test_exit_code_and_a_line_for_each():
    code, out, err = tokfmt_stats(
        PACK, "--expect", "tokens > 1e6", "--expect", "max_id < 9", "--expect", "tokens > 1", "-q"
    )
    assert (code, out) == (1, "")  # the table is no part of a failure
    assert [line.split(": ", 2)[2] for line in err.splitlines()] == [
        f"{PACK}: expected tokens > 1e6, found 2,004", f"{PACK}: expected max_id < 9, found 50,256",
    ]  # fmt: skip


def test_report_of_expectations_that_hold(tmp_path):
    """A quiet run prints only problems; otherwise one line has the number that hold."""
    old = tmp_path / "old.json"
    old.write_text(json.dumps(measured(PACK).as_json()))
    met = ("--expect", "tokens > 1", "--expect", "max_id < 50257", "--baseline", old, "--tolerance", "1%")
    assert tokfmt_stats(PACK, *met, "-q") == (0, "", "")
    code, out, err = tokfmt_stats(PACK, *met)
    assert (code, out.splitlines()[0]) == (0, str(PACK))
    assert err.splitlines()[-2:] == [
        "2 of 2 expectations held",
        f"every value is within the baseline {old} (tolerance 1%)",
    ]
    code, _, err = tokfmt_stats(PACK, *met, "--expect", "tokens > 1e6")
    assert (code, "2 of 3 expectations held" in err.splitlines()) == (1, True)
    assert tokfmt_stats(PACK, "-q")[1].splitlines()[0] == str(PACK)  # nothing is expected: the table is the result


def test_a_baseline_that_differs_is_one_error_for_each_dataset(tmp_path, monkeypatch):
    old = tmp_path / "old.json"
    old.write_text(json.dumps({**measured(PACK).as_json(), "tokens": 2200, "max_id": 50255}))
    code, out, err = tokfmt_stats(PACK, "--baseline", old, "--tolerance", "1%", "-q")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        f"tokfmt: error: {PACK}: 2 values outside of the baseline {old} (tolerance 1%)",
        "  tokens was 2,200, is 2,004 (-8.91%)",
        "  max_id was 50,255, is 50,256",
    ]
    code, _, err = tokfmt_stats(PACK, PACK, "--baseline", old, "-q")
    assert (code, err) == (1, "tokfmt: error: the baseline is of 1 dataset, this is of 2\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    found = run(PACK, "--baseline", old, "-q").stdout
    assert len(found.splitlines()) == 1
    assert "(tolerance 0)%0A  tokens was" in found


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing.pbin"], 3, "no such file"),
        ([PACK, "--expect", "tokns > 1"], 2, "Did you mean tokens?"),
        ([PACK, "--tolerance", "x"], 2, "--tolerance"),
        ([PACK, "--baseline", "nothing.json"], 3, "nothing.json: no such file"),
        ([PACK, FIXTURES / "text" / "corpus.jsonl"], 2, "--tokenizer"),
        ([PACK, "--tokenizer", "/nowhere/at/all"], 2, "/nowhere/at/all"),
        ([FIXTURES / "jsonl" / "faulty.jsonl"], 3, "line"),
    ],
)
def test_errors_are_one_line(words, code, message):
    found, out, err = tokfmt_stats(*words, "-q")
    assert found == code, err
    assert message in err
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err


def test_invalid_lines_can_be_dropped():
    found = measured(
        FIXTURES / "jsonl" / "faulty.jsonl", allow_loss=frozenset({"invalid-lines"}), options={"index": "none"}
    )
    assert found.datasets[0].text.invalid > 0


@pytest.mark.parametrize("width", [80, 160])
def test_table(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    output = run(CORPUS, "--tokenizer", TOKENIZER, "--seq-len", "512").output
    assert all(len(line) <= width for line in output.splitlines())
    assert "\x1b" not in output
    for word in ("184", "17,450", "most frequent", "Packed into samples of 512 tokens", "█", "94.8"):
        assert word in output
    assert ("Lengths" in output.splitlines()[12]) == ("Token IDs" in output.splitlines()[12]) or width == 80


def test_names_and_texts_are_escaped(tmp_path):
    path = tmp_path / "a\x1b[31m\nb.jsonl"
    path.write_text(
        json.dumps({"text": "\x1b[2J\u202e evil", "\x1b]0;x\x07": 1})
        + "\n"
        + json.dumps({"text": "\x1b[2J\u202e evil"})
        + "\n"
    )
    output = run(path).output
    assert "\x1b" not in output
    assert "\u202e" not in output
    assert "\\x1b[2J" in output


# memory


def peak_of(*words):
    script = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)\n"
        "sys.exit(done.returncode)\n"
    )
    words = [sys.executable, "-c", script, sys.executable, "-m", "tokfmt", "stats", *map(str, words), "-q", "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


@FUZZ_ONLY
@pytest.mark.slow
def test_two_gigabytes(tmp_path):
    """A sparse block of 500 M tokens: one sequence of 400 M, and others."""
    path = tmp_path / "stage1_block_0000.bin"
    with open(path, "wb") as file:
        file.truncate(2_000_000_000)
        for at in (400_000_000, 400_000_005, 499_999_999):
            file.seek(at * 4)
            file.write(np.array([50256], "<i4").tobytes())
    assert peak_of(path) < MEMORY


@FUZZ_ONLY
@pytest.mark.slow
def test_many_short_sequences(tmp_path):
    """Three million different sequences of three tokens: 24 bytes each beside what anything takes."""
    count = 3_000_000
    ids = np.empty((count, 4), "<i4")
    numbers = np.arange(count)
    ids[:, 0], ids[:, 1], ids[:, 2], ids[:, 3] = numbers // 40_000, numbers % 40_000, 7, 50256
    ids.tofile(tmp_path / "stage1_block_0000.bin")
    assert peak_of(tmp_path / "stage1_block_0000.bin") < MEMORY + 24 * count
    assert peak_of(tmp_path / "stage1_block_0000.bin", "--no-duplicates") < MEMORY


@FUZZ_ONLY
def test_huge_ids(tmp_path):
    """Random 31-bit ids: no array of their size, a bounded table, an estimate that is marked and near."""
    ids = np.random.default_rng(0).integers(1 << 21, 1 << 31, 700_000).astype("<i4")
    path = tmp_path / "stage1_block_0000.bin"
    ids.tofile(path)
    assert peak_of(path) < MEMORY
    found = measured(path).datasets[0]
    assert found.ids.estimated
    assert found.ids.distinct == pytest.approx(len(np.unique(ids)), rel=0.02)
    assert found.max_id == int(ids.max())


def test_a_recipe_has_no_bytes_a_token(tmp_path):
    """Its own few bytes hold none; those of its sources may be of more tokens than it draws."""
    (tmp_path / "ids.jsonl").write_text('{"input_ids": [1, 2]}\n')
    recipe = tmp_path / "mix.toml"
    recipe.write_text('tokfmt = 1\nto_eos = 9\n[[source]]\npath = "ids.jsonl"\n')
    found = tokfmt.stats(recipe).datasets[0]
    assert (found.bytes, found.bytes_per_token) == (recipe.stat().st_size, None)
    assert tokfmt.stats(tmp_path / "ids.jsonl").datasets[0].bytes_per_token > 1


def test_opened_already(large):
    """A dataset that is open gives the same, whether it was split already or not."""
    wanted = measured(large).datasets[0]
    assert stats_of(stored([large]), jobs=1) == wanted
    opened = stats_of(open_source([large]), jobs=1)  # Opening a stream has notes on empty and unfinished documents.
    assert replace(opened, notes=()) == replace(wanted, notes=())


@pytest.mark.parametrize("opened", [stored, open_source])
def test_glance(opened):
    found, full = glance(opened([PACK])), measured(PACK).datasets[0]
    assert (found.sequences, found.tokens, found.lengths, found.empty) == (
        full.sequences, full.tokens, full.lengths, full.empty,
    )  # fmt: skip
    assert found.ids is None
    validate(StatsReport([found]).as_json())


def test_glance_at_a_stream():
    found, split, full = glance(stored([BLOCKS])), glance(open_source([BLOCKS])), measured(BLOCKS).datasets[0]
    assert (found.sequences, found.lengths) == (0, None)
    assert (split.sequences, split.tokens, split.lengths, split.separators) == (
        full.sequences, full.tokens, full.lengths, full.separators,
    )  # fmt: skip


def test_github(monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = run(PACK, "--expect", "max_id < 5", "-q")
    assert result.stdout == f"::error file={PACK},title=tokfmt stats::expected max_id < 5, found 50,256\n"


def test_expectations_of_a_baseline(tmp_path):
    """They say what may not change; the rest of the baseline may."""
    few, many, old, two = (tmp_path / name for name in ("few.jsonl", "many.jsonl", "old.json", "two.json"))
    few.write_text('{"input_ids": [1, 2, 3]}\n' * 9)
    many.write_text('{"input_ids": [1, 2, 3]}\n' * 10)
    old.write_text(tokfmt_stats(many, "--json")[1])
    two.write_text(tokfmt_stats(few, many, "--json")[1])

    def code(*words):
        return tokfmt_stats(*words)[0]

    at_least = ("--expect", "tokens >= baseline")
    assert code(many, "--baseline", old, *at_least) == 0
    assert code(few, "--baseline", old, *at_least) == 1
    assert code(few, "--baseline", old, "--expect", "tokens >= 90% of baseline") == 0
    assert code(few, "--baseline", old, "--expect", "tokens >= 90.1% of baseline") == 1
    assert code(many, few, "--baseline", two, "--expect", "total.tokens == baseline") == 0
    assert code(many, few, "--baseline", two, *at_least) == 1  # each with the one in its place
    assert code(many, "--baseline", two, "--expect", "total.tokens >= baseline") == 1
    assert code(many, "--baseline", two, *at_least) == 1  # of another number of datasets
    assert code(many, *at_least) == 2


@pytest.mark.parametrize(
    "text", ["tokens >= 1.2.3% of baseline", "dtype == 99% of baseline", "tokens >= % of baseline"]
)
def test_a_share_of_a_baseline_is_a_number(tmp_path, text):
    old = tmp_path / "old.json"
    old.write_text(tokfmt_stats(PACK, "--json")[1])
    code, _, err = tokfmt_stats(PACK, "--baseline", old, "--expect", text)
    assert (code, len(err.splitlines())) == (2, 1)
