"""All ordered pairs of formats: there and back gives the same sequences, or a refusal that says why.

That law holds for every pair; the others are tried from and to one format that holds everything, and within each format.
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model.separated import without_trailing

import tokfmt
from tokfmt import registry
from tokfmt.core.errors import LossyConversionError
from tokfmt.core.loss_mask import BEGINS, TARGET
from tokfmt.core.ragged import Ragged
from tokfmt.ops.convert.convert import convert_files
from tokfmt.ops.convert.request import Request
from tokfmt.ops.source.open import open_source
from tokfmt.ops.source.request import SourceRequest
from tokfmt.run.progress import Progress
from tokfmt.testing import MemoryReader, read, sequences, tree, write

EOS = 50256
NAMES = {
    "jsonl": "x.jsonl",
    "modalities": "x.pbin",
    "stage1": "stage1_block_0000.bin",
    "hdf5": "x.h5",
    "flat-tokens": "x.zarr",
    "megatron": "x_document.bin",
    "llmc": "x_train_000001.bin",
    "nanogpt": "train.bin",
    "olmo": "part-0-00000.npy",
    "datatrove": "x.ds",
    "litdata": "chunks",
    "mds": "shards",
    "parquet": "x.parquet",
    "arrow": "x.arrow",
}
SMALL = {"stage1": {"seq_len": 8}, "hdf5": {"seq_len": 8}, "flat-tokens": {"chunk": 16, "starts_chunk": 8}}
NO_EMPTY = ("stage1", "hdf5")
MASKED, PACKED = ("olmo", "datatrove", "hdf5", "parquet", "arrow"), ("parquet", "arrow")
PAIRS = list(itertools.product(NAMES, NAMES))


def convert(source, directory, name, **options):
    directory.mkdir(exist_ok=True)
    options = {"to_format": name, "eos": EOS, "executor": "serial", "to_options": SMALL.get(name, {}), **options}
    options.setdefault("options", reading(source))
    tokfmt.convert(source, directory / NAMES[name], **options)
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


def marked(name, path, view="documents"):
    """Ids and TARGET and BEGINS bits of each sequence."""
    options = {"view": view} if view != "documents" else {}
    reader = open_source([path], format=name, eos=EOS, options=options).reader
    marks = np.asarray(reader.marks(0, reader.info.tokens)) & (TARGET | BEGINS)
    found = [one.tolist() for one in np.split(marks, reader.offsets(0, reader.info.sequences)[1:-1])]
    reader.close()
    return list(zip(sequences(reader), found, strict=True))


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(st.tuples(st.integers(0, 255), st.booleans()), max_size=5), min_size=1, max_size=5))
def test_masks_of_every_pair_there_and_back(lists):
    """Whoever carries masks gives back ids and masks; all others refuse, and take the ids when masks are dropped."""
    lists = [[(1, True), (2, False)], *lists]
    every = [([token for token, _ in one], [int(counts) for _, counts in one]) for one in lists]
    for one, other in itertools.product(MASKED, NAMES):
        expected = [pair for pair in every if pair[0]] if {one, other} & set(NO_EMPTY) else every
        with tempfile.TemporaryDirectory() as directory:
            home = Path(directory)
            closed = MemoryReader(Ragged.of([[*ids, EOS] for ids, _ in expected]))
            first = start("datatrove", home, without_trailing(closed, EOS))
            mask = [flag for _, flags in expected for flag in (*flags, 1)]
            first.with_name(first.name + ".loss").write_bytes(bytes(mask))
            source = convert(first, home / "source", one)
            assert marked(one, source) == expected
            if other in MASKED:
                there = convert(source, home / "there", other, verify=True)
                assert marked(other, there) == expected
                back = convert(there, home / "back", one, verify=True)
                assert tree(back) == tree(source)
                continue
            with pytest.raises(LossyConversionError, match="loss-mask"):
                convert(source, home / "there", other)
            there = convert(source, home / "there", other, allow_loss=["loss-mask"])
            assert content(other, there) == [ids for ids, _ in expected]


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 255), st.booleans()), min_size=1, max_size=5), min_size=1, max_size=8)
)
def test_inner_boundaries_of_every_pair_there_and_back(lists):
    """Packed rows keep their documents among themselves; all others refuse to lose where they begin."""
    rows, both = {"view": "samples"}, ["loss-mask", "inner-boundaries"]
    for one, other in itertools.product(PACKED, NAMES):
        with tempfile.TemporaryDirectory() as directory:
            home = Path(directory)
            first = start("datatrove", home, Ragged.of([[token for token, _ in one] for one in lists]))
            mask = [int(counts) for one in lists for _, counts in (*one, (0, True))]
            first.with_name(first.name + ".loss").write_bytes(bytes(mask))
            source = convert(first, home / "source", one, to_options={"pack_size": 6})
            expected = marked(one, source, "samples")
            assert sum(flag & BEGINS > 0 for _, flags in expected for flag in flags) == len(lists)
            if other in PACKED:
                there = convert(source, home / "there", other, options=rows, verify=True)
                assert marked(other, there, "samples") == expected
                back = convert(there, home / "back", one, options=rows, verify=True)
                assert tree(back) == tree(source)
                continue
            with pytest.raises(LossyConversionError, match="inner-boundaries"):
                convert(source, home / "there", other, options=rows, allow_loss=both[:1])
            there = convert(source, home / "there", other, options=rows, allow_loss=both)
            assert content(other, there) == [ids for ids, _ in expected]


@pytest.mark.parametrize(("one", "other"), [pair for pair in PAIRS if "modalities" in pair])
def test_longer_than_a_window_and_a_region(one, other, tmp_path):
    ids = (np.arange((1 << 20) + 70_000) * 2_654_435_761 % 50_000).astype(np.uint32)
    ragged = Ragged(ids, np.array([0, 5, len(ids) - 3, len(ids)]))
    source = write(registry.get(one), tmp_path / NAMES[one], ragged, eos_id=EOS)
    (tmp_path / "there").mkdir()
    request = Request(
        SourceRequest((source,), eos=EOS), tmp_path / "there" / NAMES[other], jobs=2, region=1 << 17, verify=True,
        to=other,
    )  # fmt: skip
    convert_files(request, Progress())
    reader = read(registry.get(other), tmp_path / "there" / NAMES[other], eos_id=EOS)
    assert reader.offsets(0, 3).tolist() == ragged.offsets.tolist()
    assert np.array_equal(reader.tokens(0, len(ids)), ids)


@pytest.mark.slow
@pytest.mark.parametrize("other", NAMES)
@pytest.mark.usefixtures("kept_workers")
def test_same_bytes_whatever_the_parallelism(other, tmp_path):
    rng = np.random.default_rng(3)
    lists = [rng.integers(0, 50_000, int(n)).tolist() for n in rng.integers(1, 900, 300)]
    source = start("modalities", tmp_path, Ragged.of(lists))

    def run(executor, jobs, region):
        home = tmp_path / f"{executor}-{jobs}-{region}"
        home.mkdir()
        request = Request(
            SourceRequest((source,), eos=EOS), home / NAMES[other], jobs=jobs, executor=executor, region=region,
            to=other, to_options=SMALL.get(other, {}), manifest=False,
        )  # fmt: skip
        convert_files(request, Progress())
        return tree(home / NAMES[other])

    expected = run("serial", 1, 1 << 24)
    for executor, jobs, region in (("threads", 1, 4096), ("threads", 2, 999), ("processes", 2, 50_000)):
        assert run(executor, jobs, region) == expected
