"""Megatron-LM's indexed datasets: tokens in `PREFIX.bin`, starts of sequences and documents in `PREFIX.idx`.

    .idx                bytes                          content
    0 .. 8              4D 4D 49 44 49 44 58 00 00     magic, "MMIDIDX"
    9 .. 16             u64 little-endian, as all      version, 1
    17                  u8                             1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16: of .bin
    18 .. 25, 26 .. 33  u64, u64                       S sequences; D, documents + 1
    34 ..               i32[S], i64[S]                 tokens of each sequence; byte at which each begins in .bin
    34 + 12 S ..        i64[D]                         document k is sequences di[k] .. di[k+1]-1
    34 + 12 S + 8 D ..  i8[S] or nothing               mode of each sequence, of multimodal data

- .bin has no header. A document is usually one sequence. An empty document is a repeated document index (Megatron), or
  a sequence without tokens (datatrove).
- A separator (EOD) may follow each document. The files do not state whether it does, or which ID it is.
- Pointers may be in any order, leave out tokens or repeat a sequence: readers take each sequence at its pointer. If
  pointers are impossible, tokfmt reads sequences by length.
- tokfmt also reads blend lists as one dataset: each prefix once, in the order of the list.
- tokfmt also reads TNTIDX, the older index of GPT-NeoX. It does not read MMIDIDX of fairseq, which has no document
  indices, and of Fast-LLM, versions 2 and 3, which have spans of the loss.
- With several prefixes, tokfmt writes a blend list of them, data_args.txt, and their counts, sequences.json. Both use
  names within the folder, and leave out prefixes without tokens, which upstream cannot map.
- GPT-NeoX's X_label_document beside X_text_document has the labels of its tokens: those of -100 do not count in the
  loss.
- If an index is larger than 64 MiB, `show` reads only the entries that it needs.
- Not stored: checksum, tokenizer, masks.
Source: NVIDIA/Megatron-LM d98e8a64 and megatron-core 0.16.1, EleutherAI/gpt-neox, huggingface/datatrove, run;
facebookresearch/fairseq 03e53783 and ServiceNow/Fast-LLM 14eb6673, read.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import option
from tokfmt.base.resources import Recent
from tokfmt.core.annotation import NAMES, bounded_entries, fitting_width, reading_width
from tokfmt.core.findings import Audit, Finding, Problem, fatal, noted, raise_fatal
from tokfmt.core.format import MOST_AT_ONCE, Confidence, Hints, Probe
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.core.reader import INT32_MAX, Damage, Inner, Separators, TokenReader, windows
from tokfmt.core.scattered import Scattered
from tokfmt.core.widths import LOOKED_AT, contradicted_width
from tokfmt.errors import (
    ENDS_EARLY,
    ConversionError,
    CorruptError,
    FormatError,
    OptionError,
    TruncatedError,
    UnsupportedError,
)
from tokfmt.files.fields import Section
from tokfmt.files.file import File, open_file, read_whole
from tokfmt.files.named import place_named
from tokfmt.files.place import AnyPlace, LocalPlace, Place, place_of
from tokfmt.formats.flat import (
    Columns,
    Cut,
    Extent,
    FileLayout,
    FlatFormat,
    FlatInspection,
    FlatOptions,
    FlatWriter,
    Pieces,
    Struct,
    files_named,
    stated_tokens,
)
from tokfmt.formats.folders import json_object, parsed_object
from tokfmt.wording import counted, printable

_CODE_AT, _COUNT_AT = 17, 18  # byte offsets of the dtype code and of the number of sequences
_ENDS = 64  # ends of documents that are read to find separators which the lengths do not count
MAGIC, LEGACY = b"MMIDIDX\0\0", b"TNTIDX\0\0"
HEADER = Struct(magic="V9", version="<u8", dtype_code="u1", sequences="<u8", document_indices="<u8")
OLD = Struct(magic="V8", version="<u8", dtype_code="<u8", item_size="<u8", items="<u8", sizes="<u8", documents="<u8")
DTYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
OTHERS = {6: "<u2", 7: "<u4", 9: "<u4", 10: "<u8"}
"""Codes of DeepSpeed and fairseq that Megatron-LM does not have, or has for floats."""
_AT_ONCE = 1 << 17  # index entries per read: they fit the processor's cache, and 10^8 entries have 2 GB
_LONG = 1 << 26  # bytes above which an index is read lazily, if few sequences are needed
_BLOCK, _BLOCKS = 1 << 13, 128  # entries per block of a lazily read column, and blocks kept in memory
_LOOK, _LOOKS = 64, 64  # entries per look at a long index, and looks that show whether its pointers are in order
_TOGETHER = 1 << 20  # pointers that are sorted at a time
LARGEST_LIST = 1 << 24  # bytes of a blend list: three times what 100,000 prefixes take
_DIGITS = 15  # digits of a whole number that a float holds exactly
_WORDS = 8  # words that are looked at in the beginning of a possible blend list
_LONGEST = 4096  # characters of a path that a file system or a store takes; a client of stores panics at 64 KiB
SPLITS = ("train", "valid", "test")
_TEXTS, _LABELS = (re.compile(rf"(.+)_{key}_(document|sentence)") for key in ("text", "label"))
"""The names of the tokens and of the labels that GPT-NeoX's preprocess_data_with_mask.py writes."""
_LABELS_LOOKED_AT = 1 << 14
_UNCOUNTED = -100  # the label of a token that does not count in the loss
LISTED, SIZES = "data_args.txt", "sequences.json"
"""Files in a folder of several prefixes, named after the options of Megatron that read them.

data_args.txt (`--data-args-path`) lists the prefixes. sequences.json (`--per-dataset-sequences-path`) states the number
of sequences and of document indices of each.
"""
_NAMED = re.compile(r".+_(document|sentence)")
_WHOLE = "Convert it: tokfmt then compares the whole index"
_OF_A_KEY = re.compile(r"(.+_(?:document|sentence))\.bin")  # PREFIX_KEY_LEVEL.bin
_FEW_PARTS = 8  # parts of a .bin that an error lists by name
_KILLED = "Without it .bin has no documents: copy it, or write the dataset again if its writer was killed"

_Indexed = Generator[tuple[Path, int, Any], None, int]  # yields pieces, and returns the number of sequences


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading indexed datasets."""

    unit: Literal["documents", "sequences"] = option(
        "documents", "unit to read as a sequence: a document, or a sequence of the index"
    )
    split: Literal["train", "valid", "test"] = option("train", "split to read of a blend list with splits")
    dtype: Literal["uint8", "uint16", "int32", "int64"] | None = option(
        None, "dtype of the tokens, if the index states a wrong one"
    )
    rows: Literal["documents", "blocks"] = option(
        "documents", "rows are documents, or blocks of a stream that --eos splits"
    )
    overlap: int | None = option(None, "tokens of a block that repeat the block before, which are left out", minimum=0)


@dataclass(frozen=True, slots=True)
class WriteOptions(FlatOptions):
    """Options for writing indexed datasets."""

    dtype: Literal["uint16", "int32"] | None = option(
        None, "dtype of the tokens; auto: uint16 if the largest ID allows it"
    )
    shard_size: int | None = option(None, "tokens per prefix of a folder of prefixes, at most", minimum=1)


class Writer(FlatWriter):
    """A writer of PREFIX.bin and then PREFIX.idx, or of a folder of such pairs with `shard_size`."""

    separators, needs_max_id, dtypes, limit = Separators.TRAILING, True, ("<u2", "<i4"), INT32_MAX
    whole, names = True, "{number:05d}_text_document.bin"

    @property
    def folder(self) -> bool:
        return self.options.shard_size is not None

    def create(self, source: TokenReader) -> None:
        if self.path.suffix != ".bin" and not self.folder:  # `canonical` keeps the path of an existing file.
            raise ConversionError(f"{self.path}: is a file. Name PREFIX.bin, which is written with PREFIX.idx")
        super().create(source)

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Pieces:
        cuts, listed = self.cuts(stored), dict[str, list[int]]()
        for cut in cuts:
            path = self.file(cut.number).with_suffix(".idx")
            if held := (yield from self._index(path, stored, cut, dtype)):  # Upstream cannot map an empty file.
                listed[path.stem] = [held, cut.last - cut.first + 1]
        if len(cuts) > 1:
            yield self.path / LISTED, 0, "".join(f"{prefix}\n" for prefix in listed).encode()
            yield self.path / SIZES, 0, (json.dumps(listed) + "\n").encode()

    def _index(self, path: Path, stored: TokenReader, cut: Cut, dtype: np.dtype[Any]) -> _Indexed:
        count = cut.last - cut.first
        cuts = list(windows(cut.first, cut.last, _AT_ONCE))
        held = longest = number = 0
        for first, last in cuts:
            lengths = np.diff(stored.offsets(first, last))
            held, longest = held + int(np.count_nonzero(lengths)), max(longest, int(lengths.max()))
        if longest > INT32_MAX:
            what = "a document of more tokens than an int32 counts"
            raise UnsupportedError(path, what, expected=f"{INT32_MAX:,} at most", found=longest)
        columns, code = columns_of(held, count + 1), {2: 8, 4: 4}[dtype.itemsize]
        yield path, 0, HEADER.write(magic=MAGIC, version=1, dtype_code=code, sequences=held, document_indices=count + 1)
        yield path, columns.at("document_indices"), np.zeros(1, "<i8")
        for first, last in cuts:
            bounds = stored.offsets(first, last)
            documents = np.diff(bounds) > 0
            yield path, columns.at("lengths", number), np.diff(bounds)[documents].astype("<i4")
            begins = (bounds[:-1][documents] - cut.start) * dtype.itemsize
            yield path, columns.at("pointers", number), begins.astype("<i8")
            at = columns.at("document_indices", first - cut.first + 1)
            yield path, at, (number + np.cumsum(documents)).astype("<i8")
            number += int(np.count_nonzero(documents))
        return held


class MegatronInspection(FlatInspection):
    """The inspection of pairs of files."""

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. In a folder, the counts of its sequences file are compared as well."""
        yield from super().look(how)
        path = self.paths[0]
        if path.is_dir() and (path / SIZES).is_file():
            try:
                errors = list(_miscounted(path / SIZES))
            except FormatError as error:
                errors = [error]
            for one in errors:  # Several dtypes are an error only if Megatron trains with the sequences file.
                yield Finding.of("TF607", one, "warning" if isinstance(one, UnsupportedError) else "error")


class Megatron(FlatFormat):
    """The format of Megatron-LM's indexed datasets."""

    name = "megatron"
    title = "Megatron-LM: .bin and .idx"
    extensions = ("*_document.bin", "*_sentence.bin", "*_document.idx", "*_sentence.idx")
    numbers_files = True
    stores = "sequences in order, empty ones too; IDs up to 2^31-1"
    cannot_store = "IDs above 2^31-1; documents of 2^31 tokens and more; where sentences begin"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    suffixes, prefix, counted, runs_on = (".bin", ".idx"), ".idx", "prefixes", False
    entries = ("*.idx",)
    pattern, unreadable, other_index, inspection = r".+\.idx", "TF601", "TF608", MegatronInspection

    def recognize(self, probe: Probe) -> Confidence | None:
        path = probe.path
        if path.suffix in self.suffixes:
            index = self.names(path)[1]
            lost = _NAMED.fullmatch(path.stem) and (not index.is_file() or index.status().size < HEADER.size)
            return Confidence.CERTAIN if _is_index(index, probe) else Confidence.NAME if lost else None
        if self._in_capitals(path):
            return Confidence.CERTAIN if _is_index(path.with_suffix(".IDX"), probe) else None
        words = likely_prefixes(probe.head)
        prefixes = [word for word in words if _number(word) is None and word not in (*SPLITS, "null")]
        listed = any(self._leads_to_index(path, prefix) for prefix in words)
        return Confidence.CERTAIN if listed or (prefixes and all(map(_NAMED.fullmatch, prefixes))) else None

    def _leads_to_index(self, path: Place, prefix: str) -> bool:
        """Return whether a word of a file that may be a list is the prefix of an index."""
        with suppress(FormatError):  # The word of another text in a store leads anywhere.
            return _is_index(self.names(located(path, prefix))[1])
        return False

    def canonical(self, path: AnyPlace) -> AnyPlace:
        return path if self._is_list(place_of(path)) else super().canonical(path)

    def destination(self, path: AnyPlace, options: WriteOptions) -> AnyPlace:
        if options.shard_size is None or path.is_dir():
            return self.canonical(path)
        if path.suffix in self.suffixes:
            what = f"--to-opt shard_size={options.shard_size}: {printable(path.name)} is one file. Name a folder"
            raise OptionError(what, name="shard_size")
        return path

    def _in_capitals(self, path: Place) -> bool:
        return path.suffix.isupper() and path.suffix.lower() in self.suffixes

    def _is_list(self, path: Place) -> bool:
        return path.suffix not in self.suffixes and path.is_file()

    def members(self, path: Place) -> list[Place]:
        found = super().members(path)
        if not path.is_dir():
            return found
        # An index of text has the same suffix and is left out.
        found = [one for one in found if one.is_file() or _is_index(self.names(one)[1])]
        # Beside others, a .bin with a name that only Megatron-LM gives is one whose index is missing.
        known = set(found)
        found += [one for one in files_named(path, _OF_A_KEY) if known and one not in known]
        texts = {one.stem for one in found}  # Labels belong to the tokens beside them.
        labels = (one for one in found if _LABELS.fullmatch(one.stem) and _text_of(one.stem) in texts)
        owned = {label for label in labels if _has_labels(label)}
        return [one for one in found if one not in owned]

    def files(self, path: Place) -> list[Place]:
        if not self._is_list(path):
            own = super().files(path)
            at_hand = path.is_local or path.is_dir()  # else a store would be asked for each file that is opened
            labels = (self.labels(one) for one in own if at_hand and one.suffix == self.suffixes[0])
            own += [file for label in labels if label is not None for file in self.names(label)]
            beside = [path / name for name in (LISTED, SIZES) if (path / name).is_file()] if path.is_dir() else []
            return [*own, *(one for one in beside if one.name == SIZES or _lists_only(one, own))]
        return [path, *self.named(path)]

    def named(self, path: Place) -> list[Place]:
        """See `Format.named`: the files of the prefixes of a blend list."""
        prefixes = dict[Place, None]()
        with suppress(FormatError):  # `open` and `audit` report what is wrong with it.
            splits = SPLITS if self._is_list(path) else ()
            prefixes = {located(path, one.prefix): None for split in splits for one in read_blend(path, split)}
        return [file for prefix in prefixes for file in self.names(prefix) if file.is_file()]

    def examine(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> FileLayout:
        if not self._is_list(paths[0]):
            if options.split != SPLITS[0]:
                remedy = "Only a blend list has splits. Leave out --split"
                raise FormatError(paths[0], f"holds no split {options.split}", remedy=remedy)
            return super().examine(paths, options, self._few_if_long(paths, hints))
        if self._in_capitals(paths[0]):
            what = "is a file of Megatron-LM, which finds only files in .bin and .idx"
            raise UnsupportedError(paths[0], what, found=paths[0].suffix, remedy="Rename it and the file beside it")
        if not (blend := read_blend(paths[0], options.split)):
            raise FormatError(paths[0], "is a blend list without a prefix", found=f"split {options.split}")
        prefixes = [located(paths[0], one.prefix) for one in blend]
        for one, prefix in zip(blend, prefixes, strict=True):
            if not _is_indexed(prefix):
                raise _no_index(paths[0], one.prefix)
        file_layout = super().examine(prefixes, options, self._few_if_long(prefixes, hints))
        if read_whole(paths[0], LARGEST_LIST).lstrip().startswith(b"{"):
            others = tuple(name for name in SPLITS if name != options.split and read_blend(paths[0], name))
            file_layout = replace(file_layout, split=options.split, other_splits=others)
        note = f"weights are not applied: each of {len(blend):,} prefixes is read once. "
        note += f"The recipe that tokfmt recipe {printable(paths[0].name)} writes applies them"
        return replace(file_layout, notes=(*file_layout.notes, note)) if blend[0].weight is not None else file_layout

    def _few_if_long(self, paths: Sequence[Place], hints: Hints) -> Hints:
        """Return `hints` without `few_sequences` unless the indexes together are larger than 64 MiB."""
        if not hints.few_sequences:
            return hints
        indexes = [self.names(file)[1] for path in paths for file in self.members(path)]
        return hints._replace(few_sequences=sum(index.status().size for index in indexes if index.is_file()) > _LONG)

    def open_tokens(self, path: Place, hints: Hints) -> File:
        """See `FlatFormat.open_tokens`. Parts of a .bin beside its .idx are named."""
        if not path.exists() and path.parent.is_dir():
            pattern = re.compile(rf"{re.escape(path.stem)}-(\d+)-of-\d+{re.escape(path.suffix)}")
            if parts := files_named(path.parent, pattern):
                raise _in_parts(path, self.names(path)[1], parts)
            if self.names(path)[1].is_file():
                raise FormatError(path, "no such file", remedy="Its .idx is there: copy the .bin beside it")
        return super().open_tokens(path, hints)

    def examine_file(self, file: File, options: ReadOptions, hints: Hints) -> FileLayout:
        path = self.names(file.path)[1]
        if not path.exists():
            raise FormatError(path, "no such file", remedy=_KILLED)
        if _LABELS.fullmatch(file.path.stem) and _has_labels(file.path):
            text = _text_of(file.path.stem) + file.path.suffix
            remedy = f"Name {printable(text)}, whose tokens they are the labels of"
            raise UnsupportedError(file.path, "holds labels, of which -100 does not count in the loss", remedy=remedy)
        index, by_document = hints.opened(path), options.unit == "documents"
        lazy = hints.few_sequences and options.dtype is None
        file_layout = lazy_layout(file, index, by_document=by_document) if lazy else None
        if file_layout is not None and self._labels_of(file_layout) is None:
            return file_layout
        if index.size <= MOST_AT_ONCE:
            index.prefetch([(0, index.size)], keep=True)
        try:
            layout = pair_layout(file, index, options, partial=hints.allow_partial)
        finally:
            index.close()  # A dataset may have thousands of indexes.
        labels = self._labels_of(layout)
        return layout if labels is None else _labeled(layout, labels, self.names(labels)[1], options)

    def _labels_of(self, layout: FileLayout) -> Place | None:
        """Return the file of labels of a token file, if there is one. Their writer stores both as int32."""
        first = next((extent for extent in layout.extents if extent.dtype == np.dtype("<i4")), None)
        return None if first is None else self.labels(first.file.path)

    def labels(self, path: Place) -> Place | None:
        """Return the file of labels of GPT-NeoX beside a token file, if there is one with its index."""
        found = _TEXTS.fullmatch(path.stem)
        place = path.with_name(f"{found[1]}_label_{found[2]}{path.suffix}") if found else None
        if place is None or not _has_labels(place) or not _is_index(self.names(place)[1]):
            return None
        return place


def _text_of(stem: str) -> str:
    """Return the name of the tokens that a file of labels belongs to."""
    return _LABELS.sub(r"\1_text_\2", stem)


def _has_labels(path: Place) -> bool:
    """Return whether one of the first numbers of a file is the label of a token that does not count in the loss."""
    if not path.is_file():
        return False
    with closing(open_file(path)) as file:
        return bool((file.array(0, min(file.size // 4, _LABELS_LOOKED_AT), "<i4") == _UNCOUNTED).any())


def _labeled(layout: FileLayout, labels: Place, index: Place, options: ReadOptions) -> FileLayout:
    """Return the layout of tokens with the labels of GPT-NeoX beside them: -100 where a token does not count."""
    with closing(open_file(index)) as opened:
        beside = pair_layout(open_file(labels), opened, replace(options, dtype=None))
    mine, theirs = ([extent.tokens for extent in each.extents] for each in (layout, beside))
    wrong = [problem for problem in beside.problems if problem.is_fatal]
    starts, others = (offsets_of([]) if each.starts is None else each.starts for each in (layout, beside))
    if not wrong and (mine != theirs or not np.array_equal(starts, others)):
        expected, found = (counted(sum(tokens), "token") for tokens in (mine, theirs))
        what, remedy = "has other sequences than the tokens that it labels", "Write both again, or move it away"
        wrong = [fatal("TF604", CorruptError(labels, what, expected=expected, found=found, remedy=remedy))]
    return replace(
        layout, masks=beside.extents, loss_masks=f"labels of {labels.name}", problems=[*layout.problems, *wrong]
    )


def _in_parts(path: Place, index: Place, parts: Sequence[Place]) -> FormatError:
    """Return the error of a .bin that does not exist, but whose parts do; these are in the order of their numbers."""
    found, stated = sum(part.status().size for part in parts), _stated_bytes(index)
    many = counted(len(parts), "part")
    what = f"no such file; {many} of it {'is' if len(parts) == 1 else 'are'} there, with {found:,} bytes in all"
    if stated is not None:
        what += ", as" if found == stated else f" of {stated:,} that"
        what += f" {printable(index.name)} states"
    names = " ".join(shlex.quote(part.name) for part in parts)
    if len(parts) > _FEW_PARTS:  # a pattern lists them in order, as their numbers have as many digits
        names = f"{shlex.quote(path.stem)}-*-of-{parts[0].name.rpartition('-of-')[2]}"
    joins = f"cat {names} > {shlex.quote(path.name)} joins them"
    return FormatError(path, what, remedy=joins if stated in (found, None) else f"Copy the missing parts; {joins}")


def _stated_bytes(path: Place) -> int | None:
    """Return the bytes of tokens that an index of Megatron-LM states; None if it is damaged or of another kind."""
    with suppress(FormatError):
        index = open_file(path)
        head = HEADER.read(index)
        kind, count = DTYPES.get(head["dtype_code"]), head["sequences"]
        if head["magic"] == MAGIC and kind is not None and columns_of(count, 0).end <= index.size:
            tokens = 0
            for a, b in windows(0, count):
                tokens += int(index.array(HEADER.size + 4 * a, b - a, "<i4").sum(dtype=np.int64))
            return tokens * np.dtype(kind).itemsize
    return None


def _miscounted(path: Place) -> Iterator[FormatError]:
    """Yield an error for each difference between a sequences file and the indexes of its prefixes.

    A JSON file of that name with other content yields nothing.
    """
    listed, dtypes = json_object(open_file(path)), dict[str, str]()
    if not all(isinstance(counts, list) and len(counts) == 2 for counts in listed.values()):
        return
    for prefix, counts in listed.items():
        index_file = _index_of(located(path, prefix))
        if not index_file.is_file():
            yield _no_index(path, prefix)
        elif (index := open_file(index_file)).size >= HEADER.size:
            head = HEADER.read(index)
            if counts != (stored := [head["sequences"], head["document_indices"]]):
                what = f"sequences and document indices of {printable(prefix)}"
                yield CorruptError(path, what, expected=stored, found=counts)
            dtypes.setdefault(np.dtype(DTYPES.get(head["dtype_code"], "V0")).name, printable(prefix))
            index.close()
    if len(dtypes) > 1:
        (one, first), (other, second) = list(dtypes.items())[:2]
        what = "prefixes of several dtypes, which upstream reads as one"
        yield UnsupportedError(path, what, expected=f"{one} of {first}", found=f"{other} of {second}")


def _no_index(path: Place, prefix: str) -> FormatError:
    what = f"lists the prefix {printable(prefix)}, which has no index"
    return FormatError(path, what, expected=f"{prefix}.idx, in the directory of the list or the working directory")


def _lists_only(path: Place, files: Sequence[Place]) -> bool:
    """Return True if a blend list holds only prefixes of `files`, without weights.

    Such a list can be made again. Any other list belongs to the user.
    """
    listed, prefixes = open_file(path), {os.fsencode(file.stem) for file in files}
    try:
        return listed.size <= LARGEST_LIST and set(listed.read(0, listed.size).split()) <= prefixes
    finally:
        listed.close()


def _is_index(path: Place, probe: Probe | None = None) -> bool:
    try:
        index = open_file(path) if probe is None else probe.opened(path)
        return index.read(0, min(len(MAGIC), index.size)).startswith((MAGIC, LEGACY))
    except FormatError:
        return False


def columns_of(sequences: int, document_indices: int) -> Columns:
    """Return the columns of an index with the given numbers of sequences and of document indices."""
    return Columns(
        HEADER.size,
        lengths=("<i4", sequences),
        pointers=("<i8", sequences),
        document_indices=("<i8", document_indices),
    )


def pair_layout(data: File, index: File, options: ReadOptions, *, partial: bool = False) -> FileLayout:
    """Return the layout of PREFIX.bin and PREFIX.idx, from the whole index. If the index is cut, `partial` keeps the
    sequences that are certain.
    """
    begin, path, by_document = index.read(0, min(HEADER.size, index.size)), index.path, options.unit == "documents"
    if begin.startswith(LEGACY):
        return _legacy(data, index, options)
    if (other := _other_tool(index, begin)) is not None:
        raise other
    if (more := HEADER.size - index.size) > 0:
        what, expected = f"the file {ENDS_EARLY}", f"{more:,} more bytes"
        raise TruncatedError(path, what, offset=index.size, expected=expected, remedy=_KILLED)
    head = HEADER.parse(begin)
    count, marks, code = head["sequences"], head["document_indices"], head["dtype_code"]
    columns, kind = columns_of(count, marks), DTYPES.get(code, options.dtype)
    is_other = kind is None and _is_proven(data, index, columns, OTHERS.get(code))
    kind = OTHERS[code] if is_other else kind
    if head["magic"] != MAGIC or head["version"] != 1 or kind is None:
        magic = printable(head["magic"][:7].decode("latin-1"))
        found = f"{magic}, version {head['version']}, dtype {head['dtype_code']}"
        expected, remedy = "MMIDIDX, version 1, integers", "Copy it again, or write the dataset again"
        if head["magic"] == MAGIC and head["version"] == 1:
            remedy = "--from-opt dtype=NAME (uint16, int32, int64) states what the tokens are"
        raise UnsupportedError(path, "is not an index of tokens", expected=expected, found=found, remedy=remedy)
    header = HEADER.part(f"header of {path.name}", index)
    stated, dtype = np.dtype(kind), np.dtype(options.dtype or kind)
    if index.size not in (columns.end, columns.end + count):
        cut = TruncatedError(
            path, "the size of the index", offset=18, expected=columns.end, found=index.size, remedy="Copy it again"
        )
        if partial and HEADER.size < index.size < columns.end:
            return _cut_layout(data, index, columns, options, cut, stated)
        return _documents(Extent(data, 0, 0, dtype), offsets_of([]), [fatal("TF602", cut)], header)
    bounded_entries(path, max(count, marks), data)
    begins, negative, pointers = _begins(index, columns, dict.fromkeys([dtype.itemsize, stated.itemsize]))
    problems = list[Problem]()
    if code not in DTYPES:
        what = f"states the dtype code {code} of another program, read as {dtype.name}"
        error = CorruptError(path, what, offset=_CODE_AT, remedy="Convert it: the copy has a code of Megatron-LM")
        why = "as given" if options.dtype else "which sizes and pointers fit"
        problems.append(Problem("TF609", "info", error, note=f"{path.name} {what}, {why}"))
    if index.size != columns.end:
        remedy = "--allow-loss modes reads the tokens without them"
        error = CorruptError(path, "holds modes of multimodal data", offset=columns.end, remedy=remedy)
        lost = f"the modes of {counted(count, 'sequence')}, from byte {columns.end:,} on"
        problems.append(fatal("TF606", error, "modes", lost=lost))
    extent, sizes = _tokens(data, index, columns, begins, pointers, options, stated)
    starts, inner, marked = _marked(index, columns, begins, by_document=by_document)
    problems = [*(negative or sizes), *problems, *marked]
    return replace(_documents(extent, starts, problems, header, *columns.sections(index)), inner=inner)


def _other_tool(index: File, begin: bytes) -> UnsupportedError | None:
    """Return the error of an index of fairseq or Fast-LLM, which begins with `begin`; None if it is not one.

    An index of Megatron-LM is longer than one of fairseq, which lacks the number of documents and has the dtype codes 9
    and 10, too. One that was cut to that size has lengths where fairseq has its first pointer, which is 0.
    """
    if not begin.startswith(MAGIC) or len(begin) < _COUNT_AT + 8:
        return None
    version, code = (int.from_bytes(begin[at : at + size], "little") for at, size in ((9, 8), (_CODE_AT, 1)))
    count = int.from_bytes(begin[_COUNT_AT : _COUNT_AT + 8], "little")
    pointers = _COUNT_AT + 8 + 4 * count
    is_short = index.size == pointers + 8 * count and not any(index.read(pointers, 8 if count else 0))
    has_documents = index.size == pointers + 8 + 8 * count + 8 * int.from_bytes(begin[_COUNT_AT + 8 :], "little")
    is_fairseq = version == 1 and (is_short or (code in (9, 10) and not has_documents))
    tool = "Fast-LLM" if version in (2, 3) else "fairseq" if is_fairseq else ""
    if not tool:
        return None
    remedy = "The .bin beside it holds bare IDs: --from array --from-opt bare=DTYPE --eos ID reads them as one stream"
    return UnsupportedError(index.path, f"is an index of {tool}, which tokfmt does not read", remedy=remedy)


def _tokens(
    data: File,
    index: File,
    columns: Columns,
    begins: Offsets,
    pointers: Pointers,
    options: ReadOptions,
    stated: np.dtype[Any],
) -> tuple[Extent, list[Problem]]:
    """Return the tokens of the sequences of an index, in its order, and the problems of pointers, size and dtype.

    Sequences are read at their pointers, as upstream reads them. If these are impossible, but the tokens have the size
    that follows from the lengths, they are read by length.

    Args:
        data: PREFIX.bin.
        index: PREFIX.idx.
        columns: Its columns.
        begins: int64[sequences + 1], token positions, from the lengths.
        pointers: The comparison of pointers with the lengths.
        options: The read options.
        stated: The dtype that the index states.
    """
    dtype, total, problems = np.dtype(options.dtype or stated), int(begins[-1]), list[Problem]()
    other, view = None if options.dtype else fitting_width(data.size, total, stated.itemsize), None
    if pointers.error is not None and not pointers.wrapped:
        view = _view(index, columns, dtype.itemsize, data.size)
        if other is not None and view is not None and _view(index, columns, other, data.size) is None:
            other = None
    if other is not None:
        pointed = view is not None and _begins(index, columns, [other])[2].error is not None
        return Extent(data, 0, 0, dtype), [_contradicted(data, index, options, stated, other, pointed=pointed)]
    if options.dtype and dtype.itemsize != stated.itemsize:
        what, remedy = "the dtype code", "Convert it with this option: the copy has the right code"
        error = CorruptError(index.path, what, offset=_CODE_AT, expected=dtype.name, found=stated.name, remedy=remedy)
        problems.append(noted("TF609", error, f"{index.path.name} states {stated}; read as {dtype}, as given"))
    if view is not None:
        problems.append(view.problem(data, index, columns))
        return Extent(ByPointer(data, index, columns, dtype.itemsize, begins), 0, total, dtype), problems
    extent, sizes = stated_tokens(data, dtype, total, "TF604")
    count = len(begins) - 1
    if pointers.error is not None:
        if sizes and not pointers.wrapped:
            expected, again = total * dtype.itemsize, "Copy or write it again"  # Neither shows where a sequence is.
            short = CorruptError(data.path, "bytes of tokens", expected=expected, found=data.size, remedy=again)
            return extent, [fatal("TF604", short), fatal("TF603", pointers.error), *problems]
        pointers.error.advise("Documents can be read by length")
        note = f"{index.path.name}: pointers contradict the lengths; documents were read by length"
        problems.append(noted("TF603", pointers.error, note))
    elif sizes and data.size == (total + count) * dtype.itemsize:
        remedy = f"Each of {count:,} sequences has one token more: separators were written and not counted "
        remedy += f"(Megatron-LM#431), so documents are shifted. Write it again{_as_stream(data, dtype, begins)}"
        what, expected = "bytes of tokens", data.size - count * dtype.itemsize
        uncounted = CorruptError(data.path, what, expected=expected, found=data.size, remedy=remedy)
        sizes = [fatal("TF604", uncounted, "tail", lost=sizes[0].lost)]
    return extent, [*sizes, *problems]


def _as_stream(data: File, dtype: np.dtype[Any], begins: Offsets) -> str:
    """Return how to read documents whose separators are not counted as a stream; "" without one separator."""
    numbers = np.unique(np.linspace(1, len(begins) - 1, min(len(begins) - 1, _ENDS)).astype(np.int64))
    ends = (begins[numbers] + numbers - 1).tolist()
    found = {int.from_bytes(data.read(at * dtype.itemsize, dtype.itemsize), "little") for at in ends}
    if len(found) != 1 or dtype.itemsize not in (2, 4):
        return ""
    return f", or read it with --from nanogpt --eos {found.pop()}, the ID at each of {len(ends):,} ends that were read"


def _contradicted(
    data: File, index: File, options: ReadOptions, stated: np.dtype[Any], other: int, *, pointed: bool = False
) -> Problem:
    """Return the problem of a dtype code, `stated`, that contradicts the size of .bin by a whole factor. `other` is the
    bytes per token that fit the size. If `pointed`, the pointers are possible for the stated dtype as well.
    """
    size, remedy = data.size * stated.itemsize // other, reading_width(options, stated.itemsize, other)
    if pointed and stated.itemsize < other:
        remedy += f"; --from-opt dtype={NAMES[stated.itemsize]} reads each sequence at its pointer, as stated"
    expected = f"{size:,}, as {index.path.name} states {stated}"
    error = CorruptError(data.path, "bytes of tokens", expected=expected, found=f"{data.size:,}", remedy=remedy)
    return fatal("TF609", error)


def lazy_layout(data: File, index: File, *, by_document: bool) -> FileLayout | None:
    """Return the layout of a pair whose index entries are read when needed; None if a comparison fails.

    Opening compares the sizes of both files with the counts, and the first and the last entry of each column. Reading a
    sequence compares its length with its pointer. Commands other than `show` compare the whole index.
    """
    head = HEADER.read(index)
    count, marks, kind = head["sequences"], head["document_indices"], DTYPES.get(head["dtype_code"])
    columns = columns_of(count, marks)
    if head["magic"] != MAGIC or head["version"] != 1 or kind is None or index.size != columns.end or not count:
        return None
    dtype, last = np.dtype(kind), count - 1
    first, end = (columns.read(index, "pointers", k, k + 1).item() for k in (0, last))
    end += columns.read(index, "lengths", last, count).item() * dtype.itemsize
    documents = [columns.read(index, "document_indices", k, k + 1).item() for k in (0, marks - 1)] if marks > 1 else []
    if first or end != data.size or documents != [0, count] or not _in_order(index, columns, dtype.itemsize):
        return None
    note = f"{index.path.name}: only the entries that were needed were read; tokfmt check compares all {count:,}"
    file_layout = _documents(
        Extent(data, 0, data.size // dtype.itemsize, dtype), offsets_of([]), [], *columns.sections(index)
    )
    entries = LazyEntries(index, columns, dtype.itemsize, data.size, by_document=by_document)
    several = by_document and count > marks - 1
    inner = (Inner(index.path, columns.at("document_indices"), count, marks - 1),) if several else ()
    return replace(file_layout, starts=None, entries=entries, notes=(note,), inner=inner)


def _in_order(index: File, columns: Columns, width: int) -> bool:
    """Return whether pointers follow from the lengths in some blocks of a long index."""
    count = columns.count("lengths")
    for first in dict.fromkeys(np.linspace(0, max(0, count - _LOOK), _LOOKS).astype(np.int64).tolist()):
        last = min(first + _LOOK, count)
        lengths = columns.read(index, "lengths", first, last).astype(np.int64)
        if (np.diff(columns.read(index, "pointers", first, last)) != lengths[:-1] * width).any():
            return False
    return True


class LazyEntries:
    """Starts of the sequences of a long index, read when needed; see `annotation.Entries`. Picklable."""

    def __init__(self, index: File, columns: Columns, width: int, size: int, *, by_document: bool) -> None:
        self._index, self._columns, self._width, self._size, self._by_document = (
            index,
            columns,
            width,
            size,
            by_document,
        )
        self._blocks = Recent[tuple[str, int], NDArray[Any]](_BLOCKS)
        self.sequences = columns.count("document_indices") - 1 if by_document else columns.count("lengths")

    def offsets(self, first: int, last: int) -> Offsets:
        marks = self._column("document_indices", first, last + 1) if self._by_document else np.arange(first, last + 1)
        count = self._columns.count("lengths")
        if (np.diff(marks) < 0).any() or marks[0] < 0 or marks[-1] > count:
            what, at = f"document indices {first:,} to {last:,}", self._columns.at("document_indices", first)
            raise CorruptError(self._index.path, what, offset=at, expected=f"ascending, up to {count:,}", remedy=_WHOLE)
        out = np.empty(len(marks), np.int64)
        stop = int(marks[-1]) + 1
        for a, b in windows(int(marks[0]), stop, _AT_ONCE):
            begins = self._begins(a, min(b + 1, stop))  # One more entry, so that each length is compared.
            held = slice(*np.searchsorted(marks, [a, b]))
            out[held] = begins[marks[held] - a] // self._width
        return out

    def _begins(self, first: int, last: int) -> Offsets:
        """Return the byte offsets of sequences `first <= k < last`; sequence `count` is the end of the tokens."""
        count = self._columns.count("lengths")
        begins = self._column("pointers", first, min(last, count)).astype(np.int64)
        if last > count:
            begins = np.append(begins, self._size)
        expected = begins[:-1] + self._column("lengths", first, last - 1).astype(np.int64) * self._width
        wrong = begins[1:] != expected
        if wrong.any() or not 0 <= begins[0] <= self._size or begins[0] % self._width:
            k = int(np.argmax(wrong)) + 1 if wrong.any() else 0
            at, valid = self._columns.at("pointers", first + k), f"0 to {self._size:,}"
            raise CorruptError(
                self._index.path,
                f"pointer {first + k:,}",
                offset=at,
                expected=int(expected[k - 1]) if k else valid,
                found=int(begins[k]),
                remedy=_WHOLE,
            )
        return begins

    def _column(self, name: str, first: int, last: int) -> NDArray[Any]:
        """Return the entries `first <= k < last` of a column, through the cache of blocks."""
        found = [np.empty(0, np.int64)]
        for number in range(first // _BLOCK, -(-last // _BLOCK) if first < last else 0):
            begin = number * _BLOCK
            if (block := self._blocks.get((name, number))) is None:
                stop = min(begin + _BLOCK, self._columns.count(name))
                block = self._columns.read(self._index, name, begin, stop)
                self._blocks.put((name, number), block)
            found.append(block[max(0, first - begin) : last - begin])
        return np.concatenate(found)

    def close(self) -> None:
        """Close the index."""
        self._index.close()


def _cut_layout(
    data: File, index: File, columns: Columns, options: ReadOptions, cut: FormatError, stated: np.dtype[Any]
) -> FileLayout:
    """Return the layout of a cut index: the sequences whose length, pointer and document index are complete."""
    count, dtype = _entries(index, columns, "pointers"), np.dtype(options.dtype or stated)
    begins, negative, pointers = _begins(index, columns, dict.fromkeys([dtype.itemsize, stated.itemsize]), count)
    raise_fatal(negative, frozenset())
    if pointers.error is not None:
        raise pointers.error
    if count and options.dtype is None:
        other = fitting_width(data.size, _sum(index, columns), dtype.itemsize)
        if other is not None:
            raise _contradicted(data, index, options, dtype, other).error
    starts, total = begins, columns.count("lengths")
    if options.unit == "documents":
        marks = columns.read(index, "document_indices", 0, _entries(index, columns, "document_indices"))
        marks = marks[marks <= count]
        if not len(marks) or marks[0] != 0 or (np.diff(marks) < 0).any():
            cut.advise("It ends before its documents; --from-opt unit=sequences reads each sequence by itself")
            raise cut
        starts, total = begins[marks], columns.count("document_indices") - 1
    extent = Extent(data, 0, int(starts[-1]), dtype)
    short = data.size < int(starts[-1]) * dtype.itemsize
    if short:
        what = CorruptError(data.path, "bytes of tokens", expected=int(starts[-1]) * dtype.itemsize, found=data.size)
    file_layout = _documents(
        extent, starts, [fatal("TF604", what, is_truncated=True)] if short else [], HEADER.part("header", index)
    )
    unused = max(0, data.size // dtype.itemsize - int(starts[-1]))
    lost = Damage(cut.sentence, total - (len(starts) - 1), unused, unused * dtype.itemsize, at_end=True)
    return replace(file_layout, damage=(lost,))


def _entries(index: File, columns: Columns, name: str) -> int:
    """Return the number of entries of a column that the file holds completely."""
    width = columns.at(name, 1) - columns.at(name)
    return min(columns.count(name), max(0, index.size - columns.at(name)) // width)


def _sum(index: File, columns: Columns) -> int:
    """Return the sum of all lengths of an index whose lengths are complete."""
    cuts = windows(0, columns.count("lengths"), _AT_ONCE)
    return sum(int(columns.read(index, "lengths", a, b).sum(dtype=np.int64)) for a, b in cuts)


class Pointers(NamedTuple):
    """The pointers of an index, compared with its lengths."""

    # the error of the first pointer that does not follow from the lengths before it; None without one
    error: CorruptError | None
    wrapped: bool  # each pointer follows from the lengths modulo 2^32: an int32 overflowed


def _begins(
    index: File, columns: Columns, widths: Collection[int], entries: int | None = None
) -> tuple[Offsets, list[Problem], Pointers]:
    """Return the starts of sequences from their lengths, and compare the lengths with the pointers.

    Args:
        index: PREFIX.idx.
        columns: Its columns.
        widths: Bytes per token of which pointers may be multiples. Errors are about the first.
        entries: The number of sequences, from the first (default: all).

    Returns:
        int64[entries + 1] of token positions; at most one problem of a negative length; and the pointers.
    """
    count = columns.count("lengths") if entries is None else entries
    negative, error, wrapped, (width, *_) = list[Problem](), cast("CorruptError | None", None), True, widths
    begins, fitting = np.zeros(count + 1, np.int64), list(widths)
    for a, b in windows(0, count, _AT_ONCE):
        lengths = columns.read(index, "lengths", a, b).astype(np.int64)
        if int(lengths.min()) < 0:
            k = int(np.argmax(lengths < 0))
            what, at, found = f"length {a + k:,}", columns.at("lengths", a + k), int(lengths[k])
            below = CorruptError(index.path, what, offset=at, expected="0 or more", found=found)
            negative.append(fatal("TF604", below))
            lengths = np.maximum(lengths, 0)
        lengths[0] += begins[a]
        np.cumsum(lengths, out=begins[a + 1 : b + 1])
        pointers, expected = columns.read(index, "pointers", a, b), begins[a:b] * width
        fitting = [one for one in fitting if np.array_equal(pointers, begins[a:b] * one)]
        if error is None and not np.array_equal(pointers, expected):
            k = int(np.argmax(pointers != expected))
            at = columns.at("pointers", a + k)
            what, found = f"pointer {a + k:,}", int(pointers[k])
            error = CorruptError(index.path, what, offset=at, expected=int(expected[k]), found=found)
        wrapped = wrapped and not ((pointers - expected) & 0xFFFFFFFF).any()
    return begins, negative[:1], Pointers(None if fitting else error, wrapped)


class View(NamedTuple):
    """The facts on an index that lists sequences in another order than .bin, more than once, or not all of them."""

    repeated: int  # number of sequences that another one before them repeats
    unused: int  # bytes of .bin that no sequence holds

    def problem(self, data: File, index: File, columns: Columns) -> Problem:
        """Return the note on the view, which is not an error: upstream reads it in the same way."""
        count, more = columns.count("lengths"), list[str]()
        if self.repeated:
            more.append(f"{self.repeated:,} of {counted(count, 'sequence')} repeat another")
        if self.unused:
            more.append(f"{counted(self.unused, 'byte')} of {data.path.name} belong to no sequence")
        what = "lists the sequences in another order than that of the tokens"
        if self.repeated or self.unused:
            what = "is a view of the tokens"
        beside = f" ({'; '.join(more)})" if more else ""
        remedy = "Nothing needs to be done: each is read at its pointer, as upstream reads it"
        error = CorruptError(index.path, what + beside, offset=columns.at("pointers"), remedy=remedy)
        note = f"{index.path.name} {what}{beside}; sequences were read at their pointers"
        return Problem("TF610", "info", error, note=note)


def _view(index: File, columns: Columns, width: int, size: int) -> View | None:
    """Return the facts on pointers that are possible; None if they are not.

    Each sequence lies within the tokens, and two sequences are the same interval or do not overlap.

    Args:
        index: PREFIX.idx.
        columns: Its columns.
        width: Bytes per token.
        size: Bytes of .bin.
    """
    count, held, end, ascending = 0, 0, 0, True
    for starts, ends in _spans(index, columns, width):
        if (starts < 0).any() or (starts > size).any() or (ends > size).any() or (starts % width).any():
            return None
        begins, stops = starts[starts < ends], ends[starts < ends]
        if len(begins):
            ascending = ascending and int(begins[0]) >= end and bool((begins[1:] >= stops[:-1]).all())
            count, held, end = count + len(begins), held + int((stops - begins).sum()), int(stops[-1])
    if ascending:
        return View(0, size - held)
    distinct, held, end = 0, 0, 0
    step = -(-size // max(1, count // _TOGETHER))
    for low in range(0, size, step):  # Each pass sorts the pointers to one part of .bin, so memory stays flat.
        starts, ends = _spans_in(index, columns, width, low, low + step)
        if len(starts):
            if int(starts[0]) < end or (starts[1:] < ends[:-1]).any():
                return None
            distinct, held, end = distinct + len(starts), held + int((ends - starts).sum()), int(ends[-1])
    return View(count - distinct, size - held)


def _spans(index: File, columns: Columns, width: int) -> Iterator[tuple[Offsets, Offsets]]:
    """Yield the byte offsets at which sequences begin and end by their pointers, in the order of the index."""
    for a, b in windows(0, columns.count("lengths"), _AT_ONCE):
        starts = columns.read(index, "pointers", a, b).astype(np.int64)
        yield starts, starts + columns.read(index, "lengths", a, b).astype(np.int64) * width


def _spans_in(index: File, columns: Columns, width: int, low: int, high: int) -> tuple[Offsets, Offsets]:
    """Return the distinct intervals of sequences with tokens that begin at `low <= byte < high` of .bin, sorted."""
    found = [np.empty((0, 2), np.int64)]
    for starts, ends in _spans(index, columns, width):
        chosen = (starts >= low) & (starts < high) & (starts < ends)
        found.append(np.stack((starts[chosen], ends[chosen]), axis=1))
        if sum(map(len, found)) > 2 * _TOGETHER:
            found = [_distinct(np.concatenate(found))]
    spans = _distinct(np.concatenate(found))
    return spans[:, 0], spans[:, 1]


def _distinct(spans: Offsets) -> Offsets:
    """Return intervals int64[n, 2] in the order of their starts, each once."""
    spans = spans[np.argsort(spans[:, 0])]  # Of equal starts, other ends overlap, so their order does not matter.
    return spans[np.append(True, (spans[1:] != spans[:-1]).any(axis=1))] if len(spans) else spans


class ByPointer(Scattered):
    """The tokens of all sequences of an index, in its order, each read at its pointer.

    Pointers and lengths are read when they are needed. In memory are 8 bytes per 8,192 sequences.
    """

    def __init__(self, data: File, index: File, columns: Columns, width: int, begins: Offsets) -> None:
        """Make a file of the tokens of `data`; `begins` is int64[sequences + 1], the token position of each."""
        super().__init__(data)
        self._index, self._columns, self._width = index, columns, width
        self._marks = np.append(begins[:-1:_BLOCK], begins[-1:]) * width
        self._recent: tuple[int, int, Offsets] = (0, 0, np.zeros(1, np.int64))

    @property
    def size(self) -> int:
        return int(self._marks[-1])

    def intervals(self, start: int, stop: int) -> tuple[Offsets, Offsets]:
        first, begins = self._begins(
            int(np.searchsorted(self._marks, start, side="right")) - 1, int(np.searchsorted(self._marks, stop))
        )
        low, high = int(np.searchsorted(begins, start, side="right")) - 1, int(np.searchsorted(begins, stop))
        bounds = np.clip(begins[low : high + 1], start, stop)
        starts = self._columns.read(self._index, "pointers", first + low, first + high).astype(np.int64)
        starts += bounds[:-1] - begins[low:high]
        ends = starts + np.diff(bounds)
        return starts[starts < ends], ends[starts < ends]

    def _begins(self, first: int, last: int) -> tuple[int, Offsets]:
        """Return the first sequence of blocks `first <= k < last`, and the byte at which each of theirs begins here."""
        known = self._recent
        if known[:2] == (first, last):
            return first * _BLOCK, known[2]
        count = self._columns.count("lengths")
        lengths = self._columns.read(self._index, "lengths", first * _BLOCK, min(last * _BLOCK, count))
        begins = offsets_of(np.maximum(lengths, 0)) * self._width + self._marks[first]
        self._recent = (first, last, begins)
        return first * _BLOCK, begins

    def from_stored_offset(self, offset: int) -> int | None:
        """See `File.from_stored_offset`. If several sequences hold the byte, it is that of the first."""
        first = 0
        for starts, ends in _spans(self._index, self._columns, self._width):
            held = np.flatnonzero((starts <= offset) & (offset < ends))
            if len(held):
                number = first + int(held[0])
                base, begins = self._begins(number // _BLOCK, number // _BLOCK + 1)
                return int(begins[number - base]) + offset - int(starts[held[0]])
            first += len(starts)
        return None

    def close(self) -> None:
        super().close()
        self._index.close()


def _marked(
    index: File, columns: Columns, begins: Offsets, *, by_document: bool
) -> tuple[Offsets, tuple[Inner, ...], list[Problem]]:
    """Return the starts of documents, from those of sequences, and the problems of the document indices.

    If the document indices are invalid, or `by_document` is False, the starts of sequences are returned.

    Returns:
        The starts; the sequences of documents that hold several, such as sentences; and the problems.
    """
    count, cuts = len(begins) - 1, list(windows(0, columns.count("document_indices"), _AT_ONCE))
    if columns.count("document_indices") == len(begins) and all(
        np.array_equal(columns.read(index, "document_indices", a, b), np.arange(a, b)) for a, b in cuts
    ):
        return begins, (), []  # The usual case, each sequence is a document, takes half the memory.
    marks = columns.read(index, "document_indices")
    if len(marks) and marks[0] == 0 and marks[-1] == count and bool((marks[:-1] <= marks[1:]).all()):
        if not by_document:
            return begins, (), []
        several = (np.flatnonzero(marks[a : b + 1][1:] - marks[a : b + 1][:-1] > 1) + a for a, b in cuts)
        first = next((int(numbers[0]) for numbers in several if len(numbers)), -1)
        for a, b in cuts:
            marks[a:b] = begins[marks[a:b]]
        held = Inner(index.path, columns.at("document_indices", first), count, len(marks) - 1)
        return marks, (held,) if first >= 0 else (), []
    remedy = "--from-opt unit=sequences reads each sequence by itself"
    what, k, expected, found = "document indices", 0, f"0 up to {count:,}", f"{marks[:1]} to {marks[-1:]}"
    if len(falls := np.flatnonzero(np.diff(marks) < 0)):
        k = int(falls[0]) + 1
        what, expected, found = f"document index {k:,}", f"{marks[k - 1]:,} or more", f"{marks[k]:,}"
    at = columns.at("document_indices", k)
    error = CorruptError(index.path, what, offset=at, expected=expected, found=found, remedy=remedy)
    note = f"{index.path.name}: lists no document; each of its {count:,} sequences was read as one"
    return begins, (), [fatal("TF605", error) if len(marks) > 1 and by_document else noted("TF605", error, note)]


def _is_proven(data: File, index: File, columns: Columns, kind: str | None) -> bool:
    """Return whether the pointers, the size and the first IDs show that tokens have the dtype of another writer."""
    if kind is None or index.size != columns.end or max(columns.count("lengths"), 1) > index.size:
        return False
    dtype = np.dtype(kind)
    begins, negative, pointers = _begins(index, columns, [dtype.itemsize])
    fits = not negative and pointers.error is None and int(begins[-1]) * dtype.itemsize == data.size
    return fits and contradicted_width(data.array(0, min(int(begins[-1]), LOOKED_AT), kind)) is None


def _documents(extent: Extent, starts: Offsets, problems: list[Problem], *sections: Section) -> FileLayout:
    return FileLayout(
        extents=[extent],
        starts=starts,
        separators=Separators.TRAILING,
        problems=problems,
        sections=sections,
        extras={"dtype": extent.dtype.name},
    )


def _legacy(data: File, index: File, options: ReadOptions) -> FileLayout:
    """Return the layout of a pair with a TNTIDX index.

    magic, version, dtype code             54 4E 54 49 44 58 00 00; u64 1; u64 as in MMIDIDX
    item size, N, sizes, documents         u64 each
    then                                   i64[N + 1] dimensions, i64[N + 1] start of each item, in elements,
                                           i64[sizes], i64[documents] first item of each document
    """
    head = OLD.read(index)
    known = (table.get(head["dtype_code"]) for table in (DTYPES, OTHERS))
    fits = (one for one in (*known, options.dtype) if one and np.dtype(one).itemsize == head["item_size"])
    kind, count = next(fits, options.dtype), head["items"]
    if head["version"] != 1 or kind is None:
        stated = f"version {head['version']}, dtype {head['dtype_code']} of {head['item_size']} bytes"
        what, expected = "is not an index of tokens", "TNTIDX, version 1, integers"
        remedy = "--from-opt dtype=NAME (uint16, int32, int64) states what the tokens are"
        raise UnsupportedError(index.path, what, expected=expected, found=stated, remedy=remedy)
    columns = Columns(
        OLD.size,
        dimensions=("<i8", count + 1),
        begins=("<i8", count + 1),
        sizes=("<i8", head["sizes"]),
        document_indices=("<i8", head["documents"]),
    )
    if not head["documents"] and index.size == columns.end - 8:  # It has no number of documents.
        what = "is a TNTIDX index of fairseq, whose stored IDs are one above those of its dictionary"
        ids = f"numpy.fromfile('{printable(data.path.name)}', '{np.dtype(kind).str}') - 1"
        remedy = f"{ids} are the IDs: save them as .npy, which tokfmt reads"
        raise UnsupportedError(index.path, what, remedy=remedy)
    if index.size != columns.end:
        raise TruncatedError(index.path, "the size of the index", expected=columns.end, found=index.size)
    bounded_entries(index.path, max(count, head["sizes"], head["documents"]), data)
    begins = columns.read(index, "begins")
    dtype = np.dtype(kind)
    extent, sizes = stated_tokens(data, np.dtype(options.dtype or dtype), int(begins[-1]), "TF604")
    if options.dtype is None and (other := fitting_width(data.size, int(begins[-1]), dtype.itemsize)) is not None:
        sizes = [_contradicted(data, index, options, dtype, other)]
    if len(wrong := np.flatnonzero(np.diff(begins, prepend=0) < 0)) or begins[0]:
        k = int(wrong[0]) if len(wrong) else 0
        what, at, found = f"the start of item {k:,}", columns.at("begins", k), int(begins[k])
        sizes = [fatal("TF604", CorruptError(index.path, what, offset=at, expected="from 0 up", found=found))]
    elif head["sizes"] != count or (columns.read(index, "sizes") != np.diff(begins)).any():
        error = CorruptError(index.path, "the sizes are not those of its items", offset=columns.at("sizes", 0))
        sizes = [fatal("TF604", error)]
    starts, inner, marked = _marked(index, columns, begins, by_document=options.unit == "documents")
    header = OLD.part(f"header of {index.path.name}", index)
    return replace(_documents(extent, starts, [*sizes, *marked], header), inner=inner)


class Blended(NamedTuple):
    """A prefix of a blend list."""

    # its share of the samples, before normalization to a sum of 1; None if the list has no weights
    weight: float | None
    prefix: str  # the prefix, as written


def read_blend(path: Place, split: str = "train") -> list[Blended]:
    """Return the prefixes of a blend list, in its order. Of a list with splits, return those of `split`.

    data args file (--data-args-path)      text: `weight prefix weight prefix ...` or `prefix prefix ...`
    --per-split-data-args-path             JSON: {"train": [...], "valid": [...], "test": null}, of the same words

    White space separates words, so a prefix cannot contain a space. If the number of words is odd, all are prefixes.
    If it is even, the words 1, 3, 5 ... are weights if all of them are numbers, and prefixes if none is. Upstream reads
    `1 a b c` as four prefixes and accepts nan as a weight; tokfmt refuses both.

    Source: NVIDIA/Megatron-LM d98e8a64, megatron/core/datasets/utils.py (get_blend_from_list), run.
    """
    file = open_file(path)
    if file.size > LARGEST_LIST:
        raise CorruptError(path, "bytes of a blend list", expected=f"at most {LARGEST_LIST:,}", found=f"{file.size:,}")
    try:
        text = file.read(0, file.size).decode()
    except UnicodeDecodeError as error:
        raise CorruptError(path, "is not a blend list", found=str(error)) from error
    finally:
        file.close()
    listed = text.lstrip().startswith("{")
    words = _of_split(path, parsed_object(path, text.encode()), split) if listed else text.split()
    numbers = [_number(word) for word in words]
    paired = len(words) % 2 == 0 and all(number is not None for number in numbers[::2])
    prefixes = words[1::2] if paired else words
    if nameless := next((word for word in prefixes if not Path(word).name), ""):
        raise CorruptError(path, "a prefix", expected="the name of files without their suffix", found=nameless)
    if wrong := next((word for word in prefixes if _number(word) is not None), ""):
        remedy = "Write a weight before each prefix, or before none"
        raise CorruptError(path, "weights and prefixes do not alternate", found=f"{wrong} as a prefix", remedy=remedy)
    weights = numbers[::2] if paired else [None] * len(words)
    weighed = [(word, weight) for word, weight in zip(words[::2], weights, strict=False) if weight is not None]
    if bad := next((word for word, weight in weighed if not 0 <= weight < math.inf), ""):
        raise CorruptError(path, "a weight", expected="a finite number, 0 or more", found=bad)
    return [Blended(weight, prefix) for weight, prefix in zip(weights, prefixes, strict=True)]


def likely_prefixes(head: bytes) -> list[str]:
    """Return the first words of a text that may be prefixes of a blend list."""
    listed = head.lstrip().startswith(b"{")
    if b"\0" in head or (listed and b'"train"' not in head):
        return []
    # Quotes and brackets separate words only in JSON. In a recipe they stay in the words, which then match no prefix.
    words = map(os.fsdecode, re.findall(rb"[^\s\"\[\]{},:]+" if listed else rb"\S+", head)[:_WORDS])
    return [word for word in words if Path(word).name and len(word) <= _LONGEST]


def located(path: Place, prefix: str) -> Place:
    """Return the path of a prefix of a list: in the directory of the list, or in the working directory.

    Upstream resolves prefixes in the working directory. tokfmt does so if only that directory holds the index, or a
    file of that name that recipes read, and the list is a local file.
    """
    if not path.is_local:
        return place_named(path, prefix)
    beside, here = path.parent / prefix, LocalPlace(prefix).asking(path.listing)
    tested = ((place, there) for there in (_is_indexed, _is_there) for place in (beside, here))
    return next((place for place, there in tested if there(place)), beside)


def _is_there(place: Place) -> bool:
    with suppress(OSError, ValueError):
        return place.exists()
    return False


def _is_indexed(prefix: Place) -> bool:
    """Return whether PREFIX.idx is a file. If the name is too long or the path cannot be inspected, it is not."""
    with suppress(OSError):
        return _index_of(prefix).is_file()
    return False


def _index_of(prefix: Place) -> Place:
    return prefix.parent / f"{prefix.name}.idx"


def _of_split(path: Place, listed: Mapping[str, Any], split: str) -> list[str]:
    found = listed.get(split)
    if not set(SPLITS) <= set(listed) or split not in SPLITS:
        what = "is not a list of splits" if split in SPLITS else f"has no split {split!r}"
        raise FormatError(path, what, expected=", ".join(SPLITS), found=", ".join(list(listed)[:4]))
    words = found.split() if isinstance(found, str) else [] if found is None else found
    if not isinstance(words, list) or not all(isinstance(word, (str, int, float)) for word in words):
        raise CorruptError(path, f"the words of {split}", expected="a list of texts", found=type(found).__name__)
    return [str(word) for word in words]


def _number(word: str) -> float | None:
    try:
        return int(word) if word.isdecimal() and len(word) <= _DIGITS else float(word)
    except ValueError:
        return None


FORMAT = Megatron()
