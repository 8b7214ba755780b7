"""Two packages that `tokfmt plugin new` writes: `tape`, token IDs one after the other, and `reel`, compressed records."""

import atexit
import shutil
import sys
import tempfile
from pathlib import Path

from tokfmt.plugin_package import new_package

HOME = Path(tempfile.mkdtemp())
TAPE, REEL = HOME / "tape", HOME / "reel"
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
new_package("tape", TAPE)
new_package("reel", REEL, records=True)
sys.path += [str(TAPE), str(REEL)]  # worker processes get it too

import test_tokfmt_reel  # noqa: E402, F401
import test_tokfmt_tape  # noqa: E402, F401
import tokfmt_reel  # noqa: E402, F401
import tokfmt_tape  # noqa: E402, F401
