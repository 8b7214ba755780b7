"""From text to a stored mix: filters, quotas and a shuffle, against plain text -> pack and against datatrove's own pipeline."""

import subprocess
from pathlib import Path

from benchmarks.cases import case, convert
from benchmarks.data import HOME, ascii_corpus, tokenizer
from benchmarks.environments import Absent, environment
from benchmarks.text import CORPUS

QUOTAS = (38_000_000, 30_000_000)  # tokens: about seven tenths of what filters leave of each
HALVES = (26_500_000, 22_000_000)
DATATROVE = ("datatrove==0.10.1", "tokenizers==0.22.2", "orjson==3.11.4", "regex")
PART = HOME / "part.jsonl"
PART_BYTES = 16_000_000  # of the corpus, for datatrove


def mix(out, *sources):
    """A recipe of paths, each with its quota (None: all of it)."""
    told = [f'tokfmt = 1\ntokenizer = "{tokenizer()}"\nshuffle = "documents"\nseed = 1']
    for path, quota in sources:
        told.append(f'[[source]]\npath = "{path}"\nfilter = "garbage"')
        told += [f"tokens = {quota}"] if quota else []
    (out / "mix.toml").write_text("\n".join(told))
    return out / "mix.toml"


@case("text -> mix: filters, quotas, shuffled (peer: plain text -> pack)", ">= 0.77", "bytes")
class AgainstPlain:
    quotas = QUOTAS

    def prepare(self):
        ascii_corpus()

    def sources(self):
        return CORPUS, ascii_corpus()

    def peer(self, out):
        convert(self.sources(), out / "x.pbin", tokenizer=str(tokenizer()))
        return sum(path.stat().st_size for path in self.sources())

    def tokfmt(self, out):
        convert(mix(out, *zip(self.sources(), self.quotas, strict=True)), out / "x.pbin")
        return sum(path.stat().st_size for path in self.sources())


@case("text -> mix: filters, quotas of a half, shuffled (peer: plain text -> pack)", ">= 0.77", "bytes")
class HalvesAgainstPlain(AgainstPlain):
    quotas = HALVES


@case("text -> mix: filters, shuffled (peer: datatrove, JsonlReader, LambdaFilter, DocumentTokenizer)", ">= 5", "bytes")
class AgainstDatatrove:
    def prepare(self):
        """Both keep the same documents with the same ids."""
        if not PART.exists():
            with open(CORPUS, "rb") as lines:
                part = lines.read(PART_BYTES)
            PART.write_bytes(part[: part.rindex(b"\n") + 1])
        out = HOME / "prepared"
        out.mkdir(exist_ok=True)
        if self.peer(out) is None:
            return
        import tokfmt

        theirs = [ids.tobytes() for ids in tokfmt.open(next(out.glob("*shuffled.ds")))]
        convert(mix(out, (PART, None)), out / "ours.ds", overwrite=True)
        ours = [ids.tobytes() for ids in tokfmt.open(out / "ours.ds")]
        assert len(ours) > 1000 and ours != theirs and sorted(ours) == sorted(theirs)

    def peer(self, out):
        try:
            python = environment(HOME / "peers" / "datatrove", *DATATROVE)
        except Absent:
            return None
        script = Path(__file__).with_name("preparing_peer.py")
        subprocess.run(
            [python, "-P", script, PART, tokenizer() / "tokenizer.json", out], check=True, capture_output=True
        )
        return PART.stat().st_size

    def tokfmt(self, out):
        convert(mix(out, (CORPUS, None)), out / "x.ds")
        return CORPUS.stat().st_size
