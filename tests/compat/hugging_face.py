"""Hugging Face datasets: JSON lines, Parquet, and folders of save_to_disk."""

import datasets
import exchange


def read(kind):
    def loaded(corpus):
        found = datasets.load_dataset(
            kind, data_files=corpus.ours, split="train", cache_dir=str(corpus.home / "cache")
        )  # fmt: skip
        return exchange.documents(found["input_ids"][:], corpus.documents)

    return loaded


def write(method):
    def written(corpus):
        getattr(datasets.Dataset.from_dict({"input_ids": corpus.documents}), method)(corpus.theirs)

    return written


def from_disk(corpus):
    return exchange.documents(datasets.load_from_disk(corpus.ours)["input_ids"][:], corpus.documents)


exchange.main({
    "jsonl": (read("json"), write("to_json")),
    "parquet": (read("parquet"), write("to_parquet")),
    "arrow": (from_disk, write("save_to_disk")),
})  # fmt: skip
