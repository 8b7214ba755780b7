"""The fast engine against the reference, on strings made to part them; what happens when they do part."""

import json
import pickle
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from made_tokenizers import TEXTS, llama3_like, sentencepiece_like
from paths import GOLDEN, TOKENIZER
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tokfmt.core.errors import ConversionError, TokfmtError
from tokfmt.text.tokenizer import TokenizerError, load_tokenizer


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
