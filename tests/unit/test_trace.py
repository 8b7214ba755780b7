"""How many of tokfmt's functions run for a command, how often calls repeat, and how often a file is opened; `tracing`.

Before a source was opened once for a command, these were the calls, those among them that repeat an earlier one, and how
often the pack was opened: open 357, 109, 3; convert 1,564, 573, 1; stats 637, 167, 3; show 399, 115, 4; check 905, 298, 6;
info 413, 141, 4.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

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


def shown(pack: Path, _: Path) -> None:
    for sequence in tokfmt.show(pack, "0:3").shown:
        sequence.tokens(0, sequence.length)


def checked(pack: Path, _: Path) -> None:
    tokfmt.check(pack)


def described(pack: Path, _: Path) -> None:
    tokfmt.info(pack)


@pytest.fixture(autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that no other process has left anything in: a new scratch directory looks at all that are there."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("scratch")))


class Most(NamedTuple):
    """Bounds of a command: of functions, of calls, and of those that repeat an earlier one."""

    functions: int
    calls: int
    repeated: int


BOUNDS: dict[Callable[[Path, Path], None], Most] = {
    opened: Most(179, 366, 76),
    converted: Most(416, 1420, 438),
    counted: Most(317, 645, 134),
    shown: Most(200, 402, 79),
    checked: Most(235, 756, 172),
    described: Most(195, 408, 100),
}


@pytest.mark.parametrize("verb", BOUNDS, ids=lambda verb: verb.__name__)
def test_what_runs(verb: Callable[[Path, Path], None], tmp_path: Path) -> None:
    pack, most = tmp_path / "in.pbin", BOUNDS[verb]
    shutil.copy(PACK, pack)
    with tracing.traced() as tracer:
        verb(pack, tmp_path)
        with tracer.counting() as ran:
            verb(pack, tmp_path)
    seen = Most(len(ran.functions), ran.calls.total(), ran.repeated)
    print(f"{verb.__name__}: {seen} (at most {most}) in {len(ran.files)} files")
    assert "registry.py" in ran.files
    assert ran.opened[str(pack)] == 1
    assert all(found <= bound for found, bound in zip(seen, most, strict=True)), seen


def test_threads_and_detection_are_seen(tmp_path: Path) -> None:
    """What other threads run counts; formats that were only asked are told apart."""
    pack = tmp_path / "in.pbin"
    shutil.copy(PACK, pack)
    with tracing.traced() as tracer, tracer.counting() as ran:
        tokfmt.stats(pack, jobs=2)
    assert "commands/stats/walk.py" in ran.files
    assert "formats/stage1/__init__.py" in ran.asked - ran.files


def test_repeated_calls_and_opened_files_are_counted(tmp_path: Path) -> None:
    pack = tmp_path / "in.pbin"
    shutil.copy(PACK, pack)
    with tracing.traced() as tracer, tracer.counting() as ran:
        for _ in range(2):
            tokfmt.open(pack).close()
    assert ran.opened[str(pack)] == 2
    assert ran.calls.total() == len(ran.calls) + ran.repeated
    assert ran.repeated >= len(ran.functions) // 4


def test_a_file_is_opened_once_however_many_are_open(tmp_path: Path) -> None:
    """To detect, to examine and to read, also beyond the number of descriptors that are kept."""
    shutil.copy(PACK, tmp_path / "0.pbin")
    packs = [tmp_path / f"{number}.pbin" for number in range(262)]
    for pack in packs[1:]:
        pack.hardlink_to(packs[0])
    datasets = [tokfmt.open(pack) for pack in packs[:-1]]
    with tracing.traced() as tracer, tracer.counting() as ran:
        tokfmt.open(packs[-1]).close()
    for dataset in datasets:
        dataset.close()
    assert ran.opened[str(packs[-1])] == 1


def test_a_check_imports_no_conversion() -> None:
    """With --fix it does."""
    command = f"import sys, tokfmt; tokfmt.check({str(PACK)!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    modules = [name for name in done.stdout.split() if name.partition(".")[0] == "tokfmt"]
    assert not [name for name in modules if name.startswith("tokfmt.commands.convert")]
    assert len(modules) <= 95, sorted(modules)
