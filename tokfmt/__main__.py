"""`python -m tokfmt`, the `tokfmt` command, and `tokfmt-hook`, the same for pre-commit."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; a Ctrl-C while it is being imported ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from tokfmt.cli.main import run
    except ModuleNotFoundError as error:
        from tokfmt.core.errors import missing_package

        missing = missing_package(error, "the command line", ("click", "rich", "textual"))
        sys.stderr.write(f"tokfmt: error: {missing}. Without them, import tokfmt in Python reads\n")
        sys.exit(missing.exit_code)
    run(words)


def hook() -> NoReturn:
    """Run the command line behind which pre-commit puts names of files, with nothing between.

    A file of a repository may be called `--html=/data/train.pbin`. What begins with `-` and is there as a file is a
    file: an option that a file is named after makes the hook fail, never the other way round. A file that is a part of
    a dataset (a chunk of a zarr store, an index) stands for the dataset, which is named once.
    """
    words = [f"./{word}" if word.startswith("-") and os.path.lexists(word) else word for word in sys.argv[1:]]
    main(_datasets(words))


def _datasets(words: Sequence[str]) -> list[str]:
    try:
        from tokfmt.registry import dataset_of
    except ModuleNotFoundError:  # the command line names the package
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
    # `python -m` imports from the current directory first: what lies beside the data is no module
    if not sys.flags.safe_path and sys.path[0] == os.getcwd():
        del sys.path[0]
    main()
