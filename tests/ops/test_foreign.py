"""What no format reads is named by its magic or by its numbers, with the next step, and never as one of the formats."""

import pytest
import registered

import tokfmt
from tokfmt.core.errors import TokfmtError


@pytest.mark.parametrize("name", registered.names())
def test_any_path_read_as_any_format_gives_data_or_an_error(tmp_path, name):
    """A file instead of a folder, a folder instead of a file, or a missing path."""
    for path in ("text.jsonl", "empty", "folder/x.bin"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"" if path == "empty" else b'{"text": "one"}\n' * 9)
    (tmp_path / "nothing").mkdir()
    for path in ("text.jsonl", "empty", "folder", "nothing", "nowhere"):
        for verb in (tokfmt.stats, tokfmt.check):
            try:
                verb(tmp_path / path, format=name)
            except TokfmtError as error:
                assert path in str(error)
