"""Bad copies of goldens: each is changed by a function, and refused in one sentence, in little memory."""

import shutil
import tracemalloc

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt import registry
from tokfmt.core.findings import Audit
from tokfmt.errors import FormatError

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
        tracemalloc.start()
        with pytest.raises(FormatError, match=says) as caught:
            with tokfmt.open(path, format=home, options=options, allow_loss=["other-files"], eos="none") as dataset:
                for k in range(len(dataset)):
                    dataset[k]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert "\n" not in str(caught.value)
        assert peak < MEMORY
        format_ = registry.get(home)
        findings = format_.audit(path, format_.read_options(**options), Audit(deep=True))
        assert [finding for finding in findings if finding.severity == "error"]
