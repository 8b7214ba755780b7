"""Hugging Face datasets: JSON lines, Parquet, and folders of save_to_disk."""

import datasets
import exchange


def load(corpus, kind, files):
    return datasets.load_dataset(kind, data_files=files, split="train", cache_dir=str(corpus.home / "cache"))


def read(kind):
    def loaded(corpus):
        said = exchange.documents(load(corpus, kind, corpus.ours)["input_ids"][:], corpus.documents)
        return f"{said}, {labelled(corpus)}, {packed(corpus)}" if corpus.masked else said

    return loaded


def labelled(corpus):
    """Documents with masks, which keep their separator as a token with a label."""
    found = load(corpus, "parquet", corpus.masked)
    exchange.same(found["input_ids"][:], corpus.stored)
    exchange.same(found["labels"][:], exchange.labels(corpus.stored, corpus.masks))
    return f"{len(corpus.masked)} files with labels"


def packed(corpus):
    """Packed rows, cut as Megatron-Bridge cuts them; its dataset wants a Python and a stack of its own."""
    found, documents = load(corpus, "parquet", corpus.packed), []
    for row in found:
        ids, mask, starts = row["input_ids"], row["loss_mask"], row["seq_start_id"]
        for start, stop in zip(starts, [*starts[1:], len(ids)]):
            documents.append((ids[start:stop], mask[start:stop]))
    pairs = [(one, [*mask[1:-1], 0]) for one, mask in zip(corpus.documents, corpus.masks) if one]
    exchange.same(documents, pairs)
    return f"{len(found)} packed rows"


def write(method):
    def written(corpus):
        columns = {
            "input_ids": corpus.documents,
            **({"labels": exchange.labels(corpus.documents, corpus.masks)} if corpus.masked else {}),
        }
        getattr(datasets.Dataset.from_dict(columns), method)(corpus.theirs)
        getattr(datasets.Dataset.from_dict(corpus.columns), method)(corpus.rows)

    return written


def from_disk(corpus):
    return exchange.documents(datasets.load_from_disk(corpus.ours)["input_ids"][:], corpus.documents)


exchange.main({
    "jsonl": (read("json"), write("to_json")),
    "parquet": (read("parquet"), write("to_parquet")),
    "arrow": (from_disk, write("save_to_disk")),
})  # fmt: skip
