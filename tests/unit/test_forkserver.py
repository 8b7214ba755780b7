"""Processes that the server of tests forks are what Python starts, but for the time that it takes."""

import json
import os
import signal
import subprocess
import sys

import forkserver
import pytest

STATE = """
import json, os, signal, sys, threading

if __name__ == "__main__":
    streams = [
        (s.fileno(), s.encoding, s.errors, s.mode, s.isatty(), s.line_buffering, s.write_through, type(s.buffer).__name__)
        for s in (sys.stdin, sys.stdout, sys.stderr)
    ]
    handlers = {number.name: str(signal.getsignal(number)).split(" at ")[0] for number in signal.Signals}
    print(json.dumps({
        "argv": sys.argv, "path": sys.path, "cwd": os.getcwd(), "environment": dict(os.environ), "streams": streams,
        "handlers": handlers, "blocked": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "threads": threading.active_count(), "leader": os.getsid(0) == os.getpid(), "descriptors": os.listdir("/dev/fd"),
        "main": [__name__, __spec__ and __spec__.name, sorted(vars(sys.modules["__main__"]).keys() - {"__cached__"})],
    }))
"""


def both(words, **how):
    """Of a real process and of the server's: exit code, stdout, the last line of stderr, before which frames differ."""
    found = []
    for run in (subprocess.run, forkserver.run):
        done = run([sys.executable, *map(str, words)], capture_output=True, text=True, timeout=60, **how)
        found.append((done.returncode, done.stdout, done.stderr.splitlines()[-1:]))
    return found


@pytest.mark.parametrize("how", ["-c", "-m", "script"])
@pytest.mark.parametrize("environment", [{}, {"PYTHONIOENCODING": "latin-1:replace", "PYTHONPATH": "/a:/b", "X": "é"}])
def test_it_finds_what_any_process_finds(how, environment, tmp_path):
    (tmp_path / "program.py").write_text(STATE)
    words = {"-c": ["-c", STATE], "-m": ["-m", "program"], "script": [tmp_path / "program.py"]}[how]
    env = {**os.environ, **environment}
    real, ours = both([*words, "a", "b c"], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
    assert real[0] == 0, real[2]
    assert ours[0] == 0, ours[2]
    real, ours = json.loads(real[1]), json.loads(ours[1])
    assert ours.pop("main")[:2] == real.pop("main")[:2]
    assert ours == real


@pytest.mark.parametrize(
    "code",
    [
        "print(1)", "import sys; sys.exit(3)", "import sys; sys.exit('said')", "import os; os._exit(5)",
        "import os; os.kill(os.getpid(), 9)", "import os; os.kill(os.getpid(), 15)", "import os; os.close(1); print(1)",
        "import atexit; atexit.register(print, 'last'); print('first')",
        "import threading; threading.Timer(0.1, print, ['late']).start()",
        "import sys\nclass Late:\n    def __del__(self): print('gone')\nlate = Late()",
        "import subprocess, sys; print(subprocess.run([sys.executable, '-c', 'print(2)']).returncode)",
    ],
)  # fmt: skip
def test_it_ends_as_any_process_does(code):
    real, ours = both(["-c", code])
    assert ours == real


def test_it_is_signalled_and_waited_for():
    words = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"]
    with forkserver.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "1\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == process.poll() == -signal.SIGINT
    assert said.endswith("KeyboardInterrupt\n")
    process.kill()  # long gone: nobody else's number is signalled


@pytest.mark.parametrize("words", [["-S", "-c"], ["-c"]])
def test_what_is_read_before_a_program_runs_starts_a_real_one(words):
    """The parent of a forked process is the server, that of a real one is this process."""
    env = {**os.environ, "PYTHONUTF8": "0"} if words[0] == "-c" else None
    words = [sys.executable, *words, "import os; print(os.getppid())"]
    with forkserver.Popen(words, env=env, stdout=subprocess.PIPE) as process:
        assert int(process.communicate(timeout=60)[0]) == os.getpid()
    with forkserver.Popen([sys.executable, "-c", words[-1]], stdout=subprocess.PIPE) as process:
        assert int(process.communicate(timeout=60)[0]) != os.getpid()
