"""The fast engine against the reference, on strings made to part them; what happens when they do part."""

import json
import pickle
import random
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from made_tokenizers import llama3_like, sentencepiece_like
from paths import GOLDEN, TOKENIZER
from tokenizers import Tokenizer

import tokfmt
from tokfmt.core.errors import EngineDifferenceError
from tokfmt.core.ragged import Ragged
from tokfmt.text import engine as engines
from tokfmt.text.engine import Content, Fastokens, Reference, TextEncoder
from tokfmt.text.tokenizer import load_tokenizer

END = "<|endoftext|>"


def save(tokenizer, directory, **config):
    directory.mkdir(exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    if config:
        (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return str(directory)


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    home = tmp_path_factory.mktemp("tokenizers")
    return {
        "own": str(TOKENIZER),
        "gpt2": str(GOLDEN / "gpt2"),
        "llama3-like": save(llama3_like(), home / "llama3", eos_token="<|end_of_text|>"),
        "sentencepiece-like": save(sentencepiece_like(), home / "spm", eos_token="</s>"),
    }


@pytest.fixture(params=["own", "gpt2", "llama3-like", "sentencepiece-like"])
def spec(request, specs):
    if request.param == "gpt2" and not (GOLDEN / "gpt2").is_dir():
        pytest.skip("the GPT-2 tokenizer is not there")
    return specs[request.param]


@pytest.fixture(scope="module")
def hostile():
    """Characters of every Unicode category in words, runs and mixtures; white space; literal specials; long words."""
    rng = random.Random(3)
    by_category = {}
    for code in range(sys.maxunicode + 1):
        by_category.setdefault(unicodedata.category(chr(code)), []).append(code)
    del by_category["Cs"]
    chosen = {name: [chr(c) for c in rng.sample(codes, min(24, len(codes)))] for name, codes in by_category.items()}
    every = [c for chars in chosen.values() for c in chars]
    texts = [
        "",
        *every,
        *("".join(chars) for chars in chosen.values()),
        *(" ".join(chars) for chars in chosen.values()),
    ]
    for _ in range(300):
        texts.append(
            "".join(rng.choice([" ", "a", "1", "'", "\n", rng.choice(every)]) for _ in range(rng.randrange(1, 30)))
        )
    for unit in (" ", "\t", "\n", "\r\n", "\u00a0", "\u3000", " \n", "a", "1", "'s", "é", "漢", "🙂", "\u200d", "-"):
        texts += [unit * n for n in (2, 3, 7, 64, 1000)] + [f"x{unit * 5}y", f"{unit * 3}z{unit}"]
    for special in (END, "<|end_of_text|>", "<|begin_of_text|>", "</s>", "<s>", "<unk>", "<0x41>", "▁"):
        texts += [special, f"a{special}b", f" {special} ", special * 3, special[:-1], special.upper(), f"\n{special}\n"]
    return [*texts, "a\r\nb\r\n\r\nc", "\ufeffstart", "\x00", "DON'T can't we'LL I'M", "👩‍🔬👨🏽‍🌾🇩🇪🇫🇷🏴"]


def ids(engine, text):
    return engine.encode([text])[0].tolist()


@pytest.mark.parametrize("parse", [False, True])
def test_both_engines_agree_or_the_reference_is_used(spec, parse, hostile):
    handle = load_tokenizer(spec, special_tokens="parse" if parse else "text")
    json_bytes = Path(spec, "tokenizer.json").read_bytes()
    reference = Tokenizer.from_buffer(json_bytes)
    reference.encode_special_tokens = not parse
    expected = [encoding.ids for encoding in reference.encode_batch(hostile, add_special_tokens=False)]
    found = handle.encoder().encode(hostile)
    assert found.tokens.dtype == np.uint32
    assert found.tolist() == expected
    if handle.engine.startswith("fastokens"):
        assert not handle.notes
        fast = Fastokens(json_bytes, parse=parse)
        assert [ids(fast, text) for text in hostile] == expected
    else:
        assert "fastokens" in handle.notes[0]


class Wrong:
    """An engine that is right but for texts that contain a word."""

    def __init__(self, content, *, parse):
        self.real = Reference(content, parse=parse)

    def encode(self, texts):
        found = self.real.encode(texts)
        if any("qzxf" in text for text in texts):
            raise ValueError("no such luck")
        return Ragged.of(ids[:-1] if "qzxw" in text else ids for text, ids in zip(texts, found, strict=True))


@pytest.fixture
def wrong_engine(monkeypatch):
    monkeypatch.setattr(engines, "Fastokens", Wrong)
    engines._fast.cache_clear()
    engines._known_difference.cache_clear()
    yield
    engines._fast.cache_clear()
    engines._known_difference.cache_clear()


def test_a_difference_on_the_first_texts_goes_to_the_reference(wrong_engine):
    texts = ["right", "this is qzxw"]
    handle = load_tokenizer(str(TOKENIZER))
    assert handle.engine.startswith("fastokens ")
    tried = handle.tried_on(texts)
    assert tried.engine.startswith("tokenizers ")
    assert "this is qzxw" in tried.notes[0]
    assert (
        tried.encoder().encode(texts).tolist()
        == load_tokenizer(str(TOKENIZER), engine="tokenizers").encoder().encode(texts).tolist()
    )
    with pytest.raises(EngineDifferenceError, match="begins 'this is qzxw'"):
        load_tokenizer(str(TOKENIZER), engine="fastokens").tried_on(texts).encoder()


def test_a_difference_during_a_run_stops_it(wrong_engine):
    encoder = load_tokenizer(str(TOKENIZER)).encoder()
    with pytest.raises(EngineDifferenceError, match="--engine tokenizers uses the reference") as caught:
        encoder.encode(["this is qzxw"])
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.exit_code == 4


def test_after_a_difference_during_a_conversion_nothing_is_kept(wrong_engine, monkeypatch, tmp_path):
    """Running it again would meet it again, and what is done is in doubt."""
    monkeypatch.setattr(engines, "_SAMPLED", 1)
    for name, word in (("a", "right"), ("b", "qzxw")):
        lines = [json.dumps({"text": f"{word if k > 400 else 'right'} {k}"}) + "\n" for k in range(500)]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    with pytest.raises(EngineDifferenceError) as caught:
        tokfmt.convert(
            [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out.pbin",
            tokenizer=str(TOKENIZER), resume=True, jobs=1, executor="serial",
        )  # fmt: skip
    assert not any("resume" in note for note in getattr(caught.value, "__notes__", []))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl"]


def test_later_texts_are_sampled_by_content(wrong_engine, monkeypatch):
    encoder = load_tokenizer(str(TOKENIZER)).encoder()
    encoder.encode(["right"] * 16)
    encoder.encode([f"qzxw {i}" for i in range(20)])  # not sampled: the price of speed
    monkeypatch.setattr(engines, "_SAMPLED", 3)
    with pytest.raises(EngineDifferenceError):
        encoder.encode([f"qzxw {i}" for i in range(200)])


def test_a_text_that_the_fast_engine_fails_on_gets_the_ids_of_the_reference(wrong_engine):
    expected = load_tokenizer(str(TOKENIZER), engine="tokenizers").encoder().encode(["I qzxf"]).tolist()
    assert load_tokenizer(str(TOKENIZER)).encoder().encode(["I qzxf"]).tolist() == expected
    with pytest.raises(EngineDifferenceError, match="no such luck"):
        load_tokenizer(str(TOKENIZER), engine="fastokens").encoder().encode(["I qzxf"])


def test_an_encoder_travels_small():
    encoder = load_tokenizer(str(TOKENIZER)).encoder()
    assert isinstance(encoder, TextEncoder)
    assert isinstance(encoder.content, Content)
    encoder.encode(["used"])
    assert len(pickle.dumps(encoder, protocol=5, buffer_callback=lambda buffer: None)) < 1000
