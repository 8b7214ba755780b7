"""Formats that are read, not written, under the laws of these; and plug-ins that break one law each."""

from typing import Any

import pytest
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


TextFormat: Any = type(registered.get("text"))


def kit(law, format_, tmp_path):
    getattr(type("Kit", (TestText,), {"format": format_})(), f"test_{law}")(tmp_path)


class Writes(TextFormat):
    def writer(self, path, options, target):
        return object()


class Shallow(TextFormat):
    def inspect(self, paths, options, hints):
        inspection = super().inspect(paths, options, hints)
        inspection.look = lambda how: iter(())
        return inspection


class Forgets(TextFormat):
    def files(self, path):
        return super().files(path)[1:]


class Anything(TextFormat):
    def sniff(self, probe):
        return super().sniff(probe) or 1


@pytest.mark.parametrize(
    ("law", "format_", "match"),
    [
        ("nothing_is_written", Writes(), "DID NOT RAISE"),
        ("damage_never_crashes", Shallow(), "and a deep check finds nothing"),
        ("files_are_named", Forgets(), r"files\(\) leaves out"),
        ("files_are_named", Anything(), "an empty file is claimed"),
    ],
)
def test_a_broken_law_is_shown(law, format_, match, tmp_path):
    with pytest.raises((AssertionError, pytest.fail.Exception), match=match):
        kit(law, format_, tmp_path)
