"""Room on the file system of a destination: what plainly does not fit is refused before a byte is written."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from paths import FIXTURES

import tokfmt
from tokfmt import convert
from tokfmt.cli.main import cli
from tokfmt.commands.guards import free_bytes, sized, taken_bytes
from tokfmt.errors import ConversionError, TokfmtError

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"  # 2,004 tokens
TEN_TB = 10 * 10**12
HUGE = ["x_document.bin", "x.ds", "x.pbin", "stage1_block_0000.bin"]


def sparse(folder):
    """Ten terabytes of zeros that take no space: datatrove's tokens, and an index of one document."""
    path = folder / "huge.ds"
    path.touch()
    os.truncate(path, TEN_TB)
    np.asarray([TEN_TB // 2], "<u8").tofile(folder / "huge.ds.index")
    return path


@pytest.fixture
def room(monkeypatch):
    """Pretend that a file system has so many bytes left."""

    def pretend(free):
        found = SimpleNamespace(f_bavail=free, f_frsize=1, f_blocks=1 << 40, f_fsid=1)
        monkeypatch.setattr(os, "statvfs", lambda path: found)

    return pretend


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("dry_run", [False, True])
def test_ten_terabytes_are_refused_at_once(name, dry_run, tmp_path):
    source = sparse(tmp_path)
    expected = r"does not fit on its file system \(expected at least [12]0\.0 TB, found .* free\)"
    allow_loss = ("embedded-separators", "empty-sequences")
    with pytest.raises(ConversionError, match=expected) as error:
        convert(source, tmp_path / "out" / ".." / name, eos=50256, allow_loss=allow_loss, dry_run=dry_run)
    assert error.value.exit_code == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["huge.ds", "huge.ds.index"]


@pytest.mark.parametrize("how", [{}, {"shuffle": 1}, {"resume": True}, {"split": "train=0.9,val=0.1"}])
def test_less_room_than_tokens(how, tmp_path, room):
    destination = tmp_path / ("out.ds")
    room(1500)
    with pytest.raises(ConversionError, match="does not fit on its file system"):
        convert(PACK, destination, **how)
    room(1 << 30)
    assert convert(PACK, destination, **how).tokens == 2004
    assert len(tokfmt.open(tmp_path / "out.train.ds" if "split" in how else destination)) > 1


@pytest.mark.parametrize("name", ["out.zarr", "out.parquet", "out.jsonl"])
def test_sizes_that_depend_on_compression_or_text_are_not_guessed(name, tmp_path, room):
    room(1)
    assert convert(PACK, tmp_path / name).tokens == 2004


def test_a_dry_run_shows_it(tmp_path, room):
    room(5_000_000)
    run = CliRunner().invoke(cli, ["convert", str(PACK), str(tmp_path / "x.ds"), "--dry-run"])
    assert "space        at least 4.1 kB, 5.0 MB free\n" in run.output
    done = convert(PACK, tmp_path / "x.zarr", dry_run=True)
    assert (done.plan["minimum_bytes"], done.plan["free_bytes"]) == (None, 5_000_000)


CHECKED = [
    "x.pbin",
    "x_document.bin",
    "x.ds",
    "train.bin",
    "x_train_0.bin",
    "part-0.npy",
    "mds",
    "litdata",
    "corpus.h5",
]
UNCHECKED = ["x.zarr", "x.parquet", "x.arrow", "x.jsonl", "x.h5", "mds zstd", "litdata zstd"]


@pytest.mark.parametrize("name", [*CHECKED, *UNCHECKED])
def test_formats_that_are_checked(name, tmp_path, room):
    """As docs/convert.md lists them."""
    room(100)
    format_, _, codec = name.partition(" ")
    how = {"to_format": format_, "to_options": {"compression": codec or "none"}} if "." not in name else {}
    if name.startswith("corpus"):
        how = {"to_options": {"layout": "corpus"}}
    allow_loss = ["empty-sequences", "embedded-separators"] if name.endswith(".h5") else []
    least = "4.0" if allow_loss else "4.1"  # Separators of sequences that may be left out are not counted.
    if name in CHECKED:
        with pytest.raises(ConversionError, match=f"expected at least {least} kB, found 100 bytes free"):
            tokfmt.convert(PACK, tmp_path / "out" / ".." / name, dry_run=True, allow_loss=allow_loss, **how)
    else:
        done = tokfmt.convert(PACK, tmp_path / name, dry_run=True, allow_loss=allow_loss, **how)
        assert done.plan["minimum_bytes"] is None


def test_space_of_kept_work_is_not_counted_twice(tmp_path, room, monkeypatch):
    """A disk that is full when the last files are flushed keeps the work of the run."""
    flushed, fsync = [], os.fsync

    def full_at_the_end(fd):
        flushed.append(fd)
        if len(flushed) > 6:  # the tokens were flushed, and journaled
            raise OSError(28, "No space left on device")
        fsync(fd)

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", full_at_the_end)
        with pytest.raises(TokfmtError, match="no space left"):
            convert(PACK, tmp_path / "out.ds", resume=True)
    room(200)  # of 4,008 bytes, which are there
    assert convert(PACK, tmp_path / "out.ds", resume=True).tokens == 2004


def test_a_file_system_that_reports_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=0, f_frsize=512, f_blocks=0))
    assert free_bytes(tmp_path) is None
    assert convert(PACK, tmp_path / "out.ds").tokens == 2004


def test_holes_take_no_space(tmp_path):
    sparse(tmp_path)
    assert taken_bytes(tmp_path) < 1 << 20


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (TEN_TB, "10.0 TB"), (10**18, "1,000.0 PB")],
)
def test_sizes_for_people(count, words):
    assert sized(count) == words
