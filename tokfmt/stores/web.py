"""Read pages of web servers, which list nothing, may redirect, and may not serve ranges."""

from __future__ import annotations

import http.client
import mmap
import re
import shutil
import tempfile
import threading
from contextlib import closing
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from tokfmt.errors import UnsupportedError
from tokfmt.files.place import Url
from tokfmt.files.store import Identity
from tokfmt.stores import account, credentials
from tokfmt.stores.blocks import SIZE, Buffer
from tokfmt.stores.clients import client_options, retry_config
from tokfmt.stores.failures import Asked, CutError, RefusedError
from tokfmt.stores.objects import ChangedError, ObjectStore
from tokfmt.stores.options import StoreOptions
from tokfmt.stores.redirects import Answer, ask, followed
from tokfmt.wording import human_bytes

if TYPE_CHECKING:
    from obstore.store import HTTPStore

MOST_COPIED = 1 << 30
"""Bytes of a page that is read whole, because its server serves no ranges."""
UNKNOWN = "modified 1970-01-01T00:00:00+00:00"
"""The tag of a page without ETag and time of change: obstore takes the beginning of time for the latter."""
_WHOLE, _NOTHING_THERE = 200, 416
_DENIED = (401, 403)
_SIGNED = set[str]()
"""Hosts with an address that holds a query, in this process: a signature is for one page, not for what is beside it."""
_SAFE = "/:@!$&'()*+,;=~%"
"""Characters that a path may hold. `%` is kept: users give addresses as they are in a browser."""


class _Page(NamedTuple):
    """The facts that the first request for a page found."""

    identity: Identity
    client: tuple[Any, str]  # that reads its ranges, and the key there
    copy: mmap.mmap | bytes | None = None  # the page as it was read whole, if its server serves no ranges


class WebStore(ObjectStore):
    """The pages of a host, or one page whose address has a query; see `files.store.Store`. Thread-safe.

    The first look at a page follows its redirects. Ranges are then requested from the address where they ended.
    """

    def __init__(self, root: Url) -> None:
        """Read below an address."""
        super().__init__(root, lambda region, use="read": _connected(root.address), Asked(""), "", lists=False)
        self._pages = dict[str, _Page]()
        self._copying = threading.Lock()

    def notes(self, key: str) -> list[str]:
        remarks, url = list[str](), self._url(key)
        if (page := self._pages.get(self._key(key))) is None:
            return remarks
        host, name = url.authority.rpartition("@")[2], url.name
        if page.copy is not None:
            remarks.append(f"{host} serves no ranges: read {name} whole, {human_bytes(page.identity.size)}")
        if page.identity.tag == UNKNOWN:
            remarks.append(f"{host} states no ETag and no time of change: cannot tell whether {name} changes")
        return remarks

    def _first(self, client: Any, key: str) -> tuple[Identity, bytes]:  # noqa: ARG002 -- the client follows redirects
        answer = followed(self._url(key), self._address(key), {"Range": f"bytes=0-{SIZE - 1}"})
        try:
            with closing(answer.body):
                return self._looked(key, answer)
        except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
            raise RefusedError(f"the connection ends: {type(error).__name__}: {error}") from None

    def _looked(self, key: str, answer: Answer) -> tuple[Identity, bytes]:
        """Return the identity and the first block of a page, and keep where it is."""
        client = self._client, key
        if answer.address != self._address(key) or "%" in answer.address:  # obstore would encode a % again.
            client = _connected(answer.address), ""
        if answer.status == _NOTHING_THERE:  # What servers answer to any range of an empty page.
            with closing(ask(answer.address, {}, method="HEAD").check().body) as body:
                identity = Identity(int(body.headers.get("Content-Length") or 0), _tag(body.headers))
            self._pages[key] = _Page(identity, client)
            return identity, b""
        if answer.status in _DENIED and not self.root.query and self.root.authority in _SIGNED:
            raise FileNotFoundError(answer.status)  # A manifest or an index beside a signed page.
        answer.check()
        if answer.status == _WHOLE:
            return self._copied(key, answer)
        stated = re.fullmatch(r"bytes 0-\d+/(\d+)", answer.headers.get("Content-Range", ""))
        if stated is None:
            raise RefusedError("UnexpectedRange")
        identity = Identity(int(stated[1]), _tag(answer.headers))
        content = _read(answer, min(SIZE, identity.size))
        account.count(read=len(content))
        self._pages[key] = _Page(identity, client)
        return identity, content

    def _copied(self, key: str, answer: Answer) -> tuple[Identity, bytes]:
        """Read a page whole, unless it was read and its server states no change."""
        length, tag = answer.headers.get("Content-Length"), _tag(answer.headers)
        with self._copying:
            page = self._pages.get(key)
            if page is not None and page.copy is not None and page.identity == Identity(int(length or -1), tag):
                return page.identity, bytes(page.copy[:SIZE])
            if int(length or 0) > MOST_COPIED:
                raise _too_large(self._url(key))
            with tempfile.TemporaryFile(prefix="tokfmt-") as file:
                shutil.copyfileobj(_Bounded(self._url(key), answer), file, SIZE)
                file.flush()
                size = file.tell()
                copy = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
            account.count(read=size)
            if length is not None and size != int(length):
                raise CutError
            self._pages[key] = _Page(Identity(size, tag), (None, ""), copy)
        return Identity(size, tag), bytes(copy[:SIZE])

    def _get(self, key: str, start: int, stop: int, identity: Identity) -> Buffer:
        page = self._page(key)
        if page.copy is None:
            return super()._get(key, start, stop, identity)
        if page.identity != identity:
            raise ChangedError("status code: 412")
        return bytes(page.copy[start:stop])

    def _client_of(self, key: str) -> tuple[Any, str]:
        return self._page(key).client

    def _page(self, key: str) -> _Page:
        """Return where a page is. A process that got a dataset by its address has not looked at it yet."""
        if key not in self._pages:
            self._first(None, key)
        return self._pages[key]

    def _address(self, key: str) -> str:
        if not key:
            return self.root.address
        return f"{self.root.address}/{quote(key, safe=_SAFE)}"


class _Bounded:
    """The body of an answer, which may be longer than its server states."""

    def __init__(self, url: Url, answer: Answer) -> None:
        self.url, self.answer, self.left = url, answer, MOST_COPIED

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes."""
        content: bytes = self.answer.body.read(size)
        self.left -= len(content)
        if self.left < 0:
            raise _too_large(self.url)
        return content


def _too_large(url: Url) -> UnsupportedError:
    problem = f"is larger than {human_bytes(MOST_COPIED)}, and its server serves no ranges"
    return UnsupportedError(url, problem, remedy="Download it first")


def _read(answer: Answer, size: int) -> bytes:
    """Return the beginning of a body."""
    content: bytes = answer.body.read(size)
    if len(content) != size:
        raise CutError
    return content


def _tag(headers: Message) -> str:
    """Return the tag of a page, as `objects` has it of what obstore answers."""
    if tag := headers.get("ETag"):
        return str(tag)
    try:
        return f"modified {parsedate_to_datetime(headers['Last-Modified']).isoformat()}"
    except (TypeError, ValueError):
        return UNKNOWN


def _connected(address: str) -> HTTPStore:
    from obstore.store import HTTPStore

    return HTTPStore.from_url(address, client_options=client_options(), retry_config=retry_config())


def open_web(url: Url, options: StoreOptions) -> WebStore:
    """Open a web server. An address with a query is a store of one page, as its signature is for that page alone."""
    if url.query:
        _SIGNED.add(url.authority)
    root = url if url.query else Url(url.scheme, url.authority)
    credentials.check_encrypted(root.address, options)
    return WebStore(root)
