"""Messages name options as the command line does, and name options that exist."""

import ast
import dataclasses
import pickle
import re

from paths import ROOT

import tokfmt
from tokfmt.core.errors import DestinationExistsError, FormatError, Loss, LossyConversionError


def test_errors_get_advice_and_are_pickled():
    error = FormatError("x.bin", "is cut", expected=4, found=3, remedy="--allow-loss tail reads the rest")
    error.advise("--eos ID names the separator")
    assert str(error).endswith("found 3. --allow-loss tail reads the rest. --eos ID names the separator")
    assert error.remedy == "--allow-loss tail reads the rest. --eos ID names the separator"
    lossy = LossyConversionError("o.h5", [Loss("fields", "2 fields"), Loss("tail", "3 bytes")])
    assert str(lossy).endswith("To accept that, add --allow-loss fields --allow-loss tail")
    assert lossy.losses == ["fields", "tail"]
    there = pickle.loads(pickle.dumps(DestinationExistsError("o.h5")))
    assert str(there) == "o.h5: already exists. --overwrite replaces it"
    assert there.facts()["path"] == "o.h5"


def remedies(path):
    """Yield each option of a format that the messages of a module name: its kind, its name, and the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for kind, name in re.findall(r"--(to|from)-opt (\w+)=", node.value):
                yield kind, name, node.lineno


def test_formats_have_the_options_that_their_remedies_name():
    owned, every = {}, set()
    for one in tokfmt.list_formats():
        options = ("to", one.write_options), ("from", one.read_options)
        known = {(kind, field.name) for kind, kept in options for field in dataclasses.fields(kept)}
        owned.setdefault(type(one).__module__.split(".")[2], set()).update(known)
        every |= known
    named = 0
    for path in sorted((ROOT / "tokfmt/formats").rglob("*.py")):
        known = owned.get(path.relative_to(ROOT).parts[2].removesuffix(".py"), every)
        for kind, name, line in remedies(path):
            named += 1
            assert (kind, name) in known, f"{path}:{line}"
    assert named > 40
