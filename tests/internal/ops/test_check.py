"""`check`: every file in fixtures/ and every case gives the findings expected; every code has a case."""

from check_cases import asked
from paths import FIXTURES

from tokfmt import registry
from tokfmt.core.errors import UnsafeError
from tokfmt.core.findings import Finding
from tokfmt.core.format import Confidence, Format
from tokfmt.core.inspection import Inspection
from tokfmt.ops.check import check


class Plainly(Inspection):
    def __init__(self, pack, error):
        self.pack, self.error = pack, error

    def reader(self):
        if self.error:
            raise self.error
        return self.pack.reader()

    def look(self, how):
        yield Finding("XY1", "warning", str(self.pack.file.path), "is plain")


class Plain(Format):
    """A plug-in that knows nothing of deep looks: only what the contract asks for."""

    packs = registry.get("modalities")
    name, read_options = "plain", packs.read_options
    error = None

    def sniff(self, probe):
        return Confidence.CERTAIN

    def inspect(self, paths, options, hints):
        return Plainly(self.packs.inspect(paths, options, hints), self.error)


def test_plug_ins(monkeypatch):
    """Deep looks go through their reader; what it refuses is a finding."""
    plain, path = Plain(), FIXTURES / "modalities/D_2byte_gpt2_eod_always.pbin"
    monkeypatch.setattr(registry, "detect", lambda path: plain)
    monkeypatch.setattr(registry, "get", lambda name: plain)
    (verdict,) = check(asked(path, deep=True))
    assert (verdict.counts, verdict.sequences, verdict.exit_code) == ({"XY1": 1, "TF946": 1}, 42, 0)
    plain.error = UnsafeError(path, "would take all memory")
    (verdict,) = check(asked(path, deep=True))
    assert (verdict.counts, verdict.exit_code) == ({"XY1": 1, "TF902": 1}, 3)
