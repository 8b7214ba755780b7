"""All 25 ordered pairs of formats: there and back gives the same sequences, or a refusal that says why."""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tokfmt
from tokfmt import registry
from tokfmt.core.errors import LossyConversionError, TokenRangeError
from tokfmt.core.ragged import Ragged
from tokfmt.ops.conversion import Run
from tokfmt.ops.request import Request
from tokfmt.ops.progress import Silent
from tokfmt.ops.sources import SourceRequest
from tokfmt.testing.contract import tree
from tokfmt.testing.harness import read, sequences, write
from tokfmt.testing.strategies import datasets

EOS = 50256
NAMES = {
    "jsonl": "x.jsonl",
    "modalities": "x.pbin",
    "stage1": "stage1_block_0000.bin",
    "hdf5": "x.h5",
    "flat-tokens": "x.zarr",
}
LIMITS = {"jsonl": 2**32 - 1, "modalities": 2**32 - 1, "stage1": 2**31 - 1, "hdf5": 2**31 - 1, "flat-tokens": 2**31 - 1}
SMALL = {"stage1": {"seq_len": 8}, "hdf5": {"seq_len": 8}, "flat-tokens": {"chunk": 16, "starts_chunk": 8}}
BY_SEPARATOR = ("stage1", "hdf5")
PAIRS = list(itertools.product(NAMES, NAMES))

pairs = pytest.mark.parametrize(("one", "other"), PAIRS)
quick = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))


def test_the_formats_are_those():
    assert set(registry.names()) == set(NAMES)


def convert(source, directory, name, **options):
    directory.mkdir(exist_ok=True)
    options = {"eos": EOS, "executor": "serial", "to_options": SMALL.get(name, {}), **options}
    tokfmt.convert(source, directory / NAMES[name], from_options=reading(source), **options)
    return directory / NAMES[name]


def reading(path):
    return {"seq_len": 8} if path.name == NAMES["stage1"] else {}


def content(name, path):
    reader = read(registry.get(name), path, eos_id=EOS, options=reading(path))
    found = sequences(reader)
    reader.close()
    return found


def start(name, home, ragged):
    options = SMALL.get(name, {})
    return write(registry.get(name), home / NAMES[name], ragged, eos_id=EOS, options=options)


@pairs
@quick
@given(st.data())
def test_there_and_back(one, other, data):
    limit = min(LIMITS[one], LIMITS[other])
    ragged = data.draw(datasets(limit, empty=False, avoid=EOS))
    with tempfile.TemporaryDirectory() as home:
        home = Path(home)
        source = start(one, home, ragged)
        there = convert(source, home / "there", other)
        assert content(other, there) == ragged.tolist()
        back = convert(there, home / "back", one)
        assert content(one, back) == ragged.tolist()
        assert tree(back) == tree(source)


@pairs
def test_empty_sequences_are_carried_or_refused(one, other, tmp_path):
    if one in BY_SEPARATOR:
        pytest.skip(f"{one} cannot hold empty sequences")
    lists = [[], [1, 2], [], [], [3], []]
    source = start(one, tmp_path, Ragged.of(lists))
    if other not in BY_SEPARATOR:
        assert content(other, convert(source, tmp_path / "there", other)) == lists
        return
    with pytest.raises(LossyConversionError, match=r"4 empty sequences \(first: sequence 0\).*--drop empty-sequences"):
        convert(source, tmp_path / "there", other)
    assert not (tmp_path / "there" / NAMES[other]).exists()
    assert content(other, convert(source, tmp_path / "there", other, drop=["empty-sequences"])) == [[1, 2], [3]]


@pairs
def test_embedded_separators_are_carried_or_refused(one, other, tmp_path):
    if one in BY_SEPARATOR:
        pytest.skip(f"{one} splits at separators")
    lists = [[1, EOS, 2], [3], [4, EOS, EOS, 5], [6, EOS]]
    source = start(one, tmp_path, Ragged.of(lists))
    if other not in BY_SEPARATOR:
        assert content(other, convert(source, tmp_path / "there", other)) == lists
        return
    says = (
        r"4 separators \(50256\) inside sequences \(first: sequence 0, token position 1\).*--drop embedded-separators"
    )
    with pytest.raises(LossyConversionError, match=says):
        convert(source, tmp_path / "there", other)
    there = convert(source, tmp_path / "there", other, drop=["embedded-separators"], verify=True)
    assert content(other, there) == [[1], [2], [3], [4], [5], [6]]


@pairs
def test_nothing_at_all(one, other, tmp_path):
    source = start(one, tmp_path, Ragged.of([]))
    there = convert(source, tmp_path / "there", other, verify=True)
    assert content(other, there) == []


@pairs
def test_the_largest_ids(one, other, tmp_path):
    edge = [[LIMITS[one], 0], [LIMITS[one] - 1]]
    source = start(one, tmp_path, Ragged.of(edge))
    if LIMITS[one] <= LIMITS[other]:
        assert content(other, convert(source, tmp_path / "there", other, verify=True)) == edge
        return
    with pytest.raises(TokenRangeError, match=r"token id 4,294,967,295 at position 0 is outside 0\.\.2,147,483,647"):
        convert(source, tmp_path / "there", other)
    assert not (tmp_path / "there" / NAMES[other]).exists()


@pairs
def test_longer_than_a_window_and_a_region(one, other, tmp_path):
    ids = (np.arange((1 << 20) + 70_000) * 2_654_435_761 % 50_000).astype(np.uint32)
    ragged = Ragged(ids, np.array([0, 5, len(ids) - 3, len(ids)]))
    source = write(registry.get(one), tmp_path / NAMES[one], ragged, eos_id=EOS)
    (tmp_path / "there").mkdir()
    request = Request(
        SourceRequest((source,), eos=EOS), tmp_path / "there" / NAMES[other], jobs=2, region=1 << 17, verify=True
    )
    Run(request, Silent()).convert()
    reader = read(registry.get(other), tmp_path / "there" / NAMES[other], eos_id=EOS)
    assert reader.offsets(0, 3).tolist() == ragged.offsets.tolist()
    assert np.array_equal(reader.tokens(0, len(ids)), ids)


@pytest.mark.parametrize("other", NAMES)
def test_same_bytes_whatever_the_parallelism(other, tmp_path):
    rng = np.random.default_rng(3)
    lists = [rng.integers(0, 50_000, int(n)).tolist() for n in rng.integers(1, 900, 300)]
    source = start("modalities", tmp_path, Ragged.of(lists))

    def run(executor, jobs, region):
        home = tmp_path / f"{executor}-{jobs}-{region}"
        home.mkdir()
        request = Request(
            SourceRequest((source,), eos=EOS), home / NAMES[other], jobs=jobs, executor=executor, region=region,
            to_options=SMALL.get(other, {}), manifest=False,
        )  # fmt: skip
        Run(request, Silent()).convert()
        return tree(home / NAMES[other])

    expected = run("serial", 1, 1 << 24)
    for executor, jobs, region in (("threads", 1, 4096), ("threads", 2, 999), ("processes", 2, 50_000)):
        assert run(executor, jobs, region) == expected
