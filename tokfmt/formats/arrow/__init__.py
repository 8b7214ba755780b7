"""Parquet and Arrow: a column of token IDs, a column of text, or packed rows; each row is one sequence or document.

    container         signature                                unit of reading
    parquet           PAR1 ... footer, u4 its length, PAR1     row group
    arrow, stream     FFFFFFFF, u4 length, schema ... marker   record batch
    arrow, file       ARROW1\\0\\0, messages, footer, ARROW1     record batch
    save_to_disk      state.json lists the streams in order; dataset_dict.json lists a folder for each split
    folder of files   *.parquet, *.pq, also below data/; SPLIT-00000-of-00002.parquet has its split in the name

    column            type                                     content
    input_ids         list<int32>; any list of any integer     token IDs; also tokens, token_ids, ids, or the given
    text              string, in any of Arrow's forms          a document; else the only string column, or the given
    messages          list<struct<role, content>>              a chat; also conversations: list<struct<from, value>>
    prompt            string, or list<struct<role, content>>   with completion, of the same type; only that is trained
    loss_mask         list<int8>                               packed rows of Megatron-Bridge: 1 if the next counts
    seq_start_id      list<int32>                              packed rows: position in the row where each part begins
    labels            list<int>                                aligned with the tokens, not shifted; -100 does not count
    completion_mask   list<int>                                TRL: 1 if the token itself counts; also assistant_masks
    position_ids      list<int>                                packed rows: from 0 in each document
    seq_lengths       list<int>                                packed rows: the length of each document
    attention_mask    list<int>                                0 where the tokenizer padded a row

- A column loss_mask without seq_start_id can speak of each token, or of the token after it. The option `loss_mask`
  states which. Without it, the column is not read, which is a loss (`loss-mask`).
- Labels and masks of a row must count the same IDs; the option `loss_mask` chooses one of them, or `all`.
- Positions at either end of a row that `attention_mask` excludes are padding, and are left out. One inside of a row is
  a token that does not count in the loss. Notes have their numbers. With `view=samples`, rows stay as they are stored,
  and padding is marked.
- The label of the first token of a document counts, unless rows are read as samples (`view=samples`). Where documents
  are joined, that token is the label of the token before it. A -100 there is a loss mask, as in flat-tokens formats.
- A NULL row is not an empty row. tokfmt refuses it with its number. With `--allow-loss null-rows`, tokfmt reads it as
  an empty row, and a note has their number.
- The writer stores the loss masks of the source as labels, and the separators of such a source as tokens with labels.
  The schema states the separator. Beside labels of samples, it stores position_ids if one holds several documents, and
  attention_mask if one holds padding. Rows without labels that held several documents get position_ids alone.
- With `pack_size`, it writes packed rows of Megatron-Bridge. Their mask describes the next token, so the first token of
  a document is not a label, and no document has a separator.
- The samples of a recipe become such rows with `pack_size=SEQ_LEN`. Each part of a sample is stored as the recipe
  cuts it, without padding, followed by the token that is its last label if that label counts. Read as documents, such
  parts overlap by that token. Separators that do not count are refused (`--allow-loss masked-separators`); with
  `seq_len` they have labels like other tokens.
- In a file of Arrow with one column of integers, input_ids, tokens, token_ids or ids, each record batch is a document,
  as fms-fsdp and data-prep-kit have them.
- Columns that are not read are not decoded and may be of any type.
- A stream must have its end marker: without it, batches that a cut removed would go unnoticed.
- A file is read by its footer, as upstream reads it: nothing has to stand before the first batch that it lists.
- The writer stores int32 (or `dtype`) in row groups of 1 Mi tokens, compressed with zstd, or a folder of streams as
  `save_to_disk` makes it. The bytes depend on the version of pyarrow, which the footer of Parquet records.

Source: runs of pyarrow 26, datasets 5.2 and Megatron-Bridge 067f987d data/packing.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from tokfmt.base.options import LazyAttribute
from tokfmt.core.findings import Code
from tokfmt.core.format import Confidence, Format, Hints, Probe, Target, WriterTraits
from tokfmt.core.inspection import Inspection
from tokfmt.errors import CorruptError, FormatError, UnsupportedError
from tokfmt.files.file import names_in, natural_key, open_file
from tokfmt.files.place import Place
from tokfmt.files.splits import splits_of
from tokfmt.formats.arrow.container import begins_old
from tokfmt.formats.arrow.options import Found, ReadOptions, WriteOptions
from tokfmt.formats.folders import inside, json_object
from tokfmt.wording import printable

_SHARD = re.compile(r"(.+?)-(\d{5})-of-(\d{5})(?:-\w+)?\.(?:parquet|pq)")
_LARGEST_JSON = 1 << 24
_OF_TABLES = re.compile(r"\d{5}-[\d-]*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-")
"""The number and the UUID in names of the files of Delta Lake, Iceberg and Spark."""
_PARTITIONS = 16  # directories such as `day=1` above a file
_READS_TABLE = {
    "Delta Lake": "deltalake.DeltaTable(PATH).to_pyarrow_table() reads it; pyarrow.parquet.write_table writes Parquet",
    "Iceberg": "StaticTable.from_metadata(PATH).scan().to_arrow() of pyiceberg reads it; pyarrow.parquet.write_table "
    "writes Parquet",
}


class Columnar(Format):
    """The common part of Parquet and Arrow: options, opening, writing, findings and sections."""

    hundred: ClassVar[int]
    Container: Any
    Writer: Any
    joins_files = numbers_files = True
    stores = "sequences in order, empty ones too; IDs up to 2^31-1 (2^32-1 with dtype=uint32)"
    cannot_store = "other columns; empty sequences and long ones in packed rows"
    read_options, write_options = ReadOptions, WriteOptions

    @abstractmethod
    def find(self, path: Place, split: str | None = None) -> Found:
        """Return the files of a dataset, in order; of a folder with several splits, those of one split."""

    def files(self, path: Place) -> list[Place]:
        try:
            found = self.find(path)
            more = [self.find(path, other) for other in found.others]
        except FormatError:
            return [path] if not path.is_dir() else []
        every = [file for one in (found, *more) for file in (*one.files, *one.metadata_files)]
        return sorted(dict.fromkeys(every), key=lambda file: natural_key(file.as_posix()))

    def inspect(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> Inspection:
        from tokfmt.formats.arrow.inspection import inspect

        return inspect(self, paths, options, hints)

    def writer(self, path: Path, options: WriteOptions, target: Target) -> Any:
        return self.Writer(path, options, target)

    def writer_traits(self, options: WriteOptions) -> WriterTraits:
        from tokfmt.formats.arrow.writer import traits

        return traits(options, self.Writer.suffixes)

    def codes(self) -> Mapping[str, Code]:
        return {f"TF{self.hundred + int(number)}": code for number, code in super().codes().items()}

    def sections(self, path: Place, options: ReadOptions) -> Sequence[Any]:
        from tokfmt.formats.arrow.check import sections

        return sections(self, path, options)


class Parquet(Columnar):
    """Parquet: one file, or a folder of files whose names may state the split."""

    name = "parquet"
    title = "Parquet: token IDs, packed rows, or text"
    extensions = (".parquet", ".pq")
    has_splits = True
    hundred = 660
    Container = LazyAttribute("tokfmt.formats.arrow.container", "ParquetContainer")
    Writer = LazyAttribute("tokfmt.formats.arrow.writer", "ParquetWriter")

    def sniff(self, probe: Probe) -> Confidence | None:
        if not probe.is_directory:
            return Confidence.CERTAIN if probe.head.startswith(b"PAR1") else None
        if _log_of(probe.path, probe.entries):
            return Confidence.CERTAIN  # opening refuses it by name
        data = probe.path / "data"
        names = [*probe.entries, *(names_in(data) if "data" in probe.entries and data.is_dir() else ())]
        return Confidence.STRUCTURE if any(name.endswith((".parquet", ".pq")) for name in names) else None

    def find(self, path: Place, split: str | None = None) -> Found:
        _refuse_table(path)
        if not path.is_dir():
            shard = _SHARD.fullmatch(path.name)
            _refuse_split(path, split, shard[1] if shard else None)
            return Found([path])
        home, names = path, _named(path, ".parquet", ".pq")
        if not names and (path / "data").is_dir():
            home, names = path / "data", _named(path / "data", ".parquet", ".pq")
        if not names:
            raise FormatError(path, "holds no *.parquet")
        files, shards = [home / name for name in names], [_SHARD.fullmatch(name) for name in names]
        splits: dict[str, list[Place]] = {}
        for file, shard in zip(files, shards, strict=True) if all(shards) else ():
            splits.setdefault(shard[1] if shard else "", []).append(file)
        named = splits or splits_of(home, files)
        if len(named) < 2 and not splits:
            _refuse_split(path, split, next(iter(named), None))
            return Found(files)
        chosen = _chosen(path, split, list(named))
        others = tuple(name for name in named if name != chosen)
        return Found(list(named[chosen]), chosen if others else None, others)


class Arrow(Columnar):
    """Arrow IPC: one file or stream, or a folder that `save_to_disk` of `datasets` made."""

    name = "arrow"
    title = "Arrow IPC, and datasets that Hugging Face saved to disk"
    extensions = (".arrow",)
    entries = ("state.json", "dataset_info.json", "dataset_dict.json")
    hundred = 680
    Container = LazyAttribute("tokfmt.formats.arrow.container", "ArrowContainer")
    Writer = LazyAttribute("tokfmt.formats.arrow.writer", "ArrowWriter")

    def sniff(self, probe: Probe) -> Confidence | None:
        if not probe.is_directory:
            length = int.from_bytes(probe.head[4:8], "little")
            stream = probe.head[:4] == b"\xff\xff\xff\xff" and 16 <= length <= probe.size - 8 and length % 8 == 0
            if stream or probe.head.startswith(b"ARROW1\0\0"):
                return Confidence.CERTAIN
            return Confidence.STRUCTURE if begins_old(probe.head) else None  # opening refuses it by name
        if "dataset_dict.json" in probe.entries or {"state.json", "dataset_info.json"} <= set(probe.entries):
            return Confidence.CERTAIN
        return Confidence.STRUCTURE if any(name.endswith(".arrow") for name in probe.entries) else None

    def find(self, path: Place, split: str | None = None) -> Found:
        if not path.is_dir():
            _refuse_split(path, split)
            return Found([path])
        if (named := path / "dataset_dict.json").is_file():
            splits = [inside(path, name).name for name in _listed(named, "splits")]
            if missing := next((name for name in splits if not (path / name).is_dir()), ""):
                what = f'lists the split "{printable(missing)}", which is missing'
                raise CorruptError(named, what, remedy="Copy it again, or take it out of the list")
            chosen = _chosen(path, split, splits)
            one = self.find(path / chosen)
            return Found(one.files, chosen, tuple(s for s in splits if s != chosen), (named, *one.metadata_files))
        _refuse_split(path, split)
        if (state := path / "state.json").is_file():
            listed = _listed(state, "_data_files")
            files = [inside(path, one.get("filename") if isinstance(one, dict) else one) for one in listed]
            info = path / "dataset_info.json"
            return Found(files, None, (), (state, info) if info.is_file() else (state,))
        every = _named(path, ".arrow")
        names = [name for name in every if not name.startswith("cache-")]
        if not names:
            what, remedy = "holds only intermediate results of Hugging Face's datasets", "Name one of them"
            raise FormatError(path, what, found=printable(", ".join(every[:8])), remedy=remedy)
        if (path / "dataset_info.json").is_file():
            raise FormatError(state, "no such file, although dataset_info.json exists", remedy="Give the *.arrow files")
        return Found([path / name for name in names])


def _named(directory: Place, *suffixes: str) -> list[str]:
    found = (name for name in names_in(directory) if name.endswith(suffixes) and not name.startswith("."))
    return sorted((name for name in found if (directory / name).is_file()), key=natural_key)


def _log_of(directory: Place, names: Collection[str]) -> str:
    """Return the kind of the table that a directory is, if something beside its files says which of them count."""
    if "_delta_log" in names:
        return "Delta Lake"
    below = directory / "metadata"
    held = names_in(below) if {"metadata", "data"} <= set(names) and below.is_dir() else ()
    return "Iceberg" if any(name.endswith(".metadata.json") for name in held) else ""


def _refuse_table(path: Place) -> None:
    """Refuse a table of Delta Lake or Iceberg, and a file or a partition of one: others in it may have replaced it."""
    is_file = not path.is_dir()
    if is_file and not _OF_TABLES.search(path.name):
        return
    at = path.parent if is_file else path
    for _ in range(_PARTITIONS):
        kind = _log_of(at, names_in(at)) if at.is_dir() else ""
        if kind:
            what = f"is {'in ' * (at != path)}a table of {kind}, whose own records say which files count"
            raise UnsupportedError(path, what, remedy=_READS_TABLE[kind])
        if "=" not in at.name and at.name != "data":
            return
        at = at.parent


def _refuse_split(path: Place, split: str | None, stated: str | None = None) -> None:
    """Raise FormatError if a split was given and is not that of the files, which may state none."""
    if split is not None and split != stated:
        remedy = "Leave out --split" if stated else "Its files state no split. Leave out --split"
        raise FormatError(path, f"holds no split {split}", found=stated, remedy=remedy)


def _chosen(path: Place, split: str | None, splits: Sequence[str]) -> str:
    """Return the split to read: the given one, else "train", else the first."""
    if not splits or (split is not None and split not in splits):
        raise FormatError(path, f"holds no split {split or 'at all'}", found=", ".join(splits) or None)
    return split or ("train" if "train" in splits else splits[0])


def _listed(path: Place, key: str) -> list[Any]:
    """Return the list under a key of a JSON file; raise CorruptError if it is missing or empty."""
    found = json_object(open_file(path), _LARGEST_JSON).get(key)
    if not isinstance(found, list) or not found:
        raise CorruptError(path, f'has no list "{key}"{", or an empty one" if found == [] else ""}')
    return found


PARQUET = Parquet()
ARROW = Arrow()
