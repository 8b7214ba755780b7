"""A reader of the dataset of a reader is what commands read today, for all goldens."""

import pickle

import numpy as np
import pytest
from amount import FUZZ_ONLY
from model.opened import GIVEN, HOMES, readers
from paths import FIXTURES, GOLDEN

from tokfmt.core.errors import TokfmtError
from tokfmt.model import bridge
from tokfmt.model.bridge import as_reader, from_reader

LEAST = {"modalities": 37, "megatron": 14, "hdf5": 9, "flat-tokens": 10}
"""Readers that are compared at least, in each way to open them."""


def spread(count, most):
    return sorted({*range(min(count, 3)), *np.linspace(0, count - 1, min(count, most)).astype(int).tolist()})


def place(reader, position):
    try:
        return bridge.byte_offset_of(reader, position)
    except LookupError:
        return None


def same(view, found):
    total, count = view.info.tokens, view.info.sequences
    assert (found.info.tokens, found.info.sequences, found.info.dtype) == (total, count, view.info.dtype)
    assert (found.info.layout, found.info.eos_id) == (view.info.layout, view.info.eos_id)
    tokens = view.tokens(0, total)
    assert np.array_equal(found.tokens(0, total), tokens)
    offsets = view.offsets(0, count) if count else np.zeros(1, np.int64)
    if count:
        assert np.array_equal(found.offsets(0, count), offsets)
    for number in spread(count, 5):
        start, stop = found.offsets(number, number + 1).tolist()
        assert np.array_equal(found.tokens(start, stop), tokens[start:stop])
        assert np.array_equal(found.dataset[number], tokens[start:stop])
    for start in spread(total, 4):
        stop = min(total, start + 700)
        assert np.array_equal(found.tokens(start, stop), tokens[start:stop])
    for wrong in ((-1, 0), (0, total + 1), (1, 0)):
        with pytest.raises(IndexError):
            found.tokens(*wrong)
    marks = view.marks(0, total) if hasattr(view, "marks") else None
    mine = found.marks(0, total)
    assert (marks is None) == (mine is None)
    if marks is not None:
        assert np.array_equal(mine, marks)
        assert np.array_equal(found.marks(total // 3, total // 2), marks[total // 3 : total // 2])
    for position in spread(total, 4)[-4:]:
        spot = place(view, position)
        assert place(found, position) == spot
        if spot is not None:
            for byte in range(spot.offset, spot.offset + 2 * (spot.width or 1)):  # those of separators, as well
                expected = bridge.position_of(view, spot.path, byte)
                assert bridge.position_of(found, spot.path, byte) == expected


def compare(home, ways=GIVEN):
    count = 0
    for name, view, stored, eos in readers(home, ways):
        try:
            view.tokens(0, view.info.tokens)
        except TokfmtError:
            continue
        try:
            found = as_reader(from_reader(stored, eos), view.info)
            same(view, found)
            again = as_reader(pickle.loads(pickle.dumps(found.dataset)), view.info)
            assert np.array_equal(again.tokens(0, again.info.tokens), view.tokens(0, view.info.tokens))
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
