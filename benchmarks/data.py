"""Realistic data, made once under benchmarks/data: Zipf ids, lognormal documents (mean about 600), text recombined from fixtures."""

import json
import os
import random
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "benchmarks" / "data"
EOS = 50256
TOKENS = 40_000_000
TEXT_BYTES = 160_000_000


def ids(count):
    rng = np.random.default_rng(1)
    return (np.minimum(rng.zipf(1.2, count), 50_255) - 1).astype(np.uint32)


def lengths(total):
    rng = np.random.default_rng(2)
    drawn = np.maximum(1, rng.lognormal(6.0, 0.9, total // 300)).astype(np.int64)
    ends = np.cumsum(drawn)
    return drawn[: int(np.searchsorted(ends, total))]


def make():
    HOME.mkdir(exist_ok=True)
    block = HOME / "stage1_block_0000.bin"
    if not block.exists():
        stream = ids(TOKENS // 8192 * 8192).astype("<i4")
        stream[np.cumsum(lengths(len(stream))) - 1] = EOS
        stream.tofile(block)
    corpus = HOME / "corpus.jsonl"
    if not corpus.exists():
        texts = [json.loads(line)["text"] for line in (ROOT / "fixtures" / "text" / "corpus.jsonl").open()]
        rng, written = random.Random(3), 0
        with corpus.open("w") as out:
            while written < TEXT_BYTES:
                line = json.dumps({"text": "\n".join(rng.sample(texts, 3))}, ensure_ascii=False)
                written += len(line.encode()) + 1
                out.write(line + "\n")
    return HOME


def ascii_corpus():
    """The same texts in lines of about 1 KB: the ASCII ones, and one line in 64 with other scripts."""
    path = HOME / "ascii.jsonl"
    if not path.exists():
        texts = [json.loads(line)["text"] for line in (ROOT / "fixtures" / "text" / "corpus.jsonl").open()]
        plain, others = ([text for text in texts if text.isascii() is kind] for kind in (True, False))
        rng, written = random.Random(7), 0
        with path.open("w") as out:
            while written < TEXT_BYTES:
                text = ""
                while len(text) < 900:
                    text += rng.choice(plain) + "\n"
                if rng.random() < 1 / 64:
                    text += rng.choice(others)[:200]
                line = json.dumps({"text": text[:1000]}, ensure_ascii=False)
                written += len(line.encode()) + 1
                out.write(line + "\n")
    return path


def tokenizer():
    """The directory that TOKENIZER names, else GPT-2's when it is at hand, else the repository's own."""
    named = os.environ.get("TOKENIZER")
    gpt2 = Path(named) if named else ROOT.parent / "shared" / "golden" / "gpt2"
    return gpt2 if gpt2.exists() else ROOT / "fixtures" / "tokenizer"
