"""Read and write objects of a bucket: the `Store` of an address, through obstore.

Every request for bytes of an object that was seen before carries `If-Match` with its ETag, so that the bytes of two
versions are never mixed. The first look at an object is a request for its first block, which also states its size and
ETag. `ranges` decides what is requested, and what is kept of it.
"""

from __future__ import annotations

import errno
import io
import os
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from tokfmt.errors import FormatError, OutageError, SourceChangedError, UnsupportedError
from tokfmt.files.place import Url
from tokfmt.files.store import IF_ABSENT, IF_MATCH, Entry, Identity, Kind, Neighbors, Status, Store
from tokfmt.stores import account, credentials
from tokfmt.stores.blocks import LARGEST, SIZE, Buffer
from tokfmt.stores.clients import Patience, Use
from tokfmt.stores.failures import (
    Asked,
    CutError,
    failure,
    is_absent,
    is_beyond_the_end,
    is_odd_key,
    is_of_another_range,
    is_of_another_region,
    is_unknown_host,
    may_pass,
    retries_of,
    says_nothing,
    write_failure,
)
from tokfmt.stores.ranges import BLOCKS, Version, prefetch, read
from tokfmt.stores.requests import in_order, request, side_by_side
from tokfmt.stores.upload import MOST_HELD, Stopped, at_once, held_by, requests_of, same, send, size_of

if TYPE_CHECKING:
    from obstore import GetOptions, PutMode

T = TypeVar("T")

_DELETED = 1000  # Keys that one request deletes.
_TRIES = 3  # Conditional writes that a server refuses, because another request is under way, or whose answer is lost.
_PAGE = 1000  # Keys of a list.
_REGION_IN_BODY = re.compile(r"<Region>([a-z0-9-]{1,40})</Region>")


class Connect(Protocol):
    """Return a client of obstore for a region and some requests."""

    def __call__(self, region: str, use: Use = "read") -> Any: ...


class ObjectStore(Store):
    """One bucket; see `files.store.Store`. Thread-safe. `web` and `hub` derive the stores that are only read.

    Its methods raise what those of `Store` raise, and FormatError if the store cannot be asked.
    """

    def __init__(
        self, root: Url, connect: Connect, asked: Asked, region: str, *, endpoint: str = "", lists: bool
    ) -> None:
        """Read and write through clients of obstore. `connect` returns a client for a region. `endpoint` is a server
        that knows the regions of its buckets; "" for that of the cloud. Web servers do not list keys.
        """
        self.root, self._connect, self._asked, self._lists = root, connect, asked, lists
        self._client, self._region, self._endpoint = connect(region), region, endpoint
        self._writers, self._answered = dict[Use, Any](), False
        self._proven = not endpoint  # The servers of the clouds know conditions. Others may ignore them.
        # conditions of writes; None for a web server, which is only read
        self.can = frozenset({IF_ABSENT, IF_MATCH}) if lists else None

    def status(self, key: str) -> Status:
        """Ask the server for the status of a key: of an object, or of a prefix that has objects below it.

        The first block of an object comes with its status, because a look at an object reads it next.
        """
        key = self._key(key)
        if key or not self._lists:
            try:
                return Status(Kind.FILE, self._look(key))
            except FileNotFoundError:
                if not self._lists:
                    raise
        if not self._has_objects(key):
            raise FileNotFoundError(errno.ENOENT, "no such object", str(self._url(key)))
        return Status(Kind.DIRECTORY, Identity(0, ""))

    def entries(self, key: str) -> Iterator[Entry]:
        """Yield what is directly below a key. An empty object whose key ends in a slash is left out."""
        import obstore

        url = self._url(key)
        if not self._lists:
            raise FormatError(url, "is on a web server, which lists no files")

        def listed(client: Any) -> Any:
            with account.counted("list"):
                return obstore.list_with_delimiter(client, key or None)

        listing = self._ask(url, listed)
        account.count(lists=max(0, len(listing["objects"]) + len(listing["common_prefixes"]) - 1) // _PAGE)
        folders = [Entry(_name(prefix), Kind.DIRECTORY) for prefix in listing["common_prefixes"]]
        objects = [self._entry(one) for one in listing["objects"] if one["path"] != key]
        if key and not folders and not objects:
            raise FileNotFoundError(errno.ENOENT, "no such object", str(url))
        yield from folders
        yield from objects

    def beside(self, key: str) -> Neighbors:
        """List what begins with the stem of a key, by one request, however many objects lie in its directory.

        Keys are listed in their order, those below directories too, from the first that may have the stem.
        """
        import obstore

        folder, _, name = key.rpartition("/")
        stem = name[: name.find(".", 1)] if name.find(".", 1) > 0 else name
        url = self._url(key)
        if not self._lists or not stem or self.root.scheme == "az":  # Azure lists all keys before it, too.
            raise FormatError(url, "is in a store that lists no names from the middle")
        above = f"{folder}/" if folder else ""
        previous = chr(max(ord(stem[-1]) - 1, 32)).replace("/", ".")  # "/" precedes "0", and would begin an empty name
        before = f"{above}{stem[:-1]}{previous}~~~"  # Little lies between it and the stem.

        def listed(client: Any) -> Any:
            with account.counted("list"):
                return next(iter(obstore.list(client, folder or None, offset=before, chunk_size=_PAGE)), [])

        listing = self._ask(url, listed)
        if listing and listing[0]["path"] <= before:
            raise FormatError(url, "is in a store that lists no names from the middle")
        paths = [one["path"][len(above) :] for one in listing]
        cut = paths[-1] if len(listing) >= _PAGE else None  # More keys may follow in its directories.
        named = [(path, one) for path, one in zip(paths, listing, strict=True) if path.startswith(stem)]
        tree = _tree(named, self._entry)
        last = cut.partition("/")[0] if cut is not None and cut.startswith(stem) else None
        complete = {path: entry for path, entry in tree.items() if path and not f"{cut}".startswith(f"{path}/")}
        return Neighbors(stem, last, tree.get("", {}), complete)

    def _entry(self, meta: Any) -> Entry:
        """Return the entry of an object in a list. Lists of Azure state ETags without their quotes."""
        return Entry(_name(meta["path"]), Kind.FILE, _identity(meta, '"' if self.root.scheme == "az" else ""))

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]], identity: Identity) -> Iterator[Buffer]:
        """Yield the bytes of several ranges of an object, in order, as they arrive; see `ranges.read`."""
        return read(self._version(self._key(key), identity), ranges)

    def put(
        self,
        key: str,
        content: bytes | Path,
        *,
        if_absent: bool = False,
        if_match: Identity | None = None,
        done: Callable[[Identity], None] = lambda _: None,
    ) -> Identity:
        """Write an object; see `files.store.Store.put`.

        An answer may be lost after the server wrote the object, and the repeated request then finds it there. So an
        object with the same content counts as written.
        """

        def call(stop: threading.Event) -> Identity:
            try:
                identity = self._put(key, content, stop, if_absent=if_absent, if_match=if_match)
                if if_absent and not self._proven and at_once(content):
                    self._prove(key)
            except UnsupportedError:
                self.can = frozenset() if if_absent else self.can
                raise
            return identity

        identities = list[Identity]()

        def ended(identity: Identity) -> None:
            identities.append(identity)
            done(identity)

        side_by_side(self._url(key), [(0, call)], MOST_HELD, ended)
        return identities[-1]

    def _put(
        self,
        key: str,
        content: bytes | Path,
        stop: threading.Event,
        *,
        if_absent: bool,
        if_match: Identity | None,
    ) -> Identity:
        """Write an object in this thread; see `put`."""
        for _ in range(_TRIES - 1):
            try:
                mode = self._mode(key, content, if_absent=if_absent, if_match=if_match)
                return self._send(key, content, mode, stop)
            except (FileExistsError, OutageError) as error:
                lost = isinstance(error, OutageError)
                if lost and mode == "overwrite" and at_once(content):
                    raise
                there = self._found(key, error)
                if there is not None and self._holds(key, there, content):
                    return there
                if lost or there != if_match or not if_absent:
                    raise
        return self._send(key, content, self._mode(key, content, if_absent=if_absent, if_match=if_match), stop)

    def _prove(self, key: str) -> None:
        """Write an object that is there again, under the condition that it is not. A server that does so ignores it."""
        import obstore

        try:
            with account.counted("put"):
                obstore.put(self._writers["write"], key, b"", mode="create", use_multipart=False)
        except Exception:  # noqa: BLE001 -- the condition does not hold, or nothing is proven
            self._proven = True
            return
        with account.counted("delete"):
            obstore.delete(self._client, [key])
        raise UnsupportedError(self._url(key), "cannot be written under a condition, which this server ignores")

    def _found(self, key: str, error: Exception) -> Identity | None:
        """Return the identity of an object after a failed write; None if it does not exist."""
        try:
            return self._head(key)
        except FormatError:
            raise error from None

    def upload(self, files: Iterable[tuple[str, Path]], done: Callable[[str, Identity], None]) -> None:
        """Write files side by side; see `files.store.Store.upload`."""

        def one(key: str, path: Path, stop: threading.Event) -> tuple[str, Identity]:
            try:
                return key, self._send(key, path, "overwrite", stop)
            except OutageError as error:  # The answer that completes an upload in parts may be lost.
                there = None if at_once(path) else self._found(key, error)
                if there is None or not self._holds(key, there, path):
                    raise
                return key, there

        calls = ((held_by(os.stat(path).st_size), partial(one, key, path)) for key, path in files)
        side_by_side(self.root, calls, MOST_HELD, lambda outcome: done(*outcome))

    def identity(self, key: str) -> Identity | None:
        """Return the identity of an object by a request without a body; see `files.store.Store.identity`."""
        return request(self._url(key), lambda: self._head(key))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects. One that does not exist any more counts as deleted."""
        import obstore

        left = list(keys)
        together = _DELETED if self.root.scheme == "s3" else 1  # Others end at the first key that does not exist.

        def call(some: list[str]) -> None:
            try:
                with account.counted("delete"):
                    obstore.delete(self._client, some)
            except FileNotFoundError as error:
                if not is_absent(error):
                    raise

        def one(some: list[str], stop: threading.Event) -> None:
            self._tried(self._url(some[0]), partial(call, some), again=self._moved, worded=write_failure, stop=stop)

        batches = [left[k : k + together] for k in range(0, len(left), together)]
        side_by_side(self.root, ((0, partial(one, some)) for some in batches), MOST_HELD, lambda _: None)

    def _mode(self, key: str, content: bytes | Path, *, if_absent: bool, if_match: Identity | None) -> PutMode:
        """Return the condition of a write."""
        import obstore

        if if_match is None and (at_once(content) or not if_absent):
            return "create" if if_absent else "overwrite"
        url = self._url(key)
        try:
            with account.counted("head"):
                meta = self._tried(url, lambda: obstore.head(self._client, key), again=self._moved)
        except FileNotFoundError:
            meta = None
        if (if_absent and meta is not None) or (if_match is not None and (not meta or _identity(meta) != if_match)):
            raise FileExistsError(errno.EEXIST, "another object is there", str(url))
        if if_match is None or meta is None:
            return "overwrite"
        stated = {"e_tag": meta["e_tag"], "version": meta["version"]}  # Google Cloud compares versions, not tags.
        return cast("PutMode", {name: value for name, value in stated.items() if value is not None})

    def _send(self, key: str, content: bytes | Path, mode: PutMode, stop: threading.Event) -> Identity:
        url = self._url(key)

        def call() -> Identity:
            use: Use = "write" if at_once(content) else "parts"
            if use not in self._writers:
                self._writers[use] = self._connect(self._region, use)
            size = size_of(content)
            with account.counted("put", requests_of(size)):
                identity = Identity(*send(self._writers[use], key, content, mode, stop))
            account.count(written=size)
            return identity

        worded = partial(write_failure, conditional=mode != "overwrite")
        identity = self._tried(url, call, again=self._moved, worded=worded, stop=stop)
        same(url, size_of(content), identity)
        return identity

    def _head(self, key: str) -> Identity | None:
        import obstore

        try:
            with account.counted("head"):
                return _identity(
                    self._tried(self._url(key), lambda: obstore.head(self._client, key), again=self._moved)
                )
        except FileNotFoundError:
            return None

    def _holds(self, key: str, stored: Identity, content: bytes | Path) -> bool:
        """Return whether an object has this content. It is read in pieces and compared."""
        if stored.size != size_of(content):
            return False
        with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as file:
            try:
                return all(
                    self._fetch(key, stored, start, min(start + LARGEST, stored.size)) == file.read(LARGEST)
                    for start in range(0, stored.size, LARGEST)
                )
            except (FileNotFoundError, SourceChangedError):  # Another run has deleted or replaced it since.
                return False

    def prefetch(self, key: str, ranges: Sequence[tuple[int, int]], identity: Identity, *, keep: bool) -> None:
        """Request ranges that `read_ranges` will read; with `keep`, they are an index or a footer."""
        prefetch(self._version(self._key(key), identity), ranges, keep=keep)

    def _version(self, key: str, identity: Identity) -> Version:
        strong = _is_strong(identity)
        of = self.root, key, identity
        return Version(of, self._url(key), identity.size, strong, partial(self._fetch, key, identity))

    def _look(self, key: str) -> Identity:
        """Return the identity of an object at the first contact: the first block is read with it."""
        return request(self._url(key), lambda: self._look_here(key))

    def identities(self, keys: Sequence[str]) -> Iterator[Identity]:
        """Ask for the identities of objects side by side, and yield them in order."""
        yield from in_order(self.root, (partial(self._look_here, self._key(key)) for key in keys))

    def _look_here(self, key: str) -> Identity:
        """Look at an object in this thread."""

        def look() -> tuple[Identity, bytes]:
            identity, content = self._first(self._client, key)
            if len(content) != min(SIZE, identity.size):
                raise CutError
            return identity, content

        identity, content = self._tried(self._url(key), look, again=self._moved)
        if _is_strong(identity):
            BLOCKS.put((self.root, key, identity), 0, content, identity.size)
        return identity

    def _first(self, client: Any, key: str) -> tuple[Identity, bytes]:
        """Request the first block of an object, and its identity."""
        import obstore

        try:
            with account.counted("get"):
                got = obstore.get(client, key, options={"range": (0, SIZE)})
                content = bytes(got.bytes())
            account.count(read=len(content))
            return _identity(got.meta), content
        except Exception as error:
            if not is_beyond_the_end(error):
                raise
            with account.counted("head"):
                return _identity(obstore.head(client, key)), b""

    def _fetch(self, key: str, identity: Identity, start: int, stop: int) -> Buffer:
        """Request a range of at most `LARGEST` bytes."""
        return self._tried(self._url(key), lambda: self._get(key, start, stop, identity), again=is_of_another_range)

    def _get(self, key: str, start: int, stop: int, identity: Identity) -> Buffer:
        """Request a range of the version that an identity names."""
        import obstore

        client, name = self._client_of(key)
        version: GetOptions = {"if_match": identity.tag} if _is_strong(identity) else {}
        with account.counted("get"):
            got = obstore.get(client, name, options={"range": (start, stop), **version})
            content = memoryview(got.bytes())
        account.count(read=len(content))
        if len(content) != stop - start or _identity(got.meta) != identity:
            raise ChangedError("status code: 412")
        return content

    def _client_of(self, key: str) -> tuple[Any, str]:
        """Return the client that reads an object, and the key of the object there."""
        return self._client, key

    def _has_objects(self, key: str) -> bool:
        """Return whether there are objects below a key."""
        import obstore

        prefix = f"{key}/" if key else None

        def found(client: Any) -> bool:
            try:
                with account.counted("list"):
                    return any(map(bool, obstore.list(client, prefix, chunk_size=1)))
            except Exception as error:
                if is_odd_key(error):
                    return True
                raise

        return self._ask(self._url(key), found)

    def _ask(self, url: Url, call: Callable[[Any], T]) -> T:
        """Send a request, and once more to the region that the server names."""
        return request(url, lambda: self._tried(url, lambda: call(self._client), again=self._moved))

    def _tried(
        self,
        url: Url,
        call: Callable[[], T],
        again: Callable[[Exception], bool],
        worded: Callable[[Url, Exception, Asked, int], Exception] = failure,
        stop: threading.Event | None = None,
    ) -> T:
        """Send a request, and repeat it while the server may answer yet. The error that it raises refers to no other.
        `again` returns True for another failure that it has mended; the request is then sent once more. `worded`
        returns the error to raise.
        """
        patience, mended, tries = Patience(stop), False, 0
        while True:
            try:
                answer = call()
            except Stopped:
                raise
            except Exception as error:  # noqa: BLE001 -- reported in our own words
                tries += 1 + retries_of(error)
                if not mended and again(error):
                    account.count(retries=1)
                    mended = True
                    continue
                # Where a host was known before, its network is away. Otherwise its name is wrong.
                passes = may_pass(error) or (self._answered and is_unknown_host(error))
                if passes and patience.allows_another(getattr(error, "after", 0.0)):
                    continue
                failed = worded(url, error, self._asked, tries)
            else:
                self._answered = True
                return answer
            break
        raise failed

    def _moved(self, error: Exception) -> bool:
        """Connect to another region, and return True, if that is where the bucket is and the server names it."""
        if is_absent(error) or not (is_of_another_region(error) or says_nothing(error)):
            return False
        named = region[1] if (region := _REGION_IN_BODY.search(str(error))) else ""
        named = named or credentials.region_of(self.root, self._endpoint)
        if not named or named == self._region:
            return False
        self._client, self._region = self._connect(named), named
        self._writers.clear()
        return True

    def _key(self, key: str) -> str:
        """Return the key below the root. An address with a query is itself the root of its store."""
        return "" if self.root.query else key

    def _url(self, key: str) -> Url:
        return self.root / key if key else self.root

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a store holds secrets and is not pickled: pickle its address")


class ChangedError(Exception):
    """Stands for the answer of a server that ignores `If-Match`."""


def _identity(meta: Any, quotes: str = "") -> Identity:
    """Return the identity of an object: its ETag, in `quotes`, or else the time of its last change."""
    tag = f"{quotes}{meta['e_tag']}{quotes}" if meta["e_tag"] else f"modified {meta['last_modified'].isoformat()}"
    return Identity(int(meta["size"]), tag)


def _tree(objects: Iterable[tuple[str, Any]], entry: Callable[[Any], Entry]) -> dict[str, dict[str, Entry]]:
    """Return the entries of all directories that keys imply, by path; an empty object only marks one."""
    tree = defaultdict[str, dict[str, Entry]](dict)
    for path, meta in objects:
        directory, _, name = path.rpartition("/")
        tree[directory].setdefault(name, entry(meta))
        while directory:
            above, _, name = directory.rpartition("/")
            there = tree[above].get(name)
            if there is None or (there.kind is Kind.FILE and there.identity is not None and not there.identity.size):
                tree[above][name] = Entry(name, Kind.DIRECTORY)
            directory = above
    return tree


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _is_strong(identity: Identity) -> bool:
    """Return whether a tag changes with every byte of the content."""
    return not identity.tag.startswith(("W/", "modified "))
