"""`tokfmt browse` from outside: previews, errors, pictures, a real terminal."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from paths import FIXTURES, ROOT

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


HEAVY = ("transformers", "tokenizers", "fastokens", "torch", "zarr", "numcodecs", "h5py", "msgspec", "xxhash")
STARTED = """
import asyncio, os, sys
from tokfmt.cli import browse

async def main(app):
    async with app.run_test() as pilot:
        while not app.sequences.reader.lines:  # what finds columns and findings comes after them
            await pilot.pause()
        print(*sys.modules, file=sys.__stdout__, flush=True)  # where Textual passes it on to, and nothing flushes

browse._draw = lambda app, *others: asyncio.run(main(app))
from tokfmt.cli.main import run
run(["browse", sys.argv[1], "--screenshot", os.devnull])
"""


@pytest.mark.parametrize("path", [PACK, FIXTURES / "stage1" / "blocks"], ids=["pack", "stage1"])
def test_imports_before_the_first_screen(path):
    result = subprocess.run([sys.executable, "-c", STARTED, path], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    imported = set(result.stdout.split())
    assert "tokfmt.tui.widgets.reader" in imported
    assert imported.isdisjoint(HEAVY), imported & set(HEAVY)


def test_crash_of_the_browser_is_an_error_exit():
    from tokfmt.cli.browse import _run_until_closed

    with pytest.raises(RuntimeError, match="the browser failed"):
        _run_until_closed(SimpleNamespace(return_code=1, post_message=lambda message: True), lambda: None)
    assert _run_until_closed(SimpleNamespace(return_code=0, post_message=lambda message: True), lambda: 7) == 7
