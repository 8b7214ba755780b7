"""--shuffle and --split NAME=SHARE,...: every format, every executor, whole or not at all."""

import contextlib
import gzip
import json
import os
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import CORPUS, TOKENIZER

import tokfmt
from tokfmt import registry
from tokfmt.core import atomic_output
from tokfmt.core.atomic_output import Staging
from tokfmt.core.errors import (
    ConversionError,
    DestinationExistsError,
    LossyConversionError,
    OptionError,
    VerificationError,
)
from tokfmt.core.ragged import Ragged
from tokfmt.core.seeds import SHUFFLE, SPLIT, draws
from tokfmt.core.together import publish_together
from tokfmt.ops.convert.arrangement import Arrangement, arrangement_of, split_path
from tokfmt.ops.convert.convert import carry_out
from tokfmt.ops.convert.request import Request
from tokfmt.ops.source.request import SourceRequest
from tokfmt.run.execute import NullProgress
from tokfmt.testing import read, sequences, tree, write

EOS = 50256
NAMES = {"jsonl": "x.jsonl", "modalities": "x.pbin", "stage1": "x", "hdf5": "x.h5", "flat-tokens": "x.zarr"}
SMALL = {"stage1": {"seq_len": 8}, "hdf5": {"seq_len": 8}, "flat-tokens": {"chunk": 64, "starts_chunk": 8}}
READ = {"stage1": {"seq_len": 8}}
SPLITS = "train=0.7,validation=0.2,test=0.1"
each = pytest.mark.parametrize("name", NAMES)


def shuffled(lists, seed):
    keys = draws(seed, SHUFFLE, 0, len(lists)).tolist()
    return [lists[i] for i in sorted(range(len(lists)), key=lambda i: keys[i])]


def dealt(lists, shares, seed):
    """The lists of each split, by the definition."""
    bounds = [share * 2**64 for share in accumulate(shares)]
    drawn = draws(seed, SPLIT, 0, len(lists)).tolist()
    number = [sum(draw >= bound for bound in bounds[:-1]) for draw in drawn]
    return [[s for s, k in zip(lists, number, strict=True) if k == part] for part in range(len(shares))]


@pytest.fixture(scope="module")
def lists():
    rng = np.random.default_rng(8)
    return [rng.integers(0, 50_000, int(n)).tolist() for n in rng.integers(1, 60, 300)]


@pytest.fixture(scope="module")
def pack(lists, tmp_path_factory):
    return write(
        registry.get("modalities"), tmp_path_factory.mktemp("source") / "in.pbin", Ragged.of(lists), eos_id=EOS
    )


def content(name, path, split=None):
    options = {**READ.get(name, {}), **({"split": split} if split else {})}
    reader = read(registry.get(name), path, eos_id=EOS, options=options)
    found = sequences(reader)
    reader.close()
    return found


def convert(source, destination, name, **options):
    return tokfmt.convert(
        source, destination, to_format=name, eos=EOS, to_options=SMALL.get(name, {}), **{"verify": True, **options}
    )


def parts(home, name):
    """Split to path and name of the split to read."""
    found = {}
    for split in ("train", "validation", "test"):
        path = (
            home / NAMES[name] if name == "flat-tokens" else split_path(home / NAMES[name], registry.get(name), split)
        )
        found[split] = (path, split if name == "flat-tokens" else None)
    return found


@each
def test_shuffle_to(name, lists, pack, tmp_path):
    done = convert(pack, tmp_path / NAMES[name], name, shuffle=7)
    assert content(name, tmp_path / NAMES[name]) == shuffled(lists, 7)
    assert (done.shuffle, done.verified, done.sequences) == (7, True, 300)
    manifest = json.loads((tmp_path / f"{NAMES[name]}.tokfmt.json").read_bytes())
    assert (manifest["shuffle"], manifest["split"]) == (7, None)


@each
def test_split_to(name, lists, pack, tmp_path):
    done = convert(pack, tmp_path / NAMES[name], name, split=SPLITS, seed=5)
    expected = dealt(lists, (0.7, 0.2, 0.1), 5)
    for (split, (path, option)), wanted in zip(parts(tmp_path, name).items(), expected, strict=True):
        assert content(name, path, option) == wanted
        assert done.splits[split]["sequences"] == len(wanted)
        assert done.splits[split]["tokens"] == sum(map(len, wanted))
        manifest = json.loads((path.parent / f"{path.name}.tokfmt.json").read_bytes())
        assert manifest["split"] == {"shares": {"train": 0.7, "validation": 0.2, "test": 0.1}, "seed": 5}
        assert manifest["splits"][split]["sequences"] == len(wanted)
        assert manifest["sequences"] == (300 if name == "flat-tokens" else len(wanted))
    count = 1 if name == "flat-tokens" else 3
    assert len(os.listdir(tmp_path)) == 2 * count, "destinations and manifests, nothing else"


@each
def test_split_and_shuffle(name, lists, pack, tmp_path):
    convert(pack, tmp_path / NAMES[name], name, split=SPLITS, seed=5, shuffle=1)
    for (path, option), wanted in zip(parts(tmp_path, name).values(), dealt(lists, (0.7, 0.2, 0.1), 5), strict=True):
        assert content(name, path, option) == shuffled(wanted, 1)


@each
@pytest.mark.usefixtures("kept_workers")
def test_same_bytes_whatever_the_parallelism(name, pack, tmp_path):
    def run(executor, jobs, region):
        home = tmp_path / f"{executor}-{jobs}-{region}"
        home.mkdir()
        request = Request(
            SourceRequest((pack,), eos=EOS), home / NAMES[name], to=name, jobs=jobs, executor=executor, region=region,
            to_options=SMALL.get(name, {}), manifest=False, arrangement=arrangement_of(3, SPLITS, 0),
        )  # fmt: skip
        carry_out(request, NullProgress())
        return {path.relative_to(home): tree(path) for path in home.iterdir()}

    expected = run("serial", 1, 1 << 24)
    for executor, jobs, region in (("threads", 3, 999), ("processes", 2, 4096)):
        assert run(executor, jobs, region) == expected


def test_a_sequence_stays_in_its_split(lists, pack, tmp_path):
    """Neither a shuffle by any seed nor the target format moves a sequence from one split to another."""
    found = set()
    for number, (name, how) in enumerate(
        [("modalities", {}), ("modalities", {"shuffle": 1}), ("hdf5", {"shuffle": 2})]
    ):
        home = tmp_path / str(number)
        home.mkdir()
        convert(pack, home / NAMES[name], name, split=SPLITS, **how)
        found.add(tuple(str(sorted(content(name, path, o))) for path, o in parts(home, name).values()))
    assert len(found) == 1


def test_dropped_empty_sequences_do_not_move_others(tmp_path):
    lists = [[i] if i % 3 else [] for i in range(200)]
    source = write(registry.get("modalities"), tmp_path / "in.pbin", Ragged.of(lists), eos_id=EOS)
    with pytest.raises(LossyConversionError, match=r"67 empty sequences \(first: sequence 0\)"):
        convert(source, tmp_path / "out.h5", "hdf5", split="a=0.5,b=0.5", shuffle=1)
    assert sorted(os.listdir(tmp_path)) == ["in.pbin", "in.pbin.scratch"]
    convert(source, tmp_path / "out.h5", "hdf5", split="a=0.5,b=0.5", shuffle=1, allow_loss=["empty-sequences"])
    for split, wanted in zip("ab", dealt(lists, (0.5, 0.5), 0), strict=True):
        assert content("hdf5", tmp_path / f"out.{split}.h5") == [s for s in shuffled(wanted, 1) if s]


def test_embedded_separators_are_split_where_they_go(tmp_path):
    lists = [[1, EOS, 2], [3], [4, 5], [6, EOS]] * 20
    source = write(registry.get("modalities"), tmp_path / "in.pbin", Ragged.of(lists), eos_id=EOS)
    convert(source, tmp_path / "out.h5", "hdf5", shuffle=4, allow_loss=["embedded-separators"])
    pieces = [[1], [2], [3], [4, 5], [6]]
    wanted = [piece for s in shuffled(lists, 4) for piece in pieces if set(piece) <= set(s)]
    assert content("hdf5", tmp_path / "out.h5") == wanted


def test_select_comes_first(lists, pack, tmp_path):
    convert(pack, tmp_path / "x.pbin", "modalities", select="100:200", shuffle=2)
    assert content("modalities", tmp_path / "x.pbin") == shuffled(lists[100:200], 2)


@each
def test_nothing_at_all(name, tmp_path):
    source = write(registry.get("modalities"), tmp_path / "in.pbin", Ragged.of([]), eos_id=EOS)
    (tmp_path / "out").mkdir()
    done = convert(source, tmp_path / "out" / NAMES[name], name, split=SPLITS, shuffle=1)
    assert (done.sequences, [split["tokens"] for split in done.splits.values()]) == (0, [0, 0, 0])
    for path, _ in parts(tmp_path / "out", name).values():
        assert path.exists()


# text


def test_text_is_dealt_out_and_shuffled(tmp_path):
    """Text is tokenized once; the order is that of its lines."""
    lines = CORPUS.read_bytes().splitlines()
    tokfmt.convert(CORPUS, tmp_path / "a.pbin", tokenizer=str(TOKENIZER), split="p=0.5,q=0.5", shuffle=9, verify=True)
    tokfmt.convert(CORPUS, tmp_path / "a.jsonl", split="p=0.5,q=0.5", shuffle=9, verify=True)
    for split, wanted in zip("pq", dealt(lines, (0.5, 0.5), 0), strict=True):
        copied = (tmp_path / f"a.{split}.jsonl").read_bytes().splitlines()
        assert copied == shuffled(wanted, 9)
        tokfmt.convert(tmp_path / f"a.{split}.jsonl", tmp_path / f"b.{split}.pbin", tokenizer=str(TOKENIZER))
        assert (
            tokfmt.open(tmp_path / f"b.{split}.pbin")[:].tolist()
            == tokfmt.open(tmp_path / f"a.{split}.pbin")[:].tolist()
        )


def test_lines_stay_as_they_are(tmp_path):
    """Spaces, other fields, CRLF, no final newline, invalid lines left out, selections, several files."""
    (tmp_path / "a.jsonl").write_bytes(b'{"text":  "one", "id": 1}\r\n{"text": "two"}\n{broken\n{"text": "\\u2028"}')
    (tmp_path / "b.jsonl").write_bytes('{"text": "\u2028 four"}\n{"text": ""}\n'.encode())
    tokfmt.convert(
        [tmp_path / "a.jsonl", tmp_path / "b.jsonl"],
        tmp_path / "plain.jsonl",
        allow_loss=["invalid-lines"],
        select="1:",
    )
    done = tokfmt.convert(
        [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out.jsonl", allow_loss=["invalid-lines"], select="1:",
        shuffle=3, verify=True,
    )  # fmt: skip
    plain = (tmp_path / "plain.jsonl").read_bytes().split(b"\n")[:-1]
    assert (tmp_path / "out.jsonl").read_bytes().split(b"\n")[:-1] == shuffled(plain, 3)
    invalid = "1 invalid line (a.jsonl: line 3 is not valid JSON (expecting property name enclosed in double quotes))"
    assert (done.sequences, done.tokens, done.losses) == (4, None, {"invalid-lines": invalid})


@pytest.mark.usefixtures("kept_workers")
def test_many_lines_in_any_way(tmp_path):
    lines = [json.dumps({"text": "x" * (i % 97), "n": i}).encode() for i in range(5000)]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    found = set()
    for number, executor in enumerate(("serial", "threads", "processes")):
        tokfmt.convert(tmp_path / "in.jsonl", tmp_path / f"{number}.jsonl", shuffle=1, executor=executor, jobs=2)
        found.add((tmp_path / f"{number}.jsonl").read_bytes())
    assert found == {b"\n".join(shuffled(lines, 1)) + b"\n"}


@pytest.mark.parametrize("resume", [False, True])
def test_lines_dealt_to_compressed_files(tmp_path, resume):
    """As compressed as their names say, whatever was arranged."""
    lines = [json.dumps({"text": "x" * (i % 97), "n": i}).encode() for i in range(500)]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    how = {"shuffle": 1, "split": "a=0.4,b=0.6"}
    tokfmt.convert(tmp_path / "in.jsonl", tmp_path / "o.jsonl", **how)
    tokfmt.convert(tmp_path / "in.jsonl", tmp_path / "o.jsonl.gz", resume=resume, verify=True, **how)
    for name in "ab":
        packed, plain = (tmp_path / f"o.{name}.jsonl{suffix}" for suffix in (".gz", ""))
        assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert not [path.name for path in tmp_path.iterdir() if "plain" in path.name or path.name.startswith(".")]


# what is asked for


@pytest.mark.parametrize(
    ("split", "says"),
    [
        ("train=0.9,validation=0.2", 'the shares sum to 1.1, not to 1. Write for example split="train=0.99,'),
        ("train=0.9", "the shares sum to 0.9, not to 1"),
        ("train=0.5,validation=0.499999", "the shares sum to 0.999999, not to 1"),
        ("train=1,train=0", "train occurs twice"),
        ("train=1,validation=0", "the share of validation is not a number above 0 and up to 1"),
        ("train=1.5,validation=-0.5", "the share of train is not a number"),
        ("train=much,validation=0.5", "the share of train is not a number"),
        ("train=nan,validation=0.5", "the share of train is not a number"),
        ("train=1e-999999999,b=1", "the share of train is not a number"),
        ("train=0.5,validation", "the share of validation is not a number"),
        ("train=0.5,,validation=0.5", "'' is not a plain name"),
        ("../up=0.5,b=0.5", "'../up' is not a plain name"),
        ("=0.5,b=0.5", "'' is not a plain name"),
    ],
)
def test_invalid_shares_are_refused(split, says, pack, tmp_path):
    with pytest.raises(OptionError) as error:
        tokfmt.convert(pack, tmp_path / "x.zarr", split=split)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == []


def test_shares_that_are_fine():
    for split in ("a=1", "a=0.3333333333,b=0.3333333333,c=0.3333333334", "a=.5, b=5e-1", "a=0.9999999999,b=1e-9"):
        assert arrangement_of(None, split, None).shares.seed == 0
    assert arrangement_of(None, "train", None) == Arrangement()


def test_seeds_and_options_that_contradict(pack, tmp_path):
    for how, says in (
        ({"seed": 1}, "seed: nothing is dealt out"),
        ({"seed": 1, "split": "train"}, "seed: nothing is dealt out"),
        ({"shuffle": -1}, "shuffle: -1 is not a seed"),
        ({"split": "a=1", "seed": 2**64}, "is not a seed"),
        ({"split": "a=1", "to_options": ["split=none"]}, 'to_options={"split": ...} names one split'),
    ):
        with pytest.raises(OptionError, match=says):
            tokfmt.convert(pack, tmp_path / "x.zarr", **how)
    assert os.listdir(tmp_path) == []


def test_shares_are_kept(tmp_path):
    """Of 40,000 sequences, 1 % is 400, give or take five standard deviations (20 each)."""
    source = write(
        registry.get("modalities"), tmp_path / "in.pbin", Ragged(np.arange(40_000), np.arange(40_001)), eos_id=0
    )
    counts = set()
    for seed in range(3):
        done = tokfmt.convert(
            source, tmp_path / "x.zarr", split="train=0.99,validation=0.01", seed=seed, overwrite=True, eos=0,
            executor="serial",
        )  # fmt: skip
        assert not [note for note in done.notes if "seed" in note], "the seed was chosen: nothing to say"
        counts.add(done.splits["validation"]["sequences"])
        assert abs(done.splits["validation"]["sequences"] - 400) < 100
        assert done.sequences == 40_000
    assert len(counts) > 1


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**64 - 1), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_every_sequence_goes_to_one_split(seed, weights):
    shares = ",".join(f"s{k}={weight / sum(weights):.12f}" for k, weight in enumerate(weights))
    found = arrangement_of(None, shares, seed).shares
    whole = found.split_of(0, 200)
    assert set(whole.tolist()) <= set(range(len(weights)))
    assert found.split_of(17, 90).tolist() == whole[17:90].tolist()


def test_split_without_a_seed_is_noted(pack, tmp_path):
    done = convert(pack, tmp_path / "x.zarr", "flat-tokens", split="a=1")
    assert done.notes[-1] == "sequences were dealt to splits by seed 0; override with seed=N"


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("modalities", "out.pbin", "out.train.pbin"),
        ("modalities", "out.bin", "out.bin.train"),
        ("hdf5", "d/out.h5", "d/out.train.h5"),
        ("hdf5", "d/out", "d/out.train"),
        ("hdf5", "v1.2/", "v1.2.train"),
        ("stage1", "stage1_block_0000.bin", "stage1_block_0000.train.bin"),
        ("jsonl", "a.b.jsonl", "a.b.train.jsonl"),
    ],
)
def test_names_of_destinations(name, path, expected, tmp_path):
    found = split_path(tmp_path / path, registry.get(name), "train")
    assert str(found.relative_to(tmp_path)) == expected


def test_splits_of_the_source(pack, tmp_path):
    """A store with two splits: --from-opt says which is dealt out again."""
    convert(pack, tmp_path / "x.zarr", "flat-tokens", split="train=0.5,validation=0.5")
    with pytest.raises(LossyConversionError, match='options={"split": NAME} reads one'):
        convert(tmp_path / "x.zarr", tmp_path / "y.zarr", "flat-tokens", split="train=0.5,test=0.5")
    done = convert(
        tmp_path / "x.zarr", tmp_path / "y.zarr", "flat-tokens", split="train=0.5,test=0.5",
        options={"split": "validation"},
    )  # fmt: skip
    assert done.sequences == len(content("flat-tokens", tmp_path / "x.zarr", "validation"))


def test_dry_run_counts_each_split(lists, pack, tmp_path):
    done = convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS, shuffle=1, dry_run=True)
    expected = dealt(lists, (0.7, 0.2, 0.1), 0)
    assert [split["sequences"] for split in done.splits.values()] == [len(part) for part in expected]
    assert [split["destination"] for split in done.splits.values()] == [
        str(path) for path, _ in parts(tmp_path, "modalities").values()
    ]
    assert os.listdir(tmp_path) == []


# all or none


def test_a_destination_that_exists_refuses_all(pack, tmp_path):
    (tmp_path / "x.validation.pbin").write_bytes(b"mine")
    with pytest.raises(DestinationExistsError, match="x.validation.pbin"):
        convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS)
    assert os.listdir(tmp_path) == ["x.validation.pbin"]
    convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS, overwrite=True)
    assert len([p for p in os.listdir(tmp_path) if p.endswith(".pbin")]) == 3


def test_a_destination_is_never_a_source(pack, tmp_path):
    (tmp_path / "x.train.pbin").write_bytes(pack.read_bytes())
    with pytest.raises(ConversionError, match=r"x\.train\.pbin: is also a source"):
        convert(tmp_path / "x.train.pbin", tmp_path / "x.pbin", "modalities", split=SPLITS, overwrite=True)


def test_a_wrong_second_split_leaves_nothing(pack, tmp_path, monkeypatch):
    from tokfmt.ops.convert import verify

    calls = []

    def second_fails(prepared, path, *rest):
        calls.append(path)
        if len(calls) == 2:
            raise VerificationError("differs")

    monkeypatch.setattr(verify, "verify_tokens", second_fails)
    with pytest.raises(VerificationError):
        convert(pack, tmp_path / "x.pbin", "modalities", split=SPLITS)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("existing", [False, True])
def test_published_together_or_not_at_all(tmp_path, monkeypatch, existing, portable):
    if portable:
        monkeypatch.setattr(atomic_output.ctypes, "CDLL", lambda *_, **__: object())
    if existing:
        for name in "abc":
            (tmp_path / name).write_text(f"old {name}")
    renamed = atomic_output.rename

    def third_fails(old, new, how):
        if new.name == "c":
            raise OSError(28, "No space left on device")
        renamed(old, new, how)

    def attempt():
        with Staging(tmp_path / "a", overwrite=existing) as a, Staging(tmp_path / "b", overwrite=existing) as b:
            with Staging(tmp_path / "c", overwrite=existing) as c:
                for staging in (a, b, c):
                    staging.path.write_text("new")
                publish_together({a: {}, b: {}, c: {}})

    with monkeypatch.context() as patched:
        patched.setattr(atomic_output, "rename", third_fails)
        with pytest.raises(ConversionError, match="no space left"):
            attempt()
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert left == ({name: f"old {name}" for name in "abc"} if existing else {})
    attempt()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys("abc", "new")


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("names", ["a", "abc"])
@pytest.mark.parametrize("moment", range(12))
def test_signal_leaves_no_destination_without_its_companions(tmp_path, monkeypatch, existing, names, moment):
    """After any rename, all outputs have their companions, or the old outputs are back."""
    if existing:
        for name in names:
            (tmp_path / name).write_text(f"old {name}")
            (tmp_path / f"{name}.json").write_text(f"beside old {name}")
    before, moments, hit = {path.name: path.read_text() for path in tmp_path.iterdir()}, iter(range(1000)), []

    def struck(function):
        def call(*given):
            function(*given)
            if next(moments) == moment:
                hit.append(given)
                raise KeyboardInterrupt

        return call

    stagings = [Staging(tmp_path / name, overwrite=existing) for name in names]
    with monkeypatch.context() as patched, contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        for staging in stagings:
            stack.enter_context(staging)
            staging.path.write_text("new")
        patched.setattr(atomic_output, "rename", struck(atomic_output.rename))
        patched.setattr(os, "replace", struck(os.replace))
        publish_together({one: {f"{one.destination.name}.json": b"beside new"} for one in stagings})
    left = {path.name: path.read_text() for path in tmp_path.iterdir()}
    whole = dict.fromkeys(names, "new") | {f"{name}.json": "beside new" for name in names}
    assert left in (whole, before)
    assert hit or left == whole
