"""Train from a recipe with PyTorch: `from tokfmt.torch import Loader`. No other module of tokfmt imports torch."""

from tokfmt.errors import LoaderWarning
from tokfmt.mix.torch import Loader

__all__ = ["Loader", "LoaderWarning"]
