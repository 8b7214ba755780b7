"""Writing JSON lines: ids as text, texts through a decoder, long sequences, parts."""

import json

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.formats.jsonl.writer import ids_lines, listed
from tokfmt.plugin import Ragged

EDGES = [
    0,
    1,
    9,
    10,
    99,
    100,
    99_999,
    100_000,
    65_535,
    65_536,
    999_999,
    10**6,
    10**6 + 1,
    10**7,
    4_294_000_000,
    2**32 - 1,
]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 300), st.sampled_from(EDGES)), max_size=9),
        max_size=9,
    )
)
def test_ids_are_written_as_json_dumps_does(sequences):
    data = Ragged.of(sequences)
    lines = ids_lines(data.tokens, data.offsets, b'{"input_ids": ', b"}\n")
    assert lines.decode() == "".join(json.dumps({"input_ids": s}) + "\n" for s in sequences)
    assert listed(data.tokens) == str(data.tokens.tolist())[1:-1].encode()


@pytest.mark.parametrize("edge", EDGES)
def test_every_width(edge):
    assert listed(np.array([edge, 5, edge], np.uint64)) == f"{edge}, 5, {edge}".encode()
