"""Virtual environments of upstream tools, one each, made when they are first asked for and kept."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path


class Absent(Exception):
    """What is needed cannot be installed; the message is pip's last line."""


@cache
def environment(home: Path, *needed: str) -> Path:
    """The Python of the environment at `home` in which `needed` (requirements of pip) is installed."""
    python, whole = home / "bin" / "python", home / "whole"
    if whole.exists() and whole.read_text().split() == list(needed):
        return python
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", *needed], capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise Absent(errors[-1].removeprefix("ERROR: ") if errors else f"pip ended with {done.returncode}")
    whole.write_text("\n".join(needed))
    return python
