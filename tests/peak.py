"""Peak memory of the command line, in a process of its own."""

import subprocess
import sys


def peak_of(words, cwd, files=None):
    """The largest resident set of tokfmt or of any one of its children, in bytes, and what it printed.

    Args:
        words: Of the command.
        cwd: Where it runs.
        files: How many descriptors it may have open.
    """
    script = (
        "import resource, subprocess, sys\n"
        f"files = {files!r}\n"
        "if files: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)\n"
        "sys.stdout.flush()\n"
        "sys.stdout.buffer.write(done.stdout)\n"
        "sys.exit(done.returncode)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, sys.executable, "-m", "tokfmt", *map(str, words)],
        cwd=cwd, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    peak, _, printed = done.stdout.partition("\n")
    return int(peak), printed
