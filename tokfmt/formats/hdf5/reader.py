"""Open HDF5 datasets: order their files, collect what is known of them, and choose the reader for their kind.

    name                                     stream                order in the stream
    examples_<n>_<rank>.h5                   one per rank          n
    output_chunk_<rank>_<n>[_<node>].h5      one per rank, node    n, as a number
    output_chunk_<rank>_prefix.h5            one per file          -  (remaining tails, after the others)
    any other name                           one per pattern       its numbers, from left to right

Trainers sort names as text (-1, -10, -11, -2), and `order=trainer` reads in that order. A document then continues only
between files that follow each other in the order of the writer as well.
The attributes of the other files, and the numbers in their names, show which files are missing.

Attributes of `data` in files that tokfmt wrote, all optional in every other file:

    stride         text     overlap, disjoint, corpus or rows
    eos_id         int      the separator; rows may have none
    pad_id         int      padding ID of the last sample
    first_token    int      position of the file's first token in the stream
    stream_tokens  int      tokens of the whole stream, with separators and without padding
    first_mask     int      1 if the file's first token counts, else 0; only if the mask is that of documents
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core import listing
from tokfmt.core.errors import CorruptError, FormatError, Loss, TruncatedError, UnsupportedError
from tokfmt.core.files import names_in, open_file
from tokfmt.core.findings import Problem, fatal, loss_in, noted, raise_fatal
from tokfmt.core.format import Hints
from tokfmt.core.place import Place
from tokfmt.core.reader import INT32_MAX, Damage, Info, Layout, Separators, TokenReader, windows
from tokfmt.core.rows import ROWS, Continuation, continuation
from tokfmt.core.text_format import counted
from tokfmt.formats.hdf5.beginning import FIRST, SampledRows, is_long, row_bytes, spread_samples
from tokfmt.formats.hdf5.container import Stored, WriterAttributes, open_stored
from tokfmt.formats.hdf5.options import PARAMS, Order, ReadOptions
from tokfmt.formats.hdf5.partial import open_first
from tokfmt.formats.hdf5.samples import (
    IGNORED,
    Corpus,
    FirstSamples,
    MaskedRuns,
    MaskedSamples,
    PackedSamples,
    Runs,
    Samples,
    Scan,
    Stream,
    Tally,
    scan_samples,
    torn,
)
from tokfmt.formats.hdf5.stride import chained, continued, join, judge, pieces_of, scan_segments
from tokfmt.formats.hdf5.table import LARGEST_CHUNK, Rows
from tokfmt.model.select import Beginning

_EXAMPLES = re.compile(r"examples_(\d+)_(\d+)\.h5", re.ASCII)
_CHUNK = re.compile(r"output_chunk_(\d+)_(\d+)(?:_(\d+))?\.h5", re.ASCII)
_PREFIX = re.compile(r"output_chunk_(\d+)_prefix\.h5", re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)

Key = tuple[tuple[object, ...], tuple[int, ...]]


def files_in(paths: Sequence[Place]) -> list[Place]:
    """Return the `*.h5` files of a directory (top level only), or the given files.

    Raises:
        FormatError: The directory holds no such file.
    """
    if len(paths) != 1 or not listing.is_dir(paths[0]):
        return list(paths)
    inside = [paths[0] / name for name in names_in(paths[0])]
    found = sorted(path for path in inside if path.name.endswith(".h5") and not listing.is_dir(path))
    if not found:
        others = sorted(p.name for p in inside if p.suffix.lower() in (".h5", ".hdf5", ".he5"))
        raise FormatError(
            paths[0],
            "holds no *.h5 file",
            found=", ".join(others[:3]) or None,
            remedy="Give the files one by one, or rename them: trainers read *.h5 only" if others else None,
        )
    return found


def arrange(files: Sequence[Place], order: Order) -> list[list[Place]]:
    """Group files into streams: runs of files in which documents may continue from one file to the next."""
    keys = {path: _key(path) for path in files}
    seen: dict[Place, int] = {}
    for path in files:
        seen.setdefault(path.parent, len(seen))
    written = sorted(files, key=lambda path: (seen[path.parent], *keys[path], path.name))
    follows = {b: a for a, b in zip(written, written[1:], strict=False) if _stream(a, keys) == _stream(b, keys)}
    if order == "writer":
        chosen = written
    elif order == "trainer":
        chosen = sorted(files, key=lambda path: (seen[path.parent], path.name))
    else:
        chosen = list(files)
    streams: list[list[Place]] = []
    for path in chosen:
        if streams and follows.get(path) == streams[-1][-1]:
            streams[-1].append(path)
        else:
            streams.append([path])
    return streams


def _stream(path: Place, keys: dict[Place, Key]) -> tuple[object, ...]:
    return path.parent, *keys[path][0]


def _key(path: Place) -> Key:
    """Return a sortable key of the stream of a file within its directory, and its place in the stream."""
    if match := _EXAMPLES.fullmatch(path.name):
        return (0, "examples", int(match[2]), 0), (int(match[1]),)
    if match := _CHUNK.fullmatch(path.name):
        return (0, "output_chunk", int(match[3] or 0), int(match[1])), (int(match[2]),)
    if match := _PREFIX.fullmatch(path.name):
        return (1, "output_chunk", 0, int(match[1])), ()
    return (0, _NUMBER.sub("#", path.name), 0, 0), tuple(int(n) for n in _NUMBER.findall(path.name))


# Writers number these files without a gap. The upstream writer of output_chunk_<rank>_<n> leaves numbers out.
_NUMBERED = re.compile(r"(examples_|data-|dataset-partition-)(\d+)((?:_\d+)?)\.h5", re.ASCII)
_REMEDY = "Find the missing file; --from-opt gaps=accept reads the others, and cuts documents at the gap"
_NOTE = "these files are only some of those that were written; documents are cut where a file is missing"


def gaps(place: Place, files: Sequence[Stored], *, accepted: bool) -> Iterator[Problem]:
    """Yield a problem if files are missing: an error in a directory, a note for files given one by one.

    Args:
        place: The directory, or the first of the given files.
        files: The opened files, in any order.
        accepted: True if the options accept gaps.
    """
    refused = listing.is_dir(place) and not accepted
    for what in dict.fromkeys((*_in_streams(files), *(_in_names(files) if listing.is_dir(place) else ()))):
        error = CorruptError(place, what, remedy=_REMEDY)
        yield Problem("TF344", "error" if refused else "warning", error, refused, _NOTE)
        return


def _in_streams(files: Sequence[Stored]) -> Iterator[str]:
    """Yield a sentence for each interval of tokens of a stream by tokfmt that no file holds."""
    streams: dict[WriterAttributes, list[tuple[int, int, Stored]]] = {}
    for stored in files:
        try:
            own = own_facts(stored)
        except CorruptError:  # raised again, or noted, where the attributes are needed
            own = None
        if own is not None:
            end = own.first_token + tokens_in(stored, own)
            stream = own._replace(pad_id=None, first_token=0, first_mask=None)
            streams.setdefault(stream, []).append((own.first_token, end, stored))
    for stream, parts in streams.items():
        reached, before = 0, ""
        for first, end, stored in sorted(parts, key=lambda part: part[:2]):
            if first > reached:
                yield f"{_tokens(reached, first, stream)} are in no file: {_between(before, stored.path.name)}"
            reached, before = max(reached, end), stored.path.name
        if reached + (stream.stride == "overlap") < stream.stream_tokens:
            yield f"{_tokens(reached, stream.stream_tokens, stream)} are in no file: a file after {before} is missing"


def _tokens(first: int, last: int, stream: WriterAttributes) -> str:
    return f"tokens {first:,} to {last - 1:,} of its {stream.stream_tokens:,}"


def _between(before: str, after: str) -> str:
    return f"a file between {before} and {after} is missing" if before else f"a file before {after} is missing"


def _in_names(files: Sequence[Stored]) -> Iterator[str]:
    """Yield a sentence for each gap in the numbers of file names."""
    series: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for stored in files:
        if match := _NUMBERED.fullmatch(stored.path.name):
            series.setdefault((match[1], match[3]), []).append((int(match[2]), stored.path.name))
    for found in series.values():
        found.sort()
        for (a, before), (b, after) in zip(found, found[1:], strict=False):
            if b > a + 1:
                yield f"the file with the number {a + 1} is missing between {before} and {after}"


_LARGEST_PARAMS = 1 << 20


def own_facts(stored: Stored) -> WriterAttributes | None:
    """Return the checked attributes that tokfmt wrote in a file; None if another writer made it.

    Raises:
        CorruptError: An attribute is invalid.
    """
    facts = stored.facts
    rows = facts.get("stride") == ROWS
    if not {"stride", "first_token", "stream_tokens", *(() if rows else ("eos_id",))} <= facts.keys():
        return None
    if facts["stride"] not in (("corpus",) if stored.rank == 1 else ("overlap", "disjoint", ROWS)):
        expected = "corpus" if stored.rank == 1 else f"overlap, disjoint or {ROWS}"
        raise _invalid_attribute(stored, "stride", expected, facts["stride"])
    largest = INT32_MAX if stored.rank == 3 else 2**32 - 1
    numbers: dict[str, int] = {}
    limits = {"eos_id": largest, "first_token": 1 << 62, "stream_tokens": 1 << 62}
    for name, limit in ((name, limit) for name, limit in limits.items() if name in facts):
        value = facts[name]
        if not isinstance(value, int) or not 0 <= value <= limit:
            raise _invalid_attribute(stored, name, f"0..{limit:,}", value)
        numbers[name] = value
    step = _step(stored, str(facts["stride"]))
    count, left = len(stored.table), numbers["stream_tokens"] - numbers["first_token"]
    least = count * step if rows else count if stored.rank == 1 else (count - 1) * step + 2
    if count and left < least:
        raise _invalid_attribute(stored, "stream_tokens", f"enough tokens for {count:,} rows", numbers["stream_tokens"])
    mask = facts.get("first_mask")
    if mask is not None and not (isinstance(mask, int) and mask in (0, 1) and facts["stride"] == "overlap"):
        raise _invalid_attribute(stored, "first_mask", "0 or 1, of samples that overlap", mask)
    first_mask = None if mask is None else int(mask)
    first, total = numbers["first_token"], numbers["stream_tokens"]
    return WriterAttributes(str(facts["stride"]), numbers.get("eos_id"), None, first, total, first_mask)


def pad_id_of(stored: Stored, params: Params) -> int | None:
    """Return the padding ID that the file's attributes or `data_params.json` state; None if neither does."""
    found = stored.facts.get("pad_id")
    return found if isinstance(found, int) and 0 <= found <= INT32_MAX else params.pad_id


def _step(stored: Stored, stride: str) -> int:
    """Return the tokens of the stream from the start of one row to the start of the next."""
    return stored.table.shape[2] + (stride == "disjoint")


def tokens_in(stored: Stored, own: WriterAttributes) -> int:
    """Return the number of tokens of the stream between the starts of a file and the next file."""
    return len(stored.table) * _step(stored, own.stride)


def goes_on(before: tuple[Stored, WriterAttributes], after: WriterAttributes) -> bool:
    """Return True if a file begins at the position of the stream where the file before it ends."""
    stored, facts = before
    next_token = facts.first_token + tokens_in(stored, facts)
    same = (facts.stride, facts.eos_id, facts.stream_tokens) == (after.stride, after.eos_id, after.stream_tokens)
    return same and next_token == after.first_token


def _invalid_attribute(stored: Stored, name: str, expected: str, found: object) -> CorruptError:
    return CorruptError(
        stored.path,
        f"the attribute {name} of 'data' is invalid",
        expected=expected,
        found=found,
        remedy="Delete the attribute, or give --from-opt stride=overlap|disjoint",
    )


def examples_problem(stored: Stored) -> Problem | None:
    """Return the problem of `n_examples` in a sample file, None if it is right; a wrong number is an error."""
    count, rows, path = stored.n_examples, len(stored.table), stored.path
    if isinstance(count, int):
        what, remedy = "n_examples is not the number of samples", f"Set the attribute n_examples to {rows:,} if all "
        wrong = CorruptError(path, what, expected=rows, found=count, remedy=f"{remedy}samples are complete")
        return None if count == rows else fatal("TF308", wrong)
    what = f"n_examples is {'missing' if count is None else 'not a whole number'}; iterable trainers refuse the file"
    return noted("TF308", CorruptError(path, what, remedy=f"Set it to {rows}"), f"{path.name}: {what}")


def misfit(stored: Stored, first: Stored) -> Problem | None:
    """Return the problem if a file has another kind or shape of rows than the first file, else None."""
    if (stored.rank, stored.shape[1:], stored.foreign) == (first.rank, first.shape[1:], first.foreign):
        return None
    error = CorruptError(
        stored.path,
        f"does not fit {first.path.name}",
        expected=_worded(first),
        found=_worded(stored),
        remedy="Files of one dataset have rows of one shape; read them one by one",
    )
    return fatal("TF311" if stored.rank == first.rank else "TF313", error)


def _worded(stored: Stored) -> str:
    kind = stored.foreign or ("a corpus" if stored.rank == 1 else "samples")
    return f"{kind} [{', '.join(['n', *map(str, stored.shape[1:])])}]"


@dataclass(frozen=True, slots=True)
class Params:
    """The contents of `data_params.json`, which are hints only.

    Attributes:
        eos_id: Separator; None if not stated.
        pad_id: Padding ID; None if not stated.
        vocab_size: Number of token IDs; None if not stated.
        note: Defect of the file, "" without one.
    """

    eos_id: int | None = None
    pad_id: int | None = None
    vocab_size: int | None = None
    note: str = ""


def params_beside(files: Sequence[Place]) -> Params:
    """Read `data_params.json` if all files are in one directory that has one."""
    homes = {path.parent for path in files}
    place = next(iter(homes)) / PARAMS
    if len(homes) != 1 or not listing.is_file(place):
        return Params()
    try:
        file = open_file(place)
        if file.size > _LARGEST_PARAMS:
            return Params(note=f"{PARAMS} is too large to be read ({file.size:,} bytes)")
        content = json.loads(file.read(0, file.size))
        file.close()
    except (ValueError, RecursionError, FormatError):
        return Params(note=f"{PARAMS} cannot be read and is ignored")
    return Params(_number_in(content, "eos_id"), _number_in(content, "pad_id"), _number_in(content, "vocab_size"))


def _number_in(content: Any, name: str) -> int | None:
    """Return a number from the section that holds it in one of the two dialects of the file, else None."""
    for section in ("processing", "post-process"):
        value = content.get(section, {}) if isinstance(content, dict) else {}
        value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32:
            return value
    return None


AS_SAMPLES = "--from-opt view=samples reads the rows as they are"
_STRIDES = "Give --from-opt stride=overlap|disjoint|bos|per-document"
_ENDS_NEEDED = 4  # padded samples that must end with the same ID to infer the separator


@dataclass(frozen=True, slots=True)
class Opening:
    """All opened files of a dataset, with the options and the facts found so far.

    Attributes:
        place: Path as given, for messages.
        files: Opened files, in the order of reading.
        groups: Number of files of each stream.
        options: Options of reading.
        hints: Hints of the caller.
        params: Contents of `data_params.json`.
        notes: See `reader.Info`; more are appended while the dataset is opened.
        inferred: See `reader.Info`; more are appended while the dataset is opened.
        damage: See `reader.Info`.
        lost: See `reader.Info`; more are appended while the dataset is opened.
    """

    place: Place
    files: list[Stored]
    groups: list[int]
    options: ReadOptions
    hints: Hints
    params: Params
    notes: list[str]
    inferred: list[str]
    damage: tuple[Damage, ...] = ()
    lost: list[Loss] = field(default_factory=list)

    def own(self) -> list[WriterAttributes | None]:
        """Return the attributes that tokfmt wrote in each file; None without any, or if options override them."""
        if self.options.stride != "auto":
            return [None] * len(self.files)
        found = [own_facts(stored) for stored in self.files]
        if self.options.mask == "auto":
            return found
        return [one if one is not None and one.stride == ROWS else None for one in found]

    def separator(self, own: WriterAttributes | None) -> tuple[int | None, str]:
        """Return the separator that is known before samples are inspected, and its origin."""
        if self.hints.no_eos:
            return None, ""
        if self.hints.eos_id is not None:
            return self.hints.eos_id, "--eos or manifest"
        if own is not None:
            return own.eos_id, "file attributes"
        if self.params.eos_id is not None:
            return self.params.eos_id, PARAMS
        return self.hints.tokenizer_eos, "tokenizer" if self.hints.tokenizer_eos is not None else ""

    def info(
        self,
        layout: Layout,
        separator: tuple[int | None, str] = (None, ""),
        *,
        odd: Tally | None = None,
        sample_length: int | None = None,
        pad_id: int | None = None,
        loss_masks: str = "",
        segmented: bool = False,
        **extras: object,
    ) -> Info:
        """Return the reader's info without dtype and counts; separators delimit the documents of a stream."""
        between = layout is Layout.STREAM and not self.hints.no_eos
        masks = odd or Tally()
        return Info(
            Layout.DOCUMENTS if layout is Layout.STREAM and not between else layout,
            np.dtype(np.uint32),
            0,
            0,
            sample_length=sample_length,
            separators=Separators.BETWEEN if between else Separators.NONE,
            eos_id=separator[0],
            eos_from=separator[1],
            inferred=tuple(self.inferred),
            notes=tuple(self.notes),
            lost=tuple(dict.fromkeys(self.lost)),
            pad_id=pad_id,
            nonstandard_masks=masks.count,
            first_nonstandard=masks.first,
            loss_masks=loss_masks,
            segmented=segmented,
            extras=dict(files=len(self.files), **extras),
            damage=self.damage,
        )


def open_reader(paths: Sequence[Place], options: ReadOptions, hints: Hints) -> TokenReader:
    """Open the stored axis of a file, a directory, or several files.

    Args:
        paths: A file, a directory, or several files.
        options: The parsed read options.
        hints: Facts and wishes of the command.

    Raises:
        FormatError: A file cannot be read, or the files are of different kinds or do not fit the options.
    """
    opening = _opening(paths, options, hints)
    _check_alike(opening)
    found = list(gaps(opening.place, opening.files, accepted=options.gaps == "accept"))
    raise_fatal(found, hints.allow_loss)
    opening.notes.extend(problem.note for problem in found)
    first = opening.files[0]
    rows = Rows([stored.table for stored in opening.files], hints.jobs, few=hints.few_sequences)
    if first.rank == 1:
        reader = _corpus(opening, rows)
        return _cut(opening, reader) if opening.damage else reader
    if options.view == "samples":
        return _rows_as_stored(opening, rows)
    if first.foreign:
        raise UnsupportedError(opening.place, f"holds {first.foreign}, not GPT samples", remedy=AS_SAMPLES)
    reader = _packed(opening, rows) if rows.fields == 5 else _samples(opening, rows)
    return _cut(opening, reader) if opening.damage else reader


def _cut(opening: Opening, reader: TokenReader) -> TokenReader:
    """Return a cut stream, whose last document is not complete.

    Raises:
        TruncatedError: The separator is unknown, and with it the ends of documents.
    """
    if not isinstance(reader, Stream):
        what = f"the last complete document is unknown without a separator: {opening.damage[0].what}"
        raise TruncatedError(opening.place, what, remedy="Give --eos ID; --from-opt view=samples reads rows")
    return reader


def _rows_as_stored(opening: Opening, rows: Rows) -> TokenReader:
    """Return a reader of rows as sequences, with mask and labels if they are GPT samples."""
    foreign = opening.files[0].foreign
    if foreign:
        opening.notes.append(f"holds {foreign}; only the first field of each row is read")
        return Samples(rows, opening.info(Layout.SAMPLES, sample_length=rows.width, variant=foreign))
    variant, kind = ("vsl", PackedSamples) if rows.fields == 5 else ("samples", MaskedSamples)
    try:
        own = opening.own()
    except CorruptError:  # invalid attributes do not change rows that are read as stored
        own = [None]
    pad_id = pad_id_of(opening.files[0], opening.params)
    info = opening.info(
        Layout.SAMPLES,
        opening.separator(own[0]),
        sample_length=rows.width,
        variant=variant,
        pad_id=pad_id,
        loss_masks="loss masks and labels of its samples",
        segmented=rows.fields == 5,
    )
    known = "loss" if all(own) or rows.fields == 5 else "auto"
    if own[0] is not None and own[0].stride == ROWS:
        info = replace(info, extras={**info.extras, "stride": ROWS})
    return kind(rows, info, known if opening.options.mask == "auto" else opening.options.mask, _filled(rows, own))


def _filled(rows: Rows, own: Sequence[WriterAttributes | None]) -> Mapping[int, int] | None:
    """Return the positions before the padding of the last sample of each stream, as attributes of tokfmt state them.

    Returns:
        Positions by the number of the sample; None if another writer made a file, or if rows are no windows.
    """
    found = dict[int, int]()
    for one, (start, stop) in zip(own, pairwise(rows.starts.tolist()), strict=False):
        if one is None or one.stride == ROWS:
            return None
        before = (stop - start - 1) * (rows.width + (one.stride == "disjoint"))
        filled = one.stream_tokens - one.first_token - before - 1  # The last token is a label alone.
        if start < stop and filled < rows.width:
            found[stop - 1] = max(0, filled)
    return found


def _opening(paths: Sequence[Place], options: ReadOptions, hints: Hints) -> Opening:
    """Open the files in the order of reading, with the hints of `data_params.json`."""
    files = files_in(paths)
    streams = arrange(files, options.order)
    arranged = [path for stream in streams for path in stream]
    inferred = []
    if len(paths) > 1 and arranged != files:
        inferred.append("files are read in the order of their numbers (--from-opt order=given keeps yours)")
    params = params_beside(arranged)
    notes = [params.note] if params.note else []
    if hints.allow_partial and len(streams) == 1:
        opened, damage = open_first(arranged)
        return Opening(paths[0], opened, [len(opened)], options, hints, params, notes, inferred, tuple(damage))
    opened = [open_stored(path, few=hints.few_sequences) for path in arranged]
    return Opening(paths[0], opened, [len(s) for s in streams], options, hints, params, notes, inferred)


def _check_alike(opening: Opening) -> None:
    """Raise or note if files differ in kind or shape, or contradict their own attributes."""
    first = opening.files[0]
    for stored in opening.files:
        problems = [misfit(stored, first), examples_problem(stored) if stored.rank == 3 else None]
        found = [problem for problem in problems if problem is not None]
        raise_fatal(found, opening.hints.allow_loss)
        opening.notes.extend(problem.note for problem in found)
        row_bytes = stored.table.shape[1] * stored.table.shape[2] * stored.table.dtype.itemsize
        if not 0 < row_bytes <= LARGEST_CHUNK:
            raise UnsupportedError(
                stored.path, "a sample has an unusual size", expected=f"1 to {LARGEST_CHUNK:,} bytes", found=row_bytes
            )
    kinds = sorted({str(stored.table.dtype) for stored in opening.files})
    if len(kinds) > 1:
        opening.notes.append(f"files hold IDs of different types ({', '.join(kinds)}); map-style trainers refuse that")


def _as_stream(runs: Runs | Corpus, ends: NDArray[np.integer] | None = None) -> TokenReader:
    """Return runs as one stream if the separator is known; otherwise the runs, which only a separator could split.

    Args:
        runs: The runs.
        ends: Last token of each run but the last; None: they are read.
    """
    info = runs.info
    if info.separators is not Separators.BETWEEN or info.eos_id is None:
        return runs
    if ends is None:
        bounds = runs.offsets(0, info.sequences)
        ends = np.array([runs.tokens(b - 1, b)[0] if a < b else 0 for a, b in pairwise(bounds[:-1].tolist())])
    return Stream(runs, ends, info.eos_id)


def _corpus(opening: Opening, rows: Rows) -> TokenReader:
    if opening.options.view == "samples":
        raise UnsupportedError(
            opening.place,
            "holds a corpus, one array of tokens without samples",
            remedy="A corpus has documents only: leave out --from-opt view=samples, or --samples",
        )
    own = opening.own()
    info = opening.info(Layout.STREAM, opening.separator(own[0]), variant="corpus")
    return _as_stream(Corpus(rows, np.asarray(_opens(opening, own), np.bool_), info))


def _opens(opening: Opening, own: Sequence[WriterAttributes | None]) -> list[bool]:
    """Return True for each file that begins a stream, False if it continues the one before by its attributes."""
    opens = [True] * len(own)
    for k in range(1, len(own)):
        before, after = own[k - 1], own[k]
        if before is not None and after is not None:
            opens[k] = not goes_on((opening.files[k - 1], before), after)
    return opens


def _packed(opening: Opening, rows: Rows) -> TokenReader:
    """Return a reader of packed sequences: every segment is a sequence, without the separator at its end."""
    segments = scan_segments(rows)
    separator = opening.separator(None)
    if separator[0] is None and not opening.hints.no_eos:
        opening.notes.append(
            "the separator is unknown; segments are kept as stored (--eos ID removes it from their ends)"
        )
    rule = "shifted over the whole pack" if segments.whole_pack else "shifted inside each segment"
    info = opening.info(Layout.DOCUMENTS, separator, odd=segments.odd, variant="vsl", labels=rule)
    ignored = separator[0] if separator[0] is not None else opening.params.pad_id
    padding = len(rows) * rows.width - int(segments.inputs.sum())
    return Runs(rows, pieces_of(segments, separator[0]), ignored=ignored, plain=False, info=info, padding=padding)


def _samples(opening: Opening, rows: Rows) -> TokenReader:
    """Return a reader of samples with three fields, as the streams that they were cut from."""
    own = opening.own()
    known = [one for one in own if one is not None]
    stated = {one.stride for one in known}
    if ROWS in stated:
        _check_all_rows(opening, own)
        return _rows_as_stored(opening, rows)
    if len(known) == len(own):
        return _own_samples(opening, rows, known)
    groups = rows.starts[np.concatenate(([0], np.cumsum(opening.groups)))]
    if opening.hints.few_sequences and opening.hints.max_sequences is not None and is_long(rows):
        first = _first_samples(copy.deepcopy(opening), rows, groups, opening.hints.max_sequences)
        if first is not None:
            return first
    scan, inverted = scan_samples(rows, opening.options.mask)
    inferred = _infer(opening, rows, scan, groups, inverted=inverted)
    return _joined(opening, rows, scan, groups, inferred)


@dataclass(frozen=True, slots=True)
class Inferred:
    """Facts that were inferred from samples.

    Attributes:
        inverted: True if 1 in the mask row means padding.
        stride: Name of the way in which samples continue each other; see `stride`.
        separator: Separator, None if unknown, and its origin.
    """

    inverted: bool
    stride: str
    separator: tuple[int | None, str]


def _infer(
    opening: Opening, rows: Rows | SampledRows, scan: Scan, groups: NDArray[np.int64], *, inverted: bool
) -> Inferred:
    """Infer the facts of samples from a scan.

    Raises:
        UnsupportedError: The samples do not show how they continue each other, or were shuffled.
        CorruptError: All samples are empty.
    """
    if inverted and opening.options.mask == "auto":
        opening.inferred.append("1 in the mask row means padding: inverted_mask (--from-opt mask=loss overrides)")
    _check_labels(opening, rows, scan)
    separator = opening.separator(None)
    alike = _ends_alike(scan, rows.width)
    stride = _stride(opening, rows, scan, groups, closed=alike is not None and separator[0] in (None, alike))
    if separator[0] is None and alike is not None and not opening.hints.no_eos:
        padded = np.count_nonzero((scan.valid < rows.width) & (scan.valid > 0))
        opening.inferred.append(f"separator {alike}: all {padded:,} padded samples end with it (--eos ID overrides)")
        separator = alike, "every padded sample ends with it"
    return Inferred(inverted, stride, separator)


def _first_samples(opening: Opening, rows: Rows, groups: NDArray[np.int64], most: int) -> TokenReader | None:
    """Return a reader of the first samples of a long dataset, enough for `most` sequences; None if half are needed.

    Stretches of samples from the whole dataset show what the samples are. The number of sequences and the tally of
    nonstandard masks need all samples and stay unknown.
    """
    some, inner = spread_samples(rows, groups)
    scan, inverted = scan_samples(some, opening.options.mask)
    noted = len(opening.notes)
    inferred = _infer(opening, some, scan, inner, inverted=inverted)
    del opening.notes[noted:]  # these notes count samples, and not all were seen
    if opening.options.stride == "auto":
        what = f"{len(some):,} of {len(rows):,} samples were read to infer that; tokfmt check reads all of them"
        opening.inferred.append(what)
    count = max(8, FIRST // row_bytes(rows))
    while 2 * count < len(rows):
        first, beginning = rows.beginning(count), replace(opening, notes=list(opening.notes))
        scan, _ = scan_samples(first, "inverted" if inverted else "loss")
        reader = _joined(beginning, first, scan, np.minimum(groups, len(first)), inferred)
        eos_id, found = reader.info.eos_id, reader.info.sequences - 1
        if reader.info.separators is Separators.BETWEEN and eos_id is not None:
            found = sum(int(np.count_nonzero(reader.tokens(a, b) == eos_id)) for a, b in windows(0, reader.info.tokens))
        whole = found >= most and not (eos_id is not None and Beginning(reader, eos_id, most).whole)
        if whole or (reader.info.separators is Separators.BETWEEN and eos_id is None):
            return FirstSamples(reader, rows)
        count = max(2 * count, int(1.2 * count * most / max(1, found)))
    return None


def _joined(opening: Opening, rows: Rows, scan: Scan, groups: NDArray[np.int64], inferred: Inferred) -> TokenReader:
    """Return a reader of the streams, or of the samples, that a scan describes."""
    stride, separator = inferred.stride, inferred.separator
    if stride == "overlap":
        groups = _across_directories(opening, scan, groups, rows.width, separator[0])
    apart = stride in ("shuffled", ROWS)
    joined = join(scan, groups, rows.width, "per-document" if apart else stride)
    if joined.broken:
        opening.notes.append(f"{joined.broken:,} samples do not continue in the next one; the stream is cut there")
    _note_ambiguous(opening, scan, groups, rows.width, stride, separator[0])
    info = opening.info(
        Layout.SAMPLES if apart else Layout.STREAM,
        (None, "") if stride == "shuffled" else separator,
        odd=scan.odd,
        sample_length=rows.width + 1 if apart and bool((scan.valid == rows.width).all()) else None,
        variant="samples",
        stride=stride,
        mask="inverted" if inferred.inverted else "loss",
    )
    ignored = separator[0] if separator[0] is not None else opening.params.pad_id
    runs = Runs(rows, joined.pieces, ignored=ignored, plain=False, info=info, padding=scan.padding)
    ends = scan.last[np.flatnonzero(joined.pieces.opens)[1:] - 1]
    return _as_stream(runs, ends if ignored is None else np.where(ends == IGNORED, ignored, ends))


def _across_directories(
    opening: Opening, scan: Scan, groups: NDArray[np.int64], width: int, eos_id: int | None
) -> NDArray[np.int64]:
    """Join streams that continue in the next directory, where their samples overlap by a token; return new groups.

    Raises:
        UnsupportedError: Two directories share a token, but their names do not follow each other: it may be chance.
    """
    kept, at = [0], 0
    for number, row in enumerate(groups[1:-1].tolist(), 1):
        at += opening.groups[number - 1]
        before, after = opening.files[at - 1].path, opening.files[at].path
        inside = before.parent != after.parent and 0 < row < len(scan.valid)
        linked = inside and scan.valid[row - 1] == width and scan.valid[row] and scan.last[row - 1] == scan.first[row]
        if not linked or int(scan.first[row]) == eos_id:  # the separator ends a document in either case
            kept.append(number)
        elif opening.options.order == "given" or _names_go_on(before, after):
            opening.inferred.append(f"the samples of {before.parent} continue in {after.parent}: they share a token")
        else:
            raise torn(before, after)
    return groups[[*kept, len(groups) - 1]]


def _names_go_on(before: Place, after: Place) -> bool:
    (stream, place), (other, later) = _key(before), _key(after)
    return stream == other and place < later


def _own_samples(opening: Opening, rows: Rows, own: list[WriterAttributes]) -> TokenReader:
    """Return a reader of samples that tokfmt wrote, whose attributes state their positions in the stream."""
    opens = _opens(opening, own)
    ends = [one.stream_tokens - one.first_token for one in own]
    pieces = chained(rows.starts, rows.width, rows.width + (own[0].stride == "disjoint"), ends, opens)
    separator = opening.separator(own[0])
    masked = any(one.first_mask is not None for one in own)
    info = opening.info(
        Layout.STREAM,
        separator,
        variant="samples",
        stride=own[0].stride,
        mask="loss",
        loss_masks="loss masks of its samples" if masked else "",
    )
    padding = len(rows) * rows.width - int((pieces.lengths - pieces.tail).sum())
    if masked:
        return _as_stream(MaskedRuns(rows, pieces, [one.first_mask for one in own], info=info, padding=padding))
    return _as_stream(Runs(rows, pieces, ignored=None, plain=True, info=info, padding=padding))


def _check_labels(opening: Opening, rows: Rows | SampledRows, scan: Scan) -> None:
    """Raise if labels are not shifted or all samples are empty; note unusual samples."""
    if scan.unshifted.count:
        path, local, offset = rows.place(scan.unshifted.first)
        raise UnsupportedError(
            path,
            f"the labels of {scan.unshifted.count:,} samples repeat input_ids instead of the next tokens "
            f"(first: sample {local:,})",
            offset=offset,
            remedy=AS_SAMPLES,
        )
    empty = int(np.count_nonzero(scan.valid == 0))
    if empty == len(rows) > 0:
        raise CorruptError(
            opening.place, f"all of its {empty:,} samples hold only padding", remedy="Copy or write it again"
        )
    if empty:
        opening.notes.append(f"{empty:,} samples hold only padding")
    if scan.masked_end.count:
        opening.notes.append(
            f"{scan.masked_end.count:,} samples have tokens after the last one that counts; they are kept"
        )


def _check_all_rows(opening: Opening, own: Sequence[WriterAttributes | None]) -> None:
    """Raise UnsupportedError if only some files state that their rows are sequences."""
    others = [stored.path.name for stored, one in zip(opening.files, own, strict=True) if not one or one.stride != ROWS]
    if others:
        raise UnsupportedError(
            opening.place,
            f"{others[0]} does not state that its rows are sequences, as other files do",
            expected="stride rows in the attributes of every file",
            remedy=f"Read them one by one; or {AS_SAMPLES}",
        )


def _stride(opening: Opening, rows: Rows | SampledRows, scan: Scan, groups: NDArray[np.int64], *, closed: bool) -> str:
    """Return the given stride, or the one that the samples show.

    Args:
        opening: The opened files.
        rows: The samples.
        scan: Scan of these samples.
        groups: int64[streams + 1], first samples of the streams.
        closed: The padded samples end with the separator. If nothing shows that samples continue each other, each then
            holds documents of its own.

    Raises:
        UnsupportedError: The samples show no stride, or they were shuffled.
    """
    asked = None if opening.options.stride == "auto" else opening.options.stride
    found = continuation(asked, None, lambda: judge(rows, scan, groups))
    if asked is not None:
        return asked
    if found.how == "shuffled" and "order" not in opening.hints.allow_loss:
        raise UnsupportedError(
            opening.place,
            f"its samples were shuffled ({found.why}), so documents cannot be restored",
            remedy="--allow-loss order reads the tokens of each sample as stored, --from-opt view=samples the rows",
        )
    if found.how == "shuffled":
        what = f"the order of {counted(len(rows), 'sample')}, from sample 0 on: each is read as stored"
        opening.lost.append(loss_in(opening.place, "order", what))
    if found.how in ("few", "mixed"):
        raise UnsupportedError(
            opening.place,
            f"its samples do not show how they continue each other ({found.why})",
            remedy=f"{_STRIDES}; {AS_SAMPLES}",
        )
    if found.how == ROWS and closed and not opening.hints.no_eos:
        why = f"{found.why}, and all padded samples end with the same ID"
        found = Continuation("per-document", why)
    opening.inferred.append(_worded_stride(found))
    return found.how


def _worded_stride(found: Continuation) -> str:
    """Return a sentence with the inferred stride and the option that overrides it."""
    if found.how == ROWS:
        joins = f"--from-opt stride={found.joins} joins them"
        return f"each sample is a sequence: nothing shows that samples continue each other ({found.why}); {joins}"
    return f"samples are {_WORDS[found.how]}: {found.why} (--from-opt stride=NAME overrides)"


_WORDS = {
    "overlap": "windows that overlap by one token",
    "disjoint": "windows that follow each other without overlap",
    "bos": "blocks after a BOS",
    "per-document": "separate documents",
    "shuffled": "overlapping windows in shuffled order",
}


def _ends_alike(scan: Scan, width: int) -> int | None:
    """Return the ID with which all padded samples end, if there are at least four; else None."""
    ends = scan.last[(scan.valid < width) & (scan.valid > 0)]
    if len(ends) < _ENDS_NEEDED or int(ends[0]) < 0 or not (ends == ends[0]).all():
        return None
    return int(ends[0])


def _note_ambiguous(
    opening: Opening, scan: Scan, groups: NDArray[np.int64], width: int, stride: str, eos_id: int | None
) -> None:
    """Note full windows of padded disjoint data, which may continue or may have lost a tail that was not written."""
    if stride != "disjoint" or bool((scan.valid == width).all()):
        return
    unsure = continued(scan, groups, width)
    if eos_id is not None:
        unsure &= scan.last != eos_id
    if unsure.any():
        opening.notes.append(
            f"{np.count_nonzero(unsure):,} full samples do not end with a separator and are joined with the next; "
            "some may be documents whose short tail the writer dropped, which look the same"
        )
