"""Processes that the server of tests forks are what Python starts, but for the time that it takes."""

import os
import subprocess
import sys

import forkserver
import pytest


@pytest.mark.parametrize("words", [["-S", "-c", "print(1)"], ["-c", "print(1)"]])
def test_what_is_read_before_a_program_runs_starts_a_real_one(words):
    env = {**os.environ, "PYTHONUTF8": "0"} if words[0] == "-c" else None
    with forkserver.Popen([sys.executable, *words], env=env, stdout=subprocess.PIPE) as process:
        assert process.communicate(timeout=60)[0] == b"1\n"
        assert os.path.exists(f"/proc/{process.pid}") or process.returncode == 0
    assert process._connection is None
