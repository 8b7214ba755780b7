"""Tokenizers that are not simply a tokenizer.json: names on the Hugging Face hub, and directories for `transformers`.

A name is a directory too, once it is in the hub's local cache: that is looked at first, and what is there is used as it
is. Libraries take most of a minute to find out that there is no network, so the hub is asked only when it answers a TCP
connection within three seconds.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tokfmt.core.errors import TokfmtError
from tokfmt.core.messages import Option
from tokfmt.core.options import nearest
from tokfmt.core.text_format import printable
from tokfmt.text.decoding import guarded

_PATIENCE = 3.0
"""Seconds for the hub to answer; resolving its name counts in."""
_VOCABULARIES = ("tokenizer.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model")
_CONFIG = "tokenizer_config.json"
_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
"""What the hub allows: a name, or an owner's name of it."""
_FETCHED = [
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "spiece.model",
    "*config.json",
    "special_tokens_map.json",
    "added_*.json",
]


class TokenizerError(TokfmtError):
    """A tokenizer that cannot be found, loaded or used as asked.

    Attributes:
        tokenizer: As the user gave it.
    """

    exit_code = 2

    def __init__(self, tokenizer: str, why: str) -> None:
        self.tokenizer, self.why = tokenizer, why
        super().__init__(f"tokenizer {printable(tokenizer) or '(none)'}: {why}")


def pretrained(directory: str) -> Any:
    """The tokenizer that `transformers.AutoTokenizer` finds in a directory. Never runs code of a repository.

    Raises:
        TokenizerError: There is none, or it cannot be loaded.
    """
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # else it remarks on stderr that PyTorch is absent
    from transformers import AutoTokenizer

    return guarded(
        lambda: AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False),
        lambda why: TokenizerError(
            directory, f"transformers cannot load it ({why}). Give a directory with tokenizer.json"
        ),
    )


def refuse_lost_path(spec: str) -> None:
    """Say at once of a tokenizer what needs neither network nor cache: it is a path, and nothing is there.

    Raises:
        TokenizerError: So it is.
    """
    if not os.path.exists(spec) and (spec.endswith(".json") or not _NAME.fullmatch(spec)):
        raise TokenizerError(spec, f"there is no such file or directory, and the hub has no such names{_meant(spec)}")


def snapshot(name: str, *, local: bool = False) -> str:
    """The directory in the hub's local cache that holds the tokenizer of that name; fetched when it is not there.

    Args:
        name: On the hub.
        local: Do not ask the hub: a file says the name, and nobody who sits here.

    Raises:
        TokenizerError: There is none, or the hub cannot be asked.
    """
    cached = _cached(name, _VOCABULARIES)
    if cached:
        return cached
    trouble = f"the hub is asked for those alone that {Option('tokenizer')} names" if local else _unreachable()
    if not trouble:
        from huggingface_hub import snapshot_download

        return guarded(
            lambda: snapshot_download(name, allow_patterns=_FETCHED),
            lambda why: TokenizerError(name, f"the Hugging Face hub does not give it ({why}){_meant(name)}"),
        )
    cached = _cached(name, (_CONFIG,))  # enough for the few that have no vocabulary
    if cached:
        return cached
    remedy = "Give a directory or a tokenizer.json, or fetch it once where there is network"
    here = "is neither a file nor a directory here and is not in the local Hugging Face cache"
    raise TokenizerError(name, f"{here}, and {trouble}. {remedy}{_meant(name)}")


def _cached(name: str, signs: tuple[str, ...]) -> str:
    """The directory in the local cache that holds one of the files; empty when there is none."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = (try_to_load_from_cache(name, sign) for sign in signs)
        return next((os.path.dirname(path) for path in found if isinstance(path, str)), "")
    except HFValidationError:
        why = "is neither a file, a directory, nor a name that the Hugging Face hub allows"
        raise TokenizerError(name, why + _meant(name)) from None


def _meant(spec: str) -> str:
    """What somebody who mistyped a path may have meant, as a sentence to append; empty when nothing is near."""
    path = Path(spec)
    with contextlib.suppress(OSError, ValueError):
        there = [entry.name for entry in os.scandir(path.parent) if entry.is_dir() or "tokenizer" in entry.name.lower()]
        close = nearest(path.name, there)
        return f". Did you mean {printable(path.parent / close)}?" if close else ""
    return ""


def _unreachable() -> str:
    """Why the hub cannot be asked; empty when it can."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "HF_HUB_OFFLINE forbids to ask the hub"
    host, port = _gate(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    trouble = connect_trouble(host, port)
    return f"{printable(host)} cannot be reached ({printable(trouble)})" if trouble else ""


def _gate(endpoint: str) -> tuple[str, int]:
    """Host and port that a request to `endpoint` connects to: its own, or a proxy's."""
    from urllib.request import getproxies, proxy_bypass

    url = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if proxy and not proxy_bypass(url.hostname or ""):
        url = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return url.hostname or "", url.port or (443 if url.scheme == "https" else 80)


def connect_trouble(host: str, port: int) -> str:
    """Why no TCP connection to a host comes about within three seconds; empty when it does."""
    found = [f"no answer within {_PATIENCE:g} s"]

    def attempt() -> None:
        try:
            socket.create_connection((host, port), _PATIENCE).close()
            found.append("")
        except (OSError, ValueError) as error:
            found.append(getattr(error, "strerror", None) or str(error) or type(error).__name__)

    # a thread, because nothing else puts a limit on the resolver
    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    return found[-1]
