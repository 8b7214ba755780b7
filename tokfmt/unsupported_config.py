"""Recognize configurations of other tools, and derive the tokfmt command that does the same.

    settings:                                 of `modalities data pack_encoded_data`
      src_path: corpus.jsonl
      dst_path: corpus.pbin
      jq_pattern: .text
      eod_token: <|endoftext|>
    tokenizer:
      variant_key: pretrained_hf_tokenizer
      config:
        pretrained_model_name_or_path: tokenizer

The parser reads lines of this form only: a key, indented by spaces, with one plain or quoted value. If a needed value
uses other YAML syntax or refers to another value (`${...}`), no command can be derived.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokfmt.wording import printable

_PAIR = re.compile(r"( *)([A-Za-z_]\w*):(?: +(.*))?")
_PLAIN = re.compile(r"""[^\s"'&*!|>%@`{}\[\],#?:-](?:[^#:]|(?<!\s)#|:(?!\s|$))*|"[^"\\]*"|'[^']*'""")
_JQ = re.compile(r"(?:\.[A-Za-z_]\w*)+")
_NEEDED = ("settings.src_path", "settings.jq_pattern", "settings.eod_token")
_NAME = "tokenizer.config.pretrained_model_name_or_path"
_OFF = {"tokenizer.config.truncation", "tokenizer.config.padding"}
_UNKNOWN = ("tokenizer.config.special_tokens", "tokenizer.config.max_length")
_MOST = 1 << 26  # The largest tokenizer.json to read, in bytes.


def values_of(text: str) -> dict[str, str | None]:
    """Return the values by the dotted path of their key; None for a value in a form that is not parsed."""
    found, above = dict[str, str | None](), list[tuple[int, str]]()
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#") or line == "---":
            continue
        pair = _PAIR.fullmatch(line.rstrip())
        if pair is None:
            if above:
                found[".".join(name for _, name in above)] = None
            continue
        while above and above[-1][0] >= len(pair[1]):
            above.pop()
        above.append((len(pair[1]), pair[2]))
        value = re.sub(r"(?:^|\s)#.*$", "", pair[3] or "").strip()
        if value:
            plain = _PLAIN.fullmatch(value) is not None and "${" not in value
            quoted = value[0] in "\"'"
            found[".".join(name for _, name in above)] = (value[1:-1] if quoted else value) if plain else None
    return found


def is_modalities(text: str) -> bool:
    """Return whether a text is a configuration of Modalities' `pack_encoded_data`."""
    return set(_NEEDED) <= values_of(text).keys() and re.search(r"^tokenizer:", text, re.MULTILINE) is not None


def modalities_step(text: str) -> str:
    """Return the remedy if such a configuration is given as a source: a sentence without its full stop."""
    values = values_of(text)
    source, jq, eod = (values[key] for key in _NEEDED)
    tokenizer, destination = values.get(_NAME), values.get("settings.dst_path", "DST.pbin")
    other = any(values.get(key, "false") not in ("false", "False") for key in _OFF)
    other |= any(value not in ("null", "~") for key, value in values.items() if key.startswith(_UNKNOWN))
    other |= values.get("tokenizer.variant_key") != "pretrained_hf_tokenizer"
    if None in (source, jq, eod, tokenizer, destination) or other or not _JQ.fullmatch(jq or ""):
        return (
            "Convert its src_path with the text, the tokenizer and the separator that it names: tokfmt convert SRC "
            "DST.pbin --tokenizer NAME --text-field PATH --eos ID"
        )
    number = _id_of(Path(str(tokenizer)), str(eod))
    words = [
        "tokfmt", "convert", str(source), str(destination), "--to", "modalities", "--tokenizer", str(tokenizer),
        "--text-field", str(jq)[1:], "--special-tokens", "parse", "--eos", "ID" if number is None else str(number),
    ]  # fmt: skip
    rest = "" if number is not None else f", where ID is the token ID of {eod}"
    return printable(f"To convert what it names: {shlex.join(words)}{rest}")


def _id_of(tokenizer: Path, token: str) -> int | None:
    """Return the token ID that the `tokenizer.json` of a directory has for a token; None if it is unknown."""
    path = tokenizer / "tokenizer.json"
    try:
        if not path.is_file() or path.stat().st_size > _MOST:
            return None
        content = json.loads(path.read_bytes())
        added: dict[str, Any] = {one["content"]: one["id"] for one in content.get("added_tokens") or ()}
        vocabulary = content["model"].get("vocab")
        found = added.get(token, vocabulary.get(token) if isinstance(vocabulary, Mapping) else None)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return found if type(found) is int else None
