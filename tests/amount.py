"""How much is tried: 400 mutations and one case of each kind in `make test`, FUZZ mutations and every grid in `make fuzz`.

EXAMPLES=N tries N examples of each property: `EXAMPLES=10000 .venv/bin/python -m pytest -n0 tests/model`.
"""

import itertools
import os

import pytest

NIGHTLY = bool(os.environ.get("FUZZ"))
MUTATIONS = int(os.environ.get("FUZZ") or 400)

EVERY = NIGHTLY or os.environ.get("SNAPSHOTS") == "renew"
"""The other cases of `first`, `only` and `pairs` are made, and marked `FUZZ_ONLY`; else they are not, as that takes time."""

FUZZ_ONLY = pytest.mark.fuzz_only
"""Marks what only `make fuzz` runs: cases that are like others of `make test`, and what takes more than about 1.5 s."""


def examples(most):
    """How many examples of a property are tried: a fifth of them in `make test`, and all in `make fuzz`."""
    return int(os.environ.get("EXAMPLES") or (most if NIGHTLY else max(12, most // 5)))


def first(kept, cases):
    """Parameters of which `make test` has the first `kept` ones, and `make fuzz` all."""
    cases = list(cases)
    return cases[:kept] + [_at_length(case) for case in cases[kept:] if EVERY]


def only(kept, cases):
    """Parameters of which `make test` has those in `kept`, and `make fuzz` all."""
    cases = list(cases)
    assert set(kept) <= set(cases)
    return [case if case in kept else _at_length(case) for case in cases if EVERY or case in kept]


def pairs(*factors):
    """All combinations of some values; `make test` has those in which any two values meet, and `make fuzz` all.

    Of two factors `make test` has each value of either once at least.
    """
    cases = list(itertools.product(*factors))
    size = 2 if len(factors) > 2 else 1
    missing = {part for case in cases for part in _parts(case, size)}
    kept = set()
    while missing:
        best = max(range(len(cases)), key=lambda number: len(missing.intersection(_parts(cases[number], size))))
        kept.add(best)
        missing -= _parts(cases[best], size)
    return [
        case if number in kept else _at_length(case) for number, case in enumerate(cases) if EVERY or number in kept
    ]


def _parts(case, size):
    """Every `size` values of a case, each with the number of its factor."""
    numbered = [(number, repr(value)) for number, value in enumerate(case)]
    return set(itertools.combinations(numbered, size))


def every(case):
    """A parameter, or a tuple of several, that only `make fuzz` collects."""
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=FUZZ_ONLY)


def _at_length(case):
    """A case, which may be a parameter with marks of its own, that only `make fuzz` collects."""
    given = case if isinstance(case, type(pytest.param())) else every(case)
    return given._replace(marks=[*given.marks, FUZZ_ONLY])
