"""Entry points: `python -m tokfmt`, the command `tokfmt`, and `tokfmt-hook` for pre-commit."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run the command line. Ctrl-C ends the process without a traceback, even while modules are imported."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from tokfmt.cli.main import run
    except ModuleNotFoundError as error:
        from tokfmt.errors import missing_package

        missing = missing_package(error, "the command line")
        sys.stderr.write(f"tokfmt: error: {missing}. Without it, import tokfmt in Python reads\n")
        sys.exit(missing.exit_code)
    run(words)


def hook() -> NoReturn:
    """Run the command line with the file names that pre-commit appends to its arguments.

    A file of a repository may be called `--html=/data/train.pbin`. A word that begins with `-` and exists as a file is
    passed as a file, so that a file name never acts as an option. An option that is also the name of a file makes the
    hook fail. A file of a larger dataset (a chunk of a zarr store, an index) is replaced by the dataset, and each
    dataset is passed once.
    """
    words = [f"./{word}" if word.startswith("-") and os.path.lexists(word) else word for word in sys.argv[1:]]
    main(_datasets(words))


def _datasets(words: Sequence[str]) -> list[str]:
    try:
        from tokfmt.registry import dataset_of
    except ModuleNotFoundError:  # `main` reports the missing package.
        return list(words)
    found, named = list[str](), set[str]()
    for word in words:
        dataset = str(dataset_of(Path(word))) if os.path.isfile(word) else ""
        dataset = word if Path(dataset) == Path(word) else dataset
        if dataset in named:
            continue
        named.update([dataset] if dataset else [])
        found.append(dataset or word)
    return found


if __name__ == "__main__":
    # `python -m` puts the current directory first in sys.path, and a Python file among the data must not be imported.
    if not sys.flags.safe_path and sys.path[0] == os.getcwd():
        del sys.path[0]
    main()
