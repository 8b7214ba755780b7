"""Ledgers: the record that each piece of each sequence is said to come from holds these tokens, looked up by plain Python."""

import json
import shutil
import sys
from pathlib import Path

import forkserver
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amount import FUZZ_ONLY, pairs
from finishing import finish
from made_corpora import NAMES, prose, text_of, written
from paths import TOKENIZER
from tokenizers import Tokenizer

import tokfmt
from tokfmt.errors import OptionError

pytestmark = pytest.mark.slow

EOS = 4095
EMPTY = "TF118"  # A pack of an empty document.
PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))


class Oracle:
    """What a ledger says, read by numpy and json alone, and what the files that it names hold."""

    def __init__(self, dataset):
        self.home = dataset.parent
        self.rows = np.load(f"{dataset}.ledger", mmap_mode="r", allow_pickle=False)
        self.about = json.loads(Path(f"{dataset}.ledger.json").read_bytes())
        assert len(self.rows) == self.about["rows"]
        assert np.all(np.diff(self.rows["sequence"]) >= 0)
        self._held = {}

    def record(self, source, number):
        """The ids of a record, its separator behind them."""
        told = self.about["sources"][source]
        if source not in self._held:
            assert len(told["paths"]) == 1
            self._held[source] = self._records(self.home / told["paths"][0], told)
        return [*self._held[source][number], EOS]

    def _records(self, path, told):
        if told["kind"] == "ids":
            with tokfmt.open(path, eos=EOS) as dataset:
                return [row.tolist() for row in dataset]
        if path.suffix == ".parquet":
            texts = pq.read_table(path)["text"].to_pylist()
        else:
            lines = [json.loads(line) for line in text_of(path).splitlines() if line]
            texts = [line["body"]["text"] if told["text"] else line["text"] for line in lines]
        return [PLAIN.encode(text, add_special_tokens=False).ids for text in texts]

    def sequences(self):
        """Tokens of all sequences, put together of the pieces."""
        found = [[] for _ in range(self.about["sequences"])]
        for sequence, source, record, start, stop in self.rows.tolist():
            piece = self.record(source, record)[start:stop]
            assert len(piece) == stop - start
            found[sequence] += piece
        return found


def documents_of(path):
    with tokfmt.open(path, eos=EOS) as dataset:
        return [row.tolist() for row in dataset]


def rows_of(path, **options):
    with tokfmt.open(path, options={"view": "samples", **options}) as dataset:
        return [row.tolist() for row in dataset]


def ledger_of(path):
    return Path(f"{path}.ledger").read_bytes(), Path(f"{path}.ledger.json").read_bytes()


@FUZZ_ONLY
@pytest.mark.parametrize("shuffle", ["none", "documents"])
@pytest.mark.usefixtures("kept_workers")
def test_ledger_lists_the_record_of_each_sequence(corpora, tmp_path, shuffle):
    """With filters, quotas and duplicates, and with the same bytes for any executor."""
    recipe = written(corpora, NAMES, dedup='"exact"', seed=5, shuffle=f'"{shuffle}"')
    tokfmt.convert(recipe, tmp_path / "a.pbin", ledger=True, jobs=1, executor="serial")
    oracle = Oracle(tmp_path / "a.pbin")
    assert oracle.sequences() == documents_of(tmp_path / "a.pbin")
    assert [one["name"] for one in oracle.about["sources"]] == list(NAMES)
    assert not np.any(oracle.rows["start"])
    before = ledger_of(tmp_path / "a.pbin")
    for jobs, executor in ((3, "threads"), (2, "processes")):
        tokfmt.convert(recipe, tmp_path / "a.pbin", jobs=jobs, executor=executor, overwrite=True, ledger=True)
        assert ledger_of(tmp_path / "a.pbin") == before


def sources(tmp_path):
    """Two files of lines under one pattern, one with an index; a Parquet file of several row groups; a pack."""
    import random

    draw, texts = random.Random(2), []
    for k in range(90):
        texts.append("" if k % 17 == 0 else prose(draw, draw.randrange(3, 60)))
    (tmp_path / "web").mkdir()
    for name, some in (("a", texts[:30]), ("b", texts[30:50])):
        lines = [json.dumps({"text": text}) for text in some]
        lines.insert(3, "")  # a blank line is no record
        (tmp_path / "web" / f"{name}.jsonl").write_text("\n".join(lines))
    pq.write_table(pa.table({"text": texts[50:80]}), tmp_path / "p.parquet", row_group_size=7)
    (tmp_path / "rest.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[80:]))
    tokfmt.convert(tmp_path / "rest.jsonl", tmp_path / "rest.pbin", tokenizer=str(TOKENIZER), eos=EOS)


SOURCES = """
[[source]]
path = "web/*.jsonl"
select = "{select}"
[[source]]
path = "p.parquet"
epochs = {epochs}
[[source]]
path = "rest.pbin"
"""


@pytest.mark.parametrize("select", ["0:", "7:41", "33:-2"])
def test_files_of_a_pattern_and_rows_and_ids(tmp_path, select):
    sources(tmp_path)
    head = f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\nto_eos = {EOS}\nshuffle = "documents"\n'
    (tmp_path / "mix.toml").write_text(head + SOURCES.format(select=select, epochs=2))
    for allow_loss in ((), ("empty-sequences",)):
        done = tokfmt.convert(
            tmp_path / "mix.toml", tmp_path / "a.pbin", ledger=True, overwrite=True, allow_loss=allow_loss
        )
        oracle = Oracle(tmp_path / "a.pbin")
        assert oracle.sequences() == documents_of(tmp_path / "a.pbin")
        assert oracle.about["sequences"] == done.sequences
        assert [one["kind"] for one in oracle.about["sources"]] == ["text", "text", "text", "ids"]


@pytest.mark.parametrize(
    ("pack", "shuffle", "weights"),
    pairs(["stream", "document", "bestfit"], ["none", "samples", "documents"], [False, True]),
)
def test_each_token_of_a_sample_is_in_a_piece(tmp_path, pack, shuffle, weights):
    sources(tmp_path)
    head = (
        f'tokfmt = 1\nseq_len = 40\ntokenizer = "{TOKENIZER}"\nto_eos = {EOS}\nshuffle = "{shuffle}"\npack = "{pack}"\n'
    )
    body = SOURCES.format(select="2:", epochs=2)
    if weights:
        head += "tokens = 2_000\n"
        for share in (0.5, 0.3, 0.2):
            body = body.replace("path =", f"weight = {share}\nPATH =", 1)
        body = body.replace("PATH", "path")
    (tmp_path / "mix.toml").write_text(head + body)
    tokfmt.convert(tmp_path / "mix.toml", tmp_path / "a.h5", to_format="hdf5", to_options={"seq_len": 40}, ledger=True)
    oracle = Oracle(tmp_path / "a.h5")
    assert oracle.about["unit"] == "samples"
    rows = rows_of(tmp_path / "a.h5")
    found = oracle.sequences()
    assert len(found) == len(rows)
    for made, row in zip(found, rows, strict=True):
        assert row[: len(made)] == made
        assert set(row[len(made) :]) <= {EOS}
    if pack == "stream" and not weights:
        assert sum(len(made) < 40 for made in found) <= 3  # the ends of passes


@pytest.mark.parametrize("pack", ["stream", "document", "bestfit"])
def test_samples_whose_inputs_are_moved(tmp_path, pack):
    """`labels = "starts"`: rows are of the targets, which are the tokens as they are, without separators."""
    sources(tmp_path)
    head = f'tokfmt = 1\nseq_len = 40\ntokenizer = "{TOKENIZER}"\nlabels = "starts"\npack = "{pack}"\n'
    (tmp_path / "mix.toml").write_text(head + SOURCES.format(select="2:", epochs=2))
    tokfmt.convert(tmp_path / "mix.toml", tmp_path / "a.h5", to_format="hdf5", to_options={"seq_len": 40}, ledger=True)
    oracle = Oracle(tmp_path / "a.h5")
    rows = rows_of(tmp_path / "a.h5")
    assert len(oracle.sequences()) == len(rows)
    assert all(made for made in oracle.sequences())
    pieces = [[] for _ in rows]
    for sequence, source, record, start, stop in oracle.rows.tolist():
        pieces[sequence].append(oracle.record(source, record)[start:stop])
    for row, targets in zip(rows, pieces, strict=True):
        inputs = [token for piece in targets for token in [0, *piece[:-1]]]
        assert row[: len(inputs)] == inputs


def found(path):
    """What check says, but for the order of samples, which were not made of one stream."""
    return [one for one in tokfmt.check(path, deep=True)[0].findings if one.code not in ("TF901", EMPTY)]


def test_checked_with_its_dataset(tmp_path):
    """Fine as written, of documents and of samples; any row that is changed is found."""
    sources(tmp_path)
    head = f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\nto_eos = {EOS}\nshuffle = "documents"\n'
    for name, more in (("a.pbin", ""), ("b.h5", "seq_len = 40\n")):
        (tmp_path / "mix.toml").write_text(head + more + SOURCES.format(select="0:", epochs=2))
        tokfmt.convert(tmp_path / "mix.toml", tmp_path / name, ledger=True)
        assert found(tmp_path / name) == []
        good = (tmp_path / f"{name}.ledger").read_bytes()
        for field, value in (("sequence", -1), ("source", 99), ("record", -1), ("start", -2), ("stop", 1 << 40)):
            rows = np.load(tmp_path / f"{name}.ledger", mmap_mode="r+")
            rows[field][5] = value
            rows.flush()
            assert [one.code for one in found(tmp_path / name)] == ["TF916"], field
            (tmp_path / f"{name}.ledger").write_bytes(good)
        (tmp_path / f"{name}.ledger").write_bytes(good[:-1])
        assert [one.code for one in found(tmp_path / name)] == ["TF916"]


def test_a_ledger_that_is_gone_or_cut_is_found_at_a_glance(tmp_path):
    """Without --deep: the manifest says that there is one, and of how many rows."""
    sources(tmp_path)
    path, more = tmp_path / "a.pbin", tmp_path / "b.pbin"
    for destination, select in ((path, ""), (more, 'select = "1:"\n')):
        recipe = destination.with_suffix(".toml")
        recipe.write_text(f'tokfmt = 1\nto_eos = {EOS}\n[[source]]\npath = "rest.pbin"\n{select}')
        tokfmt.convert(recipe, destination, ledger=True)

    def glance():
        findings = tokfmt.check(path)[0].findings
        return [(one.code, one.message) for one in findings if one.code != EMPTY]

    assert glance() == []
    rows, about = ledger_of(path)
    Path(f"{path}.ledger").write_bytes(rows[:-1])
    assert [code for code, _ in glance()] == ["TF916"]
    Path(f"{path}.ledger").unlink()
    assert [code for code, _ in glance()] == ["TF916"]
    shorter = json.loads(about) | {"rows": len(np.load(f"{more}.ledger"))}
    Path(f"{path}.ledger.json").write_text(json.dumps(shorter))
    shutil.copy(f"{more}.ledger", f"{path}.ledger")
    ((code, message),) = glance()
    assert (code, "the manifest of a.pbin states" in message) == ("TF916", True)
    for suffix in (".ledger", ".ledger.json"):
        Path(f"{path}{suffix}").unlink()
    ((code, message),) = glance()
    assert (code, "its manifest lists one" in message) == ("TF916", True)
    Path(f"{path}.tokfmt.json").unlink()
    assert glance() == []


def test_recipes_of_recipes(tmp_path):
    """Spans are followed to what the innermost recipe is made of."""
    sources(tmp_path)
    inner = f'tokfmt = 1\nto_eos = {EOS}\nshuffle = "documents"\nseed = 3\n{{}}[[source]]\nname = "ids"\npath = "rest.pbin"\n'
    (tmp_path / "inner.toml").write_text(inner.format(""))
    (tmp_path / "rows.toml").write_text(inner.format("seq_len = 16\n"))
    outer = f'tokfmt = 1\nto_eos = {EOS}\nshuffle = "documents"\n[[source]]\npath = "inner.toml"\nselect = "2:"\nepochs = 2\n'
    (tmp_path / "outer.toml").write_text(outer)
    tokfmt.convert(tmp_path / "outer.toml", tmp_path / "a.pbin", ledger=True)
    oracle = Oracle(tmp_path / "a.pbin")
    assert oracle.sequences() == documents_of(tmp_path / "a.pbin")
    assert [one["name"] for one in oracle.about["sources"]] == ["inner/ids"]
    stored = 'tokfmt = 1\nseq_len = 16\npack = "stored"\nshuffle = "samples"\n[[source]]\npath = "rows.toml"\n'
    (tmp_path / "stored.toml").write_text(stored)
    tokfmt.convert(tmp_path / "stored.toml", tmp_path / "b", to_format="stage1", seq_len=16, ledger=True)
    for made, row in zip(Oracle(tmp_path / "b").sequences(), rows_of(tmp_path / "b", seq_len=16), strict=True):
        assert row[: len(made)] == made


def test_quotas_and_equal_sequences_of_ids(tmp_path):
    sources(tmp_path)
    for more in ("tokens = 150\n", "tokens = 700\nepochs = 9\n", ""):
        for dedup in ("none", "exact"):
            head = f'tokfmt = 1\nto_eos = {EOS}\ndedup = "{dedup}"\n'
            (tmp_path / "mix.toml").write_text(
                f'{head}[[source]]\npath = "rest.pbin"\n{more}[[source]]\nname = "b"\npath = "rest.pbin"\nselect = "1:"\n'
            )
            tokfmt.convert(tmp_path / "mix.toml", tmp_path / "a.pbin", ledger=True, overwrite=True)
            assert Oracle(tmp_path / "a.pbin").sequences() == documents_of(tmp_path / "a.pbin")


@pytest.mark.parametrize(
    "asked", [{"select": "0:1"}, {"shuffle": 1}, {"split": "a=0.5,b=0.5"}, {"to_format": "jsonl", "destination": "-"}]
)
def test_refused(corpora, tmp_path, asked):
    recipe = written(corpora, ["law"], to_eos=EOS)
    with pytest.raises(OptionError, match="ledger"):
        tokfmt.convert(recipe, **{"destination": tmp_path / "a.pbin", **asked}, ledger=True)
    with pytest.raises(OptionError, match="tokfmt recipe"):
        tokfmt.convert(corpora / "law.jsonl", tmp_path / "a.pbin", tokenizer=str(TOKENIZER), ledger=True)
    assert list(tmp_path.iterdir()) == []


def test_killed_and_continued(corpora, tmp_path):
    recipe = written(corpora, NAMES, dedup='"exact"', seed=5)
    tokfmt.convert(recipe, tmp_path / "whole.pbin", ledger=True)
    words, kills = [sys.executable, "-c", KILLED, str(recipe), str(tmp_path / "again.pbin")], 0
    for tasks in (3, 9, 13, 99):
        kills += forkserver.run([*words, str(tasks)], capture_output=True).returncode == -9
    assert kills >= 2
    (rows, about), (again, said) = (ledger_of(tmp_path / name) for name in ("whole.pbin", "again.pbin"))
    assert (again, said) == (rows, about)


KILLED = """
import os, signal, sys
import tokfmt
from tokfmt.files.journal import Journal

add, left = Journal.add, [int(sys.argv[3])]

def killing(self, *line):
    add(self, *line)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

Journal.add = killing
if not os.path.exists(sys.argv[2]):
    tokfmt.convert(sys.argv[1], sys.argv[2], resume=True, ledger=True, jobs=1)
"""


def test_shards_and_finish(corpora, tmp_path):
    """The ledger of shards that are finished is that of one run."""
    recipe = written(corpora, NAMES, dedup='"exact"', seed=5, shuffle='"documents"')
    tokfmt.convert(recipe, tmp_path / "whole.pbin", ledger=True)
    for index in (1, 0):
        tokfmt.convert(recipe, tmp_path / "parts.pbin", task=(index, 2), ledger=True)
        assert not (tmp_path / "parts.pbin.ledger").exists()
    finish(tmp_path / "parts.pbin")
    assert ledger_of(tmp_path / "parts.pbin") == ledger_of(tmp_path / "whole.pbin")
