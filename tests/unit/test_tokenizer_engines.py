"""The fast engine against the reference, on strings made to part them; what happens when they do part."""

import itertools
import json
import pickle
import random
import sys
import threading
import unicodedata
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import fastokens
import numpy as np
import pytest
from made_tokenizers import TEXTS, llama3_like, sentencepiece_like
from paths import GOLDEN, TOKENIZER
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import tokfmt
from tokfmt.errors import ConversionError, EngineDifferenceError, TokfmtError
from tokfmt.text.tokenizer import TokenizerError, load_tokenizer

END = "<|endoftext|>"
NUMBERS = itertools.count()
WORDS = " ".join(TEXTS).split()
MANY = [
    f"{first} {second} qzxw {last}" for first, second, last in zip(WORDS, WORDS[999:9999], WORDS[5555:], strict=False)
]
"""Texts that differ where it is decided whether they are compared, which one in 1,024 is."""


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


def test_the_fast_engine_is_used_where_it_matters(specs):
    for name in ("own", "llama3-like"):
        assert load_tokenizer(specs[name]).engine.startswith("fastokens "), name


def test_corpus_agrees(spec):
    handle = load_tokenizer(spec)
    reference = Tokenizer.from_file(f"{spec}/tokenizer.json")
    expected = [e.ids for e in reference.encode_batch(TEXTS[:90], add_special_tokens=False)]
    assert handle.encoder().encode(TEXTS[:90]).tolist() == expected


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


@pytest.mark.parametrize("parse", [False, True])
def test_both_engines_agree_or_the_reference_is_used(spec, parse, hostile):
    special_tokens = "parse" if parse else "text"
    handle = load_tokenizer(spec, special_tokens=special_tokens)
    reference = Tokenizer.from_buffer(Path(spec, "tokenizer.json").read_bytes())
    reference.encode_special_tokens = not parse
    expected = [encoding.ids for encoding in reference.encode_batch(hostile, add_special_tokens=False)]
    encoded = handle.encoder().encode(hostile)
    assert encoded.tokens.dtype == np.uint32
    assert encoded.tolist() == expected
    if handle.engine.startswith("fastokens"):
        assert not handle.notes
        fast = load_tokenizer(spec, special_tokens=special_tokens, engine="fastokens").encoder()
        assert fast.encode(hostile).tolist() == expected
    else:
        assert "fastokens" in handle.notes[0]


class Wrong:
    """A fastokens that is right but for texts that contain a word."""

    def __init__(self, content):
        self.right = Tokenizer.from_str(content)

    @classmethod
    def from_json_str(cls, content):
        return cls(content)

    def no_padding(self):
        self.right.no_padding()

    def no_truncation(self):
        self.right.no_truncation()

    def encode_batch_flat(self, texts, *, add_special_tokens, split_special_tokens):
        if any("qzxf" in text for text in texts):
            raise ValueError("no such luck")
        self.right.encode_special_tokens = split_special_tokens
        encodings = self.right.encode_batch_fast(texts, add_special_tokens=add_special_tokens)
        ids = [each.ids[:-1] if "qzxw" in text else each.ids for text, each in zip(texts, encodings, strict=True)]
        offsets = [0, *itertools.accumulate(map(len, ids))]
        return np.array(sum(ids, []), "<u4").tobytes(), np.array(offsets, "<u8").tobytes()


@pytest.fixture
def wrong(monkeypatch, tmp_path):
    """A tokenizer that no test has loaded before, which fastokens encodes with wrongly."""
    monkeypatch.setattr(fastokens, "Tokenizer", Wrong)
    content = (TOKENIZER / "tokenizer.json").read_text("utf-8")
    (tmp_path / "tokenizer.json").write_text(content + " " * (1 + next(NUMBERS)), "utf-8")
    return str(tmp_path / "tokenizer.json")


def test_a_difference_on_the_first_texts_goes_to_the_reference(wrong):
    texts = ["right", "this is qzxw"]
    handle = load_tokenizer(wrong)
    assert handle.engine.startswith("fastokens ")
    tried = handle.tried_on(texts)
    assert tried.engine.startswith("tokenizers ")
    assert "this is qzxw" in tried.notes[0]
    expected = load_tokenizer(wrong, engine="tokenizers").encoder().encode(texts).tolist()
    assert tried.encoder().encode(texts).tolist() == expected
    with pytest.raises(EngineDifferenceError, match="begins 'this is qzxw'"):
        load_tokenizer(wrong, engine="fastokens").tried_on(texts).encoder()


def test_a_difference_during_a_run_stops_it(wrong):
    encoder = load_tokenizer(wrong).encoder()
    with pytest.raises(EngineDifferenceError, match="--engine tokenizers uses the reference") as caught:
        encoder.encode(["this is qzxw"])
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.exit_code == 4


def test_after_a_difference_during_a_conversion_nothing_is_kept(wrong, tmp_path):
    """Running it again would meet it again, and what is done is in doubt. One text in 1,024 is compared."""
    for name, word in (("a", "right"), ("b", "qzxw")):
        lines = [json.dumps({"text": text.replace("qzxw", word)}) + "\n" for text in ["right"] * 400 + MANY]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    with pytest.raises(EngineDifferenceError) as caught:
        tokfmt.convert(
            [tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "out.pbin",
            tokenizer=wrong, eos=4095, resume=True, jobs=1, executor="serial",
        )  # fmt: skip
    assert not any("resume" in note for note in getattr(caught.value, "__notes__", []))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "b.jsonl", "tokenizer.json"]


def test_later_texts_are_sampled_by_content(wrong):
    encoder = load_tokenizer(wrong).encoder()
    encoder.encode(["right"] * 16)
    encoder.encode([f"qzxw {i}" for i in range(20)])  # not sampled: the price of speed
    with pytest.raises(EngineDifferenceError):
        encoder.encode(MANY)


def test_a_text_that_the_fast_engine_fails_on_gets_the_ids_of_the_reference(wrong):
    expected = load_tokenizer(wrong, engine="tokenizers").encoder().encode(["I qzxf"]).tolist()
    assert load_tokenizer(wrong).encoder().encode(["I qzxf"]).tolist() == expected
    with pytest.raises(EngineDifferenceError, match="no such luck"):
        load_tokenizer(wrong, engine="fastokens").encoder().encode(["I qzxf"])


def test_an_encoder_travels_small():
    encoder = load_tokenizer(str(TOKENIZER)).encoder()
    encoder.encode(["used"])
    assert len(pickle.dumps(encoder, protocol=5, buffer_callback=lambda buffer: None)) < 1000
