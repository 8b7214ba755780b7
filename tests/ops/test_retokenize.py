"""Token IDs that are encoded again, against the `tokenizers` library on the texts themselves."""

import json

import pytest
from commands import run
from made_tokenizers import llama3_like, sentencepiece_like
from paths import TOKENIZER
from tokenizers import Tokenizer, models, pre_tokenizers

import tokfmt
from tokfmt.errors import ConversionError, OptionError, SeparatorUnknownError, TokenizerMismatchError

OLD = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
TEXTS = ["The quick brown fox", "jumps", "über 𝄞 naïve\nlines", "the end. " * 40, "a", "  two  spaces "]


def encoded(tokenizer, texts=TEXTS):
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


@pytest.fixture(params=[llama3_like, sentencepiece_like], ids=lambda make: make.__name__)
def new(request, tmp_path):
    tokenizer = request.param()
    tokenizer.save(str(tmp_path / "new.json"))
    return tokenizer


@pytest.fixture
def home(tmp_path):
    (tmp_path / "ids.jsonl").write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in encoded(OLD)))
    tokfmt.convert(tmp_path / "ids.jsonl", tmp_path / "old_document.bin", to_eos="none")
    return tmp_path


def sequences(path):
    return [ids.tolist() for ids in tokfmt.open(path)]


@pytest.mark.parametrize("source", ["ids.jsonl", "old_document.bin"])
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_the_new_ids_are_those_of_the_texts(home, new, source, executor):
    how = {"from_tokenizer": str(TOKENIZER), "tokenizer": str(home / "new.json")}
    done = tokfmt.convert(
        home / source, home / "out_document.bin", to_eos="none", executor=executor, verify=True, **how
    )
    assert sequences(home / "out_document.bin") == encoded(new)
    assert done.tokenizer["digest"] and done.tokens == sum(map(len, encoded(new)))


def test_sequences_with_another_text_are_counted(home):
    """A vocabulary of two words knows no others."""
    poor = Tokenizer(models.WordLevel({"<unk>": 0, "jumps": 1, "a": 2}, unk_token="<unk>"))
    poor.pre_tokenizer = pre_tokenizers.Whitespace()
    poor.save(str(home / "poor.json"))
    done = run(
        *("convert", "old_document.bin", "out_document.bin", "--from-tokenizer", TOKENIZER, "--tokenizer", "poor.json"),
        *("--to-eos", "none", "--json"),
        cwd=home,
        check=0,
    )
    notes = " ".join(json.loads(done.stdout)["notes"])
    assert "6 sequences" in notes and " 4 with another text" in notes and "sequence 0" in notes


def test_bytes_that_are_not_text_are_refused_or_counted(home):
    cut, half = encoded(OLD)[0], encoded(OLD, ["𝄞"])[0][:1]  # the first byte of four
    (home / "cut.jsonl").write_text(json.dumps({"input_ids": cut}) + "\n" + json.dumps({"input_ids": half}) + "\n")
    how = {"from_tokenizer": str(TOKENIZER), "tokenizer": str(TOKENIZER)}
    with pytest.raises(ConversionError) as raised:
        tokfmt.convert(home / "cut.jsonl", home / "out.npy", **how)
    assert "sequence 1" in str(raised.value) and "invalid-utf8" in str(raised.value)
    assert not (home / "out.npy").exists()
    done = tokfmt.convert(home / "cut.jsonl", home / "out.npy", allow_loss="invalid-utf8", **how)
    assert any("U+FFFD stands in 1 " in note for note in done.notes)


def test_what_cannot_be_encoded_again_is_refused(home):
    (home / "text.jsonl").write_text('{"text": "a"}\n')
    (home / "masked.jsonl").write_text(json.dumps({"input_ids": [65, 66, 67], "labels": [-100, -100, 67]}) + "\n")
    both = {"from_tokenizer": str(TOKENIZER), "tokenizer": str(TOKENIZER)}
    for source, how, error in (
        ("text.jsonl", both, OptionError),
        ("masked.jsonl", both, ConversionError),
        ("ids.jsonl", {"from_tokenizer": str(TOKENIZER)}, OptionError),
    ):
        with pytest.raises(error):
            tokfmt.convert(home / source, home / "out.npy", **how)
        assert not (home / "out.npy").exists()
    done = tokfmt.convert(home / "masked.jsonl", home / "out.npy", allow_loss="loss-mask", **both)
    assert done.sequences == 1 and "loss-mask" in done.losses


def test_a_manifest_that_names_another_tokenizer_is_an_error(home):
    other = llama3_like()
    other.save(str(home / "other.json"))
    (home / "text.jsonl").write_text('{"text": "a b"}\n')
    tokfmt.convert(home / "text.jsonl", home / "made.npy", tokenizer=str(TOKENIZER))
    how = {"from_tokenizer": str(home / "other.json"), "tokenizer": str(home / "other.json")}
    with pytest.raises(TokenizerMismatchError):
        tokfmt.convert(home / "made.npy", home / "out.npy", **how)
    with pytest.raises(TokenizerMismatchError) as raised:  # a tokenizer alone encodes nothing again, and says how
        tokfmt.convert(home / "made.npy", home / "out.npy", tokenizer=str(home / "other.json"))
    assert any("--from-tokenizer" in note for note in raised.value.__notes__)


def test_a_new_tokenizer_without_an_eos_is_named_with_what_to_type(home, new):
    how = {"from_tokenizer": str(TOKENIZER), "tokenizer": str(home / "new.json")}
    with pytest.raises(SeparatorUnknownError) as raised:
        tokfmt.convert(home / "old_document.bin", home / "out_document.bin", **how)
    said = str(raised.value)
    assert "new.json" in said and "--to-eos none" in said and "--eos" not in said.replace("--to-eos", "")
    tokfmt.convert(home / "old_document.bin", home / "out_document.bin", to_eos=5, **how)
    assert sequences(home / "out_document.bin") == encoded(new)
