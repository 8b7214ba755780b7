"""What is refused, when, and that the words a refusal asks for work as given."""

import json

import pytest
from paths import TOKENIZER

import tokfmt
from tokfmt.core.errors import SeparatorUnknownError
from tokfmt.text.engine import TextEncoder

TEXTS = [{"text": f"document number {i}", "id": i} for i in range(40)]


@pytest.fixture
def bare(tmp_path):
    """A tokenizer.json alone: nothing says which token ends a text, but only one may."""
    (tmp_path / "bare").mkdir()
    content = json.loads((TOKENIZER / "tokenizer.json").read_text())
    (tmp_path / "bare" / "tokenizer.json").write_text(json.dumps(content))
    return str(tmp_path / "bare" / "tokenizer.json")


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text("".join(json.dumps(text) + "\n" for text in TEXTS))
    return path


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_missing_separator_is_refused_before_a_text_is_encoded(corpus, bare, tmp_path, monkeypatch, dry_run):
    monkeypatch.setattr(TextEncoder, "encode", lambda *_: pytest.fail("encoded"))
    with pytest.raises(SeparatorUnknownError) as caught:
        tokfmt.convert(corpus, tmp_path / "o.pbin", tokenizer=bare, dry_run=dry_run)
    for words in ("of the source is not known", "= 4095", "--to-eos none"):
        assert words in str(caught.value)
    assert "give tokenizer" not in str(caught.value)
    assert not list(tmp_path.glob(".o.pbin*"))
