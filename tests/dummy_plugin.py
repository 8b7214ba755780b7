"""A format of another package, and its installation beside the others."""

import os

MODULE = '''
"""A dummy format: ids as decimal lines."""
from dataclasses import dataclass
import numpy as np
from tokfmt.core.reader import batches
from tokfmt.errors import CorruptError
from tokfmt.core.format import Confidence, Format, Receipt, Region, TokenWriter, WriterTraits
from tokfmt.core.inspection import Inspection
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged

@dataclass(frozen=True)
class Options:
    """None."""

class Writer(TokenWriter):
    def __init__(self, path): self.path = path
    def regions(self, source, size): return [Region(0, range(source.info.sequences), range(source.info.tokens))]
    def create(self, source): pass
    def write(self, region, source):
        with open(self.path, "w") as out:
            out.write("#lines\\n")
            for batch in batches(source, 0, source.info.sequences):
                out.writelines(" ".join(map(str, s.tolist())) + "\\n" for s in batch)
        return Receipt(0, -1, 0)
    def commit(self, source, receipts): pass

class Inspected(Inspection):
    def __init__(self, path): self.path = path
    def reader(self):
        return MemoryReader(Ragged.of([list(map(int, l.split())) for l in open(self.path).readlines()[1:]]))

class Lines(Format):
    name, title, extensions = "lines", "Ids as decimal lines", (".lines",)
    stores, cannot_store = "everything", "nothing"
    read_options = write_options = Options
    def sniff(self, probe): return Confidence.CERTAIN if probe.head.startswith(b"#lines\\n") else None
    def inspect(self, paths, options, hints):
        return Inspected(paths[0])
    def writer(self, path, options, target): return Writer(path)
    def writer_traits(self, options): return WriterTraits()

FORMAT = Lines()
'''


def installed(home, name, module, package="tokfmt-lines", code=None):
    """Put a distribution with one entry point beside the others."""
    site = home / "site"
    info = site / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    if code is not None:
        (site / f"{module}.py").write_text(code)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tokfmt.formats]\n{name} = {module}:FORMAT\n")
    return {**os.environ, "PYTHONPATH": str(site)}


def raising(where, what):
    """The module of the format, in which a line raises."""
    assert where in MODULE
    return MODULE.replace(where, f"{where}\n{what}")
