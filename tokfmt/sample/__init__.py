"""The sample that `tokfmt demo` writes: text, a tokenizer, datasets, damaged files, recipes.

The files are those of fixtures/, to which they are links in a checkout; a wheel has copies. The examples of `--help`
run in a directory with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tokfmt.files.new_directory import write_new_directory

_HOME = Path(__file__).parent

COMMANDS = (
    "tokfmt info pack.pbin",
    "tokfmt show pack.pbin 3 --ids",
    "tokfmt convert corpus.jsonl corpus.pbin --tokenizer tokenizer",
    "tokfmt browse corpus.pbin",
    "tokfmt stats corpus.pbin --tokenizer tokenizer",
    "tokfmt convert corpus.pbin corpus.h5 --seq-len 512 --verify",
    "tokfmt check merged.pbin",
    "tokfmt show mix.toml --step 1 --batch-size 2",
)
"""Commands to try in the directory, in this order. `tokfmt check` finds an error."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample in a directory."""

    directory: str
    files: tuple[str, ...]
    commands: tuple[str, ...] = COMMANDS


def write_sample(directory: Path) -> Sample:
    """Write the sample to a directory."""
    found = sorted(path for path in _HOME.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc"))
    contents = {path.relative_to(_HOME).as_posix(): path.read_bytes() for path in found}
    files = write_new_directory(directory, contents)
    return Sample(str(directory), tuple(map(str, files)))
