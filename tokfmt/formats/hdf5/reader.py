"""Open HDF5 datasets: which kind they are, what is known of them, and the reader that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Layout, Separators, TokenReader, frozen
from tokfmt.core.errors import CorruptError, UnsupportedError
from tokfmt.core.format import Hints
from tokfmt.formats.hdf5 import facts, order, vsl
from tokfmt.formats.hdf5.chunk_map import LARGEST_CHUNK
from tokfmt.formats.hdf5.container import Stored, open_stored
from tokfmt.formats.hdf5.join import chained, join
from tokfmt.formats.hdf5.options import ReadOptions
from tokfmt.formats.hdf5.rows import Rows
from tokfmt.formats.hdf5.runs import Corpus, Runs, Stream, Told
from tokfmt.formats.hdf5.samples import MaskedSamples, PackedSamples, Samples
from tokfmt.formats.hdf5.scan import Scan, Tally, scan_samples
from tokfmt.formats.hdf5.stride import Verdict, continued, judge

AS_SAMPLES = "--from-opt view=samples reads the rows as they are"
_STRIDES = "--from-opt stride=overlap|disjoint|bos|per-document says how they go on"
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
    """

    place: Path
    files: list[Stored]
    groups: list[int]
    options: ReadOptions
    hints: Hints
    params: facts.Params
    notes: list[str]
    inferred: list[str]

    def own(self) -> list[facts.Own | None]:
        """The attributes that tokfmt wrote in each file, unless the user knows better."""
        if self.options.stride != "auto" or self.options.mask != "auto":
            return [None] * len(self.files)
        return [facts.own(stored) for stored in self.files]

    def separator(self, own: facts.Own | None) -> tuple[int | None, str]:
        """The separator that is known before samples are looked at, and how."""
        if self.hints.no_eos:
            return None, ""
        if self.hints.eos_id is not None:
            return self.hints.eos_id, "--eos, tokenizer or manifest"
        if own is not None:
            return own.eos_id, "file attributes"
        return self.params.eos_id, facts.PARAMS if self.params.eos_id is not None else ""

    def told(
        self,
        layout: Layout,
        separator: tuple[int | None, str] = (None, ""),
        *,
        odd: Tally | None = None,
        sample_length: int | None = None,
        **extras: object,
    ) -> Told:
        """What the reader has to tell; documents of a stream lie between separators."""
        between = layout is Layout.STREAM and not self.hints.no_eos
        masks = odd or Tally()
        return Told(
            Layout.DOCUMENTS if layout is Layout.STREAM and not between else layout,
            Separators.BETWEEN if between else Separators.NONE,
            sample_length,
            *separator,
            tuple(self.inferred),
            tuple(self.notes),
            frozen(files=len(self.files), nonstandard_masks=masks.count, first_nonstandard=masks.first, **extras),
        )


def open_reader(paths: Sequence[Path], options: ReadOptions, hints: Hints) -> TokenReader:
    """The stored axis of a file, a directory, or several files.

    Raises:
        FormatError: They are not HDF5 datasets of one kind that can be read as asked.
    """
    opening = _opening(paths, options, hints)
    _check_alike(opening)
    first = opening.files[0]
    rows = Rows([stored.table for stored in opening.files])
    if first.rank == 1:
        return _corpus(opening, rows)
    if options.view == "samples":
        return _as_they_lie(opening, rows)
    if first.foreign:
        raise UnsupportedError(opening.place, f"holds {first.foreign}, not GPT samples", remedy=AS_SAMPLES)
    return _packed(opening, rows) if rows.fields == 5 else _samples(opening, rows)


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
    pad_id = facts.pad_id(opening.files[0], opening.params)
    told = opening.told(
        Layout.SAMPLES, opening.separator(own[0]), sample_length=rows.width, variant=variant, pad_id=pad_id
    )
    known = "loss" if all(own) or rows.fields == 5 else "auto"
    return kind(rows, told, known if opening.options.mask == "auto" else opening.options.mask)


def _opening(paths: Sequence[Path], options: ReadOptions, hints: Hints) -> Opening:
    files = order.files_of(paths)
    streams = order.arrange(files, options.order)
    arranged = [path for stream in streams for path in stream]
    inferred = []
    if len(paths) > 1 and arranged != files:
        inferred.append("files are read in the order of their numbers (--from-opt order=given keeps yours)")
    params = facts.params_beside(arranged)
    notes = [params.note] if params.note else []
    opened = [open_stored(path) for path in arranged]
    return Opening(paths[0], opened, [len(s) for s in streams], options, hints, params, notes, inferred)


def _check_alike(opening: Opening) -> None:
    """Files agree with each other, and sample files with their own attributes."""
    first = opening.files[0]
    for stored in opening.files:
        if stored.rank != first.rank or stored.shape[1:] != first.shape[1:] or stored.foreign != first.foreign:
            raise CorruptError(
                stored.path, f"does not fit {first.path.name}", expected=_worded(first), found=_worded(stored),
                remedy="Files of one dataset have rows of one shape; read them one by one",
            )  # fmt: skip
        row_bytes = stored.table.shape[1] * stored.table.shape[2] * stored.table.dtype.itemsize
        if not 0 < row_bytes <= LARGEST_CHUNK:
            raise UnsupportedError(
                stored.path, "a sample has an unusual size", expected=f"1 to {LARGEST_CHUNK:,} bytes", found=row_bytes
            )
        note = facts.check_examples(stored) if stored.rank == 3 else ""
        if note:
            opening.notes.append(note)
    kinds = sorted({str(stored.table.dtype) for stored in opening.files})
    if len(kinds) > 1:
        opening.notes.append(f"files hold ids of different types ({', '.join(kinds)}); map-style trainers refuse that")


def _worded(stored: Stored) -> str:
    kind = stored.foreign or ("a corpus" if stored.rank == 1 else "samples")
    return f"{kind} [{', '.join(['n', *map(str, stored.shape[1:])])}]"


def _split_later(runs: Runs | Corpus) -> TokenReader:
    """Runs as the stored axis: one stream when the separator is known, else runs that only it could split."""
    info = runs.info
    return Stream(runs, info.eos_id) if info.separators is Separators.BETWEEN and info.eos_id is not None else runs


def _corpus(opening: Opening, rows: Rows) -> TokenReader:
    if opening.options.view == "samples":
        raise UnsupportedError(opening.place, "holds a corpus, one array of tokens without samples",
                               remedy="It has documents only: leave view=samples (or --samples) away")  # fmt: skip
    own = opening.own()
    told = opening.told(Layout.STREAM, opening.separator(own[0]), variant="corpus")
    return _split_later(Corpus(rows, np.asarray(_opens(opening, own), np.bool_), told))


def _opens(opening: Opening, own: Sequence[facts.Own | None]) -> list[bool]:
    """Of each file, whether a stream begins with it; the attributes say when it goes on."""
    opens = [True] * len(own)
    for k in range(1, len(own)):
        before, after = own[k - 1], own[k]
        if before is not None and after is not None:
            opens[k] = not facts.goes_on((opening.files[k - 1], before), after)
    return opens


def _packed(opening: Opening, rows: Rows) -> TokenReader:
    """Packed sequences: every segment is a sequence, as stored, without a separator at its end."""
    segments = vsl.scan_segments(rows)
    separator = opening.separator(None)
    if separator[0] is None and not opening.hints.no_eos:
        opening.notes.append("no separator known; segments are kept as stored (--eos ID strips it from their ends)")
    rule = "shifted over the whole pack" if segments.whole_pack else "shifted inside each segment"
    told = opening.told(Layout.DOCUMENTS, separator, odd=segments.odd, variant="vsl", labels=rule)
    ignored = separator[0] if separator[0] is not None else opening.params.pad_id
    padding = len(rows) * rows.width - int(segments.inputs.sum())
    return Runs(rows, vsl.pieces_of(segments, separator[0]), ignored=ignored, plain=False, told=told, padding=padding)


def _samples(opening: Opening, rows: Rows) -> TokenReader:
    """Samples of three fields, as the streams they were cut from."""
    own = opening.own()
    known = [one for one in own if one is not None]
    if len(known) == len(own):
        return _own_samples(opening, rows, known)
    scan, inverted = scan_samples(rows, opening.options.mask)
    if inverted and opening.options.mask == "auto":
        opening.inferred.append("1 in the mask row means padding: inverted_mask (--from-opt mask=loss overrides)")
    _check_labels(opening, rows, scan)
    groups = rows.starts[np.concatenate(([0], np.cumsum(opening.groups)))]
    verdict = _verdict(opening, scan, groups, rows.width)
    separator = opening.separator(own[0])
    if separator[0] is None and not opening.hints.no_eos:
        separator = _ends_alike(opening, scan, rows.width)
    shuffled = verdict.stride == "shuffled"
    joined = join(scan, groups, rows.width, "per-document" if shuffled else verdict.stride)
    if joined.broken:
        opening.notes.append(f"{joined.broken:,} samples do not go on in the next one; the stream is cut there")
    _note_ambiguous(opening, scan, groups, rows.width, verdict.stride, separator[0])
    told = opening.told(
        Layout.SAMPLES if shuffled else Layout.STREAM,
        (None, "") if shuffled else separator,
        odd=scan.odd,
        sample_length=rows.width + 1 if shuffled and bool((scan.valid == rows.width).all()) else None,
        variant="samples",
        stride=verdict.stride,
        mask="inverted" if inverted else "loss",
    )
    ignored = separator[0] if separator[0] is not None else opening.params.pad_id
    padding = len(rows) * rows.width - int(scan.valid.sum())
    return _split_later(Runs(rows, joined.pieces, ignored=ignored, plain=False, told=told, padding=padding))


def _own_samples(opening: Opening, rows: Rows, own: list[facts.Own]) -> TokenReader:
    """Samples that tokfmt wrote: their attributes say where each lies in the stream."""
    opens = _opens(opening, own)
    whole = own[0].first_token == 0 and not any(opens[1:])
    ends = [one.stream_tokens - one.first_token for one in own]
    pieces = chained(rows.starts, rows.width, rows.width + (own[0].stride == "disjoint"), ends, opens)
    if not whole or int(pieces.lengths.sum()) != own[0].stream_tokens:
        opening.notes.append(
            "these files are only a part of what was written; documents are cut where others are missing"
        )
    separator = opening.separator(own[0])
    told = opening.told(Layout.STREAM, separator, variant="samples", stride=own[0].stride, mask="loss")
    padding = len(rows) * rows.width - int((pieces.lengths - pieces.tail).sum())
    return _split_later(Runs(rows, pieces, ignored=None, plain=True, told=told, padding=padding))


def _check_labels(opening: Opening, rows: Rows, scan: Scan) -> None:
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


def _verdict(opening: Opening, scan: Scan, groups: NDArray[np.int64], width: int) -> Verdict:
    """The stride that was told, or that the samples show.

    Raises:
        UnsupportedError: They do not show one, or they show that their order was lost.
    """
    if opening.options.stride != "auto":
        return Verdict(opening.options.stride, "as told")
    verdict = judge(scan, groups, width)
    if verdict.stride == "shuffled" and "order" not in opening.hints.drop:
        raise UnsupportedError(
            opening.place, f"its samples were shuffled ({verdict.why}), so documents cannot be put together again",
            remedy="--drop order reads each sample's tokens as they lie, --from-opt view=samples the rows",
        )  # fmt: skip
    if verdict.stride in ("few", "mixed"):
        raise UnsupportedError(
            opening.place, f"cannot tell how its samples go on ({verdict.why})", remedy=f"{_STRIDES}; {AS_SAMPLES}"
        )
    opening.inferred.append(f"samples are {_WORDS[verdict.stride]}: {verdict.why} (--from-opt stride= overrides)")
    return verdict


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
    opening.inferred.append(f"separator {int(ends[0])}: all {len(ends):,} padded samples end with it (--eos overrides)")
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
