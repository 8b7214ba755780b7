"""What the public functions share: numeric keywords are checked, and options of stores hold for this process."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, TypeVar, cast

from tokfmt.core.errors import missing_package
from tokfmt.core.named import allowing
from tokfmt.core.options import fit

P = ParamSpec("P")
R = TypeVar("R")
_MINIMUM = {"jobs": 1, "sample": 1, "vocab_size": 1, "seq_len": 1, "limit": 0}


def spoken(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: check its numeric keywords, and name a package that is missing.

    Keywords `storage_options` and `allow_source` are those of all functions that open datasets, and are used here.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in _MINIMUM.keys() & kwargs.keys():
            kwargs[name] = fit(name, kwargs[name], int | None, {"minimum": _MINIMUM[name], "maximum": sys.maxsize})
        try:
            if kwargs.get("storage_options") is not None:
                from tokfmt.remote.options import StoreOptions, configure

                configure(StoreOptions.of(cast("Mapping[str, object]", kwargs["storage_options"])))
            with allowing(cast("str | Iterable[str]", kwargs.get("allow_source", ()))):
                return function(*args, **kwargs)
        except ModuleNotFoundError as error:
            raise missing_package(error, f"tokfmt.{function.__name__}") from error

    return call
