"""Checks of the indexes of Megatron: whether they are of the tokens that are there, and in the order that it builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Finding
from tokfmt.errors import CorruptError
from tokfmt.files.place import Place
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import Held, Integers, Numbers, Stored, are_equal, searched
from tokfmt.runs.megatron_samples import Blend, Windows
from tokfmt.runs.order import repeats, unlike
from tokfmt.wording import printable

_LAGS = 1 << 20  # of sources, held at once
_LARGEST = float(1 << 53)
_TIE = 1e-4  # sources whose lags differ by less may follow in either order, as sums are rounded


def unlike_blend(blend: Blend, weights: Sequence[float | None]) -> Iterator[Finding]:
    """Compare the files of a blend with each other, and with the `weights` of its sources if all are known."""
    which, inner = blend.which, blend.inner
    if not isinstance(which, Stored) or not isinstance(inner, Stored):
        return  # it is built again
    if len(which) != len(inner):
        raise CorruptError(
            inner.file.path,
            "has another number of entries than the index of sources beside it",
            expected=f"{len(which):,}",
            found=f"{len(inner):,}",
            remedy="Copy both again",
        )
    if (entry := _out_of_turn(blend, which, inner)) is not None:
        yield Finding(
            "TF813",
            "error",
            str(inner.file.path),
            f"entry {entry:,} does not have the next sample of its source, so that some samples were read twice or "
            f"never. It, or the entry of {which.file.path.name} for it, was damaged",
        )
        return
    known = [weight for weight in weights if weight is not None]
    are_weights = len(known) == len(weights) and min(known) >= 0 and 0 < sum(known) < _LARGEST
    if are_weights and (entry := _off_weight(which, known)) is not None:
        yield unlike(which.file.path, f"entry {entry:,} is not of the source that lags its weight most")


def _out_of_turn(blend: Blend, which: Integers, inner: Integers) -> int | None:
    """Return the first entry that does not have the next sample of its source; None if each has."""
    taken = np.zeros(len(blend.windows), np.int64)
    for a, sources in searched(which):
        numbers, wrong = inner.read(a, a + len(sources)), list[int]()
        for k, windows in enumerate(blend.windows):
            at = np.flatnonzero(sources == k)
            after = taken[k] + np.arange(len(at))
            wrong += at[(numbers[at] != after) | (after >= windows.count)][:1].tolist()
            taken[k] += len(at)
        if wrong:
            return a + min(wrong)
    return None


def _off_weight(which: Integers, weights: Sequence[float]) -> int | None:
    """Return the first entry whose source does not lag its weight most; None if each does. Every entry has the next
    sample of its source.
    """
    shares = np.array(weights, np.float64) / sum(weights)
    taken = np.zeros(len(shares), np.int64)
    for a, sources in searched(which, step=_LAGS // len(shares) + 1):
        held = sources[:, None] == np.arange(len(shares))
        before = taken + np.cumsum(held, 0) - held
        lag = np.maximum(a + np.arange(len(sources)), 1)[:, None] * shares - before
        wrong = np.flatnonzero(lag[held] < lag.max(1) - _TIE)
        if len(wrong):
            return a + int(wrong[0])
        taken += held.sum(0)
    return None


def stale_or_repeated(
    windows: Windows, bounds: tuple[int, int], title: str, documents: Place, shuffle: Place, *, deep: bool
) -> Iterator[Finding]:
    """Compare the indexes of a source with its tokens. `bounds` are the documents of the split."""
    if deep:
        yield from repeats(shuffle, windows.shuffle)
    first, last = bounds
    per = int(_sizes_of(windows.dataset)[first:last].sum())
    epochs = len(windows.documents) // max(last - first, 1)
    expected = max(0, epochs * per - windows.extra) // windows.seq_len
    count = len(windows.shuffle)
    if epochs * (last - first) != len(windows.documents) or expected != count:
        yield Finding(
            "TF814",
            "error",
            str(documents),
            f"the order is stale: it was made for {len(windows.documents):,} documents and {count:,} samples, "
            f"and {printable(title)} has {last - first:,} documents of {per:,} tokens in this split. "
            "The tokens were replaced after it was made",
        )


def _sizes_of(dataset: Dataset) -> Numbers:
    """Return the length of each sequence with its separator."""
    starts, stops = dataset.spans.extents(0, dataset.spans.count)[:2]
    return stops - starts


def unlike_described(
    windows: Windows, content: Mapping[str, Any], title: str, stem: Place, split: str, *, deep: bool
) -> Iterator[Finding]:
    """Compare the indexes of a source with its tokens, and with the order that its description gives."""
    sizes, bounds = _sizes_of(windows.dataset), (0, windows.dataset.spans.count)
    document, shuffle = (stem.with_name(f"{stem.name}-{name}_index.npy") for name in ("document", "shuffle"))
    matrix = content.get("split_matrix")
    number = {"train": 0, "valid": 1, "test": 2}.get(split, 0)
    if isinstance(matrix, list) and number < len(matrix) and _are_shares(matrix[number]):
        low, high = matrix[number]
        bounds = (round(low * len(sizes)), round(high * len(sizes)))
    found = list(stale_or_repeated(windows, bounds, title, document, shuffle, deep=deep))
    yield from found
    if deep and not any(finding.code == "TF814" for finding in found):
        yield from _rebuilt_unlike(windows, sizes, bounds, content, document)


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
