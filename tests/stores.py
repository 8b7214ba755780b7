"""A store in memory, which counts what it is asked."""

import errno

from tokfmt.core.errors import SourceChangedError
from tokfmt.core.place import Entry, Identity, Kind, Status, close_stores

__all__ = ["Counting", "Memory", "close_stores"]


class Memory:
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
