"""Compare a dataset with the corpus that it was made from, document by document, in order.

Documents are compared by fingerprints. A text is tokenized for this, and nothing is written. The fingerprints are
aligned as by `tokfmt diff`, so a document that only moved is never reported as missing. The comparison holds 16 bytes
per document of either side, and 96 bytes while it aligns them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tokfmt.commands.compare.alignment import Step, Stretch, aligned, check_room, surpluses
from tokfmt.commands.compare.fingerprint import AxisSide, Fingerprints, Side, empty_fingerprint, hands, read_records
from tokfmt.core.findings import Finding
from tokfmt.core.losses import READS
from tokfmt.core.reader import Separators
from tokfmt.core.records import RecordReader
from tokfmt.errors import OptionError, TokfmtError
from tokfmt.model.readers import ContentReader, dataset_of
from tokfmt.model.separator import unled
from tokfmt.run.progress import Progress
from tokfmt.source.ingest import encoder_of
from tokfmt.source.manifest import read_manifest
from tokfmt.source.open import open_dataset
from tokfmt.source.request import Reading, SourceRequest
from tokfmt.source.stored import Source, without_leads
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import SpecialTokens, TokenizerHandle


_REMEDY = "Run tokfmt check on the corpus, correct it, and pack it again"
_KINDS: dict[Step, str] = {"only_in_a": "extra", "only_in_b": "missing", "changed": "changed"}
_BEGUN = 64  # documents of the corpus whose first IDs are looked at for a BOS
_COMPARED = 1 << 20  # tokens from the start of two documents in which the first difference is looked for


class Corpus:
    """The corpus that datasets are compared with. It is opened at once, and read once, when it is first needed."""

    def __init__(
        self,
        request: SourceRequest,
        handle: TokenizerHandle | None,
        jobs: int,
        progress: Progress,
        *,
        ignore_order: bool = False,
        processes: bool = False,
    ) -> None:
        self.handle, self.jobs, self.progress = handle, jobs, progress
        self.ignore_order, self.processes = ignore_order, processes
        self._compared: dict[SpecialTokens, tuple[Side, Fingerprints]] = {}
        # only documents are compared, so the user need not allow the loss of other fields
        asked = replace(request.accepting(READS["diff"]), every_end=True)
        self.source = open_dataset(asked, Reading(jobs=jobs, progress=progress))
        reader = self.source.reader
        if handle is None and reader.info.is_text:
            raise OptionError(
                "--against compares tokens with text, which needs a tokenizer. Add --tokenizer NAME|DIR|FILE"
            )

    def compared(self, special_tokens: SpecialTokens) -> tuple[Side, Fingerprints]:
        """Return the documents of the corpus as they are compared, and their fingerprints."""
        if special_tokens not in self._compared:
            side = self.side_of(self.source, special_tokens)
            with hands(self.jobs) as workers:
                self._compared[special_tokens] = side, side.fingerprints(0, workers, lambda _: None)
        return self._compared[special_tokens]

    def side_of(self, source: Source, special_tokens: SpecialTokens = "text") -> Side:
        """Return the sequences of a dataset as they are compared with the corpus."""
        reader = source.reader
        if not isinstance(reader, RecordReader):
            # if not every document of a pack ends with the separator, the reader returns those that are stored
            trailing = self.handle is not None and reader.info.separators is Separators.TRAILING
            return AxisSide(reader, ignored_end=self.handle.eos_id if self.handle and trailing else None)
        handle = self.handle and self.handle.parsing(special_tokens)
        return read_records(reader, encoder_of(reader, handle), self.jobs, self.progress, processes=self.processes)

    def close(self) -> None:
        self.source.reader.close()


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between a dataset and a corpus."""

    total: int
    missing: int = 0
    extra: int = 0
    changed: int = 0
    moved: int = 0
    # the first of each kind: (sequence of the dataset, document of the corpus); that of a side that lacks it has no
    # meaning
    firsts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cut_off: bool = False  # the missing documents are the last ones of the corpus

    def first(self, kind: str) -> tuple[int, int]:
        """Return the first difference of a kind, as in `firsts`; (-1, -1) without one."""
        return self.firsts.get(kind, (-1, -1))


def behind_bos(source: Source, handle: TokenizerHandle | None, note: Callable[[str], None]) -> Source:
    """Return a dataset whose documents begin behind the ID that the tokenizer puts in front, if all have it."""
    bos_id, reader = None if handle is None else handle.bos_id, source.stored_documents
    made = (source.manifests[0].tokenizer if source.manifests else None) or {}
    is_of_text = "chat_template" in made or made.get("special_tokens") == "parse"  # The texts have it, or the template.
    if handle is None or bos_id is None or source.bos_id is not None or reader is None or is_of_text:
        return source
    try:
        contents, _ = without_leads(reader, bos_id, source.paths[0])
        if not dataset_of(contents).spans.led:
            return source
        contents, _ = without_leads(reader, bos_id, source.paths[0], each=True)
    except TokfmtError:  # reported where all tokens are read
        return source
    name = printable(source.paths[0].name)
    problem = f"documents begin with {bos_id}, which {printable(handle.name)} puts in front of a text"
    note(f"{name}: {problem}; what follows it is compared. --bos {bos_id} reads it as no content")
    return source._replace(reader=contents)


def corpus_findings(source: Source, corpus: Corpus) -> Iterator[Finding]:
    """Report documents that are missing, additional, different, shifted, or in another order."""
    name, path = str(source.paths[0]), source.paths[0]
    try:
        maker = source.manifests[0].tokenizer if source.manifests else None
        there, theirs = corpus.compared("parse" if maker and maker.get("special_tokens") == "parse" else "text")
        here = corpus.side_of(_as_led(source, there))
        corpus.progress.phase(f"comparing with {corpus.source.paths[0].name}", here.tokens, "tokens")
        with hands(corpus.jobs) as workers:
            mine = here.fingerprints(0, workers, corpus.progress.advance)
        # a stream that is split at separators cannot hold empty documents, so they are not missing
        splits = isinstance(here, AxisSide) and here.reader.info.free_of is not None
        ignored = corpus.ignore_order
        if not ignored and read_manifest(path).content.get("shuffle") is not None:
            corpus.progress.note(f"{path.name}: the manifest states that it was shuffled, so the order is ignored")
            ignored = True
        differences = compare(mine, theirs, skip_empty=splits, ignore_order=ignored)
        yield from _difference_findings(name, here, there, differences)
    except TokfmtError as error:
        yield Finding("TF901", "error", name, str(error).removeprefix(f"{name}: "))


def _as_led(source: Source, corpus: Side) -> Source:
    """Return a dataset with the leads of its documents, if those of the corpus begin with the same ID."""
    reader = source.reader
    if not isinstance(reader, ContentReader) or (lead := reader.dataset.gap.lead) is None:
        return source
    begins = corpus.neighbors(0, min(corpus.count, _BEGUN), 1)
    if not any(lead in ids[:1] for ids in begins):
        return source
    return source._replace(reader=ContentReader(unled(reader.dataset)))


def compare(
    here: Fingerprints, there: Fingerprints, *, skip_empty: bool = False, ignore_order: bool = False
) -> Differences:
    """Compare the documents of a dataset with those of a corpus. The fingerprints are uint64[documents, 2]."""
    mine = theirs = None
    if skip_empty:
        mine, theirs = (np.flatnonzero((prints != empty_fingerprint()).any(1)) for prints in (here, there))
        here, there = here[mine], there[theirs]

    def places(a: int, b: int) -> tuple[int, int]:
        """Map two indexes to numbers that count empty documents as well; -1 without one."""
        return tuple(  # type: ignore[return-value]
            k if numbers is None else int(numbers[k]) if 0 <= k < len(numbers) else -1
            for k, numbers in ((a, mine), (b, theirs))
        )

    if ignore_order:
        more, less = surpluses(here, there, 1)
        first = {"extra": places((more.examples or (-1,))[0], -1), "missing": places(-1, (less.examples or (-1,))[0])}
        return Differences(len(there), missing=less.count, extra=more.count, firsts=first)
    check_room(len(here) + len(there), 0)
    alignment = aligned(here, there)
    steps = _firsts(alignment.stretches())
    lost = steps.get("only_in_b")
    missing = alignment.differing.get("only_in_b", 0)
    first = {_KINDS[step]: places(stretch.a, stretch.b) for step, stretch in steps.items() if step in _KINDS}
    if len(alignment.moves):
        first["moved"] = places(*alignment.moves[0].tolist())
    return Differences(
        len(there),
        missing=missing,
        extra=alignment.differing.get("only_in_a", 0),
        changed=alignment.differing.get("changed", 0),
        moved=len(alignment.moves),
        firsts=first,
        cut_off=lost is not None and lost.b + missing == len(there),
    )


def _firsts(stretches: Iterator[Stretch]) -> dict[Step, Stretch]:
    first_stretches: dict[Step, Stretch] = {}
    for stretch in stretches:
        first_stretches.setdefault(stretch.step, stretch)
    return first_stretches


def _difference_findings(name: str, here: Side, corpus: Side, differences: Differences) -> Iterator[Finding]:
    if differences.missing:
        first = f"document {differences.first('missing')[1]:,} of the corpus"
        place = f"from {first} on" if differences.cut_off else f"first: {first}"
        problem = f"{differences.missing:,} of {differences.total:,} documents are missing ({place})"
        yield Finding("TF931", "error", name, problem, _REMEDY)
    if differences.extra:
        problem = (
            f"{differences.extra:,} documents are not in the corpus (first: sequence {differences.first('extra')[0]:,})"
        )
        yield Finding(
            "TF932", "error", name, problem, "Find out whether a text was packed twice, or the corpus changed"
        )
    if differences.moved:
        sequence, document = differences.first("moved")
        place = f"sequence {sequence:,}, document {document:,} of the corpus"
        problem = f"{differences.moved:,} documents are in another order (first: {place})"
        yield Finding("TF935", "error", name, problem, "If their order does not matter, add --ignore-order")
    if differences.changed:
        yield _changed(name, here, corpus, differences)


def _changed(name: str, here: Side, corpus: Side, differences: Differences) -> Finding:
    sequence, document = differences.first("changed")
    mine, theirs = _beginning(here, sequence), _beginning(corpus, document)
    length = min(len(mine), len(theirs))
    differ = np.flatnonzero(mine[:length] != theirs[:length])
    at = int(differ[0]) if len(differ) else length
    path, offset = _place(name, here, sequence, at)
    shift = shift_of(here, corpus, sequence, document)
    head = f"{differences.changed:,} documents differ (first: sequence {sequence:,}, document {document:,} of "
    if shift:
        tokens, way = abs(shift), "early" if shift > 0 else "late"
        problem = f"{head}the corpus): they begin {tokens:,} tokens too {way}"
        return Finding(
            "TF934",
            "error",
            path,
            problem,
            "It was made from a merged pack by a program that used its shifted offsets: "
            "see `tokfmt check --explain TF934`",
            offset,
        )
    if at == len(mine):
        detail = f"it ends after {len(mine):,} of {len(theirs):,} tokens"
    elif at == len(theirs):
        detail = f"it continues after all {len(theirs):,} tokens"
    else:
        detail = f"position {at:,}: {int(mine[at]):,}, expected {int(theirs[at]):,}"
    return Finding(
        "TF933",
        "error",
        path,
        f"{head}the corpus, {detail})",
        "Compare it with the tokenizer and the corpus that it was made with",
        offset,
    )


def _place(name: str, here: Side, sequence: int, token: int) -> tuple[str, int | None]:
    """Return the file and the byte offset of a token; the dataset and None if it has no such place."""
    if not isinstance(here, AxisSide) or not here.tokens:
        return name, None
    start = int(here.reader.offsets(sequence, sequence)[0])
    place = here.reader.locate(min(start + token, here.tokens - 1))
    return (name, None) if place is None else (str(place.path), place.offset)


def _beginning(side: Side, number: int) -> NDArray[np.integer]:
    return side.values(number, 0, min(side.length(number), _COMPARED))


_FARTHEST = 64
"""Tokens: the largest shift that is looked for. One merge shifts by 12 bytes (3, 6 or 12 tokens), and merges add up."""
_ENOUGH = 8  # tokens that have to be equal
_LOOK = 256  # tokens from the start of the document that are compared
_BEFORE = 1 << 20  # tokens of an earlier document that are read to get its end


def shift_of(here: Side, corpus: Side, sequence: int, document: int) -> int:
    """Return the number of tokens by which a document begins too early.

    The number is negative if the document begins too late, and 0 if it is not shifted.

    The stream of the corpus has one token after each document for the separator, which is not compared.
    """
    mine = here.values(sequence, 0, min(here.length(sequence), _LOOK)).astype(np.int64)
    if len(mine) < _ENOUGH:
        return 0
    stream, is_content, begin = _stream(corpus, document)
    for tokens in sorted(range(-_FARTHEST, _FARTHEST + 1), key=abs):
        at = begin - tokens
        if not tokens or at < 0 or at + _ENOUGH > len(stream):
            continue
        length = min(len(mine), len(stream) - at)
        compared = is_content[at : at + length]
        same = (stream[at : at + length] == mine[:length])[compared]
        if len(same) >= _ENOUGH and same.all():
            return tokens
    return 0


def _stream(corpus: Side, document: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
    """Return the corpus around a document: IDs (-1 for a separator), which are known, and where it begins."""
    pieces: list[NDArray[np.int64]] = []
    first, last = max(0, document - _FARTHEST), min(corpus.count, document + 8)
    around = corpus.neighbors(first, last, _BEFORE)
    for number, ids in enumerate(around, first):
        piece = ids[-2 * _FARTHEST :] if number < document else ids[: 2 * _LOOK]
        pieces.append(np.append(piece.astype(np.int64), -1))
    begin = sum(map(len, pieces[: document - first]))
    stream = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    return stream, stream >= 0, begin
