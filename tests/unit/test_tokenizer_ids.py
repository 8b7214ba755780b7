"""The IDs of a tokenizer: any set of numbers, compared with plain sets."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokfmt.core.tokenizer_ids import TokenizerIds

sets = st.sets(st.integers(0, 40), min_size=1)


@given(sets, st.sampled_from(["u2", "u4", "u8", "i8"]))
def test_a_set_of_ids(ids, dtype):
    found, every = TokenizerIds.of(ids), range(50)
    assert (found.size, found.stop) == (len(ids), max(ids) + 1)
    assert [token in found for token in every] == [token in ids for token in every]
    assert found.lacks(np.array(every, dtype)).tolist() == [token not in ids for token in every]
    assert found.lacks(np.array([every, every], dtype)).tolist() == 2 * [[token not in ids for token in every]]


@given(sets)
def test_a_manifest_states_them(ids):
    found = TokenizerIds.of(ids)
    assert TokenizerIds.stated(json.loads(json.dumps(found.facts()))) == found


def test_too_many_gaps_are_not_stated():
    facts = TokenizerIds.of(range(0, 1 << 13, 2)).facts()
    assert facts == {"vocab_size": 1 << 12, "gaps": None}
    assert TokenizerIds.stated(facts) is None


@pytest.mark.parametrize("gaps", [7, "12", [1, 2], [[2, 1]], [[1, 3], [2, 4]], [[-1, 2]], [[1.5, 2]], [[True, 2]], {}])
def test_a_manifest_may_state_anything(gaps):
    assert TokenizerIds.stated({"vocab_size": 9, "gaps": gaps}) in (None, TokenizerIds(9))


@pytest.mark.parametrize("size", [None, 0, -1, "9", True, 9.0])
def test_a_size_that_is_none(size):
    assert TokenizerIds.stated({"vocab_size": size}) is None


def test_the_separator_and_no_id_are_never_lacking():
    ids = TokenizerIds.of([0, 1, 2, 5])
    asked = [(-1, None), (5, None), (4, None), (6, None), (6, 6)]
    assert [ids.lacks_largest(largest, eos) for largest, eos in asked] == [False, False, True, True, False]


def test_words():
    assert str(TokenizerIds(4096)) == "IDs below 4,096"
    assert str(TokenizerIds.of([*range(1000), 1001, 1400])) == "IDs below 1,401 without 1,000, 1,002 to 1,399"
    assert str(TokenizerIds.of(range(0, 20, 2))) == "IDs below 19 without 1, 3, 5 and 6 more gaps"
    assert TokenizerIds(4096).query == "id>=4096"
    assert TokenizerIds.of([0, 3, 9]).query == "any:1:3,4:9,10:"
