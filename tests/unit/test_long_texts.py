"""Long texts: cut into pieces that change no id, in little memory; those that cannot be cut are refused by name."""

import json
import random

import numpy as np
import pytest
from made_tokenizers import TEXTS, llama3_like, sentencepiece_like
from paths import TOKENIZER
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

import tokfmt
from tokfmt.core.errors import UnsafeError
from tokfmt.text import long_texts
from tokfmt.text.long_texts import NOWHERE, UnbrokenTextError, cuts_of, in_pieces
from tokfmt.text.tokenizer import load_tokenizer

PIECE = 1 << 13


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(long_texts, "PIECE", PIECE)
    monkeypatch.setattr(long_texts, "LONGEST", 1 << 17)


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
    content = long_texts.Content(np.frombuffer(json.dumps(changed(part)).encode(), np.uint8), str(id(part)))
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
        content = long_texts.Content(np.frombuffer(tokenizer.to_str().encode(), np.uint8), repr(step))
        assert cuts_of(content) is NOWHERE


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("x.jsonl", '{"text": "one"}\n{"text": "%s"}\n', "x.jsonl: the text at byte 16 has more than"),
        ("x.txt", "%s", "x.txt: record 0 has more than"),
    ],
)
def test_the_refusal_names_the_record(tmp_path, name, content, where):
    (tmp_path / name).write_text(content % (" " * (1 << 18)))
    with pytest.raises(UnsafeError, match=where):
        tokfmt.convert(tmp_path / name, tmp_path / "o.pbin", tokenizer=TOKENIZER, eos=4095, jobs=1)
    assert not (tmp_path / "o.pbin").exists()
