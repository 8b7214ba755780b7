"""Disks that are full, files that may not grow, sources that change under the reader, two conversions at once."""

import errno
import os
import shutil
import subprocess

import numpy as np
import pytest
from amount import FUZZ_ONLY, only, pairs
from paths import FIXTURES
from survival.stage import EACH, EVERY, NAMES, TARGETS, TEXT, Place, check, check_again, small_disk, until

import tokfmt

pytestmark = pytest.mark.slow

SERIAL = ["--executor", "serial"]


def place_for(tmp_path, stage, source, words, names=None):
    place = Place(tmp_path / "home", [source.name, *words, *SERIAL], source, names)
    place.learn(stage)
    return place


@pytest.mark.parametrize("target", EACH)
def test_files_may_not_grow(tmp_path, stage, pack, target):
    """EFBIG, by RLIMIT_FSIZE, at swept sizes."""
    place = place_for(tmp_path, stage, pack, TARGETS[target], NAMES.get(target))
    largest = max(map(len, place.new.values()))
    refused = 0
    for limit in range(2048, largest + 2, 500 if EVERY else largest // 5):  # what it says goes to a file as well
        place.reset()
        ended = stage.run(place.home, *place.words, limit=limit)
        state = check(place, ended)
        if ended.code:
            assert (ended.code, state, place.hidden()) == (4, "absent", [])
            assert "the file would be larger than allowed here" in ended.error()
            refused += 1
    check_again(place, stage, state)
    assert refused >= 3


SHORT = ("no space left on the disk", "does not fit on its file system")
"""What a full disk is called once it is full, and when that is foreseen."""


@pytest.mark.parametrize("target", EACH)
def test_full_disk(tmp_path, stage, pack, target):
    """ENOSPC, on a tmpfs of swept sizes that holds the source and the destination."""
    place = place_for(tmp_path, stage, pack, TARGETS[target], NAMES.get(target))
    refused = 0
    for pages in range(5, 40, 1 if EVERY else 6):
        home = tmp_path / f"disk-{pages}"
        home.mkdir()
        with small_disk(home, pages * 4096) as why:
            if why:
                pytest.skip(f"a small disk needs the right to mount: {why}")
            shutil.copy(pack, home)
            place.home = home
            ended = stage.run(home, *place.words)
            state = check(place, ended)
            if ended.code:
                assert (ended.code, state, place.hidden()) == (4, "absent", [])
                assert any(words in ended.error() for words in SHORT)
                refused += 1
    assert refused, "every disk was large enough"
    assert state == "new", "no disk was large enough"


@FUZZ_ONLY
def test_files_may_not_grow_with_text(tmp_path, stage, text):
    """EFBIG in scratch, where the ids of the text go first."""
    place = place_for(tmp_path, stage, text, ["out.pbin", *TEXT])
    place.reset()
    ended = stage.run(place.home, *place.words, limit=4096)
    assert check(place, ended) == "absent"
    assert (ended.code, place.hidden()) == (4, [])
    assert ended.error().startswith(f"tokfmt: error: {place.name}: cannot be written"), "not what is under way"
    assert "the file would be larger than allowed here" in ended.error()


ARRANGED = {
    "shuffle": (["out.pbin", "--shuffle", "1"], None),
    "split": (
        ["out.pbin", "--shuffle", "1", "--split", "train=0.6,validation=0.4"], ["out.train.pbin", "out.validation.pbin"],
    ),
    "hdf5 directory": (["out", "--to", "hdf5", "--seq-len", "128", "--to-opt", "shard_size=1152"], None),
    "resume": (["out.pbin", "--shuffle", "1", "--resume"], None),
}  # fmt: skip


@pytest.mark.parametrize("kind", only(["split", "resume"], ARRANGED))
def test_full_disk_while_arranging(tmp_path, stage, pack, kind):
    """Spills take space too; with --resume, what is kept is continued where there is more."""
    words, names = ARRANGED[kind]
    place = Place(tmp_path / "home", [pack.name, *words, *SERIAL], pack, names)
    place.learn(stage)
    refused, state = 0, None
    for pages in range(8, 60, 1 if EVERY else 8):
        place.home = tmp_path / f"disk-{pages}"
        place.home.mkdir()
        with small_disk(place.home, pages * 4096) as why:
            if why:
                pytest.skip(f"a small disk needs the right to mount: {why}")
            shutil.copy(pack, place.home)
            ended = stage.run(place.home, *place.words)
            state = check(place, ended)
            if ended.code:
                assert (ended.code, state) == (4, "absent")
                assert any(words in ended.error() for words in SHORT)
                assert place.hidden() in ([], [".out.pbin.tokfmt-work"] if kind == "resume" else [])
                refused += 1
    assert refused, "every disk was large enough"
    assert state == "new", "no disk was large enough"


@FUZZ_ONLY
def test_full_disk_with_text(tmp_path, stage, text):
    """Scratch shards take space as well."""
    place = place_for(tmp_path, stage, text, ["out.pbin", *TEXT])
    place.home = tmp_path / "disk"
    place.home.mkdir()
    with small_disk(place.home, 6 * 4096) as why:
        if why:
            pytest.skip(f"a small disk needs the right to mount: {why}")
        shutil.copy(text, place.home)
        ended = stage.run(place.home, *place.words)
        assert check(place, ended) == "absent"
        assert ended.code == 4
        assert "no space left on the disk" in ended.error()
        assert place.hidden() == []


SOURCES = {
    "jsonl": (FIXTURES / "jsonl" / "corpus.jsonl", [*TEXT, "--allow-loss", "fields"]),
    "modalities": (FIXTURES / "modalities" / "D_2byte_gpt2.pbin", ["--eos", "50256"]),
    "stage1": (FIXTURES / "stage1" / "blocks", []),
    "hdf5": (FIXTURES / "hdf5" / "packed_overlap", ["--eos", "50256"]),
    "flat-tokens": (FIXTURES / "flat-tokens" / "multi_chunk.zarr", ["--split", "train"]),
}


@pytest.fixture(params=only(["hdf5"], SOURCES))
def reading(request, tmp_path, stage):
    """A conversion to lines, and which of its operations read the source."""
    source, words = SOURCES[request.param]
    out = ["out.pbin"] if request.param == "jsonl" else ["out.jsonl"]
    place = Place(tmp_path / "home", [source.name, *out, *words, *SERIAL], source)
    operations = place.learn(stage).operations
    reads = [k for k, name in enumerate(operations) if name.split(maxsplit=1)[1].startswith(source.name)]
    assert len(reads) > 4
    return place, operations, reads


def some(numbers, most):
    return numbers if EVERY else numbers[:: max(1, len(numbers) // most)]


def test_a_source_that_cannot_be_read(reading, stage):
    """EIO and EACCES at reads of every format: exit code 3, and the source is named, not the destination."""
    place, operations, reads = reading
    for at in some(reads, 12):
        code = (errno.EIO, errno.EACCES)[at % 2]
        place.reset()
        ended = stage.run(place.home, *place.words, at=at, errno=code)
        assert check(place, ended) == "absent", operations[at]
        assert ended.code == 3, (operations[at], ended.stderr)
        assert place.words[0] in ended.error()
        assert "cannot be written" not in ended.error(), operations[at]
        assert place.hidden() == []


@pytest.mark.parametrize("how", ["shrinks", "grows"])
def test_a_source_that_changes(reading, stage, how):
    """Before any read of it: an error, or the run was over with it, and the destination is what it was."""
    place, operations, reads = reading
    kept, refused = place.home / place.words[0], 0
    original = place.home.parent / "original"
    (shutil.copytree if kept.is_dir() else shutil.copy)(kept, original)
    for at in some(reads, 6):
        name = operations[at].split(maxsplit=1)[1]
        file = place.home / name
        if not file.is_file():
            continue
        size = file.stat().st_size
        place.reset()
        ended = stage.run(place.home, *place.words, at=at, change=[str(file), size // 2 if how == "shrinks" else None])
        shutil.rmtree(kept) if kept.is_dir() else kept.unlink()
        (shutil.copytree if original.is_dir() else shutil.copy)(original, kept)
        if not size and how == "shrinks":
            continue
        # all that is read before the first look is read of the file as it then is: a pack with bytes too many, or too few
        assert check(place, ended) == "absent", operations[at]
        assert ended.code == 3, (operations[at], ended.stderr)
        assert place.hidden() == []
        refused += 1
    assert refused >= 2
    check_again(place, stage, "absent")


# two at once


def racing(place, stage, at, words, meanwhile):
    """Hold one conversion before its operation `at`, run another (or what is given), let the first go on."""
    signs = place.home.parent / f"signs-{at}"
    signs.mkdir()
    first = stage.start(place.home, *words, at=at, pause=str(signs))
    until((signs / "paused").exists, "the pause")
    second = meanwhile()
    (signs / "go").touch()
    return stage.wait(first), second


@pytest.mark.parametrize(
    ("target", "more"),
    pairs(["modalities", "stage1"], [(), ("--overwrite",)]),
    ids=lambda value: "".join(value) or "fresh",
)
def test_two_for_one_destination(tmp_path, stage, pack, target, more):
    """One writes, whenever the other comes; the other is refused while it does, and what is there is whole."""
    place = place_for(tmp_path, stage, pack, TARGETS[target], NAMES.get(target))
    words = [*place.words, *more]
    operations = stage.run(place.home, *words).operations
    begins = next(k for k, name in enumerate(operations) if name.startswith("os.mkdir"))
    for at in range(begins, len(operations), 1 if EVERY else 19):
        place.reset()
        first, second = racing(place, stage, at, words, lambda: stage.run(place.home, *words))
        assert place.state() == "new"
        assert place.manifest.exists()
        codes = sorted([first.code, second.code])
        assert codes == [0, 4] or (more and codes == [0, 0]), (operations[at], first.stderr, second.stderr)
        for loser in (one for one in (first, second) if one.code):
            assert "already exists" in loser.error() or "another tokfmt is writing it now" in loser.error()
        assert place.hidden() == []


def test_a_destination_that_appears_meanwhile(tmp_path, stage, pack):
    """Made by anybody, at the last moment: it stays as it is."""
    place = place_for(tmp_path, stage, pack, TARGETS["modalities"])
    operations = stage.run(place.home, *place.words).operations
    last = next(k for k, name in enumerate(operations) if name.startswith("renameat2"))
    place.reset()
    made = place.home / place.name
    first, _ = racing(place, stage, last, place.words, lambda: made.write_bytes(b"mine"))
    assert first.code == 4
    assert "already exists" in first.error()
    assert made.read_bytes() == b"mine"
    assert sorted(os.listdir(place.home)) == sorted([place.words[0], place.name])


@FUZZ_ONLY
def test_a_full_disk_keeps_what_is_done_of_every_format(tmp_path, stage):
    """With --resume; of formats that are written chunk by chunk as well, whose size is not known beforehand."""
    pack, home = tmp_path / "train.bin", tmp_path / "disk"
    ids = np.random.default_rng(3).integers(1, 60_000, 3 << 20).astype("<u2")
    ids[::500] = 0
    ids.tofile(pack)
    home.mkdir()
    words = [str(pack), "out.zarr", "--from", "nanogpt", "--eos", "0", "--resume", *SERIAL]
    with small_disk(home, 6 << 20) as why:
        if why:
            pytest.skip(f"a small disk needs the right to mount: {why}")
        ended = stage.run(home, *words)
        assert ended.code == 4
        assert "no space left on the disk" in ended.error()
        assert "The finished work is kept in .out.zarr.tokfmt-work: run again with --resume" in ended.stderr
        assert sorted(os.listdir(home)) == [".out.zarr.tokfmt-work"]
        subprocess.run(["mount", "-o", f"remount,size={64 << 20}", str(home)], check=True)
        ended = stage.run(home, *words)
        assert (ended.code, "continuing the work in .out.zarr.tokfmt-work" in ended.stderr) == (0, True), ended.stderr
        assert tokfmt.diff(pack, home / "out.zarr", format=("nanogpt", None), eos=0).identical
