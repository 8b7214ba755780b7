"""One line to a record: the fast path never sees a line otherwise than Python's json does."""

import json

import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.core.records import NAMED_FIELDS
from tokfmt.formats.jsonl import parse
from tokfmt.formats.jsonl.parse import DEEPEST, Fault, Parser, depth_of


@settings(max_examples=examples(50))
@given(
    st.lists(st.sampled_from(["[", "]", "{", "}", '"', '"[\\\\"', '"\\""', '"{{{"', " " * 99]), max_size=60),
    st.integers(1, 99),
)
def test_depth_is_counted_in_pieces(parts, size):
    """As a scan for one character after the other counts it, wherever the pieces begin."""
    text = "".join(parts) * 40 + '"" [' * (DEEPEST + 1)
    depth, deepest, inside, escaped = 0, 0, False, False
    for letter in text:
        if escaped or letter == "\\":
            escaped = not escaped
        elif letter == '"':
            inside = not inside
        elif not inside and letter in "[]{}":
            depth += 1 if letter in "[{" else -1
            deepest = max(deepest, depth)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(parse, "_AT_ONCE", size)
        found = depth_of(text.encode())
    assert min(found, DEEPEST + 1) == min(deepest, DEEPEST + 1)


def test_what_is_nested_too_deep_is_not_scanned_to_its_end():
    """A line of 32 MB of brackets: no more than the first piece of it is looked at."""
    line = b'{"text": ' + b"[" * (1 << 25)
    assert DEEPEST < depth_of(line) <= 1 << 20
    assert isinstance(Parser("text", ("text",), True).one(line), Fault)


def test_fields_of_a_record_of_very_many():
    """As many are named as of all records together."""
    line = json.dumps({f"key{number}.x": 0 for number in range(20_000)} | {"text": "a"}).encode()
    names = Parser("text", ("text",), True).names(line)
    assert len(names) == NAMED_FIELDS
    assert names[0] == "key0\\.x"
