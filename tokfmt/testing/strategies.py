"""Hypothesis strategies for datasets: the shapes that break writers."""

from __future__ import annotations

from hypothesis import strategies as st

from tokfmt.core.ragged import Ragged


def datasets(
    max_id: int = 2**31 - 1,
    *,
    empty: bool = True,
    avoid: int | None = None,
    max_sequences: int = 12,
    max_length: int = 40,
) -> st.SearchStrategy[Ragged]:
    """Small datasets: none, one or several sequences, some empty, some of one token, ids up to `max_id`.

    Args:
        max_id: Largest id that may occur; it and 0 occur often.
        empty: Whether sequences may be empty.
        avoid: An id that must not occur (a separator).
        max_sequences, max_length: Bounds of the size.
    """
    ids = st.one_of(st.integers(0, max_id), st.sampled_from([0, 1, max_id]))
    if avoid is not None:
        ids = ids.filter(lambda token: token != avoid)
    sequence = st.lists(ids, min_size=0 if empty else 1, max_size=max_length)
    return st.lists(sequence, max_size=max_sequences).map(Ragged.of)
