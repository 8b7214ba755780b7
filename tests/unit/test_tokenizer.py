"""Finding, describing and using tokenizers: files, directories, names; special tokens; decoding, exact and lenient."""

import json
import pickle
import random
import shutil
import socket
import subprocess
import sys
import threading
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from amount import FUZZ_ONLY
from made_tokenizers import TEXTS, sentencepiece_like
from paths import FIXTURES, ROOT, TOKENIZER, golden
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import tokfmt
from tokfmt.errors import CorruptError, FormatError, MissingDependencyError, TokfmtError
from tokfmt.text.tokenizer import TokenizerError, load_tokenizer

END = "<|endoftext|>"
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@pytest.fixture(scope="module")
def own():
    return load_tokenizer(str(TOKENIZER))


def copy(tmp_path, **files):
    """Our tokenizer.json in a directory with other files beside it."""
    shutil.copy(TOKENIZER / "tokenizer.json", tmp_path)
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return load_tokenizer(str(tmp_path))


# what a handle says


def test_handle(own):
    assert own.name == str(TOKENIZER)
    assert own.kind == "BPE (byte-level)"
    assert own.vocab_size == 4096
    assert own.eos_id == 4095
    assert own.notes == ()
    printed = subprocess.run(
        [sys.executable, "-c", "import sys, xxhash; print(xxhash.xxh3_128_hexdigest(open(sys.argv[1], 'rb').read()))"]
        + [str(TOKENIZER / "tokenizer.json")],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    assert own.digest == printed
    assert own.describe() == {
        "name": str(TOKENIZER),
        "digest": own.digest,
        "vocab_size": 4096,
        "gaps": [],
        "eos_id": 4095,
        "engine": own.engine,
        "special_tokens": "text",
    }
    assert json.loads(json.dumps(own.describe())) == own.describe()


def test_a_file_is_as_good_as_its_directory(own):
    handle = load_tokenizer(str(TOKENIZER / "tokenizer.json"))
    assert (handle.eos_id, handle.digest) == (own.eos_id, own.digest)


@pytest.mark.parametrize(
    ("files", "eos_id"),
    [
        ({}, None),
        ({"tokenizer_config": {"eos_token": END}}, 4095),
        ({"tokenizer_config": {"eos_token": {"content": END, "special": True}}}, 4095),
        ({"tokenizer_config": {"eos_token": None}, "special_tokens_map": {"eos_token": END}}, 4095),
        ({"special_tokens_map": {"eos_token": {"content": "a"}}}, "a"),
        ({"tokenizer_config": {}, "generation_config": {"eos_token_id": 7}}, 7),
        ({"generation_config": {"eos_token_id": [7, 8]}}, None),
        ({"generation_config": {"eos_token_id": 4096}}, None),
        ({"generation_config": {"eos_token_id": -1}}, None),
        ({"generation_config": {"eos_token_id": 2**70}}, None),
        ({"generation_config": {"eos_token_id": True}}, None),
        ({"tokenizer_config": [1], "generation_config": "7"}, None),
    ],
)
def test_eos(tmp_path, files, eos_id):
    handle = copy(tmp_path, **files)
    expected = (
        Tokenizer.from_file(str(TOKENIZER / "tokenizer.json")).token_to_id(eos_id)
        if isinstance(eos_id, str)
        else eos_id
    )
    assert handle.eos_id == expected
    assert handle.notes == ()


def test_odd_files_beside_a_tokenizer_are_noted(tmp_path):
    handle = copy(
        tmp_path, tokenizer_config={"eos_token": "</s>", "added_tokens_decoder": {"4096": {"content": "<pad>"}}}
    )
    assert handle.eos_id is None
    assert handle.vocab_size == 4096
    assert len(handle.notes) == 2
    assert "<pad> with ID 4096" in handle.notes[0]
    assert "</s> is not in the vocabulary" in handle.notes[1]


def test_a_configuration_may_spell_what_is_no_text(tmp_path):
    config = {"eos_token": "\ud800", "added_tokens_decoder": {"7": {"content": "\udfff"}, "8": 5}}
    handle = copy(tmp_path, tokenizer_config=json.dumps(config))
    assert handle.eos_id is None
    assert [note.encode() for note in handle.notes]


def test_a_damaged_configuration_is_an_error(tmp_path):
    with pytest.raises(CorruptError, match="tokenizer_config.json: is not JSON"):
        copy(tmp_path, tokenizer_config="{")


# where it is found


def test_a_local_directory_wins_over_a_name(tmp_path, monkeypatch):
    shutil.copytree(TOKENIZER, tmp_path / "gpt2")
    monkeypatch.chdir(tmp_path)
    assert load_tokenizer("gpt2").vocab_size == 4096


def test_a_path_is_as_good_as_its_text(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "hello"}\n')
    done = tokfmt.convert(tmp_path / "in.jsonl", tmp_path / "out.pbin", tokenizer=Path(TOKENIZER))
    assert done.tokenizer["name"] == str(TOKENIZER)
    assert tokfmt.diff(tmp_path / "in.jsonl", tmp_path / "out.pbin", tokenizer=Path(TOKENIZER)).identical


@pytest.mark.filterwarnings("default::DeprecationWarning")  # of transformers 5.2 in tokenizers 0.22
def test_a_directory_without_tokenizer_json(tmp_path):
    model = json.loads((TOKENIZER / "tokenizer.json").read_text("utf-8"))["model"]
    vocab = {**model["vocab"], END: 4095}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n", encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer", "eos_token": END}))
    handle = load_tokenizer(str(tmp_path))
    assert (handle.vocab_size, handle.eos_id, handle.kind) == (4096, 4095, "BPE (byte-level)")
    assert (
        handle.encoder().encode(TEXTS[:50]).tolist()
        == load_tokenizer(str(TOKENIZER)).encoder().encode(TEXTS[:50]).tolist()
    )


def test_an_empty_directory(tmp_path):
    with pytest.raises(TokenizerError, match="transformers cannot load it") as caught:
        load_tokenizer(str(tmp_path))
    assert "\n" not in str(caught.value)


SENTENCEPIECE = b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02\n\x0c\n\x03<s>\x15\x00\x00\x00\x00\x18\x03"
TIKTOKEN = b"IQ== 0\nIg== 1\n"
TEKKEN = b'{"config": {"pattern": "\\\\w+", "version": "v7"}, "vocab": [{"rank": 0, "token_bytes": "AA=="}]}'


@pytest.mark.parametrize(
    ("content", "there", "package"),
    [
        (SENTENCEPIECE, [], "sentencepiece protobuf"),
        (SENTENCEPIECE, ["sentencepiece"], "protobuf"),
        (TIKTOKEN, ["sentencepiece"], "tiktoken"),
    ],
)
@pytest.mark.parametrize("name", ["tokenizer.model", "spiece.model", "x.tiktoken"])
def test_the_package_that_reads_a_vocabulary_is_named(tmp_path, monkeypatch, content, there, package, name):
    """transformers names tiktoken for a SentencePiece model if sentencepiece is missing."""
    for module in ("sentencepiece", "google.protobuf", "tiktoken"):
        found = ModuleType(module)
        found.__spec__ = ModuleSpec(module, None)
        monkeypatch.setitem(sys.modules, module, found if module in there else None)
    monkeypatch.setitem(sys.modules, "google", ModuleType("google"))
    (tmp_path / name).write_bytes(content)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
    with pytest.raises(MissingDependencyError, match="tokenizer.json") as caught:
        load_tokenizer(str(tmp_path))
    assert (caught.value.package, name in str(caught.value)) == (package, True)


@pytest.mark.parametrize(
    ("content", "what"),
    [(SENTENCEPIECE, "a SentencePiece model"), (TIKTOKEN, "a tiktoken voc"), (TEKKEN, "a Tekken voc")],
)
def test_a_vocabulary_that_is_no_tokenizer_json(tmp_path, content, what):
    path = tmp_path / "vocabulary"
    path.write_bytes(content)
    with pytest.raises(TokenizerError, match=f"is {what}.*, not a tokenizer.json"):
        load_tokenizer(str(path))


@pytest.mark.parametrize("content", [b"", b"\n", b"\n{\n", b"\n{\n  1\n", b"{}", b"a b\n", b"\n\x0e\n\xff<unk>"])
def test_other_content_is_called_neither(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerError, match="is not a tokenizer.json"):
        load_tokenizer(str(tmp_path))


def test_code_in_a_repository_never_runs(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.Evil", None]}})
    )
    (tmp_path / "evil.py").write_text("open('ran', 'w').close()\nclass Evil: pass\n")
    with pytest.raises(TokenizerError):
        load_tokenizer(str(tmp_path))
    assert not (tmp_path / "ran").exists()
    assert not Path("ran").exists()


def test_a_mistyped_path_gets_a_nearest(tmp_path):
    shutil.copytree(TOKENIZER, tmp_path / "tokenizer")
    with pytest.raises(TokenizerError, match=r"is neither a file, a directory, nor .* Did you mean .*/tokenizer\?"):
        load_tokenizer(str(tmp_path / "tokeniser"))


def test_no_tokenizer_and_not_a_regular_file(tmp_path):
    with pytest.raises(TokenizerError, match="the name is empty"):
        load_tokenizer("")
    with pytest.raises(FormatError, match="is not a regular file"):
        load_tokenizer("/dev/zero")
    with pytest.raises(TokenizerError, match="vocab.txt is not a tokenizer.json"):
        (tmp_path / "vocab.txt").write_text("a\nb\n")
        load_tokenizer(str(tmp_path / "vocab.txt"))


# text to ids and back


def test_round_trip_is_exact(own):
    encoder, decoder = own.encoder(), own.decoder()
    texts = [*TEXTS, "", END, f"a{END}b", "\x00\x7f\u0085\u2028\ufeff", "\r\n \t ", "🏴‍☠️" * 9]
    assert [decoder.decode(sequence) for sequence in encoder.encode(texts)] == texts


def test_special_tokens_are_text_or_parsed(own):
    texts = [f"one{END}two", END, f"{END}{END}"]
    as_text = own.encoder().encode(texts)
    assert 4095 not in as_text.tokens
    assert own.decoder().decode(as_text[0]) == texts[0]
    parsed = load_tokenizer(str(TOKENIZER), special_tokens="parse").encoder().encode(texts)
    assert parsed[1].tolist() == [4095]
    assert parsed[2].tolist() == [4095, 4095]
    assert parsed[0].tolist().count(4095) == 1
    assert own.decoder().decode(parsed[0]) == texts[0]


def test_auto_tokenizer_agrees(own):
    from transformers import AutoTokenizer

    auto = AutoTokenizer.from_pretrained(str(TOKENIZER))
    assert (len(auto), auto.eos_token_id) == (own.vocab_size, own.eos_id)
    texts = [*TEXTS, f"a{END}b"]
    assert auto(texts, add_special_tokens=False)["input_ids"] == (
        load_tokenizer(str(TOKENIZER), special_tokens="parse").encoder().encode(texts).tolist()
    )
    assert (
        auto(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        == own.encoder().encode(texts).tolist()
    )
    ids = own.encoder().encode(TEXTS)
    assert [auto.decode(s, clean_up_tokenization_spaces=False) for s in ids.tolist()] == TEXTS


def test_auto_tokenizer_agrees_on_gpt2():
    gpt2 = str(golden("gpt2"))
    from transformers import AutoTokenizer

    auto = AutoTokenizer.from_pretrained(gpt2)
    texts = [*TEXTS, f"a{END}b"]
    handle = load_tokenizer(gpt2, special_tokens="parse")
    assert handle.eos_id == 50256
    assert handle.encoder().encode(texts).tolist() == auto(texts)["input_ids"]


def test_byte_table_agrees_with_tokenizers(own):
    reference = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
    ids = np.concatenate([own.encoder().encode(TEXTS).tokens, [4095, 0, 4095]])
    assert own.decoder().decode(ids) == reference.decode(ids.tolist(), skip_special_tokens=False)
    random.seed(2)
    lenient = own.decoder(lenient=True)
    for _ in range(300):  # any ids: what is not UTF-8 shows as U+FFFD, as tokenizers has it
        some = [random.randrange(4096) for _ in range(random.randrange(12))]
        assert lenient.decode(some) == reference.decode(some, skip_special_tokens=False)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64, np.int64, list])
def test_ids_of_any_kind(own, dtype):
    ids = own.encoder().encode(["a naïve text"])[0].tolist()
    given = ids if dtype is list else np.asarray(ids, dtype)
    decoder = pickle.loads(pickle.dumps(own.decoder()))
    assert decoder.decode(given) == "a naïve text"
    assert b"".join(decoder.pieces(given)) == "a naïve text".encode()
    assert len(pickle.dumps(decoder, protocol=5, buffer_callback=lambda buffer: None)) < 1000
    assert decoder.decode(given[:0]) == ""


def test_an_added_token_stands_for_its_own_text(tmp_path):
    tokenizer = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
    tokenizer.add_tokens([AddedToken("naïve", normalized=False), AddedToken("two words", normalized=False), "<|fin|>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    handle = load_tokenizer(str(tmp_path))
    text = "café, naïve two words <|fin|>"
    ids = handle.encoder().encode([text])[0]
    assert {4096, 4097, 4098} <= set(ids.tolist())
    assert handle.decoder().decode(ids) == text


def test_a_vocabulary_with_an_absurd_id(tmp_path):
    alphabet = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    content = {"model": {"type": "BPE", "vocab": {**alphabet, "ab": 2**32 - 1}, "merges": []}, "decoder": BYTE_LEVEL}
    for dropout in (None, 0.5):
        content["model"]["dropout"] = dropout
        (tmp_path / "tokenizer.json").write_text(json.dumps(content))
        with pytest.raises(TokfmtError, match=r"has the ID 4,294,967,295 \(expected at most"):
            load_tokenizer(str(tmp_path)).decoder()


# the repository's own


def test_importing_loads_no_tokenizer_library():
    code = "import sys, tokfmt.text.tokenizer; print([m for m in sys.argv[1:] if m in sys.modules])"
    names = ["transformers", "tokenizers", "fastokens", "huggingface_hub", "zarr", "h5py", "requests"]
    run = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "[]"


def test_a_local_tokenizer_needs_no_transformers():
    code = (
        "import sys; from tokfmt.text.tokenizer import load_tokenizer as load; h = load(sys.argv[1]);"
        "h.decoder().decode(h.encoder().encode(['a'])[0]); print('transformers' in sys.modules, 'socket' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(TOKENIZER)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout.split()[0] == "False"
    assert run.stderr == ""


def test_corpus_is_what_its_generator_makes(tmp_path):
    shutil.copy(FIXTURES / "make_text.py", tmp_path)
    subprocess.run([sys.executable, str(tmp_path / "make_text.py")], check=True)
    for name in ("corpus.jsonl", "with_fields.jsonl"):
        assert (tmp_path / "text" / name).read_bytes() == (FIXTURES / "text" / name).read_bytes()
    records = [json.loads(line) for line in (FIXTURES / "text" / "corpus.jsonl").read_text("utf-8").splitlines()]
    assert all(set(record) == {"text"} for record in records)


def test_training_again_gives_the_same_tokenizer(tmp_path):
    (tmp_path / "text").mkdir()
    (tmp_path / "tokenizer").mkdir()
    shutil.copy(FIXTURES / "text" / "corpus.jsonl", tmp_path / "text")
    shutil.copy(TOKENIZER / "train.py", tmp_path / "tokenizer")
    subprocess.run([sys.executable, str(tmp_path / "tokenizer" / "train.py")], check=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        assert (tmp_path / "tokenizer" / name).read_bytes() == (TOKENIZER / name).read_bytes(), name


# decoding


@pytest.fixture(scope="module")
def spm(tmp_path_factory):
    file = tmp_path_factory.mktemp("spm") / "tokenizer.json"
    sentencepiece_like().save(str(file))
    return load_tokenizer(str(file))


def test_a_python_class_without_tokenizer_json(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "ByT5Tokenizer"}))
    handle = load_tokenizer(str(tmp_path))
    assert (handle.kind, handle.eos_id) == ("ByT5Tokenizer", 1)
    assert handle.engine.startswith("transformers ")
    encoder, decoder = (pickle.loads(pickle.dumps(part)) for part in (handle.encoder(), handle.decoder()))
    text = "naïve </s> 漢"
    found = encoder.encode([text, ""])
    assert found.tokens.dtype == np.uint32
    assert found.tolist() == [[byte + 3 for byte in text.encode()], []]
    assert decoder.decode(found[0]) == text
    assert encoder.encode([]).tolist() == []
    assert load_tokenizer(str(tmp_path), special_tokens="parse").encoder().encode(["a</s>"]).tolist() == [[100, 1]]
    with pytest.raises(TokfmtError, match="vocabulary of 384"):
        decoder.decode([100, 5000])
    assert handle.decoder(lenient=True).decode([100, 5000]) == "a⟨5000⟩"
    with pytest.raises(TokenizerError, match="no tokenizer.json"):
        load_tokenizer(str(tmp_path), engine="fastokens")


def test_an_id_beyond_the_vocabulary(own):
    for wrong in (4096, 2**32 - 1, -1):
        with pytest.raises(TokfmtError) as caught:
            own.decoder().decode([5, 6, wrong])
        error: Any = caught.value
        assert (error.position, error.token) == (2, wrong)
        assert f"ID {wrong:,}) is not in the tokenizer's vocabulary of 4,096 tokens" in str(caught.value)
        lenient = own.decoder(lenient=True)
        assert lenient.decode([70, wrong, 71]) == f"{lenient.decode([70])}⟨{wrong}⟩{lenient.decode([71])}"
        assert own.decoder().pieces([70, wrong])[1] == f"⟨{wrong}⟩"
    with pytest.raises(TokfmtError):
        own.decoder().decode(np.asarray([2**64 - 1], np.uint64))


def test_bytes_that_are_not_utf8(own):
    table = own.decoder().pieces(range(4096))
    lead, letter = table.index(b"\xe2"), table.index(b"a")
    with pytest.raises(TokfmtError) as caught:
        own.decoder().decode([letter, letter, lead, letter])
    error = pickle.loads(pickle.dumps(caught.value))
    assert (error.position, error.token, error.found, error.exit_code) == (2, lead, "e2 61", 4)
    assert str(error) == (
        f"token 2 of the sequence (ID {lead}) gives bytes that are not UTF-8 here (e2 61). "
        "--allow-loss invalid-utf8 writes U+FFFD in their place"
    )
    assert isinstance(error, TokfmtError)
    assert own.decoder(lenient=True).decode([letter, lead, letter]) == "a\ufffda"
    assert own.decoder().decode([table.index(bytes([b])) for b in "\ufffd".encode()]) == "\ufffd"


def test_holes_in_the_vocabulary(tmp_path):
    alphabet = {c: 2 * i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(alphabet, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    handle = load_tokenizer(str(tmp_path))
    assert handle.vocab_size == 256
    ids = handle.encoder().encode(["hé"])[0]
    assert handle.decoder().decode(ids) == "hé"
    with pytest.raises(TokfmtError, match=r"ID 3\) is not in the tokenizer's vocabulary of 256 tokens"):
        handle.decoder().decode([2 * 33, 3])


def test_byte_fallback(spm):
    assert spm.kind == "BPE (byte fallback)"
    text = "The harbour, \ufffd 漢 🦜"
    ids = spm.encoder().encode([text])[0].tolist()
    decoder = pickle.loads(pickle.dumps(spm.decoder()))
    assert decoder.decode(ids) == text
    pieces = decoder.pieces(ids)
    assert "".join(p if isinstance(p, str) else p.decode("latin-1") for p in pieces).startswith(" The harbour")
    assert "🦜".encode() in b"".join(p for p in pieces if isinstance(p, bytes))
    cut = [*ids[:-1], ids[1]]
    with pytest.raises(TokfmtError, match="not UTF-8") as caught:
        decoder.decode(cut)
    error: Any = caught.value
    assert (error.position, error.found) == (len(ids) - 4, "f0 9f a6")
    assert "\ufffd" in spm.decoder(lenient=True).decode(cut)


def test_byte_fallback_beyond_the_vocabulary(spm):
    ids = spm.encoder().encode(["The harbour"])[0].tolist()
    with pytest.raises(TokfmtError, match="ID 999,999"):
        spm.decoder().decode([*ids, 999_999])
    assert spm.decoder(lenient=True).decode([*ids, 999_999]) == "The harbour⟨999999⟩"
    assert spm.decoder().pieces([999_999]) == ["⟨999999⟩"]
    assert spm.decoder().decode([]) == ""


# the hub


@pytest.fixture
def no_cache(tmp_path, monkeypatch):
    """A machine without a cache of the hub, in which the hub is asked; the gates that a connection was tried to."""
    import huggingface_hub.constants as constants
    import huggingface_hub.file_download as download

    for module in (constants, download):
        if hasattr(module, "HF_HUB_CACHE"):
            monkeypatch.setattr(module, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name in ("HF_HUB_OFFLINE", "HF_ENDPOINT", "http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    gates = []

    def connect(gate, *_):
        gates.append(gate)
        raise OSError("no route")

    monkeypatch.setattr(socket, "create_connection", connect)
    return gates


def cached(tmp_path, *files):
    """A repository in the cache of the hub."""
    home = tmp_path / "cache" / "models--somebody--small"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("0" * 40)
    snapshot = home / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    for name in files:
        shutil.copy(TOKENIZER / name, snapshot)
    return snapshot


def test_a_name_without_network(no_cache):
    with pytest.raises(TokenizerError) as caught:
        load_tokenizer("gpt2")
    assert str(caught.value) == (
        "tokenizer gpt2: is not a file or a directory here, and not in the local Hugging Face cache, and "
        "huggingface.co cannot be reached (no route). Give a directory or a tokenizer.json, or fetch it once with a network"
    )
    assert no_cache == [("huggingface.co", 443)]


@pytest.mark.parametrize(
    ("variables", "gate"),
    [
        ({"HF_ENDPOINT": "http://mirror.example:8080/hf"}, ("mirror.example", 8080)),
        ({"HF_ENDPOINT": "mirror.example"}, ("mirror.example", 443)),
        ({"https_proxy": "http://proxy.example:3128"}, ("proxy.example", 3128)),
        ({"https_proxy": "http://proxy.example:3128", "no_proxy": "huggingface.co"}, ("huggingface.co", 443)),
    ],
)
def test_endpoint_and_proxy_are_honored(no_cache, monkeypatch, variables, gate):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TokenizerError, match="no route"):
        load_tokenizer("some/name")
    assert no_cache == [gate]


def test_offline_makes_no_request(no_cache, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(TokenizerError, match="HF_HUB_OFFLINE forbids"):
        load_tokenizer("some/name")
    assert no_cache == []


@FUZZ_ONLY
@pytest.mark.usefixtures("no_cache")
def test_a_hub_that_does_not_answer_costs_three_seconds(monkeypatch):
    done = threading.Event()

    def hang(*_):  # as a resolver may
        done.wait(60)
        raise OSError("too late")

    monkeypatch.setattr(socket, "create_connection", hang)
    with pytest.raises(TokenizerError, match="no answer within 3 s"):
        load_tokenizer("some/name")
    done.set()


@pytest.mark.usefixtures("no_cache")
def test_a_port_that_is_closed(monkeypatch):
    monkeypatch.undo()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with pytest.raises(TokenizerError, match=r"127\.0\.0\.1 cannot be reached \(.*refused"):
        load_tokenizer("nobody/has-this-tokenizer")


def test_a_cached_name_needs_no_network(no_cache, tmp_path, own):
    cached(tmp_path, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
    handle = load_tokenizer("somebody/small")
    assert (handle.name, handle.vocab_size, handle.eos_id) == ("somebody/small", 4096, 4095)
    assert handle.encoder().encode(["of the"]).tolist() == own.encoder().encode(["of the"]).tolist()
    assert no_cache == []


@pytest.mark.usefixtures("no_cache")
def test_a_cached_configuration_is_enough_when_the_hub_is_gone(tmp_path):
    (cached(tmp_path) / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "ByT5Tokenizer"}))
    handle = load_tokenizer("somebody/small")
    assert pickle.loads(pickle.dumps(handle.encoder())).encode(["a"]).tolist() == [[100]]


@pytest.mark.usefixtures("no_cache")
def test_a_name_is_fetched_once(tmp_path, monkeypatch):
    import huggingface_hub

    fetched = []

    def fetch(name, allow_patterns):
        fetched.append(name)
        return str(cached(tmp_path, "tokenizer.json", "tokenizer_config.json"))

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    monkeypatch.setattr(socket, "create_connection", lambda *_: Connected())
    assert load_tokenizer("somebody/small").eos_id == load_tokenizer("somebody/small").eos_id == 4095
    assert fetched == ["somebody/small"]


class Connected:
    """A connection that is closed at once."""

    def close(self):
        pass


@pytest.mark.usefixtures("no_cache")
def test_the_hub_may_refuse(monkeypatch):
    import huggingface_hub

    def fetch(name, allow_patterns):
        raise OSError("404 Client Error\nRepository Not Found")

    monkeypatch.setattr(socket, "create_connection", lambda *_: Connected())
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    with pytest.raises(
        TokenizerError, match=r"tokenizer some/name: cannot be fetched from the Hugging Face hub \(404 Client Error\)$"
    ):
        load_tokenizer("some/name")


@pytest.mark.usefixtures("no_cache")
def test_a_mistyped_path_that_could_be_a_name(tmp_path):
    shutil.copytree(TOKENIZER, tmp_path / "home" / "tokenizer")
    with pytest.raises(TokenizerError, match=r"Did you mean home/tokenizer\?$"):
        load_tokenizer("home/tokeniser")
    with pytest.raises(TokenizerError, match="is neither a file, a directory"):
        load_tokenizer("a\0b/c")
