"""Modalities: PackedMemMapDatasetBase, and PackedDataGenerator over a tokenizer whose text is numbers."""

import json
from pathlib import Path

import exchange
from modalities.dataloader.create_index import IndexGenerator
from modalities.dataloader.create_packed_data import PackedDataGenerator
from modalities.dataloader.dataset import PackedMemMapDatasetBase


class Numbers:
    """The words of a text are ids."""

    def __init__(self, width):
        self.vocab_size = 1 << 8 * width - 1

    def tokenize(self, text):
        return [int(word) for word in text.split()]

    def get_token_id(self, token):
        return int(token)


def read(corpus):
    found = PackedMemMapDatasetBase(Path(corpus.ours), sample_key="input_ids")
    rows = [found[number]["input_ids"].tolist() for number in range(len(found))]
    return exchange.documents(rows, corpus.ours_stored)


def write(corpus):
    source, index = corpus.home / "text.jsonl", corpus.home / "text.idx"
    source.write_text("".join(json.dumps({"text": " ".join(map(str, ids))}) + "\n" for ids in corpus.filled))
    IndexGenerator(source).create_index(index)
    PackedDataGenerator(
        source, tokenizer=Numbers(corpus.width), eod_token=str(corpus.eos), number_of_processes=1, jq_pattern=".text",
        processing_batch_size=8, raw_samples_queue_size=8, processed_samples_queue_size=8, index_path=index,
    ).run(Path(corpus.theirs))  # fmt: skip


if __name__ == "__main__":  # it starts processes
    exchange.main({"modalities": (read, write)})
