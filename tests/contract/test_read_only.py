"""Formats that are read, not written, under the laws of these; and plug-ins that break one law each."""

import registered
from caches import cache

from tokfmt.testing import ReadOnlyContract


class TestLevanter(ReadOnlyContract):
    format = registered.get("levanter")
    filename = "cache"

    def make(self, path):
        path.mkdir()
        cache(path, [self.contents[:2], self.contents[2:]])


class TestText(ReadOnlyContract):
    format = registered.get("text")
    filename = "corpus"
    contents = ("one\n", "two,\nthree", "four\n")

    def make(self, path):
        path.mkdir()
        for number, text in enumerate(self.contents):
            (path / f"{number}.txt").write_text(text)


def test_recipes_are_read_only_as_well():
    assert registered.get("recipe").read_only and registered.get("recipe").is_computed
