"""Runs of Megatron-Core 0.5 and later: what `--data-cache-path` holds.

    HASH-GPTDataset-SPLIT-description.txt       JSON: path, samples asked for, seed, length, split
    ...-document_index.npy                      int32[n]: documents, repeated and shuffled
    ...-sample_index.npy                        int32 or int64[m + 1, 2]: where each window begins
    ...-shuffle_index.npy                       uint32 or int64[m]: the window of each sample
    HASH-BlendedDataset-SPLIT-description.txt   JSON: the descriptions of its datasets, weights, size
    ...-dataset_index.npy                       int16[size]: the dataset of each sample
    ...-dataset_sample_index.npy                int64[size]: its number there

HASH is the MD5 of the description. Names of 0.4 to 0.6 have no SPLIT. Source: megatron-core 0.16.1, 0.12.0, 0.8.0 and
0.5.0 ran. The files do not state the batch size, the ranks, the loader, or whether samples have a token more.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tokfmt.core.findings import Finding, Problem
from tokfmt.errors import CorruptError, FormatError, OptionError
from tokfmt.files.file import names_in, read_whole
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset
from tokfmt.runs.facts import RunFacts
from tokfmt.runs.megatron_checks import unlike_blend, unlike_described
from tokfmt.runs.megatron_samples import Blend, BlendOrder, megatron_source, sample_length
from tokfmt.runs.order import RunSource
from tokfmt.wording import printable

_DESCRIPTION = 1 << 24  # bytes


class _Described(NamedTuple):
    """A description, and the beginning of the names of its files."""

    stem: str
    content: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The path of the tokens, without suffix."""
        return str(self.content.get("dataset_path", self.content.get("path_prefix", "")))


class _Cache(NamedTuple):
    """The order files of one split."""

    there: Place
    blend: _Described | None
    datasets: list[_Described]  # in the order of the blend


def _cache_of(facts: RunFacts) -> _Cache:
    there = facts.cache
    names = names_in(there)
    wanted = facts.given.split
    blends, singles = list[_Described](), list[_Described]()
    for name in sorted(names):
        if not name.endswith("-description.txt"):
            continue
        stem = name.removesuffix("-description.txt")
        parts = stem.split("-")
        if len(parts) > 2 and parts[2] != wanted:
            continue
        content = _described(there / name)
        split = parts[2] if len(parts) > 2 else str(_first(content).get("index_split", "")).rpartition(".")[2].lower()
        if split not in (wanted, ""):
            continue
        (blends if "datasets" in content else singles).append(_Described(stem, content))
    chosen = blends or singles
    if (order := facts.given.order) is not None:
        chosen = [one for one in (*blends, *singles) if one.stem.startswith(order)]
    if not chosen:
        splits = sorted({name.split("-")[2] for name in names if name.count("-") > 2})
        known = f"It has {', '.join(splits)}: --from-opt split=NAME" if splits else "Name the folder of the order files"
        raise FormatError(there, f"has no description of the split {wanted}", remedy=known)
    if len(chosen) > 1:
        listed = ", ".join(f"{one.stem[:8]} ({_words(one.content)})" for one in chosen[:4])
        raise OptionError(
            f"{printable(there)}: has the orders of {len(chosen)} runs or stretches: {listed}. "
            "--from-opt order=HASH chooses one",
            name="order",
        )
    top = chosen[0]
    if "datasets" not in top.content:
        return _Cache(there, None, [top])
    suffix = top.stem.removeprefix(top.stem.split("-")[0]).replace("BlendedDataset", "{}")
    inner = list[_Described]()
    for content in top.content["datasets"]:
        hashed = hashlib.md5(json.dumps(content, indent=4).encode(), usedforsecurity=False).hexdigest()
        inner.append(_Described(hashed + suffix.format(content.get("class", "GPTDataset")), content))
    return _Cache(there, top, inner)


def _described(path: Place) -> Mapping[str, Any]:
    try:
        content = json.loads(read_whole(path, _DESCRIPTION))
    except (ValueError, RecursionError) as error:
        raise CorruptError(path, f"is not JSON: {printable(error)}", remedy="Copy it again") from error
    if not isinstance(content, Mapping):
        raise CorruptError(path, "is not a JSON object", remedy="Copy it again")
    inner = content.get("datasets", [content])
    if not isinstance(inner, list) or not inner or not all(map(_is_description, inner)):
        raise CorruptError(path, "does not describe the datasets of a run", remedy="Copy it again")
    return content


def _is_description(content: object) -> bool:
    return isinstance(content, Mapping) and re.fullmatch(r"\w+", str(content.get("class", ""))) is not None


def _first(content: Mapping[str, Any]) -> Mapping[str, Any]:
    first: Mapping[str, Any] = content.get("datasets", [content])[0]
    return first


def _words(content: Mapping[str, Any]) -> str:
    if "datasets" in content:
        return f"{len(content['datasets'])} datasets, size {content.get('size')}"
    return f"{printable(str(content.get('dataset_path')))}, {content.get('num_samples')} samples"


def sources(facts: RunFacts) -> list[RunSource]:
    """Return the datasets that the descriptions name, in the order of the blend."""
    cache = facts.once("cache", _cache_of)
    weights = cache.blend.content.get("weights") if cache.blend else None
    found = list[RunSource]()
    for k, one in enumerate(cache.datasets):
        place = facts.located(one.path, cache.there / f"{one.stem}-description.txt")
        weight = weights[k] if isinstance(weights, list) and k < len(weights) else None
        name = one.path.rpartition("/")[2]
        found.append(megatron_source(name, place, weight))
    return found


class MegatronOrder(BlendOrder):
    """The order of one split."""

    framework = "megatron-core"

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        cache = facts.once("cache", _cache_of)
        where = cache.there / f"{cache.datasets[0].stem}-description.txt"
        super().__init__(facts, read, datasets, sample_length(cache.datasets[0].content.get("sequence_length"), where))
        self.cache, there = cache, cache.there
        windows = [
            self.windows(k, (there / f"{one.stem}-{name}_index.npy" for name in ("document", "sample", "shuffle")))
            for k, one in enumerate(cache.datasets)
        ]
        which = numbers = None
        if cache.blend is not None:
            which = self.opened(there / f"{cache.blend.stem}-dataset_index.npy")
            numbers = self.opened(there / f"{cache.blend.stem}-dataset_sample_index.npy")
            which.most = len(windows) - 1
        self.load(Blend(windows, which, numbers))

    def look(self, *, deep: bool) -> Iterator[Finding | Problem]:
        for indexes, one in zip(self.blend.windows, self.cache.datasets, strict=True):
            stem = self.cache.there / one.stem
            yield from unlike_described(indexes, one.content, one.path, stem, self.given.split, deep=deep)
        if deep and self.cache.blend is not None:
            # without a size, sources end one after another, whatever their weights
            weighted = self.cache.blend.content.get("size") is not None
            yield from unlike_blend(self.blend, [source.weight if weighted else None for source in self.sources])


order = MegatronOrder
