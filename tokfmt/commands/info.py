"""Identify a dataset (`tokfmt info`): format, layout, counts, separator, tokenizer, manifest and first words.

The time does not depend on the number of tokens. At most its headers, its index, its first tokens and a few ends of
sequences are read. A fact that would take more is taken from the manifest, or it is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokfmt.core.losses import READS
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import Info, TokenReader, largest_id, windows
from tokfmt.core.records import RecordReader
from tokfmt.errors import CorruptError, TruncatedError
from tokfmt.files.file import names_in
from tokfmt.files.listing import Listing
from tokfmt.files.place import LocalPlace
from tokfmt.model.batch import LEAD
from tokfmt.model.readers import ContentReader
from tokfmt.runs.frameworks import framework_of
from tokfmt.source.content import Manifest
from tokfmt.source.manifest import extent
from tokfmt.source.open import advising, counted, find_one, open_dataset
from tokfmt.source.request import Reading, SourceFiles, SourceRequest
from tokfmt.source.stored import Source, contents_of, likely_separator, tokenizer_of
from tokfmt.text.tokenizer import TokenizerHandle
from tokfmt.wording import html_table, shortened

_COUNTED = 1 << 20
"""Tokens of a stream up to which its sequences are counted, and of any dataset whose largest ID is searched."""
_FIRST = 1 << 16
"""Tokens at the start of a larger dataset that are read."""
_RECORDS, _PACKED = 1 << 22, 1 << 18
"""Bytes of records up to which they are counted; of compressed records."""
_ONE = 1 << 24
"""Bytes of the first record up to which it is read."""
_FILES = 10_000
"""Files whose sizes are added up."""
_QUICK = 1 << 22
"""Bytes of the tokenizer.json that a manifest names, up to which it is loaded without being asked for."""
_IDS, _CHARACTERS = 32, 200  # of the first sequence
_NAMED = 3  # sources of the manifest
_LOOKED, _NEAR = (
    16,
    1 << 14,
)  # Sequences at each end, and tokens of a stream, of which the first and last IDs are looked at.


@dataclass(frozen=True, slots=True)
class Written:
    """The origin of a dataset, as its manifest states it.

    Attributes:
        path: The manifest.
        tokfmt: The version of tokfmt that wrote the dataset; None if it is not stated.
        sources: The first three sources.
        more_sources: The number of other sources.
    """

    path: str
    tokfmt: str | None
    sources: tuple[str, ...]
    more_sources: int


@dataclass(frozen=True, slots=True)
class End:
    """The ID that most sequences begin, or end, with.

    Attributes:
        id: The ID.
        share: The share of the sequences that begin (end) with it, of those that were looked at and are not empty.
        looked: The number of sequences that were looked at.
    """

    id: int
    share: float
    looked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The facts that identify a dataset.

    Attributes:
        path: The path of the dataset.
        format: The name of its format.
        title: The title of its format.
        layout: "documents", "samples", "stream", "text" or "token IDs". The last two are records.
        extras: Facts of the format.
        files: The number of its files.
        size_bytes: Their size in bytes; None for more than 10,000 files.
        sequences: The number of sequences; None if it is not known without reading the dataset.
        tokens: The number of tokens without separators, and of a run without padding; None if it is not known without
            reading the dataset.
        counts_from: "dataset", "manifest", "sample", or "" if the counts are not known.
        stored_tokens: The number of tokens with separators, as they are stored; None for records.
        samples: The number of samples of one length that the dataset is stored in; None without such samples.
        sample_length: Tokens per sample; None without samples of one length.
        padding: The number of stored positions that hold padding; None if they were not counted.
        columns: What the columns beside token IDs state, in numbers by name; None if they were not counted.
        dtype: The dtype of the token IDs; None for records.
        max_id: The largest token ID, which may be the separator; None if no ID is known.
        max_id_from: "dataset", "manifest", "sample", or "N tokens" for the first tokens that were read; "" if no ID is
            known.
        first, last: What the first and the last sequences begin (with a lead) and end with, separators aside; None if
            it was not looked at.
        written: When the newest of its files was written, as "2026-11-29T09:30:00Z"; None in a store, and if
            one dataset alone is asked for.
        eos_id: The separator; None without one, or if it is not known.
        eos_from: The origin of the separator.
        eos_seen: How many of the sequences that were looked at end with it, or how many of the first tokens of a
            stream are not it, in words; "" if none was looked at.
        separators: Where separators are stored: "none", "trailing", "between", "after" or "before"; None for records.
        tokenizer: `name` and `digest` of the tokenizer that made the token IDs, by the manifest; None if not stated.
        manifest: The manifest; None without one.
        ids: The first token IDs of the first sequence that has any; None for text.
        text: The first words of the first sequence; None without a tokenizer on this machine.
        fields: The fields of the first record of JSON lines, or the columns of a table; empty for another dataset.
        notes: Sentences on what tokfmt inferred, and on defects.
    """

    path: str
    format: str
    title: str
    layout: str
    extras: Mapping[str, object]
    files: int
    size_bytes: int | None
    sequences: int | None
    tokens: int | None
    counts_from: str
    stored_tokens: int | None = None
    samples: int | None = None
    sample_length: int | None = None
    padding: int | None = None
    columns: Mapping[str, int] | None = None
    dtype: str | None = None
    max_id: int | None
    max_id_from: str
    first: End | None = None
    last: End | None = None
    written: str | None = None
    eos_id: int | None
    eos_from: str
    eos_seen: str
    separators: str | None = None
    tokenizer: Mapping[str, str] | None
    manifest: Written | None
    ids: tuple[int, ...] | None
    text: str | None = None
    notes: tuple[str, ...]
    fields: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return a table with a row per known fact, for notebooks."""
        counts = {"files": self.files, "samples": self.samples, "sequences": self.sequences, "tokens": self.tokens}
        rows: list[tuple[str, object]] = [("format", f"{self.format}, {self.layout}"), *counts.items()]
        rows += [
            ("dtype", self.dtype),
            ("largest ID", self.max_id),
            ("separator", None if self.eos_id is None else str(self.eos_id)),
        ]
        rows += [("tokenizer", (self.tokenizer or {}).get("name")), ("fields", ", ".join(self.fields) or None)]
        rows += [("first IDs", " ".join(map(str, self.ids)) if self.ids else None), ("first words", self.text)]
        stated = [(name, value) for name, value in rows if value is not None]
        return html_table(f"info {self.path}", ("fact", "value"), stated, self.notes)


def info(asked: SourceRequest, tokenizer: str | None = None) -> Overview:
    """Identify a dataset of any size without reading all of it; `tokenizer` decodes the first token IDs."""
    handle = tokenizer_of(tokenizer)
    request = asked.accepting(READS["info"])
    with Listing() as listing:
        return overview(find_one(request, listing), request, handle)


def overview(datasets: Sequence[SourceFiles], request: SourceRequest, handle: TokenizerHandle | None) -> Overview:
    """Return the facts of one dataset, of which `datasets` are the files."""
    try:
        reading = Reading(handle, few_sequences=True, max_sequences=1, as_stored=True)
        with advising(request):
            source = open_dataset(request, reading, datasets)
    except (TruncatedError, CorruptError) as error:
        error.add_note(f"It is read as {datasets[0].format.name}; tokfmt check --deep lists every problem")
        raise
    manifest = source.manifests[0] if len(datasets) == 1 and not request.ignore_manifest else Manifest({})
    extras = dict(source.reader.info.facts)
    try:
        if isinstance(source.reader, RecordReader):
            facts = _of_records(source, source.reader, manifest)
        else:
            facts = _of_tokens(source, source.reader, request, manifest)
            extras |= source.reader.info.masks
    finally:
        source.reader.close()
    if facts["ids"] and "text" not in facts and (decoder := handle or _quick_tokenizer(manifest)) is not None:
        words = decoder.decoder(lenient=True).decode(np.array(facts["ids"], np.uint32))
        facts["text"] = shortened(str(words), _CHARACTERS)
    listed = "; tokfmt browse lists the datasets in a directory"
    facts["notes"] = tuple(
        note + listed * (note.removeprefix("left out: ") in source.left_out)
        for note in (*facts["notes"], *_run_beside(source))
    )
    made, files = manifest.tokenizer, [file for dataset in datasets for file in dataset.files]
    return Overview(
        path=str(source.paths[0]),
        format=source.format.name,
        title=source.format.title,
        extras=extras,
        files=len(files),
        size_bytes=int(extent(files)["bytes"]) if len(files) <= _FILES else None,
        eos_id=source.separator.eos_id,
        eos_from=source.separator.source,
        tokenizer=None if made is None else {"name": str(made.get("name") or ""), "digest": str(made["digest"])},
        manifest=_written(manifest),
        **facts,
    )


def _run_beside(source: Source) -> list[str]:
    """Return a note on the order files of a training run beside a dataset on this machine."""
    place = source.paths[0]
    if not place.is_local or source.format.is_computed:
        return []
    folder = place if place.is_dir() else place.parent
    framework = framework_of(name for name in names_in(folder) if folder == place or name.startswith(f"{place.stem}_"))
    if framework is None:
        return []
    return [f"has order files of a run of {framework} beside it; tokfmt info {folder} --from run reads what it read"]


def _of_records(source: Source, records: RecordReader, manifest: Manifest) -> dict[str, Any]:
    """Return the facts of text, or of token IDs in records."""
    facts, values = records.info, _first_records(source, records)
    value = values[0] if values else None
    small = facts.size <= (_RECORDS if facts.random_access else _PACKED) and not source.format.is_computed
    count = facts.records if facts.records is not None or not small else records.count()
    stated = _stated_counts(source, manifest, facts.split)
    top = manifest.content.get("max_id")
    return {
        "layout": "text" if facts.is_text else "token IDs",
        "sequences": count if count is not None else stated.get("sequences"),
        "tokens": stated.get("tokens"),
        "counts_from": "dataset" if count is not None else "manifest" if stated else "",
        "max_id": top,
        "max_id_from": "" if top is None else "manifest",
        "first": _end_of([one[0] for one in values if isinstance(one, list) and one]),
        "last": _end_of([one[-1] for one in values if isinstance(one, list) and one]),
        "eos_seen": source.separator.seen,
        "ids": tuple(value[:_IDS]) if isinstance(value, list) else None,
        **({"text": shortened(value, _CHARACTERS)} if isinstance(value, str) else {}),
        "notes": source.notes,
        "fields": facts.fields,
    }


def _first_records(source: Source, records: RecordReader) -> Sequence[str | list[int]]:
    """Return the first record of text, or the first few of token IDs; none if the first is long, or for a recipe, whose
    texts do not exist yet.
    """
    wanted = 1 if records.info.is_text else _LOOKED
    if source.format.is_computed or not (count := min(wanted, records.count_up_to(wanted))):
        return ()
    block = records.blocks(1, 0, 1)[0]
    if records.info.random_access and block.stop - block.start > _ONE:
        return ()
    return [records.record(number) for number in range(count)]


def _of_tokens(source: Source, stored: TokenReader, request: SourceRequest, manifest: Manifest) -> dict[str, Any]:
    """Return the facts of a token axis. The sequences of a long stream are not counted."""
    about, eos_id = stored.info, source.separator.eos_id
    axis, notes = stored, source.notes
    divided = not about.separators.alone or (eos_id is not None and about.tokens <= _COUNTED)
    if divided:
        axis, decided = contents_of(source, stored)
        notes = (*notes, *decided)
        counted(source._replace(reader=axis), request)
    counts: Mapping[str, Any] = {}
    if divided and not axis.info.beginning:
        counts = {"sequences": axis.info.sequences, "tokens": axis.info.tokens}
    stated = _stated_counts(source, manifest, about.split, samples=about.is_samples)
    top, top_from = _largest(stored, manifest, computed=source.format.is_computed)
    seen, padding = source.separator.seen, stored.padding_counts()
    if not seen and eos_id is not None and about.separators.alone:
        head = stored.tokens(0, min(about.tokens, _FIRST))
        seen = "" if not len(head) or (head == eos_id).any() else f"not among the first {len(head):,} tokens"
    inserted = 0 if padding is None else padding.separators
    first, last = _ends_of(axis, stored, eos_id)
    within = stored.padding_within() if counts else 0
    if within != 0:
        counts = {**counts, "tokens": None if within is None else about.tokens - within}
    return {
        "layout": about.layout.value,
        "sequences": (counts or stated).get("sequences"),
        "tokens": (counts or stated).get("tokens"),
        "counts_from": "dataset" if counts else "manifest" if stated else "",
        "stored_tokens": about.beginning_of if about.beginning else about.tokens - inserted,
        **_samples(stored),
        **({"padding": within} if within != 0 else {}),
        "columns": about.columns,
        "dtype": str(about.dtype),
        "max_id": top,
        "max_id_from": top_from,
        "first": first,
        "last": last,
        "eos_seen": seen,
        "separators": about.separators.value,
        "ids": tuple(_first_ids(axis, eos_id).tolist()),
        "fields": about.fields,
        "notes": (*notes, *likely_separator(stored, source.separator)),
    }


def _samples(stored: TokenReader) -> dict[str, int | None]:
    """Return the number and the length of the samples that a stored axis is in, and their padding."""
    about, counts = stored.info, stored.padding_counts()
    if about.is_samples or counts is None:
        is_whole = about.is_samples and about.sample_length is not None and not about.beginning
        return {"samples": about.sequences if is_whole else None, "sample_length": about.sample_length}
    length = counts.sample_length
    samples = None if length is None else counts.positions // length
    return {"samples": samples, "sample_length": length, "padding": counts.padding}


def _stated_counts(
    source: Source, manifest: Manifest, split: str | None, *, samples: bool = False
) -> Mapping[str, Any]:
    """Return the counts of the manifest if it counts what is read here; else an empty mapping."""
    ids = source.separator.eos_id, source.bos_id
    same = manifest.content.get("format") == source.format.name and manifest.ids == ids
    return manifest.counts(split, samples=samples) if same else {}


def _largest(stored: TokenReader, manifest: Manifest, *, computed: bool) -> tuple[int | None, str]:
    """Return the largest token ID that is known, and its origin. The samples of a recipe are costly to read."""
    about, stated = stored.info, manifest.content.get("max_id")
    if about.max_id is not None:
        return about.max_id, "dataset"
    if isinstance(stated, int) and stated >= 0 and not computed:
        return stated, "manifest"
    read = min(about.tokens, _FIRST if computed or about.tokens > _COUNTED else _COUNTED)
    if not read:
        return None, ""
    top = max(largest_id(stored.tokens(a, b)) for a, b in windows(0, read))
    return top, "dataset" if read == about.tokens and not about.beginning else f"{read:,} tokens"


def _first_ids(axis: TokenReader, eos_id: int | None) -> Tokens:
    """Return the first token IDs of the first sequence that has any."""
    about: Info = axis.info
    head = axis.tokens(0, min(about.tokens, _FIRST))
    if about.separators.alone:
        inside = np.ones(len(head), np.bool_) if eos_id is None else head != eos_id
        start = int(np.argmax(inside)) if inside.any() else len(head)
        after = np.flatnonzero(~inside[start:])
        return head[start : start + int(after[0]) if len(after) else len(head)][:_IDS]
    bounds = axis.offsets(0, min(about.sequences, 1 << 10))
    ends = bounds[bounds > bounds[0]]
    return head[: int(ends[0] - bounds[0]) if len(ends) else 0][:_IDS]


def _ends_of(axis: TokenReader, stored: TokenReader, eos_id: int | None) -> tuple[End | None, End | None]:
    """Return what the first and the last sequences begin and end with; None for a stream without a separator.

    A lead, which is no content, begins its sequence all the same: `stored` has it.
    """
    about, starts, stops, read = axis.info, set[int](), set[int](), axis
    if not about.separators.alone:
        many = min(about.sequences, _LOOKED)
        for first, last in {(0, many), (about.sequences - many, about.sequences)}:
            if isinstance(axis, ContentReader) and axis.dataset.gap.lead is not None:
                begins, ends, beside = axis.dataset.contents(first, last)
                begins, read = begins - (beside & LEAD != 0), stored
            else:
                bounds = axis.offsets(first, last)
                begins, ends = bounds[:-1], bounds[1:]
            starts |= set(begins[ends > begins].tolist())
            stops |= set((ends - 1)[ends > begins].tolist())
    elif eos_id is not None:
        for a, b in {(0, min(about.tokens, _NEAR)), (max(0, about.tokens - _NEAR), about.tokens)}:
            inside = axis.tokens(a, b) != eos_id
            before, behind = np.append(a > 0, inside[:-1]), np.append(inside[1:], b < about.tokens)
            starts |= set((a + np.flatnonzero(inside & ~before)).tolist())
            stops |= set((a + np.flatnonzero(inside & ~behind)).tolist())
    return _end_of(_ids_at(read, starts)), _end_of(_ids_at(read, stops))


def _ids_at(axis: TokenReader, places: set[int]) -> list[int]:
    at = np.array(sorted(places), np.int64)
    ids: list[int] = axis.gather(at, np.ones(len(at), np.int64)).tolist()
    return ids


def _end_of(ids: Sequence[int]) -> End | None:
    """Return the commonest of the first (last) IDs of some sequences; None without any."""
    if not ids:
        return None
    most, count = Counter(ids).most_common(1)[0]
    return End(most, count / len(ids), len(ids))


def _quick_tokenizer(manifest: Manifest) -> Any:
    """Return the tokenizer of the manifest if its file is where the manifest states it, small and unchanged."""
    made = manifest.tokenizer
    if made is None or not isinstance(made.get("path"), str):
        return None
    place = LocalPlace(made["path"])
    with suppress(OSError, ImportError):  # an installation without dependencies has no tokenizers
        file = place / "tokenizer.json" if place.is_dir() else place
        if file.is_file() and file.status().size <= _QUICK:
            tokenizer = tokenizer_of(str(place), local=True)
            return tokenizer if tokenizer is not None and tokenizer.digest == made["digest"] else None
    return None


def _written(manifest: Manifest) -> Written | None:
    """Return the origin that a manifest states, whose values can have any type."""
    if not manifest.content:
        return None
    version, listed = manifest.content.get("tokfmt"), manifest.content.get("sources")
    sources = [str(one.get("path")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    more = manifest.content.get("more_sources")
    others = more.get("sources") if isinstance(more, dict) else 0
    rest = len(sources[_NAMED:]) + (others if isinstance(others, int) else 0)
    return Written(str(manifest.path), version if isinstance(version, str) else None, tuple(sources[:_NAMED]), rest)
