"""The index codec against pickle itself: equal on every valid stream, refused or equal on every other."""

import pickle
import pickletools
import random

import numpy as np
import pytest
from amount import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokfmt.formats import pickled_index as encoder
from tokfmt.formats.pickled_index import read_entries, write_entries

QUICK = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))


def encode(entries, batch=777):
    table = np.array(entries, np.int64).reshape(-1, 2)
    parts = [(table[i : i + batch, 0], table[i : i + batch, 1]) for i in range(0, len(table), batch)]
    return b"".join(write_entries(len(table), parts))


class Held:
    """Stands in for a File: bytes in memory, which thousands of streams are quicker in."""

    path = "x.idx"

    def __init__(self, content):
        self.content, self.size = content, len(content)

    def read(self, offset, length):
        assert offset >= 0
        assert offset + length <= self.size
        return self.content[offset : offset + length]


def decode(stream, before=b"", signed=True, most=None):
    start, stop = len(before), len(before) + len(stream)
    found = []
    entries = read_entries(
        Held(before + stream + b"after"), start, stop, len(stream) if most is None else most, signed=signed
    )
    for offsets, lengths in entries:
        assert offsets.dtype == lengths.dtype == np.int64
        assert len(offsets) == len(lengths) > 0
        found += zip(offsets.tolist(), lengths.tolist(), strict=True)
    return found


def apart(entries):
    """The same entries as objects of their own, as a packer has them: no references in the pickle."""
    return [(a + 0, b + 0) for a, b in entries]


def pack(count, width=2, spread=2000, seed=0, start=0):
    rng = random.Random(seed)
    entries, at = [], start
    for _ in range(count):
        length = width * rng.randint(1, spread)
        entries.append((at, length))
        at += length
    return entries


# sizes at which CPython changes what it writes: batches of 1,000, frames of 64 KiB, wider integers


@pytest.mark.parametrize("count", [0, 1, 2, 3, 999, 1000, 1001, 1002, 1999, 2000, 2001, 3000, 3001])
def test_batches(count):
    entries = pack(count)
    stream = pickle.dumps(entries, 4)
    assert encode(entries) == stream
    for protocol in (2, 3, 4, 5):
        assert decode(pickle.dumps(entries, protocol)) == entries
        assert decode(pickle._dumps(entries, protocol), before=b"abc") == entries  # type: ignore[attr-defined]


ENTRIES = st.one_of(
    st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)), max_size=40),
    st.builds(
        lambda pairs, times: pairs * times,
        st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**17)), min_size=1, max_size=9),
        st.sampled_from([1, 120, 1001, 9000]),
    ),
)


@QUICK
@given(entries=ENTRIES, protocol=st.integers(2, 5), how=st.sampled_from(["c", "python", "optimized"]))
def test_valid_streams(entries, protocol, how):
    entries = apart(entries[:12_000])
    stream = {"c": pickle.dumps, "python": pickle._dumps, "optimized": pickle.dumps}[how](entries, protocol)  # type: ignore[attr-defined]
    if how == "optimized":
        stream = pickletools.optimize(stream)
    assert decode(stream) == entries == pickle.loads(stream)
    assert encode(entries) == pickle.dumps(entries, 4)


def test_window_of_the_encoder_does_not_show(monkeypatch):
    entries = pack(5000, spread=30_000)
    for window in (1, 7, 999, 1000, 1001):
        monkeypatch.setattr(encoder, "_WINDOW", window)
        assert encode(entries, batch=2500) == pickle.dumps(entries, 4)
