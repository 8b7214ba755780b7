"""tokfmt converts, inspects, mixes and prepares the token datasets that language models are pretrained on.

    import tokfmt

    with tokfmt.open("corpus.pbin") as dataset:
        len(dataset), dataset[0], dataset[5:8].tolist()
        for batch in dataset.batches(1 << 20):
            ...
    tokfmt.info("corpus.pbin").separators
    tokfmt.convert("in.bin", "out.zarr", allow_loss="empty-sequences")
    tokfmt.stats("out.zarr").datasets[0].lengths
    tokfmt.check("out.zarr")[0].findings
    tokfmt.diff("in.bin", "out.zarr").identical
    tokfmt.show("out.zarr", "5:8", tokenizer="gpt2")
    tokfmt.overlap("out.zarr", "gsm8k.jsonl", tokenizer="gpt2").evals[0].hits
    tokfmt.recipe([dict(path="web.pbin", weight=0.7), dict(path="code.zarr", weight=0.3)], seq_len=4096)
    tokfmt.list_formats()

`import tokfmt` loads no other package: numpy, h5py, tokenizers and others are imported on first use.
"""

from typing import TYPE_CHECKING, Any

from tokfmt.base.version import __version__

if TYPE_CHECKING:
    from tokfmt.api import (
        check,
        convert,
        diff,
        fleet,
        info,
        open,  # noqa: A004 - the verb that users expect
        overlap,
        show,
        stats,
    )
    from tokfmt.dataset import Dataset
    from tokfmt.errors import TokfmtError
    from tokfmt.recipe_dataset import recipe
    from tokfmt.registry import list_formats

__all__ = [
    "Dataset",
    "TokfmtError",
    "__version__",
    "check",
    "convert",
    "diff",
    "fleet",
    "info",
    "list_formats",
    "open",
    "overlap",
    "recipe",
    "show",
    "stats",
]

_HOMES = {
    "Dataset": "tokfmt.dataset",
    "TokfmtError": "tokfmt.errors",
    "check": "tokfmt.api",
    "convert": "tokfmt.api",
    "diff": "tokfmt.api",
    "fleet": "tokfmt.api",
    "info": "tokfmt.api",
    "list_formats": "tokfmt.registry",
    "open": "tokfmt.api",
    "overlap": "tokfmt.api",
    "recipe": "tokfmt.recipe_dataset",
    "show": "tokfmt.api",
    "stats": "tokfmt.api",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'tokfmt' has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
