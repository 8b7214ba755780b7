"""The words of failures that no server of the tests answers with."""

import pytest

from tokfmt.core.errors import FormatError, UnreachableError
from tokfmt.plugin import Url
from tokfmt.remote.failures import Asked, failure, may_pass


def test_a_container_that_does_not_exist():
    """That it is asked for again later does not help."""
    error = FileNotFoundError("Object not found: status code: 404 Not Found: <Code>ContainerNotFound</Code>")
    found = failure(Url.parse("az://account/box/k"), error, Asked(""))
    assert isinstance(found, FormatError) and not isinstance(found, UnreachableError)
    assert "container box does not exist" in str(found) and "later" not in str(found)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("status code: 503", True),
        ("status code: 429 Too Many Requests", True),
        ("status code: 501 Not Implemented", False),
        ("status code: 403 connection", False),
        ("HTTP error: error sending request", True),
        ("HTTP error: request or response body error", True),
        ("HTTP error: error sending request\n source: invalid peer certificate: UnknownIssuer", False),
        ("HTTP error: error sending request\n source: dns error", False),
        ("Received non-partial response when range requested UnexpectedRange", False),
    ],
)
def test_what_may_pass(text, passes):
    assert may_pass(RuntimeError(text)) == passes
