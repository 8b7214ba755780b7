"""Tokenizers that only `transformers` can load: by name, from the local cache or the hub, and from odd directories.

Without network, `transformers` takes most of a minute to say that it found nothing. So the cache is looked at first,
and a name that is not there is asked for only when the hub answers a TCP connection within three seconds.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.core.options import nearest
from tokfmt.text.vocabulary import guarded

_PATIENCE = 3.0
"""Seconds for the hub to answer; resolving its name counts in."""
_SIGNS = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "tokenizer.model", "spiece.model", "vocab.txt")


class TokenizerError(TokfmtError):
    """A tokenizer that cannot be found, loaded or used as asked.

    Attributes:
        tokenizer: As the user gave it.
    """

    exit_code = 2

    def __init__(self, tokenizer: str, why: str) -> None:
        self.tokenizer, self.why = tokenizer, why
        super().__init__(f"tokenizer {printable(tokenizer) or '(none)'}: {why}")


def pretrained(spec: str) -> Any:
    """The tokenizer that `transformers.AutoTokenizer` has for a directory or a name. Never runs code of a repository.

    Raises:
        TokenizerError: Nothing of that name here, in the cache or on the hub, or it cannot be loaded.
    """
    local = os.path.isdir(spec) or _in_cache(spec)
    if not local:
        _check_reachable(spec)
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # else it remarks on stderr that PyTorch is absent
    from transformers import AutoTokenizer

    return guarded(
        lambda: AutoTokenizer.from_pretrained(spec, local_files_only=local, trust_remote_code=False),
        lambda why: TokenizerError(spec, f"transformers cannot load it ({why}). Give a directory with tokenizer.json"),
    )


def _in_cache(name: str) -> bool:
    """Whether the local cache of the hub holds a tokenizer of that name."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return any(isinstance(try_to_load_from_cache(name, sign), str) for sign in _SIGNS)
    except HFValidationError:
        raise _no_such_path(name) from None


def _no_such_path(spec: str) -> TokenizerError:
    """For what can only be a path."""
    path = Path(spec)
    close = None
    with contextlib.suppress(OSError):
        close = nearest(path.name, os.listdir(path.parent))
    meant = f". Did you mean {printable(path.parent / close)}?" if close else ""
    return TokenizerError(spec, f"is neither a file, a directory, nor a name that the Hugging Face hub allows{meant}")


def _check_reachable(name: str) -> None:
    here = "is neither a file nor a directory here and is not in the local Hugging Face cache"
    remedy = "Give a directory or a tokenizer.json, or fetch it once where there is network"
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise TokenizerError(name, f"{here}, and HF_HUB_OFFLINE forbids to ask the hub. {remedy}")
    host, port = _gate(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    trouble = connect_trouble(host, port)
    if trouble:
        raise TokenizerError(name, f"{here}, and {printable(host)} cannot be reached ({printable(trouble)}). {remedy}")


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
