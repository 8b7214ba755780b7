"""Encode chats: a chat template renders the messages of a record, and what the assistant says counts in the loss.

    rendered    <|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\nHello<|im_end|>\\n
    loss mask   0 ..........................................................1 1 .........0

The template is that of the tokenizer: `chat_template.jinja` beside its tokenizer.json, or `chat_template` in
tokenizer_config.json. The whole text is encoded at once, with its special tokens, so that the IDs are those of
`apply_chat_template` of transformers. What the assistant says is

- what the template has in `{% generation %}`, if it has that; else
- what the rendering up to a message of the assistant has more than the rendering before it with the header of an
  answer, without white space after the special token that ends it. If the two and the whole do not begin alike, the
  record is refused.

Of a prompt with its completion, everything after the prompt counts: after the text of the prompt, or after what the
template renders of its messages with the header of an answer. A token with characters of both counts. Texts are joined
without a template, and encoded as other texts are.

`text.render` renders, in a process of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_128_hexdigest

from tokfmt.core.chats import CHATS, COMPLETION, PAIR, PROMPT, ChatTemplateError, texts_of_message
from tokfmt.core.format import Encoded, Encoder
from tokfmt.core.loss_mask import TARGET, UNENDED
from tokfmt.core.ragged import Ragged
from tokfmt.text.decoding import Content
from tokfmt.text.engine import reference_engine
from tokfmt.text.hub import TokenizerError
from tokfmt.text.render import MEMORY, messages_of
from tokfmt.wording import printable

NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_AT_ONCE, _CHARACTERS = 64, 1 << 20  # the most chats of one request, and their characters
_PATIENCE = 5.0  # seconds that a process takes to end, at most
_WITHOUT = "--allow-loss loss-mask reads it without a loss mask"


@dataclass(frozen=True)
class ChatTemplate:
    """The chat template of a tokenizer."""

    source: str
    tokens: Mapping[str, str] = field(hash=False)  # the special tokens by the names of `NAMED_TOKENS` that it can use

    @property
    def digest(self) -> str:
        """Return the xxh3_128 of the template."""
        return xxh3_128_hexdigest(self.source.encode())


def template_of(tokenizer: str, source: object, settings: Sequence[Mapping[str, Any]]) -> ChatTemplate:
    """Return the chat template of a tokenizer. `source` is the template, or a list of templates with names, of which
    "default" is used. `settings` are the configuration files that name special tokens, the first of which counts.
    """
    if isinstance(source, list):
        named = {one.get("name"): one.get("template") for one in source if isinstance(one, dict)}
        source = named.get("default")
    if not isinstance(source, str) or not source.strip():
        what = "has no chat template, which chats need"
        raise TokenizerError(tokenizer, f"{what}. Save one as chat_template.jinja beside its tokenizer.json")
    tokens = dict[str, str]()
    for name in NAMED_TOKENS:
        values = [setting[name] for setting in settings if name in setting]
        value = values[0].get("content") if values and isinstance(values[0], dict) else next(iter(values), None)
        if isinstance(value, str):
            tokens[name] = value
        elif not values and re.search(rf"\b{name}\b", source):
            what = f"its chat template uses {name}, which its tokenizer_config.json does not state"
            raise TokenizerError(tokenizer, f"{what}. State it there; null if it has none")
    return ChatTemplate(source, tokens)


class _Renderer:
    """The process of `text.render` that renders for this process. Threads take turns. It ends when it is idle."""

    def __init__(self) -> None:
        package = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tokfmt.text.render"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
        atexit.register(self.close)

    def answers(self, encoder: ChatEncoder, chats: Sequence[str]) -> list[dict[str, Any]] | None:
        """Return what `text.render` answers for chats; None if the process ended, as for want of time or memory."""
        template = encoder.template or ChatTemplate("", {})
        limits = {"masked": encoder.masked, "seconds": encoder.seconds}
        head = json.dumps({"source": template.source, "tokens": template.tokens, **limits})
        sent, received = self._process.stdin, self._process.stdout
        with self._lock, suppress(OSError, ValueError):
            if sent is not None and received is not None:
                sent.write(f'{head[:-1]}, "chats": [{",".join(chats)}]}}\n'.encode())
                sent.flush()
                line = received.readline()
                if line.endswith(b"\n"):
                    found: list[dict[str, Any]] = json.loads(line)
                    return found
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        ended_idle = self._process.returncode == 0
        self.close()
        return _renderer(os.getpid()).answers(encoder, chats) if ended_idle else None

    def close(self) -> None:
        """End the process."""
        _renderer.cache_clear()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        atexit.unregister(self.close)


@lru_cache(maxsize=1)
def _renderer(process: int) -> _Renderer:
    """Return the renderer of a process."""
    del process
    return _Renderer()


def end_rendering() -> None:
    """End the process that renders chats for this process, if there is one."""
    if _renderer.cache_info().currsize:
        _renderer(os.getpid()).close()


@dataclass(frozen=True)
class ChatEncoder(Encoder):
    """Encode chats with the chat template of a tokenizer. Picklable. Threads can share it."""

    content: Content
    template: ChatTemplate | None  # None if chats are prompts and completions of text
    masked: bool  # what the assistant says is marked
    parse: bool  # a special token that is spelled in a message is encoded as its ID; else it is an error
    special: Mapping[str, int] = field(hash=False)  # with their IDs
    seconds: int = 20  # CPU time for up to 64 chats that are rendered together

    @property
    def loss_masks(self) -> str:  # type: ignore[override]
        return CHATS if self.masked else ""

    def encode(self, texts: list[str]) -> Ragged:
        """Return the IDs of chats, whose texts are those of `core.chats.chat_text`."""
        return self.marked(texts).ragged

    def marked(self, texts: list[str]) -> Encoded:
        """Return the IDs of chats, their marks, and the number of messages of each role; raises as `encode` does."""
        ids, marks, roles = list[list[int]](), [np.empty(0, np.uint8)], Counter[str]()
        spelled = re.compile("|".join(map(re.escape, sorted(self.special, key=len, reverse=True))) or r"(?!)")
        for first, chats in _together([text or "[]" for text in texts]):
            for number, chat in enumerate(chats, first):
                messages, is_pair = messages_of(json.loads(chat))
                roles.update([PAIR] * is_pair)
                roles.update(message["role"] for message in messages)
                if not self.parse:
                    _refuse_special(number, messages, spelled)
            is_text = self.template is None
            answers = list(map(_joined, chats)) if is_text else self._answers(chats, first)
            engine = reference_engine(self.content, parse=self.parse or not is_text)
            encodings = engine.encodings([one["text"] for one in answers])
            for answer, encoding in zip(answers, encodings, strict=True):
                ids.append(encoding.ids)
                if self.masked:
                    marks.append(self._marks(answer, encoding))
        return Encoded(Ragged.of(ids), np.concatenate(marks) if self.masked else None, roles)

    def _answers(self, chats: Sequence[str], first: int) -> list[dict[str, Any]]:
        """Return the texts of chats, and the spans of what the assistant says; `first` is the number of the first."""
        answers = _renderer(os.getpid()).answers(self, chats)
        if answers is None and len(chats) > 1:  # to find the chat that fails
            return [answer for number, chat in enumerate(chats, first) for answer in self._answers([chat], number)]
        if answers is None:
            what = f"needs more than {self.seconds} seconds or {MEMORY >> 30} GiB of memory to be rendered"
            raise ChatTemplateError(first, what, "Check the chat template: it comes with the tokenizer, and is code")
        for number, answer in enumerate(answers, first):
            if "error" in answer:
                remedy = "Correct the record or chat_template.jinja of the tokenizer"
                if answer["is_of_masks"]:
                    remedy = f"Give the tokenizer a chat template with {{% generation %}}; {_WITHOUT}"
                raise ChatTemplateError(number, printable(answer["error"]), remedy)
        return answers

    def _marks(self, answer: Mapping[str, Any], encoding: Any) -> NDArray[np.uint8]:
        """Return the marks of the tokens of a chat, of which a token counts if one of its characters does."""
        bounds = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        marks = np.zeros(len(bounds), np.uint8)
        special = np.isin(np.array(encoding.ids, np.int64), list(self.special.values()))
        for start, stop in answer["spans"]:
            inside = np.flatnonzero((bounds[:, 1] > start) & (bounds[:, 0] < stop))
            ends = inside[special[inside]]
            if answer.get("by_messages") and len(ends):
                closed = int(bounds[ends[-1], 1])
                if not answer["text"][closed:stop].strip():
                    inside = inside[inside <= ends[-1]]
            marks[inside] = TARGET
        if self.template is not None:  # a template writes what ends a chat
            marks[-1:] |= UNENDED
        return marks


def _together(texts: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield chats that are rendered together, with the number of the first."""
    first, size = 0, 0
    for number, text in enumerate(texts):
        if number > first and (number - first == _AT_ONCE or size + len(text) > _CHARACTERS):
            yield first, list(texts[first:number])
            first, size = number, 0
        size += len(text)
    if first < len(texts):
        yield first, list(texts[first:])


def _joined(chat: str) -> dict[str, Any]:
    """Return the answer for a prompt and a completion of text; see `text.render`."""
    parts = json.loads(chat)
    text = parts[PROMPT] + parts[COMPLETION]
    return {"text": text, "spans": [[len(parts[PROMPT]), len(text)]]}


def _refuse_special(number: int, messages: Sequence[Mapping[str, Any]], spelled: re.Pattern[str]) -> None:
    """Raise ChatTemplateError if a message spells a special token, which is not its text once it is rendered."""
    for k, message in enumerate(messages):
        for text in texts_of_message(message):
            if match := spelled.search(text):
                what = f"spells the special token {printable(match[0])} in its message {k:,}"
                remedy = "tokfmt convert --special-tokens parse encodes it as its ID, as transformers does"
                raise ChatTemplateError(number, what, remedy)
