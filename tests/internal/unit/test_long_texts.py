"""Long texts: cut into pieces that change no id, in little memory; those that cannot be cut are refused by name."""

import gzip
import json
import random

import numpy as np
import pytest
from made_tokenizers import TEXTS, llama3_like, sentencepiece_like
from paths import TOKENIZER
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

import tokfmt
from tokfmt.core import resources
from tokfmt.core.errors import UnsafeError
from tokfmt.text import long_texts
from tokfmt.text.decoding import Content
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


def changed(part):
    """Our tokenizer with something else about it."""
    content = json.loads((TOKENIZER / "tokenizer.json").read_text())
    part(content)
    return content


def added(**token):
    plain = {"id": 4096, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return lambda content: content["added_tokens"].append(plain | token)


@pytest.mark.parametrize(
    ("part", "borders", "words"),
    [
        (lambda content: content.pop("version"), True, True),
        (added(content="<tool>"), True, True),
        (added(content="the"), True, False),
        (added(content="of the"), False, False),
        (added(content="a "), False, False),
        (added(content=",", single_word=True), False, False),
        (added(content="\nx"), False, False),
        (added(content="the", rstrip=True), False, False),
        (added(content="the", lstrip=True), False, False),
        (lambda content: content["pre_tokenizer"].update(add_prefix_space=True), False, False),
        (lambda content: content["pre_tokenizer"].update(use_regex=False), False, False),
        (lambda content: content.update(pre_tokenizer=None), False, False),
        (lambda content: content.update(normalizer={"type": "Prepend", "prepend": "_"}), False, False),
        (lambda content: content.update(normalizer={"type": "NFC"}), True, True),
        (lambda content: content["model"].update(end_of_word_suffix="</w>"), True, False),
        (lambda content: content["model"]["vocab"].update({"a" * 300: 4097}), True, False),
    ],
)
def test_where_a_tokenizer_may_be_cut(part, borders, words):
    content = Content(np.frombuffer(json.dumps(changed(part)).encode(), np.uint8), str(id(part)))
    found = cuts_of(content)
    assert (found.borders, bool(found.lengths)) == (borders, words)


def test_a_text_that_cannot_be_cut_is_encoded_up_to_a_length(specs):
    encoder = loaded(specs, "sentencepiece-like", "tokenizers")
    text = "the cat and the dog " * 3000
    assert np.array_equal(encoder.encode([text]).tokens, encoder._encode([text]).tokens)
    with pytest.raises(UnbrokenTextError, match="'the cat .* more than 131,072 characters from character 0 on"):
        encoder.encode([text * 3])


def test_an_unknown_split_is_not_cut():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken("a b")])
    for step in (pre_tokenizers.Split("x", "isolated"), pre_tokenizers.Metaspace(), pre_tokenizers.Digits()):
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([step])
        content = Content(np.frombuffer(tokenizer.to_str().encode(), np.uint8), repr(step))
        assert cuts_of(content) is NOWHERE


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
