"""`tokfmt-hook`: the `tokfmt` command for pre-commit, which puts names of files behind arguments with nothing between.

A file of a repository may be called `--html=/data/train.pbin`. What begins with `-` and is there as a file is a file.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from tokfmt.cli.main import run


def main() -> NoReturn:
    """Run the command line; an option that a file is named after makes the hook fail, never the other way round."""
    run([f"./{word}" if word.startswith("-") and os.path.lexists(word) else word for word in sys.argv[1:]])


if __name__ == "__main__":
    main()
