"""Megatron-LM's own tools, run by the Python of a virtual environment of their own (see `megatron`).

    python -P megatron_peers.py merge FOLDER PREFIX
    python -P megatron_peers.py preprocess_data|preprocess_data_fast CHECKOUT INPUT PREFIX TOKENIZER

Each prints the CPU seconds that it took, workers included, and not what it imports.
"""

import os
import resource
import runpy
import sys
import time


def seconds():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def merge(folder, prefix):
    """main() of merge_datasets.py around the real builder: its prefixes in order of name, the index last."""
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder, get_bin_path, get_idx_path

    began = seconds()
    prefixes = sorted({os.path.splitext(name)[0] for name in os.listdir(folder)})
    dtype = IndexedDataset(os.path.join(folder, prefixes[0])).index.dtype
    builder = IndexedDatasetBuilder(get_bin_path(prefix), dtype=dtype)
    for one in prefixes:
        builder.add_index(os.path.join(folder, one))
    builder.finalize(get_idx_path(prefix))
    return seconds() - began


def preprocess(tool, checkout, corpus, prefix, tokenizer):
    """A script of the checkout as it is, with one worker."""
    import typing

    import typing_extensions

    if not hasattr(typing, "override"):
        typing.override = typing_extensions.override  # which the checkout imports, of Python 3.12
    sys.path.insert(0, checkout)
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    import transformers
    from megatron.core.datasets import indexed_dataset  # noqa: F401
    from megatron.core.tokenizers.utils import build_tokenizer  # noqa: F401
    from megatron.training import arguments  # noqa: F401

    _ = transformers.AutoTokenizer
    extra = ["--use-gigatoken"] if tool == "preprocess_data_fast" else ["--workers", "1"]
    sys.argv = [tool, "--input", corpus, "--output-prefix", prefix, "--append-eod", *extra,
                "--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", tokenizer]  # fmt: skip
    began = seconds()
    runpy.run_path(os.path.join(checkout, "tools", f"{tool}.py"), run_name="__main__")
    return seconds() - began


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    print(merge(*words) if what == "merge" else preprocess(what, *words))
