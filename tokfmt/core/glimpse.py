"""Tokens before the index has been read. Optional, as all of `core.inside`, and asked for with `isinstance`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tokfmt.core.axis import TokenReader
from tokfmt.core.format import Hints


@runtime_checkable
class Glimpsed(Protocol):
    """A format whose index takes long to read, and whose tokens can be seen without it."""

    def glimpse(self, paths: Sequence[Path], options: Any, hints: Hints) -> TokenReader | None:
        """All tokens as one stream, after a look at the header alone; None when that does not tell where they are.

        Never raises for damaged content: `Format.open` will say what is wrong.
        """
