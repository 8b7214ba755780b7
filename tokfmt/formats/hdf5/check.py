"""Check HDF5 samples: findings TF301 to TF344, what only a check looks at, and a repair.

The inspection finds the problems of headers, chunk maps and sizes. A check also looks at what trainers do not like, and
at the first, middle and last 64 samples of each file, or at all samples if it is deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Audit, Finding, Repair
from tokfmt.core.reader import windows
from tokfmt.errors import FormatError
from tokfmt.files.file import natural_key
from tokfmt.files.place import Place, local_path
from tokfmt.formats.hdf5.files import Params, files_in
from tokfmt.formats.hdf5.options import ReadOptions
from tokfmt.formats.hdf5.samples import IGNORED, Ends, Tally
from tokfmt.formats.hdf5.stored import Hdf5File, open_hdf5
from tokfmt.formats.hdf5.stride import look_for_segments
from tokfmt.formats.hdf5_arrays.container import library_errors
from tokfmt.formats.hdf5_arrays.places import DEFLATE
from tokfmt.formats.hdf5_arrays.table import Rows, Table, Values

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Facts of a file that tests of its rows need."""

    params: Params  # contents of `data_params.json`
    inverted: bool  # True if 1 in the mask row means padding
    # True if the file's attributes state that the mask is that of documents, so it does not show padding
    of_documents: bool


Test = Callable[[Values, FileFacts], Flags]


def _inputs(values: Values) -> Values:
    return values[:, 0]


def _negative(values: Values, known: FileFacts) -> Flags:  # noqa: ARG001
    wrong = (_inputs(values) < 0).any(axis=1)
    if values.shape[1] > 2:
        labels = values[:, 2]
        wrong |= ((labels < 0) & (labels != IGNORED)).any(axis=1)
    return np.asarray(wrong)


def _beyond(values: Values, known: FileFacts) -> Flags:
    if known.params.vocab_size is None:
        return np.zeros(len(values), np.bool_)
    wrong = (_inputs(values) >= known.params.vocab_size).any(axis=1)
    if values.shape[1] > 2:
        wrong |= (values[:, 2] >= known.params.vocab_size).any(axis=1)
    return np.asarray(wrong)


def _mask_values(values: Values, known: FileFacts) -> Flags:  # noqa: ARG001
    return np.asarray(((values[:, 1] != 0) & (values[:, 1] != 1)).any(axis=1))


def _inverted(values: Values, known: FileFacts) -> Flags:
    """Return True for samples whose mask goes from 0 to 1 on a constant end, if most padded samples show the same."""
    inputs, mask, labels = _three(values)
    flags = np.asarray((Ends(inputs, labels).run < mask.shape[1]) & (mask[:, 0] == 0) & (mask[:, -1] == 1))
    return flags & known.inverted


def _counted_padding(values: Values, known: FileFacts) -> Flags:
    """Return True for samples with a 1 after a 0 in the mask of their constant end.

    A document that repeats one ID at its end also has a constant end.
    """
    if known.of_documents:
        return np.zeros(len(values), np.bool_)
    inputs, mask, labels = _three(values)
    padding = np.arange(mask.shape[1]) >= Ends(inputs, labels).run[:, None]
    masked_before = np.maximum.accumulate(padding & (mask == 0), axis=1)
    return np.asarray((padding & masked_before & (mask == 1)).any(axis=1)) & ~_inverted(values, known)


def _nothing_counted(values: Values, known: FileFacts) -> Flags:
    return np.asarray((values[:, 1] == int(known.inverted)).all(axis=1))


def _real(values: Values) -> Flags:
    """Return True for positions that are not padding and whose label is not padding: bool[samples, width]."""
    inputs, _, labels = _three(values)
    real = np.arange(inputs.shape[1]) < Ends(inputs, labels).run[:, None]
    if values.shape[1] == 5:
        real[:, :-1] &= values[:, 4, 1:] != 0  # labels at the ends of segments follow one of two other rules
    return real


def _unshifted(values: Values, known: FileFacts) -> Flags:  # noqa: ARG001
    inputs, _, labels = _three(values)
    same = ((inputs == labels) | (labels == IGNORED)).all(axis=1)
    return np.asarray(same & ((labels[:, :-1] != inputs[:, 1:]) & (labels[:, :-1] != IGNORED)).any(axis=1))


def _unlike(values: Values, known: FileFacts) -> Flags:
    """Return True for samples with a label before the end that is neither the next input nor -100."""
    inputs, mask, labels = _three(values)
    counted = (mask == 0) if known.inverted else (mask != 0)
    last = np.where(counted.any(axis=1), counted.shape[1] - np.argmax(counted[:, ::-1], axis=1), 0)
    inside = (np.arange(1, inputs.shape[1]) < last[:, None]) & _real(values)[:, :-1]
    wrong = (labels[:, :-1] != inputs[:, 1:]) & (labels[:, :-1] != IGNORED) & inside
    return np.asarray(wrong.any(axis=1)) & ~_unshifted(values, known)


def _three(values: Values) -> tuple[Values, Values, Values]:
    return values[:, 0], values[:, 1], values[:, 2]


WARNINGS = ("TF338", "TF340")
TESTS: tuple[tuple[str, str, str, Test], ...] = (
    ("TF332", "has a negative ID", "Write the file again", _negative),
    ("TF333", "has an ID beyond the vocabulary of data_params.json", "Check the tokenizer", _beyond),
    ("TF334", "has other values than 0 and 1 in its mask", "Fractional loss weights become 0 in int32", _mask_values),
    ("TF335", "counts padding: its mask is 1 again after padding began", "Write the file again", _counted_padding),
    (
        "TF336",
        "repeats input_ids as labels, not shifted by one",
        "Shift them: labels[k] = input_ids[k + 1]",
        _unshifted,
    ),
    ("TF337", "has a label that is not the next input", "Write the file again", _unlike),
    (
        "TF338",
        "has no token that counts: its mask leaves out all of it",
        "Remove it: it adds nothing to training",
        _nothing_counted,
    ),
    ("TF340", "has a mask that is 1 on padding (inverted_mask)", "Trainers take 1 as counted", _inverted),
)


_LOOK = 64  # samples at each of three places of a file that are read unless the check is deep
_LOOK_TOKENS = 1 << 14  # tokens of a corpus at each of three places
_VALUES = 1 << 20  # maximum number of values that are read at once
_REPORTED = 100  # damaged chunks of a file that are reported one by one
_FULL = 8  # minimum number of samples without padding for TF342
_AT_ENDS = 0.05  # minimum share of them that end with a separator


@dataclass(slots=True)
class Seen:
    """Result of a check of some rows.

    Attributes:
        tallies: Rows that fail each test, by code.
        damaged: Errors of chunks that cannot be decoded.
        segments: First error of packed sequences.
        loss: Number of samples which show that 1 in the mask means counted.
        inverted: Number of samples which show that 1 in the mask means padding.
        separators: Number of rows that hold the separator as an input or as a label.
        full: Number of samples without padding.
        inside: Number of separators among the inputs of full samples.
        at_end: Number of full samples whose last label is the separator.
    """

    tallies: dict[str, Tally] = field(default_factory=dict)
    damaged: list[FormatError] = field(default_factory=list)
    segments: FormatError | None = None
    loss: int = 0
    inverted: int = 0
    separators: int = 0
    full: int = 0
    inside: int = 0
    at_end: int = 0

    def add(self, other: Seen) -> None:
        """Add the result of later rows."""
        for code, tally in other.tallies.items():
            mine = self.tallies.setdefault(code, Tally())
            mine.first = mine.first if mine.count else tally.first
            mine.count += tally.count
        known = {error.offset for error in self.damaged}
        self.damaged += [error for error in other.damaged if error.offset not in known]
        self.segments = self.segments or other.segments
        for name in ("loss", "inverted", "separators", "full", "inside", "at_end"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def content_findings(stored: Hdf5File, params: Params, eos_id: int | None, how: Audit) -> Iterator[Finding]:
    """Yield the findings in the first, middle and last rows of a file with rows, or in all if the check is deep."""
    table = stored.table
    table.share(table, keeps=table.keeps or not how.deep)  # the places are read twice
    places = _places(stored)
    votes = Seen()
    if stored.rank == 3:
        for cut in places:
            votes.add(_votes(table, cut))
    own = "first_mask" in stored.facts
    known = FileFacts(params, inverted=not own and votes.inverted > votes.loss, of_documents=own)
    together = max(1, min(_VALUES // (table.shape[1] * table.shape[2]), len(table)), min(table.rows_together, _LOOK))
    cuts = windows(0, len(table), together) if how.deep else iter(places)

    def look(cut: tuple[int, int]) -> Seen:
        seen = _look(stored, known, eos_id, cut)
        how.advance((cut[1] - cut[0]) * table.shape[2])
        return seen

    seen = Seen()
    for part in how.spread(look, cuts):
        seen.add(part)
        del seen.damaged[_REPORTED:]
    yield from _worded(stored, seen, deep=how.deep)
    yield from _separators(stored, eos_id, seen, deep=how.deep)


def _places(stored: Hdf5File) -> list[tuple[int, int]]:
    """Return the intervals of the first, middle and last rows to read, as many as fit into bounded memory."""
    count, (_, fields, width) = len(stored.table), stored.table.shape
    look = max(1, min(_LOOK, _VALUES // (fields * width))) if stored.rank == 3 else _LOOK_TOKENS
    starts = sorted({0, max(0, count // 2 - look // 2), max(0, count - look)})
    stops = [*(min(a + look, b) for a, b in zip(starts, starts[1:], strict=False)), min(starts[-1] + look, count)]
    return list(zip(starts, stops, strict=True))


def _votes(table: Table, cut: tuple[int, int]) -> Seen:
    try:
        values = table.rows(*cut)
    except FormatError:  # `_look` reports it
        return Seen()
    loss, inverted = Ends(values[:, 0], values[:, 2]).votes(values[:, 1])
    return Seen(loss=loss, inverted=inverted)


def _look(stored: Hdf5File, known: FileFacts, eos_id: int | None, cut: tuple[int, int]) -> Seen:
    """Check some rows; if they cannot be decoded, halve the interval until the damaged rows are found."""
    first, last = cut
    try:
        values = stored.table.rows(first, last)
    except FormatError as error:
        if last - first == 1:
            return Seen(damaged=[error])
        seen, middle = Seen(), (first + last) // 2
        for half in ((first, middle), (middle, last)):
            if len(seen.damaged) < _REPORTED:
                seen.add(_look(stored, known, eos_id, half))
        return seen
    seen = Seen()
    for code, _, _, test in TESTS if stored.rank == 3 else TESTS[:2]:
        tally = seen.tallies[code] = Tally()
        tally.add(test(values, known), first)
    if stored.rank == 3 and not known.of_documents:  # The mask of documents does not show padding.
        seen.loss, seen.inverted = Ends(values[:, 0], values[:, 2]).votes(values[:, 1])
    if stored.rank == 3 and stored.shape[1] == 5:
        seen.segments = _segments(stored, first, values)
    if eos_id is not None:
        _look_for_separators(seen, values, eos_id, known)
    return seen


def _segments(stored: Hdf5File, first: int, values: Values) -> FormatError | None:
    try:
        look_for_segments(Rows([stored.table]), first, values)
    except FormatError as error:
        return None if "negative" in error.what else error  # TF332 reports negative IDs
    return None


def _look_for_separators(seen: Seen, values: Values, eos_id: int, known: FileFacts) -> None:
    if values.shape[1] == 1:
        seen.separators = int(np.count_nonzero(values == eos_id))
        return
    inputs, mask, labels = values[:, 0], values[:, 1], values[:, 2]
    seen.separators = int(np.count_nonzero((inputs == eos_id).any(axis=1) | (labels == eos_id).any(axis=1)))
    full = ((mask == 0) if known.inverted else (mask != 0)).all(axis=1)
    seen.full = int(np.count_nonzero(full))
    seen.inside = int(np.count_nonzero(inputs[full] == eos_id))
    seen.at_end = int(np.count_nonzero(labels[full, -1] == eos_id))


def _worded(stored: Hdf5File, seen: Seen, *, deep: bool) -> Iterator[Finding]:
    """Yield the findings of the content of one file."""
    name = str(stored.path)
    for error in seen.damaged:
        yield Finding.of("TF331", error)
    for code, text, remedy, _ in TESTS:
        tally = seen.tallies.get(code)
        if tally is None or not tally.count:
            continue
        unit = "sample" if stored.rank == 3 else "token"
        more = f" (and {tally.count - 1:,} more {unit}s)" if deep and tally.count > 1 else ""
        severity = "warning" if code in WARNINGS else "error"
        yield Finding(
            code, severity, name, f"{unit} {tally.first:,} {text}{more}", remedy, stored.table.offset(tally.first)
        )
    if seen.segments is not None:
        yield Finding("TF339", "error", name, seen.segments.what, seen.segments.remedy or "", seen.segments.offset)
    if seen.loss and seen.inverted:
        text = f"{seen.inverted:,} samples have a mask that is 1 on padding, {seen.loss:,} one that is 0 there"
        yield Finding("TF343", "error", name, text, "Files of two writers were mixed: write it again")


def _separators(stored: Hdf5File, eos_id: int | None, seen: Seen, *, deep: bool) -> Iterator[Finding]:
    """Yield the findings of separators that do not occur, or only at the ends of samples."""
    if eos_id is None or len(seen.damaged) >= len(stored.table):
        return
    name, where = str(stored.path), "" if deep else " in the content that was read"
    if not seen.separators:
        text = f"the separator {eos_id} does not occur{where}"
        yield Finding("TF341", "warning", name, text, "Give the right separator with --eos ID")
    elif seen.full >= _FULL and not seen.inside and seen.at_end >= _AT_ENDS * seen.full:
        text = (
            f"the separator {eos_id} occurs only at the ends of samples ({seen.at_end:,} of {seen.full:,}){where}: "
            "documents were packed without one between them"
        )
        yield Finding("TF342", "warning", name, text, "See `tokfmt check --explain TF342`")


_SOME = 1000  # minimum number of samples for TF327: tasks do not share a smaller dataset


def look(
    place: Place, files: Sequence[Place], opened: Sequence[Hdf5File], params: Params, how: Audit
) -> Iterator[Finding]:
    """Yield what only a check looks at, in the files and those of them that could be opened; see `Inspection.look`."""
    eos_id = params.eos_id if how.eos_id is None else how.eos_id
    for path in files:
        if path.suffix != ".h5":
            yield Finding("TF302", "error", str(path), "is not named *.h5; trainers do not find it", "Rename it")
    for stored in opened:
        yield from _layout(stored)
        if not stored.foreign and len(stored.table) and stored.table.shape[2]:
            yield from content_findings(stored, params, eos_id, how)
        stored.table.close()
    yield from _together(place, opened)


def _layout(stored: Hdf5File) -> Iterator[Finding]:
    """Yield the findings of chunks, compression, dtype and superblock of one file."""
    name, table = str(stored.path), stored.table
    if stored.rank == 3 and len(table):
        best = (1, *stored.shape[1:])
        if stored.chunk != best:
            found = "contiguous" if stored.chunk is None else f"in chunks of {list(stored.chunk)}"
            yield Finding("TF321", "warning", name, f"is stored {found}: to read one sample costs more than necessary",
                          f"h5repack -l data:CHUNK={best[0]}x{best[1]}x{best[2]}")  # fmt: skip
        if DEFLATE not in stored.filters:
            yield Finding("TF322", "warning", name, "is not compressed", "h5repack -f GZIP=4")
        if table.dtype.itemsize != 4 or table.dtype.kind != "i":
            text = f"IDs are {table.dtype.name}; trainers cast them to int32 without a check"
            yield Finding("TF323", "warning", name, text, "Write it again as int32")
    version = table.file.read(8, 1)[0]
    if version > 2:
        text = f"superblock version {version}: HDF5 1.8 (and, from HDF5 2 with libver=latest, 1.10) cannot read it"
        yield Finding("TF324", "warning", name, text, "h5repack --low=0 --high=1", 8)


def _together(path: Place, opened: Sequence[Hdf5File]) -> Iterator[Finding]:
    """Yield the findings that only a comparison of files shows."""
    names = [stored.path.name for stored in opened]
    if sorted(names) != sorted(names, key=natural_key):
        text = "numbers in file names are not padded with zeros: trainers read -10 before -2"
        yield Finding("TF325", "warning", str(path), text, "--from-opt order=writer (the default) reads them in order")
    samples = [stored for stored in opened if stored.rank == 3]
    if path.is_dir() and len(samples) == 1 and len(samples[0].table) >= _SOME:
        yield Finding(
            "TF327",
            "info",
            str(path),
            "is one file: iterable trainers distribute whole files, so only one task gets samples",
            "Write at least as many files as tasks, with --to-opt shard_size=N",
        )


def set_examples(copy: Place, options: ReadOptions, *, dry_run: bool = False) -> None:  # noqa: ARG001 - samples decide
    """Set `n_examples` of each file to the number of its samples; with `dry_run`, change nothing."""
    for file in files_in([copy]):
        stored = open_hdf5(file)
        count = len(stored.table)
        stored.table.close()
        if dry_run or stored.rank != 3 or stored.n_examples == count:
            continue
        import h5py  # `open_hdf5` turned its plug-ins off

        with library_errors(file), h5py.File(local_path(file, "an HDF5 file"), "r+", locking=False) as handle:
            handle.attrs.pop("n_examples", None)
            handle.attrs["n_examples"] = count


REPAIRS: Mapping[str, Repair] = {"TF308": Repair("n_examples was set to the number of samples", patch=set_examples)}
