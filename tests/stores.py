"""A store in memory, which counts what it is asked."""

import errno
from pathlib import Path

from tokfmt.errors import OutageError, SourceChangedError
from tokfmt.files.place import Url, close_stores, register_store
from tokfmt.files.store import IF_ABSENT, IF_MATCH, Entry, Identity, Kind, Status, Store

__all__ = ["Counting", "Memory", "Url", "Writable", "close_stores", "register_store"]


class Memory(Store):
    """A store of one bucket in memory; it counts what it is asked."""

    def __init__(self, held):
        self.held, self.asked = held, []

    def status(self, key):
        self.asked.append(("status", key))
        if key in self.held:
            return Status(Kind.FILE, self._identity(key))
        if any(name.startswith(f"{key}/") for name in self.held) or not key:
            return Status(Kind.DIRECTORY, Identity(0, ""))
        raise FileNotFoundError(errno.ENOENT, "No such key")

    def entries(self, key):
        self.asked.append(("entries", key))
        below = [
            name.removeprefix(f"{key}/" if key else "") for name in self.held if name.startswith(f"{key}/") or not key
        ]
        if not below:
            raise FileNotFoundError(errno.ENOENT, "No such key")
        kinds = {name.partition("/")[0]: Kind.DIRECTORY if "/" in name else Kind.FILE for name in below}
        return (Entry(name, kind) for name, kind in kinds.items())

    def read_ranges(self, key, ranges, identity):
        self.asked += [("read", key, start, stop) for start, stop in ranges]
        if key not in self.held:
            raise FileNotFoundError(errno.ENOENT, "No such key")
        if identity != self._identity(key):
            raise SourceChangedError.while_read(key)
        return [self.held[key][start:stop] for start, stop in ranges]

    def _identity(self, key):
        return Identity(len(self.held[key]), str(hash(self.held[key])))


class Counting(Memory):
    """A store in memory that counts the calls in which ranges are asked for, each of which takes one round."""

    def __init__(self, held):
        super().__init__(held)
        self.calls = 0

    def read_ranges(self, key, ranges, identity):
        self.calls += bool(ranges)
        return super().read_ranges(key, ranges, identity)


class Writable(Memory):
    """A store in memory that can be written to. Each request is reported to `step` before it is done."""

    can = frozenset({IF_ABSENT, IF_MATCH})

    def __init__(self, held, step=lambda name: None):
        super().__init__(held)
        self._report, self._writes = step, 0
        self._tags = {}

    def _step(self, name):
        try:
            self._report(name)
        except OSError as error:
            raise OutageError(f"the store: {error}") from error

    def _identity(self, key):
        return Identity(len(self.held[key]), self._tags.get(key, "first"))

    def status(self, key):
        self._step(f"status {key}")
        return super().status(key)

    def entries(self, key):
        self._step(f"list {key}")
        return iter(
            [
                entry
                if entry.kind is Kind.DIRECTORY
                else entry._replace(identity=self._identity(f"{key}/{entry.name}" if key else entry.name))
                for entry in super().entries(key)
            ]
        )

    def read_ranges(self, key, ranges, identity):
        self._step(f"read {key}")
        return super().read_ranges(key, ranges, identity)

    def identity(self, key):
        self._step(f"head {key}")
        return self._identity(key) if key in self.held else None

    def put(self, key, content, *, if_absent=False, if_match=None, done=lambda _: None):
        self._step(f"put {key}")
        there = self._identity(key) if key in self.held else None
        if (if_absent and there is not None) or (if_match is not None and there != if_match):
            raise FileExistsError(key)
        self._writes += 1
        self.held[key] = content.read_bytes() if isinstance(content, Path) else content
        self._tags[key] = f"write {self._writes}"
        done(self._identity(key))
        return self._identity(key)

    def upload(self, files, done):
        for key, file in files:
            done(key, self.put(key, file))

    def delete(self, keys):
        for key in list(keys):
            self._step(f"delete {key}")
            self.held.pop(key, None)
