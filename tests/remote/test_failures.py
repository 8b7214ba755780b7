"""The words of failures that no server of the tests answers with."""

import pytest

from tokfmt.errors import FormatError, UnreachableError
from tokfmt.plugin import Url
from tokfmt.stores.failures import Asked, failure, may_pass


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dns error: failed to lookup address information", "host example.org is unknown"),
        ("invalid peer certificate: UnknownIssuer", "the certificate of example.org is not trusted"),
        ("status code: 403 <Code>RequestTimeTooSkewed</Code>", "the clock of this machine is wrong"),
        (
            "status code: 403 <Code>RequestTimeTooSkewed</Code><RequestTime>20261125T120000Z</RequestTime>"
            "<ServerTime>2026-11-25T12:17:10Z</ServerTime>",
            "the clock of this machine is 17 minutes behind. Set the clock",
        ),
        ("status code: 400 <Code>ExpiredToken</Code>", "the credentials of profile work have expired. Renew them"),
        (
            "status code: 403 <Code>AccessDenied</Code> user planted is not authorized to perform: s3:GetObject on planted",
            "access denied for the credentials of profile work (s3:GetObject)",
        ),
        ("status code: 401 Unauthorized", "access denied for the credentials of profile work"),
        ("operation timed out, after 3 retries", "cannot be reached: no answer in time after 4 tries. Run again later"),
        ("something else https://planted", "cannot be reached: the connection failed. Run again later"),
    ],
)
def test_words_of_failures(text, words):
    error = failure(Url.parse("https://example.org/k"), RuntimeError(text), Asked("profile work"))
    assert isinstance(error, FormatError) and words in str(error) and "planted" not in str(error)
