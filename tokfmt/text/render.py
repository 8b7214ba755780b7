"""Render chats with a chat template, in a process of its own: `python -P -m tokfmt.text.render`.

A chat template is code (Jinja), which comes with a tokenizer. `transformers` runs it in a sandbox
(`ImmutableSandboxedEnvironment`), which gives it no files, no network and no other code of Python. It does not bound
time or memory: `{{ 'x' * 10 ** 12 }}` fills the memory. So `text.chats` runs this module in a process to which the
system gives 2 GiB of memory, and which it ends if a request takes more CPU time than the request allows.

    request     {"source", "tokens": {"bos_token": ...}, "masked", "seconds", "chats": [chat, ...]}
    chat        [message, ...], or {"prompt": [message, ...], "completion": [message, ...]}
    answer      of each chat {"text", "spans": [[start, stop], ...], "by_messages"}, what is rendered, the characters
                that count, and whether these were found by a rendering of each message; or {"error", "is_of_masks"}
"""

from __future__ import annotations

import json
import os
import re
import resource
import select
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tokfmt.core.chats import ASSISTANT, COMPLETION, PROMPT, texts_of_message

MEMORY = 1 << 31
"""Bytes that a template may use."""
IDLE = 10
"""Seconds after which a process without a request ends."""
LONGEST = 1 << 23
"""The most characters of a rendered chat."""
_TAIL = 64
_MARKED = re.compile(r"\{%-?\s*generation\s*-?%\}")
Spans = list[tuple[int, int]]


class _RefusedError(Exception):
    """A chat that the template does not render, in words that follow the name of a record."""


class _UnmaskedError(_RefusedError):
    """A chat in which what the assistant says cannot be found."""


def messages_of(chat: Any) -> tuple[list[dict[str, Any]], bool]:
    """Return the messages of a chat, and True if it is a prompt with its completion, without messages if of text."""
    if not isinstance(chat, dict):
        return chat, False
    parts = [part for part in (chat[PROMPT], chat[COMPLETION]) if isinstance(part, list)]
    return [message for part in parts for message in part], True


def marks_itself(template: str) -> bool:
    """Return whether a template marks what the assistant says, with `{% generation %}`."""
    return _MARKED.search(template) is not None


@dataclass
class Template:
    """A chat template."""

    source: str  # the template
    tokens: Mapping[str, str]  # that it can name, such as `bos_token`
    masked: bool  # find what the assistant says

    def answer(self, chat: Any) -> dict[str, object]:
        """Return the answer for a chat."""
        messages, is_pair = messages_of(chat)
        if not messages:
            return {"text": "", "spans": []}
        try:
            text, spans = self._pair(chat[PROMPT], messages) if is_pair else self._rendered(messages)
            _check_complete(messages, text)
        except _RefusedError as refused:
            return {"error": str(refused), "is_of_masks": isinstance(refused, _UnmaskedError)}
        return {"text": text, "spans": spans, "by_messages": not is_pair and not marks_itself(self.source)}

    def _pair(self, prompt: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> tuple[str, Spans]:
        """Return the text of a prompt with its completion, and the completion in it."""
        text = self._render(messages)[0]
        if not self.masked:
            return text, []
        before = self._render(prompt, asks=True)[0]
        if not text.startswith(before):
            raise _UnmaskedError("is rendered otherwise as a whole than its prompt, so its completion cannot be found")
        return text, [(len(before), len(text))]

    def _rendered(self, messages: Sequence[Mapping[str, Any]]) -> tuple[str, Spans]:
        """Return the text of a chat, and what the assistant says in it."""
        if not self.masked:
            return self._render(messages)[0], []
        if not marks_itself(self.source):
            text = self._render(messages)[0]
            return text, self._spans_by_prefixes(messages, text)
        text, spans = self._render(messages, marked=True)
        numbers = [number for number, message in enumerate(messages) if message["role"] == ASSISTANT]
        silent = {number for number in numbers if messages[number].get("weight") == 0}
        if (numbers and not spans) or (silent and len(spans) != len(numbers)):
            found = f"{len(spans):,} parts for {len(numbers):,} messages of the assistant"
            raise _UnmaskedError(f"is rendered with {{% generation %}} around {found}")
        if silent:
            spans = [span for number, span in zip(numbers, spans, strict=True) if number not in silent]
        return text, spans

    def _spans_by_prefixes(self, messages: Sequence[Mapping[str, Any]], text: str) -> Spans:
        """Return what the assistant says, between the rendering of the messages before and up to each of its messages.

        Each of these has to be the beginning of the next, and of the whole. The header of an answer must be in the
        former, as `add_generation_prompt` asks for it.
        """
        spans = Spans()
        for number, message in enumerate(messages):
            if message["role"] != ASSISTANT or message.get("weight") == 0:
                continue
            before = self._render(messages[:number], asks=True)[0]
            last = number + 1 == len(messages)
            through = text if last else self._render(messages[: number + 1])[0]
            if not through.startswith(before) or not text.startswith(through):
                part = "up to" if through.startswith(before) else "before"
                what = f"is rendered otherwise as a whole than {part} message {number:,}"
                raise _UnmaskedError(f"{what}, so what the assistant says cannot be found")
            head = next((one.strip()[:_TAIL] for one in texts_of_message(message) if one.strip()), "")
            header = through[len(before) :].partition(head)[0].strip() if head else ""
            if header and before == self._render(messages[:number])[0]:
                what = (
                    f"has {json.dumps(header[:_TAIL])} before its message {number:,} also without add_generation_prompt"
                )
                raise _UnmaskedError(f"{what}, so what the assistant says cannot be told from its header")
            spans.append((len(before), len(through)))
        return spans

    def _render(
        self, messages: Sequence[Mapping[str, Any]], *, asks: bool = False, marked: bool = False
    ) -> tuple[str, Spans]:
        """Return the text of messages, with `asks` up to an answer, and the spans of blocks of generation."""
        from transformers.utils.chat_template_utils import render_jinja_template

        settings: dict[str, Any] = {**self.tokens, "chat_template": self.source, "add_generation_prompt": asks}
        try:
            texts, spans = render_jinja_template([messages], return_assistant_tokens_mask=marked, **settings)
        except Exception as error:  # Whatever a template raises.
            lines = str(error).strip().splitlines()
            why = lines[0][:200].rstrip(".") if lines else type(error).__name__
            part = "" if not asks else f", up to message {len(messages):,}"
            raise (_UnmaskedError if asks else _RefusedError)(
                f"is refused by the chat template{part}: {why}"
            ) from error
        return texts[0], [(start, stop) for start, stop in spans[0]] if marked else []


def _check_complete(messages: Sequence[Mapping[str, Any]], text: str) -> None:
    """Raise _RefusedError if a text is too long or lacks a message, as far as the ends of its contents show."""
    if len(text) > LONGEST:
        raise _RefusedError(f"becomes a text of {len(text):,} characters (expected at most {LONGEST:,})")
    for number, message in enumerate(messages):
        for content in texts_of_message(message):
            tail = content.strip()[-_TAIL:]
            if tail not in text and json.dumps(tail)[1:-1] not in text:
                role = message["role"][:_TAIL]
                raise _RefusedError(f'has a message {number:,} of the role "{role}" that the chat template leaves out')


def _limit_memory() -> None:
    """Allow as much memory as there is now, and `MEMORY`. macOS does not know this limit."""
    with suppress(OSError, ValueError), open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


def _limit_time(seconds: int) -> None:
    """Allow so many more seconds of CPU time. The system ends the process then."""
    used, (_, hard) = resource.getrusage(resource.RUSAGE_SELF), resource.getrlimit(resource.RLIMIT_CPU)
    limit = int(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _line() -> bytes:
    """Return the next request; b"" if there is none in `IDLE` seconds, or no process to ask."""
    return sys.stdin.buffer.readline() if select.select([sys.stdin], [], [], IDLE)[0] else b""


def main() -> None:
    """Answer requests, one at a time, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The process that asks ends this one.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Nothing else is an answer.
    import transformers.utils.chat_template_utils  # noqa: F401 - before the limits

    _limit_memory()
    for line in iter(_line, b""):
        request = json.loads(line)
        _limit_time(request["seconds"])
        template = Template(request["source"], request["tokens"], request["masked"])
        found = [template.answer(messages) for messages in request["chats"]]
        answers.write(json.dumps(found).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
