"""`--overwrite` replaces datasets and nothing else: for every kind of destination, what is no dataset's stays as it is."""

import contextlib
import json
import os
import stat
from importlib import import_module

import pytest
from check_cases import asked
from paths import FIXTURES

import tokfmt
from tokfmt.core import durable, publisher
from tokfmt.core.errors import ConversionError, DestinationExistsError, TokfmtError, VerificationError
from tokfmt.core.findings import Finding
from tokfmt.core.publisher import Publisher
from tokfmt.formats.jsonl.index import write_index
from tokfmt.ops.check import check
from tokfmt.ops.check.fix import fix
from tokfmt.ops.show.export import export

PACK = FIXTURES / "modalities/D_2byte_gpt2.pbin"
EMPTY = ["empty-sequences", "embedded-separators"]
SINGLE = {"jsonl": "x.jsonl", "modalities": "x.pbin", "hdf5": "x.h5", "stage1": "stage1_block_0000.bin"}
DIRECTORIES = {"stage1": "blocks", "hdf5": "samples", "flat-tokens": "x.zarr"}


def convert(source, destination, to=None, **more):
    more = {"allow_loss": EMPTY, "executor": "serial", **more}
    seq_len = 64 if to in ("stage1", "hdf5") else None
    return tokfmt.convert(source, destination, to_format=to, seq_len=seq_len, eos=50256, **more)


def held(home):
    """Kind, mode, inode and content of everything below a directory, hidden names included."""
    found = {}
    for path in sorted(home.rglob("*")):
        status = os.lstat(path)
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        content = os.readlink(path) if stat.S_ISLNK(status.st_mode) else content
        found[str(path.relative_to(home))] = (status.st_mode, status.st_ino, content)
    return found


@contextlib.contextmanager
def untouched(home):
    """Nothing below a directory changes, but for the times of directories."""
    before = held(home)
    yield
    assert held(home) == before


def refused(home, destination, to, says):
    """Both words are refused, with a sentence that does not advise what would not help; so is the plan."""
    for overwrite in (True, False):
        for dry_run in (True, False):
            with untouched(home), pytest.raises(ConversionError, match=says) as raised:
                convert(PACK, destination, to, overwrite=overwrite, dry_run=dry_run)
            assert "--overwrite replaces it" not in str(raised.value)
            assert isinstance(raised.value, DestinationExistsError) != overwrite


def fifo(path):
    os.mkfifo(path)


@pytest.mark.parametrize("where", [".", "..", "../..", "../beside/.."])
def test_current_and_home_directory_are_not_replaced(tmp_path, monkeypatch, where):
    here = tmp_path / "a" / "b"
    here.mkdir(parents=True)
    (tmp_path / "a" / "beside").mkdir()
    monkeypatch.chdir(here)
    refused(tmp_path, where, "stage1", "the current directory")
    monkeypatch.chdir("/")
    monkeypatch.setenv("HOME", str(here))
    refused(tmp_path, here / where, "stage1", "your home directory")


# sources


@pytest.fixture
def beside(tmp_path):
    """A text and its index: one dataset of two files."""
    text = tmp_path / "in" / "x.jsonl"
    text.parent.mkdir()
    text.write_text('{"input_ids": [1, 2]}\n' * 5)
    write_index(text)
    return text


def test_every_file_of_a_source_is_guarded(beside, tmp_path):
    home = tmp_path / "in"
    index = beside.with_suffix(".idx")
    (tmp_path / "hard").hardlink_to(index)
    (tmp_path / "soft").symlink_to(index)
    (tmp_path / "ways").symlink_to(home)
    for destination in (
        beside,
        index,
        tmp_path / "hard",
        tmp_path / "soft",
        tmp_path / "ways" / "x.idx",
        home,
        tmp_path,
    ):
        with untouched(tmp_path), pytest.raises(ConversionError, match="source"):
            convert(beside, destination, "modalities", overwrite=True)
    with untouched(tmp_path), pytest.raises(ConversionError, match="source"):
        export(tokfmt.open(beside, eos="none"), [0], beside, paths=[beside], overwrite=True)


# other commands that write


def test_indexes_pages_and_exports_replace_files_only(beside, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "precious").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    source = tokfmt.open(beside, eos="none")
    for out, says in ((home, "it is a directory"), (tmp_path / "fifo", "it is a FIFO")):
        with untouched(tmp_path), pytest.raises(ConversionError, match=says):
            write_index(beside, out, overwrite=True)
        with untouched(tmp_path), pytest.raises(ConversionError, match=says):
            export(source, [0], out, overwrite=True)


REPAIRED = {"x.pbin": "modalities/E_D_2byte_gpt2.pbin", "x.h5": "bad/hdf5/control_no_n_examples.h5"}


@pytest.mark.parametrize("name", REPAIRED)
def test_a_repair_that_fails_leaves_the_old_one(tmp_path, monkeypatch, name):
    """It is proved before anything goes, whether it is written anew or patched."""
    out, source = tmp_path / name, FIXTURES / REPAIRED[name]
    out.write_bytes(b"mine")
    (verdict,) = check(asked(source))

    def finds_more(request, *rest):
        (found,) = check(request, *rest)
        found.add([Finding("TF1", "error", str(request.source.paths[0]), "made up")], {})
        return [found]

    with monkeypatch.context() as patched, untouched(tmp_path):
        patched.setattr(import_module("tokfmt.ops.check.fix"), "check", finds_more)
        with pytest.raises(VerificationError, match="would still have TF1") as raised:
            fix(verdict, out, asked(source), overwrite=True)
        assert ".tokfmt-" not in str(raised.value)
    after = fix(verdict, out, asked(source), overwrite=True).report
    assert {after.path, *(found.path for found in after.findings)} == {str(out)}
    assert out.read_bytes() != b"mine"


def test_a_repaired_index_appears_with_its_text(beside, tmp_path):
    index = beside.with_suffix(".idx")
    index.write_bytes(index.read_bytes()[:-3])
    (verdict,) = check(asked(beside))
    (tmp_path / "y.idx").write_bytes(b"mine")
    with untouched(tmp_path), pytest.raises(DestinationExistsError, match=r"y\.idx"):
        fix(verdict, tmp_path / "y.jsonl", asked(beside))
    fix(verdict, tmp_path / "y.jsonl", asked(beside), overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["in", "y.idx", "y.jsonl", "y.jsonl.tokfmt.json"]
    write_index(tmp_path / "y.jsonl", tmp_path / "again.idx")
    assert (tmp_path / "again.idx").read_bytes() == (tmp_path / "y.idx").read_bytes()


# what comes between looking and renaming


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_unrelated_file_added_during_the_write_is_kept(tmp_path, monkeypatch, portable, moment):
    """The file appears in the old dataset during the write, or right before the rename."""
    out = tmp_path / "out"
    convert(PACK, out, "stage1")
    renamed = durable.rename_portably if portable else durable.rename

    def late(old, new, how):
        if moment == "before" or new != out:
            (out / "thesis.tex").write_text("three years")
        renamed(old, new, how)
        if moment == "after" and new == out and not (out / "thesis.tex").exists():
            place = next(p for p in (durable.replaced_path(old), old) if p.exists())
            (place / "thesis.tex").write_text("three years")

    monkeypatch.setattr(publisher, "rename", late)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(ConversionError, match=r"thesis\.tex, which belongs to no dataset"):
        convert(PACK, out, "stage1", overwrite=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {**before, "thesis.tex": b"three years"}
    assert sorted(os.listdir(tmp_path)) == ["out", "out.tokfmt.json"]


# permissions


def modes(path):
    return {p.name: stat.S_IMODE(p.stat().st_mode) for p in [path, *path.rglob("*")]}


@pytest.fixture
def usual():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize(("source", "wanted"), [(0o600, 0o600), (0o640, 0o640), (0o444, 0o644), (0o666, 0o644)])
def test_new_output_is_no_more_readable_than_its_sources(tmp_path, usual, source, wanted):
    text = tmp_path / "x.jsonl"
    text.write_text('{"input_ids": [1, 2]}\n' * 50)
    text.chmod(source)
    for to, name in {**SINGLE, **DIRECTORIES}.items():
        home = tmp_path / f"of-{to}"
        home.mkdir()
        convert(text, home / name, to)
        found = modes(home / name)
        assert {mode & 0o666 for mode in found.values()} == {wanted}, to
        assert stat.S_IMODE((home / f"{name}.tokfmt.json").stat().st_mode) == wanted
    write_index(text)
    assert stat.S_IMODE(text.with_suffix(".idx").stat().st_mode) == wanted


# file systems with less


def test_without_hard_links_or_flags(tmp_path, monkeypatch):
    """FUSE, FAT: neither renameat2's flags nor links."""

    def no_links(*paths):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(publisher, "rename", durable.rename_portably)
    monkeypatch.setattr(os, "link", no_links)
    for overwrite in (False, True):
        convert(PACK, tmp_path / "x.pbin", overwrite=overwrite)
    with pytest.raises(DestinationExistsError), Publisher(tmp_path / "y") as staging:
        staging.path.write_text("new")
        (tmp_path / "y").write_text("mine")
        staging.publish()
    assert sorted(os.listdir(tmp_path)) == ["x.pbin", "x.pbin.tokfmt.json", "y"]
    assert json.loads((tmp_path / "x.pbin.tokfmt.json").read_bytes())["format"] == "modalities"
    assert (tmp_path / "y").read_text() == "mine"


def test_errors_name_the_destination(tmp_path, monkeypatch):
    """Not the hidden place where it is built."""

    def differs(*args, **kwargs):
        raise tokfmt.TokfmtError(f"{args[1]}: differs")

    monkeypatch.setattr("tokfmt.ops.convert.verify.verify_tokens", differs)
    with pytest.raises(TokfmtError, match="differs") as raised:
        convert(PACK, tmp_path / "x.pbin", verify=True)
    assert str(raised.value) == f"{tmp_path / 'x.pbin'}: differs"
    assert os.listdir(tmp_path) == []
