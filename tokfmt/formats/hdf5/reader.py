"""Open HDF5 datasets: their files in order, what is known of them, which kind they are, and the reader that fits.

    name                                     stream          order in it
    examples_<n>_<rank>.h5                   of each rank    n
    output_chunk_<rank>_<n>[_<node>].h5      of each rank    n, as a number
    output_chunk_<rank>_prefix.h5            its own         -          (left-over tails, after the others)
    anything with numbers                    of each pattern the numbers, from left to right

Trainers sort names as text (-1, -10, -11, -2): `order=trainer` reads in that order; a document then goes on only
between files that follow each other in the writer's order as well.
Files that are missing show by the attributes of the others and by the numbers in their names.

Attributes of `data` in files that tokfmt wrote, all optional in every other file:

    stride         text     overlap, disjoint, corpus or rows
    eos_id         int      the separator; rows may have none
    pad_id         int      what fills up the last sample
    first_token    int      position of the file's first token in the stream
    stream_tokens  int      tokens of the whole stream, separators included, padding not
    first_mask     int      0 or 1, where the mask is that of documents: whether the file's first token counts
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core import listing
from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsupportedError
from tokfmt.core.files import names_in, open_file
from tokfmt.core.findings import Problem, fatal, noted, raise_fatal
from tokfmt.core.format import Hints
from tokfmt.core.messages import Option, allowing, from_option
from tokfmt.core.reader import INT32_MAX, Damage, Info, Layout, Separators, TokenReader, windows
from tokfmt.core.rows import ROWS, Continuation, continuation
from tokfmt.formats.hdf5.beginning import FIRST, LONG, Some, looked_at, row_bytes
from tokfmt.formats.hdf5.container import Stored, WriterAttributes, open_stored
from tokfmt.formats.hdf5.options import PARAMS, Order, ReadOptions
from tokfmt.formats.hdf5.partial import open_first
from tokfmt.formats.hdf5.samples import (
    Corpus,
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
from tokfmt.views.select import Leading
from tokfmt.views.view import Beginning, View

_EXAMPLES = re.compile(r"examples_(\d+)_(\d+)\.h5", re.ASCII)
_CHUNK = re.compile(r"output_chunk_(\d+)_(\d+)(?:_(\d+))?\.h5", re.ASCII)
_PREFIX = re.compile(r"output_chunk_(\d+)_prefix\.h5", re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)

Key = tuple[tuple[object, ...], tuple[int, ...]]


def files_in(paths: Sequence[Path]) -> list[Path]:
    """The `*.h5` files of a directory (its top level only), or the files given.

    Raises:
        FormatError: The directory holds none.
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
            remedy="Name the files one by one, or rename them: trainers look for *.h5 only" if others else None,
        )
    return found


def arrange(files: Sequence[Path], order: Order) -> list[list[Path]]:
    """Files as streams: each a run of files through which documents may go on."""
    keys = {path: _key(path) for path in files}
    seen: dict[Path, int] = {}
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
    streams: list[list[Path]] = []
    for path in chosen:
        if streams and follows.get(path) == streams[-1][-1]:
            streams[-1].append(path)
        else:
            streams.append([path])
    return streams


def _stream(path: Path, keys: dict[Path, Key]) -> tuple[object, ...]:
    return path.parent, *keys[path][0]


def _key(path: Path) -> Key:
    """What names the stream of a file, sortable among files of one directory; and its place in the stream."""
    if match := _EXAMPLES.fullmatch(path.name):
        return (0, "examples", int(match[2]), 0), (int(match[1]),)
    if match := _CHUNK.fullmatch(path.name):
        return (0, "output_chunk", int(match[3] or 0), int(match[1])), (int(match[2]),)
    if match := _PREFIX.fullmatch(path.name):
        return (1, "output_chunk", 0, int(match[1])), ()
    return (0, _NUMBER.sub("#", path.name), 0, 0), tuple(int(n) for n in _NUMBER.findall(path.name))


# writers that number their files without a gap; upstream's output_chunk_<rank>_<n> leaves numbers out as it likes
_NUMBERED = re.compile(r"(examples_|data-|dataset-partition-)(\d+)((?:_\d+)?)\.h5", re.ASCII)
_REMEDY = f"Find the missing file; {from_option('gaps', 'accept')} reads what is there, and cuts documents at the gap"
_NOTE = "these files are only a part of what was written; documents are cut where others are missing"


def gaps(place: Path, files: Sequence[Stored], *, accepted: bool) -> Iterator[Problem]:
    """What is missing of a dataset. Of a directory that is fatal; files that were named one by one are meant so.

    Args:
        place: The directory, or the first file named.
        files: Opened, in any order.
        accepted: The user said that gaps are accepted.
    """
    refused = listing.is_dir(place) and not accepted
    for what in dict.fromkeys((*_in_streams(files), *(_in_names(files) if listing.is_dir(place) else ()))):
        error = CorruptError(place, what, remedy=_REMEDY)
        yield Problem("TF344", "error" if refused else "warning", error, refused, _NOTE)
        return


def _in_streams(files: Sequence[Stored]) -> Iterator[str]:
    """Tokens of the streams that tokfmt wrote which are in no file."""
    streams: dict[WriterAttributes, list[tuple[int, int, Stored]]] = {}
    for stored in files:
        try:
            own = own_facts(stored)
        except CorruptError:  # is raised, or noted, where the attributes are needed
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
            yield f"{_tokens(reached, stream.stream_tokens, stream)} are in no file: what follows {before} is missing"


def _tokens(first: int, last: int, stream: WriterAttributes) -> str:
    return f"tokens {first:,} to {last - 1:,} of its {stream.stream_tokens:,}"


def _between(before: str, after: str) -> str:
    return f"what lies between {before} and {after} is missing" if before else f"what lies before {after} is missing"


def _in_names(files: Sequence[Stored]) -> Iterator[str]:
    """Numbers that the names of files leave out."""
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
    """The attributes of a file, None when it is not tokfmt's.

    Raises:
        CorruptError: They are there but cannot be true.
    """
    facts = stored.facts
    rows = facts.get("stride") == ROWS
    if not {"stride", "first_token", "stream_tokens", *(() if rows else ("eos_id",))} <= facts.keys():
        return None
    if facts["stride"] not in (("corpus",) if stored.rank == 1 else ("overlap", "disjoint", ROWS)):
        expected = "corpus" if stored.rank == 1 else f"overlap, disjoint or {ROWS}"
        raise _untrue(stored, "stride", expected, facts["stride"])
    largest = INT32_MAX if stored.rank == 3 else 2**32 - 1
    numbers: dict[str, int] = {}
    limits = {"eos_id": largest, "first_token": 1 << 62, "stream_tokens": 1 << 62}
    for name, limit in ((name, limit) for name, limit in limits.items() if name in facts):
        value = facts[name]
        if not isinstance(value, int) or not 0 <= value <= limit:
            raise _untrue(stored, name, f"0..{limit:,}", value)
        numbers[name] = value
    step = _step(stored, str(facts["stride"]))
    count, left = len(stored.table), numbers["stream_tokens"] - numbers["first_token"]
    least = count * step if rows else count if stored.rank == 1 else (count - 1) * step + 2
    if count and left < least:
        raise _untrue(stored, "stream_tokens", f"enough tokens for {count:,} rows", numbers["stream_tokens"])
    mask = facts.get("first_mask")
    if mask is not None and not (isinstance(mask, int) and mask in (0, 1) and facts["stride"] == "overlap"):
        raise _untrue(stored, "first_mask", "0 or 1, of samples that overlap", mask)
    first_mask = None if mask is None else int(mask)
    first, total = numbers["first_token"], numbers["stream_tokens"]
    return WriterAttributes(str(facts["stride"]), numbers.get("eos_id"), None, first, total, first_mask)


def pad_id_of(stored: Stored, params: Params) -> int | None:
    """What fills up samples, as far as the file's attributes or `data_params.json` say."""
    found = stored.facts.get("pad_id")
    return found if isinstance(found, int) and 0 <= found <= INT32_MAX else params.pad_id


def _step(stored: Stored, stride: str) -> int:
    """Tokens of the stream from one row to the next."""
    return stored.table.shape[2] + (stride == "disjoint")


def tokens_in(stored: Stored, own: WriterAttributes) -> int:
    """Tokens of the stream from a file's first to that of the file after it."""
    return len(stored.table) * _step(stored, own.stride)


def goes_on(before: tuple[Stored, WriterAttributes], after: WriterAttributes) -> bool:
    """Whether a file begins where the one before it in the stream ends."""
    stored, facts = before
    next_token = facts.first_token + tokens_in(stored, facts)
    same = (facts.stride, facts.eos_id, facts.stream_tokens) == (after.stride, after.eos_id, after.stream_tokens)
    return same and next_token == after.first_token


def _untrue(stored: Stored, name: str, expected: str, found: object) -> CorruptError:
    return CorruptError(
        stored.path, f"the attribute {name} of 'data' cannot be true", expected=expected, found=found,
        remedy=f"Delete the attribute, or say {from_option('stride', 'overlap|disjoint')}",
    )  # fmt: skip


def examples_problem(stored: Stored) -> Problem | None:
    """What is wrong with `n_examples` of a sample file; another number than the rows that are there is fatal."""
    count, rows, path = stored.n_examples, len(stored.table), stored.path
    if isinstance(count, int):
        what, remedy = "n_examples is not the number of samples", f"Set the attribute n_examples to {rows:,} if all "
        wrong = CorruptError(path, what, expected=rows, found=count, remedy=f"{remedy}samples are good")
        return None if count == rows else fatal("TF308", wrong)
    what = f"n_examples is {'missing' if count is None else 'not a whole number'}; iterable trainers refuse the file"
    return noted("TF308", CorruptError(path, what, remedy=f"Set it to {rows}"), f"{path.name}: {what}")


def misfit(stored: Stored, first: Stored) -> Problem | None:
    """What keeps a file from being one dataset with the first one."""
    if (stored.rank, stored.shape[1:], stored.foreign) == (first.rank, first.shape[1:], first.foreign):
        return None
    error = CorruptError(
        stored.path, f"does not fit {first.path.name}", expected=_worded(first), found=_worded(stored),
        remedy="Files of one dataset have rows of one shape; read them one by one",
    )  # fmt: skip
    return fatal("TF311" if stored.rank == first.rank else "TF313", error)


def _worded(stored: Stored) -> str:
    kind = stored.foreign or ("a corpus" if stored.rank == 1 else "samples")
    return f"{kind} [{', '.join(['n', *map(str, stored.shape[1:])])}]"


@dataclass(frozen=True, slots=True)
class Params:
    """What `data_params.json` says; hints only.

    Attributes:
        eos_id, pad_id, vocab_size: Numbers, None when it does not say.
        note: What was wrong with it, "" when nothing was.
    """

    eos_id: int | None = None
    pad_id: int | None = None
    vocab_size: int | None = None
    note: str = ""


def params_beside(files: Sequence[Path]) -> Params:
    """The hints of `data_params.json`, when all files lie in one directory that has one."""
    homes = {path.parent for path in files}
    place = next(iter(homes)) / PARAMS
    if len(homes) != 1 or not listing.is_file(place):
        return Params()
    try:
        file = open_file(place)
        if file.size > _LARGEST_PARAMS:
            return Params(note=f"{PARAMS} is too large to be looked at ({file.size:,} bytes)")
        content = json.loads(file.read(0, file.size))
        file.close()
    except (ValueError, RecursionError, FormatError):
        return Params(note=f"{PARAMS} cannot be read and was left aside")
    return Params(_number_in(content, "eos_id"), _number_in(content, "pad_id"), _number_in(content, "vocab_size"))


def _number_in(content: Any, name: str) -> int | None:
    """A number from the section of either dialect that has it."""
    for section in ("processing", "post-process"):
        value = content.get(section, {}) if isinstance(content, dict) else {}
        value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32:
            return value
    return None


AS_SAMPLES = f"{from_option('view', 'samples')} reads the rows as they are"
_STRIDES = f"{from_option('stride', 'overlap|disjoint|bos|per-document')} says how they go on"
_ENDS_NEEDED = 4


@dataclass(frozen=True, slots=True)
class Opening:
    """All files of a dataset, opened, with what was asked for and found so far.

    Attributes:
        place: What was asked for, for messages.
        files: In reading order.
        groups: How many files each stream has.
        options, hints: As given.
        params: Of `data_params.json`.
        notes, inferred: As in `axis.Info`, growing.
        damage: As in `axis.Info`.
    """

    place: Path
    files: list[Stored]
    groups: list[int]
    options: ReadOptions
    hints: Hints
    params: Params
    notes: list[str]
    inferred: list[str]
    damage: tuple[Damage, ...] = ()

    def own(self) -> list[WriterAttributes | None]:
        """The attributes that tokfmt wrote in each file, unless the user knows better."""
        if self.options.stride != "auto":
            return [None] * len(self.files)
        found = [own_facts(stored) for stored in self.files]
        if self.options.mask == "auto":
            return found
        return [one if one is not None and one.stride == ROWS else None for one in found]

    def separator(self, own: WriterAttributes | None) -> tuple[int | None, str]:
        """The separator that is known before samples are looked at, and how."""
        if self.hints.no_eos:
            return None, ""
        if self.hints.eos_id is not None:
            return self.hints.eos_id, f"{Option('eos')} or manifest"
        if own is not None:
            return own.eos_id, "file attributes"
        if self.params.eos_id is not None:
            return self.params.eos_id, PARAMS
        return self.hints.tokenizer_eos, "tokenizer" if self.hints.tokenizer_eos is not None else ""

    def told(
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
        """What the reader has to tell, but for dtype and counts; documents of a stream lie between separators."""
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
            pad_id=pad_id,
            nonstandard_masks=masks.count,
            first_nonstandard=masks.first,
            loss_masks=loss_masks,
            segmented=segmented,
            extras=dict(files=len(self.files), **extras),
            damage=self.damage,
        )


def open_reader(paths: Sequence[Path], options: ReadOptions, hints: Hints) -> TokenReader:
    """The stored axis of a file, a directory, or several files.

    Raises:
        FormatError: They are not HDF5 datasets of one kind that can be read as asked.
    """
    opening = _opening(paths, options, hints)
    _check_alike(opening)
    found = list(gaps(opening.place, opening.files, accepted=options.gaps == "accept"))
    raise_fatal(found, hints.allow_loss)
    opening.notes.extend(problem.note for problem in found)
    first = opening.files[0]
    rows = Rows([stored.table for stored in opening.files], hints.jobs)
    if first.rank == 1:
        reader = _corpus(opening, rows)
        return _unclosed(opening, reader) if opening.damage else reader
    if options.view == "samples":
        return _as_they_lie(opening, rows)
    if first.foreign:
        raise UnsupportedError(opening.place, f"holds {first.foreign}, not GPT samples", remedy=AS_SAMPLES)
    reader = _packed(opening, rows) if rows.fields == 5 else _samples(opening, rows)
    return _unclosed(opening, reader) if opening.damage else reader


def _unclosed(opening: Opening, reader: TokenReader) -> TokenReader:
    """A stream that was cut, without the separator that is put after its last run: nothing there closes a document.

    Raises:
        TruncatedError: Nothing tells where its documents end.
    """
    if not isinstance(reader, Stream):
        what = f"nothing tells which document is the last that is whole: {opening.damage[0].what}"
        raise TruncatedError(
            opening.place, what, remedy=f"{Option('eos', 'ID')} does; {from_option('view', 'samples')} reads rows"
        )
    return Leading(reader, max(0, reader.info.tokens - 1))


def _as_they_lie(opening: Opening, rows: Rows) -> TokenReader:
    """The rows as sequences, with mask and labels where they are those of GPT samples."""
    foreign = opening.files[0].foreign
    if foreign:
        opening.notes.append(f"holds {foreign}; only the first field of each row is read")
        return Samples(rows, opening.told(Layout.SAMPLES, sample_length=rows.width, variant=foreign))
    variant, kind = ("vsl", PackedSamples) if rows.fields == 5 else ("samples", MaskedSamples)
    try:
        own = opening.own()
    except CorruptError:  # attributes that cannot be true say nothing of rows as they lie
        own = [None]
    pad_id = pad_id_of(opening.files[0], opening.params)
    told = opening.told(
        Layout.SAMPLES, opening.separator(own[0]), sample_length=rows.width, variant=variant, pad_id=pad_id,
        loss_masks="loss masks and labels of its samples", segmented=rows.fields == 5,
    )  # fmt: skip
    known = "loss" if all(own) or rows.fields == 5 else "auto"
    if own[0] is not None and own[0].stride == ROWS:
        told = replace(told, extras={**told.extras, "stride": ROWS})
    return kind(rows, told, known if opening.options.mask == "auto" else opening.options.mask)


def _opening(paths: Sequence[Path], options: ReadOptions, hints: Hints) -> Opening:
    files = files_in(paths)
    streams = arrange(files, options.order)
    arranged = [path for stream in streams for path in stream]
    inferred = []
    if len(paths) > 1 and arranged != files:
        inferred.append(f"files are read in the order of their numbers ({from_option('order', 'given')} keeps yours)")
    params = params_beside(arranged)
    notes = [params.note] if params.note else []
    if hints.partial and len(streams) == 1:
        opened, damage = open_first(arranged)
        return Opening(paths[0], opened, [len(opened)], options, hints, params, notes, inferred, tuple(damage))
    opened = [open_stored(path, few=hints.few) for path in arranged]
    return Opening(paths[0], opened, [len(s) for s in streams], options, hints, params, notes, inferred)


def _check_alike(opening: Opening) -> None:
    """Files agree with each other, and sample files with their own attributes."""
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
        opening.notes.append(f"files hold ids of different types ({', '.join(kinds)}); map-style trainers refuse that")


def _split_later(runs: Runs | Corpus) -> TokenReader:
    """Runs as the stored axis: one stream when the separator is known, else runs that only it could split."""
    info = runs.info
    return Stream(runs, info.eos_id) if info.separators is Separators.BETWEEN and info.eos_id is not None else runs


def _corpus(opening: Opening, rows: Rows) -> TokenReader:
    if opening.options.view == "samples":
        raise UnsupportedError(
            opening.place,
            "holds a corpus, one array of tokens without samples",
            remedy=f"It has documents only: leave view=samples (or {Option('samples')}) away",
        )
    own = opening.own()
    told = opening.told(Layout.STREAM, opening.separator(own[0]), variant="corpus")
    return _split_later(Corpus(rows, np.asarray(_opens(opening, own), np.bool_), told))


def _opens(opening: Opening, own: Sequence[WriterAttributes | None]) -> list[bool]:
    """Of each file, whether a stream begins with it; the attributes say when it goes on."""
    opens = [True] * len(own)
    for k in range(1, len(own)):
        before, after = own[k - 1], own[k]
        if before is not None and after is not None:
            opens[k] = not goes_on((opening.files[k - 1], before), after)
    return opens


def _packed(opening: Opening, rows: Rows) -> TokenReader:
    """Packed sequences: every segment is a sequence, as stored, without a separator at its end."""
    segments = scan_segments(rows)
    separator = opening.separator(None)
    if separator[0] is None and not opening.hints.no_eos:
        opening.notes.append(
            f"no separator known; segments are kept as stored ({Option('eos', 'ID')} strips it from their ends)"
        )
    rule = "shifted over the whole pack" if segments.whole_pack else "shifted inside each segment"
    told = opening.told(Layout.DOCUMENTS, separator, odd=segments.odd, variant="vsl", labels=rule)
    ignored = separator[0] if separator[0] is not None else opening.params.pad_id
    padding = len(rows) * rows.width - int(segments.inputs.sum())
    return Runs(rows, pieces_of(segments, separator[0]), ignored=ignored, plain=False, told=told, padding=padding)


def _samples(opening: Opening, rows: Rows) -> TokenReader:
    """Samples of three fields, as the streams they were cut from."""
    own = opening.own()
    known = [one for one in own if one is not None]
    stated = {one.stride for one in known}
    if ROWS in stated:
        _check_all_rows(opening, own)
        return _as_they_lie(opening, rows)
    if len(known) == len(own):
        return _own_samples(opening, rows, known)
    groups = rows.starts[np.concatenate(([0], np.cumsum(opening.groups)))]
    if opening.hints.few and opening.hints.most is not None and len(rows) * row_bytes(rows) > LONG:
        first = _first_samples(copy.deepcopy(opening), rows, groups, opening.hints.most)
        if first is not None:
            return first
    scan, inverted = scan_samples(rows, opening.options.mask)
    shown = _shown(opening, rows, scan, groups, inverted=inverted)
    return _joined(opening, rows, scan, groups, shown)


@dataclass(frozen=True, slots=True)
class Shown:
    """What samples show of themselves.

    Attributes:
        inverted: 1 in the mask row means padding.
        stride: How they continue each other, a word of `streams`.
        separator: And how it is known.
    """

    inverted: bool
    stride: str
    separator: tuple[int | None, str]


def _shown(opening: Opening, rows: Rows | Some, scan: Scan, groups: NDArray[np.int64], *, inverted: bool) -> Shown:
    """What samples show, of which a scan was made.

    Raises:
        UnsupportedError: They do not show how they continue each other, or that their order was lost.
        CorruptError: They hold nothing.
    """
    if inverted and opening.options.mask == "auto":
        opening.inferred.append(
            f"1 in the mask row means padding: inverted_mask ({from_option('mask', 'loss')} overrides)"
        )
    _check_labels(opening, rows, scan)
    stride = _stride(opening, rows, scan, groups)
    separator = opening.separator(None)
    if separator[0] is None and not opening.hints.no_eos:
        separator = _ends_alike(opening, scan, rows.width)
    return Shown(inverted, stride, separator)


def _first_samples(opening: Opening, rows: Rows, groups: NDArray[np.int64], most: int) -> TokenReader | None:
    """So many of the first samples of a long dataset as hold its first sequences; None if that is half of them.

    What they are is shown by samples from all over; what only all samples tell (how many sequences there are, which
    masks are not plain) is not known.
    """
    some, inner = looked_at(rows, groups)
    scan, inverted = scan_samples(some, opening.options.mask)
    noted = len(opening.notes)
    shown = _shown(opening, some, scan, inner, inverted=inverted)
    del opening.notes[noted:]  # they count samples
    if opening.options.stride == "auto":
        what = f"{len(some):,} of {len(rows):,} samples were looked at to infer that; tokfmt check looks at all of them"
        opening.inferred.append(what)
    count = max(8, FIRST // row_bytes(rows))
    while 2 * count < len(rows):
        first, beginning = rows.beginning(count), replace(opening, notes=list(opening.notes))
        scan, _ = scan_samples(first, "inverted" if inverted else "loss")
        reader = _joined(beginning, first, scan, np.minimum(groups, len(first)), shown)
        eos_id, found = reader.info.eos_id, reader.info.sequences - 1
        if reader.info.separators is Separators.BETWEEN and eos_id is not None:
            reader = _unclosed(opening, reader)
            found = sum(int(np.count_nonzero(reader.tokens(a, b) == eos_id)) for a, b in windows(0, reader.info.tokens))
        whole = found >= most and not (eos_id is not None and Beginning(reader, eos_id, most).whole)
        if whole or (reader.info.separators is Separators.BETWEEN and eos_id is None):
            return View(reader, replace(reader.info, beginning=True, nonstandard_masks=None, first_nonstandard=-1))
        count = max(2 * count, int(1.2 * count * most / max(1, found)))
    return None


def _joined(opening: Opening, rows: Rows, scan: Scan, groups: NDArray[np.int64], shown: Shown) -> TokenReader:
    """The streams, or samples, of which a scan was made."""
    stride, separator = shown.stride, shown.separator
    if stride == "overlap":
        groups = _across_directories(opening, scan, groups, rows.width, separator[0])
    apart = stride in ("shuffled", ROWS)
    joined = join(scan, groups, rows.width, "per-document" if apart else stride)
    if joined.broken:
        opening.notes.append(f"{joined.broken:,} samples do not go on in the next one; the stream is cut there")
    _note_ambiguous(opening, scan, groups, rows.width, stride, separator[0])
    told = opening.told(
        Layout.SAMPLES if apart else Layout.STREAM,
        (None, "") if stride == "shuffled" else separator,
        odd=scan.odd,
        sample_length=rows.width + 1 if apart and bool((scan.valid == rows.width).all()) else None,
        variant="samples",
        stride=stride,
        mask="inverted" if shown.inverted else "loss",
    )
    ignored = separator[0] if separator[0] is not None else opening.params.pad_id
    padding = len(rows) * rows.width - int(scan.valid.sum())
    return _split_later(Runs(rows, joined.pieces, ignored=ignored, plain=False, told=told, padding=padding))


def _across_directories(
    opening: Opening, scan: Scan, groups: NDArray[np.int64], width: int, eos_id: int | None
) -> NDArray[np.int64]:
    """The streams, joined where one goes on in the next directory: there they share a token, as samples that overlap.

    Raises:
        UnsupportedError: Two share one, and their names do not go on: that may be chance.
    """
    kept, at = [0], 0
    for number, row in enumerate(groups[1:-1].tolist(), 1):
        at += opening.groups[number - 1]
        before, after = opening.files[at - 1].path, opening.files[at].path
        inside = before.parent != after.parent and 0 < row < len(scan.valid)
        linked = inside and scan.valid[row - 1] == width and scan.valid[row] and scan.last[row - 1] == scan.first[row]
        if not linked or int(scan.first[row]) == eos_id:  # which ends a document either way
            kept.append(number)
        elif opening.options.order == "given" or _names_go_on(before, after):
            opening.inferred.append(f"the samples of {before.parent} go on in {after.parent}: they share a token")
        else:
            raise torn(before, after)
    return groups[[*kept, len(groups) - 1]]


def _names_go_on(before: Path, after: Path) -> bool:
    (stream, place), (other, later) = _key(before), _key(after)
    return stream == other and place < later


def _own_samples(opening: Opening, rows: Rows, own: list[WriterAttributes]) -> TokenReader:
    """Samples that tokfmt wrote: their attributes say where each lies in the stream."""
    opens = _opens(opening, own)
    ends = [one.stream_tokens - one.first_token for one in own]
    pieces = chained(rows.starts, rows.width, rows.width + (own[0].stride == "disjoint"), ends, opens)
    separator = opening.separator(own[0])
    masked = any(one.first_mask is not None for one in own)
    told = opening.told(
        Layout.STREAM, separator, variant="samples", stride=own[0].stride, mask="loss",
        loss_masks="loss masks of its samples" if masked else "",
    )  # fmt: skip
    padding = len(rows) * rows.width - int((pieces.lengths - pieces.tail).sum())
    if masked:
        return _split_later(MaskedRuns(rows, pieces, [one.first_mask for one in own], told=told, padding=padding))
    return _split_later(Runs(rows, pieces, ignored=None, plain=True, told=told, padding=padding))


def _check_labels(opening: Opening, rows: Rows | Some, scan: Scan) -> None:
    if scan.unshifted.count:
        path, local, offset = rows.place(scan.unshifted.first)
        raise UnsupportedError(
            path, f"the labels of {scan.unshifted.count:,} samples repeat input_ids instead of the next tokens "
            f"(first: sample {local:,})", offset=offset, remedy=AS_SAMPLES,
        )  # fmt: skip
    empty = int(np.count_nonzero(scan.valid == 0))
    if empty == len(rows) > 0:
        raise CorruptError(
            opening.place, f"none of its {empty:,} samples holds anything but padding", remedy="Copy or write it again"
        )
    if empty:
        opening.notes.append(f"{empty:,} samples hold nothing but padding")
    if scan.masked_end.count:
        opening.notes.append(
            f"{scan.masked_end.count:,} samples have tokens after the last one that counts; they are kept"
        )


def _check_all_rows(opening: Opening, own: Sequence[WriterAttributes | None]) -> None:
    """Refuse files of which some state that their rows are the sequences, and others do not."""
    others = [stored.path.name for stored, one in zip(opening.files, own, strict=True) if not one or one.stride != ROWS]
    if others:
        raise UnsupportedError(
            opening.place, f"{others[0]} does not state what its samples are, as other files do",
            expected="stride rows in the attributes of every file", remedy=f"Read them one by one; or {AS_SAMPLES}",
        )  # fmt: skip


def _stride(opening: Opening, rows: Rows | Some, scan: Scan, groups: NDArray[np.int64]) -> str:
    """The stride that is asked for, or that the samples show.

    Raises:
        UnsupportedError: They do not show one, or they show that their order was lost.
    """
    asked = None if opening.options.stride == "auto" else opening.options.stride
    found = continuation(asked, None, lambda: judge(rows, scan, groups))
    if asked is not None:
        return asked
    if found.how == "shuffled" and "order" not in opening.hints.allow_loss:
        raise UnsupportedError(
            opening.place,
            f"its samples were shuffled ({found.why}), so documents cannot be put together again",
            remedy=f"{allowing('order')} reads each sample's tokens as they lie, "
            f"{from_option('view', 'samples')} the rows",
        )
    if found.how in ("few", "mixed"):
        raise UnsupportedError(
            opening.place, f"cannot tell how its samples go on ({found.why})", remedy=f"{_STRIDES}; {AS_SAMPLES}"
        )
    opening.inferred.append(_worded_stride(found))
    return found.how


def _worded_stride(found: Continuation) -> str:
    """What was inferred, and the option that overrides it."""
    if found.how == ROWS:
        joins = f"{from_option('stride', found.joins)} joins them"
        return f"each sample is a sequence: nothing shows that samples continue each other ({found.why}); {joins}"
    return f"samples are {_WORDS[found.how]}: {found.why} ({from_option('stride')} overrides)"


_WORDS = {
    "overlap": "windows that overlap by one token",
    "disjoint": "windows side by side",
    "bos": "blocks behind a BOS",
    "per-document": "documents of their own",
    "shuffled": "overlapping windows in shuffled order",
}


def _ends_alike(opening: Opening, scan: Scan, width: int) -> tuple[int | None, str]:
    """The id with which all padded samples end, if there are enough of them."""
    ends = scan.last[(scan.valid < width) & (scan.valid > 0)]
    if len(ends) < _ENDS_NEEDED or int(ends[0]) < 0 or not (ends == ends[0]).all():
        return None, ""
    opening.inferred.append(
        f"separator {int(ends[0])}: all {len(ends):,} padded samples end with it ({Option('eos')} overrides)"
    )
    return int(ends[0]), "every padded sample ends with it"


def _note_ambiguous(
    opening: Opening, scan: Scan, groups: NDArray[np.int64], width: int, stride: str, eos_id: int | None
) -> None:
    """Full windows in padded disjoint data may go on, or may have lost a short tail that was never written."""
    if stride != "disjoint" or bool((scan.valid == width).all()):
        return
    unsure = continued(scan, groups, width)
    if eos_id is not None:
        unsure &= scan.last != eos_id
    if unsure.any():
        opening.notes.append(
            f"{np.count_nonzero(unsure):,} full samples do not end with a separator and are joined with the next; "
            "a document whose short tail its writer dropped cannot be told from one that goes on"
        )
