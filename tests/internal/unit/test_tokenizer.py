"""Finding, describing and using tokenizers: files, directories, names; special tokens; decoding, exact and lenient."""

import json
import pickle
import shutil
import socket
import threading
import time

import numpy as np
import pytest
from made_tokenizers import sentencepiece_like
from paths import TOKENIZER
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tokfmt.core.errors import TokfmtError
from tokfmt.text import hub
from tokfmt.text.decoding import DecodeError
from tokfmt.text.tokenizer import TokenizerError, load_tokenizer


@pytest.fixture(scope="module")
def own():
    return load_tokenizer(str(TOKENIZER))


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
    with pytest.raises(DecodeError, match="vocabulary of 384"):
        decoder.decode([100, 5000])
    assert handle.decoder(lenient=True).decode([100, 5000]) == "a⟨5000⟩"
    with pytest.raises(TokenizerError, match="no tokenizer.json"):
        load_tokenizer(str(tmp_path), engine="fastokens")


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    import huggingface_hub.constants as constants
    import huggingface_hub.file_download as download

    for module in (constants, download):
        if hasattr(module, "HF_HUB_CACHE"):
            monkeypatch.setattr(module, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name in ("HF_HUB_OFFLINE", "HF_ENDPOINT", "http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_name_without_network(empty_cache, monkeypatch):
    asked = []
    monkeypatch.setattr(hub, "connect_trouble", lambda *gate: asked.append(gate) or "no route")
    with pytest.raises(TokenizerError) as caught:
        load_tokenizer("gpt2")
    assert str(caught.value) == (
        "tokenizer gpt2: is not a file or a directory here, and not in the local Hugging Face cache, and "
        "huggingface.co cannot be reached (no route). Give a directory or a tokenizer.json, or fetch it once with a network"
    )
    assert asked == [("huggingface.co", 443)]


@pytest.mark.parametrize(
    ("variables", "gate"),
    [
        ({"HF_ENDPOINT": "http://mirror.example:8080/hf"}, ("mirror.example", 8080)),
        ({"HF_ENDPOINT": "mirror.example"}, ("mirror.example", 443)),
        ({"https_proxy": "http://proxy.example:3128"}, ("proxy.example", 3128)),
        ({"https_proxy": "http://proxy.example:3128", "no_proxy": "huggingface.co"}, ("huggingface.co", 443)),
    ],
)
def test_endpoint_and_proxy_are_honoured(empty_cache, monkeypatch, variables, gate):
    asked = []
    monkeypatch.setattr(hub, "connect_trouble", lambda *gate: asked.append(gate) or "no route")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TokenizerError):
        load_tokenizer("some/name")
    assert asked == [gate]


def test_offline_makes_no_request(empty_cache, monkeypatch):
    monkeypatch.setattr(hub, "connect_trouble", lambda *gate: pytest.fail("asked"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(TokenizerError, match="HF_HUB_OFFLINE forbids"):
        load_tokenizer("some/name")


def test_a_hub_that_does_not_answer_costs_three_seconds(monkeypatch):
    monkeypatch.setattr(hub, "_PATIENCE", 0.2)
    done = threading.Event()

    def hang(*args):  # as a resolver may
        done.wait(20)
        raise OSError("too late")

    monkeypatch.setattr(socket, "create_connection", hang)
    begun = time.monotonic()
    assert hub.connect_trouble("hub.example", 443) == "no answer within 0.2 s"
    assert time.monotonic() - begun < 5
    done.set()


def test_connect_trouble_of_closed_and_open_ports():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert hub.connect_trouble("127.0.0.1", port) == ""
    assert "refused" in hub.connect_trouble("127.0.0.1", port)


def cache(tmp_path, *files):
    """The hub's cache, with a repository in it."""
    home = tmp_path / "cache" / "models--somebody--small"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text("0" * 40)
    snapshot = home / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    for name in files:
        shutil.copy(TOKENIZER / name, snapshot)
    return snapshot


def test_a_cached_name_needs_no_network(empty_cache, tmp_path, monkeypatch, own):
    monkeypatch.setattr(hub, "connect_trouble", lambda *gate: pytest.fail("asked"))
    cache(tmp_path, "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
    handle = load_tokenizer("somebody/small")
    assert (handle.name, handle.vocab_size, handle.eos_id) == ("somebody/small", 4096, 4095)
    assert handle.encoder().encode(["of the"]).tolist() == own.encoder().encode(["of the"]).tolist()


def test_a_cached_configuration_is_enough_when_the_hub_is_gone(empty_cache, tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "connect_trouble", lambda *gate: "no route")
    (cache(tmp_path) / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "ByT5Tokenizer"}))
    handle = load_tokenizer("somebody/small")
    assert pickle.loads(pickle.dumps(handle.encoder())).encode(["a"]).tolist() == [[100]]


def test_a_name_is_fetched_once(empty_cache, tmp_path, monkeypatch):
    import huggingface_hub

    fetched = []

    def fetch(name, allow_patterns):
        fetched.append(name)
        return str(cache(tmp_path, "tokenizer.json", "tokenizer_config.json"))

    monkeypatch.setattr(hub, "connect_trouble", lambda *gate: "")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    assert load_tokenizer("somebody/small").eos_id == load_tokenizer("somebody/small").eos_id == 4095
    assert fetched == ["somebody/small"]


def test_the_hub_may_refuse(empty_cache, monkeypatch):
    import huggingface_hub

    def fetch(name, allow_patterns):
        raise OSError("404 Client Error\nRepository Not Found")

    monkeypatch.setattr(hub, "connect_trouble", lambda *gate: "")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    with pytest.raises(
        TokenizerError, match=r"tokenizer some/name: cannot be fetched from the Hugging Face hub \(404 Client Error\)$"
    ):
        load_tokenizer("some/name")


def test_a_mistyped_path_that_could_be_a_name(empty_cache, tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "connect_trouble", lambda *gate: "no route")
    shutil.copytree(TOKENIZER, tmp_path / "home" / "tokenizer")
    with pytest.raises(TokenizerError, match=r"Did you mean home/tokenizer\?$"):
        load_tokenizer("home/tokeniser")
    with pytest.raises(TokenizerError, match="is neither a file, a directory"):
        load_tokenizer("a\0b/c")


def test_an_id_beyond_the_vocabulary(own):
    for wrong in (4096, 2**32 - 1, -1):
        with pytest.raises(DecodeError) as caught:
            own.decoder().decode([5, 6, wrong])
        assert (caught.value.position, caught.value.token) == (2, wrong)
        assert f"ID {wrong:,}) is not in the tokenizer's vocabulary of 4,096 tokens" in str(caught.value)
        lenient = own.decoder(lenient=True)
        assert lenient.decode([70, wrong, 71]) == f"{lenient.decode([70])}⟨{wrong}⟩{lenient.decode([71])}"
        assert own.decoder().pieces([70, wrong])[1] == f"⟨{wrong}⟩"
    with pytest.raises(DecodeError):
        own.decoder().decode(np.asarray([2**64 - 1], np.uint64))


def test_bytes_that_are_not_utf8(own):
    table = own.decoder().pieces(range(4096))
    lead, letter = table.index(b"\xe2"), table.index(b"a")
    with pytest.raises(DecodeError) as caught:
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
    with pytest.raises(DecodeError, match=r"ID 3\) is not in the tokenizer's vocabulary of 256 tokens"):
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
    with pytest.raises(DecodeError, match="not UTF-8") as caught:
        decoder.decode(cut)
    assert caught.value.position == len(ids) - 4
    assert caught.value.found == "f0 9f a6"
    assert "\ufffd" in spm.decoder(lenient=True).decode(cut)


def test_byte_fallback_beyond_the_vocabulary(spm):
    ids = spm.encoder().encode(["The harbour"])[0].tolist()
    with pytest.raises(DecodeError, match="ID 999,999"):
        spm.decoder().decode([*ids, 999_999])
    assert spm.decoder(lenient=True).decode([*ids, 999_999]) == "The harbour⟨999999⟩"
    assert spm.decoder().pieces([999_999]) == ["⟨999999⟩"]
    assert spm.decoder().decode([]) == ""
