"""Runs of Megatron-LM up to 23.06: index maps beside the data, or descriptions in `--data-cache-path`.

    PREFIX_SPLIT_indexmap_Nns_Lsl_Ss_doc_idx.npy       int32[n]: documents, repeated and shuffled
    ..._sample_idx.npy                                 int32[m + 1, 2]: where each window begins
    ..._shuffle_idx.npy                                uint32[m]: the window of each sample
    HASH.dsc, HASH_doc_idx.npy, ...                    23.06: text, with the same arrays beside it
    HASH.dsc, HASH_index.npy, HASH_sample_index.npy    23.06: the blend, uint8[size] and int64[size]

SPLIT is train, valid or test, N the samples that were asked for, L their length, S the seed. HASH is the MD5 of the
text. Up to 23.04 no file holds the blend: it is built again from the weights of `--data-path`. Source: v2.6 and 23.06
ran.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tokfmt.core.findings import Finding, Problem
from tokfmt.errors import CorruptError, FormatError, OptionError
from tokfmt.files.file import names_in, read_whole
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Held, Integers, Numbers, searched
from tokfmt.runs.facts import RunFacts, weights_of
from tokfmt.runs.megatron_checks import stale_or_repeated, unlike_blend
from tokfmt.runs.megatron_samples import Blend, BlendOrder, Windows, megatron_source, sample_length
from tokfmt.runs.order import RunSource
from tokfmt.wording import printable

_NAME = re.compile(
    r"(?P<prefix>.+)_(?P<split>train|valid|test)(?:_(?P<number>\d+))?_indexmap_"
    r"(?P<words>(?P<asked>\d+|None)ns_(?P<length>\d+)sl_\d+s(?:_(?P<packing>\w+?)pi(?:_ac)?)?)_doc_idx\.npy"
)
_TEXT = re.compile(r"GPT Dataset\n\n.*?\nSplit [^\n]*\n", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,18}")
_DESCRIPTION = 1 << 24  # bytes
_SURPLUS = 1.005  # samples that are built for each that is asked for
_FILES = ("doc", "sample", "shuffle")


class IndexMap(NamedTuple):
    """The order files of a source."""

    source: RunSource
    stem: Place  # their path, without `_doc_idx.npy`
    length: int  # input tokens of a sample
    packing: str = ""  # of GPT-NeoX

    @property
    def files(self) -> tuple[Place, Place, Place]:
        """The document index, the sample index and the shuffle index."""
        document, sample, shuffle = (self.stem.with_name(f"{self.stem.name}_{name}_idx.npy") for name in _FILES)
        return document, sample, shuffle


def sources(facts: RunFacts) -> list[RunSource]:
    """Return the datasets that the run read, in the order of the blend."""
    return [one.source for one in facts.once("maps", _found)[0]]


def _found(facts: RunFacts) -> tuple[list[IndexMap], tuple[Place, Place] | None]:
    described = [name for name in names_in(facts.cache) if name.endswith(".dsc")] if facts.cache.is_dir() else []
    if described:
        return _described(facts, described)
    return index_maps(facts, _mixed(facts.given.data_path)), None


def _mixed(words: Sequence[str]) -> list[tuple[str, float | None]]:
    """Return the paths of `--data-path` with their weights."""
    if len(words) < 2:
        return [(path, None) for path in words]
    weights = weights_of("data_path", words[::2], len(words[1::2]))
    return list(zip(words[1::2], weights, strict=True))


def index_maps(facts: RunFacts, mixed: Sequence[tuple[str, float | None]], *, numbered: bool = False) -> list[IndexMap]:
    """Return the order files beside the data of some paths with their weights; without any, of the only data there.

    `numbered`, the place of a path in the list of paths may stand in the names of its order files.
    """
    if not mixed:
        found = {match["prefix"] for match in map(_NAME.fullmatch, names_in(facts.cache)) if match}
        if len(found) != 1:
            listed = f"the orders of {', '.join(sorted(map(printable, found)))}" if found else "no order files"
            raise OptionError(
                f"{printable(facts.cache)}: has {listed}. Name the data of the run, as its arguments do: "
                "--from-opt data_path=WEIGHT,PATH,WEIGHT,PATH (train_data_paths and train_data_weights of GPT-NeoX)",
                name="data_path",
            )
        mixed = [(str(facts.cache / found.pop()), None)]
    total = sum(weight or 0 for _, weight in mixed)
    maps = list[IndexMap]()
    for k, (path, weight) in enumerate(mixed):
        place = facts.named(path)
        share = None if weight is None or not total else weight / total
        stem, match = _chosen(facts, place, k if numbered else None, share)
        length = sample_length(int(match["length"]), stem)
        maps.append(IndexMap(megatron_source(place.name, place, share), stem, length, match["packing"] or ""))
    if len({one.length for one in maps}) > 1:
        raise OptionError(
            "the order files are of samples of several lengths. --from-opt order=Nns_Lsl chooses", name="order"
        )
    return maps


def _chosen(facts: RunFacts, data: Place, number: int | None, share: float | None) -> tuple[Place, re.Match[str]]:
    """Return the beginning of the order files beside a dataset, and what their names state."""
    given, matches = facts.given, map(_NAME.fullmatch, names_in(data.parent))
    named = [one for one in matches if one and one["prefix"] == data.name and one["split"] == given.split]
    plain = [one for one in named if one["number"] is None]
    found = plain if number is None else [one for one in named if one["number"] == str(number)] or plain
    if given.samples is not None and share is not None:
        asked = str(math.ceil(given.samples * share * _SURPLUS))
        found = [match for match in found if match["asked"] == asked] or found
    if given.order is not None:
        found = [one for one in found if one["words"] == given.order] or [
            one for one in found if one["words"].startswith(given.order)
        ]
    if not found:
        raise FormatError(
            data,
            f"has no order files of the split {given.split} beside it",
            remedy="--from-opt split=NAME names another",
        )
    if len(found) > 1:
        words = ", ".join(sorted(match["words"] for match in found)[:6])
        raise OptionError(
            f"{printable(data)}: has several orders beside it: {words}. --from-opt order=WORDS chooses one, and "
            "--from-opt samples=N the ones that a run of so many samples asked for",
            name="order",
        )
    return data.parent / found[0].string.removesuffix("_doc_idx.npy"), found[0]


def _described(facts: RunFacts, names: Sequence[str]) -> tuple[list[IndexMap], tuple[Place, Place] | None]:
    """Return the order files that descriptions of 23.06 name."""
    there, given = facts.cache, facts.given
    tops = list[tuple[str, list[str], list[float]]]()
    for name in sorted(names):
        text = _text_of(there / name)
        inner = _TEXT.findall(text)
        if not inner or _value(inner[0], "Dataset name") != given.split:
            continue
        weights = _weights_of(text, there / name) if "Blend" in text else []
        if "Blendable" in text or (given.order is not None and name.startswith(given.order)):
            tops.append((name.removesuffix(".dsc"), inner, weights))
        elif len(names) == 1:
            tops.append((name.removesuffix(".dsc"), inner, []))
    if given.order is not None:
        tops = [top for top in tops if top[0].startswith(given.order)]
    if len(tops) != 1:
        listed = ", ".join(name[:8] for name, *_ in tops) or "none"
        raise OptionError(
            f"{printable(there)}: the orders of the split {given.split} are {listed}. --from-opt order=HASH, or "
            "split=NAME, chooses one",
            name="order",
        )
    hashed, inner, weights = tops[0]
    maps = [_of_text(facts, there, one, weights[k] if k < len(weights) else None) for k, one in enumerate(inner)]
    return maps, (there / f"{hashed}_index.npy", there / f"{hashed}_sample_index.npy") if weights else None


def _of_text(facts: RunFacts, there: Place, text: str, weight: float | None) -> IndexMap:
    hashed = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    where, path = there / f"{hashed}.dsc", _value(text, "Data prefix")
    source = megatron_source(path.rpartition("/")[2], facts.located(path, where), weight)
    length = _value(text, "Sequence length")
    return IndexMap(source, there / hashed, sample_length(int(length) if _NUMBER.fullmatch(length) else length, where))


def _weights_of(text: str, path: Place) -> list[float]:
    words = re.findall(r"[0-9.eE+-]+", text.rpartition("Weights:")[2].partition("]")[0])
    try:
        return [float(word) for word in words]
    except ValueError as error:
        raise CorruptError(path, "does not state the weights of its datasets", remedy="Copy it again") from error


def _text_of(path: Place) -> str:
    try:
        return read_whole(path, _DESCRIPTION).decode()
    except UnicodeDecodeError as error:
        raise CorruptError(path, "is not the text of a description", remedy="Copy it again") from error


def _value(text: str, key: str) -> str:
    return text.partition(f"\n{key} ")[2].partition("\n")[0]


class MegatronLmOrder(BlendOrder):
    """The order of one split."""

    framework = "megatron-lm"

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> None:
        self.maps, blended = facts.once("maps", _found)
        super().__init__(facts, read, datasets, self.maps[0].length)
        windows = [self.windows(k, one.files) for k, one in enumerate(self.maps)]
        which: Integers | None = None
        numbers: Integers | None = None
        if blended is not None:
            stored = self.opened(blended[0])
            stored.most = len(windows) - 1
            which, numbers = stored, self.opened(blended[1])
        elif len(windows) > 1:
            which, numbers = self._ended([window.count for window in windows])
        self.load(Blend(windows, which, numbers))

    def _ended(self, counts: Sequence[int]) -> tuple[Held, Held]:
        """Return the blend of sources with so many samples, up to the first sample that one of them does not have."""
        which, numbers = self.blended(sum(counts))
        for a, inner in searched(numbers):
            beyond = np.flatnonzero(inner >= np.array(counts)[which.read(a, a + len(inner))])
            if len(beyond):
                end = a + int(beyond[0])
                return Held(which.array[:end]), Held(numbers.array[:end])
        return which, numbers

    def look(self, *, deep: bool) -> Iterator[Finding | Problem]:
        for windows, one in zip(self.blend.windows, self.maps, strict=True):
            yield from look_at(windows, one, deep=deep)
        if deep:
            yield from unlike_blend(self.blend, [source.weight for source in self.sources])


order = MegatronLmOrder


def look_at(windows: Windows, one: IndexMap, *, deep: bool) -> Iterator[Finding]:
    """Compare the indexes of a source with its tokens. The documents of the split are those of the first epoch."""
    document, _, shuffle = one.files
    listed: Numbers = windows.documents.read(0, len(windows.documents))
    bounds = (int(listed.min()), int(listed.max()) + 1) if len(listed) else (0, 0)
    yield from stale_or_repeated(windows, bounds, one.source.name, document, shuffle, deep=deep)
