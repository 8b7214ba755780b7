"""The files of a dataset of JSON lines: their lines, or those that indexes list, and where records are.

The first lines show what records hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from tokfmt.core.chats import COMPLETION, PROMPT, TOOLS, Pairs, are_messages, field_of_chats, pairs_of
from tokfmt.core.field_path import shown_path, value_at
from tokfmt.core.loss_mask import ALL, ATTENTION, COUNTING, LABELS, LOSS_MASK, MASKS, STARTS
from tokfmt.core.reader import ByteOffset
from tokfmt.core.records import Line
from tokfmt.errors import TokfmtError
from tokfmt.formats.jsonl.index import RawIndex, misplaced
from tokfmt.formats.jsonl.lines import Lines, Positions, TextFile, border, line_number, walk
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.formats.jsonl.parse import Document, Fault, Kind, Parser, dotted, line_error, load
from tokfmt.model.rows import (
    ALL_POSITIONS,
    DIVIDING,
    SECOND,
    TARGET_SEGMENTS,
    TARGETS,
    Reading,
    are_pairs,
    may_divide,
    states_loss,
)

Numbering = Callable[[], Callable[[Lines], Sequence[int]]]
"""Returns a function of lines that returns the index of the line of each record. A line of no record has none, and a
line of several documents has one for each."""
Read = Callable[[int, int | None], Iterator[Lines]]
"""Yields the lines between two byte offsets that begin lines, about 256 KiB at a time."""


class Table(NamedTuple):
    """The numbers of the lines in the pieces of a file: 16 bytes for each 256 KiB of text."""

    # int64[pieces + 1], the byte offset of each piece of whole lines, and the end of the last
    offsets: Positions = np.zeros(1, np.int64)
    # int64[pieces + 1], the number of the first line of each piece, and the number of all lines
    firsts: Positions = np.zeros(1, np.int64)
    is_whole: bool = False  # true if the pieces are all of the file, not only its beginning


class Numbered:
    """The lines of a file by number, or some of them. The table of their numbers grows as far as it is asked for.

    Args:
        numbering: Numbers the lines; None: each has one number.
    """

    def __init__(self, text: TextFile, read: Read, numbering: Numbering | None = None) -> None:
        self.text, self._read, self._numbering = text, read, numbering
        self._table = Table()

    def table(self, limit: int | None = None) -> Table:
        """Count the lines of the file; with `limit`, stop when so many are known."""
        table = self._table
        if table.is_whole or (limit is not None and table.firsts[-1] >= limit):
            return table
        if self.text.compression is not None:  # Counting starts over: the text can only be read from its start.
            table = Table()
        offsets, firsts, is_whole = list[int](), list[int](), False
        count = int(table.firsts[-1])
        try:
            for lines, numbered in self._pieces(int(table.offsets[-1]), None):
                offsets.append(lines.offset + len(lines.data))
                firsts.append(count := count + len(numbered))
                if limit is not None and count >= limit:
                    is_whole = self.text.compression is None and offsets[-1] >= self.text.size
                    break
            else:
                is_whole = True
        finally:  # The lines before damage are known.
            self._table = Table(
                np.append(table.offsets, np.asarray(offsets, np.int64)),
                np.append(table.firsts, np.asarray(firsts, np.int64)),
                is_whole,
            )
        return self._table

    @property
    def known(self) -> int:
        """The number of lines that are known."""
        return int(self._table.firsts[-1])

    def count(self, limit: int | None = None) -> int:
        """Return the number of lines; with `limit`, counting may stop at `limit` lines or more."""
        return int(self.table(limit).firsts[-1])

    def _pieces(self, start: int, stop: int | None) -> Iterator[tuple[Lines, Sequence[int]]]:
        """Yield the lines between two byte offsets, and the index of the line of each number."""
        number = None if self._numbering is None else self._numbering()
        for lines in self._read(start, stop):
            yield lines, range(len(lines)) if number is None else number(lines)

    def pieces(self, first: int, last: int) -> Iterator[tuple[int, Lines, Sequence[int]]]:
        """Yield the pieces of lines `first <= i < last`: the first number, the lines, the indexes of those numbered."""
        start, number = 0, 0
        if self.text.compression is None:
            table = self.table(last)
            piece = int(np.searchsorted(table.firsts, first, side="right")) - 1
            start, number = int(table.offsets[piece]), int(table.firsts[piece])
        for lines, numbered in self._pieces(start, None) if first < last else ():
            if number + len(numbered) > first:
                yield number, lines, numbered
            number += len(numbered)
            if number >= last:
                return

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the byte offsets of a line, before a byte order mark, and of the next line."""
        for first, lines, numbered in self.pieces(number, number + 1):
            return lines.bounds(numbered[number - first])
        raise IndexError(f"record {number}")

    def at(self, offset: int, limit: int | None = None) -> int | None:
        """Return the number of the line that holds the byte at `offset` of a plain file; None without one.

        With `limit`, only so many lines are counted, of which it is one.
        """
        table = self.table(limit)
        piece = int(np.searchsorted(table.offsets, offset, side="right")) - 1
        number = int(table.firsts[piece])
        for lines, numbered in self._pieces(int(table.offsets[piece]), int(table.offsets[piece + 1])):
            if offset < lines.offset + len(lines.data):
                index = lines.at(offset)
                return number + numbered.index(index) if index is not None and index in numbered else None
            number += len(numbered)
        return None


class Part:
    """One file of a dataset: its lines, or those that its index lists, and the byte offsets of its records.

    Args:
        index: Its index, which was compared with it; None without one.
        numbering: Tells the records in lines; None if every line is a record.
    """

    def __init__(self, text: TextFile, index: RawIndex | None, longest: int, numbering: Numbering | None) -> None:
        self.text, self.index, self._longest = text, index, longest
        self._record_index = index if numbering is None else None  # Each of its entries is a record.
        self._numbered = Numbered(text, self.lines, numbering)

    def lines(self, start: int = 0, stop: int | None = None) -> Iterator[Lines]:
        """Yield the lines between two byte offsets, about 256 KiB at a time.

        Both offsets are starts of lines. With an index, only the lines that it lists are yielded; else all that are not
        blank.
        """
        for lines in walk(self.text, start, stop, self._longest):
            yield lines.without_blank() if self.index is None else self.index.documents(lines)

    def records(self, limit: int | None = None) -> int:
        """Return the number of records: without reading the text if an index lists them and no line may be left out.

        With `limit`, counting may stop at `limit` records or more.
        """
        index = self._record_index
        return self._numbered.count(limit) if index is None else len(index.offsets)

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the byte offsets of record `first`, and of the line after record `last - 1`, in a plain file."""
        index = self._record_index
        if index is None:
            begin, end = self._numbered.bounds(first)
            return begin, end if last - first == 1 else self._numbered.bounds(last - 1)[1]
        entries = index.offsets
        begins = [int(entries[entry]) for entry in (first, last) if entry < len(entries)]
        for entry, offset in zip((first, last), begins, strict=False):
            if error := misplaced(index.path, self.text, entry, offset):
                raise error
        return begins[0], begins[1] if last < len(entries) else self.text.size

    def byte_offset(self, record: int) -> ByteOffset:
        """Return the byte offset of the line of a record, and its length without line end."""
        text = self.text
        if text.compression is not None:
            return ByteOffset(text.path, 0, None, f"record {record:,} of the decompressed text")
        start, _ = self.span(record, record + 1)
        stop = border(text, start + 1, self._longest)
        tail = text.file.read(max(start, stop - 2), stop - max(start, stop - 2))
        return ByteOffset(text.path, start, stop - start - (len(tail) - len(tail.rstrip(b"\r\n"))))

    def line(self, record: int) -> Line:
        """Return the number of the line of a record. Reads the text before it."""
        text, decompressed = self.text, self.text.compression is not None
        start, _ = self._numbered.bounds(record) if decompressed else self.span(record, record + 1)
        return Line(text.path, line_number(text, start), start, decompressed)

    def record_at(self, offset: int, limit: int | None = None) -> int | None:
        """Return the record whose line holds the byte at `offset`; None without one, or if the file is compressed.

        With `limit`, only so many records are counted, of which it is one.
        """
        if self.text.compression is not None or not 0 <= offset < self.text.size:
            return None
        index = self._record_index
        if index is None:
            return self._numbered.at(offset, limit)
        record = int(np.searchsorted(index.offsets, offset, side="right")) - 1
        beyond = record < 0 or offset >= border(self.text, int(index.offsets[record]) + 1, self._longest)
        return None if beyond else record


_USUAL: Mapping[Kind, str] = {"text": "text", "ids": "input_ids"}
_BOTH = 'records have both "{1}" and "{0}": read as IDs; --from-opt kind=text reads "{0}"'


class First(NamedTuple):
    """What the first record of a dataset shows."""

    kind: Kind  # Content of the records: "text" or "ids"
    keys: tuple[str, ...]  # the keys that lead to the text or the IDs
    inferred: tuple[str, ...] = ()  # what was inferred
    columns: tuple[str, ...] = ()  # the columns that are read beside the IDs, wherever records have them
    announced: tuple[str, ...] = ()  # Those that the first record has, or that an option names
    passed: tuple[str, ...] = ()  # Labels and masks that an option leaves out, and positions that are lists of lists
    has_unread_mask: bool = False  # It has a loss mask, and no option states which IDs it speaks of
    chats: bool = False  # its text is a list of messages, or a prompt with its completion
    pairs: Pairs = ""  # what its prompt and its completion are
    fields: tuple[str, ...] = ()  # the names of its fields
    are_completions: bool = False  # its `targets` are no labels; see `model.rows.are_pairs`

    @property
    def masks(self) -> tuple[str, ...]:
        """The fields that state which IDs count in the loss."""
        how = Reading(pairs=self.are_completions)
        return tuple(name for name in self.announced if states_loss([name], how))

    @property
    def is_packed(self) -> bool:
        """True if records may hold several documents."""
        return may_divide(self.announced)

    def parser(self, *, others: bool) -> Parser:
        """Return a parser of the records; with `others`, it ignores other fields."""
        beside = (*self.passed, *((COMPLETION,) if self.pairs else ()))
        return Parser(self.kind, self.keys, others, beside, columns=self.columns, chats=self.chats, pairs=self.pairs)


def first_record(parts: Iterable[Part], options: ReadOptions, *, is_lenient: bool, collects: bool = False) -> First:
    """Look at the first lines until one shows what records are, "ids" if there is no line. Each is parsed once. If
    `is_lenient`, lines that are not records are left out; `collects` is `Hints.collect_invalid`.
    """
    given = {"text": options.text_field, "ids": options.ids_field}
    named = [kind for kind, field in given.items() if field is not None]
    paths = {kind: usual if (field := given[kind]) is None else field for kind, usual in _USUAL.items()}
    keys: Mapping[str, tuple[str, ...]] = {kind: dotted(field, f"{kind}_field") for kind, field in paths.items()}
    stated, kind = None if options.kind == "auto" else options.kind, "ids" if options.kind == "auto" else options.kind
    texts = Parser("text", keys["text"], others=True)
    for lines in chain.from_iterable(part.lines() for part in parts) if stated != "text" else ():
        faults = list[TokfmtError]()
        for index, line in enumerate(lines.tolist()):
            document = load(line)
            value = document.value if isinstance(document, Document) else None
            fields = tuple(value) if isinstance(value, dict) else ()
            if stated is None and named != ["ids"] and (chats := _chats_of(value, keys)) is not None:
                return chats._replace(fields=fields)
            if stated is None and not named and (first := _first_list(value, keys)):
                return _of_ids(value, (first,), (), options, SECOND[first])._replace(fields=fields)
            text = document if isinstance(document, Fault) else texts.extract(value)
            shown = named[0] if len(named) == 1 else _kind_of(value_at(value, keys["ids"]), text)
            if stated is None and shown == "text" and (is_lenient or not isinstance(text, Fault)):
                return First("text", keys["text"], fields=fields)
            if shown == "ids" if stated is None else isinstance(value, dict):
                is_chosen = stated is not None or "ids" in named
                both = (_BOTH.format(*map(shown_path, keys.values())),) * (isinstance(text, str) and not is_chosen)
                return _of_ids(value, keys["ids"], both, options)._replace(fields=fields)
            if not is_lenient and stated is None and isinstance(text, Fault) and not faults:
                faults.append(line_error(lines, index, text))
                if not collects:
                    break
            kind = stated or "text"
        if faults:  # None of the lines of 256 KiB is a record.
            raise faults[0]
    return First(kind, keys[kind])


def _chats_of(value: object, keys: Mapping[str, tuple[str, ...]]) -> First | None:
    """Return what a record of a chat shows, given the keys of the text and of the IDs; None for any other record."""
    has_tools = isinstance(value, dict) and bool(value.get(TOOLS))
    tools = (f'the field "{TOOLS}" of its records is not given to the chat template',) if has_tools else ()
    if are_messages(value_at(value, keys["text"])):
        return First("text", keys["text"], tools, chats=True)
    if not isinstance(value, dict) or keys["text"][0] in value or keys["ids"][0] in value:
        return None
    name = field_of_chats(value)
    if not name and (pairs := pairs_of(value)):
        noted = f'"{PROMPT}" and "{COMPLETION}" of its records are one document; --text-field NAME reads one field'
        return First("text", (PROMPT,), (noted, *tools), chats=True, pairs=pairs)
    if not name or not are_messages(value[name]):
        return None
    noted = f'"{name}" of its records holds chats; --text-field NAME reads another field'
    return First("text", (name,), (noted, *tools), chats=True)


def _kind_of(ids: object, text: object) -> Kind | None:
    """Return what a record holds, given what its fields of IDs and of text hold; None if it is neither."""
    if _are_ids(ids):
        return "ids"
    if isinstance(text, str):
        return "text"
    return None if ids is None else "ids"


def _first_list(record: object, keys: Mapping[str, tuple[str, ...]]) -> str:
    """Return the name of the first of two lists of IDs of a record, given the keys of text and of IDs; "" without."""
    if not isinstance(record, dict) or keys["text"][0] in record or keys["ids"][0] in record:
        return ""
    both = ((name, [record.get(name), record.get(second)]) for name, second in SECOND.items())
    return next((name for name, lists in both if all(map(_are_ids, lists))), "")


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and all(type(token) is int for token in value)


def _of_ids(
    record: object, keys: tuple[str, ...], inferred: tuple[str, ...], options: ReadOptions, second: str = ""
) -> First:
    """Return what a record of IDs shows. Of its columns, an option names labels and masks that later records have.
    `second` is the name of a second list of IDs; "" without one.
    """
    if len(keys) > 1 or not isinstance(record, dict):
        return First("ids", keys, inferred)
    choice, name = options.loss_mask, LOSS_MASK if options.loss_mask in ("own", "next") else options.loss_mask
    there = [name for name, value in record.items() if value is None or isinstance(value, list)]
    nested = {name for name in there if any(isinstance(one, list) for one in record[name] or ())}  # as of mRoPE
    others = {*record, *keys} - {*there} | nested  # a number or a text of the first record is no column
    chosen = (LABELS, *MASKS) if choice in (None, ALL) else (str(name),)
    if {LOSS_MASK, STARTS} <= {*there} and choice is None:  # packed rows of Megatron-Bridge
        chosen = (*chosen, LOSS_MASK)
    starts = tuple(name for name in DIVIDING if name != STARTS or LOSS_MASK in chosen)
    columns = tuple(name for name in (*chosen, *starts, ATTENTION, *_with(second)) if name not in others)
    return First(
        "ids",
        keys,
        inferred,
        columns,
        tuple(column for column in columns if column in there or column == name),
        (
            *(() if choice is None else (name for name in COUNTING if name not in (*chosen, *others))),
            *(name for name in ALL_POSITIONS if name in nested),
        ),
        has_unread_mask=choice is None and LOSS_MASK in there and LOSS_MASK not in chosen,
        are_completions=second == TARGETS and are_pairs(there, [(record[keys[0]], record[second])]),
    )


def _with(second: str) -> tuple[str, ...]:
    return (TARGETS, TARGET_SEGMENTS) if second == TARGETS else (second,) * bool(second)
