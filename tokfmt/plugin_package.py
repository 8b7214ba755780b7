"""Write the package of a new format for `tokfmt plugin new`: a copy of an example, under its own name."""

from __future__ import annotations

import re
from pathlib import Path

from tokfmt import registry
from tokfmt.errors import OptionError
from tokfmt.files.new_directory import write_new_directory

EXAMPLES = Path(__file__).with_name("plugin_examples")
"""stream: a header and token IDs in one file. records: compressed shards of records, and an index."""
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 40


def new_package(name: str, directory: Path, *, records: bool = False) -> list[Path]:
    """Copy an example: a package with a format that works, and its tests.

    Args:
        name: Name of the format: at most 40 lowercase letters, digits and single hyphens, a letter first.
        directory: Directory of the package. It must be empty or not exist.
        records: The format stores records in compressed shards. False: it stores token IDs one after the other.

    Returns:
        The paths of the written files.

    Raises:
        OptionError: If a format cannot have that name, or an installed format has it.
        ConversionError: If the directory is not empty, or cannot be written.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        what = f"{name!r} cannot be the name of a format"
        raise OptionError(
            f"{what}. Use at most {_LONGEST} lowercase letters, digits and single hyphens, a letter first"
        )
    if name in registry.names():
        raise OptionError(f"a format {name} is installed already. Choose another name")
    words = {
        "tokfmt_example": f"tokfmt_{name.replace('-', '_')}",
        "EXAMPLE-": name.replace("-", "").upper()[:8].ljust(8, "-"),
        "EXAMPLE": name.replace("-", "").upper(),
        "TestExample": f"Test{name.title().replace('-', '')}",
        "example": name,
    }
    renamed = re.compile("|".join(words))
    files = {
        renamed.sub(lambda word: words[word[0]], path.name): renamed.sub(lambda word: words[word[0]], path.read_text())
        for path in sorted((EXAMPLES / ("records" if records else "stream")).iterdir())
        if path.is_file()
    }
    return write_new_directory(directory, {path: text.encode() for path, text in files.items()})
