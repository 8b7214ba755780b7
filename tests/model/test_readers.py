"""What commands read of all goldens is what a list of tokens says, split and trimmed one by one."""

import pickle

import numpy as np
import pytest
from amount import FUZZ_ONLY
from model.opened import GIVEN, HOMES, readers
from paths import FIXTURES, GOLDEN

from tokfmt.errors import TokfmtError
from tokfmt.model.readers import ContentReader, sequence_reader
from tokfmt.plugin import Separators

LEAST = {"modalities": 37, "megatron": 14, "hdf5": 9, "flat-tokens": 10}
"""Readers that are compared at least, in each way to open them."""


def spread(count, most):
    return sorted({*range(min(count, 3)), *np.linspace(0, count - 1, min(count, most)).astype(int).tolist()})


def contents(stored, eos):
    """The slots of each content: those of its tokens, one by one."""
    tokens, how = stored.tokens(0, stored.info.tokens).tolist(), stored.info.separators
    if how in (Separators.TRAILING, Separators.NONE):
        bounds = stored.offsets(0, stored.info.sequences).tolist()
        found = [list(range(a, b)) for a, b in zip(bounds, bounds[1:], strict=False)]
        return [one[:-1] if one and tokens[one[-1]] == eos else one for one in found]
    found, last = [[]], None
    for slot, token in enumerate(tokens):
        if token == eos:
            found.append([])
        else:
            found[-1].append(slot)
        last = token
    if how is Separators.BETWEEN:
        return [one for one in found if one]
    if how is Separators.AFTER:
        return found[:-1] if last in (eos, None) else found
    return found if found[0] else found[1:]


def same(view, stored, eos):
    slots = [list(range(*stored.offsets(i, i + 1).tolist())) for i in range(stored.info.sequences)]
    slots = slots if eos is None else contents(stored, eos)
    tokens, flat = stored.tokens(0, stored.info.tokens), [slot for one in slots for slot in one]
    total, count = len(flat), len(slots)
    assert (view.info.tokens, view.info.sequences, view.info.dtype) == (total, count, stored.info.dtype)
    assert np.array_equal(view.tokens(0, total), tokens[flat])
    if count:
        assert np.diff(view.offsets(0, count)).tolist() == [len(one) for one in slots]
    one = sequence_reader(view)
    for number in spread(count, 5):
        assert np.array_equal(one(number), tokens[slots[number]])
        assert np.array_equal(view.tokens(*view.offsets(number, number + 1).tolist()), tokens[slots[number]])
    for start in spread(total, 4):
        stop = min(total, start + 700)
        assert np.array_equal(view.tokens(start, stop), tokens[flat[start:stop]])
    if eos is None:
        return
    for position in spread(total, 4)[-4:]:
        spot = view.locate(position)
        assert spot == stored.locate(flat[position])
        if spot is not None and spot.width is not None:
            for byte in range(spot.offset, spot.offset + spot.width):
                assert view.find(spot.path, byte) == position
    again = ContentReader(pickle.loads(pickle.dumps(view.dataset)), view.info)
    assert np.array_equal(again.tokens(0, total), tokens[flat])


def compare(home, ways=GIVEN):
    count = 0
    for name, view, stored, eos in readers(home, ways):
        try:
            stored.tokens(0, stored.info.tokens)
        except TokfmtError:
            continue
        try:
            same(view, stored, eos)
        except BaseException as error:
            error.add_note(name)
            raise
        count += 1
    return count


@pytest.mark.parametrize("home", [name for name in HOMES if (FIXTURES / name).is_dir()])
@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_what_commands_read_of_fixtures(home, given):
    assert compare(FIXTURES / home, [given]) >= LEAST.get(home, 1)


@FUZZ_ONLY
@pytest.mark.parametrize("home", HOMES)
def test_what_commands_read_of_goldens(home):
    if not (GOLDEN / home).is_dir():
        pytest.skip(f"golden {home} is not here")
    compare(GOLDEN / home)
