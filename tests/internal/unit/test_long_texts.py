"""Long texts: cut into pieces that change no id, in little memory; those that cannot be cut are refused by name."""

import gzip
import random

import numpy as np
import pytest
from made_tokenizers import TEXTS, llama3_like, sentencepiece_like
from paths import TOKENIZER
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import tokfmt
from tokfmt.core import resources
from tokfmt.core.errors import UnsafeError
from tokfmt.text import long_texts
from tokfmt.text.long_texts import NOWHERE, UnbrokenTextError, cuts_of, in_pieces
from tokfmt.text.tokenizer import load_tokenizer

PIECE, LONGEST = 1 << 13, 1 << 17


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(long_texts, "PIECE", PIECE)
    monkeypatch.setattr(long_texts, "LONGEST", LONGEST)


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    home = tmp_path_factory.mktemp("tokenizers")
    found = {"own": str(TOKENIZER)}
    for name, made in (("llama3-like", llama3_like()), ("sentencepiece-like", sentencepiece_like())):
        (home / name).mkdir()
        made.save(str(home / name / "tokenizer.json"))
        found[name] = str(home / name)
    return found


def loaded(specs, name, engine):
    return load_tokenizer(specs[name], engine=engine).encoder()


ALPHABETS = (
    "a",
    "A",
    "ab",
    "aA",
    "ACGT",
    "thequickbrown",
    "ab ",
    "xy \n,.'s\u6f22\u5b57\u3002\uff0c1\u00e9",
    " a,\n",
    "\u6f22\uff0c",
)


@pytest.mark.parametrize("engine", ["fastokens", "tokenizers"])
@pytest.mark.parametrize("name", ["own", "llama3-like"])
def test_pieces_have_the_ids_of_the_whole(specs, name, engine):
    encoder, rng = loaded(specs, name, engine), random.Random(7)
    texts = ["".join(rng.choices(alphabet, k=3 * PIECE)) for alphabet in ALPHABETS]
    texts += ["".join(rng.choice(TEXTS) + rng.choice(["", " ", "\n", "\n\n"]) for _ in range(40))]
    texts += ["x'" + "s" * 3 * PIECE + "'sTEST", ("ab" * PIECE + "AB" * PIECE) * 2, "short", ""]
    longest = []

    def encode(pieces):
        longest.append(max(map(len, pieces)))
        return encoder._encode(pieces)

    found = in_pieces(texts, encode, lambda: cuts_of(encoder.content))
    for text, ids in zip(texts, found, strict=True):
        assert np.array_equal(ids, encoder._encode([text]).tokens), text[:40]
    # letters of mixed case, and a change of case where a piece would end, have no place to cut
    assert sum(length > PIECE for length in longest) <= 2


def test_many_texts_are_encoded_some_at_a_time(specs):
    encoder, sizes = loaded(specs, "own", "fastokens"), []

    def encode(pieces):
        sizes.append(sum(map(len, pieces)))
        return encoder._encode(pieces)

    texts = ["one word " * 100] * 200
    found = in_pieces(texts, encode, lambda: NOWHERE)
    assert found.tolist() == encoder._encode(texts).tolist()
    assert max(sizes) <= PIECE


def test_a_text_that_cannot_be_cut_is_encoded_up_to_a_length(specs):
    encoder = loaded(specs, "sentencepiece-like", "tokenizers")
    text = "the cat and the dog " * 3000
    assert np.array_equal(encoder.encode([text]).tokens, encoder._encode([text]).tokens)
    with pytest.raises(UnbrokenTextError, match="'the cat .* more than 131,072 characters from character 0 on"):
        encoder.encode([text * 3])


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("x.jsonl.gz", '{"text": "one"}\n{"text": "%s"}\n', "x.jsonl.gz: the text at byte 16 has more than 131,072"),
        ("x.txt.gz", "%s", "x.txt.gz: record 0 has more than 131,072"),
    ],
)
def test_a_long_text_of_a_small_file_is_refused(tmp_path, name, content, where):
    (tmp_path / name).write_bytes(gzip.compress((content % (" " * 2 * LONGEST)).encode()))
    with pytest.raises(UnsafeError, match=where) as refused:
        tokfmt.convert(tmp_path / name, tmp_path / "o.pbin", tokenizer=TOKENIZER, eos=4095, jobs=1)
    assert "may fill 0.1 GB of memory (a longer text is accepted if its file has a byte for each 8" in str(
        refused.value
    )
    assert str(refused.value).endswith("Split the text, leave it out, or decompress its file")
    assert not (tmp_path / "o.pbin").exists()


@pytest.mark.parametrize("record", ['{"text": "%s"}\n', "%s"])
def test_a_long_text_of_a_large_file_is_encoded_if_the_memory_suffices(tmp_path, monkeypatch, specs, record):
    path = tmp_path / ("x.jsonl" if "text" in record else "x.txt")
    path.write_text(record % (" " * 2 * LONGEST))
    words = {"tokenizer": TOKENIZER, "eos": 4095, "jobs": 1}
    tokfmt.convert(path, tmp_path / "o.pbin", **words)
    expected = loaded(specs, "own", "tokenizers")._encode([" " * 2 * LONGEST]).tokens
    assert tokfmt.open(tmp_path / "o.pbin")[0].tolist() == expected.tolist()
    monkeypatch.setattr(resources, "share", lambda: long_texts.PER_CHARACTER * (2 * LONGEST - 1))
    where = f"{path.name}: .* has more than 262,143 .* 0.1 GB of memory .a worker may use 0.1 GB.. Split the text, or"
    with pytest.raises(UnsafeError, match=where):
        tokfmt.convert(path, tmp_path / "p.pbin", **words)


def bert_like():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]", "[SEP]"], show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def test_bert_is_cut_between_words(tmp_path):
    bert_like().save(str(tmp_path / "tokenizer.json"))
    encoder, rng = loaded({"bert": str(tmp_path)}, "bert", "tokenizers"), random.Random(3)
    found = cuts_of(encoder.content)
    assert (found.borders, len(found.lengths)) == (True, 0)
    for alphabet in ALPHABETS[5:]:
        text = "".join(rng.choices(f"{alphabet}\u0301\u03a3", k=3 * PIECE)) + "a b, c [SEP] " * 3 * PIECE
        assert np.array_equal(encoder.encode([text]).tokens, encoder._encode([text]).tokens), alphabet
