"""`tokfmt stats` as a function and as a command: samples, expectations, baselines, annotations, executors, memory."""

import io
import json
import re
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from click.testing import CliRunner
from paths import FIXTURES
from rich.console import Console
from schemas import validate

import tokfmt
from tokfmt.cli.console import annotate
from tokfmt.cli.main import cli
from tokfmt.cli.stats_table import show
from tokfmt.core.seeds import SAMPLE, random_order
from tokfmt.core.text_format import bar
from tokfmt.ops.source.discover import find_sources
from tokfmt.ops.source.open import open_source, open_stored
from tokfmt.ops.source.request import SourceRequest
from tokfmt.ops.stats import glance, stats_of
from tokfmt.ops.stats.report import (
    StatsReport,
)
from tokfmt.ops.stats.tables import Table, lengths_of, packing

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
BLOCKS = FIXTURES / "stage1" / "blocks"


def stored(paths):
    """A dataset as it is stored."""
    request = SourceRequest(tuple(paths))
    return open_stored(find_sources(request), request)


def measured(*paths, **how):
    return tokfmt.stats(paths, **{"jobs": 1, **how})


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


def test_a_sample_is_the_same_for_ever():
    """Drawn by the project's own numbers, which no release of a library changes."""
    first = [list(islice(random_order(1000, seed, SAMPLE), 5)) for seed in (0, 7)]
    assert first == [[298, 890, 576, 3, 689], [361, 864, 806, 584, 144]]
    assert sorted(random_order(777, 3, SAMPLE)) == list(range(777))


# the command


def run(*words):
    return CliRunner().invoke(cli, ["stats", *map(str, words)], standalone_mode=False)


def test_github(capsys):
    result = run(PACK, "--expect", "max_id < 5", "--output-format", "github", "-q")
    assert result.output == f"::error file={PACK},title=tokfmt stats::expected max_id < 5, found 50,256\n"
    annotate("error", "a,b:c%.bin", "t", "x\ny % z")
    assert capsys.readouterr().out == "::error file=a%2Cb%3Ac%25.bin,title=t::x%0Ay %25 z\n"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160])
def test_no_number_is_cut_or_broken(width, monkeypatch, tmp_path):
    """Whatever the width, and of lengths of six digits and more: every number is there with all its digits."""
    (tmp_path / "x.jsonl").write_text((json.dumps({"input_ids": [50_000 + k % 9 for k in range(40)]}) + "\n") * 3)
    one = measured(tmp_path / "x.jsonl", seq_len=2048).datasets[0]
    lengths = Table(np.array([0, 327_681, 1_234_567, 98_765_432]), np.array([3, 9_876_543, 12_345_678, 7_654_321]))
    large = replace(
        one,
        path="some/where/x.jsonl",
        sequences=lengths.total,
        tokens=lengths.weight,
        lengths=lengths_of(lengths, "tokens"),
        packing=packing(lengths, 2048, separator=True),
        duplicates=replace(one.duplicates, sequences=9_876_543, tokens=10**12, largest=[
            replace(one.duplicates.largest[0], count=1_234_567, length=98_765_432, sequence=19_876_543)
        ]),
    )  # fmt: skip
    for report in (StatsReport([large]), StatsReport([large, large], replace(large, path="total"))):
        numbers = {}
        for room in (width, 4000):
            out = io.StringIO()
            show(report, Console(file=out, width=room))
            assert all(len(line) <= room for line in out.getvalue().splitlines())
            numbers[room] = set(re.findall(r"[\d,.]*\d", out.getvalue()))
            assert not re.search(r"\d…", out.getvalue())
        assert numbers[width] <= numbers[4000]
        for number in (lengths.total, lengths.weight):
            assert f"{number:,}" in numbers[width]
        if report.total is None:
            assert {"327,681", "1,234,567", "98,765,432", "19,876,543"} <= numbers[width]


def test_bars():
    assert (bar(0, 10), bar(1, 10), bar(0.5, 4)) == ("", "█" * 10, "██")
    assert bar(1e-9, 10) == "▏"
    assert bar(1 / 16, 2) == "▏"
