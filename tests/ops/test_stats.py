"""`tokfmt stats` as a function and as a command: samples, expectations, baselines, annotations, executors, memory."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from paths import CORPUS, FIXTURES, TOKENIZER
from stats_oracle import validate

import tokfmt
from tokfmt.cli.github import annotation
from tokfmt.cli.main import cli
from tokfmt.cli.stats_table import bar
from tokfmt.core.errors import FormatError, OptionError
from tokfmt.ops.open import open_source, open_stored
from tokfmt.ops.sources import SourceRequest
from tokfmt.ops.stats import StatsRequest, glance, stats, stats_of
from tokfmt.ops.stats.baseline import deviations, parse_tolerance, read_baseline
from tokfmt.ops.stats.expectations import parse_expectation, unmet
from tokfmt.ops.stats.keys import known_keys

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
BLOCKS = FIXTURES / "stage1" / "blocks"
MEMORY = 300 << 20


def measured(*paths, **how):
    source = {key: how.pop(key) for key in ("eos", "options", "drop") if key in how}
    return stats(StatsRequest(SourceRequest(paths, **source), **{"executor": "serial", **how}))


def tokfmt_stats(*words):
    """The command in a process of its own: exit code, stdout, stderr."""
    done = subprocess.run([sys.executable, "-m", "tokfmt", "stats", *map(str, words)], capture_output=True, text=True)
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
    ids = np.fromfile(path, "<i4")
    ends = np.concatenate(([-1], np.flatnonzero(ids == 50256), [len(ids)]))
    spans = [(a + 1, b) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True) if b > a + 1]
    return ids, spans


def test_many_regions(large):
    ids, spans = bare(large)
    found = measured(large, jobs=1).datasets[0]
    lengths = [b - a for a, b in spans]
    documents = [ids[a:b].tobytes() for a, b in spans]
    assert (found.sequences, found.tokens) == (len(spans), sum(lengths))
    assert (found.lengths.max, found.lengths.mean) == (max(lengths), sum(lengths) / len(lengths))
    assert found.ids.distinct == len(np.unique(ids[ids != 50256]))
    assert found.ids.most_frequent[0].count == int(np.bincount(ids)[:50256].max())
    assert found.duplicates.sequences == len(documents) - len(set(documents))
    first = {}
    for number, document in enumerate(documents):
        first.setdefault(document, number)
    for group in found.duplicates.largest:
        document = documents[group.sequence]
        assert first[document] == group.sequence
        assert (group.count, group.length) == (documents.count(document), len(document) // 4)
    assert found.duplicates.tokens >= 3 << 20


def test_schedule_changes_nothing(large, tmp_path):
    tokfmt.convert(large, tmp_path / "x.pbin", executor="threads")
    pack, block = measured(tmp_path / "x.pbin", jobs=1).as_json(), measured(large, jobs=1).as_json()
    assert measured(tmp_path / "x.pbin", jobs=3, executor="threads").as_json() == pack
    assert measured(large, jobs=3, executor="threads").as_json() == block
    assert measured(large, jobs=2, executor="processes").as_json() == block
    same = ("sequences", "tokens", "lengths", "ids", "first_tokens", "last_tokens", "duplicates", "max_id")
    assert {key: pack[key] for key in same} == {key: block[key] for key in same}


def test_opened_already(large):
    """A dataset that is open gives the same, whether it was split already or not."""
    wanted = measured(large).datasets[0]
    assert stats_of(open_stored([large]), jobs=1) == wanted
    assert stats_of(open_source([large]), jobs=1) == wanted


@pytest.mark.parametrize("opened", [open_stored, open_source])
def test_glance(opened):
    found, full = glance(opened([PACK])), measured(PACK).datasets[0]
    assert (found.sequences, found.tokens, found.lengths, found.empty) == (
        full.sequences, full.tokens, full.lengths, full.empty,
    )  # fmt: skip
    assert found.ids is None
    validate({"schema_version": 1, **found.as_json()})


def test_glance_at_a_stream():
    found, split, full = glance(open_stored([BLOCKS])), glance(open_source([BLOCKS])), measured(BLOCKS).datasets[0]
    assert (found.sequences, found.lengths) == (0, None)
    assert (split.sequences, split.tokens, split.lengths, split.separators) == (
        full.sequences, full.tokens, full.lengths, full.separators,
    )  # fmt: skip


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
    validate({"schema_version": 1, **one.as_json()})
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
            found = (
                measured(source, sample=400, seed=seed, from_format=None)
                if False
                else measured(source, sample=400, seed=seed)
            )
            one = found.datasets[0]
            means.append(one.lengths.mean if one.lengths.mean is not None else math.nan)
        assert np.mean(means) == pytest.approx(mean, rel=close)


def test_sample_of_a_stream(large):
    ids, spans = bare(large)
    found = measured(large, sample=2000, seed=3).datasets[0]
    assert found.estimated
    assert 2000 <= found.sampled.sequences < len(spans) / 4
    assert "sequences" not in found.sampled.exact
    assert found.sequences == pytest.approx(len(spans), rel=0.5)


def test_sample_of_text(tmp_path):
    path = tmp_path / "x.jsonl"
    line = json.dumps({"text": "word " * 200}) + "\n"
    path.write_text(line * 6000)
    found = measured(path, sample=500).datasets[0]
    assert found.estimated
    assert found.lengths.p50 == 1000
    assert 500 <= found.sampled.sequences < 6000
    assert found.sequences == pytest.approx(6000, rel=0.05)


# what must hold


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("tokens >= 2e3", True), ("tokens>=2_004", True), ("tokens > 2004", False), ("max_id < 50257", True),
        ("max_id<50256", False), ("duplicates.share < 1%", True), ("eos_id == 50256", True), ("dtype == uint16", True),
        ("dtype != uint16", False), ("lengths.p50 = 16", True), ("empty.share < 0.01", False), ("tokens < 1Ki", False),
        ("masked.share == null", True), ("packing.padded.samples > 1", False), ("total.tokens > 2k", True),
        ("eos_inferred == true", True), ("lengths.mean < 47.8", True),
    ],
)  # fmt: skip
def test_expectations(text, holds):
    report = measured(PACK)
    assert bool(unmet(report, [parse_expectation(text)])) is not holds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tokns > 5", "Did you mean tokens"), ("duplicates > 5", "Did you mean duplicates"), ("tokens", "write it like"),
        ("tokens > many", "is not a number"), ("tokens > nan", "is not a number"), ("empty < 5", "empty"), ("", "write it like"),
    ],
)  # fmt: skip
def test_expectations_that_mean_nothing(text, message):
    with pytest.raises(OptionError, match=message):
        parse_expectation(text)


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
    assert told[0] == "tokens was 2,000, is 2,004 (+0.20%, tolerance 0)"
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
    assert (code, out) == (1, "")
    assert [line.split(": ", 2)[2] for line in err.splitlines()] == [
        f"{PACK}: expected tokens > 1e6, found 2,004", f"{PACK}: expected max_id < 9, found 50,256",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing.pbin"], 3, "no such file"),
        ([PACK, "--expect", "tokns > 1"], 2, "Did you mean tokens?"),
        ([PACK, "--tolerance", "x"], 2, "--tolerance"),
        ([PACK, "--baseline", "nothing.json"], 3, "nothing.json: no such file"),
        ([PACK, "--output-format", "githb"], 2, "Did you mean github?"),
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
    found = measured(FIXTURES / "jsonl" / "faulty.jsonl", drop=frozenset({"invalid-lines"}), options=("index=none",))
    assert found.datasets[0].text.invalid > 0


def test_github():
    result = run(PACK, "--expect", "max_id < 5", "--output-format", "github", "-q")
    assert result.output == f"::error file={PACK},title=tokfmt stats::expected max_id < 5, found 50,256\n"
    assert annotation("error", "a,b:c%.bin", "t", "x\ny % z") == "::error file=a%2Cb%3Ac%25.bin,title=t::x%0Ay %25 z"


@pytest.mark.parametrize("width", [80, 160])
def test_table(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    output = run(CORPUS, "--tokenizer", TOKENIZER, "--seq-len", "512").output
    assert all(len(line) <= width for line in output.splitlines())
    assert "\x1b" not in output
    for word in ("184", "17,450", "most frequent", "Packed into samples of 512 tokens", "█", "94.8"):
        assert word in output
    assert ("Lengths" in output.splitlines()[12]) == ("Token ids" in output.splitlines()[12]) or width == 80


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


def test_bars():
    assert (bar(0, 10), bar(1, 10), bar(0.5, 4)) == ("", "█" * 10, "██")
    assert bar(1e-9, 10) == "▏"
    assert bar(1 / 16, 2) == "▏"


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


def test_two_gigabytes(tmp_path):
    """A sparse block of 500 M tokens: one sequence of 400 M, and others."""
    path = tmp_path / "stage1_block_0000.bin"
    with open(path, "wb") as file:
        file.truncate(2_000_000_000)
        for at in (400_000_000, 400_000_005, 499_999_999):
            file.seek(at * 4)
            file.write(np.array([50256], "<i4").tobytes())
    assert peak_of(path) < MEMORY


def test_many_short_sequences(tmp_path):
    """Three million different sequences of three tokens: 24 bytes each beside what anything takes."""
    count = 3_000_000
    ids = np.empty((count, 4), "<i4")
    numbers = np.arange(count)
    ids[:, 0], ids[:, 1], ids[:, 2], ids[:, 3] = numbers // 40_000, numbers % 40_000, 7, 50256
    ids.tofile(tmp_path / "stage1_block_0000.bin")
    assert peak_of(tmp_path / "stage1_block_0000.bin") < MEMORY + 24 * count
    assert peak_of(tmp_path / "stage1_block_0000.bin", "--no-duplicates") < MEMORY


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
