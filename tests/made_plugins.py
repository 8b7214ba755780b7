"""The formats of the page "Write a format": `tape`, consecutive token IDs, `quilt`, chunks, and `reel`, compressed records."""

import atexit
import re
import shutil
import sys
import tempfile
from pathlib import Path

import tokfmt

PAGE = (Path(tokfmt.__file__).parent / "formats" / "README.md").read_text()
TAPE, QUILT, REEL, LAWS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
"""The modules of the formats, and the tests of tape, as the page shows them."""
HOME = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
for _name, _code in {"tokfmt_tape": TAPE, "tokfmt_quilt": QUILT, "tokfmt_reel": REEL, "test_tokfmt_tape": LAWS}.items():
    (HOME / f"{_name}.py").write_text(_code)
sys.path += [str(HOME)]  # worker processes get it too

import test_tokfmt_tape  # noqa: E402, F401
import tokfmt_quilt  # noqa: E402, F401
import tokfmt_reel  # noqa: E402, F401
import tokfmt_tape  # noqa: E402, F401
