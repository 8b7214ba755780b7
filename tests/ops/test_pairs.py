"""All ordered pairs of formats: there and back gives the same sequences, or a refusal that says why.

That law holds for every pair; the others are tried from and to one format that holds everything, and within each format.
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
import registered
from amount import FUZZ_ONLY, NIGHTLY, only
from caches import cache
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from marks import BEGINS, TARGET
from model.separated import without_trailing

import tokfmt
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.errors import LossyConversionError, TokenRangeError
from tokfmt.testing import datasets, read, sequences, tree, write

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
    "array": "x.npy",
    "webdataset": "rows",
    "tfrecord": "x.tfrecord",
    "arrayrecord": "x.array_record",
    "datatrove": "x.ds",
    "litdata": "chunks",
    "mds": "shards",
    "parquet": "x.parquet",
    "arrow": "x.arrow",
}
LIMITS = dict.fromkeys(NAMES, 2**31 - 1) | {
    "jsonl": 2**32 - 1,
    "modalities": 2**32 - 1,
    "llmc": 2**32 - 1,
    "nanogpt": 65535,
    "olmo": 2**32 - 1,
    "array": 2**32 - 1,
    "webdataset": 2**32 - 1,
    "tfrecord": 2**32 - 1,
    "arrayrecord": 2**32 - 1,
    "datatrove": 2**32 - 1,
    "litdata": 2**32 - 1,
    "mds": 2**32 - 1,
}
SMALL = {"stage1": {"seq_len": 8}, "hdf5": {"seq_len": 8}, "flat-tokens": {"chunk": 16, "starts_chunk": 8}}
NO_EMPTY = ("stage1", "hdf5")
BY_SEPARATOR = (*NO_EMPTY, "llmc", "nanogpt", "array")
SCANNED = (*BY_SEPARATOR, "olmo")  # by others too, who split there: refused unless told
ROWS = ("jsonl", "flat-tokens", "parquet", "arrow", "webdataset", "tfrecord", "arrayrecord")
"""Are read without the separator at the end of a row, as --eos names it."""
PAIRS = list(itertools.product(NAMES, NAMES))
HUB = "jsonl"
"""Holds empty sequences, every ID, and separators inside sequences."""
MASKED, PACKED = ("olmo", "datatrove", "hdf5", "parquet", "arrow"), ("parquet", "arrow")
THROUGH = [pair for pair in PAIRS if HUB in pair or pair[0] == pair[1]]


def pairs(without=()):
    """Pairs through the hub, and all in `make fuzz`; those whose source cannot hold what is tried are no cases."""
    held = [pair for pair in PAIRS if pair[0] not in without]
    return pytest.mark.parametrize(("one", "other"), only({*THROUGH} & {*held}, held))


def test_the_formats_are_those():
    read_only = {"recipe", "run", "internevo", "levanter", "litgpt-packed", "text"}
    assert set(registered.names()) - read_only == set(NAMES)


def convert(source, directory, name, **options):
    directory.mkdir(exist_ok=True)
    options = {"to_format": name, "eos": EOS, "executor": "serial", "to_options": SMALL.get(name, {}), **options}
    options.setdefault("options", reading(source))
    tokfmt.convert(source, directory / NAMES[name], **options)
    return directory / NAMES[name]


def reading(path):
    return {"seq_len": 8} if path.name == NAMES["stage1"] else {}


def content(name, path):
    reader = read(registered.get(name), path, eos_id=EOS, options=reading(path))
    found = sequences(reader)
    reader.close()
    return found


def start(name, home, ragged):
    options = SMALL.get(name, {})
    return write(registered.get(name), home / NAMES[name], ragged, eos_id=EOS, options=options)


def holdable(name, lists):
    """What a format can hold of some sequences."""
    allow_loss, most = EOS if name in SCANNED else None, LIMITS[name]
    kept = [[min(token, most) for token in one if token != allow_loss] for one in lists]
    for one in kept if name in ROWS else ():
        while one[-1:] == [EOS]:
            one.pop()
    return [one for one in kept if one or name not in NO_EMPTY]


def refused(other, lists):
    """By which errors and words a format refuses sequences."""
    flat = [token for one in lists for token in one]
    words = ["empty-sequences"] if other in NO_EMPTY and not all(lists) else []
    words += ["embedded-separators"] if other in SCANNED and EOS in flat else []
    return words or (["outside 0"] if max(flat, default=0) > LIMITS[other] else [])


@FUZZ_ONLY
@pytest.mark.slow
def test_every_pair_there_and_back(capsys):
    """Each pair refuses what it loses by its name and leaves nothing, or gives back the same bytes."""
    outcomes = {}

    def one_pair(home, one, other, lists):
        source = start(one, home, Ragged.of(lists))
        if words := refused(other, lists):
            for k, word in enumerate(words):  # what offsets tell is refused before tokens are read, then the rest
                with pytest.raises((LossyConversionError, TokenRangeError)) as caught:
                    convert(source, home / "there", other, format=one, allow_loss=words[:k])
                assert word in str(caught.value)
            assert not (home / "there" / NAMES[other]).exists()
            return "refused"
        there = convert(source, home / "there", other, format=one)
        assert content(other, there) == lists
        back = convert(there, home / "back", one, format=other)
        assert content(one, back) == lists
        # Beside an index, an empty document has no separator, and gets one in a format where nothing else marks it.
        if [] not in lists or one in (*ROWS, *SCANNED) or other not in SCANNED:
            assert tree(back) == tree(source)
        return "there and back"

    @settings(max_examples=20 if NIGHTLY else 3, deadline=None, suppress_health_check=list(HealthCheck))
    @given(datasets(2**32 - 1, max_sequences=6, max_length=20), st.booleans(), st.booleans())
    def every_pair(ragged, inner, low):
        lists = [*ragged.tolist(), [7]]  # so that not every sequence ends with the separator
        lists += [[1, EOS, 2], [EOS]] * inner
        lists = [[token % 65536 if low else token for token in one] for one in lists]
        for one, other in PAIRS:
            with tempfile.TemporaryDirectory() as home:
                outcome = one_pair(Path(home), one, other, holdable(one, lists))
                outcomes.setdefault((one, other), set()).add(outcome)
        for other in NAMES:  # what is read only
            with tempfile.TemporaryDirectory() as home:
                held = holdable(HUB, holdable(other, [[min(token, 2**31 - 1) for token in one] for one in lists]))
                (Path(home) / "cache").mkdir()
                source = cache(Path(home) / "cache", [held[:2], held[2:]])
                there = convert(source, Path(home) / "there", other, options={"holes": "fill"})
                assert content(other, there) == held

    every_pair()
    assert set(outcomes) == set(PAIRS)
    round_ = [pair for pair, found in outcomes.items() if "there and back" in found]
    assert len(round_) == len(PAIRS)
    with capsys.disabled():
        named = sum("refused" in found for found in outcomes.values())
        print(
            f"\n{len(PAIRS)} ordered pairs there and back, {named} of them with losses refused by name; {len(NAMES)} from levanter"
        )


@pairs(without=NO_EMPTY)
def test_empty_sequences_are_carried_or_refused(one, other, tmp_path):
    lists = [[], [1, 2], [], [], [3], []]
    source = start(one, tmp_path, Ragged.of(lists))
    if other not in NO_EMPTY:
        assert content(other, convert(source, tmp_path / "there", other, verify=True)) == lists
        return
    with pytest.raises(
        LossyConversionError, match=r"4 empty sequences \(first: sequence 0\).*--allow-loss empty-sequences"
    ):
        convert(source, tmp_path / "there", other)
    assert not (tmp_path / "there" / NAMES[other]).exists()
    assert content(other, convert(source, tmp_path / "there", other, allow_loss=["empty-sequences"])) == [[1, 2], [3]]


@pairs(without=SCANNED)
def test_embedded_separators_are_carried_or_refused(one, other, tmp_path):
    lists = [[1, EOS, 2], [3], [4, EOS, EOS, 5], [6, EOS]]
    source = start(one, tmp_path, Ragged.of(lists))
    inside = 4 - (one in ROWS)
    lists[-1] = lists[-1][: inside - 2]
    if other not in SCANNED:
        assert content(other, convert(source, tmp_path / "there", other)) == lists
        return
    says = rf"{inside} separators \(50256\) inside sequences \(first: sequence 0, token position 1\).*--allow-loss embedded-separators"
    with pytest.raises(LossyConversionError, match=says):
        convert(source, tmp_path / "there", other)
    there = convert(source, tmp_path / "there", other, allow_loss=["embedded-separators"], verify=True)
    found = content(other, there)
    if other == "olmo":
        assert found == lists  # by its rows
        return
    assert [s for s in found if s] == [[1], [2], [3], [4], [5], [6]]
    last = other == "stage1" and inside == 4  # A separator after the last one looks like padding.
    assert found.count([]) == inside - 2 - last


@pairs()
def test_nothing_at_all(one, other, tmp_path):
    source = start(one, tmp_path, Ragged.of([]))
    there = convert(source, tmp_path / "there", other, verify=True)
    assert content(other, there) == []


@pairs()
def test_the_largest_ids(one, other, tmp_path):
    edge = [[LIMITS[one], 0], [LIMITS[one] - 1]]
    source = start(one, tmp_path, Ragged.of(edge))
    if LIMITS[one] <= LIMITS[other]:
        assert content(other, convert(source, tmp_path / "there", other, verify=True)) == edge
        return
    with pytest.raises(
        TokenRangeError, match=rf"token ID {LIMITS[one]:,} at position \d is outside 0\.\.{LIMITS[other]:,}"
    ) as caught:
        convert(source, tmp_path / "there", other)
    assert f"It is token 0 of sequence 0 of {source}" in str(caught.value)
    assert not (tmp_path / "there" / NAMES[other]).exists()


@pytest.mark.parametrize("other", [name for name in NAMES if LIMITS[name] < LIMITS["jsonl"]])
def test_an_id_too_large_is_found_in_its_source(other, tmp_path):
    """Whichever position a writer counts to it: with separators, without, or in rows."""
    source = start("jsonl", tmp_path, Ragged.of([[1, 2], [3], [4, 5, LIMITS["jsonl"], 6], [7]]))
    for more, of in (
        ({}, f"sequence 2 of {source}"),
        ({"select": "1:"}, f"sequence 1 of the sequences to write of {source}"),
    ):
        with pytest.raises(TokenRangeError) as caught:
            convert(source, tmp_path / "there", other, **more)
        assert f"It is token 2 of {of}" in str(caught.value)


def marked(name, path, view="documents"):
    """Ids and TARGET and BEGINS bits of each sequence."""
    options = {"view": view} if view != "documents" else {}
    reader = tokfmt.open(path, format=name, eos=EOS, options=options).reader
    marks = np.asarray(reader.marks(0, reader.info.tokens)) & (TARGET | BEGINS)
    found = [one.tolist() for one in np.split(marks, reader.offsets(0, reader.info.sequences)[1:-1])]
    reader.close()
    return list(zip(sequences(reader), found, strict=True))


@FUZZ_ONLY
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


@FUZZ_ONLY
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


@pytest.mark.parametrize(
    ("one", "other"), only([("modalities", "flat-tokens")], [p for p in PAIRS if "modalities" in p])
)
def test_longer_than_a_window_and_a_region(one, other, tmp_path):
    ids = (np.arange((1 << 20) + 70_000) * 2_654_435_761 % 50_000).astype(np.uint32)
    ragged = Ragged(ids, np.array([0, 5, len(ids) - 3, len(ids)]))
    source = write(registered.get(one), tmp_path / NAMES[one], ragged, eos_id=EOS)
    there = convert(
        source, tmp_path / "there", other, executor="threads", jobs=2, verify=True, to_options={}, options={}
    )
    reader = read(registered.get(other), there, eos_id=EOS)
    assert reader.offsets(0, 3).tolist() == ragged.offsets.tolist()
    assert np.array_equal(reader.tokens(0, len(ids)), ids)
    reader.close()


@pytest.mark.slow
@pytest.mark.parametrize("other", only(["hdf5", "litdata", "flat-tokens"], NAMES))
@pytest.mark.usefixtures("kept_workers")
@FUZZ_ONLY
def test_same_bytes_whatever_the_parallelism(other, tmp_path):
    rng = np.random.default_rng(3)
    lists = [rng.integers(0, 50_000, int(n)).tolist() for n in rng.integers(1, 900, 300)]
    source = start("modalities", tmp_path, Ragged.of(lists))

    def run(executor, jobs):
        how = {"executor": executor, "jobs": jobs, "manifest": False}
        return tree(convert(source, tmp_path / f"{executor}-{jobs}", other, **how))

    expected = run("serial", 1)
    for executor, jobs in (("threads", 1), ("threads", 2), ("processes", 2)):
        assert run(executor, jobs) == expected
