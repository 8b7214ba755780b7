"""A crash of the browser is an error of the command."""

from types import SimpleNamespace

import pytest


def test_crash_of_the_browser_is_an_error_exit():
    from tokfmt.cli.browse import _run_until_closed

    with pytest.raises(RuntimeError, match="the browser failed"):
        _run_until_closed(SimpleNamespace(return_code=1, post_message=lambda message: True), lambda: None)
    assert _run_until_closed(SimpleNamespace(return_code=0, post_message=lambda message: True), lambda: 7) == 7
