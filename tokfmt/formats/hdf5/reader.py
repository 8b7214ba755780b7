"""Read HDF5 datasets: choose the reader for their kind, and infer what no attribute states."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import loss_in
from tokfmt.core.format import Hints
from tokfmt.core.reader import Damage, Info, Layout, Separators, TokenReader, windows
from tokfmt.core.rows import ROWS, Continuation
from tokfmt.errors import CorruptError, Loss, TruncatedError, UnsupportedError
from tokfmt.files.place import Place
from tokfmt.formats.hdf5.beginning import FIRST, SampledRows, is_long, row_bytes, spread_samples
from tokfmt.formats.hdf5.files import Params, follow_by_name
from tokfmt.formats.hdf5.options import PARAMS, ReadOptions
from tokfmt.formats.hdf5.problems import AS_SAMPLES, goes_on, pad_id_of
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
from tokfmt.formats.hdf5.stored import Hdf5File, WriterAttributes
from tokfmt.formats.hdf5.stride import chained, continued, join, judge, pieces_of, scan_segments
from tokfmt.formats.hdf5_arrays.table import Rows
from tokfmt.model.select import Beginning
from tokfmt.wording import counted

_STRIDES = "Give --from-opt stride=overlap|disjoint|bos|per-document"
_ENDS_NEEDED = 4  # padded samples that must end with the same ID to infer the separator


@dataclass(frozen=True, slots=True)
class Opening:
    """All opened files of a dataset, with the options and the facts found so far."""

    place: Place  # path as given, for messages
    files: list[Hdf5File]  # opened files, in the order of reading
    stated: list[WriterAttributes | CorruptError | None]  # what the attributes of each state; see `problems.stated_by`
    groups: list[int]  # number of files of each stream
    options: ReadOptions  # options of reading
    hints: Hints  # hints of the caller
    params: Params  # contents of `data_params.json`
    notes: list[str]  # see `reader.Info`; more are appended while the dataset is opened
    inferred: list[str]  # see `reader.Info`; more are appended while the dataset is opened
    damage: tuple[Damage, ...] = ()  # see `reader.Info`
    lost: list[Loss] = field(default_factory=list)  # see `reader.Info`; more are appended while the dataset is opened

    def own(self) -> list[WriterAttributes | None]:
        """Return the attributes that tokfmt wrote in each file; None without, or if options override them."""
        if self.options.stride != "auto":
            return [None] * len(self.files)
        valid = [None if isinstance(stated, CorruptError) else stated for stated in self.stated]
        if self.options.mask == "auto":
            return valid
        return [own if own is not None and own.stride == ROWS else None for own in valid]

    def separator(self, own: WriterAttributes | None) -> tuple[int | None, str]:
        """Return the separator that is known before samples are inspected, and its origin."""
        if self.hints.no_eos:
            return None, ""
        if self.hints.eos_id is not None:
            return self.hints.eos_id, "--eos or manifest"
        if own is not None and (own.eos_id is not None or own.stride == ROWS):
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
            odd=(masks.count, masks.first),
            loss_masks=loss_masks,
            segmented=segmented,
            extras=dict(files=len(self.files), **extras),
            damage=self.damage,
        )


def reader_of(opening: Opening) -> TokenReader:
    """Return the reader of the stored axis of inspected files, none of which has a fatal problem."""
    options, hints = opening.options, opening.hints
    first = opening.files[0]
    rows = Rows([stored.table for stored in opening.files], hints.jobs, few=hints.few_sequences)
    if first.rank == 1:
        reader = _corpus(opening, rows)
        return _cut(opening, reader) if opening.damage else reader
    if options.view == "samples":
        return _rows_as_stored(opening, rows)
    reader = _packed(opening, rows) if rows.fields == 5 else _samples(opening, rows)
    return _cut(opening, reader) if opening.damage else reader


def _cut(opening: Opening, reader: TokenReader) -> TokenReader:
    """Return a cut stream, whose last document is not complete."""
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
    own = opening.own()  # invalid attributes do not change rows that are read as stored
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
    mask = "loss" if all(own) or rows.fields == 5 else "auto"
    if own[0] is not None and own[0].stride == ROWS:
        info = replace(info, extras={**info.extras, "stride": ROWS})
    return kind(rows, info, mask if opening.options.mask == "auto" else opening.options.mask, _filled(rows, own))


def _filled(rows: Rows, own: Sequence[WriterAttributes | None]) -> Mapping[int, int] | None:
    """Return the positions before the padding of the last sample of each stream, as attributes of tokfmt state them.

    Returns:
        Positions by the number of the sample; None if another writer made a file, or if rows are no windows.
    """
    filled_in = dict[int, int]()
    for facts, (start, stop) in zip(own, pairwise(rows.starts.tolist()), strict=False):
        if facts is None or facts.stride == ROWS:
            return None
        before = (stop - start - 1) * (rows.width + (facts.stride == "disjoint"))
        filled = facts.stream_tokens - facts.first_token - before - 1  # The last token is a label alone.
        if start < stop and filled < rows.width:
            filled_in[stop - 1] = max(0, filled)
    return filled_in


def _as_stream(runs: Runs | Corpus, ends: NDArray[np.integer] | None = None) -> TokenReader:
    """Return runs as one stream if the separator is known; otherwise the runs, which only a separator could split.
    `ends` has the last token of each run but the last; None: they are read.
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
    written = [facts for facts in own if facts is not None]
    stated = {facts.stride for facts in written}
    if ROWS in stated:
        _check_all_rows(opening, own)
        return _rows_as_stored(opening, rows)
    if len(written) == len(own):
        return _own_samples(opening, rows, written)
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
    """Facts that were inferred from samples."""

    inverted: bool  # True if 1 in the mask row means padding
    stride: str  # name of the way in which samples continue each other; see `stride`
    separator: tuple[int | None, str]  # separator, None if unknown, and its origin


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
    their masks need all samples and stay unknown.
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
        elif opening.options.order == "given" or follow_by_name(before, after):
            opening.inferred.append(f"the samples of {before.parent} continue in {after.parent}: they share a token")
        else:
            raise torn(before, after)
    return groups[[*kept, len(groups) - 1]]


def _own_samples(opening: Opening, rows: Rows, own: list[WriterAttributes]) -> TokenReader:
    """Return a reader of samples that tokfmt wrote, whose attributes state their positions in the stream."""
    opens = _opens(opening, own)
    ends = [facts.stream_tokens - facts.first_token for facts in own]
    pieces = chained(rows.starts, rows.width, rows.width + (own[0].stride == "disjoint"), ends, opens)
    separator = opening.separator(own[0])
    masked = any(facts.first_mask is not None for facts in own)
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
        return _as_stream(MaskedRuns(rows, pieces, [facts.first_mask for facts in own], info=info, padding=padding))
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
    pairs = zip(opening.files, own, strict=True)
    others = [stored.path.name for stored, facts in pairs if not facts or facts.stride != ROWS]
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
    """
    if opening.options.stride != "auto":
        return opening.options.stride
    shown = judge(rows, scan, groups)
    if shown.how == "shuffled" and "order" not in opening.hints.allow_loss:
        raise UnsupportedError(
            opening.place,
            f"its samples were shuffled ({shown.why}), so documents cannot be restored",
            remedy="--allow-loss order reads the tokens of each sample as stored, --from-opt view=samples the rows",
        )
    if shown.how == "shuffled":
        what = f"the order of {counted(len(rows), 'sample')}, from sample 0 on: each is read as stored"
        opening.lost.append(loss_in(opening.place, "order", what))
    if shown.how in ("few", "mixed"):
        raise UnsupportedError(
            opening.place,
            f"its samples do not show how they continue each other ({shown.why})",
            remedy=f"{_STRIDES}; {AS_SAMPLES}",
        )
    if shown.how == ROWS and closed and not opening.hints.no_eos:
        why = f"{shown.why}, and all padded samples end with the same ID"
        shown = Continuation("per-document", why)
    opening.inferred.append(_worded_stride(shown))
    return shown.how


def _worded_stride(shown: Continuation) -> str:
    """Return a sentence with the inferred stride and the option that overrides it."""
    if shown.how == ROWS:
        joins = f"--from-opt stride={shown.joins} joins them"
        return f"each sample is a sequence: nothing shows that samples continue each other ({shown.why}); {joins}"
    return f"samples are {_WORDS[shown.how]}: {shown.why} (--from-opt stride=NAME overrides)"


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
