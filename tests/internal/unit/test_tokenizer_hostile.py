"""Tokenizer files from strangers: what they may multiply is bounded, and a panic of the engine is one error."""

import time
from base64 import b64encode

import pytest
from made_tokenizers import llama3_like, sentencepiece_like
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tokfmt.run.execute import SerialExecutor, make_executor, run_tasks
from tokfmt.text.decoding import EngineError, _factor, expansion_of
from tokfmt.text.tokenizer import load_tokenizer

ENDLESS = "(a+)+$"  # more steps than the regular expressions of `tokenizers` are allowed


def made(normalizer=None, pre_tokenizer=None, decoder=None):
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    for name, part in (("normalizer", normalizer), ("pre_tokenizer", pre_tokenizer), ("decoder", decoder)):
        if part is not None:
            setattr(tokenizer, name, part)
    return tokenizer


def saved(tmp_path, tokenizer):
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer.to_str())
    return str(path)


def test_what_tokenizers_in_use_do_is_far_from_it(tmp_path):
    usual = normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Replace("``", '"')]
    )
    for tokenizer in (llama3_like(), sentencepiece_like(), made(usual, pre_tokenizers.Metaspace())):
        assert expansion_of(tokenizer)[0] <= 8
        load_tokenizer(saved(tmp_path, tokenizer))


def test_a_charsmap_counts_by_its_longest_entry():
    charsmap = (8).to_bytes(4, "little") + bytes(8) + b"ab\0" + b"x" * 40 + b"\0"
    assert _factor({"type": "Precompiled", "precompiled_charsmap": b64encode(charsmap).decode()}) == 40


@pytest.mark.parametrize("texts", [["a" * 60 + "b"], ["a", "b", "a" * 60 + "b"]])
@pytest.mark.parametrize("where", ["normalizer", "pre_tokenizer"])
def test_a_panic_is_an_error_that_names_the_text(tmp_path, where, texts):
    part = {
        "normalizer": normalizers.Replace(Regex(ENDLESS), "x"),
        "pre_tokenizer": pre_tokenizers.Split(Regex(ENDLESS), "isolated"),
    }[where]
    encoder = load_tokenizer(saved(tmp_path, made(**{where: part}))).encoder()
    with pytest.raises(EngineError, match="begins 'aaaaa.*retry-limit") as caught:
        encoder.encode(texts)
    assert caught.value.exit_code == 3


def test_a_panic_while_decoding(tmp_path):
    decoder = load_tokenizer(
        saved(tmp_path, made(decoder=decoders.Sequence([decoders.Fuse(), decoders.Replace(Regex(ENDLESS), "x")])))
    ).decoder()
    with pytest.raises(EngineError, match="decode the IDs that begin 0, 0"):
        decoder.decode([0] * 60 + [1])


def _slow_failure(delays, item):
    time.sleep(delays[item])
    if delays[item]:
        raise ValueError(item)
    return item


@pytest.mark.parametrize("jobs", [2, 5])
def test_the_error_is_that_of_the_first_item_whoever_is_first(tmp_path, jobs):
    delays = {0: 0, 1: 0.3, 2: 0.02, 3: 0, 4: 0.01}
    with make_executor("threads", jobs) as executor, pytest.raises(ValueError, match="^1$"):
        list(run_tasks(_slow_failure, delays, range(5), executor, jobs, tmp_path))
    with SerialExecutor() as executor, pytest.raises(ValueError, match="^1$"):
        list(run_tasks(_slow_failure, delays, range(5), executor, 1, tmp_path))
