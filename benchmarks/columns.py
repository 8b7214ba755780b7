"""Parquet: its text against the same text as JSON lines, and its tokens against bare pyarrow."""

import json

import numpy as np

from benchmarks.cases import case, convert
from benchmarks.data import HOME, tokenizer

CORPUS = HOME / "corpus.jsonl"
BLOCK = HOME / "stage1_block_0000.bin"
TEXT = HOME / "corpus.parquet"
TOKENS = HOME / "tokens.parquet"
REPEATS = 4
ROWS = 1000  # of a group, as `datasets` writes them


@case("Parquet: text -> pack (peer: tokfmt, of the same text as JSON lines)", ">= 0.9", "bytes")
class Text:
    def prepare(self):
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not TEXT.exists():
            with open(CORPUS) as lines, pq.ParquetWriter(TEXT, pa.schema([("text", pa.string())])) as file:
                texts = [json.loads(line)["text"] for line in lines]
                for a in range(0, len(texts), ROWS):
                    file.write_table(pa.table({"text": texts[a : a + ROWS]}), row_group_size=ROWS)
        ours, theirs = HOME / "parquet.pbin", HOME / "lines.pbin"
        for source, path in ((TEXT, ours), (CORPUS, theirs)):
            convert(source, path, tokenizer=str(tokenizer()), overwrite=True, manifest=False)
        assert ours.read_bytes() == theirs.read_bytes()

    def peer(self, out):
        return self.of(CORPUS, out)

    def tokfmt(self, out):
        return self.of(TEXT, out)

    def of(self, source, out):
        convert(source, out / "x.pbin", tokenizer=str(tokenizer()))
        return CORPUS.stat().st_size


@case("Parquet: read tokens in order (peer: pyarrow, its batches as arrays)", ">= 0.8", "tokens")
class Tokens:
    def prepare(self):
        if not TOKENS.exists():
            convert(BLOCK, TOKENS)
        assert np.array_equal(*(np.concatenate(list(tokens)) for tokens in (self.batches(), self.bare())))

    def bare(self):
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(TOKENS).iter_batches():
            yield batch.column(0).flatten().to_numpy()

    def batches(self):
        import tokfmt

        return (batch.tokens for batch in tokfmt.open(TOKENS, eos="none").batches())

    def peer(self, out):
        import pyarrow as pa

        pa.set_cpu_count(1)
        return sum(len(tokens) for _ in range(REPEATS) for tokens in self.bare())

    def tokfmt(self, out):
        return sum(len(tokens) for _ in range(REPEATS) for tokens in self.batches())
