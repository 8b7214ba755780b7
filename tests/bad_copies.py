"""Bad copies of goldens: each is changed by a function, and refused in one sentence, in little memory."""

import shutil

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt import registry
from tokfmt.core.findings import Audit
from tokfmt.errors import FormatError
from tokfmt.testing import little_memory

MEMORY = 32 << 20


class BadCopies:
    """Cases by name: format, golden, what is said of it, read options, what changes the copy at a path."""

    def __init__(self):
        self.cases = {}

    def __call__(self, home, golden, says, **options):
        def take(change):
            self.cases[f"{home} {change.__name__}"] = (home, golden, says, options, change)
            return change

        return take

    def refuse(self, name, tmp_path):
        """Reading raises a FormatError of one line; the check finds an error, and no more memory is taken."""
        home, golden, says, options, change = self.cases[name]
        own = FIXTURES / home / golden
        for file in [own] if own.is_dir() else own.parent.glob(f"{own.stem}.*"):
            (shutil.copytree if file.is_dir() else shutil.copy)(file, tmp_path / file.name)
        path = tmp_path / own.name
        change(path)
        with pytest.raises(FormatError, match=says) as caught, little_memory(MEMORY, name):
            with tokfmt.open(path, format=home, options=options, allow_loss=["other-files"], eos="none") as dataset:
                for k in range(len(dataset)):
                    dataset[k]
        assert "\n" not in str(caught.value)
        format_ = registry.get(home)
        findings = format_.audit(path, format_.read_options(**options), Audit(deep=True))
        assert [finding for finding in findings if finding.severity == "error"]
