"""Write the package of a new format for `tokfmt plugin new`: an entry point, a module and its tests."""

from __future__ import annotations

import re
from pathlib import Path

from tokfmt import plugin, registry
from tokfmt.core.errors import OptionError
from tokfmt.core.new_directory import write_new_directory

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

_RECORDS_MODULE = '''\
"""The format @NAME@: describe it here, `tokfmt formats @NAME@` prints this text.

A directory with an index and compressed shards:

@NAME@.json           {"version": 1, "records": [R, ...]}, the number of records of each shard, written last
00000.@NAME@.gz, ...  gzip; in it, one record after the other: u32 little-endian, the number of token IDs; the IDs, u32
"""

import gzip
import json
import re
import zlib
from dataclasses import dataclass

import numpy as np

from tokfmt import plugin
from tokfmt.plugin import (
    Code,
    Confidence,
    CorruptError,
    RecordFiles,
    RecordFilesFormat,
    RecordFilesWriter,
    Stream,
    TruncatedError,
    UnsafeError,
    json_object,
    names_in,
    open_file,
    option,
    whole_number,
)

if plugin.VERSION != @VERSION@:
    raise ImportError(f"@MODULE@ was written for version @VERSION@ of tokfmt.plugin, and this is {plugin.VERSION}")

INDEX, SHARD = "@NAME@.json", re.compile(r"\\d{5}\\.@NAME@\\.gz")
LONGEST = 1 << 26  # token IDs of a record


@dataclass(frozen=True)
class WriteOptions:
    shard_size: int = option(1 << 24, "tokens per shard; records stay complete", minimum=1)


class Reader(RecordFiles):
    def __init__(self, paths, options, hints):
        (folder,) = paths
        index = json_object(open_file(folder / INDEX))
        records = index.get("records")
        if index.get("version") != 1 or not isinstance(records, list):
            raise CorruptError(folder / INDEX, "is not an index of @NAME@")
        counts = [whole_number(folder / INDEX, "does not count the records of a shard", one) for one in records]
        super().__init__("ids", [folder / f"{k:05d}.@NAME@.gz" for k in range(len(counts))], hints, counts=counts)

    def records(self, path):
        try:
            with gzip.open(Stream(open_file(path))) as stream:
                while head := stream.read(4):
                    length = int.from_bytes(head, "little")
                    if length > LONGEST:
                        raise UnsafeError(path, "has a record that is too long", expected=LONGEST, found=length)
                    ids = np.frombuffer(stream.read(4 * length), "<u4")
                    if len(head) < 4 or len(ids) < length:
                        raise TruncatedError(path, "ends inside a record")
                    yield ids
        except EOFError as error:
            raise TruncatedError(path, "ends inside its gzip data", remedy="Copy it again") from error
        except (OSError, ValueError, zlib.error) as error:
            raise CorruptError(path, "is damaged: gzip cannot decode it", remedy="Copy it again") from error


class Writer(RecordFilesWriter):
    def name(self, number):
        return f"{number:05d}.@NAME@.gz"

    def write_file(self, out, sequences):
        with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
            for ids in sequences:
                packed.write(len(ids).to_bytes(4, "little"))
                packed.write(ids.astype("<u4").data)

    def indexes(self, counts):
        return {INDEX: json.dumps({"version": 1, "records": [records for records, _ in counts]}).encode()}


class Format(RecordFilesFormat):
    name, title, extensions = "@NAME@", "@NAME@, a format of mine", (".@NAME@",)
    stores, cannot_store = "sequences in order, empty ones too", "loss masks"
    write_options, Reader, Writer = WriteOptions, Reader, Writer
    unreadable, damaged = "@CODE@1", "@CODE@2"

    def sniff(self, probe):
        return Confidence.STRUCTURE if INDEX in probe.entries else None

    def files(self, path):
        return [path / name for name in sorted(names_in(path)) if name == INDEX or SHARD.fullmatch(name)]

    def codes(self):
        return {
            "@CODE@1": Code("the directory cannot be read", "Its index is damaged, or a shard of it is missing."),
            "@CODE@2": Code("a shard is damaged", "It was cut, or gzip cannot decode it. Copy it again."),
        }


FORMAT = Format()
'''

_RECORDS_TEST = '''\
"""The laws of every format, for @NAME@."""

import gzip
import json

import numpy as np
from @MODULE@ import FORMAT

from tokfmt.testing import FormatContract


class Test@CLASS@(FormatContract):
    format = FORMAT
    filename = "x.@NAME@"
    max_id = 2**32 - 1
    checksummed = accounted = True
    sharded = {"shard_size": 1}

    def oracle(self, path, options):
        """Read a directory with code that shares nothing with the format."""
        found = []
        for number in range(len(json.loads((path / "@NAME@.json").read_text())["records"])):
            words = np.frombuffer(gzip.decompress((path / f"{number:05d}.@NAME@.gz").read_bytes()), "<u4").tolist()
            while words:
                found.append(words[1 : 1 + words[0]])
                words = words[1 + words[0] :]
        return found
'''

_README = """\
# tokfmt-@NAME@

A plug-in of tokfmt that reads and writes the format @NAME@. Change `@MODULE@.py` to what your files hold.

```sh
pip install -e ".[test]"
pytest
tokfmt demo sample
tokfmt convert sample/gpt2_text_document.bin document.@NAME@ --verify
```

The page "Write a format" of the documentation explains each step. It is `formats/README.md` in the directory that
this prints: `python -c "import tokfmt; print(*tokfmt.__path__)"`
"""


def new_package(name: str, directory: Path, *, records: bool = False) -> list[Path]:
    """Write a package with a format that works, and its tests.

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
    code, test = (_RECORDS_MODULE, _RECORDS_TEST) if records else (_MODULE, _TEST)
    files = {"pyproject.toml": _PROJECT, "README.md": _README, f"{module}.py": code, f"test_{module}.py": test}
    return write_new_directory(directory, {path: _filled(text, words).encode() for path, text in files.items()})


def _filled(text: str, words: dict[str, str]) -> str:
    return re.sub("@([A-Z_]+)@", lambda found: words[found[1]], text)
