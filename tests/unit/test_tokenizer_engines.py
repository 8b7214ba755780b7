"""The fast engine against the reference, on strings made to part them; what happens when they do part."""

import json
import pickle
import random
import sys
import threading
import unicodedata
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from made_tokenizers import TEXTS, llama3_like, sentencepiece_like
from paths import GOLDEN, TOKENIZER
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import tokfmt
from tokfmt.core.errors import ConversionError, EngineDifferenceError, TokfmtError
from tokfmt.core.ragged import Ragged
from tokfmt.text import engine as engines
from tokfmt.text.engine import Content, Fastokens, Reference, TextEncoder
from tokfmt.text.tokenizer import TokenizerError, load_tokenizer

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


def test_the_fast_engine_is_used_where_it_matters(specs):
    for name in ("own", "llama3-like"):
        assert load_tokenizer(specs[name]).engine.startswith("fastokens "), name


def test_corpus_agrees(spec):
    handle = load_tokenizer(spec)
    reference = Tokenizer.from_file(f"{spec}/tokenizer.json")
    expected = [e.ids for e in reference.encode_batch(TEXTS[:90], add_special_tokens=False)]
    assert handle.encoder().encode(TEXTS[:90]).tolist() == expected


def test_a_word_of_a_megabyte():
    rng = random.Random(1)
    word = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=1 << 20))
    content = (TOKENIZER / "tokenizer.json").read_bytes()
    assert ids(Fastokens(content, parse=False), word) == ids(Reference(content, parse=False), word)


def test_padding_truncation_templates_and_dropout_never_apply(tmp_path):
    tokenizer = llama3_like()
    plain = save(tokenizer, tmp_path / "plain")
    expected = load_tokenizer(plain).encoder().encode(["a text that is longer than four tokens", ""]).tolist()
    assert len(expected[0]) > 4
    tokenizer.enable_padding(length=64)
    tokenizer.enable_truncation(4)
    tokenizer.model.dropout = 0.9
    odd = save(tokenizer, tmp_path / "odd")
    for engine in ("auto", "fastokens", "tokenizers"):
        handle = load_tokenizer(odd, engine=engine)
        assert handle.engine.startswith("fastokens" if engine == "auto" else engine)
        assert handle.encoder().encode(["a text that is longer than four tokens", ""]).tolist() == expected


def test_unsupported_kind_falls_back_visibly_or_stops(tmp_path):
    pieces = [("<unk>", 0.0), ("▁a", -1.0), ("▁text", -1.5), *((c, -4.0) for c in "▁aetx")]
    tokenizer = Tokenizer(models.Unigram(pieces, 0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    spec = save(tokenizer, tmp_path / "unigram")
    handle = load_tokenizer(spec)
    assert handle.kind == "Unigram"
    assert handle.engine.startswith("tokenizers ")
    assert len(handle.notes) == 1
    assert "fastokens" in handle.notes[0]
    assert handle.encoder().encode(["a text"]).tolist() == [[1, 2]]
    assert handle.decoder().decode([1, 2]) == "a text"
    with pytest.raises(ConversionError, match="unsupported"):
        load_tokenizer(spec, engine="fastokens").encoder()


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


def test_threads_and_processes_give_the_same_ids():
    encoder = load_tokenizer(str(TOKENIZER)).encoder()
    expected = encoder.encode(TEXTS).tolist()
    fresh = pickle.loads(pickle.dumps(encoder))
    found = [None] * 4

    def work(k):
        found[k] = fresh.encode(TEXTS).tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert found == [expected] * 4
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        assert pool.submit(encoder.encode, TEXTS).result().tolist() == expected


def test_no_texts_and_empty_texts():
    encoder = load_tokenizer(str(TOKENIZER)).encoder()
    assert encoder.encode([]).tolist() == []
    assert encoder.encode(["", ""]).tolist() == [[], []]


def test_an_encoder_travels_small():
    encoder = load_tokenizer(str(TOKENIZER)).encoder()
    assert isinstance(encoder, TextEncoder)
    assert isinstance(encoder.content, Content)
    encoder.encode(["used"])
    assert len(pickle.dumps(encoder, protocol=5, buffer_callback=lambda buffer: None)) < 1000


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{}",
        b"[1, 2",
        b"\xff\xfe",
        b'{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}',
        b"[" * 100_000,
    ],
)
def test_damaged_files_are_one_clear_line(tmp_path, damage):
    file = tmp_path / "tokenizer.json"
    file.write_bytes(damage)
    with pytest.raises(TokenizerError, match="is not a tokenizer.json") as caught:
        load_tokenizer(str(file))
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, TokfmtError)
