"""Megatron-LM's indexed datasets against megatron-core, and against the tools of a checkout of Megatron-LM.

The tools that make them of text are in the repository alone: the environment variable MEGATRON_LM names a checkout of
NVIDIA/Megatron-LM (d98e8a64 was measured), else `benchmarks/data/Megatron-LM` is one, or these rows have no peer.
"""

import filecmp
import os
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.cases import case, convert
from benchmarks.data import EOS, HOME, ids, tokenizer
from benchmarks.environments import Absent, environment
from benchmarks.training import NEEDED, TORCH

SEQUENCES = 100_000_000
AT_ONCE = 1 << 20
CHECKED = 3_000_000  # bytes of text
CORPUS = HOME / "corpus.jsonl"
CHECKOUT = Path(os.environ.get("MEGATRON_LM", HOME / "Megatron-LM"))
TOOLS = (TORCH, "triton==3.9.0", "transformers==5.23.0", "awkward==2.14.0", "gigatoken==0.10.0", "pybind11==3.1.0")


def ask(name, needed, *words):
    """CPU seconds of a peer; None where it cannot be installed."""
    try:
        python = environment(HOME / "peers" / name, *needed)
    except Absent:
        return None
    script = Path(__file__).with_name("megatron_peers.py")
    done = subprocess.run([python, "-P", script, *map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def written(prefix, lengths, tokens):
    """A dataset of documents of these lengths; its tokens are a hole where there are none."""
    begins = np.concatenate(([0], np.cumsum(lengths)))
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        for a in range(0, len(lengths), AT_ONCE):
            lengths[a : a + AT_ONCE].astype("<i4").tofile(file)
        for a in range(0, len(lengths), AT_ONCE):
            (begins[a : a + AT_ONCE][: len(lengths) - a] * 2).tofile(file)
        np.arange(len(begins)).tofile(file)
    with open(f"{prefix}.bin", "wb") as file:
        if tokens is not None:
            file.write(tokens.astype("<u2").tobytes())
        file.truncate(2 * int(begins[-1]))


def same(ours, theirs):
    """Both files of both prefixes, byte for byte."""
    for suffix in (".bin", ".idx"):
        assert filecmp.cmp(f"{ours}{suffix}", f"{theirs}{suffix}", shallow=False), (ours, theirs, suffix)


def measured(*words, **how):
    """CPU seconds of a conversion; imports count."""
    began = time.process_time()
    convert(*words, **how)
    return time.process_time() - began


@case("Megatron: merge 2,419 prefixes (peer: merge_datasets.py, of 60)", ">= 4, <= 120 MB", "bytes", "rate")
class Merge:
    documents, prefixes, merged = 200, 2419, 60  # the peer merges some: of each it collects garbage

    def folder(self, count):
        """A folder of prefixes: one, and links to it."""
        home = HOME / f"prefixes-{count}-{self.documents}"
        if not home.exists():
            draft = home.with_suffix(".draft")
            draft.mkdir(exist_ok=True)
            lengths = np.maximum(2, np.random.default_rng(2).lognormal(6.0, 0.9, self.documents)).astype(np.int64)
            tokens = ids(int(lengths.sum()))
            tokens[np.cumsum(lengths) - 1] = EOS
            written(draft / "part-00000", lengths, tokens)
            for number in range(1, count):
                for suffix in (".bin", ".idx"):
                    os.link(draft / f"part-00000{suffix}", draft / f"part-{number:05d}{suffix}")
            os.replace(draft, home)
        return home

    def prepare(self):
        few = self.folder(self.merged)
        with tempfile.TemporaryDirectory() as out:
            if ask("megatron", NEEDED["megatron"], "merge", few, f"{out}/theirs") is not None:
                convert(few, f"{out}/ours.bin", to_format="megatron")
                same(f"{out}/ours", f"{out}/theirs")
        self.folder(self.prefixes)

    def peer(self, out):
        took = ask("megatron", NEEDED["megatron"], "merge", self.folder(self.merged), out / "x")
        return took and os.path.getsize(out / "x.bin") / took

    def tokfmt(self, out):
        took = measured(self.folder(self.prefixes), out / "x.bin", to_format="megatron")
        return os.path.getsize(out / "x.bin") / took


@case("Megatron: merge 8 prefixes of 66,000 documents (peer: merge_datasets.py)", ">= 4, <= 120 MB", "bytes", "rate")
class MergeLarge(Merge):
    documents, prefixes, merged = 66_000, 8, 8
    fresh = 2 << 30


@case("Megatron: open an index of 10^8 sequences (peer: np.fromfile)", ">= 0.5, <= 1_600 MB", "sequences")
class Open:
    prefix = HOME / "hundred-million"

    def prepare(self):
        if not Path(f"{self.prefix}.idx").exists():
            draft = f"{self.prefix}.draft"
            written(draft, np.arange(SEQUENCES) * 37 % 254 + 2, None)
            for suffix in (".bin", ".idx"):
                os.replace(f"{draft}{suffix}", f"{self.prefix}{suffix}")
        with open(f"{self.prefix}.idx", "rb") as file:  # from now on in the cache
            while file.read(1 << 24):
                pass

    def peer(self, out):
        found = np.fromfile(f"{self.prefix}.idx", np.uint8)
        return (len(found) - 42) // 20

    def tokfmt(self, out):
        import tokfmt

        return len(tokfmt.open(f"{self.prefix}.bin", eos="none"))


class OfText:
    """A peer's tool over the beginning of the corpus, and tokfmt over all of it."""

    tool: str
    size: int | None  # bytes of text for the peer; None: all

    def beginning(self, size):
        """A file of the first lines of the corpus, so many bytes together at most."""
        if size is None:
            return CORPUS
        path = HOME / f"corpus-{size}.jsonl"
        if not path.exists():
            with open(CORPUS, "rb") as file:
                text = file.read(size)
            path.write_bytes(text[: text.rindex(b"\n") + 1])
        return path

    def ask(self, corpus, prefix):
        if not (CHECKOUT / "tools").is_dir():
            return None
        return ask("megatron-lm", TOOLS, self.tool, CHECKOUT, corpus, prefix, tokenizer())

    def prepare(self):
        self.beginning(self.size)
        corpus = self.beginning(CHECKED)
        with tempfile.TemporaryDirectory() as out:
            if self.ask(corpus, f"{out}/theirs") is not None:
                convert(corpus, f"{out}/ours.bin", to_format="megatron", tokenizer=str(tokenizer()))
                same(f"{out}/ours", f"{out}/theirs_text_document")

    def peer(self, out):
        took = self.ask(self.beginning(self.size), out / "x")
        return took and os.path.getsize(self.beginning(self.size)) / took

    def tokfmt(self, out):
        took = measured(CORPUS, out / "x.bin", to_format="megatron", tokenizer=str(tokenizer()))
        return os.path.getsize(CORPUS) / took


@case("text -> Megatron (peer: preprocess_data.py)", ">= 15, <= 300 MB", "bytes", "rate")
class Preprocess(OfText):
    tool, size = "preprocess_data", 8_000_000


@case("text -> Megatron (peer: preprocess_data_fast.py, gigatoken)", "<= 300 MB", "bytes", "rate")
class PreprocessFast(OfText):
    tool, size = "preprocess_data_fast", None
