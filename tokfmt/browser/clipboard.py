"""The clipboard: a program of this machine that takes the text, and the terminal, which may ignore it.

A terminal is sent the text in an escape sequence (OSC 52), and does not report whether it took it: many do not, and
tmux discards the sequence of a program unless it is configured otherwise. A program reports that it took the text.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

_PATIENCE = 5.0  # seconds


class Program(NamedTuple):
    """A program that takes a text on stdin."""

    words: tuple[str, ...]  # its command line
    needs: str  # environment variable that is set where it works
    holds: str  # the place that it puts the text in


PROGRAMS = (
    Program(("wl-copy",), "WAYLAND_DISPLAY", "the clipboard (wl-copy)"),
    Program(("xclip", "-selection", "clipboard"), "DISPLAY", "the clipboard (xclip)"),
    Program(("tmux", "load-buffer", "-w", "-"), "TMUX", "the buffer of tmux (prefix ] pastes it)"),
)
"""The programs, each tried where it can work; -w lets tmux pass the text on to its own terminal."""


def given_to_programs(text: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Give a text to the programs of this machine, and return the places that hold it now. Takes up to seconds."""
    data = text.encode("utf-8", "surrogatepass")
    return [program.holds for program in PROGRAMS if environment.get(program.needs) and _took(program, data)]


def _took(program: Program, data: bytes) -> bool:
    path = shutil.which(program.words[0])
    if path is None:
        return False
    try:
        # wl-copy and xclip leave a process behind that serves the text: it must not hold a pipe of this one
        done = subprocess.run(
            [path, *program.words[1:]],
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
