"""Where fixtures are, and the goldens that may not be copied (others' data), which may be absent."""

import json
from pathlib import Path

import pytest

from tokfmt.files.place import LocalPlace

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = LocalPlace(ROOT / "fixtures")
GOLDEN = LocalPlace(ROOT.parent / "shared" / "golden")
TOKENIZER = FIXTURES / "tokenizer"
CORPUS = FIXTURES / "text" / "corpus.jsonl"


def golden(*parts):
    """A path of a golden that stays where it is; skips the test when it is absent."""
    path = GOLDEN.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"golden {'/'.join(parts)} is not here")
    return path


def expected(name):
    """What the goldens of a format hold."""
    return json.loads((FIXTURES / name / "expected.json").read_bytes())


def pieces(stream, eos):
    """The documents of a stream, without separators."""
    found = [[]]
    for token in stream:
        if token == eos:
            found.append([])
        else:
            found[-1].append(token)
    return found[: len(found) - (not found[-1])]
