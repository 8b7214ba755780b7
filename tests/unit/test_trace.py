"""How many of tokfmt's functions run to open, convert and count a dataset; see `tracing`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tracing

import tokfmt

PACK = Path(__file__).parents[2] / "fixtures" / "modalities" / "D_2byte_gpt2.pbin"


def opened(pack: Path, _: Path) -> None:
    tokfmt.open(pack).close()


def converted(pack: Path, home: Path) -> None:
    tokfmt.convert(pack, home / "out.zarr", eos=50256, jobs=1, executor="serial", overwrite=True)


def counted(pack: Path, _: Path) -> None:
    tokfmt.stats(pack, jobs=1)


@pytest.mark.parametrize(
    ("verb", "most"), [(opened, 190), (converted, 430), (counted, 320)], ids=["open", "convert", "stats"]
)
def test_functions_that_run(verb: Callable[[Path, Path], None], most: int, tmp_path: Path) -> None:
    pack = tmp_path / "in.pbin"
    shutil.copy(PACK, pack)
    with tracing.traced() as tracer:
        verb(pack, tmp_path)
        with tracer.counting() as ran:
            verb(pack, tmp_path)
    print(f"{verb.__name__}: {len(ran.functions)} functions (at most {most}) in {len(ran.files)} files")
    assert "registry.py" in ran.files
    assert len(ran.functions) <= most, sorted(ran.functions)


def test_threads_and_detection_are_seen(tmp_path: Path) -> None:
    """What other threads run counts; formats that were only asked are told apart."""
    pack = tmp_path / "in.pbin"
    shutil.copy(PACK, pack)
    with tracing.traced() as tracer, tracer.counting() as ran:
        tokfmt.stats(pack, jobs=2)
    assert "ops/stats/walk.py" in ran.files
    assert "formats/stage1/__init__.py" in ran.asked - ran.files
