"""A format from another package is found by its entry point, like tokfmt's own."""

import subprocess
import sys

from amount import FUZZ_ONLY
from dummy_plugin import installed, raising

READS = raising("    def inspect(self, paths, options, hints):", "        raise KeyError('magic')")


BLAMED = "the format lines of tokfmt-lines 1.0"


@FUZZ_ONLY
def test_the_browser_names_the_plugin_as_well(tmp_path):
    env = installed(tmp_path, "lines", "tokfmt_lines", code=READS)
    (tmp_path / "x.lines").write_text("#lines\n1 2 3\n")
    opened = (
        "from tokfmt import registry; from tokfmt.browser.data import workers\n"
        "try: registry.get('lines').open([], None, None)\n"
        "except KeyError as error: print(workers.said(error))"
    )
    done = subprocess.run([sys.executable, "-c", opened], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"unexpected KeyError: 'magic'. This is a bug in {BLAMED}\n", done.stderr
