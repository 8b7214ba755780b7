"""What the survival tests share: conversions to break, the process that breaks them, and the laws that hold after each fault."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from amount import NIGHTLY, only
from paths import CORPUS, ROOT, TOKENIZER
from processes import running

TARGETS = {
    "jsonl": ["out.jsonl"],
    "modalities": ["out.pbin"],
    "stage1": ["out", "--to", "stage1", "--seq-len", "256"],
    "hdf5": ["out.h5", "--seq-len", "128"],
    "flat-tokens": ["out.zarr", "--to-opt", "chunk=1024"],
    "megatron": ["out_document.bin"],
}
FILE, DIRECTORY, PAIR = "modalities", "flat-tokens", "megatron"
EACH = only((FILE, DIRECTORY, PAIR), TARGETS)
"""A target of each kind in `make test`, and all in `make fuzz`."""
NAMES = {PAIR: ["out_document.bin", "out_document.idx"]}
"""Files of destinations that are several."""
TEXT = ["--tokenizer", str(TOKENIZER), "--allow-loss", "empty-sequences"]
EVERY = NIGHTLY
"""`make fuzz`: every fault at every moment, where `make test` has each moment with one of the faults."""


class Rehearsal:
    """Starts conversions in the forking process; see rehearsal.py."""

    def __init__(self, logs):
        self.logs, self.count = logs, 0
        words = [sys.executable, str(Path(__file__).with_name("rehearsal.py"))]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        )  # fmt: skip

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, home, *words, command="convert", **fault):
        self.count += 1
        job = {
            "words": [command, *map(str, words)],
            "home": str(home),
            "log": str(self.logs / str(self.count)),
            "fault": fault,
        }
        return self.ask(start=job)["pid"]

    def wait(self, pid):
        return Ended(**self.ask(wait=pid))

    def run(self, home, *words, **fault):
        return self.wait(self.start(home, *words, **fault))

    def close(self):
        with running(self.process):
            self.process.stdin.close()
            self.process.wait(timeout=60)


@dataclass
class Ended:
    """A conversion that ended: exit code (negative: the signal), what it said, its file operations, processes left."""

    code: int
    hung: bool
    left: list
    operations: list
    stdout: str
    stderr: str

    def error(self):
        """Its one line; without notes."""
        lines = [line for line in self.stderr.splitlines() if not line.startswith("note: ")]
        assert len(lines) == 1, self.stderr
        assert lines[0].startswith("tokfmt: error: "), self.stderr
        return lines[0]


class Place:
    """A directory with a source and a destination or several (splits), and what they are to hold.

    Attributes:
        names: Of the destinations.
        new: Bytes of the destination and its manifest after an undisturbed conversion.
        old: The same of what was there before (None: nothing).
    """

    def __init__(self, home, words, source, names=None):
        self.home, self.words, self.source = home, words, source.name
        self.names = names or [words[1]]
        self.name = self.names[0]
        home.mkdir()
        (shutil.copytree if source.is_dir() else shutil.copy)(source, home / source.name)
        self.new = self.old = None

    def learn(self, stage):
        """Convert undisturbed; keep what it makes, and return how it went."""
        done = stage.run(self.home, *self.words)
        assert done.code == 0, done.stderr
        assert not done.left
        self.new = self.held()
        self.reset()
        return done

    def reset(self):
        """As it was at the beginning."""
        for path in self.home.iterdir():
            if path.name != self.source:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        if self.old is not None:
            self.put(self.old)

    def put(self, held):
        for name, content in held.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def held(self):
        """Name and bytes of every file at the destinations, and of their manifests."""
        files = []
        for name in self.names:
            out = self.home / name
            files += [p for p in (out.rglob("*") if out.is_dir() else [out]) if p.is_file()]
            files += [p for p in [self.home / f"{name}.tokfmt.json"] if p.exists()]
        return {str(p.relative_to(self.home)): p.read_bytes() for p in files}

    @property
    def manifest(self):
        return self.home / f"{self.name}.tokfmt.json"

    def hidden(self):
        return sorted(p.name for p in self.home.iterdir() if p.name.startswith("."))

    def state(self):
        """What is at the destination: "absent", "old" or "new"; anything else is a failure.

        Its manifest is the one that belongs to it, or is absent. Of several destinations that differ: "partly".
        """
        states, held = {self.state_of(name) for name in self.names}, self.held()
        if len(states) == 1:
            return states.pop()
        beside = {f"{name}.tokfmt.json" for name in self.names}
        assert not any(held.get(name) == self.new.get(name) for name in beside & held.keys()), (
            "a manifest came too early"
        )
        return "partly"

    def state_of(self, name):
        beside = f"{name}.tokfmt.json"

        def of_name(held):
            return {key: content for key, content in held.items() if key == name or key.startswith(f"{name}/")}

        held = self.held()
        manifest, files = held.get(beside), of_name(held)
        known = {"absent": {}, "new": self.new} | ({"old": self.old} if self.old is not None else {})
        for state, wanted in known.items():
            if files == of_name(wanted):
                assert manifest in (None, wanted.get(beside)), f"the manifest is not of the {state} destination"
                return state
        raise AssertionError(f"the destination is neither absent nor whole: {sorted(files)}")


def check(place, ended):
    """The laws after any fault: whole or absent, one line, an exit code, nobody left; returns the state."""
    assert not ended.hung, "it hung"
    assert not ended.left, ended.left
    assert "Traceback" not in ended.stderr, ended.stderr
    assert "Exception ignored" not in ended.stderr, ended.stderr
    assert str(place.home) not in ended.stderr, ended.stderr  # paths are named as they were given
    state = place.state()
    assert place.old is None or state != "absent", "the old destination is gone"
    assert state != "partly" or ended.code == -signal.SIGKILL, "some of the splits are there, some are not"
    if ended.code == 0:
        assert state == "new"
        assert "tokfmt: error" not in ended.stderr
    elif ended.code > 0:
        said = ended.error()
        if "othing was left behind" in said:
            assert state in ("absent", "old"), said
        elif state == "new":
            assert "is complete" in said, said
    else:
        assert ended.stderr.count("tokfmt: error: ") == 0
    return state


def check_again(place, stage, state):
    """A run after a fault succeeds, whatever was left; it leaves nothing hidden."""
    words = place.words
    if state == "partly" and not {"--overwrite", "--resume"} & set(words):  # killed between its renames
        assert "already exists" in stage.run(place.home, *words).error()
        words = [*words, "--overwrite"]
    if state not in ("absent", "partly") and "--overwrite" not in words:
        ended = all((place.home / f"{name}.tokfmt.json").exists() for name in place.names)
        again = stage.run(place.home, *words)
        if "--resume" in words and state == "new":
            assert again.code == 0, again.stderr
            # Killed before a manifest appeared, it continues what is written; else there is nothing to do.
            assert ("already" if ended else "continuing the work") in again.stderr, "it did again what is there"
        else:
            assert again.code == 4, "it did again what is there"
            assert "already exists" in again.error()
        words = [*words, "--overwrite"]
    done = stage.run(place.home, *words)
    assert done.code == 0, done.stderr
    assert place.state() == "new"
    assert place.manifest.exists() or "--no-manifest" in words
    assert place.hidden() == [], "a dead leftover was not removed"


def corpus(home, lines):
    """The first lines of the corpus as a file."""
    path = home / f"corpus-{lines}.jsonl"
    path.write_bytes(b"".join(CORPUS.read_bytes().splitlines(keepends=True)[:lines]))
    return path


def until(happens, what, seconds=30):
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, f"{what} did not happen in {seconds} s"
        time.sleep(0.005)


@contextlib.contextmanager
def small_disk(home, size):
    """A tmpfs of so many bytes at `home`; yields None, or why there is none."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(home)], capture_output=True, text=True
    )
    if done.returncode:
        yield done.stderr.strip() or "mount failed"
        return
    try:
        yield None
    finally:
        subprocess.run(["umount", "-l", str(home)], check=True)


def name_of(fault):
    if "signal" in fault:
        return signal.Signals(fault["signal"]).name
    return str(fault)
