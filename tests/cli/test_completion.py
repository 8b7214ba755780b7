"""What shells complete: files, formats, options of formats, words of --allow-loss, codes, themes; by the protocol of each shell."""

import os
import subprocess
import sys

import forkserver
import pytest
import registered

WHAT = [
    ("convert cor", "file"),
    ("convert a b --tokenizer fix", "file"),
    ("stats a --html ou", "file"),
    ("check a --against c", "file"),
    ("index c", "file"),
    ("browse a", "file"),
    ("con", "convert"),
    ("convert a b --to ", registered.names()),
    ("show a --from h", "hdf5"),
    ("diff a b --from-a mod", "modalities"),
    ("formats fl", "flat-tokens"),
    ("convert a b --allow-loss emp", "empty-sequences"),
    ("convert a b --to hdf5 --to-opt str", "stride="),
    ("convert a b --executor thr", "threads"),
    ("check --explain TF107", "TF107"),
    ("browse a --theme nor", "nord"),
    ("stats a --no-dup", "--no-duplicates"),
]


def completed(line, shell):
    words = f"tokfmt {line}"
    environment = {**os.environ, "_TOKFMT_COMPLETE": f"{shell}_complete", "COMP_WORDS": words}
    environment["COMP_CWORD"] = words.rsplit(" ", maxsplit=1)[-1] if shell == "fish" else str(len(words.split(" ")) - 1)
    code = "from tokfmt.__main__ import main; main()"
    done = forkserver.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    if shell == "zsh" or (
        shell == "fish" and "," not in lines[0]
    ):  # type, value and help, a line each; fish before 8.5
        return list(zip(lines[::3], lines[1::3], strict=True))
    return [tuple(line.partition("\t")[0].split(",", 1)) for line in lines]


PROTOCOLS = {"convert cor", "convert a b --to "}
"""A file and words: what every shell is tried with."""
CASES = [
    (*case, shell) for case in WHAT for shell in ("bash", "zsh", "fish") if shell == "bash" or case[0] in PROTOCOLS
]


@pytest.mark.parametrize(
    ("line", "found", "shell"), CASES, ids=lambda value: value if isinstance(value, str) else "formats"
)
def test_completes(line, found, shell):
    answer = completed(line, shell)
    if found == "file":  # the shell's own completion of files
        assert answer == [("file", line.split(" ")[-1])]
    else:
        assert [value for kind, value in answer if kind == "plain"] == ([found] if isinstance(found, str) else found)


def test_bash_takes_the_script():
    """Loaded, it answers; and for a path it leaves the word to bash."""
    script = """
        compopt() { echo "compopt $2"; }
        tokfmt() { "$PYTHON" -c 'from tokfmt.__main__ import main; main()' "$@"; }
        eval "$(tokfmt completion bash)"
        eval "$(declare -f _tokfmt_completion | sed 's/env COMP_WORDS/COMP_WORDS/; s/\\$1/tokfmt/')"
        COMP_WORDS=(tokfmt formats fl); COMP_CWORD=2; _tokfmt_completion tokfmt; echo "${COMPREPLY[*]}"
        COMP_WORDS=(tokfmt stats cor); COMP_CWORD=2; _tokfmt_completion tokfmt; echo "${COMPREPLY[*]}"
    """
    done = subprocess.run(
        ["bash", "-c", script], env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines() == ["flat-tokens", "compopt default", ""], done.stderr
