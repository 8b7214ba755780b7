"""What can be wrong with a pack: findings TF101 ... TF124; `codes` says what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tokfmt.core.audit import Audit
from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.core.files import File
from tokfmt.core.format import Finding, Hints
from tokfmt.formats.modalities.anatomy import examine
from tokfmt.formats.modalities.check_documents import (
    Endings,
    deep_findings,
    ending_findings,
    last_tokens,
    length_findings,
)
from tokfmt.formats.modalities.options import ReadOptions
from tokfmt.formats.modalities.problems import finding
from tokfmt.formats.modalities.reader import ModalitiesReader


def findings(path: Path, options: ReadOptions, how: Audit) -> Iterator[Finding]:
    """Every violation in header, index and sizes; how documents end; and, if deep, what they hold."""
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
    if anatomy.index is None or any(problem.fatal for problem in anatomy.problems):
        return
    if not anatomy.index.documents:
        yield Finding(
            "TF124",
            "warning",
            str(path),
            "holds no documents",
            "Make sure that it should not: a packer that fails leaves the same, with exit code 0",
        )
    reader = ModalitiesReader([path], options, Hints())
    yield from length_findings(reader)
    yield from (deep_findings(reader, how) if how.deep else _endings(reader))
    reader.close()


def _code(error: FormatError, file: File) -> str:
    if not file.size:
        return "TF101"
    kinds = {UnsupportedError: "TF101", TruncatedError: "TF103", UnsafeError: "TF104", CorruptError: "TF102"}
    return kinds.get(type(error), "TF101")


def _endings(reader: ModalitiesReader) -> Iterator[Finding]:
    """Documents whose last token is not the one that most end with."""
    looked, last = last_tokens(reader)
    if not len(last):
        return
    ids, counts = np.unique(last, return_counts=True)
    eos_id, usual = int(ids[np.argmax(counts)]), int(counts.max())
    of = f"{len(last):,} documents" if len(looked) == reader.info.sequences else f"{len(last):,} documents looked at"
    other = np.flatnonzero(last != eos_id)
    yield from ending_findings(
        reader, eos_id, Endings(of, len(last), usual, int(looked[other[0]]) if len(other) else -1)
    )
