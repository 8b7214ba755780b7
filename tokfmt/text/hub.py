"""Find tokenizers that are not a tokenizer.json: names on the Hugging Face hub, and directories for `transformers`.

A name is looked up in the local cache of the hub first, and a cached tokenizer is used without a request. The libraries
take most of a minute to detect that there is no network, so the hub is asked only if it accepts a TCP connection within
three seconds.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tokfmt.base.options import nearest
from tokfmt.errors import MissingDependencyError, TokfmtError
from tokfmt.files.file import open_file
from tokfmt.text.decoding import guarded
from tokfmt.wording import printable

_PATIENCE = 3.0
"""Seconds in which the hub has to answer, including the resolution of its name."""
_VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model")
_CONFIG = "tokenizer_config.json"
_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
"""A name that the hub allows: NAME or OWNER/NAME."""
_FETCHED = [
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "spiece.model",
    "*config.json",
    "special_tokens_map.json",
    "added_*.json",
    "chat_template.jinja",
]


_MODELS = {
    "a SentencePiece model": {"sentencepiece": "sentencepiece", "protobuf": "google.protobuf"},
    "a tiktoken vocabulary": {"tiktoken": "tiktoken"},
}
"""Vocabularies that transformers reads with more packages: the module of each by its pip name."""
_READ_ALONE = ("vocab.json", "vocab.txt")
_BEGINNING = 1 << 8  # bytes that show what a vocabulary is


class TokenizerError(TokfmtError):
    """A tokenizer that cannot be found, loaded or used as requested."""

    exit_code = 2

    def __init__(self, tokenizer: str, why: str) -> None:
        # tokenizer: as the user gave it
        # why: the problem
        self.tokenizer, self.why = tokenizer, why
        super().__init__(f"tokenizer {printable(tokenizer) or '(none)'}: {why}")


def kind_of_vocabulary(content: bytes) -> str:
    """Return what a file that is not a tokenizer.json is by its first bytes; "" if it is not known."""
    if re.match(rb'\s*\{\s*"config":\s*\{\s*"pattern":', content):
        return "a Tekken vocabulary"
    if re.match(rb"[A-Za-z0-9+/]+={0,2} [0-9]+\r?\n", content):
        return "a tiktoken vocabulary"
    # the first piece, a protobuf message: its text (field 1), and its score (field 3)
    text = content[3] if len(content) > len("\n \n ") and content[0] == content[2] == ord("\n") else 0
    return "a SentencePiece model" if text and content[4 + text : 5 + text] == b"\x15" else ""


def _refuse_lacking_packages(directory: str) -> None:
    """Refuse a vocabulary that transformers cannot read without a package, before it names a wrong one."""
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    if any(name in names for name in _READ_ALONE):
        return
    for name in (name for name in names if name.endswith((".model", ".tiktoken"))):
        file = open_file(Path(directory, name))
        kind = kind_of_vocabulary(file.read(0, min(file.size, _BEGINNING)))
        file.close()
        missing = [package for package, module in _MODELS.get(kind, {}).items() if not _is_installed(module)]
        if missing:
            error = MissingDependencyError(" ".join(missing), f"tokenizer {printable(directory)}: {name}, {kind},")
            error.add_note(
                "Or give a tokenizer.json, as AutoTokenizer of transformers saves one where they are installed"
            )
            raise error


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent is missing
        return False


def pretrained(directory: str) -> Any:
    """Return the tokenizer that `transformers.AutoTokenizer` loads from a directory. It never runs code from there."""
    _refuse_lacking_packages(directory)
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # silences a remark that PyTorch is missing
    from transformers import AutoTokenizer

    return guarded(
        lambda: AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False),
        lambda why: TokenizerError(
            directory, f"transformers cannot load it ({why}). Give a directory with tokenizer.json"
        ),
    )


def refuse_lost_path(spec: str) -> None:
    """Check without network or cache that a tokenizer which can only be a path exists."""
    if not os.path.exists(spec) and (spec.endswith(".json") or not _NAME.fullmatch(spec)):
        raise TokenizerError(spec, f"no such file or directory, and not a name that the hub allows{_meant(spec)}")


def snapshot(name: str, *, local: bool = False) -> str:
    """Return the directory in the cache of the hub that holds a tokenizer; unless `local`, fetch it."""
    cached = _cached(name, _VOCABULARIES)
    if cached:
        return cached
    trouble = "the hub is asked only for a tokenizer that --tokenizer names" if local else _unreachable()
    if not trouble:
        from huggingface_hub import snapshot_download

        return guarded(
            lambda: snapshot_download(name, allow_patterns=_FETCHED),
            lambda why: TokenizerError(name, f"cannot be fetched from the Hugging Face hub ({why}){_meant(name)}"),
        )
    cached = _cached(name, (_CONFIG,))  # a few tokenizers have no vocabulary
    if cached:
        return cached
    remedy = "Give a directory or a tokenizer.json, or fetch it once with a network"
    here = "is not a file or a directory here, and not in the local Hugging Face cache"
    raise TokenizerError(name, f"{here}, and {trouble}. {remedy}{_meant(name)}")


def _cached(name: str, signs: tuple[str, ...]) -> str:
    """Return the directory in the local cache that holds one of the files; "" without one."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = (try_to_load_from_cache(name, sign) for sign in signs)
        return next((os.path.dirname(path) for path in found if isinstance(path, str)), "")
    except HFValidationError:
        why = "is neither a file, a directory, nor a name that the Hugging Face hub allows"
        raise TokenizerError(name, why + _meant(name)) from None


def _meant(spec: str) -> str:
    """Return a sentence that suggests the nearest path that exists; "" if none is near."""
    path = Path(spec)
    with contextlib.suppress(OSError, ValueError):
        there = [entry.name for entry in os.scandir(path.parent) if entry.is_dir() or "tokenizer" in entry.name.lower()]
        close = nearest(path.name, there)
        return f". Did you mean {printable(path.parent / close)}?" if close else ""
    return ""


def _unreachable() -> str:
    """Return why the hub cannot be asked; "" if it can."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "HF_HUB_OFFLINE forbids requests to the hub"
    host, port = _gate(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    trouble = connect_trouble(host, port)
    return f"{printable(host)} cannot be reached ({printable(trouble)})" if trouble else ""


def _gate(endpoint: str) -> tuple[str, int]:
    """Return the host and port that a request to `endpoint` connects to, which may be those of a proxy."""
    from urllib.request import getproxies, proxy_bypass

    url = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if proxy and not proxy_bypass(url.hostname or ""):
        url = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)


def connect_trouble(host: str, port: int) -> str:
    """Return why a TCP connection to a host fails within three seconds; "" if it succeeds."""
    found = [f"no answer within {_PATIENCE:g} s"]

    def attempt() -> None:
        try:
            socket.create_connection((host, port), _PATIENCE).close()
            found.append("")
        except (OSError, ValueError) as error:
            found.append(getattr(error, "strerror", None) or str(error) or type(error).__name__)

    # in a thread, because the time of the resolver cannot be limited otherwise
    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return found[-1]
