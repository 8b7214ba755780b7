"""Records of token IDs as TFRecord and ArrayRecord files hold them: `tf.train.Example` of protobuf, or bare integers.

    Example             1: Features                               (SequenceExample has 2: lists of features, too)
    Features            1: an entry {1: name, 2: Feature}, any number of them; of two with one name the last counts
    Feature             1: BytesList, 2: FloatList or 3: Int64List; none is an empty list
    Int64List           1: varints, one after the other (packed), or each in a field of its own
    BytesList           1: bytes, each in a field of its own

`protobuf` has what fields and varints are. A negative number is a varint of 10 bytes. Nothing states the dtype of bare
integers. Features beside the IDs that `model.rows` names (labels, attention_mask, inputs_segmentation, ...) are read by
its rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import option
from tokfmt.core.format import Hints, Probe
from tokfmt.core.loss_mask import LOSS_MASK, MASK_CHOICES, MASK_OPTION, MaskChoice
from tokfmt.errors import NO_DAMAGE, ConversionError, CorruptError, FormatError, UnsafeError, UnsupportedError
from tokfmt.files.file import names_in, natural_key
from tokfmt.files.place import Place
from tokfmt.formats.folders import ids_in
from tokfmt.formats.protobuf import LARGEST_RECORD, ProtobufError, fields, packed_ids, varint_of, varints
from tokfmt.formats.record_files import RecordFilesFormat, RecordFilesWriter, Row
from tokfmt.model.rows import ROLES, SECOND, TARGETS, Reading, are_pairs, columns_to_read
from tokfmt.wording import counted, printable

Dtype = Literal["uint8", "uint16", "int32", "uint32", "int64"]
_PROMPTS = "inputs"
_NAMES = ("input_ids", "tokens", "inputs", "text", "token_ids", "text_ids", "ids", TARGETS, *SECOND)
"""Names of features of IDs, the first that a record has is read."""

_KINDS = {1: "bytes", 2: "floats", 3: "integers"}
_LOOKED_AT, _LOOKED_BYTES = 16, 1 << 20  # records, and bytes of them, that show which feature holds IDs
_PICKLE = re.compile(rb"\x80[\2-\5]")
_FEW_LISTED = 9
_DESCRIPTIONS = re.compile(r"dataset_info\.json|features\.json|COMPLETED|(info|stats)\.\w+\.json")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading records."""

    field: str | None = option(
        None, "feature of tf.train.Example that holds the IDs, or the text; auto: input_ids, tokens, inputs, text, ..."
    )
    bare: Dtype | None = option(
        None, "dtype of bare integers: the records, or the feature of bytes that field names; auto: varints"
    )
    loss_mask: MaskChoice | None = option(None, MASK_CHOICES)
    prefix: str | None = option(None, "beginning of the names of the files of a folder to read; auto: the only one")


class Feature(NamedTuple):
    """A feature of an Example."""

    kind: str  # "integers", "bytes", "floats", or "" for an empty one of no kind
    lists: Sequence[memoryview]  # the bytes of its lists; protobuf joins several


class SequenceExampleError(ProtobufError):
    """Bytes are a SequenceExample, and not an Example."""


def _messages(data: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the messages of one field; fields of other numbers are skipped, as protobuf does."""
    for found, value in fields(data):
        if found == number and isinstance(value, memoryview):
            yield value


def features_of(record: bytes) -> Mapping[str, Feature]:
    """Return the features of an Example by name."""
    found = dict[str, Feature]()
    for number, features in fields(memoryview(record)):
        if number == 2 and isinstance(features, memoryview):
            raise SequenceExampleError("is a SequenceExample, whose lists of features are not read")
        if number != 1 or not isinstance(features, memoryview):
            raise ProtobufError("has a field that an Example does not have")
        for entry in _messages(features, 1):
            name, feature = b"", Feature("", ())
            for part, value in fields(entry):
                if part == 1 and isinstance(value, memoryview):
                    name = bytes(value)
                elif part == 2 and isinstance(value, memoryview):
                    feature = _feature(value)
            found[name.decode("utf-8", "replace")] = feature
    return found


def _feature(data: memoryview) -> Feature:
    kind, lists = "", list[memoryview]()
    for number, value in fields(data):
        if number in _KINDS and isinstance(value, memoryview):
            lists = [*lists, value] if _KINDS[number] == kind else [value]
            kind = _KINDS[number]
    return Feature(kind, lists)


def numbers_of(feature: Feature) -> NDArray[np.int64]:
    """Return the numbers of a feature of integers."""
    runs = list[NDArray[np.int64]]()
    for values in feature.lists:
        if len(values) and values[0] == 8:  # Each in a field of its own: a tag, a varint, and so on.
            pairs = varints(values)
            if len(pairs) % 2 == 0 and (pairs[::2] == 8).all():
                runs.append(pairs[1::2])
                continue
        for number, value in fields(values):
            if number == 1:
                runs.append(
                    varints(value) if isinstance(value, memoryview) else np.array([value], np.uint64).view("i8")
                )
    return runs[0] if len(runs) == 1 else np.concatenate([np.empty(0, np.int64), *runs])


def bytes_of(feature: Feature) -> bytes:
    """Return the one value of a feature of bytes; b"" if it has none."""
    values = [bytes(value) for part in feature.lists for value in _messages(part, 1)]
    if len(values) > 1:
        raise ProtobufError(f"holds {len(values):,} values in a feature of bytes, and one is expected")
    return values[0] if values else b""


def example_of(name: str, ids: NDArray[np.integer[Any]]) -> bytes:
    """Return an Example with one feature of integers, packed, as protobuf writes it."""
    packed = packed_ids(ids)
    listed = b"\x0a" + varint_of(len(packed)) + packed if len(packed) else b""
    feature = b"\x1a" + varint_of(len(listed)) + listed
    key = name.encode()
    entry = b"\x0a" + varint_of(len(key)) + key + b"\x12" + varint_of(len(feature)) + feature
    features = b"\x0a" + varint_of(len(entry)) + entry
    return b"\x0a" + varint_of(len(features)) + features


def bare_of(dtype: str, ids: NDArray[np.integer[Any]]) -> bytes:
    """Return IDs as bare integers of a dtype, little-endian."""
    return ids.astype(np.dtype(dtype).newbyteorder("<")).tobytes()


class Content(NamedTuple):
    """What records hold, as the first of them show."""

    kind: str  # "ids" or "text"
    field: str  # the feature; "" if records are bare integers
    dtype: np.dtype[Any] | None = None  # Of bare integers; None for varints and text
    others: Sequence[str] = ()  # Features that are not read
    # the features that are read beside the IDs, by the names of their roles; see `model.rows`
    columns: Mapping[str, str] = {}
    reading: Reading = Reading()  # How they are read
    late: Set[str] = frozenset()  # Names of features that are read beside IDs, and that the first records do not have

    @property
    def holds(self) -> str:
        """What a record is."""
        return self.dtype.name if self.dtype is not None and not self.field else "tf.train.Example"

    def facts(self, hints: Hints) -> dict[str, Any]:
        """Return what `RecordFiles` takes."""
        reading = self.reading._replace(eos_id=hints.eos_id)
        return {"field": self.field, "notes": self.notes, "columns": tuple(self.columns), "reading": reading}

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.others:
            return ()
        names = ", ".join(map(printable, self.others[:_FEW_LISTED]))
        more = f" and {len(self.others) - _FEW_LISTED:,} more" if len(self.others) > _FEW_LISTED else ""
        masks = (f"{LOSS_MASK}: {MASK_OPTION}",) if LOSS_MASK in self.others and self.reading.choice is None else ()
        return (f"{self.field} is read; other features are not: {names}{more}", *masks)

    def value(self, path: Place, number: int, record: bytes) -> str | NDArray[np.integer[Any]] | Row:
        """Return the text or the IDs of a record."""
        if self.field:
            example = _read(path, number, record)
            feature = example.get(self.field)
            if feature is None:
                if record:
                    what = f"record {number:,} lacks the feature {printable(self.field)}"
                    raise CorruptError(path, what, remedy="--from-opt field=NAME names another one")
                return "" if self.kind == "text" else self._row(path, number, np.empty(0, np.uint32), {})
            wanted = "bytes" if self.kind == "text" or self.dtype is not None else "integers"
            if feature.kind not in (wanted, ""):
                what = f"feature {printable(self.field)} of record {number:,}"
                raise CorruptError(path, what, expected=wanted, found=feature.kind)
            try:
                if wanted == "integers":
                    ids = ids_in(path, numbers_of(feature), of=f"record {number:,}")
                    return self._row(path, number, ids, example)
                record = bytes_of(feature)
            except ProtobufError as error:
                raise CorruptError(path, f"record {number:,} {error}", remedy="Copy it again") from error
        if self.kind == "text":
            try:
                return record.decode()
            except UnicodeDecodeError as error:
                what = f"the text of record {number:,} is not UTF-8 at byte {error.start:,}"
                raise CorruptError(path, what, remedy="--from-opt bare=DTYPE reads it as IDs") from error
        dtype = self.dtype or np.dtype("<i4")
        if len(record) % dtype.itemsize:
            expected = f"a multiple of {dtype.itemsize}, as of {dtype.name}"
            raise CorruptError(path, f"bytes of record {number:,}", expected=expected, found=len(record))
        return ids_in(path, np.frombuffer(record, dtype), of=f"record {number:,}")

    def _row(
        self, path: Place, number: int, ids: NDArray[np.integer[Any]], example: Mapping[str, Feature]
    ) -> NDArray[np.integer[Any]] | Row:
        """Return the IDs of a record with the features beside them; see `value`."""
        for name in self.late & example.keys():
            if example[name].kind == "integers" and len(numbers_of(example[name])) > (name == _PROMPTS):
                what = f"record {number:,} has {name}, which the first records have not"
                remedy = f"--from-opt field={printable(self.field)} reads this feature without it"
                raise CorruptError(path, what, remedy=remedy)
        beside = {role: example[name] for role, name in self.columns.items() if name in example}
        for name, feature in beside.items():
            if feature.kind not in ("integers", ""):
                what = f"feature {self.columns[name]} of record {number:,}"
                raise CorruptError(path, what, expected="integers", found=feature.kind)
        return Row(ids, {name: numbers_of(feature) for name, feature in beside.items()}) if self.columns else ids


class ExampleWriter(RecordFilesWriter):
    """A writer of Examples, or of bare integers; the options `field` and `bare` decide."""

    @property
    def limit(self) -> int:  # type: ignore[override]
        return 2**31 - 1 if self.options.bare == "int32" else 2**32 - 1

    def record(self, ids: NDArray[np.integer[Any]]) -> bytes:
        """Return the record of a sequence."""
        record = bare_of(self.options.bare, ids) if self.options.bare else example_of(self.options.field, ids)
        if len(record) > LARGEST_RECORD:
            what = (
                f"{self.path.name}: a sequence of {counted(len(ids), 'token')} takes a record of {len(record):,} bytes"
            )
            raise ConversionError(f"{what} (expected at most {LARGEST_RECORD:,}). Write another format")
        return record


class ExampleFormat(RecordFilesFormat):
    """The base of formats of such files."""

    shard: ClassVar[re.Pattern[str]]  # the pattern of the names of files in a folder; see `shards_of`
    joins_files = numbers_files = stores_rows = True
    stores = "sequences in order, empty ones too; samples of a recipe; IDs up to 2^32-1"
    cannot_store = "loss masks"
    read_options = ReadOptions

    def files(self, path: Place) -> Sequence[Place]:
        """See `Format.files`. The files of TFDS and SeqIO that describe those of a folder belong to it."""
        if not path.is_dir():
            return [path]
        found = (name for name in names_in(path) if self.shard.fullmatch(name) or _DESCRIPTIONS.fullmatch(name))
        return [path / name for name in sorted(found, key=natural_key)]

    def first_shard(self, probe: Probe) -> Probe | None:
        """Return the probe itself, or of a folder that of its first shard; None without one."""
        shards = (probe.entry(name) for name in probe.entries if self.shard.fullmatch(name))
        return next(filter(None, shards), None) if probe.is_directory else probe


def _read(path: Place, number: int, record: bytes) -> Mapping[str, Feature]:
    try:
        return features_of(record)
    except ProtobufError as error:
        if _PICKLE.match(record):
            what = f"record {number:,} begins like a pickle, which can run code when it is loaded"
            raise UnsafeError(path, what, remedy="Write IDs as tf.train.Example or as int32") from error
        remedy = "--from-opt bare=int32 reads records as bare integers"
        if isinstance(error, SequenceExampleError):
            remedy = "Write the IDs as a feature of tf.train.Example"
        what, found = f"record {number:,} is not a tf.train.Example: it {error}", record[:8].hex(" ") or "nothing"
        raise UnsupportedError(path, what, found=found, remedy=remedy) from error


def shards_of(paths: Sequence[Place], names: re.Pattern[str], options: ReadOptions) -> list[Place]:
    """Return the files of one dataset, in natural order in each folder."""
    found = list[Place]()
    for path in paths:
        found += _shards_in(path, names, options.prefix) if path.is_dir() else [path]
    if not found:
        raise FormatError(paths[0], "holds no file of records", expected="names such as X-00000-of-00002")
    return found


def _shards_in(path: Place, names: re.Pattern[str], prefix: str | None) -> list[Place]:
    sets = dict[str, list[tuple[str, int]]]()
    for name in names_in(path):
        shard = names.fullmatch(name)
        if shard and (prefix is None or name.startswith(prefix)):
            key = shard["set"] if shard["files"] else ""  # Without a count, numbers or parts of one dataset may differ.
            sets.setdefault(key, []).append((name, int(shard["files"] or 0)))
    if len(sets) > 1:
        listed = ", ".join(printable(key or some[0][0]) for key, some in sorted(sets.items())[:_FEW_LISTED])
        remedy = "--from-opt prefix=NAME reads one of them"
        raise UnsupportedError(path, "holds files of several datasets", found=listed, remedy=remedy)
    files = sorted((each for some in sets.values() for each in some), key=lambda each: natural_key(each[0]))
    if files and files[0][1] and len(files) != files[0][1]:
        what, expected = "lacks files that the names of the others state", f"{files[0][1]:,} files"
        raise CorruptError(path, what, expected=expected, found=f"{len(files):,}", remedy="Copy the missing ones")
    return [path / name for name, _ in files]


def first_records(files: Sequence[tuple[Place, Iterator[bytes]]], *, allow_partial: bool) -> tuple[Place, list[bytes]]:
    """Return the first records of the first file that has any, and that file. With `allow_partial`, a file that cannot
    be read is passed over.
    """
    for path, records in files:
        found, size = list[bytes](), 0
        try:
            for record in records:
                found.append(record)
                size += len(record)
                if len(found) == _LOOKED_AT or size > _LOOKED_BYTES:
                    break
        except NO_DAMAGE:
            raise
        except FormatError:
            if not allow_partial:
                raise
        if found:
            return path, found
    return files[0][0], []


def content_of(path: Place, records: Sequence[bytes], options: ReadOptions) -> Content:
    """Return what records hold."""
    dtype = None if options.bare is None else np.dtype(options.bare).newbyteorder("<")
    if dtype is not None and options.field is None:
        with suppress(ProtobufError):
            if all([features_of(record) for record in records if record] or [{}]):
                what, remedy = (
                    "holds tf.train.Example, not bare integers",
                    "Add --from-opt field=NAME, a feature of bytes",
                )
                raise UnsupportedError(path, what, remedy=remedy)
        return Content("ids", "", dtype)
    examples = [_read(path, number, record) for number, record in enumerate(records)]
    kinds = dict[str, str]()
    for example in examples:
        kinds.update({name: feature.kind for name, feature in example.items() if feature.kind or name not in kinds})
    if not kinds:
        return Content("ids", options.field or _NAMES[0], dtype)
    name = options.field or _inferred(examples, kinds)
    listed = ", ".join(f"{printable(one)} ({kind or 'empty'})" for one, kind in list(kinds.items())[:_FEW_LISTED])
    if name not in kinds:
        what = f"has no feature {printable(name)}" if name else "holds no feature that is known to be token IDs or text"
        remedy = "--from-opt field=NAME names it, with bare=DTYPE if it is of bytes"
        raise UnsupportedError(path, what, found=listed, remedy=remedy)
    others = [one for one in kinds if one != name]
    kind = kinds[name]
    if kind == "floats" or (dtype is not None and kind == "integers"):
        expected = "integers" if dtype is None else "bytes, as bare is given"
        raise UnsupportedError(path, f"feature {printable(name)}", expected=expected, found=kind)
    if kind == "bytes" and dtype is None:
        if not all(_is_text(example.get(name)) for example in examples):
            remedy = f"--from-opt field={printable(name)} --from-opt bare=DTYPE reads them as bare integers"
            raise UnsupportedError(path, f"feature {printable(name)} holds bytes that are not text", remedy=remedy)
        return Content("text", name, None, others)
    if kind == "bytes":
        return Content("ids", name, dtype, others)
    return _with_columns(path, Content("ids", name, dtype, others), examples, kinds, options)


def _with_columns(
    path: Place,
    content: Content,
    examples: Sequence[Mapping[str, Feature]],
    kinds: Mapping[str, str],
    options: ReadOptions,
) -> Content:
    """Return what records hold, with the features beside the IDs that are read."""
    roles = {other: other for other in content.others if kinds[other] == "integers"}
    if content.field == TARGETS:  # what is stated of inputs is not of these
        roles = {role.replace("targets_", "inputs_"): role for role in roles if not role.startswith(_PROMPTS)}
    first = content.field if options.field is None else ""
    names = columns_to_read(path, list(roles), options.loss_mask, first)
    rows = [
        (numbers_of(one[content.field]), numbers_of(one[TARGETS]))
        for one in (examples if TARGETS in names else ())
        if one.keys() >= {content.field, TARGETS}
    ]
    late = {one for one in columns_to_read(path, ROLES, options.loss_mask, first) if one not in kinds}
    late |= {_PROMPTS} if content.field == TARGETS else set()
    columns = {name: roles[name] for name in names}
    return content._replace(
        others=[other for other in content.others if other not in columns.values()],
        columns=columns,
        reading=Reading(options.loss_mask, pairs=are_pairs(names, rows), option="field"),
        late=frozenset(late) if options.field is None else frozenset(),
    )


def _inferred(examples: Sequence[Mapping[str, Feature]], kinds: Mapping[str, str]) -> str:
    """Return the name of the feature that holds IDs, or text; "" if none is known to."""
    integers = [name for name, kind in kinds.items() if kind == "integers"]
    known = [name for name in _NAMES if name in integers]
    for least in (2, 1):  # SeqIO keeps inputs empty if only targets are trained on; in Tensor2Tensor they are one 0.
        for name in known:
            if any(_has_numbers(example.get(name), least) for example in examples):
                return name
    if known:
        return known[0]
    lists = [name for name in integers if any(_has_numbers(example.get(name), 2) for example in examples)]
    if len(lists) == 1:
        return lists[0]
    is_text = kinds.get("text") == "bytes" and all(_is_text(example.get("text")) for example in examples)
    empty = [name for name in _NAMES if kinds.get(name) == ""]
    return "text" if is_text else (empty or [""])[0]


def _has_numbers(feature: Feature | None, least: int) -> bool:
    """Return whether a feature holds at least so many integers. One alone may be a label."""
    with suppress(ProtobufError):
        return feature is not None and len(numbers_of(feature)) >= least
    return False


def _is_text(feature: Feature | None) -> bool:
    if feature is None or not feature.kind:
        return True
    with suppress(ProtobufError, UnicodeDecodeError):
        return "\0" not in bytes_of(feature).decode()
    return False
