"""`tokfmt index` writes byte for byte what Modalities writes."""

import pickle

import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.formats.jsonl.index import write_index


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.sampled_from([b"", b"\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf\r", b"a", b"abcd", b"abcd\r", b"abcdef", b"x" * 23]), max_size=20),
    st.booleans(),
    st.integers(8, 20),
    st.integers(1, 5),
)  # fmt: skip
def test_lines_that_are_only_found(tmp_path_factory, lines, ended, piece, many):
    """In pieces of any size; lines that hold nothing but a carriage return or the mark at the start are empty."""
    home = tmp_path_factory.mktemp("x")
    content = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    (home / "x.jsonl").write_bytes(content)
    expected, at = [], 0
    for line in content.split(b"\n"):
        stripped = line.removesuffix(b"\r")
        if (stripped.removeprefix(b"\xef\xbb\xbf") if at == 0 else stripped) and at < len(content):
            expected.append((at, len(line)))
        at += len(line) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokfmt.formats.jsonl.lines.PIECE", piece)
        patch.setattr("tokfmt.formats.jsonl.lines.PIECE", piece)
        patch.setattr("tokfmt.formats.jsonl.lines._LINES", many)
        write_index(home / "x.jsonl", validate=False, skip_invalid=True)
    assert pickle.loads((home / "x.idx").read_bytes()) == expected
