"""A separator that a dataset states is a fact: where a sequence does not end with it, the dataset is damaged."""

import pytest

from tokfmt.core.errors import CorruptError
from tokfmt.core.protocols import sequence_reader
from tokfmt.core.ragged import Ragged
from tokfmt.views.memory import MemoryReader
from tokfmt.views.view import WithoutTrailing


def test_sequence_without_separator_is_found_while_reading():
    """The view that removes separators detects it."""
    view = WithoutTrailing(MemoryReader(Ragged.of([[1, 9], [], [2, 9]])), 9, "x")
    for read in (lambda: view.tokens(0, 1), lambda: sequence_reader(view)(1)):
        with pytest.raises(CorruptError, match="sequence 1 does not end with the separator 9.*found an empty sequence"):
            read()
    assert sequence_reader(view)(2).tolist() == [2]
