"""Another user of the machine who may make names beside a destination, and below $TMPDIR: nothing of theirs is used.

Mallory has prepared a directory in which everybody may write; alice converts there. Both are other users than root, who
runs the test; without root it is skipped.
"""

import contextlib
import fcntl
import json
import os
import stat
import tempfile
from pathlib import Path

import pytest
from amount import FUZZ_ONLY
from paths import FIXTURES

ALICE, MALLORY = 65534, 65533
PACK = FIXTURES / "modalities/D_2byte_gpt2.pbin"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="takes two users, whom root plays")]


@pytest.fixture
def outside():
    """Not below `tmp_path`, whose root every other run of pytest that begins makes root's alone again."""
    with tempfile.TemporaryDirectory(prefix="tokfmt-neighbors-") as home:
        os.chmod(home, 0o755)
        yield Path(home)


@pytest.fixture
def open_place(outside):
    """A directory like /tmp, with a private one of alice's beside it, in which her work lies."""
    place, alices = outside / "tmp", outside / "alice"
    for path, owner, mode in ((place, 0, 0o1777), (alices, ALICE, 0o700)):
        path.mkdir()
        os.chown(path, owner, owner)
        path.chmod(mode)
    (alices / "precious").mkdir()
    (alices / "precious" / "thesis.tex").write_text("three years")
    (alices / "in.pbin").write_bytes(PACK.read_bytes())
    for path in alices.rglob("*"):
        os.chown(path, ALICE, ALICE)
    return place, alices


@contextlib.contextmanager
def user(uid):
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def alice(stage, open_place):
    """What becomes of a command that she, or somebody else, runs at her home."""

    def runs(command, *words, uid=ALICE, **environ):
        home = open_place[1]
        ended = stage.run(home, *words, command=command, user=uid, environ={"HOME": str(home), **environ})
        assert not ended.hung
        assert "Traceback" not in ended.stderr
        return ended

    def converts(out, *words, **more):
        return runs("convert", "in.pbin", out, "--eos", "50256", "--executor", "serial", *words, **more)

    runs.converts = converts  # type: ignore[attr-defined]
    return runs


WORDS = {"plain": [], "resume": ["--resume"], "tasks": ["--task", "0/1"]}


def refused(place, alices, done, says):
    assert done.code == 4, done.stderr
    assert says in done.stderr
    assert (alices / "precious" / "thesis.tex").read_text() == "three years"
    assert not any(path.name in ("out.zarr", "out.zarr.tokfmt.json") for path in place.iterdir())


@FUZZ_ONLY
@pytest.mark.parametrize("kind", WORDS)
def test_a_sibling_of_somebody_else(open_place, alice, kind):
    """With everything that an earlier run would have left in it, and links to what alice may change."""
    place, alices = open_place
    home = place / ".out.zarr.tokfmt-work"
    with user(MALLORY):
        home.mkdir(mode=0o777)
        home.chmod(0o777)
        (home / "build").mkdir()
        (home / "scratch").symlink_to(alices / "precious")
        (home / "out.zarr.tokfmt.json.draft").symlink_to(alices / "precious" / "thesis.tex")
        (home / "published").write_text("1")
    refused(place, alices, alice.converts(place / "out.zarr", *WORDS[kind]), "belongs to user 65533")
    if kind == "tasks":
        refused(place, alices, alice("convert", "--finish", place / "out.zarr"), "belongs to user 65533")
    assert home.exists()


@pytest.mark.parametrize("kind", WORDS)
def test_a_link_in_place_of_a_sibling(open_place, alice, kind):
    place, alices = open_place
    with user(MALLORY):
        (place / ".out.zarr.tokfmt-work").symlink_to(alices / "precious")
    done = alice.converts(place / "out.zarr", *WORDS[kind])
    refused(place, alices, done, "is a link that user 65533 has made")


@pytest.mark.parametrize("kind", WORDS)
def test_a_sibling_that_others_may_write_to(open_place, alice, kind):
    """Her own, made by hand or by a careless umask: mallory may have been in it."""
    place, alices = open_place
    home = place / ".out.zarr.tokfmt-work"
    with user(ALICE):
        home.mkdir()
        home.chmod(0o770)
    refused(place, alices, alice.converts(place / "out.zarr", *WORDS[kind]), "and others may write to it")


@pytest.mark.parametrize("part", ["build", "scratch"])
def test_parts_of_a_sibling(open_place, alice, part):
    place, alices = open_place
    home = place / ".out.zarr.tokfmt-work"
    with user(ALICE):
        home.mkdir(mode=0o700)
        (home / "lock").touch()
        (home / "conversion.json").write_text("{}")
        (home / part).symlink_to(alices / "precious")
    refused(place, alices, alice.converts(place / "out.zarr", "--resume"), "is a link that")


@pytest.fixture
def team_place(open_place):
    """A directory in which either may rename what is the other's."""
    place, alices = open_place
    place.chmod(0o777)
    return place, alices


@pytest.mark.parametrize("lock", [None, "held by backup\n", "FIFO"])
@pytest.mark.parametrize("name", [".out.zarr.tokfmt-work", "tokfmt-scratch-00000000"])
def test_a_directory_that_was_renamed_is_no_leftover(team_place, alice, name, lock):
    """Mallory cannot remove what alice's directory holds, and must not have tokfmt do it."""
    place, alices = team_place
    with user(ALICE):
        (place / "results").mkdir()
        (place / "results" / "thesis.tex").write_text("three years")
        if lock == "FIFO":
            os.mkfifo(place / "results" / "lock")
        elif lock:
            (place / "results" / "lock").write_text(lock)
    before = sorted(os.listdir(place / "results"))
    with user(MALLORY):
        (place / "results").rename(place / name)
    done = alice.converts(place / "out.zarr", TMPDIR=str(place))
    if name.startswith("."):
        refused(place, alices, done, "is not a directory of tokfmt")
    else:
        assert done.code == 0, done.stderr
    assert alice("stats", "in.pbin", TMPDIR=str(place)).code == 0
    assert sorted(os.listdir(place / name)) == before
    assert (place / name / "thesis.tex").read_text() == "three years"


@pytest.mark.parametrize("uid", [ALICE, 0])
def test_what_is_replaced_leaves_no_set_user_id_bit(team_place, alice, uid):
    """Mallory would run what a source holds as alice."""
    place, alices = team_place
    with user(MALLORY):
        (place / "out.pbin").write_text("")
        (place / "out.pbin").chmod(0o6755)
    done = alice.converts(place / "out.pbin", "--overwrite", uid=uid)
    assert done.code == 0, done.stderr
    assert stat.S_IMODE((place / "out.pbin").stat().st_mode) == 0o755


def test_a_link_of_somebody_else_is_not_followed(open_place, alice):
    place, alices = open_place
    with user(MALLORY):
        (place / "out.pbin").symlink_to(alices / "precious" / "thesis.tex")
        (place / "new.pbin").symlink_to(alices / "precious" / "new")
    for name in ("out.pbin", "new.pbin"):
        done = alice.converts(place / name, "--overwrite")
        assert (done.code, "is a link that user 65533 has made" in done.stderr) == (4, True), done.stderr
    assert (alices / "precious" / "thesis.tex").read_text() == "three years"
    assert os.listdir(alices / "precious") == ["thesis.tex"]
    with user(ALICE):
        (place / "mine.pbin").symlink_to(alices / "mine.pbin")
    assert alice.converts(place / "mine.pbin").code == 0
    assert (alices / "mine.pbin").is_file()


def test_unfinished_output_is_private(open_place, alice):
    """Hidden siblings belong to their user alone, so no other user can hold their locks."""
    place, alices = open_place
    done = alice.converts(place / "out.zarr", "--task", "0/2")
    assert done.code == 0, done.stderr
    (home,) = (path for path in place.iterdir() if path.name.startswith("."))
    for path in (home, home / "build", home / "scratch"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    with user(MALLORY), pytest.raises(PermissionError):
        os.open(home / "lock", os.O_RDONLY)
    done = alice("convert", "--finish", place / "out.zarr", uid=MALLORY)
    assert (done.code, home.exists()) == (4, True)
    assert "Permission denied" in done.stderr or "belongs to" in done.stderr


def test_scratch_of_somebody_else(open_place, alice):
    """What a killed process of alice's left goes; mallory's stays, links are not followed, a living one's stays."""
    place, alices = open_place
    with user(MALLORY):
        (place / "tokfmt-scratch-mallory").mkdir(mode=0o777)
        (place / "tokfmt-scratch-link").symlink_to(alices / "precious")
    with user(ALICE):
        for name in ("dead", "living"):
            (place / f"tokfmt-scratch-{name}").mkdir(mode=0o700)
            (place / f"tokfmt-scratch-{name}" / "tokens").write_text("private")
            (place / f"tokfmt-scratch-{name}" / "lock").touch()
    with open(place / "tokfmt-scratch-living" / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = alice("stats", alices / "in.pbin", "--json", TMPDIR=str(place))
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout)["sequences"]
    assert sorted(path.name for path in place.iterdir()) == [
        f"tokfmt-scratch-{name}" for name in ("link", "living", "mallory")
    ]
    assert os.listdir(alices / "precious") == ["thesis.tex"]


def test_root_leaves_owner_and_mode(open_place, alice):
    place, alices = open_place
    assert alice.converts(alices / "out.pbin").code == 0
    (alices / "out.pbin").chmod(0o600)
    assert alice.converts(alices / "out.pbin", "--overwrite", uid=0).code == 0
    status = (alices / "out.pbin").stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (ALICE, 0o600)
    assert (alices / "out.pbin.tokfmt.json").stat().st_uid == ALICE
    assert place.is_dir()


@pytest.mark.parametrize(
    "words",
    [
        "stats {0}",
        "check {0}",
        "show {0}",
        "convert {0} out.zarr",
        "diff in.pbin {0}",
        "stats {1}",
        "convert --eos 50256 in.pbin {2}",
    ],
)
@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_directory_without_permission_to_enter(open_place, alice, words, mode):
    """The error names the directory, and neither the destination nor a bug."""
    alices = open_place[1]
    closed = alices / "closed"
    closed.mkdir()
    (closed / "in.pbin").write_bytes(PACK.read_bytes())
    closed.chmod(mode)
    os.chown(closed, ALICE, ALICE)
    command, *rest = words.format("closed/in.pbin", "closed/in", "closed/out.zarr").split()
    done = alice(command, *rest)
    assert done.code in (3, 4), done.stderr
    said = done.stdout + done.stderr
    assert "closed/" in said
    assert "permission denied" in said
    assert "out.zarr: cannot" not in said or words.endswith("{2}")


def test_a_manifest_that_nobody_may_read(open_place, alice):
    alices = open_place[1]
    beside = alices / "in.pbin.tokfmt.json"
    beside.write_text("{}")
    beside.chmod(0)
    done = alice("stats", "in.pbin")
    assert done.code == 0
    assert "note: the manifest in.pbin.tokfmt.json cannot be read and is not used" in done.stderr
