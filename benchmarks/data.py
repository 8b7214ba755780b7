"""Realistic data, made once under benchmarks/data: Zipf ids, lognormal documents (mean about 600), text recombined from fixtures."""

import json
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


def tokenizer():
    """GPT-2's when it is at hand, else the repository's own."""
    gpt2 = ROOT.parent / "shared" / "golden" / "gpt2"
    return gpt2 if gpt2.exists() else ROOT / "fixtures" / "tokenizer"
