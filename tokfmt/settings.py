"""What every public function does with its keywords for stores, and with a package that is not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tokfmt.base.options import fit
from tokfmt.errors import missing_package


@contextmanager
def settings(name: str, storage_options: Mapping[str, str | bool] | None = None) -> Iterator[None]:
    """Apply the keywords for stores, which hold for this process and its workers until others are given."""
    try:
        if storage_options is not None:
            from tokfmt.stores.options import StoreOptions, configure

            configure(StoreOptions.of(storage_options))
        yield
    except ModuleNotFoundError as error:
        raise missing_package(error, f"tokfmt.{name}") from error


def count(name: str, value: int | None, minimum: int = 1) -> int | None:
    """Return the value of a keyword that counts something."""
    return None if value is None else int(fit(name, value, int, {"minimum": minimum, "maximum": sys.maxsize}))
