"""Parse lines into records: the text or the token IDs of each line, or the fault of an invalid line.

msgspec decodes a batch of lines in one call if all of them are plain objects. Other lines are parsed one by one, at
last with Python's json, which decides:

- Bytes are strict UTF-8, also in fields that are not read. (Python's json alone accepts encoded surrogates.)
- If a key occurs twice, the last one counts, as in other JSON libraries.
- `NaN`, `Infinity` and lone surrogate escapes are accepted in fields that are not read. A text with a lone surrogate is
  invalid: it has no UTF-8, and upstream's packers drop it, and the documents after it.
- Values nested more than 512 levels deep are refused, whatever the limit of the parser is.
"""

from __future__ import annotations

import heapq
import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from tokfmt.core.chats import COMPLETION, PROMPT, ChatError, Pairs, chat_text, pair_text
from tokfmt.core.field_path import keys_of, shown_path, step
from tokfmt.core.records import NAMED_FIELDS
from tokfmt.errors import CorruptError, FormatError, Loss, LossyConversionError, OptionError, TokfmtError, UnsafeError
from tokfmt.formats.jsonl.lines import BOM, Lines, line_number

LARGEST_ID = (1 << 32) - 1
DROP = "--allow-loss invalid-lines leaves such lines out"
_RECORDS = f"If the file is JSON over several lines, jq -c . PATH > x.jsonl writes one line per record; {DROP}"
_ITEMS = f"If the file is a JSON array, jq -c '.[]' PATH > x.jsonl writes one line per item; {DROP}"


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why a line is not a record."""

    what: str  # the reason, in words that follow "line 3"
    at: int = 0  # the byte offset in the line
    found: str | None = None
    remedy: str = f"Correct it; {DROP}"
    # expected, found, remedy: as in `FormatError`
    expected: str | None = None
    kind: type[FormatError] = CorruptError  # the class of the error to raise
    code: str = "TF501"  # the code of the finding; see `check`

    @property
    def words(self) -> str:
        """The reason, with what was expected and what was found."""
        facts = [f"{name} {value}" for name, value in (("expected", self.expected), ("found", self.found)) if value]
        return self.what + (f": {', '.join(facts)}" if facts else "")


@dataclass(frozen=True, slots=True)
class OtherFields:
    """A record with other fields besides the one that is read: `names` lists them."""

    field: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdTooLarge:
    """A record with a token ID of 2^32 or more, at `position` in the record."""

    token: int
    position: int

    @property
    def words(self) -> str:
        """What is wrong with the line, as "has the token ID 5,000,000,000"."""
        return "has a token ID of more than 24 digits" if self.token >= _BEYOND else f"has the token ID {self.token:,}"


Problem = Fault | OtherFields | IdTooLarge


def line_error(lines: Lines, index: int, problem: Problem) -> TokfmtError:
    """Return the error for a line of `lines`. Reads the text before it to number the line."""
    text, offset = lines.text, lines.begin(index)
    number = line_number(text, offset)
    if isinstance(problem, OtherFields):
        names = ", ".join(f'"{name}"' for name in problem.names)
        return LossyConversionError(
            str(text.path), [Loss("fields", f'fields beside "{problem.field}" in line {number:,} ({names})')]
        )
    if isinstance(problem, IdTooLarge):
        what, most = f"line {number:,} {problem.words}", f"at most {LARGEST_ID:,}"
        return CorruptError(text.path, what, offset=offset, expected=most, remedy="Correct it")
    where = " of the decompressed text" if text.compression else ""
    return problem.kind(
        text.path,
        f"line {number:,}{where} {problem.what}",
        offset=offset + problem.at,
        expected=problem.expected,
        found=problem.found,
        remedy=problem.remedy,
    )


DEEPEST = 512
"""The most levels of nested lists and objects."""


Kind = Literal["text", "ids"]

_UNFIT = re.compile(r'["\\\x00-\x1f]')  # characters that a field name of msgspec cannot have
_STEPS = np.zeros(256, np.int8)
_STEPS[[ord("["), ord("{")]], _STEPS[[ord("]"), ord("}")]] = 1, -1
_AT_ONCE = 1 << 20  # bytes of a line per step of `depth_of`
_NOT_ASCII = np.uint64(0x8080808080808080)
_BEYOND = 1 << 80  # replaces every integer of more than 24 digits
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_REFUSED = (msgspec.DecodeError, ValueError, RecursionError)


Value = str | list[int]


ABSENT = msgspec.Raw()
"""The value of a column in a record without it."""


class Parsed(NamedTuple):
    """The records of a batch of lines."""

    values: Sequence[Any]  # the values of the valid lines, in order
    kept: list[int] | None  # the indexes of the valid lines in the batch; None if all lines are valid
    problems: list[tuple[int, Problem]]  # the index and the problem of each other line
    # of each column that a valid line has, the value in every valid line: raw JSON, or `ABSENT`
    columns: Mapping[str, Sequence[msgspec.Raw]] = {}

    def indexes(self, lines: int) -> Sequence[int]:
        """Return the indexes of the valid lines in a batch of so many lines."""
        return range(lines) if self.kept is None else self.kept

    def some(self, first: int, last: int, lines: int) -> Parsed:
        """Return only the values `first <= i < last`; `lines` is the number of lines of the batch."""
        columns = {name: values[first:last] for name, values in self.columns.items()}
        return Parsed(self.values[first:last], list(self.indexes(lines)[first:last]), self.problems, columns)


class Parser:
    """A decoder of records of one kind.

    Attributes:
        kind: "text" or "ids".
        path: The keys that lead to the value.
        others: True if other fields are ignored; else a record with other fields is a problem.
        beside: Fields at the top level that are read elsewhere, so that they are not other fields.
        columns: Those of them whose values are returned, of records of IDs.
        chats: The value is a list of messages, whose text is that of `core.chats.chat_text`.
        pairs: The value is a prompt, whose text is that of `core.chats.pair_text` with the completion beside it.
    """

    def __init__(
        self,
        kind: Kind,
        path: tuple[str, ...],
        others: bool,
        beside: tuple[str, ...] = (),
        *,
        columns: tuple[str, ...] = (),
        chats: bool = False,
        pairs: Pairs = "",
    ) -> None:
        self.kind, self.path, self.others, self.beside, self.columns, self.chats, self.pairs = (
            kind,
            path,
            others,
            beside,
            columns,
            chats,
            pairs,
        )
        self._holds_any = bool(others or beside or columns or chats)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
        self._bare: msgspec.json.Decoder[Any] | None = None  # of records without any other field
        self._value: Callable[[Any], Any] = self._walk
        self._raw: Callable[[Any], Any] | None = None
        if pairs:
            self._decoder, self._value = msgspec.json.Decoder(dict[str, Any]), self._pair
        elif not any(key.isdecimal() or _UNFIT.search(key) for key in path):
            value: Any = (
                list[Any]
                if chats
                else str
                if kind == "text"
                else list[Annotated[int, msgspec.Meta(ge=0, le=LARGEST_ID)]]
            )
            for depth, key in reversed(list(enumerate(path))):
                more = {f"beside{k}": name for k, name in enumerate(() if depth else (*columns, *beside))}
                if columns and not depth:
                    bare = msgspec.defstruct(
                        "Bare", [("value", value)], rename={"value": key}, forbid_unknown_fields=True
                    )
                    self._bare = msgspec.json.Decoder(bare)
                value = msgspec.defstruct(
                    "Record",
                    [("value", value), *((name, msgspec.Raw, ABSENT) for name in more)],
                    rename={"value": key, **more},
                    forbid_unknown_fields=not others,
                )
            self._decoder = msgspec.json.Decoder(value)
            self._value = operator.attrgetter(".".join(["value"] * len(path)))
            if columns:
                self._raw = operator.attrgetter(*(f"beside{k}" for k in range(len(columns))))
            if chats:
                self._value = partial(_text_of_chat, self._value)

    def _walk(self, document: object) -> Value:
        """Return the value at `path`, for paths that a struct of msgspec cannot express."""
        for key in self.path:
            if not self.others and isinstance(document, (dict, list)) and len(document) > 1:
                raise ValueError
            document = step(document, key)
        if self.chats:
            return chat_text(document)
        good = (
            isinstance(document, str)
            if self.kind == "text"
            else isinstance(document, list)
            and all(type(token) is int and 0 <= token <= LARGEST_ID for token in document)
        )
        if not good:
            raise ValueError
        return cast("Value", document)

    def _pair(self, record: Mapping[str, object]) -> Value:
        """Return the text of a prompt with its completion.

        Raises:
            ValueError: A part is missing, or not of the kind; or there are other fields.
        """
        if not self.others and not record.keys() <= {PROMPT, *self.beside}:
            raise ValueError
        return self._pair_of(record)

    def at_once(self, lines: Lines) -> Parsed | None:
        """Return the records of a batch if all lines are surely valid, else None."""
        if not lines.braced():
            return None
        text = lines.joined()
        if self._bare is not None:
            with suppress(*_REFUSED):  # a record has another field, or is not valid
                records = self._bare.decode_lines(text)
                return Parsed(list(map(self._value, records)), None, []) if len(records) == len(lines) else None
        if (self.columns and self._bare is None) or (self._holds_any and not skippable(lines)):
            return None
        try:
            records = self._decoder.decode_lines(text)
            values = list(map(self._value, records))
        except _REFUSED:
            return None
        columns = self._columns_of(map(self._raw, records)) if self._raw else {}
        return Parsed(values, None, [], columns) if len(records) == len(lines) else None

    def _columns_of(self, rows: Iterable[tuple[msgspec.Raw, ...]]) -> dict[str, Sequence[msgspec.Raw]]:
        """Return the values by name of column, given those of each record."""
        found = list(rows)
        if found.count((ABSENT,) * len(self.columns)) == len(found):
            return {}
        by_name = zip(self.columns, zip(*found, strict=True), strict=True)
        return {name: values for name, values in by_name if values.count(ABSENT) < len(values)}

    def _columns_in(self, line: bytes) -> tuple[msgspec.Raw, ...]:
        """Return the values of the columns in a valid line."""
        try:
            fields: dict[str, Any] = _FIELDS.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):  # NaN or lone surrogates in another field
            fields = {name: msgspec.Raw(json.dumps(value).encode()) for name, value in json.loads(line).items()}
        return tuple(fields.get(name, ABSENT) for name in self.columns)

    def __call__(self, lines: Lines) -> Parsed:
        """Return the records and the problems of a batch of lines."""
        parsed = self.at_once(lines)
        if parsed is not None:
            return parsed
        values, kept, problems, rows = [], [], [], list[tuple[msgspec.Raw, ...]]()
        for index, line in enumerate(lines.tolist()):
            value = self.one(line)
            if isinstance(value, (str, list)):
                values.append(value)
                kept.append(index)
                if self.columns:
                    rows.append(self._columns_in(line))
            else:
                problems.append((index, value))
        return Parsed(values, kept if problems else None, problems, self._columns_of(rows) if rows else {})

    def one(self, line: bytes) -> Value | Problem:
        """Return the record of one line, or its problem."""
        if not self._holds_any or skippable_line(line):
            try:
                value: Value = self._value(self._decoder.decode(line))
            except _REFUSED:
                pass
            else:
                return value
        document = load(line)
        return document if isinstance(document, Fault) else self.extract(document.value)

    def extract(self, document: object) -> Value | Problem:
        """Return the record of a parsed line, or its problem."""
        others: list[str] = []
        name, record = shown_path(self.path), document
        for depth, key in enumerate(self.path):
            if not isinstance(document, dict) and not (depth and key.isdecimal() and isinstance(document, list)):
                where = f'field "{shown_path(self.path[:depth])}"' if depth else "the line"
                what = f"is not a record: {where} is not a JSON object"
                return Fault(what, found=kind_of(document), remedy=_remedy_of_list(document))
            names = list(document) if isinstance(document, dict) else list(map(str, range(len(document))))
            if key not in names:
                remedy = f"--text-field NAME reads another one; {DROP}"
                if self.kind == "ids":
                    remedy = f"--from-opt ids_field=NAME reads another one; {DROP}"
                elif of_ids := next((other for other in names if _are_ids(step(document, other))), ""):
                    remedy = _read_as_ids(shown_path((*self.path[:depth], of_ids)))
                return Fault(f'has no field "{name}"', found=_fields_of(names, self.path[:depth]), remedy=remedy)
            known = (key, *self.columns, *self.beside) if not depth else (key,)
            others += [shown_path((*self.path[:depth], other)) for other in names if other not in known]
            document = step(document, key)
        value = self._checked(record if self.pairs else document, name)
        return (
            OtherFields(name, tuple(others)) if others and not self.others and isinstance(value, (str, list)) else value
        )

    def names(self, line: bytes) -> list[str]:
        """Return the dotted paths of the other fields of a record; of very many fields, the first by name."""
        found, value = list[str](), msgspec.Raw(line)
        for depth, key in enumerate(self.path):
            try:
                fields: dict[str, Any] = _FIELDS.decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError):  # NaN, lone surrogates, a list
                loaded = json.loads(bytes(value))
                fields = loaded if isinstance(loaded, dict) else {str(k): item for k, item in enumerate(loaded)}
                fields[key] = json.dumps(fields[key]).encode()
            known = (key, *self.columns, *self.beside) if not depth else (key,)
            others = [other for other in fields if other not in known]
            if len(others) > NAMED_FIELDS:
                others = heapq.nsmallest(NAMED_FIELDS, others)
            found += [shown_path((*self.path[:depth], other)) for other in others]
            value = fields[key]
        return found

    def _pair_of(self, record: Any) -> str:
        return pair_text(record.get(PROMPT), record.get(COMPLETION), self.pairs)

    def _checked(self, value: object, name: str) -> Value | Problem:
        if self.kind == "ids":
            return _ids(value, name)
        if self.chats:
            try:
                return self._pair_of(value) if self.pairs else chat_text(value)
            except ChatError as error:
                return Fault(str(error) if self.pairs else f'{error} (field "{name}")')
        if _are_ids(value):
            return Fault(f'has a field "{name}" of token IDs, not of text', remedy=_read_as_ids(name))
        if not isinstance(value, str):
            return Fault(f'has a field "{name}" that is not a string', found=kind_of(value))
        try:
            value.encode()
        except UnicodeEncodeError as error:
            found = f"\\u{ord(value[error.start]):04x}"
            what = f'has a lone surrogate in field "{name}", which is not a character'
            return Fault(what, found=found, code="TF504")
        return value


def _text_of_chat(value: Callable[[Any], Any], record: Any) -> str:
    return chat_text(value(record))


def _remedy_of_list(value: object) -> str:
    """Return how to make records of a line that is a list."""
    if _are_ids(value):
        return f"jq -c '{{input_ids: .}}' PATH > x.jsonl names the IDs of each line; {DROP}"
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return _ITEMS
    return f"Correct it; {DROP}"


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(token) is int for token in value)


def _read_as_ids(name: str) -> str:
    return f"--from-opt ids_field={name} reads its IDs; {DROP}"


def _ids(value: object, name: str) -> Value | Problem:
    if not isinstance(value, list):
        return Fault(f'has a field "{name}" that is not a list of token IDs', found=kind_of(value))
    for position, token in enumerate(value):
        if type(token) is not int:
            found = f"{token} in it" if isinstance(token, float) else f"{kind_of(token)} in it"
            inner = f"--from-opt ids_field={name}.0 reads a list in it"
            remedy = f"{inner if _are_ids(token) else 'Correct it'}; {DROP}"
            return Fault(f'has a field "{name}" that is not a list of token IDs', found=found, remedy=remedy)
        if token < 0:
            return Fault(f'has a negative token ID in field "{name}"', found=_shortened(token))
        if token > LARGEST_ID:
            return IdTooLarge(token, position)
    return value


def _shortened(token: int) -> str:
    return f"{token:,}" if token > -_BEYOND else "one of more than 24 digits"


class Document(NamedTuple):
    """A JSON value, wrapped to distinguish it from a `Fault`."""

    value: object


def load(line: bytes) -> Document | Fault:
    """Parse a line as Python's json does, but from strict UTF-8; integers of more than 24 digits become +-2^80."""
    try:
        text = str(line, "utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{line[error.start]:02x}"
        return Fault("is not UTF-8", error.start, found=found, remedy=_encoding_remedy(line), code="TF503")
    if not text.strip(" \t\r\n"):
        return Fault("holds only white space" if text else "is empty", remedy=f"Remove it; {DROP}", code="TF519")
    if depth_of(line) > DEEPEST:
        return Fault(
            f"is nested more than {DEEPEST} levels deep", kind=UnsafeError, remedy=f"Flatten it; {DROP}", code="TF505"
        )
    if text[0] == "\ufeff":
        return Fault(
            "begins with a byte order mark, which only the first line of a file may", remedy=f"Remove it; {DROP}"
        )
    try:
        return Document(json.loads(text, parse_int=_bounded_int))
    except json.JSONDecodeError as error:
        return _syntax(text, error)
    except RecursionError:  # The caller has used most of the stack.
        return Fault(
            "is nested too deep for the rest of the stack", kind=UnsafeError, remedy=f"Flatten it; {DROP}", code="TF505"
        )


def _encoding_remedy(line: bytes) -> str:
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "The file is UTF-16: convert it with iconv -f UTF-16 -t UTF-8"
    return f"Convert the file to UTF-8; {DROP}"


def _bounded_int(digits: str) -> int:
    if len(digits) <= 24:
        return int(digits)
    return -_BEYOND if digits[0] == "-" else _BEYOND


def _syntax(text: str, error: json.JSONDecodeError) -> Fault:
    why = error.msg[0].lower() + error.msg[1:].removesuffix(" at").removesuffix(" starting")
    found = f"the character {text[error.pos]}" if error.pos < len(text) else "the end of the line"
    remedy = {"{": _RECORDS, "[": _ITEMS}.get(text.strip(), f"Correct it; {DROP}")
    return Fault(f"is not valid JSON ({why})", len(text[: error.pos].encode()), found=found, remedy=remedy)


def depth_of(text: bytes) -> int:
    """Return the number of nested lists and objects, without brackets inside strings.

    Returns 0 if a text has at most `DEEPEST` opening brackets. Stops counting above `DEEPEST`.
    """
    if np.count_nonzero(_openings(text)) <= DEEPEST:
        return 0
    if b"\\" in text:  # Only a backslash before it makes a quote part of a string.
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    depth, deepest, inside = 0, 0, False
    for at in range(0, len(text), _AT_ONCE):
        letters = np.frombuffer(text, np.uint8, min(_AT_ONCE, len(text) - at), at)
        strings = np.logical_xor.accumulate(letters == ord('"')) ^ inside
        levels = np.cumsum(np.where(strings, 0, _STEPS[letters]), dtype=np.int32)
        deepest = max(deepest, depth + int(levels.max()))
        depth, inside = depth + int(levels[-1]), bool(strings[-1])
        if deepest > DEEPEST:
            break
    return deepest


def _openings(text: bytes) -> NDArray[np.bool_]:
    """Return bool[bytes]: True for an opening bracket (5b) or brace (7b)."""
    found: NDArray[np.bool_] = np.frombuffer(text, np.uint8) & 0xDF == 0x5B
    return found


def skippable(lines: Lines) -> bool:
    """Return True if all of these braced lines are strict UTF-8 and not nested too deep, so values may be skipped."""
    if not lines.data.isascii() and not _utf8(lines.joined()):
        return False
    openings = _openings(lines.data)
    if np.count_nonzero(openings) < DEEPEST + len(lines):  # Each line has one at its start, so no line has too many.
        return True
    return all(depth_of(lines[index]) <= DEEPEST for index in _crowded(openings, lines))


def _crowded(openings: NDArray[np.bool_], lines: Lines) -> list[int]:
    """Return the lines that may have more than `DEEPEST` opening brackets, from their number in each 128 bytes."""
    whole = len(openings) // 128
    sums = (
        openings[: whole * 128].view(np.uint64).reshape(whole, 16).sum(axis=1)
    )  # eight counts of at most 16 in each uint64
    counts = np.zeros(whole + 2, np.int64)
    counts[1:-1] = sums * np.uint64(0x0101010101010101) >> np.uint64(56)
    counts[-1] = np.count_nonzero(openings[whole * 128 :])
    before = np.cumsum(counts)
    found: list[int] = np.flatnonzero(before[lines.ends + 127 >> 7] - before[lines.starts >> 7] > DEEPEST).tolist()
    return found


def _utf8(text: bytes | memoryview) -> bool:
    """Return True if a text is strict UTF-8. Decodes only the words of 8 bytes that are not ASCII, and their next."""
    whole = len(text) // 8
    words = np.frombuffer(text, np.uint64, whole)
    others = words & _NOT_ASCII != 0
    if 2 * np.count_nonzero(others) < whole:
        others[1:] |= others[:-1].copy()  # The next word follows, so a cut character is not completed by a later one.
        text = words[others].tobytes() + bytes(text[8 * whole :])
    try:
        str(text, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def skippable_line(line: bytes) -> bool:
    """Return True if a line is strict UTF-8 and not nested too deep, so its values may be skipped."""
    try:
        str(line, "utf-8")
    except UnicodeDecodeError:
        return False
    return depth_of(line) <= DEEPEST


def kind_of(value: object) -> str:
    """Return the kind of a JSON value in words, such as "a list"."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "a string"
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else "a number"


def _fields_of(fields: Sequence[str], path: tuple[str, ...]) -> str:
    names = [f'"{shown_path((*path, name))}"' for name in fields]
    if not names:
        return "no field at all"
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"the field{'s' if len(names) > 1 else ''} {shown}"


_DIGITS = 4300  # digits of the longest integer that Python converts
_LONG_NUMBER = b"0" * (_DIGITS + 1)
_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
_NO_JSON = (msgspec.DecodeError, RecursionError)


class Validator:
    """A check that lines are JSON as Python's json defines it, which decides the lines of a raw index.

    NaN, Infinity, lone surrogate escapes, duplicate keys, a byte order mark and values other than objects are valid. A
    number of more than 4,300 digits is not. Two rules differ from Python's: bytes are strict UTF-8, and nesting has at
    most 512 levels.
    """

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(msgspec.Raw)  # It checks the syntax and makes no objects.

    def faults(self, lines: Lines) -> list[tuple[int, Fault]]:
        """Return the index and the fault of each line that is not JSON."""
        if self._all_valid(lines):
            return []
        found = ((index, self.fault(line)) for index, line in enumerate(lines.tolist()))
        return [(index, fault) for index, fault in found if fault is not None]

    def _all_valid(self, lines: Lines) -> bool:
        if not lines.braced():
            return False
        text = lines.joined()
        longest = int((lines.ends - lines.starts).max())
        if not skippable(lines) or (longest > _DIGITS and _has_long_number(bytes(text))):
            return False
        try:
            return len(self._decoder.decode_lines(text)) == len(lines)
        except _NO_JSON:
            return False

    def fault(self, line: bytes) -> Fault | None:
        """Return the fault of a line that is not JSON; None if it is JSON."""
        long_number = len(line) > _DIGITS and _has_long_number(line)
        if not long_number and skippable_line(line):
            try:
                self._decoder.decode(line)
            except _NO_JSON:
                pass
            else:
                return None
        loaded = load(line.removeprefix(BOM))
        if isinstance(loaded, Fault):
            return loaded
        return _number_fault(line) if long_number else None


def _has_long_number(text: bytes) -> bool:
    return _LONG_NUMBER in text.translate(_TO_ZERO)


def _number_fault(line: bytes) -> Fault | None:
    try:
        json.loads(line)
    except ValueError:
        return Fault(f"holds a number of more than {_DIGITS:,} digits")
    return None


def dotted(path: str, name: str) -> tuple[str, ...]:
    """Return the keys of a dotted path; see `core.field_path.keys_of`.

    Args:
        path: The path.
        name: The name of the option, for the error.
    """
    keys = keys_of(path)
    if keys is None:
        raise OptionError(
            f"jsonl option {name}: {path!r} is not a field; write it like text, .meta.text, or data\\.text for a name "
            "with a dot",
            name=name,
        )
    return keys
