"""The laws of places: on this machine, and in a store in memory."""

import itertools

from stores import Memory

from tokfmt.files.place import LocalPlace, register_store
from tokfmt.plugin import Identity, place_of
from tokfmt.testing import StoreContract

NUMBERS = itertools.count()


class TestLocalPlaces(StoreContract):
    def home(self, tmp_path):
        return LocalPlace(tmp_path)

    def write(self, place, content):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.write_bytes(content)

    def remove(self, place):
        place.unlink()


class Written(Memory):
    """A store in memory that knows both conditions of writes."""

    can = frozenset({"if-absent", "if-match"})

    def put(self, key, content, *, if_absent=False, if_match=None, done=lambda _: None):
        there = self.identity(key)
        if (if_absent and there is not None) or (if_match is not None and there != if_match):
            raise FileExistsError(key)
        self.held[key] = content if isinstance(content, bytes) else content.read_bytes()
        done(self._identity(key))
        return self._identity(key)

    def delete(self, keys):
        for key in keys:
            self.held.pop(key, None)


class TestStoreInMemory(StoreContract):
    def home(self, tmp_path):
        held, scheme = {}, f"contract{next(NUMBERS)}"
        register_store(scheme, lambda _: Written(held))
        return place_of(f"{scheme}://bucket/home")


def test_a_store_needs_three_methods():
    """What the class states without them: it is only read, one question is asked at a time, no list of a stem."""
    store = Memory({"a": b"1", "b": b"22"})
    assert store.can is None
    assert store.beside("a") is None
    assert store.notes("a") == []
    assert [identity.size for identity in store.identities(["b", "a"])] == [2, 1]
    assert store.identity("no") is None
    assert isinstance(store.identity("a"), Identity)
