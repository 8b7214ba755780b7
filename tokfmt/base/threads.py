"""Run a function over many items in threads of this process, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")


def in_threads(function: Callable[[I], R], items: Iterable[I], jobs: int) -> Iterator[R]:
    """Yield the result of every item, in order. At most two results per thread are computed ahead.

    Commands that convert and count use `run.plan.Workers.map` instead, whose workers may be processes. With 1 job, this
    thread does the work.
    """
    if jobs <= 1:
        yield from map(function, items)
        return
    left = iter(items)
    with ThreadPoolExecutor(jobs, thread_name_prefix="tokfmt") as pool:
        ahead = deque[Future[R]](pool.submit(function, item) for item in islice(left, 2 * jobs))
        try:
            while ahead:
                result = ahead.popleft().result()
                ahead += (pool.submit(function, item) for item in islice(left, 1))
                yield result
        finally:
            for future in ahead:
                future.cancel()
