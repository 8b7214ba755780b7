"""Chats: records whose text is a list of messages, which a chat template of a tokenizer renders.

The text of such a record is the JSON of its messages, `[{"role": "user", "content": "..."}, ...]`, so that chats are
read, filtered, compared and shown as other texts are. `text.chats` encodes them.

    field           message                                written by
    messages        {"role": "user", "content": "..."}     OpenAI, Hugging Face
    conversations   {"from": "human", "value": "..."}      ShareGPT; human becomes user, gpt becomes assistant
    prompt          text, or a list of messages            TRL, with `completion`, which is of the same kind

- Content is a string, or a list of parts `{"type": "text", "text": "..."}`. It may be missing or null, as beside
  `tool_calls`. Other keys of a message are kept, for templates that read them. A key whose value is null is left out.
- A prompt with its completion is one document, in which only the completion counts in the loss. Its text is the JSON
  `{"prompt": ..., "completion": ...}`.
- `"weight": 0` of a message of the assistant states that it does not count in the loss.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Literal

from tokfmt.errors import TokfmtError

FIELDS = ("messages", "conversations")
"""Names of the fields or columns that hold chats."""
TOOLS = "tools"
"""A field beside the messages that templates can use. tokfmt does not read it."""
PROMPT, COMPLETION = "prompt", "completion"
"""Names of the fields or columns that hold the two parts of a document."""
CHATS = "loss masks of its chats, on what the assistant says"
PAIRS = "loss masks of its prompts, on their completions"
PAIR = "prompt with completion"
"""The name under which prompts with completions are counted beside the roles of messages."""
Pairs = Literal["", "texts", "chats"]
"""What the two parts of records are; "" if records do not have two parts."""
ASSISTANT = "assistant"
_ROLES = {"human": "user", "gpt": ASSISTANT}
_LARGEST = 1 << 64
_ROLE_AND_CONTENT = ({"role", "content"}, {"from", "value"})


class ChatError(ValueError):
    """A value that is not a chat; the text follows the name of a record: "has no messages"."""


class ChatTemplateError(TokfmtError):
    """A chat that cannot be encoded."""

    def __init__(self, number: int, what: str, remedy: str) -> None:
        # number: number: among the texts that are encoded together; what: the problem, without the name of the record
        self.number, self.what, self.remedy = number, what, remedy
        super().__init__(f"a chat {what}. {remedy}")


def field_of_chats(fields: Iterable[str]) -> str:
    """Return the name of the field of chats among names; "" without one."""
    there = set(fields)
    return next((name for name in FIELDS if name in there), "")


def pairs_of(record: Mapping[str, object]) -> Pairs:
    """Return what the prompt and the completion of a record are; "" if it does not have both."""
    parts = [record.get(PROMPT), record.get(COMPLETION)]
    return "texts" if all(isinstance(part, str) for part in parts) else "chats" if all(map(are_messages, parts)) else ""


def are_messages(value: object) -> bool:
    """Return whether a value is a list of messages, as far as its first item shows."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and has_message_keys(value[0])


def has_message_keys(names: Iterable[str]) -> bool:
    """Return whether the keys of an object, or the fields of a struct, are those of a message."""
    there = set(names)
    return "role" in there or _ROLE_AND_CONTENT[1] <= there


def chat_text(value: object) -> str:
    """Return the JSON of a list of messages, each with `role`."""
    return _json(_messages(value))


def pair_text(prompt: object, completion: object, kind: Pairs) -> str:
    """Return the JSON of a prompt and its completion, texts or lists of messages each."""
    parts = {PROMPT: prompt, COMPLETION: completion}
    if kind == "chats":
        return _json({name: _messages(part, f"{name} of messages") for name, part in parts.items()})
    for name, part in parts.items():
        if not isinstance(part, str):
            raise ChatError(f"has no {name} of text")
    return _json(parts)


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ChatError("has a lone surrogate in its messages, which is not a character") from error
    return text


def _messages(value: object, what: str = "messages") -> list[dict[str, Any]]:
    if not isinstance(value, list) or not value:
        raise ChatError(f"has no {what}")
    return [_message(number, message) for number, message in enumerate(value)]


def _message(number: int, value: object) -> dict[str, Any]:
    """Return a message without keys that are null, with `role` and `content` in place of `from` and `value`."""
    if not isinstance(value, dict):
        raise ChatError(f"has a message {number:,} that is not an object")
    message = {key: item for key, item in value.items() if item is not None}
    if "role" not in message and "from" in message:
        role, content = message.pop("from"), message.pop("value", None)
        role = _ROLES.get(role, role) if isinstance(role, str) else role
        message = {"role": role, **({} if content is None else {"content": content}), **message}
    if not isinstance(message.get("role"), str) or not message["role"]:
        raise ChatError(f"has a message {number:,} without a role")
    content = message.get("content", "")
    if not isinstance(content, str) and not _are_texts(content):
        raise ChatError(f"has a message {number:,} whose content is neither a text nor parts of text")
    if not _is_exact([item for key, item in message.items() if key not in ("role", "content")]):
        raise ChatError(f"has a number of more than 64 bits in message {number:,}")
    return message


def _are_texts(content: object) -> bool:
    """Return whether a value is a list of parts of text: no image or sound."""
    parts = content if isinstance(content, list) else [None]
    return all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in parts)


def _is_exact(value: object) -> bool:
    """Return whether every whole number in a value has at most 64 bits; JSON Lines do not keep longer ones."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return all(map(_is_exact, value))
    return not isinstance(value, int) or abs(value) < _LARGEST


def said_in(text: str) -> str:
    """Return the texts of the messages, or of the prompt and the completion, of a chat."""
    chat = json.loads(text) if text else []
    parts = list(chat.values()) if isinstance(chat, dict) else [chat]
    said = ([part] if isinstance(part, str) else chain.from_iterable(map(texts_of_message, part)) for part in parts)
    return "\n".join(chain.from_iterable(said))


def texts_of_message(message: Mapping[str, Any]) -> list[str]:
    """Return the texts in the content of a message of `chat_text`."""
    content = message.get("content", "")
    return [content] if isinstance(content, str) else [part["text"] for part in content]
