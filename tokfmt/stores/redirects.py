"""Requests of the standard library, for first looks at web servers: tokfmt checks where a redirect leads.

obstore follows redirects, and nothing turns that off. So a store asks an address here first, and obstore gets the
address to which the redirects lead. A server that a user names must not make tokfmt read from a service of the user's
own network, such as the metadata service of a cloud.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urljoin, urlsplit, urlunsplit

from tokfmt.errors import UnsafeError
from tokfmt.files.place import Url
from tokfmt.stores import account
from tokfmt.stores.clients import SILENCE
from tokfmt.stores.failures import RefusedError, may_pass

REDIRECTS = 5
_LEADS_ON = (301, 302, 303, 307, 308)


class Answer(NamedTuple):
    """An answer of a server, whose body is not read yet."""

    address: str  # that was asked
    status: int
    headers: Message
    body: Any  # to read from

    @property
    def leads_on(self) -> bool:
        """Whether this is a redirect."""
        return self.status in _LEADS_ON and "Location" in self.headers

    def check(self) -> Answer:
        """Return the answer."""
        if self.status in (404, 410):
            raise FileNotFoundError(self.status)
        if self.status not in (200, 206):
            raise RefusedError(f"status code: {self.status}")
        return self


class _AsTheyAre(urllib.request.HTTPErrorProcessor):
    """Return redirects and errors as answers."""

    def http_response(self, request: urllib.request.Request, response: Any) -> Any:  # noqa: ARG002
        return response

    def https_response(self, request: urllib.request.Request, response: Any) -> Any:  # noqa: ARG002
        return response


def ask(address: str, headers: Mapping[str, str], *, method: str = "GET") -> Answer:
    """Send a request. No redirect is followed."""
    plain, credentials = _without_user(address)
    request = urllib.request.Request(plain, None, {**credentials, **headers}, method=method)  # noqa: S310 -- http or https
    opener = urllib.request.build_opener(_AsTheyAre)
    opener.addheaders = [("User-Agent", "tokfmt")]
    try:
        with account.counted("head" if method == "HEAD" else "get"):
            response = opener.open(request, timeout=SILENCE)
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        failed = "dns error" if isinstance(reason, socket.gaierror) else f"{type(reason).__name__}: {reason}"
        raise RefusedError(failed) from None
    refused = RefusedError(f"status code: {response.status}", _after(response.headers))
    if may_pass(refused):
        response.close()
        raise refused
    return Answer(address, response.status, response.headers, response)


def _after(headers: Message) -> float:
    """Return the seconds of `Retry-After`, which are stated as such or as a date; 0 without them."""
    stated = str(headers.get("Retry-After", "")).strip()
    if stated.isdecimal():
        return float(stated)
    try:
        return max(0.0, parsedate_to_datetime(stated).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0


def followed(url: Url, address: str, headers: Mapping[str, str]) -> Answer:
    """Send a request and follow at most `REDIRECTS` redirects. A user name and a password stay with their server."""
    answer = ask(address, headers)
    for _ in range(REDIRECTS):
        if not answer.leads_on:
            return answer
        answer.body.close()
        answer = ask(next_address(url, answer), headers)
    if answer.leads_on:
        answer.body.close()
        raise UnsafeError(url, f"leads on to other addresses more than {REDIRECTS} times")
    return answer


def next_address(url: Url, answer: Answer) -> str:
    """Return the address to which a redirect leads; the host that the user gave is trusted."""
    before, after = urlsplit(answer.address), urlsplit(urljoin(answer.address, str(answer.headers["Location"])))
    if after.scheme not in ("http", "https") or not after.hostname:
        raise UnsafeError(url, "leads to an address that is not on the web", expected="https", found=after.scheme)
    if (before.scheme, after.scheme) == ("https", "http"):
        raise UnsafeError(url, f"leads to http://{after.hostname}, which is not encrypted")
    if after.hostname != before.hostname and is_private(after.hostname):
        raise UnsafeError(
            url,
            f"leads to {after.hostname}, which is an address of a private network",
            remedy="Give that address yourself if you trust it",
        )
    target = urlunsplit(after)
    return target if same_server(before, after) else _without_user(target)[0]


def same_server(address: SplitResult, other: SplitResult) -> bool:
    """Return whether two addresses are on one server: scheme, host and port."""
    return (address.scheme, address.hostname, address.port) == (other.scheme, other.hostname, other.port)


def is_private(host: str) -> bool:
    """Return whether a host has an address that is not one of the public internet.

    A name that this machine cannot resolve is not private: a proxy resolves it.
    """
    try:
        addresses = socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return not all(_is_public(str(address[4][0])) for address in addresses)


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_global


def _without_user(address: str) -> tuple[str, dict[str, str]]:
    """Return an address without user name and password, and the header that sends them."""
    parts = urlsplit(address)
    user, at, server = parts.netloc.rpartition("@")
    if not at:
        return address, {}
    encoded = base64.b64encode(unquote(user).encode()).decode()
    return urlunsplit(parts._replace(netloc=server)), {"Authorization": f"Basic {encoded}"}
