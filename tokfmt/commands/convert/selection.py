"""The sequences that `--select` takes: an interval `A:B` of all sources, or what a query of `tokfmt show` finds."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.commands.search.query import (
    DensityQuery,
    LengthQuery,
    NumberQuery,
    Query,
    SameQuery,
    Search,
    UnusedQuery,
    affirmed,
    is_query,
    needs_tokenizer,
    parse_query,
)
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import TokenReader, windows
from tokfmt.errors import OptionError, TokfmtError, reword
from tokfmt.files.place import place_of
from tokfmt.model.dataset import Dataset
from tokfmt.model.readers import dataset_of
from tokfmt.model.select import Chosen, Slice
from tokfmt.run.progress import Progress
from tokfmt.source.ingest import tokenized
from tokfmt.source.request import parse_selection
from tokfmt.source.stored import Source, manifest_tokenizer, paths_of, records_of, tokenizer_note
from tokfmt.wording import counted

if TYPE_CHECKING:
    from tokfmt.text.filter_rules import OverlapRules
    from tokfmt.text.tokenizer import TokenizerHandle

_WITHOUT = "without:"  # begins a selection that `without` makes
_OF_OVERLAP = re.compile(r"--(field|by) (\w+)")  # options of `overlap`, which are keys of --without-opt
_MANY = 1 << 12  # sequences whose bounds are read at once


class Selected(NamedTuple):
    """The selected sequences of an axis."""

    axis: TokenReader
    interval: tuple[int, int] | None  # None: they are those that a query finds
    is_taken: NDArray[np.bool_] | None = None  # of each sequence of the axis; None for an interval
    rest: TokenReader | None = None  # the other sequences


def without(given: object) -> str:
    """Return the selection of all sequences that do not overlap with evals, `{"with": [...], "ngram": 13}` or paths."""
    from tokfmt.text.filter_rules import OverlapRules

    rules = OverlapRules.of(given, "--without")
    table = {"with": [str(place_of(path).normalized()) for path in rules.evals], "ngram": rules.ngram}
    return _WITHOUT + json.dumps({**table, "by": rules.by, "field": rules.field})


def query_of(selection: str | None) -> Query | OverlapRules | None:
    """Return the query of a selection; None for an interval, and without one."""
    if selection is not None and selection.startswith(_WITHOUT):
        from tokfmt.text.filter_rules import OverlapRules

        try:
            return OverlapRules.of(json.loads(selection.removeprefix(_WITHOUT)))
        except ValueError as error:
            raise OptionError(f"--select {selection}: is no selection. --without EVAL leaves out overlap") from error
    return parse_query(selection) if selection is not None and is_query(selection) else None


def reads_ends(selection: str | None) -> bool:
    """Return whether a selection compares lengths, which are certain only if the end of every sequence is read."""
    return isinstance(affirmed(query_of(selection)), (LengthQuery, SameQuery, UnusedQuery, DensityQuery))


def has_text(selection: str | None) -> bool:
    """Return whether a selection compares text or evals, for which a tokenizer may be given."""
    return selection is not None and (selection.startswith(_WITHOUT) or needs_tokenizer(query_of(selection)))


def selected(
    selection: str | None,
    axis: TokenReader,
    sources: Sequence[Source],
    tokenizer: TokenizerHandle | None,
    progress: Progress,
    readers: Sequence[TokenReader],
    jobs: int,
) -> Selected:
    """Return the sequences that a selection takes of the axis over all sources; without one, all."""
    query = query_of(selection)
    if selection is None:
        return Selected(axis, (0, axis.info.sequences))
    if query is None:
        interval = parse_selection(selection, axis.info.sequences, paths_of(sources))
        if len(sources) == 1 and sources[0].format.name == "run":
            from tokfmt.runs.reader import RunReader  # few sources are runs

            if isinstance(sources[0].reader, RunReader):
                interval = sources[0].reader.interval(selection, sources[0].paths[0])
        return Selected(Slice(axis, *interval), interval)
    from tokfmt.text.filter_rules import OverlapRules  # Most conversions take all sequences, or an interval.

    if isinstance(query, OverlapRules):
        return _divided(axis, ~_overlapping(query, sources, readers, tokenizer, jobs, progress))
    decoder = None
    if needs_tokenizer(query):
        handle = manifest_tokenizer(sources) if tokenizer is None else tokenizer
        if handle is not None and tokenizer is None:
            progress.note(tokenizer_note(handle, sources[0]))
        decoder = None if handle is None else handle.decoder()
    info = axis.info
    total, unit = (info.sequences, "sequences") if query.whole else (info.tokens, "tokens")
    progress.phase("searching", total, unit)
    from tokfmt.commands.search.search import find_many  # it imports decoders

    search = Search(each=True, progress=progress.advance)
    is_taken = np.zeros(info.sequences, np.bool_)
    for hits in find_many(axis, query, search, decoder=decoder):
        is_taken[hits.sequences] = True
    return _divided(axis, is_taken)


def _overlapping(
    rules: OverlapRules,
    sources: Sequence[Source],
    axes: Sequence[TokenReader | None],
    tokenizer: TokenizerHandle | None,
    jobs: int,
    progress: Progress,
) -> NDArray[np.bool_]:
    from tokfmt.source.evals import overlapping  # only this selection needs it

    progress.phase("searching", len(sources), "sources")
    try:
        found, short = overlapping(rules, sources, axes, tokenizer, jobs)
    except TokfmtError as error:
        reword(error, partial(_OF_OVERLAP.sub, r"--without-opt \1=\2"))
        raise
    count = int(np.count_nonzero(found))
    progress.note(f"--without leaves out {count:,} of {counted(len(found), 'document')}, which overlap with evals")
    if short:
        what = f"{counted(short, 'item')} of evals with fewer than {rules.ngram} {rules.by}"
        progress.note(f"{what} cannot be found. --without-opt ngram=N finds shorter ones")
    return found


def selected_lines(
    query: Query | OverlapRules,
    lines: TokenReader,
    sources: Sequence[Source],
    counts: Sequence[int],
    progress: Progress,
    tokenizer: TokenizerHandle | None,
    jobs: int,
) -> Selected:
    """Return the lines whose records a query finds. `counts` are the lines of each source."""
    from tokfmt.text.filter_rules import OverlapRules

    is_taken, readers = np.zeros(lines.info.sequences, np.bool_), records_of(sources)
    if isinstance(query, OverlapRules):
        return _divided(lines, ~_overlapping(query, sources, [None] * len(sources), tokenizer, jobs, progress))
    if isinstance(query, NumberQuery):
        for a, b in query.between(0, lines.info.sequences):
            is_taken[a:b] = True
        return _divided(lines, is_taken)
    if isinstance(affirmed(query), SameQuery) and len(readers) > 1:
        raise OptionError("--select same:N compares the records of one file. Name one SRC")
    progress.phase("searching", sum(reader.info.size for reader in readers), "bytes")
    from tokfmt.commands.search.search import find, find_records

    search = Search(each=True, progress=progress.advance)
    for reader, before in zip(readers, offsets_of(counts).tolist(), strict=False):
        if reader.info.is_text:
            numbers = [hit.sequence for hit in find_records(reader, query, search)]
        else:
            with closing(tokenized(reader, None)) as axis:
                numbers = [hit.sequence for hit in find(axis, query, search)]
        is_taken[np.array(numbers, np.int64) + before] = True
    return _divided(lines, is_taken)


def _divided(axis: TokenReader, is_taken: NDArray[np.bool_]) -> Selected:
    """Return the sequences that are taken, and the others."""
    return Selected(_Found(axis, is_taken), None, is_taken, _Found(axis, ~is_taken))


class _Found(Chosen):
    """The sequences that a query takes. What becomes of their separators is counted as the source has them."""

    def __init__(self, source: TokenReader, is_taken: NDArray[np.bool_]) -> None:
        super().__init__(source, lambda a, b: is_taken[a:b])
        self._is_taken = is_taken

    def as_dataset(self, *, drawn: bool = False) -> Dataset | None:
        return dataset_of(self.source, drawn=True)[np.flatnonzero(self._is_taken)] if drawn else None


def list_rest(path: Path | None, taken: Selected, sources: Sequence[Source], readers: Sequence[TokenReader]) -> None:
    """Write the sequences that a query leaves out as JSON lines, with the file and the number there."""
    if path is None or taken.rest is None or taken.is_taken is None:
        return
    numbers, firsts = np.flatnonzero(~taken.is_taken), offsets_of([reader.info.sequences for reader in readers])
    with open(path, "a", encoding="utf-8") as out:
        for a, b in windows(0, len(numbers), _MANY):
            bounds = taken.rest.offsets(a, b).tolist()
            for number, start, stop in zip(numbers[a:b].tolist(), bounds, bounds[1:], strict=False):
                k = int(firsts.searchsorted(number, side="right")) - 1
                place = {"file": str(sources[k].paths[0]), "record": number - int(firsts[k])}
                out.write(json.dumps({**place, "input_ids": taken.rest.tokens(start, stop).tolist()}) + "\n")


def list_rest_of_lines(path: Path, taken: Selected) -> None:
    """Write the lines that are left out as they are."""
    if taken.rest is not None:
        with open(path, "ab") as out:
            out.writelines(taken.rest.tokens(a, b).tobytes() for a, b in windows(0, taken.rest.info.tokens))
