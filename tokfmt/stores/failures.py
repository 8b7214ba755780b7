"""Failures of requests, in tokfmt's words: a message of obstore holds addresses, signatures and bodies of servers."""

from __future__ import annotations

import errno
import re
from datetime import UTC, datetime
from typing import NamedTuple

from tokfmt.errors import FormatError, OutageError, SourceChangedError, TokfmtError, UnreachableError, UnsupportedError
from tokfmt.files.place import Url
from tokfmt.wording import printable

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>")
_ACTION = re.compile(r"not authorized to perform: ([a-z0-9-]{1,20}:[A-Za-z]{1,40})")
_TIME_HERE = re.compile(r"<RequestTime>(\d{8}T\d{6}Z)</RequestTime>")
_TIME_THERE = re.compile(r"<ServerTime>(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)</ServerTime>")
_TIMES = ("%Y%m%dT%H%M%SZ", "%Y-%m-%dT%H:%M:%SZ")
_TRIES = re.compile(r"after (\d+) retries")
_DNS = ("dns error", "failed to lookup address", "Name or service not known")
_TLS = ("invalid peer certificate", "certificate verify failed", "UnknownIssuer", "CertificateUnknown")
_OTHER_RANGE = ("UnexpectedRange", "NotPartial")
CANNOT_RENEW = "tokfmt cannot renew these credentials"
"""The words in the error of a provider that returns no credentials."""
_SKEW = ("RequestTimeTooSkewed", "RequestExpired")
_EXPIRED = ("ExpiredToken", "TokenRefreshRequired", "ExpiredTokenException")
_REGION = ("Received redirect without LOCATION", "PermanentRedirect", "AuthorizationHeaderMalformed")


_NOT_IMPLEMENTED = 501
_PASSING = (408, 429, 500, 502, 503, 504)
_BROKEN = (
    *("error sending request", "body error", "error decoding", "end of file"),
    *("connection", "timed out", "timeout"),
)
_NO_BUCKET = {"NoSuchBucket": "bucket", "ContainerNotFound": "container"}
_CONDITIONS = ("AlreadyExistsError", "PreconditionError")
_ODD = re.compile(r'[Pp]ath "([^"]*)"')
_CUT_OFF = "cannot be reached: "
ANONYMOUS = "--store-opt anonymous=true"


class CutError(Exception):
    """A body ends before the byte that its head states."""

    def __str__(self) -> str:
        return "unexpected end of file"


class RefusedError(Exception):
    """A request was not answered, or not as needed. Its text is made for `failure`."""

    def __init__(self, text: str, after: float = 0.0) -> None:
        super().__init__(text)
        self.after = after  # seconds after which the server wants to be asked again; 0 if it does not say


class Asked(NamedTuple):
    """The identity with which a store sends requests, for messages."""

    credentials: str  # where they come from, such as "profile work"; "" without credentials
    looked_in: tuple[str, ...] = ()  # where tokfmt looked for credentials
    renewal: str = "Renew them"  # what to do when the credentials have expired
    server: str = ""  # host that is asked, with its port; "" if the address names it, or the library knows it


def is_absent(error: BaseException) -> bool:
    """Return whether an object does not exist. A bucket that does not exist is a failure."""
    return isinstance(error, FileNotFoundError) and _code(error) not in _NO_BUCKET


def may_pass(error: BaseException) -> bool:
    """Return whether a server may answer if it is asked again: it is overloaded, or the connection broke."""
    if (
        isinstance(error, (TokfmtError, FileNotFoundError))
        or is_odd_key(error)
        or is_of_another_range(error)
        or is_unknown_host(error)
    ):
        return False
    if (status := _status(error)) is not None:
        return status in _PASSING
    text = str(error)
    lasts = CANNOT_RENEW in text or any(word in text for word in _TLS)
    return not lasts and any(word in text.lower() for word in _BROKEN)


def is_odd_key(error: BaseException) -> bool:
    """Return whether a list holds a key with an empty part, `.` or `..`, because of which obstore refuses the list."""
    return type(error).__name__ == "InvalidPathError"


def is_unknown_host(error: BaseException) -> bool:
    """Return whether the name of a host was not found."""
    return any(word in str(error) for word in _DNS)


def retries_of(error: BaseException) -> int:
    """Return how often obstore has repeated a request that failed."""
    return int(tries[1]) if (tries := _TRIES.search(str(error))) else 0


def is_of_another_range(error: BaseException) -> bool:
    """Return whether the server sent other bytes than the range that was asked for."""
    return any(word in str(error) for word in _OTHER_RANGE)


def is_beyond_the_end(error: BaseException) -> bool:
    """Return whether a range begins at or after the end of the object, as any range of an empty object does."""
    return _status(error) == 416


def is_of_another_region(error: BaseException) -> bool:
    """Return whether the bucket is in another region than the request was signed for."""
    return any(word in str(error) for word in _REGION) or _status(error) == 301


def says_nothing(error: BaseException) -> bool:
    """Return whether a server refuses a request without a reason, as S3 refuses a HEAD for another region."""
    return _status(error) == 400 and not _code(error)


def is_denied(error: BaseException) -> bool:
    """Return whether the server refuses the credentials, or the signature of an address."""
    unauthenticated = type(error).__name__ == "UnauthenticatedError"
    return _status(error) in (401, 403) or isinstance(error, PermissionError) or unauthenticated


def failure(url: Url, error: BaseException, asked: Asked, tries: int = 0) -> Exception:
    """Return the error for a failed request, without text of the library or server; `tries` counts ours."""
    if isinstance(error, TokfmtError):
        return error
    if is_absent(error):
        return FileNotFoundError(errno.ENOENT, "no such object", str(url))
    if type(error).__name__ == "PreconditionError" or _status(error) == 412:
        return SourceChangedError.while_read(url)
    return _refusal(url, error, asked) or _outage(url, error, asked, tries)


def write_failure(
    url: Url, error: BaseException, asked: Asked, tries: int = 0, *, conditional: bool = False
) -> Exception:
    """Return the error for a failed write, as `failure` does; `conditional`, a status may refuse the condition."""
    if isinstance(error, TokfmtError):
        return error
    # Because of the object that is there, or because it is gone.
    is_refused = type(error).__name__ in _CONDITIONS or _status(error) in (409, 412) or is_absent(error)
    if conditional and is_refused:
        return FileExistsError(errno.EEXIST, "another object is there", str(url))
    if conditional and (_status(error) == _NOT_IMPLEMENTED or type(error).__name__ == "NotSupportedError"):
        return UnsupportedError(url, "cannot be written under a condition, which this server does not know")
    told = _refusal(url, error, asked) or _outage(url, error, asked, tries)
    remedy = f". {told.remedy}" if told.remedy else ""
    return OutageError(f"{printable(url)}: cannot be written: {told.what.removeprefix(_CUT_OFF)}{remedy}")


def _refusal(url: Url, error: BaseException, asked: Asked) -> FormatError | None:
    """Return the error for a request that the server understood and refused; None if it is another failure."""
    if is_odd_key(error):
        key = f" {printable(odd_key[1])}" if (odd_key := _ODD.search(str(error))) else ""
        problem = f"cannot be listed, because of the key{key}, which has an empty part, . or .. between its slashes"
        return FormatError(url, problem, remedy="Rename that object, or name the other files one by one")
    code = _code(error)
    if code in _NO_BUCKET:
        name = url.authority.rpartition("/")[2]
        return FormatError(url, f"{_NO_BUCKET[code]} {name} does not exist, or is in another region")
    if is_of_another_region(error):
        remedy = "Name its region with --store-opt region=NAME"
        return FormatError(url, f"bucket {url.authority} is in another region", remedy=remedy)
    if code in _SKEW:
        problem = f"access denied, because the clock of this machine is {_minutes_off(str(error))}"
        return FormatError(url, problem, remedy="Set the clock")
    if code in _EXPIRED:
        problem = f"the credentials of {asked.credentials or 'this machine'} have expired"
        return FormatError(url, problem, remedy=asked.renewal)
    if CANNOT_RENEW in str(error):
        return FormatError(url, f"the credentials of {asked.credentials} cannot be renewed", remedy=asked.renewal)
    if is_denied(error) and (action := _ACTION.search(str(error))) and asked.credentials:
        problem = f"access denied for the credentials of {asked.credentials} ({action[1]})"
        return FormatError(url, problem, remedy=_others(url))
    return _denied(url, asked) if is_denied(error) else None


def _outage(url: Url, error: BaseException, asked: Asked, tries: int) -> UnreachableError:
    text = str(error)
    if is_unknown_host(error):
        return UnreachableError(url, f"host {asked.server or _host(url)} is unknown")
    if any(word in text for word in _TLS):
        return UnreachableError(url, f"the certificate of {asked.server or _host(url)} is not trusted")
    if is_of_another_range(error):
        return UnreachableError(url, "the server sends other bytes than the range that it was asked for, twice")
    reason = _reason(text, _status(error), _code(error), asked.server, tries or retries_of(error) + 1)
    return UnreachableError(url, f"cannot be reached: {reason}", remedy="Run again later")


def _minutes_off(text: str) -> str:
    """Return how far the clock is off, as the body of an answer states it."""
    times = _TIME_HERE.search(text), _TIME_THERE.search(text)
    try:
        here, there = (
            datetime.strptime(match[1], form).replace(tzinfo=UTC)
            for match, form in zip(times, _TIMES, strict=True)
            if match
        )
    except ValueError:
        return "wrong"
    return f"{round(abs((here - there).total_seconds()) / 60)} minutes {'ahead' if here > there else 'behind'}"


def _denied(url: Url, asked: Asked) -> FormatError:
    if asked.credentials:
        return FormatError(url, f"access denied for the credentials of {asked.credentials}", remedy=_others(url))
    if asked.looked_in == (str(ANONYMOUS),):
        return FormatError(url, "access denied without credentials", remedy=f"Leave out {ANONYMOUS}")
    looked = f" (looked in: {', '.join(asked.looked_in)})" if asked.looked_in else ""
    remedy = None
    if url.scheme == "hf":
        remedy = "Set HF_TOKEN"
    if url.scheme in ("http", "https"):
        remedy = "Name a file, because web servers list no folders, or give a signed address"
    if url.scheme == "s3":
        remedy = _others(url)
    return FormatError(url, f"access denied without credentials{looked}", remedy=remedy)


def _others(url: Url) -> str | None:
    """Return how to give other credentials of S3; None for other stores."""
    if url.scheme != "s3":
        return None
    return f"Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; use {ANONYMOUS} if the bucket is public"


def _reason(text: str, status: int | None, code: str, server: str, tries: int) -> str:
    after = f" after {tries} tries" if tries > 1 else ""
    if status is not None:
        return f"{status}{f' {code}' if code else ''}{after}"
    if "Connection refused" in text:
        return f"the connection{f' to {server}' if server else ''} is refused{after}"
    if "timed out" in text or "timeout" in text.lower():
        return f"no answer{f' of {server}' if server else ''} in time{after}"
    if "unexpected end of file" in text or "end of file before message length" in text or "error decoding" in text:
        return f"the server ends the body too early{after}"
    if "header" in text.lower() and "missing" in text.lower():
        return f"the answer of the server has no ETag{after}"
    return f"the connection failed{after}"


def _status(error: BaseException) -> int | None:
    return int(status[1]) if (status := _STATUS.search(str(error))) else None


def _code(error: BaseException) -> str:
    return code[1] if (code := _CODE.search(str(error))) else ""


def _host(url: Url) -> str:
    return url.authority.rpartition("@")[2] if url.scheme in ("http", "https") else url.scheme
