"""A signal ends every command at any moment: within bounded time, with 128 + n, one line at most, and nothing left."""

import signal

import pytest

from tokfmt.run.isolation import postponed, undelivered

pytestmark = pytest.mark.slow


def test_signal_waits_for_a_process_that_is_starting():
    """Any thread can receive the signal; Python handles it in the main thread."""
    answered = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: postponed(number) or answered.append(number))
    try:
        with undelivered():
            signal.raise_signal(signal.SIGUSR1)
            assert answered == []
        assert answered == [signal.SIGUSR1]
        signal.raise_signal(signal.SIGUSR1)
        assert answered == [signal.SIGUSR1] * 2
    finally:
        signal.signal(signal.SIGUSR1, before)
