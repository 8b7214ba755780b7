"""What can be wrong with a pack; the codes of the findings, which do not change:

TF101  cannot be opened, is empty, or is another format     TF111  every length is one token too large
TF102  no index, or not one of pairs of integers            TF112  all offsets are the same
TF103  the file ends too early                              TF113  tokens of 3 bytes, which Modalities never reads
TF104  the index would execute something or take memory     TF114  big-endian layout, no longer read by Modalities
TF105  the header says 0 bytes: its writer was killed       TF115  layout C, read 12 bytes late since 2024-07
TF106  the header's length is not that of the data          TF116  documents that do not end as most others do
TF107  offsets shifted by a merge                           TF117  most documents do not end alike
TF108  documents overlap or leave gaps                      TF118  documents of no tokens
TF109  the index is in another order than the data          TF119  the token width is not stored
TF110  lengths that are no whole tokens                     TF120  a version that was never released
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.core.files import File
from tokfmt.core.format import Finding, Hints
from tokfmt.formats.modalities.anatomy import examine
from tokfmt.formats.modalities.options import ReadOptions
from tokfmt.formats.modalities.problems import finding
from tokfmt.formats.modalities.reader import ModalitiesReader

_ALL = 1 << 14  # documents: in larger packs as many are looked at, spread evenly
_FEW = 8


def findings(path: Path, options: ReadOptions) -> Iterator[Finding]:
    """Every violation in header, index and sizes; and how documents end."""
    try:
        file = File(path)
    except FormatError as error:
        yield finding("TF101", "error", error)
        return
    try:
        anatomy = examine(file, options)
    except FormatError as error:
        yield finding(_code(error, file), "error", error)
        return
    finally:
        file.close()
    for problem in anatomy.problems:
        yield problem.finding()
    if anatomy.index and not any(problem.fatal for problem in anatomy.problems):
        yield from _endings(ModalitiesReader([path], options, Hints()))


def _code(error: FormatError, file: File) -> str:
    if not file.size:
        return "TF101"
    kinds = {UnsupportedError: "TF101", TruncatedError: "TF103", UnsafeError: "TF104", CorruptError: "TF102"}
    return kinds.get(type(error), "TF101")


def _endings(reader: ModalitiesReader) -> Iterator[Finding]:
    """Documents whose last token is not the one that most end with."""
    name = str(reader.file.path)
    looked, last = _last_tokens(reader)
    if not len(last):
        return
    ids, counts = np.unique(last, return_counts=True)
    eos_id, usual = int(ids[np.argmax(counts)]), int(counts.max())
    of = f"{len(last):,} documents" if len(looked) == reader.info.sequences else f"{len(last):,} documents looked at"
    other = np.flatnonzero(last != eos_id)
    if usual * 2 <= len(last):
        if len(last) >= _FEW:
            yield Finding("TF117", "warning", name, f"only {usual:,} of {of} end with the same id ({eos_id:,})",
                          "Documents may have been cut by a program that used shifted offsets: compare some "
                          "with their source")  # fmt: skip
    elif len(other):
        entry = int(looked[other[0]])
        at = reader.begin + (int(reader.offsets(entry + 1, entry + 1)[0]) - 1) * reader.width
        what = f"{len(other):,} of {of} do not end with {eos_id:,}, as most do (first: document {entry:,})"
        yield Finding("TF116", "warning", name, what, "They may be cut: compare them with their source", at)


def _last_tokens(reader: ModalitiesReader) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
    """Numbers of the documents looked at, and their last tokens."""
    count = reader.info.sequences
    looked = np.unique(np.linspace(0, count - 1, min(count, _ALL)).astype(np.int64)) if count else np.empty(0, np.int64)
    starts = np.concatenate([reader.offsets(i, i + 1) for i in looked.tolist()] or [np.empty(0, np.int64)])
    begins, ends = starts[::2], starts[1::2]
    looked, ends = looked[ends > begins], ends[ends > begins]
    last = [reader.tokens(end - 1, end) for end in ends.tolist()]
    return looked, np.concatenate(last) if last else np.empty(0, np.uint32)
