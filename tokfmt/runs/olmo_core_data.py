"""The instances of runs of OLMo-core: what its datasets cut token files into, by `work_dir/dataset-common`.

    document-indices-L-HASH.npy       packed: uint64[n, 2], where documents begin and end in a group of token files
    documents-by-instance-L-HASH.npy  uint64, the documents of instances in turn
    instance-offsets-L-HASH.npy       uint64[m, 2], the part of each instance in that list
    instance-indices-L-HASH.npy       padded: uint32[n, 2], where documents begin and end in a token file
    mixture-instance-indices-L-HASH.npy   mixture: written and never read, by OLMo-core or here: the ratios decide
    bucketed-doc-indices-HASH.npy     vsl: uint32[n, 2], the same of parts of documents, whose lengths are powers of 2

None has a header. HASH is the SHA-256 of the path as the configuration has it and the size of each token file, then of
the strategy for long documents and the type, or of the lengths. Source: ai2-olmo-core 3.0.0 ran.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tokfmt.errors import FormatError, OptionError
from tokfmt.files.file import names_in
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Numbers, Stored, stored_raw
from tokfmt.runs.epochs import MOST, shuffled, stated
from tokfmt.runs.facts import RunFacts, SourceTree
from tokfmt.runs.instances import Documents, Listed, Slices
from tokfmt.runs.olmo import named_alone, token_files, tokens_of
from tokfmt.runs.order import Pieces, RunSource
from tokfmt.wording import printable

CONFIG = "config.json of a checkpoint of the run"
LONGEST = 1 << 24
"""Tokens of a sample."""
_KINDS = {"instance-offsets": "packed_fsl", "instance-indices": "padded_fsl", "bucketed-doc-indices": "vsl"}
_PASSES = 1 << 12
_SLACK = 1e-6  # of ratios that sum to 1
_LENGTH = re.compile(r"(?:instance-offsets|instance-indices)-(\d{1,8})-[0-9a-f]{64}\.npy")


def sources(facts: RunFacts) -> list[RunSource]:
    """Return the token files of the run, or the sources that it mixes."""
    if not facts.tree:
        return token_files(facts, named_alone(stated(facts, "paths", facts.given.paths, f"{CONFIG} (dataset)")), CONFIG)
    leaves = [one.table for one in leaves_of(facts.tree)]
    names = [leaf.name or next(iter(named_alone(leaf.paths[:1]))) for leaf in leaves]
    if len(set(names)) < len(names) or facts.given.paths:
        raise FormatError(facts.where, "has sources without a name of their own, or paths beside them")
    read = token_files(facts, {name: one.paths for name, one in zip(names, leaves, strict=True)}, CONFIG)
    return [replace(source, weight=one.ratio) for source, one in zip(read, leaves, strict=True)]


def leaves_of(tree: Iterable[SourceTree]) -> list[SourceTree]:
    """Return the sources that have files, in order."""
    return [leaf for one in tree for leaf in (leaves_of(one.inner) if one.inner else [one])]


def kind_of(facts: RunFacts) -> str:
    """Return the kind of the dataset, by what is stated, and by the order files."""
    if facts.tree:
        return "mixture" if facts.given.requested_tokens is not None else "composable"
    kinds = {kind for name in _common(facts) for begin, kind in _KINDS.items() if name.startswith(begin)}
    if facts.given.dataset is not None:
        return facts.given.dataset
    if len(kinds) > 1:
        raise OptionError(
            f"{printable(facts.cache)}: has the files of several datasets. --from-opt dataset=KIND chooses "
            f"{' or '.join(sorted(kinds))}",
            name="dataset",
        )
    return kinds.pop() if kinds else "fsl"


def length_of(facts: RunFacts, among: Iterable[int] = ()) -> int:
    """Return the length of a sample: as stated, or the only one that order files name."""
    named = (int(match[1]) for match in map(_LENGTH.fullmatch, _common(facts)) if match)
    lengths = {length for length in (*among, *named) if 1 <= length <= LONGEST}
    stated_length = facts.given.sequence_length or (lengths.pop() if len(lengths) == 1 else None)
    return stated(facts, "sequence_length", stated_length, f"{CONFIG} (dataset.sequence_length)")


def _common(facts: RunFacts) -> list[str]:
    there = facts.cache / "dataset-common"
    return names_in(there) if there.is_dir() else []


class Files:
    """The token files of a run and the order files that are named after them."""

    def __init__(
        self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset], keep: Callable[[Stored], Stored]
    ) -> None:
        self.facts, self.keep, self.there = facts, keep, facts.cache / "dataset-common"
        self.names = set(_common(facts))
        position = {source.paths[0]: k for k, source in enumerate(read)}
        self.paths = facts.given.paths
        self.sources = [position[facts.named(path)] for path in self.paths]
        self.tokens = [int(tokens_of(source, dataset)[0]) for source, dataset in zip(read, datasets, strict=True)]
        self.itemsize = datasets[0].axis.dtype.itemsize

    def packed(self, length: int) -> Documents:
        """Return instances of documents that are packed in groups of files."""
        count = len(self.paths)
        for size, strategy in product(range(1, count + 1), ("truncate", "fragment")):
            groups = [range(at, min(at + size, count)) for at in range(0, count, size)]
            if f"instance-offsets-{length}-{self._hash(groups[0], strategy, 'uint64')}.npy" in self.names:
                return Documents([self._packed(group, strategy, length) for group in groups], length)
        raise self._lacks(f"instance-offsets-{length}-HASH.npy")

    def _packed(self, files: Sequence[int], strategy: str, length: int) -> Listed:
        hashed = self._hash(files, strategy, "uint64")
        stems = "document-indices", "documents-by-instance", "instance-offsets"
        opened = [self._opened(f"{stem}-{length}-{hashed}.npy", "<u8", 1 + (k != 1)) for k, stem in enumerate(stems)]
        opened[1].most = len(opened[0]) - 1
        return self._listed(files, *opened)

    def padded(self, length: int) -> Documents:
        """Return instances of one document each."""
        return self._alone(f"instance-indices-{length}-{{}}.npy", length)

    def bucketed(self, widths: Sequence[int]) -> Documents:
        """Return instances of a part of a document each, whose lengths are some of these."""
        return self._alone("bucketed-doc-indices-{}.npy", widths[-1], *widths)

    def _alone(self, name: str, length: int, *words: object) -> Documents:
        opened = [self._opened(name.format(self._hash([k], *words)), "<u4", 2) for k in range(len(self.paths))]
        return Documents([self._listed([k], one) for k, one in enumerate(opened)], length)

    def _listed(self, files: Sequence[int], *opened: Stored) -> Listed:
        used = np.array([self.sources[k] for k in files])
        return Listed(used, np.cumsum([0, *(self.tokens[k] for k in used)]), *opened)

    def _hash(self, files: Sequence[int], *words: object) -> str:
        named = [word for k in files for word in (self.paths[k], self.tokens[self.sources[k]] * self.itemsize)]
        return hashlib.sha256("".join(map(str, (*named, *words))).encode()).hexdigest()

    def _opened(self, name: str, dtype: str, width: int) -> Stored:
        if name not in self.names:
            raise self._lacks(name)
        return self.keep(stored_raw(self.there / name, dtype, width))

    def _lacks(self, name: str) -> FormatError:
        return FormatError(
            self.there,
            f"has no {name}",
            remedy="The name follows from the paths and sizes of the token files: write paths as the configuration of "
            "the run has them, and let the table root say where they are now. If they fit, copy the whole work_dir",
        )


def mixture(facts: RunFacts, datasets: Sequence[Dataset], length: int, batch: int) -> Slices:
    """Return the instances of a source mixture: the beginnings of files, as often as their ratios need them."""
    requested, leaves = facts.given.requested_tokens or 0, facts.tree
    files, tokens, most = list[int](), list[int](), list[int]()
    for k, leaf in enumerate(leaves):
        if len(leaf.table.paths) != 1:
            raise FormatError(facts.where, "has a source of several paths in a mixture, whose order is not known")
        there = max(datasets[k].axis.length, 1)
        take = int(requested * stated(facts, "ratio", leaf.table.ratio, f"{CONFIG} (target_ratio)")) / there
        if take > _PASSES:
            raise OptionError(f"requested_tokens takes a source more than {_PASSES:,} times", name="requested_tokens")
        passes = [1.0] * (math.ceil(take) - 1)
        for share in (*passes, take - len(passes)):
            files.append(k)
            tokens.append(math.ceil(there * share))
            most.append(there // length)
    counts = [min(one // length, limit) for one, limit in zip(tokens, most, strict=True)]
    rests = [token % length / length for token in tokens]
    missing = math.ceil(requested / (batch * length)) * batch - sum(counts)
    with_room = [k for k, count in enumerate(counts) if count < most[k]]
    for k in with_room if missing > 0 else ():
        counts[k] += min(missing // len(with_room), most[k] - counts[k])
    missing = max(0, math.ceil(requested / (batch * length)) * batch - sum(counts))
    by_rest = sorted(((rests[k], k) for k in with_room if counts[k] < most[k]), reverse=True)
    for _, k in by_rest[:missing]:
        counts[k] += 1
    return Slices([(k, np.zeros(1, np.int64), np.array([n])) for k, n in zip(files, counts, strict=True)], length)


class Mixed:
    """The instances of a tree of sources: those of its files, drawn by the mixes above them."""

    def __init__(self, facts: RunFacts, datasets: Sequence[Dataset], length: int) -> None:
        self.facts, self.length = facts, length
        leaves = [(k, np.zeros(1, np.int64), np.array([one.axis.length // length])) for k, one in enumerate(datasets)]
        self.slices = Slices(leaves, length)  # a source is one stream, whatever files it has
        self.draws = list[NDArray[np.uint32]]()  # of each source of a mix, which are in files too
        self.sizes, self.count = self.slices.counts.tolist(), self.slices.count  # of the sources of the loader
        self.drawn: NDArray[np.uint32] | None = None
        if any(one.inner for one in facts.tree):
            self._bound(self.count)
            self._left = zip(self.slices.firsts.tolist(), self.sizes, strict=True)
            parts = [self._of(one) for one in facts.tree]
            self.sizes, self.drawn = [len(part) for part in parts], np.concatenate(parts)
            self.count = len(self.drawn)

    def pieces(self, numbers: Numbers, rows: Numbers) -> Pieces:
        """Return the pieces of instances. `rows` are the indexes of their samples."""
        return self.slices.pieces(numbers if self.drawn is None else self.drawn[numbers].astype(np.int64), rows)

    def holding(self, source: int, sequence: int, start: int, stop: int) -> Numbers:
        """Return the instances with some of the tokens `start <= p < stop` of a source."""
        holding = self.slices.holding(source, sequence, start, stop)
        return holding if self.drawn is None else np.flatnonzero(np.isin(self.drawn, holding))

    @staticmethod
    def _bound(count: int) -> None:
        if count > MOST >> 2:
            raise OptionError(f"tokfmt mixes up to {MOST >> 2:,} instances (found {count:,})", name="source")

    def _of(self, tree: SourceTree) -> NDArray[np.uint32]:
        if not tree.inner:
            first, count = next(self._left)
            return np.arange(first, first + count, dtype=np.uint32)
        facts, there = self.facts, f"{CONFIG} (MixingInstanceSource)"
        parts = [self._of(one) for one in tree.inner]
        tables = [one.table for one in tree.inner]
        ratios = np.array([stated(facts, "ratio", table.ratio, there) for table in tables])
        name = "max_repetition_factor"
        repeats = np.array([stated(facts, name, table.max_repetition_factor, there) for table in tables])
        sizes = np.array([len(part) for part in parts]) * self.length
        if abs(ratios.sum() - 1) > _SLACK or not ratios.all() or not sizes.all():
            raise FormatError(facts.where, "has a mix whose ratios do not sum to 1, or a source without an instance")
        ideal = sizes.sum() * ratios
        usable = sizes * np.minimum(repeats, np.maximum(ideal / sizes, 1.0))
        counts = (ideal * min(1.0, (usable / ideal).min())).astype(np.int64) // self.length
        self._bound(int(counts.sum()))
        seed = stated(facts, "seed", tree.table.seed, f"{there}, below [[run.source]]")
        for k, (part, count) in enumerate(zip(parts, counts.tolist(), strict=True)):
            draw: NDArray[np.uint32] = np.resize(shuffled(len(part), seed + k).array, count)
            self.draws.append(draw)
            parts[k] = part[draw]
        return np.concatenate(parts)
