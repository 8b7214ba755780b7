"""State the problems of the headers of HDF5 files, and what the attributes of files that tokfmt wrote say.

Attributes of `data` in files that tokfmt wrote, all optional in every other file:

    stride         text     overlap, disjoint, corpus or rows
    eos_id         int      the separator; rows and an empty stream may have none
    pad_id         int      padding ID of the last sample
    first_token    int      position of the file's first token in the stream
    stream_tokens  int      tokens of the whole stream, with separators and without padding
    first_mask     int      1 if the file's first token counts, else 0; only if the mask is that of documents

They and the numbers in names show which files are missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tokfmt.core.findings import Problem, fatal, noted
from tokfmt.core.reader import INT32_MAX
from tokfmt.core.rows import ROWS
from tokfmt.errors import CorruptError, UnsupportedError
from tokfmt.formats.hdf5.files import Params
from tokfmt.formats.hdf5.stored import Hdf5File, WriterAttributes
from tokfmt.formats.hdf5_arrays.places import LARGEST_CHUNK

AS_SAMPLES = "--from-opt view=samples reads the rows as they are"
PARTS = "these files are only some of those that were written; documents are cut where a file is missing"

# Writers number these files without a gap. The upstream writer of output_chunk_<rank>_<n> leaves numbers out.
_NUMBERED = re.compile(r"(examples_|data-|dataset-partition-)(\d+)((?:_\d+)?)\.h5", re.ASCII)


def gaps_in_streams(files: Sequence[Hdf5File], stated: Sequence[object]) -> Iterator[str]:
    """Yield a sentence for each interval of tokens of a stream by tokfmt that no file holds. `stated` is what the
    attributes of each file state; see `stated_by`.
    """
    streams: dict[WriterAttributes, list[tuple[int, int, Hdf5File]]] = {}
    for stored, own in zip(files, stated, strict=True):
        if isinstance(own, WriterAttributes):
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


def gaps_in_names(files: Sequence[Hdf5File]) -> Iterator[str]:
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


def stated_by(stored: Hdf5File) -> WriterAttributes | CorruptError | None:
    """Return what the attributes of a file state, or why they are invalid; see `own_facts`."""
    try:
        return own_facts(stored)
    except CorruptError as error:
        return error


def own_facts(stored: Hdf5File) -> WriterAttributes | None:
    """Return the checked attributes that tokfmt wrote in a file; None if another writer made it."""
    facts = stored.facts
    rows = facts.get("stride") == ROWS
    needs_none = rows or facts.get("stream_tokens") == 0
    if not {"stride", "first_token", "stream_tokens", *(() if needs_none else ("eos_id",))} <= facts.keys():
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


def pad_id_of(stored: Hdf5File, params: Params) -> int | None:
    """Return the padding ID that the file's attributes or `data_params.json` state; None if neither does."""
    found = stored.facts.get("pad_id")
    return found if isinstance(found, int) and 0 <= found <= INT32_MAX else params.pad_id


def _step(stored: Hdf5File, stride: str) -> int:
    """Return the tokens of the stream from the start of one row to the start of the next."""
    return stored.table.shape[2] + (stride == "disjoint")


def tokens_in(stored: Hdf5File, own: WriterAttributes) -> int:
    """Return the number of tokens of the stream between the starts of a file and the next file."""
    return len(stored.table) * _step(stored, own.stride)


def goes_on(before: tuple[Hdf5File, WriterAttributes], after: WriterAttributes) -> bool:
    """Return True if a file begins at the position of the stream where the file before it ends."""
    stored, facts = before
    next_token = facts.first_token + tokens_in(stored, facts)
    same = (facts.stride, facts.eos_id, facts.stream_tokens) == (after.stride, after.eos_id, after.stream_tokens)
    return same and next_token == after.first_token


def _invalid_attribute(stored: Hdf5File, name: str, expected: str, found: object) -> CorruptError:
    return CorruptError(
        stored.path,
        f"the attribute {name} of 'data' is invalid",
        expected=expected,
        found=found,
        remedy="Delete the attribute, or give --from-opt stride=overlap|disjoint",
    )


def examples_problem(stored: Hdf5File) -> Problem | None:
    """Return the problem of `n_examples` in a sample file, None if it is right; a wrong number is an error."""
    count, rows, path = stored.n_examples, len(stored.table), stored.path
    if isinstance(count, int):
        what, remedy = "n_examples is not the number of samples", f"Set the attribute n_examples to {rows:,} if all "
        wrong = CorruptError(path, what, expected=rows, found=count, remedy=f"{remedy}samples are complete")
        return None if count == rows else fatal("TF308", wrong)
    what = f"n_examples is {'missing' if count is None else 'not a whole number'}; iterable trainers refuse the file"
    return noted("TF308", CorruptError(path, what, remedy=f"Set it to {rows}"), f"{path.name}: {what}")


def misfit(stored: Hdf5File, first: Hdf5File) -> Problem | None:
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


def _worded(stored: Hdf5File) -> str:
    kind = stored.foreign or ("a corpus" if stored.rank == 1 else "samples")
    return f"{kind} [{', '.join(['n', *map(str, stored.shape[1:])])}]"


def other_type(stored: Hdf5File, first: Hdf5File) -> Problem:
    """Return the problem of a file whose IDs have another type than those of the first file."""
    what = f"IDs are {stored.table.layout.dtype.str}, but {first.table.layout.dtype.str} in {first.path.name}"
    return Problem("TF312", "error", CorruptError(stored.path, what, remedy="Map-style trainers refuse the directory"))


def size_problems(stored: Hdf5File) -> Iterator[Problem]:
    """Yield a problem if there are no samples, if they hold no tokens, or if they are too large to read."""
    _, fields, width = stored.table.shape
    size_bytes = fields * width * stored.table.dtype.itemsize
    if not all(stored.shape) and not stored.foreign:
        error = UnsupportedError(stored.path, f"holds no tokens: its shape is {list(stored.shape)}")
        yield Problem("TF309", "error" if not size_bytes else "warning", error, is_fatal=not size_bytes)
    if size_bytes > LARGEST_CHUNK:
        what, most = "a sample has an unusual size", f"1 to {LARGEST_CHUNK:,} bytes"
        yield fatal("TF306", UnsupportedError(stored.path, what, expected=most, found=size_bytes))
