"""`--overwrite` replaces datasets and nothing else: for every kind of destination, what is no dataset's stays as it is."""

import contextlib
import gzip
import os
import socket
import stat
import subprocess
import sys

import forkserver
import pytest
from amount import pairs
from commands import run
from moments import At
from paths import FIXTURES

import tokfmt
from tokfmt.errors import ConversionError, DestinationExistsError

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


def listening(path):
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
        made.bind(path.name)


def null(path):
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices are made by root")


@pytest.mark.parametrize(("make", "says"), [(fifo, "it is a FIFO"), (listening, "a socket"), (null, "a device")])
@pytest.mark.parametrize("linked", [False, True])
def test_no_file_is_never_replaced(tmp_path, make, says, linked):
    make(tmp_path / "x")
    if linked:
        (tmp_path / "link").symlink_to("x")
    refused(tmp_path, tmp_path / ("link" if linked else "x"), "jsonl", says)


def test_open_files_are_no_places(tmp_path):
    for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        with pytest.raises(ConversionError, match="Standard output is -"):
            convert(PACK, name, "jsonl", overwrite=True)


STRANGERS = {
    "a file": lambda home: (home / "thesis.tex").write_text("three years"),
    "a hidden file": lambda home: (home / ".gitignore").write_text("*"),
    "a tree": lambda home: ((home / ".git").mkdir(), (home / ".git" / "HEAD").write_text("ref")),
    "an empty directory": lambda home: (home / "photos").mkdir(),
    "a link": lambda home: (home / "link").symlink_to("/nowhere"),
    "a FIFO": lambda home: os.mkfifo(home / "fifo"),
    "another dataset": lambda home: (home / "eval.pbin").write_bytes(PACK.read_bytes()),
}


@pytest.mark.parametrize(("kind", "stranger", "manifest"), pairs(DIRECTORIES, STRANGERS, [False, True]))
def test_strangers_in_a_dataset(tmp_path, kind, stranger, manifest):
    """Of every format that is a directory; whatever the new format is."""
    out = tmp_path / DIRECTORIES[kind]
    convert(PACK, out, kind, manifest=manifest)
    STRANGERS[stranger](out)
    for to in DIRECTORIES:
        refused(tmp_path, out, to, "belongs to no dataset there")


@pytest.mark.parametrize("manifest", [False, True])
@pytest.mark.parametrize("kind", DIRECTORIES)
def test_a_directory_that_is_a_dataset_goes(tmp_path, kind, manifest):
    out = tmp_path / DIRECTORIES[kind]
    convert(PACK, out, "stage1", manifest=manifest)
    before = sorted(p.name for p in out.iterdir())
    planned = convert(PACK, out, kind, overwrite=True, dry_run=True)
    assert planned.replaces[str(out)].startswith("a directory of 1 file, ")
    assert planned.replaces[str(out)].endswith("and its manifest") == manifest
    with pytest.raises(DestinationExistsError, match="--overwrite replaces it"):
        convert(PACK, out, kind, dry_run=True)
    convert(PACK, out, kind, overwrite=True)
    assert tokfmt.open(out, eos=50256).info.sequences > 0
    assert kind == "stage1" or sorted(p.name for p in out.iterdir()) != before
    assert sorted(os.listdir(tmp_path)) == [out.name, f"{out.name}.tokfmt.json"]


def test_a_directory_without_a_dataset(tmp_path):
    """The project that was lost to one file in it."""
    home = tmp_path / "proj"
    for name in ("src/train.py", ".git/HEAD", "raw/corpus.txt"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(name)
    (home / "eval.jsonl").write_text('{"text": "x"}\n')
    refused(tmp_path, home, "stage1", "it holds .* and 2 more, which belong to no dataset there")
    (tmp_path / "empty").mkdir()
    convert(PACK, tmp_path / "empty", "stage1", overwrite=True)


@pytest.mark.parametrize("names", [["thesis.txt"], ["a.md", "b.md", "README.md"], ["x.txt.gz"], ["part-0-00000.npy"]])
def test_directory_recognized_only_by_names_is_not_replaced(tmp_path, names):
    """It can be read as text or IDs, but no content shows that tokfmt may replace it."""
    home = tmp_path / "notes"
    home.mkdir()
    for name in names:
        (home / name).write_bytes(gzip.compress(b"three years") if name.endswith("gz") else b"three years ")
    refused(tmp_path, home, "flat-tokens", "it holds .*, which belongs? to no dataset there")


def test_mount_points(tmp_path):
    out = tmp_path / "out"
    convert(PACK, out, "stage1", manifest=False)
    (out / "more").mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(out / "more")], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting needs the right to")
    try:
        refused(tmp_path, out / "more", "stage1", "it is a mount point")
        refused(tmp_path, out, "stage1", "more in it is a mount point")
    finally:
        subprocess.run(["umount", "-l", str(out / "more")], check=True)


# links


@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("kind", ["modalities", "flat-tokens"])
def test_links_are_followed(tmp_path, kind, dangling):
    """What they point at is replaced, there; the link stays, and the manifest stands beside what it describes."""
    disk, home = tmp_path / "disk", tmp_path / "home"
    disk.mkdir()
    home.mkdir()
    real = disk / "real"
    if not dangling:
        convert(PACK, real, kind)
    (home / "link").symlink_to("../disk/other")
    (disk / "other").symlink_to(real)
    if dangling:
        convert(PACK, home / "link", kind)
    else:
        with pytest.raises(DestinationExistsError):
            convert(PACK, home / "link", kind)
        assert (
            f"at {real}"
            in convert(PACK, home / "link", kind, overwrite=True, dry_run=True).replaces[str(home / "link")]
        )
        old = os.lstat(real).st_ino
        convert(PACK, home / "link", kind, overwrite=True)
        assert os.lstat(real).st_ino != old
    assert [os.readlink(home / "link"), os.readlink(disk / "other")] == ["../disk/other", str(real)]
    assert sorted(os.listdir(home)) == ["link"]
    assert sorted(os.listdir(disk)) == ["other", "real", "real.tokfmt.json"]
    assert tokfmt.open(real, eos=50256).info.sequences


def test_loops_of_links(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with untouched(tmp_path), pytest.raises(ConversionError, match="a loop of symbolic links"):
        convert(PACK, tmp_path / "a", "jsonl", overwrite=True)


def test_overwriting_removes_the_manifest_beside_a_link(tmp_path):
    """The manifest describes a dataset that no longer exists."""
    convert(PACK, tmp_path / "x.pbin")
    (tmp_path / "real").mkdir()
    (tmp_path / "x.pbin").rename(tmp_path / "real" / "x.pbin")
    (tmp_path / "x.pbin").symlink_to("real/x.pbin")
    convert(PACK, tmp_path / "x.pbin", overwrite=True)
    assert sorted(os.listdir(tmp_path)) == ["real", "x.pbin"]
    assert sorted(os.listdir(tmp_path / "real")) == ["x.pbin", "x.pbin.tokfmt.json"]


def test_a_source_where_the_manifest_goes(tmp_path):
    source = tmp_path / "x.pbin.tokfmt.json"
    source.write_text('{"input_ids": [1, 2]}\n')
    with untouched(tmp_path), pytest.raises(ConversionError, match="is a source"):
        convert(source, tmp_path / "x.pbin", format="jsonl", overwrite=True)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("link", [False, True])
def test_foreign_file_at_the_path_of_the_manifest(tmp_path, there, link):
    if there:
        convert(PACK, tmp_path / "x.pbin", manifest=False)
    if link:
        (tmp_path / "x.pbin.tokfmt.json").symlink_to("/etc/hostname")
    else:
        (tmp_path / "x.pbin.tokfmt.json").write_text("my own notes")
    with untouched(tmp_path), pytest.raises(ConversionError, match="has the name of the manifest, and is not one"):
        convert(PACK, tmp_path / "x.pbin", overwrite=True)


@pytest.mark.parametrize(
    ("name", "beside"),
    [("x_document.bin", "x_document.idx"), ("x.ds", "x.ds.index"), ("x.ds", "x.ds.metadata"), ("x.npy", "x.csv.gz")],
)
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_file_where_a_part_of_the_dataset_goes_is_not_replaced_unless_that_is_asked(tmp_path, name, beside, dry_run):
    (tmp_path / beside).write_bytes(b"mine")
    how = {"to": "olmo" if name == "x.npy" else None, "dry_run": dry_run}
    with untouched(tmp_path), pytest.raises(DestinationExistsError, match=beside) as raised:
        convert(PACK, tmp_path / name, **how)
    assert raised.value.exit_code == 4
    convert(PACK, tmp_path / name, **how, overwrite=True)
    assert ((tmp_path / beside).read_bytes() == b"mine") == dry_run


@pytest.mark.parametrize(
    "words", [["stats", "--html=out.html"], ["stats", "--plot=out.svg"], ["browse", "--screenshot=out.svg"]]
)
def test_pages_and_pictures_replace_their_like_only(tmp_path, words):
    """A file name that a hook passes may be `--html=...`."""
    out = tmp_path / words[1].partition("=")[2]
    for content in (PACK.read_bytes(), b"", None):
        if content is not None:
            out.write_bytes(content)
        done = forkserver.run(
            [sys.executable, "-m", "tokfmt", *words, PACK], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == (4 if content else 0), done.stderr
        if content:
            assert f"{out.name}: is not replaced: it is not a " in done.stderr
            assert out.read_bytes() == content
    assert out.read_bytes().lstrip()[:1] == b"<"


# permissions


def modes(path):
    return {p.name: stat.S_IMODE(p.stat().st_mode) for p in [path, *path.rglob("*")]}


@pytest.fixture
def usual():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(("source", "wanted"), [(0o644, 0o644), (0o664, 0o664), (0o666, 0o664)])
def test_directories_of_a_group(tmp_path, source, wanted, overwrite):
    """The set-group-ID bit is on every directory, and files are as the umask and the source have it."""
    text, team = tmp_path / "x.jsonl", tmp_path / "team"
    text.write_text('{"input_ids": [1, 2]}\n' * 50)
    text.chmod(source)
    team.mkdir()
    team.chmod(0o2775)
    before = os.umask(0o002)
    try:
        for to, name in DIRECTORIES.items():
            for _ in range(1 + overwrite):
                convert(text, team / name, to, overwrite=overwrite)
            found = [team / name, *(team / name).rglob("*")]
            for path in found:
                status = path.stat()
                assert status.st_gid == team.stat().st_gid
                assert stat.S_IMODE(status.st_mode) == (0o2000 | wanted | 0o111 if path.is_dir() else wanted), path
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
@pytest.mark.parametrize("to", ["modalities", "flat-tokens", "stage1"])
def test_replacement_keeps_permissions(tmp_path, usual, to, mode):
    out = tmp_path / "out"
    convert(PACK, out, to)
    for path in [*out.rglob("*"), out, tmp_path / "out.tokfmt.json"]:
        path.chmod(mode | (mode & 0o444) >> 2 if path.is_dir() else mode)
    before = modes(tmp_path)
    convert(PACK, out, to, overwrite=True)
    assert modes(tmp_path) == before


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


@pytest.fixture
def beside(tmp_path):
    """A text and its index: one dataset of two files."""
    text = tmp_path / "in" / "x.jsonl"
    text.parent.mkdir()
    text.write_text('{"input_ids": [1, 2]}\n' * 5)
    run("index", text, check=0)
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


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_indexes_replace_files_only(beside, tmp_path, make):
    out = tmp_path / "out"
    make(out)
    says = "it is a directory" if out.is_dir() else "it is a FIFO"
    with untouched(tmp_path):
        done = run("index", beside, "-o", out, "--overwrite", check=4)
    assert says in done.stderr


def test_a_repaired_index_appears_with_its_text(beside, tmp_path):
    index = beside.with_suffix(".idx")
    index.write_bytes(index.read_bytes()[:-3])
    (tmp_path / "y.idx").write_bytes(b"mine")
    with untouched(tmp_path):
        assert "y.idx" in run("check", beside, "--fix", tmp_path / "y.jsonl", check=4).stderr
    run("check", beside, "--fix", tmp_path / "y.jsonl", "--overwrite", check=0)
    assert sorted(os.listdir(tmp_path)) == ["in", "y.idx", "y.jsonl", "y.jsonl.tokfmt.json"]
    run("index", tmp_path / "y.jsonl", "-o", tmp_path / "again.idx", check=0)
    assert (tmp_path / "again.idx").read_bytes() == (tmp_path / "y.idx").read_bytes()


def test_unrelated_file_added_during_the_write_is_kept(tmp_path):
    out = tmp_path / "out"
    convert(PACK, out, "stage1")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    late = At("writing", lambda: (out / "thesis.tex").write_text("three years"))
    with pytest.raises(ConversionError, match=r"thesis\.tex, which belongs to no dataset"):
        convert(PACK, out, "stage1", overwrite=True, progress=late)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {**before, "thesis.tex": b"three years"}
    assert sorted(os.listdir(tmp_path)) == ["out", "out.tokfmt.json"]


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
    run("index", text, check=0)
    assert stat.S_IMODE(text.with_suffix(".idx").stat().st_mode) == wanted
