"""Compare a dataset with the corpus that it was made of, document by document, and say what happened on the way.

Both sides are token axes: the corpus is tokenised in parallel into a temporary directory. Documents are compared by a
hash of 64 bits each, in order; where they differ, the next documents are looked for on the other side, so that some
missing ones do not make all the others differ. Memory holds a window of tokens and of hashes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt import registry
from tokfmt.core.axis import Separators, TokenReader
from tokfmt.core.errors import TokfmtError
from tokfmt.core.format import Finding
from tokfmt.core.inside import place_of
from tokfmt.core.records import RecordReader
from tokfmt.ops.check.hashes import Hashes
from tokfmt.ops.check.shift import shift_of
from tokfmt.ops.open import Source, open_source
from tokfmt.ops.progress import Progress
from tokfmt.ops.sources import SourceRequest, read_options
from tokfmt.ops.tokenize import ingest
from tokfmt.run.execute import make_executor
from tokfmt.run.plan import Workers
from tokfmt.text.ingest import Encoder

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

PathLike = str | os.PathLike[str]
_AHEAD = 4096
"""Documents that are looked for on the other side when two differ."""

_REMEDY = "Look at tokfmt check of the corpus, mend it, and pack it again"


class Wants(Protocol):
    """What of the demands counts here."""

    @property
    def corpus(self) -> PathLike: ...
    @property
    def text_field(self) -> str | None: ...


def needs_tokenizer(path: PathLike) -> bool:
    """Whether a corpus holds text.

    Raises:
        TokfmtError: It cannot be opened.
    """
    source = open_source([path])
    source.reader.close()
    return isinstance(source.reader, RecordReader) and source.reader.info.kind == "text"


@dataclass(slots=True)
class Differences:
    """What is different.

    Attributes:
        missing, extra, changed: How many documents.
        first_missing, first_extra, first_changed: The first of each kind, as (sequence here, document of the corpus).
        cut_off: Those that are missing are the last ones.
    """

    missing: int = 0
    first_missing: tuple[int, int] = (-1, -1)
    extra: int = 0
    first_extra: tuple[int, int] = (-1, -1)
    changed: int = 0
    first_changed: tuple[int, int] = (-1, -1)
    cut_off: bool = False

    def note(self, kind: str, here: int, there: int, count: int = 1) -> None:
        """Count some differences of a kind."""
        if count <= 0:
            return
        if not getattr(self, kind):
            setattr(self, f"first_{kind}", (here, there))
        setattr(self, kind, getattr(self, kind) + count)


def findings(
    source: Source, wants: Wants, handle: TokenizerHandle | None, jobs: int, progress: Progress
) -> Iterator[Finding]:
    """Documents that are missing, too many, different, or shifted."""
    name = str(source.paths[0])
    try:
        with _corpus(wants, handle, jobs, progress) as corpus, _tokens(source.reader, None, jobs, progress) as here:
            # what splits at separators cannot hold empty documents, so nobody has lost them
            drops = here.info.free_of is not None
            # a pack whose documents do not all end with the separator is read with those that there are
            eos_id = handle.eos_id if handle is not None and here.info.separators is Separators.TRAILING else None
            there = Hashes(corpus, skip_empty=drops)
            progress.phase(f"comparing with {Path(wants.corpus).name}", here.info.tokens, "tokens")
            mine = Hashes(here, skip_empty=drops, ignored_end=eos_id, advance=progress.advance)
            yield from _worded(name, here, corpus, compare(mine, there), corpus_size=Hashes(corpus, skip_empty=drops))
    except TokfmtError as error:
        yield Finding("TF901", "error", name, str(error).removeprefix(f"{name}: "))


@contextmanager
def _corpus(wants: Wants, handle: TokenizerHandle | None, jobs: int, progress: Progress) -> Iterator[TokenReader]:
    format_ = registry.detect(wants.corpus)
    request = SourceRequest((wants.corpus,), text_field=wants.text_field)
    source = open_source([wants.corpus], format=format_.name, options=read_options(request, format_))
    encoder = None
    if isinstance(source.reader, RecordReader) and source.reader.info.kind == "text" and handle is not None:
        encoder = handle.encoder()
    with _tokens(source.reader, encoder, jobs, progress) as reader:
        yield reader
    source.reader.close()


@contextmanager
def _tokens(
    reader: TokenReader | RecordReader, encoder: Encoder | None, jobs: int, progress: Progress
) -> Iterator[TokenReader]:
    """A token axis of anything; of records, in a temporary directory."""
    if not isinstance(reader, RecordReader):
        yield reader
        return
    home = Path(tempfile.mkdtemp(prefix="tokfmt-"))
    try:
        progress.phase("tokenizing", reader.info.size, "bytes")
        with make_executor("threads", jobs) as executor:
            workers = Workers(executor, jobs, home)
            yield ingest(reader, encoder, workers, progress=lambda shard: progress.advance(shard.size))
    finally:
        shutil.rmtree(home, ignore_errors=True)


def compare(here: Hashes, there: Hashes) -> Differences:
    """Walk both in order."""
    found = Differences()
    i = j = 0
    while True:
        same = _common(here.ahead(i, _AHEAD), there.ahead(j, _AHEAD))
        i, j = i + same, j + same
        mine, theirs = here.ahead(i, _AHEAD), there.ahead(j, _AHEAD)
        if not len(mine) or not len(theirs):
            break
        if mine[0] == theirs[0]:
            continue
        skip_mine, skip_theirs = _resynchronised(mine, theirs)
        pairs = min(skip_mine, skip_theirs)
        found.note("changed", here.number(i), there.number(j), pairs)
        found.note("extra", here.number(i + pairs), there.number(j + pairs), skip_mine - pairs)
        found.note("missing", here.number(i + pairs), there.number(j + pairs), skip_theirs - pairs)
        i, j = i + skip_mine, j + skip_theirs
    left_here, left_there = here.count_from(i), there.count_from(j)
    found.cut_off = left_there > 0 and not found.missing
    found.note("extra", here.number(i), there.number(j), left_here)
    found.note("missing", here.number(i), there.number(j), left_there)
    return found


def _common(mine: NDArray[np.uint64], theirs: NDArray[np.uint64]) -> int:
    """How many hashes both begin with."""
    length = min(len(mine), len(theirs))
    differ = mine[:length] != theirs[:length]
    return int(np.argmax(differ)) if differ.any() else length


def _resynchronised(mine: NDArray[np.uint64], theirs: NDArray[np.uint64]) -> tuple[int, int]:
    """How many documents to pass over on each side until both go on alike; all pass one by one if they never do.

    The nearest pair of equal documents counts (the fewest passed over in all).
    """
    common, first_mine, first_theirs = np.intersect1d(mine, theirs, return_indices=True)
    if not len(common):
        pairs = min(len(mine), len(theirs))
        return pairs, pairs
    best = int(np.argmin(first_mine + first_theirs))
    return int(first_mine[best]), int(first_theirs[best])


def _worded(
    name: str, here: TokenReader, corpus: TokenReader, found: Differences, corpus_size: Hashes
) -> Iterator[Finding]:
    total = corpus_size.count_from(0)
    if found.missing:
        line = found.first_missing[1] + 1
        place = (
            f"from document {line:,} of the corpus on" if found.cut_off else f"first: document {line:,} of the corpus"
        )
        what = f"{found.missing:,} of {total:,} documents are missing ({place})"
        yield Finding("TF931", "error", name, what, _REMEDY)
    if found.extra:
        what = f"{found.extra:,} documents are not in the corpus (first: sequence {found.first_extra[0]:,})"
        yield Finding("TF932", "error", name, what, "Was something packed twice, or the corpus changed?")
    if found.changed:
        yield _changed(name, here, corpus, found)


def _changed(name: str, here: TokenReader, corpus: TokenReader, found: Differences) -> Finding:
    sequence, document = found.first_changed
    mine, theirs = _sequence(here, sequence), _sequence(corpus, document)
    length = min(len(mine), len(theirs))
    differ = np.flatnonzero(mine[:length] != theirs[:length])
    at = int(differ[0]) if len(differ) else length
    start = int(here.offsets(sequence, sequence)[0])
    place = place_of(here, min(start + at, here.info.tokens - 1)) if here.info.tokens else None
    offset = place.offset if place is not None else None
    path = str(place.path) if place is not None else name
    shift = shift_of(here, corpus, sequence, document)
    head = f"{found.changed:,} documents differ (first: sequence {sequence:,}, document {document + 1:,} of "
    if shift:
        tokens, way = abs(shift), "early" if shift > 0 else "late"
        what = f"{head}the corpus): they begin {tokens:,} tokens too {way}"
        return Finding(
            "TF934",
            "error",
            path,
            what,
            "It was made from a merged pack by a program that used its shifted offsets: see --explain TF934",
            offset,
        )
    if at == len(mine):
        detail = f"it ends after {len(mine):,} of {len(theirs):,} tokens"
    elif at == len(theirs):
        detail = f"it goes on after all {len(theirs):,} tokens"
    else:
        detail = f"position {at:,}: {int(mine[at]):,}, expected {int(theirs[at]):,}"
    return Finding(
        "TF933",
        "error",
        path,
        f"{head}the corpus, {detail})",
        "Is it the tokenizer, and the corpus, that it was made with?",
        offset,
    )


def _sequence(reader: TokenReader, number: int, most: int = 1 << 20) -> NDArray[np.unsignedinteger]:
    start, stop = reader.offsets(number, number + 1).tolist()
    return reader.tokens(start, min(stop, start + most))
