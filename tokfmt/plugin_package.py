"""Write the package of a new format for `tokfmt plugin new`: an entry point, a module and its tests."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from tokfmt import plugin, registry
from tokfmt.core.errors import ConversionError, DestinationExistsError, OptionError
from tokfmt.core.text_format import printable

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 40

_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "tokfmt-@NAME@"
version = "0.1.0"
description = "The format @NAME@ for tokfmt."
requires-python = ">=3.11"
dependencies = ["tokfmt"]

[project.optional-dependencies]
test = ["tokfmt[testing]"]

[project.entry-points."tokfmt.formats"]
@NAME@ = "@MODULE@:FORMAT"

[tool.setuptools]
py-modules = ["@MODULE@"]
"""

_MODULE = '''\
"""The format @NAME@: describe it here, `tokfmt formats @NAME@` prints this text.

0 .. 7    @MAGIC@, the magic number
8 .. 11   u32 little-endian, the separator
12 .. 19  u64 little-endian, how many tokens follow, separators included
20 ..     u32 little-endian token IDs, a separator after each sequence
"""

import numpy as np

from tokfmt import plugin
from tokfmt.plugin import (
    Code,
    Confidence,
    CorruptError,
    FileLayout,
    FlatFormat,
    FlatWriter,
    Separators,
    Struct,
    stated_tokens,
)

if plugin.VERSION != @VERSION@:
    raise ImportError(f"@MODULE@ was written for version @VERSION@ of tokfmt.plugin, and this is {plugin.VERSION}")

MAGIC = @MAGIC_BYTES@
HEADER = Struct(magic="V8", eos_id="<u4", tokens="<u8")
TOKEN = np.dtype("<u4")


class Writer(FlatWriter):
    separators, suffix, begin, dtypes = Separators.AFTER, ".@NAME@", HEADER.size, (TOKEN.str,)

    def header(self, cut, dtype):
        return HEADER.write(magic=MAGIC, eos_id=self.target.eos_id, tokens=cut.tokens)


class Format(FlatFormat):
    name, title, extensions = "@NAME@", "@NAME@, a format of mine", (".@NAME@",)
    stores, cannot_store = "sequences in order, empty ones too", "sequences that contain the separator"
    Writer = Writer
    unreadable = "@CODE@1"
    meanings = {
        "@CODE@1": Code("a file cannot be read", "Its header is cut or has another magic number."),
        "@CODE@2": Code("the size contradicts the header", "The file was cut; --allow-loss tail reads what is there."),
    }

    def recognize(self, probe):
        return Confidence.CERTAIN if probe.head.startswith(MAGIC) else None

    def examine_file(self, file, options, hints):
        header = HEADER.read(file)
        if header["magic"] != MAGIC:
            raise CorruptError(file.path, "has another magic number", expected=MAGIC, found=header["magic"])
        extent, problems = stated_tokens(file, TOKEN, header["tokens"], "@CODE@2", begin=HEADER.size, short=True)
        return FileLayout(
            extents=[extent],
            separators=Separators.AFTER,
            eos_id=header["eos_id"],
            eos_from="header",
            problems=problems,
            sections=[HEADER.part("header", file)],
        )


FORMAT = Format()
'''

_TEST = '''\
"""The laws of every format, for @NAME@."""

import numpy as np
from @MODULE@ import FORMAT

from tokfmt.testing import FormatContract


class Test@CLASS@(FormatContract):
    format = FORMAT
    filename = "x.@NAME@"
    eos_id = 50256
    max_id = 2**32 - 1

    def oracle(self, path, options):
        """Read a file with code that shares nothing with the format."""
        documents = [[]]
        for token in np.fromfile(path, "<u4", offset=20).tolist():
            if token == self.eos_id:
                documents.append([])
            else:
                documents[-1].append(token)
        return documents[:-1]
'''

_README = """\
# tokfmt-@NAME@

A plug-in of tokfmt that reads and writes the format @NAME@. Change `@MODULE@.py` to what your files hold.

```sh
pip install -e ".[test]"
pytest
tokfmt convert in.jsonl out.@NAME@ --eos 50256
```

`formats/README.md` of tokfmt explains each step.
"""


def new_package(name: str, directory: Path) -> list[Path]:
    """Write a package with a format that works, and its tests.

    Args:
        name: Name of the format: at most 40 lowercase letters, digits and single hyphens, a letter first.
        directory: Directory of the package. It must be empty or not exist.

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
    if os.path.lexists(directory) and not (directory.is_dir() and not any(directory.iterdir())):
        raise DestinationExistsError(directory, "it is not an empty directory")
    module = f"tokfmt_{name.replace('-', '_')}"
    magic = name.replace("-", "").upper()[:8].ljust(8, "-")
    words = {
        "NAME": name,
        "MODULE": module,
        "MAGIC": f'"{magic}"',
        "MAGIC_BYTES": f'b"{magic}"',
        "CODE": name.replace("-", "").upper(),
        "CLASS": name.title().replace("-", ""),
        "VERSION": str(plugin.VERSION),
    }
    files = {"pyproject.toml": _PROJECT, "README.md": _README, f"{module}.py": _MODULE, f"test_{module}.py": _TEST}
    try:
        _write(directory, {path: _filled(text, words) for path, text in files.items()})
    except OSError as error:
        raise ConversionError(f"{printable(directory)}: cannot be written: {error.strerror}") from error
    return [directory / path for path in files]


def _filled(text: str, words: dict[str, str]) -> str:
    return re.sub("@([A-Z_]+)@", lambda found: words[found[1]], text)


def _write(directory: Path, texts: dict[str, str]) -> None:
    """Write the files of a directory: the directory is complete, or not written."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        for path, text in texts.items():
            (draft / path).write_text(text, encoding="utf-8")
        draft.chmod(0o777 & ~_umask())
        draft.rename(directory)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
