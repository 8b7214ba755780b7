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

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Finding, Problem
from tokfmt.errors import CorruptError, FormatError, OptionError
from tokfmt.files.file import names_in, open_file
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Held, Integers, Numbers, are_equal
from tokfmt.runs.facts import RunFacts
from tokfmt.runs.megatron_samples import (
    Blend,
    BlendOrder,
    Windows,
    megatron_source,
    sizes_of,
    stale_or_repeated,
    unlike_blend,
)
from tokfmt.runs.order import Order, RunSource, unlike
from tokfmt.wording import printable

_DESCRIPTION = 1 << 24  # bytes
_LONGEST = 1 << 24  # tokens of a sample, as of a recipe


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
    file = open_file(path)
    try:
        if file.size > _DESCRIPTION:
            raise FormatError(path, "is too long for a description", expected=f"at most {_DESCRIPTION:,} bytes")
        content = json.loads(file.read(0, file.size))
    except (ValueError, RecursionError) as error:
        raise CorruptError(path, f"is not JSON: {printable(error)}", remedy="Copy it again") from error
    finally:
        file.close()
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


def _length(content: Mapping[str, Any], where: Place) -> int:
    """Return the input tokens of a sample."""
    length = content.get("sequence_length")
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= _LONGEST:
        expected = f"a whole number from 1 to {_LONGEST:,}"
        raise CorruptError(where, "states a sequence_length", expected=expected, found=printable(str(length)))
    return length


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


def order(facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset]) -> Order:
    """Return the order that the files hold."""
    return MegatronOrder(facts, read, datasets, facts.once("cache", _cache_of))


class MegatronOrder(BlendOrder):
    """The order of one split."""

    framework = "megatron-core"

    def __init__(self, facts: RunFacts, read: Sequence[RunSource], datasets: Sequence[Dataset], cache: _Cache) -> None:
        where = cache.there / f"{cache.datasets[0].stem}-description.txt"
        super().__init__(facts, read, datasets, _length(cache.datasets[0].content, where))
        self.cache, there = cache, cache.there
        windows = [
            self.windows(k, *(there / f"{one.stem}-{name}_index.npy" for name in ("document", "sample", "shuffle")))
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
            yield from _look_at(indexes, one, self.cache.there, self.given.split, deep=deep)
        if deep and self.cache.blend is not None:
            # without a size, sources end one after another, whatever their weights
            weighted = self.cache.blend.content.get("size") is not None
            yield from unlike_blend(self.blend, [one.weight if weighted else None for one in self.sources])


def _look_at(windows: Windows, one: _Described, there: Place, split: str, *, deep: bool) -> Iterator[Finding]:
    """Compare the indexes of a source with its tokens, and with the order that its description gives."""
    sizes, content = sizes_of(windows.dataset), one.content
    place = there / f"{one.stem}-document_index.npy"
    bounds = (0, len(sizes))
    matrix = content.get("split_matrix")
    number = {"train": 0, "valid": 1, "test": 2}.get(split, 0)
    if isinstance(matrix, list) and number < len(matrix) and _are_shares(matrix[number]):
        low, high = matrix[number]
        bounds = (round(low * len(sizes)), round(high * len(sizes)))
    found = list(
        stale_or_repeated(windows, bounds, one.path, place, there / f"{one.stem}-shuffle_index.npy", deep=deep)
    )
    yield from found
    if deep and not any(finding.code == "TF814" for finding in found):
        yield from _rebuilt_unlike(windows, sizes, bounds, content, place)


def _rebuilt_unlike(
    windows: Windows, sizes: Numbers, bounds: tuple[int, int], content: Mapping[str, Any], place: Place
) -> Iterator[Finding]:
    asked, seed = content.get("num_samples"), content.get("random_seed")
    if not isinstance(seed, int) or not 0 <= seed < 1 << 32 or not (asked is None or isinstance(asked, int)):
        return
    if not windows.count or (asked is not None and asked > windows.count):
        return  # Megatron-Core makes as many samples as are asked for, so the description is of another order.
    fresh = _rebuilt(sizes, bounds, asked, windows.seq_len, windows.extra, seed)
    pairs: list[tuple[str, Integers, Integers]] = [
        ("document index", windows.documents, fresh[0]),
        ("sample index", windows.samples, fresh[1]),
        ("shuffle index", windows.shuffle, fresh[2]),
    ]
    others = [name for name, ours, theirs in pairs if not are_equal(ours, theirs)]
    if others:
        what = f"Megatron-Core builds another {' and another '.join(others)} of these tokens, this seed and this length"
        yield unlike(place, what)


def _sample_index(lengths: Numbers, seq_len: int, extra: int, windows: int) -> Numbers:
    """Return where windows begin, int64[windows + 1, 2]: a place in the document index, and a token there."""
    ends = np.cumsum(lengths)
    at = np.arange(windows + 1, dtype=np.int64) * seq_len
    wanted = at + extra
    place = np.minimum(np.searchsorted(ends, wanted, side="left"), max(len(ends) - 1, 0))
    offset = at - (ends[place] - lengths[place])
    over = wanted > ends[-1] if len(ends) else np.zeros(len(at), np.bool_)
    offset[over] = lengths[-1] - extra if len(lengths) else 0
    place[0] = offset[0] = 0
    return np.column_stack([place, offset])


def _rebuilt(
    sizes: Numbers, bounds: tuple[int, int], asked: int | None, seq_len: int, extra: int, seed: int
) -> tuple[Held, Held, Held]:
    """Return the document index, the sample index and the shuffle index as Megatron builds them.

    `bounds` are the documents of the split. The last epoch may be shuffled by itself.
    """
    numbers = np.arange(*bounds, dtype=np.int32)
    per = int(sizes[bounds[0] : bounds[1]].sum())
    epochs = 1
    if asked is not None:
        epochs = max(1, -(-(asked * seq_len + extra) // per))
        while epochs > 1 and (epochs - 1) * per >= asked * seq_len + extra:
            epochs -= 1
    first, apart = 0, False
    if epochs > 1 and asked is not None:
        first = ((epochs - 1) * per - extra) // seq_len
        apart = (asked - first) < int(0.80 * ((per - extra) // seq_len))
    state = np.random.RandomState(seed)

    def block(count: int) -> NDArray[np.int32]:
        drawn = np.tile(numbers, count)
        state.shuffle(drawn)
        return drawn

    documents = np.concatenate([block(epochs - 1), block(1)]) if apart else block(epochs)
    count = (epochs * per - extra) // seq_len
    samples = _sample_index(sizes[documents].astype(np.int64), seq_len, extra, count)
    parts = [(0, first), (first, count)] if apart else [(0, count)]
    shuffles = list[NDArray[np.uint32]]()
    for a, b in parts:
        drawn = np.arange(a, b, dtype=np.uint32)
        state.shuffle(drawn)
        shuffles.append(drawn)
    return Held(documents), Held(samples), Held(np.concatenate(shuffles))


def _are_shares(pair: object) -> bool:
    """Return True for the bounds of a split, two shares of all documents."""
    return (
        isinstance(pair, list)
        and len(pair) == 2
        and all(isinstance(one, (int, float)) for one in pair)
        and (0 <= pair[0] <= pair[1] <= 1)
    )
