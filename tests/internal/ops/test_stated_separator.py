"""A separator that a dataset states is a fact: where a sequence does not end with it, the dataset is damaged."""

from dataclasses import replace

import pytest
from model.separated import without_trailing

from tokfmt.core.errors import CorruptError
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.model.readers import sequence_reader


def test_sequence_without_separator_is_found_while_reading():
    """The view that removes separators detects it."""
    stored = MemoryReader(Ragged.of([[1, 9], [3], [2, 9]]))
    stored.info = replace(stored.info, eos_id=9)
    view = without_trailing(stored, 9, "x")
    for read in (lambda: view.tokens(0, 2), lambda: sequence_reader(view)(1)):
        with pytest.raises(CorruptError, match="sequence 1 does not end with the separator 9.*found 3"):
            read()
    assert sequence_reader(view)(2).tolist() == [2]
