"""Tokenizer files from strangers: what they may multiply is bounded, and a panic of the engine is one error."""

import contextlib
import json
import os
import sys
from base64 import b64encode

import forkserver
import pytest
from made_tokenizers import llama3_like, sentencepiece_like
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tokfmt.errors import TokfmtError, UnsafeError
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


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_file_of_gigabytes_is_not_read(tmp_path, name):
    saved(tmp_path, made())
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, 3 << 30)
    with pytest.raises(UnsafeError, match=f"{name}: is too large for a tokenizer file"):
        load_tokenizer(str(tmp_path))


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": normalizers.Sequence([normalizers.Replace("a", "a" * 16)] * 6)},
        {"normalizer": normalizers.Sequence([normalizers.Replace(Regex("a?"), "aa")] * 9)},
        {"normalizer": normalizers.Sequence([normalizers.Prepend("a" * 99)] * 2)},
        {"pre_tokenizer": pre_tokenizers.Sequence([pre_tokenizers.ByteLevel()] * 12)},
        {"decoder": decoders.Sequence([decoders.Replace("a", "a" * 16)] * 9)},
    ],
)
def test_a_file_that_multiplies_is_refused_when_it_is_loaded(tmp_path, parts):
    with pytest.raises(UnsafeError, match="times longer") as caught:
        load_tokenizer(saved(tmp_path, made(**parts)))
    assert caught.value.exit_code == 3


def test_what_normalizer_and_pre_tokenizer_multiply_together_is_bounded(tmp_path):
    replace = normalizers.Replace("a", "a" * 100)
    for levels in (3, 4):  # each makes two characters of one, at most
        path = saved(tmp_path, made(replace, pre_tokenizers.Sequence([pre_tokenizers.ByteLevel()] * levels)))
        with pytest.raises(UnsafeError, match="1,600 times longer") if levels == 4 else contextlib.nullcontext():
            load_tokenizer(path)


def test_commands_end_with_a_line_and_code_3(tmp_path):
    text, ids = tmp_path / "t.jsonl", tmp_path / "i.jsonl"
    text.write_text(json.dumps({"text": "a" * 60 + "b"}) + "\n")
    ids.write_text(json.dumps({"input_ids": [0] * 60 + [1]}) + "\n")
    splits = saved(tmp_path, made(pre_tokenizer=pre_tokenizers.Split(Regex(ENDLESS), "isolated")))
    fused = decoders.Sequence([decoders.Fuse(), decoders.Replace(Regex(ENDLESS), "x")])
    (tmp_path / "d").mkdir()
    decodes = saved(tmp_path / "d", made(decoder=fused))
    for words in (
        ["convert", text, tmp_path / "o.pbin", "--eos", "1", "--tokenizer", splits],
        ["stats", text, "--tokenizer", splits],
        ["show", text, "--tokenizer", splits],
        ["diff", text, ids, "--tokenizer", splits],
        ["convert", ids, tmp_path / "o.jsonl", "--tokenizer", decodes],
        ["show", ids, "--tokenizer", decodes],
    ):
        run = forkserver.run(
            [sys.executable, "-m", "tokfmt", *map(str, words)], capture_output=True, text=True, check=False
        )
        assert run.returncode == 3, (words, run.stderr)
        assert "Traceback" not in run.stderr
        assert run.stderr.splitlines()[-1].startswith("tokfmt: error: the tokenizer fails to ")
    assert not (tmp_path / "o.pbin").exists()
    assert not (tmp_path / "o.jsonl").exists()


def test_what_tokenizers_in_use_do_is_far_from_it(tmp_path):
    usual = normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Replace("``", '"')]
    )
    for tokenizer in (llama3_like(), sentencepiece_like(), made(usual, pre_tokenizers.Metaspace())):
        load_tokenizer(saved(tmp_path, tokenizer))


@pytest.mark.parametrize("longest", [40, 400])
def test_a_charsmap_counts_by_its_longest_entry(tmp_path, longest):
    charsmap = (8).to_bytes(4, "little") + bytes(8) + b"ab\0" + b"x" * longest + b"\0"
    content = json.loads(made().to_str())
    mapped = {"type": "Precompiled", "precompiled_charsmap": b64encode(charsmap).decode()}
    tenfold = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
    content["normalizer"] = {"type": "Sequence", "normalizers": [mapped, tenfold]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(TokfmtError) as caught:  # the engine panics on a charsmap that SentencePiece did not make
        load_tokenizer(str(tmp_path)).encoder().encode(["a"])
    assert caught.value.exit_code == 3
    assert ("times longer" in str(caught.value)) == (longest == 400)


@pytest.mark.parametrize("texts", [["a" * 60 + "b"], ["a", "b", "a" * 60 + "b"]])
@pytest.mark.parametrize("where", ["normalizer", "pre_tokenizer"])
def test_a_panic_is_an_error_that_names_the_text(tmp_path, where, texts):
    part = {
        "normalizer": normalizers.Replace(Regex(ENDLESS), "x"),
        "pre_tokenizer": pre_tokenizers.Split(Regex(ENDLESS), "isolated"),
    }[where]
    encoder = load_tokenizer(saved(tmp_path, made(**{where: part}))).encoder()
    with pytest.raises(TokfmtError, match="begins 'aaaaa.*retry-limit") as caught:
        encoder.encode(texts)
    assert caught.value.exit_code == 3


def test_a_panic_while_decoding(tmp_path):
    decoder = load_tokenizer(
        saved(tmp_path, made(decoder=decoders.Sequence([decoders.Fuse(), decoders.Replace(Regex(ENDLESS), "x")])))
    ).decoder()
    with pytest.raises(TokfmtError, match="decode the IDs that begin 0, 0"):
        decoder.decode([0] * 60 + [1])
