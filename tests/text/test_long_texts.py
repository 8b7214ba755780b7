"""Long texts: cut into pieces that change no ID, in little memory; those that cannot be cut are refused by name."""

import gzip
import json
import random
from typing import Any

import numpy as np
import pytest
from amount import FUZZ_ONLY
from machines import Machine
from made_tokenizers import TEXTS, llama3_like, sentencepiece_like
from paths import TOKENIZER
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

import tokfmt
from tokfmt.errors import UnsafeError
from tokfmt.text.decoding import Content
from tokfmt.text.long_texts import NOWHERE, PER_CHARACTER, UnbrokenTextError, cuts_of, in_pieces
from tokfmt.text.tokenizer import load_tokenizer


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
    cuts = cuts_of(content)
    assert (cuts.borders, bool(cuts.lengths)) == (borders, words)


def test_an_unknown_split_is_not_cut():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken("a b")])
    for step in (pre_tokenizers.Split("x", "isolated"), pre_tokenizers.Metaspace(), pre_tokenizers.Digits()):
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([step])
        content = Content(np.frombuffer(tokenizer.to_str().encode(), np.uint8), repr(step))
        assert cuts_of(content) is NOWHERE


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    home = tmp_path_factory.mktemp("tokenizers")
    homes = {"own": str(TOKENIZER)}
    for name, made in (("llama3-like", llama3_like()), ("sentencepiece-like", sentencepiece_like())):
        (home / name).mkdir()
        made.save(str(home / name / "tokenizer.json"))
        homes[name] = str(home / name)
    return homes


def whole(spec, text):
    """The IDs of a text that the reference encodes at once."""
    tokenizer = Tokenizer.from_file(f"{spec}/tokenizer.json")
    tokenizer.encode_special_tokens = True
    return tokenizer.encode(text, add_special_tokens=False).ids


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
def test_pieces_have_the_ids_of_the_whole(specs, name, engine, piece):
    encoder: Any = load_tokenizer(specs[name], engine=engine).encoder()
    rng = random.Random(7)
    texts = ["".join(rng.choices(alphabet, k=3 * piece)) for alphabet in ALPHABETS]
    texts += ["".join(rng.choice(TEXTS) + rng.choice(["", " ", "\n", "\n\n"]) for _ in range(40))]
    texts += ["x'" + "s" * 3 * piece + "'sTEST", ("ab" * piece + "AB" * piece) * 2, "short", ""]
    longest = []

    def encode(pieces):
        longest.append(max(map(len, pieces)))
        return encoder.encode(pieces)

    encoded = in_pieces(texts, encode, lambda: cuts_of(encoder.content))
    for text, ids in zip(texts, encoded, strict=True):
        assert ids.tolist() == whole(specs[name], text), text[:40]
    # letters of mixed case, and a change of case where a piece would end, have no place to cut
    assert sum(length > piece for length in longest) <= 2


def test_many_texts_are_encoded_some_at_a_time(specs, piece):
    encoder, sizes = load_tokenizer(specs["own"]).encoder(), []

    def encode(pieces):
        sizes.append(sum(map(len, pieces)))
        return encoder.encode(pieces)

    text = "one word " * 100
    assert in_pieces([text] * 200, encode, lambda: NOWHERE).tolist() == [whole(specs["own"], text)] * 200
    assert max(sizes) <= piece


def test_a_text_that_cannot_be_cut_is_encoded_up_to_a_length(specs, piece):
    encoder = load_tokenizer(specs["sentencepiece-like"], engine="tokenizers").encoder()
    text = "the cat and the dog " * 3000
    assert encoder.encode([text]).tolist() == [whole(specs["sentencepiece-like"], text)]
    with pytest.raises(UnbrokenTextError, match="'the cat .* more than 131,072 characters from character 0 on"):
        encoder.encode([text * 3])


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("x.jsonl.gz", '{"text": "one"}\n{"text": "%s"}\n', "x.jsonl.gz: the text at byte 16 has more than 131,072"),
        ("x.txt.gz", "%s", "x.txt.gz: record 0 has more than 131,072"),
    ],
)
def test_a_long_text_of_a_small_file_is_refused(tmp_path, name, content, where, piece):
    (tmp_path / name).write_bytes(gzip.compress((content % (" " * 32 * piece)).encode()))
    with pytest.raises(UnsafeError, match=where) as refused:
        tokfmt.convert(tmp_path / name, tmp_path / "o.pbin", tokenizer=TOKENIZER, eos=4095, jobs=1)
    limit = "may fill 0.1 GB of memory (a longer text is accepted if its file has a byte for each 8"
    assert limit in str(refused.value)
    assert str(refused.value).endswith("Split the text, leave it out, or decompress its file")
    assert not (tmp_path / "o.pbin").exists()


@pytest.mark.parametrize("record", ['{"text": "%s"}\n', "%s"])
def test_a_long_text_of_a_large_file_is_encoded_if_the_memory_suffices(tmp_path, monkeypatch, record, piece):
    path, text = tmp_path / ("x.jsonl" if "text" in record else "x.txt"), " " * 32 * piece
    path.write_text(record % text)
    words = {"tokenizer": TOKENIZER, "eos": 4095, "jobs": 1}
    tokfmt.convert(path, tmp_path / "o.pbin", **words)
    assert tokfmt.open(tmp_path / "o.pbin")[0].tolist() == whole(TOKENIZER, text)
    machine = Machine(tmp_path, monkeypatch)
    machine.own.write_text("0::/\n")
    machine.write({"memory.max": str(2 * PER_CHARACTER * (len(text) - 1))})
    where = f"{path.name}: .* has more than 262,143 .* 0.1 GB of memory .a worker may use 0.1 GB.. Split the text, or"
    with pytest.raises(UnsafeError, match=where):
        tokfmt.convert(path, tmp_path / "p.pbin", **words)


def bert_like():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]", "[SEP]"], show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


@FUZZ_ONLY
def test_bert_is_cut_between_words(tmp_path, piece):
    bert_like().save(str(tmp_path / "tokenizer.json"))
    encoder: Any = load_tokenizer(str(tmp_path), engine="tokenizers").encoder()
    rng = random.Random(3)
    cuts = cuts_of(encoder.content)
    assert (cuts.borders, len(cuts.lengths)) == (True, 0)
    for alphabet in ALPHABETS[5:]:
        text = "".join(rng.choices(f"{alphabet}\u0301\u03a3", k=3 * piece)) + "a b, c [SEP] " * 3 * piece
        assert encoder.encode([text]).tolist() == [whole(tmp_path, text)], alphabet
