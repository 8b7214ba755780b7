"""Made corpora: text as a small stage-1 mix has it (skewed sizes, garbage, equal texts, Unicode), and IDs like a text's."""

import gzip
import io
import json
import pathlib
import random

import numpy as np
import pytest
import zstandard
from paths import TOKENIZER

NAMES = ("web", "books", "code", "forum", "wiki", "news", "papers", "law", "chat", "songs", "rest")
SIZES = (420, 30, 160, 90, 60, 45, 25, 12, 70, 8, 3)
SUFFIXES = {"books": ".jsonl.gz", "papers": ".jsonl.zst"}
FIELDS = {"papers": "body.text"}
QUOTAS = {"web": 30_000, "code": 9_000, "forum": 5_000, "news": 2_500, "papers": 1_500, "chat": 3_000}
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


def text_like(count, distinct=100_000, eos=50256):
    """IDs as int32 of which each is followed by one of four, in documents of about 300 tokens; repeated to `count`."""
    generator = np.random.default_rng(0)
    after, ids = generator.integers(0, 3000, (3000, 4)).tolist(), [0]
    for choice in generator.integers(0, 4, distinct).tolist():
        ids.append(after[ids[-1]][choice])
    found = np.array(ids, "<i4")
    found[generator.choice(np.arange(10, len(ids) - 10, 3), len(ids) // 300, replace=False)] = eos
    return np.resize(found, count)


def written(home, names, quotas=QUOTAS, **keys):
    """Write a recipe of texts of `make`."""
    lines = ["tokfmt = 1", f'tokenizer = "{TOKENIZER}"', *(f"{key} = {value}" for key, value in keys.items())]
    for name in names:
        lines += ["[[source]]", f'path = "{name}{SUFFIXES.get(name, ".jsonl")}"', 'filter = "garbage"']
        lines += [f"tokens = {quotas[name]}"] if name in quotas else []
        lines += [f'text = "{FIELDS[name]}"'] if name in FIELDS else []
    (home / "mix.toml").write_text("\n".join(lines) + "\n")
    return home / "mix.toml"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    home = tmp_path_factory.mktemp("corpora")
    make(home)
    return home


def text_of(path):
    data = pathlib.Path(path).read_bytes()
    if str(path).endswith(".gz"):
        return gzip.decompress(data)
    if str(path).endswith(".zst"):
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read()
    return data
