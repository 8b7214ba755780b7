"""tokfmt converts and inspects the token datasets that language models are pretrained on.

    import tokfmt

    with tokfmt.open("corpus.pbin") as dataset:
        len(dataset), dataset[0], dataset[5:8].tolist()
        for batch in dataset.batches(1 << 20):
            ...
    tokfmt.convert("in.bin", "out.zarr")
    tokfmt.formats()

Importing this package imports nothing heavy: numpy, zarr, h5py and transformers load on first use.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tokfmt.core.errors import TokfmtError
    from tokfmt.ops.convert import convert
    from tokfmt.ops.open import open  # noqa: A004 - the verb that users expect
    from tokfmt.registry import formats

__all__ = ["TokfmtError", "__version__", "convert", "formats", "open"]

_HOMES = {
    "TokfmtError": "tokfmt.core.errors",
    "convert": "tokfmt.ops.convert",
    "open": "tokfmt.ops.open",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "formats":  # the package of that name, which is callable
        return import_module("tokfmt.formats")
    raise AttributeError(f"module 'tokfmt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
