"""What can be wrong with HDF5 samples: findings TF301 ... TF343; `codes` says what they mean.

Headers, chunk maps and sizes are looked at in every file; content in the first, middle and last 64 samples of each, or,
deep, all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tokfmt.core.audit import Audit
from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError
from tokfmt.core.files import File, natural_key
from tokfmt.core.format import Finding
from tokfmt.formats.hdf5 import facts, order
from tokfmt.formats.hdf5.check_content import content_findings
from tokfmt.formats.hdf5.container import Stored, open_stored
from tokfmt.formats.hdf5.filters import DEFLATE

_SOME = 1000  # samples: fewer are no dataset that several tasks share


def findings(path: Path, how: Audit) -> Iterator[Finding]:
    """Every violation found in a file or a directory."""
    try:
        files = order.files_of([path])
    except FormatError as error:
        yield Finding("TF301", "error", str(path), error.what, error.remedy or "")
        return
    opened = []
    params = facts.params_beside(files)
    for file in files:
        if file.suffix != ".h5":
            yield Finding("TF302", "error", str(file), "is not named *.h5; trainers do not find it", "Rename it")
        try:
            stored = open_stored(file)
        except FormatError as error:
            yield _refused(file, error)
            continue
        opened.append(stored)
        yield from _headers(stored)
        yield from _layout(stored)
        if not stored.foreign and len(stored.table) and stored.table.shape[2]:
            eos_id = params.eos_id if how.eos_id is None else how.eos_id
            yield from content_findings(stored, params, eos_id, how)
        stored.table.close()
    if params.note:
        yield Finding(
            "TF328",
            "warning",
            str(files[0].parent / facts.PARAMS),
            params.note.removeprefix(f"{facts.PARAMS} "),
            "Mend or remove it; what it says of separator and padding is not known now",
        )
    yield from _together(path, opened)


def _refused(file: Path, error: FormatError) -> Finding:
    kinds = {TruncatedError: "TF304", UnsafeError: "TF305", CorruptError: "TF303"}
    code = kinds.get(type(error), "TF306")
    contrast = f": expected {error.expected}, found {error.found}" if error.expected and error.found else ""
    return Finding(code, "error", str(file), error.what + contrast, error.remedy or "", error.offset)


def _headers(stored: Stored) -> Iterator[Finding]:
    name = str(stored.path)
    if stored.foreign:
        yield Finding("TF307", "error", name, f"holds {stored.foreign}, not GPT samples")
        return
    if not all(stored.shape):
        kind = "warning" if all(stored.shape[1:]) else "error"
        yield Finding("TF309", kind, name, f"holds no tokens: its shape is {list(stored.shape)}")
    if stored.rank == 3:
        yield from _examples(stored)
    try:
        facts.own(stored)
    except CorruptError as error:
        yield Finding("TF310", "error", name, f"{error.what}: {error.found}", error.remedy or "")


def _examples(stored: Stored) -> Iterator[Finding]:
    try:
        note = facts.check_examples(stored)
    except CorruptError as error:
        text = f"{error.what}: it says {error.found}, there are {error.expected}"
        yield Finding("TF308", "error", str(stored.path), text, error.remedy or "")
        return
    if note:
        text = note.removeprefix(f"{stored.path.name}: ")
        yield Finding("TF308", "error", str(stored.path), text, f"Set it to {len(stored.table)}")


def _layout(stored: Stored) -> Iterator[Finding]:
    name, table = str(stored.path), stored.table
    if stored.rank == 3 and len(table):
        best = (1, *stored.shape[1:])
        if stored.chunk != best:
            found = "contiguous" if stored.chunk is None else f"in chunks of {list(stored.chunk)}"
            yield Finding("TF321", "warning", name, f"is stored {found}: a random sample costs more than it need",
                          f"h5repack -l data:CHUNK={best[0]}x{best[1]}x{best[2]}")  # fmt: skip
        if DEFLATE not in stored.filters:
            yield Finding("TF322", "warning", name, "is not compressed", "h5repack -f GZIP=4")
        if table.dtype.itemsize != 4 or table.dtype.kind != "i":
            text = f"ids are {table.dtype.name}; trainers make them int32 without a look at what is lost"
            yield Finding("TF323", "warning", name, text, "Write it again as int32")
    file = File(stored.path)
    version = file.read(8, 1)[0]
    file.close()
    if version > 2:
        text = f"superblock version {version}: HDF5 1.8 (and, from HDF5 2 with libver=latest, 1.10) cannot read it"
        yield Finding("TF324", "warning", name, text, "h5repack --low=0 --high=1", 8)


def _together(path: Path, opened: Sequence[Stored]) -> Iterator[Finding]:
    """What only shows when files are compared."""
    first = opened[0] if opened else None
    for stored in opened:
        if first is None or stored is first:
            continue
        if stored.rank != first.rank:
            yield Finding(
                "TF313", "error", str(stored.path), f"one of a corpus and samples; {first.path.name} is the other"
            )
        elif stored.shape[1:] != first.shape[1:]:
            text = f"rows are {list(stored.shape[1:])}, in {first.path.name} {list(first.shape[1:])}"
            yield Finding("TF311", "error", str(stored.path), text, "Keep datasets of one shape in a directory")
        if stored.table.dtype != first.table.dtype:
            text = f"ids are {stored.table.dtype.str}, in {first.path.name} {first.table.dtype.str}"
            yield Finding("TF312", "error", str(stored.path), text, "map-style trainers refuse the directory")
    names = [stored.path.name for stored in opened]
    if sorted(names) != sorted(names, key=natural_key):
        text = "numbers in file names are not padded with zeros: trainers read -10 before -2"
        yield Finding("TF325", "warning", str(path), text, "order=writer (the default) reads them in order")
    samples = [stored for stored in opened if stored.rank == 3]
    if samples and not any(len(stored.table) for stored in samples):
        yield Finding("TF326", "warning", str(path), "holds no sample: iterable trainers stop with OverflowError")
    if path.is_dir() and len(samples) == 1 and len(samples[0].table) >= _SOME:
        yield Finding(
            "TF327",
            "info",
            str(path),
            "is one file: iterable trainers deal out whole files, so only one task gets samples",
            "Write at least as many files as tasks, with --to-opt samples=N",
        )
