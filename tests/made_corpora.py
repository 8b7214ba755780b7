"""Eleven corpora of text as a small stage-1 mix has them: skewed sizes, garbage of each kind, equal texts, Unicode."""

import gzip
import json
import random

import zstandard

NAMES = ("web", "books", "code", "forum", "wiki", "news", "papers", "law", "chat", "songs", "rest")
SIZES = (420, 30, 160, 90, 60, 45, 25, 12, 70, 8, 3)
SUFFIXES = {"books": ".jsonl.gz", "papers": ".jsonl.zst"}
FIELDS = {"papers": "body.text"}
WORDS = [
    "the",
    "sea",
    "of",
    "fog",
    "lies",
    "over",
    "a",
    "quiet",
    "harbour",
    "while",
    "lamps",
    "burn",
    "late",
    "and",
    "bells",
    "ring",
    "slow",
    "in",
    "towers",
    "far",
]
OTHERS = ["été", "naïve", "Straße", "東京", "город", "λόγος", "𝔘nicode", "étude", "१२३", "\xa0", "слово"]


def prose(draw, words):
    return " ".join(draw.choice(OTHERS if draw.random() < 0.1 else WORDS) for _ in range(words))


def garbage(draw):
    """A text that some rule is for, or stands right at a threshold."""
    kinds = (
        lambda: "too short",
        lambda: " ".join("ab" for _ in range(55)),
        lambda: "|-*-| {}[]() " * draw.randrange(30, 60) + prose(draw, 60),
        lambda: "a" * draw.randrange(300, 900) + " " + prose(draw, 60),
        lambda: " ".join(["one two three four five"] * 80),
        lambda: " ".join(f"spam word{draw.randrange(99)} more" for _ in range(99)),
        lambda: " ".join(WORDS * 3)[:200].ljust(200, "x"),
        lambda: prose(draw, 50),
        lambda: "",
        lambda: "  \n\t ",
    )
    return draw.choice(kinds)()


def make(directory, seed=7):
    """Write the corpora; texts of each by name, in order."""
    draw, made, everything = random.Random(seed), {}, []
    for name, size in zip(NAMES, SIZES, strict=True):
        texts = []
        for _ in range(size):
            chance = draw.random()
            if chance < 0.18 and everything:
                texts.append(draw.choice(everything))
            elif chance < 0.36:
                texts.append(garbage(draw))
            else:
                texts.append(prose(draw, draw.randrange(55, 400)))
        everything += texts
        made[name] = texts
        lines = "".join(json.dumps(record(name, k, text)) + "\n" for k, text in enumerate(texts)).encode()
        suffix = SUFFIXES.get(name, ".jsonl")
        packed = {".jsonl.gz": gzip.compress, ".jsonl.zst": zstandard.compress}.get(suffix, bytes)(lines)
        (directory / f"{name}{suffix}").write_bytes(packed)
    return made


def record(name, number, text):
    return {"id": number, "body": {"text": text}} if name in FIELDS else {"text": text, "url": f"{name}/{number}"}
