"""Read datasets of the Hugging Face Hub: `hf://datasets/ORG/NAME[@REVISION]/PATH`, and `hf://models/...`.

A revision is resolved to a commit once, and the commit is the tag of every file: what a commit holds never changes.
The Hub lists files itself and redirects to the address of their bytes, which is signed for an hour; obstore reads that
address, and a new one is asked for when it ends. These are three requests of the standard library. The package
huggingface_hub reads no ranges. Its list of files waits for ever, reads an answer of any size, and sends the token to
any server that a Hub names as its next page.

The token is sent to the server of `HF_ENDPOINT` only, never to the address that it redirects to.
"""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from tokfmt.errors import FormatError, OptionError, UnsafeError
from tokfmt.files.place import Url
from tokfmt.files.store import Entry, Identity, Kind, Status
from tokfmt.stores import account, credentials
from tokfmt.stores.blocks import Buffer
from tokfmt.stores.clients import client_options, retry_config
from tokfmt.stores.failures import Asked, RefusedError, is_denied
from tokfmt.stores.objects import ObjectStore
from tokfmt.stores.options import StoreOptions
from tokfmt.stores.redirects import REDIRECTS, Answer, ask, next_address, same_server
from tokfmt.stores.requests import request

KINDS = {"datasets": "datasets/", "models": ""}
"""The kinds of repositories, and the beginning of their paths on the site of the Hub."""
ENDPOINT = "https://huggingface.co"
_MOST = 16 << 20
"""Bytes of one answer of the interface. A list of 1,000 files has 500,000."""
_REVISION = re.compile(r"refs/(?:convert/[^/]+|pr/\d+)")
"""Revisions whose names have slashes."""
_NEXT = re.compile(r'<([^<>]+)>\s*;\s*rel="next"')


class Named(NamedTuple):
    """The repository, the revision and the path that an address names."""

    repository: str  # as "ORG/NAME"
    revision: str  # branch, a tag or a commit; "main" if the address has none
    path: str  # path in the repository; "" for the repository


def named(url: Url) -> Named:
    """Parse an address of the Hub."""
    parts = re.fullmatch(r"([^/@]+/[^/@]+)(?:@(refs/[^/]+/[^/]+|[^/]+))?(?:/(.*))?", url.key)
    if url.authority not in KINDS or parts is None:
        raise OptionError(f"{url}: is not an address of the Hub (expected hf://datasets/ORG/NAME[@REVISION]/PATH)")
    revision = unquote(parts[2] or "main")
    if "/" in revision and not _REVISION.fullmatch(revision):
        raise OptionError(f"{url}: {revision} is not a revision (expected a branch, a tag, a commit or refs/...)")
    return Named(parts[1], revision, parts[3] or "")


class HubStore(ObjectStore):
    """The repositories of one kind; see `files.store.Store`. Thread-safe."""

    def __init__(self, root: Url, endpoint: str, token: str, asked: Asked) -> None:
        """Read below `root`, which is `hf://KIND`."""
        super().__init__(root, lambda region, use="read": None, asked, "", endpoint=endpoint, lists=False)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._commits = dict[tuple[str, str], str]()
        self._trees = dict[tuple[str, str, str], dict[str, Status]]()
        self._addresses = dict[tuple[str, str], Any]()
        self._resolving = defaultdict[str, threading.Lock](threading.Lock)

    def status(self, key: str) -> Status:
        """Return the status of a key, from the list of the directory that holds it."""
        url = self._url(key)
        if "/" not in key:  # All repositories, or those of an organization.
            return Status(Kind.DIRECTORY, Identity(0, ""))
        named_file = named(url)
        above, _, name = named_file.path.rpartition("/")
        entries = self._tree(url, named_file._replace(path=above))
        if not name:
            return Status(Kind.DIRECTORY, Identity(0, self._commit(url, named_file)))
        if name not in entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(url))
        return entries[name]

    def entries(self, key: str) -> Iterator[Entry]:
        """Yield what is directly below a directory of a repository."""
        url = self._url(key)
        for name, status in self._tree(url, named(url)).items():
            yield Entry(name, status.kind, status.identity if status.kind is Kind.FILE else None)

    def _commit(self, url: Url, name: Named) -> str:
        """Return the commit of a revision, which is resolved once."""
        revision_key = name.repository, name.revision
        if revision_key not in self._commits:
            revision = quote(name.revision, safe="")
            answer, _ = self._called(url, f"{self._interface(name)}/revision/{revision}")
            if not isinstance(answer, dict) or not re.fullmatch("[0-9a-f]{40}", str(answer.get("sha"))):
                raise FormatError(url, "the Hub states no commit of the revision")
            self._commits.setdefault(revision_key, answer["sha"])
        return self._commits[revision_key]

    def _tree(self, url: Url, name: Named) -> dict[str, Status]:
        """Return the names in a directory of a repository, from as many requests as it has pages."""
        commit = self._commit(url, name)
        tree_key = name.repository, commit, name.path
        if tree_key not in self._trees:
            address: str | None = f"{self._interface(name)}/tree/{commit}"
            address = f"{address}/{quote(name.path)}" if name.path else address
            statuses = dict[str, Status]()
            while address:
                rows, address = self._called(url, address)
                for row in rows if isinstance(rows, list) else ():
                    kind = Kind.DIRECTORY if row.get("type") == "directory" else Kind.FILE
                    statuses[str(row["path"]).rpartition("/")[2]] = Status(
                        kind, Identity(int(row.get("size") or 0), commit)
                    )
            self._trees[tree_key] = statuses
        return self._trees[tree_key]

    def _called(self, url: Url, address: str) -> tuple[Any, str | None]:
        """Return the JSON that the interface of the Hub answers, and the address of the next page."""
        return request(url, partial(self._tried, url, lambda: self._json(url, address), again=lambda _: False))

    def _json(self, url: Url, address: str) -> tuple[Any, str | None]:
        answer = self._asked_hub(url, address, "GET")
        with closing(answer.body):
            content = answer.body.read(_MOST + 1)
        if len(content) > _MOST:
            raise FormatError(url, "the Hub answers too much", expected=f"at most {_MOST} bytes")
        try:
            value = json.loads(content)
        except ValueError:
            raise FormatError(url, "the Hub answers something else than JSON") from None
        after = _NEXT.search(answer.headers.get("Link", ""))
        return value, after[1] if after else None

    def _asked_hub(self, url: Url, address: str, method: str) -> Answer:
        """Ask the server of the Hub, and follow redirects to itself. The answer may be a redirect to another server."""
        home = urlsplit(self._endpoint)
        for _ in range(REDIRECTS + 1):
            if not same_server(urlsplit(address), home):
                raise UnsafeError(url, f"the Hub names another server, {urlsplit(address).hostname}")
            answer = ask(address, self._headers, method=method)
            try:
                if not answer.leads_on or not same_server(urlsplit(next_address(url, answer)), home):
                    return self._checked(url, answer)
                address = next_address(url, answer)
            except Exception:
                answer.body.close()
                raise
            answer.body.close()
        raise UnsafeError(url, f"leads on to other addresses more than {REDIRECTS} times")

    def _checked(self, url: Url, answer: Answer) -> Answer:
        """Return an answer, or raise the error that its headers state."""
        if answer.leads_on:
            return answer
        named_file, code = named(url), answer.headers.get("X-Error-Code", "")
        kind = url.authority.removesuffix("s")
        if code == "RevisionNotFound":
            raise FormatError(url, f"{kind} {named_file.repository} has no revision {named_file.revision}")
        if code == "GatedRepo":
            page = f"{self._endpoint}/{KINDS[url.authority]}{named_file.repository}"
            raise FormatError(url, f"{kind} {named_file.repository} is gated", remedy=f"Ask for access at {page}")
        if code == "RepoNotFound" or (answer.status == http.client.UNAUTHORIZED and not self._headers):
            remedy = None if self._headers else "Set HF_TOKEN if it is private"
            raise FormatError(
                url, f"{kind} {named_file.repository} does not exist, or you cannot read it", remedy=remedy
            )
        return answer.check()

    def _get(self, key: str, start: int, stop: int, identity: Identity) -> Buffer:
        import obstore

        for retries in (1, 0):
            client = self._client_at(key, identity.tag)
            try:
                with account.counted("get"):
                    got = obstore.get(client, "", options={"range": (start, stop)})
                    content = memoryview(got.bytes())
                account.count(read=len(content))
            except Exception as error:
                if retries and is_denied(error):  # The signature of the address has ended.
                    self._addresses.pop((key, identity.tag), None)
                    continue
                raise
            if got.meta["size"] != identity.size or len(content) != stop - start:
                raise RefusedError("UnexpectedRange")
            return content
        raise AssertionError

    def _client_at(self, key: str, commit: str) -> Any:
        """Return a client of the address that has the bytes of a file."""
        from obstore.store import HTTPStore

        with self._resolving[key]:  # The ranges of a file are requested side by side: one resolves its address.
            if (cached := self._addresses.get((key, commit))) is not None:
                return cached
            url = self._url(key)
            named_file = named(url)
            home = f"{self._endpoint}/{KINDS[url.authority]}{named_file.repository}"
            page = f"{home}/resolve/{commit}/{quote(named_file.path)}"
            answer = self._asked_hub(url, page, "HEAD")
            answer.body.close()
            options = client_options()
            if answer.leads_on:
                address = next_address(url, answer)
            else:  # The Hub itself has small files, also those of private repositories.
                address = answer.address
                options["default_headers"] = self._headers
            client = HTTPStore.from_url(address, client_options=options, retry_config=retry_config())
            return self._addresses.setdefault((key, commit), client)

    def identities(self, keys: Sequence[str]) -> Iterator[Identity]:
        """The Hub states them in its lists, or is asked for one at a time."""
        return map(self._look, map(self._key, keys))

    def _look(self, key: str) -> Identity:
        return self.status(key).identity

    def _interface(self, name: Named) -> str:
        return f"{self._endpoint}/api/{self.root.authority}/{name.repository}"


def open_hub(url: Url, options: StoreOptions) -> HubStore:
    """Open the datasets, or the models, of the Hub."""
    if url.authority not in KINDS:
        raise OptionError(f"{url}: is not an address of the Hub (expected hf://datasets/ORG/NAME[@REVISION]/PATH)")
    endpoint = (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    credentials.check_encrypted(endpoint, options)
    token, where = ("", "") if options.anonymous else _token()
    looked = () if token else ("HF_TOKEN", "the token file of Hugging Face")
    return HubStore(Url(url.scheme, url.authority), endpoint, token, Asked(where, looked))


def _token() -> tuple[str, str]:
    """Return the token of the user and where it was found, as huggingface_hub finds it; "" twice without one."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if token := os.environ.get(name, "").strip():
            return token, name
    if os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "", ""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    home = Path(os.environ.get("HF_HOME") or cache / "huggingface").expanduser()
    try:
        token = Path(os.environ.get("HF_TOKEN_PATH") or home / "token").expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return "", ""
    return token, "the token file of Hugging Face" if token else ""
