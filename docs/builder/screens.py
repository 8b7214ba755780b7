"""Draw the screens of the browser for the documentation: `python -m builder.screens [--theme NAME] [DIRECTORY]`.

Each picture is what `tokfmt browse … --screenshot` draws of the files of `tokfmt demo sample`. The pictures in
docs/pictures are also the snapshots of tests/tui/test_pictures.py, which compares the text of each.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
SIZES = ("120x36",)
_CELL = 12.2  # width of a character in the pictures of Rich
_TOKENIZER = ("--tokenizer", "sample/tokenizer")


@dataclass(frozen=True)
class Screen:
    """One screen of the browser.

    Attributes:
        name: Name of its pictures, without the size.
        words: What `tokfmt browse` opens, with options.
        keys: The keys that lead to the screen.
    """

    name: str
    words: tuple[str, ...]
    keys: str = ""

    def picture(self, size: str, home: Path = PICTURES) -> Path:
        """Return the path of its picture of a size."""
        return home / f"{self.name}-{size}.svg"


_PACK = ("corpus.pbin", *_TOKENIZER)
SCREENS = (
    Screen("sequences", _PACK, "down down down enter right right right right"),
    Screen("overview", _PACK, "2"),
    Screen("file", ("sample/merged.pbin",), "3"),
    Screen("packing", ("packed.toml", *_TOKENIZER), "g 1 3 enter"),
    Screen("batch", ("packed.toml", *_TOKENIZER), "b down down down right"),
    Screen("catalog", ("sample",)),
)


def main() -> int:
    """Draw all screens in all sizes."""
    parser = argparse.ArgumentParser(prog="make pictures")
    parser.add_argument("--theme")
    parser.add_argument("directory", nargs="?", type=Path, default=PICTURES)
    given = parser.parse_args()
    target = given.directory.absolute()
    target.mkdir(parents=True, exist_ok=True)
    drawn = {screen.picture(size, target): (screen, size) for screen in SCREENS for size in SIZES}
    for old in set(target.glob("*.svg")) - set(drawn):
        old.unlink()
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(os.cpu_count()) as pool:
        prepare(Path(home))
        list(pool.map(lambda path: run(words_of(*drawn[path], path, given.theme), Path(home)), drawn))
    print(f"{target}: {len(drawn)} pictures")
    return 0


def run(words: Sequence[str], home: Path) -> None:
    """Run a command of tokfmt in a directory."""
    with tempfile.TemporaryDirectory() as memory:
        command = [sys.executable, "-m", "tokfmt", *words]
        done = subprocess.run(command, cwd=home, env=environment(memory), capture_output=True, text=True)
    assert done.returncode == 0, f"tokfmt {shlex.join(words)}: {done.stderr}"


def prepare(home: Path, run: Callable[[Sequence[str], Path], object] = run) -> None:
    """Write the datasets of the screens and of the snapshots of tests/cli to an empty directory.

    Args:
        home: The directory.
        run: Runs a command of tokfmt in a directory.
    """
    for words in (
        "demo sample",
        "convert -q sample/corpus.jsonl corpus.pbin --tokenizer sample/tokenizer",
        "convert -q sample/corpus.jsonl short.pbin --tokenizer sample/tokenizer --select 40:90",
        "recipe -q web=corpus.pbin:0.7 books=short.pbin:0.3 --seq-len 128 --shuffle samples --seed 7 -o mix.toml",
        "recipe -q web=corpus.pbin books=short.pbin --seq-len 512 --shuffle documents --seed 7 -o packed.toml",
        "recipe -q web=corpus.pbin books=short.pbin --seq-len 512 --pack document -o padded.toml",
    ):
        run(words.split(), home)
    shutil.copytree(home / "sample" / "tokenizer", home / "other")
    model = json.loads((home / "other" / "tokenizer.json").read_text())
    del model["model"]["merges"][500:]
    (home / "other" / "tokenizer.json").write_text(json.dumps(model))
    lines = (home / "sample" / "corpus.jsonl").read_text().splitlines(keepends=True)
    lines[3] = lines[3].replace("the ", "a ", 1)
    del lines[5]
    (home / "changed.jsonl").write_text("".join(lines))


def environment(memory: str) -> dict[str, str]:
    """Return the environment of a machine that remembers nothing but what is in a directory."""
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
    return {**kept, "XDG_STATE_HOME": memory, "XDG_CACHE_HOME": memory}


def words_of(screen: Screen, size: str, out: Path, theme: str | None = None) -> list[str]:
    """Return the command that draws a screen."""
    colors = ["--theme", theme] if theme else []
    keys = ["--keys", screen.keys] if screen.keys else []
    return ["browse", *screen.words, "--screenshot", str(out), "--size", size, *keys, *colors]


def text_of(picture: Path) -> list[str]:
    """Return the lines of text of a picture, without trailing spaces."""
    lines: dict[float, str] = {}
    for x, y, words in re.findall(r'<text [^>]*x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', picture.read_text()):
        before = lines.get(float(y), "")
        gap = round(float(x) / _CELL) - cell_len(before)
        lines[float(y)] = before + " " * gap + html.unescape(words).replace("\xa0", " ")
    return [text.rstrip() for _, text in sorted(lines.items())]


if __name__ == "__main__":
    sys.exit(main())
