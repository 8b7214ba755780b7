"""Processors and memory that a process may use: control groups of both versions, whole, nested, in containers, damaged."""

import os

from tokfmt.core import resources


def test_this_machine():
    assert 1 <= resources.cpus() <= os.cpu_count()
    assert resources.memory() > 1 << 28
