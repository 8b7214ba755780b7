"""Recipes of text stored: what filters, quotas and equal texts leave, token by token, against an oracle of its own."""

import gzip
import json
import random
import sys
from collections import Counter
from pathlib import Path

import forkserver
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from amount import FUZZ_ONLY, every, first, pairs
from click.testing import CliRunner
from commands import run
from filter_oracle import broken
from made_corpora import FIELDS, NAMES, SUFFIXES, WORDS, make, prose
from paths import FIXTURES, TOKENIZER
from peak import peak_of
from reads import asked_of
from tokenizers import Tokenizer

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import ConversionError, DestinationExistsError, FormatError, OptionError, TokfmtError

EOS = 4095
GARBAGE = {
    "min_words": 50, "min_chars": 200, "max_symbol_ratio": 0.3, "max_char_repetition": 0.2, "min_word_diversity": 0.1,
    "max_word_share": 0.3,
}  # fmt: skip
SOME = {"min_words": 1}
PLAIN = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))


def order(seed, count):
    """How documents are drawn: by words of a counter-based generator, whose key says what they are for."""
    keys = np.random.Philox(key=34 << 64 | seed, counter=0).random_raw(max(1, count))[:count]
    return sorted(range(count), key=lambda number: (keys[number], number))


def expected(texts, sources, *, seed=0, dedup=False):
    """The documents of a recipe, and of each source what became of its texts."""
    documents, reports, seen = [], [], {}
    for name, (quota, rules, epochs) in sources.items():
        rejected, equal, kept, total, full = Counter(), Counter(), [], 0, False
        encoded = {}  # of those that get as far
        for number in order(seed, len(texts[name])):
            text = texts[name][number]
            fault = broken(text, rules or {})
            if fault:
                rejected[fault[0]] += 1
                continue
            if dedup and text in seen:
                equal[seen[text]] += 1
                continue
            encoded[number] = PLAIN.encode(text, add_special_tokens=False).ids
            if quota is not None and total + len(encoded[number]) > quota:
                full = True
                break
            seen.setdefault(text, name)
            kept.append(number)
            total += len(encoded[number])
        rows = [sorted(kept)]
        if quota is not None and not full and total:
            left, again = quota - total * (quota // total), []
            assert quota // total <= epochs
            for number in kept if left else ():  # once more in the same order
                if len(encoded[number]) > left:
                    break
                left -= len(encoded[number])
                again.append(number)
            rows = [sorted(kept)] * (quota // total) + [sorted(again)]
        documents += [encoded[number] for row in rows for number in row]
        reports.append((name, rejected, equal, len(kept), total))
    return documents, reports


def written(directory, sources, **keys):
    """A recipe file."""
    lines = ["tokfmt = 1", f'tokenizer = "{TOKENIZER}"', *(f"{key} = {value}" for key, value in keys.items())]
    for name, (quota, rules, epochs) in sources.items():
        lines += ["[[source]]", f'path = "{name}{SUFFIXES.get(name, ".jsonl")}"']
        lines += [f"tokens = {quota}"] if quota is not None else []
        lines += [f"epochs = {epochs}"] if epochs > 1 else []
        lines += [f'filter = "{"garbage" if rules is GARBAGE else "some"}"'] if rules else []
        lines += [f'text = "{FIELDS[name]}"'] if name in FIELDS else []
    lines += ["[filter.some]", *(f"{rule} = {least}" for rule, least in SOME.items())]
    path = directory / "mix.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    home = tmp_path_factory.mktemp("corpora")
    return home, make(home)


QUOTAS = dict(zip(NAMES, (30_000, None, 9_000, 5_000, None, 2_500, 1_500, None, 3_000, None, None), strict=True))
ELEVEN = {name: (QUOTAS[name], SOME if name == "code" else GARBAGE, 1) for name in NAMES}


def documents_of(path):
    with tokfmt.open(path, eos=EOS) as dataset:
        return [row.tolist() for row in dataset]


def test_a_small_stage_1(corpora, tmp_path):
    """Eleven sources, quotas, filters, equal texts left out, shuffled, in blocks: each token, each border."""
    home, texts = corpora
    recipe = written(home, ELEVEN, dedup='"exact"', seed=5, shuffle='"documents"')
    documents, reports = expected(texts, ELEVEN, seed=5, dedup=True)
    done = tokfmt.convert(recipe, tmp_path / "blocks", to_format="stage1")
    assert Counter(map(tuple, documents_of(tmp_path / "blocks"))) == Counter(map(tuple, documents))
    assert tokfmt.diff(recipe, tmp_path / "blocks").identical
    stored = np.concatenate([np.fromfile(path, "<u4") for path in sorted((tmp_path / "blocks").iterdir())])
    count = sum(map(len, documents)) + len(documents)
    assert len(stored) == -(-count // 8192) * 8192
    assert np.all(stored[count - 1 :] == EOS)
    assert np.count_nonzero(stored[:count] == EOS) == len(documents)
    assert not np.any((stored[1:count] == EOS) & (stored[: count - 1] == EOS))
    for row, (name, rejected, equal, kept, tokens) in zip(done.prepared, reports, strict=True):
        rules = {rule.partition(".")[2]: part["documents"] for rule, part in row["rejected"].items()}
        assert (row["source"], row["kept"], row["tokens"]) == (name, kept, tokens)
        assert (rules, row["duplicates"]) == (rejected, equal)
    assert max(len(row["rejected"]) for row in done.prepared) == 6, "each rule has work to do"
    assert sum(sum(row["duplicates"].values()) for row in done.prepared) > 5


@FUZZ_ONLY
@pytest.mark.usefixtures("kept_workers")
def test_drawn_documents_keep_the_order_of_their_source(corpora, tmp_path):
    home, texts = corpora
    recipe = written(home, ELEVEN, dedup='"exact"', seed=9)
    documents, _ = expected(texts, ELEVEN, seed=9, dedup=True)
    tokfmt.convert(recipe, tmp_path / "a.pbin", verify=True)
    assert documents_of(tmp_path / "a.pbin") == documents
    assert tokfmt.diff(recipe, tmp_path / "a.pbin").identical
    for jobs, executor in ((1, "serial"), (3, "threads"), (2, "processes")):
        tokfmt.convert(recipe, tmp_path / "b.pbin", jobs=jobs, executor=executor, overwrite=True)
        assert (tmp_path / "a.pbin").read_bytes() == (tmp_path / "b.pbin").read_bytes()


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("dedup", [False, True])
def test_a_quota_beyond_a_source_is_filled_by_passes_that_epochs_allow(corpora, tmp_path, seed, dedup):
    home, texts = corpora
    small = {"songs": (4_000, GARBAGE, 9), "law": (None, None, 1)}
    recipe = written(home, small, seed=seed, **({"dedup": '"exact"'} if dedup else {}))
    documents, _ = expected(texts, small, seed=seed, dedup=dedup)
    tokfmt.convert(recipe, tmp_path / "a.pbin")
    assert documents_of(tmp_path / "a.pbin") == documents


def test_missing_tokens_of_a_source_are_reported(corpora, tmp_path):
    home, _ = corpora
    recipe = written(home, {"rest": (10_000_000, GARBAGE, 1)})
    with pytest.raises(
        ConversionError, match=r'source "rest" has [\d,]+ tokens, .* short by [\d,]+. Allow epochs = \d+'
    ):
        tokfmt.convert(recipe, tmp_path / "a.pbin")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("seq_len", "dedup", "ids"), pairs([None, 64], [False, True], [False, True]))
def test_unfilled_quota_is_an_error_or_a_note(tmp_path, ids, dedup, seq_len):
    """An empty result is an error, less than 99% of the quota a note; for text and for IDs."""
    texts = ["word " * 40 + str(k) for k in range(30)]
    (tmp_path / "web.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (tmp_path / "more.jsonl").write_text(json.dumps({"text": "one more"}) + "\n")
    tokfmt.convert(tmp_path / "web.jsonl", tmp_path / "web.pbin", tokenizer=str(TOKENIZER))
    lengths = [len(PLAIN.encode(text, add_special_tokens=False).ids) for text in texts]
    drawn = [lengths[number] for number in order(0, len(texts))]
    options = {"dedup": '"exact"'} if dedup else {}
    options |= {"seq_len": seq_len} if seq_len else {}

    def stored(quota):
        recipe = written(tmp_path, {"web": (quota, None, 1), "more": (None, None, 1)}, **options)
        recipe.write_text(recipe.read_text().replace("web.jsonl", "web.pbin") if ids else recipe.read_text())
        allow_loss = ["embedded-separators"] if seq_len else []  # of samples
        return tokfmt.convert(recipe, tmp_path / "out.npy", to_format="olmo", overwrite=True, allow_loss=allow_loss)

    message = (
        rf'source "web" gives nothing to its quota of {drawn[0] - 1} tokens: the first document drawn has {drawn[0]}'
    )
    with pytest.raises(ConversionError, match=message):
        stored(drawn[0] - 1)
    assert not (tmp_path / "out.npy").exists()
    notes = [note for note in stored(2 * drawn[0]).notes if "of its quota" in note]
    assert len(notes) == (drawn[0] != drawn[1])
    (note,) = [note for note in stored(sum(drawn[:3]) + 20).notes if "of its quota" in note]
    assert note == (
        f"web: {sum(drawn[:3])} of the {sum(drawn[:3]) + 20} tokens of its quota: "
        f"the next document drawn has {drawn[3]}, and documents are not cut"
    )
    assert not any("of its quota" in note for note in stored(sum(drawn[:3])).notes)


def test_shortfall_keeps_no_work_and_more_epochs_help(corpora, tmp_path):
    """The remedy of the message works with the same command, and no kept work prevents it."""
    home, texts = corpora
    (tmp_path / "news.jsonl").write_bytes((home / "news.jsonl").read_bytes())
    has = expected(texts, {"news": (None, None, 1)})[1][0][4]
    path = written(tmp_path, {"news": (has + 1, None, 1)})
    with pytest.raises(ConversionError, match="short by 1. Allow epochs = 2") as caught:
        tokfmt.convert(path, tmp_path / "out.pbin", eos=EOS, resume=True)
    assert not any("to continue" in note for note in getattr(caught.value, "__notes__", []))
    assert list(tmp_path.glob(".*")) == []
    written(tmp_path, {"news": (has + 1, None, 2)})
    done = tokfmt.convert(path, tmp_path / "out.pbin", eos=EOS, resume=True)
    assert has <= done.tokens <= has + 1 + len(texts["news"]) * 2


def test_shares_of_a_budget(corpora, tmp_path):
    """Weights of documents are quotas: shares of the budget."""
    home, texts = corpora
    (home / "weights.toml").write_text(
        f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\ntokens = 12_000\n[[source]]\npath = "web.jsonl"\nweight = 3\n'
        '[[source]]\npath = "forum.jsonl"\nweight = 1\n'
    )
    tokfmt.convert(home / "weights.toml", tmp_path / "a.pbin")
    documents, _ = expected(texts, {"web": (9_000, None, 1), "forum": (3_000, None, 1)})
    assert documents_of(tmp_path / "a.pbin") == documents


def test_ids_beside_text(corpora, tmp_path):
    """Equal sequences of ids are left out too; text and ids are not compared."""
    home, texts = corpora
    tokfmt.convert(home / "wiki.jsonl", tmp_path / "wiki.pbin", tokenizer=str(TOKENIZER), allow_loss="fields")
    (tmp_path / "mix.toml").write_text(
        f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\ndedup = "exact"\n'
        f'[[source]]\npath = "wiki.pbin"\n[[source]]\npath = "{home}/wiki.jsonl"\n[[source]]\nname = "b"\npath = "wiki.pbin"\n'
    )
    done = tokfmt.convert(tmp_path / "mix.toml", tmp_path / "out.pbin")
    ids = [tuple(PLAIN.encode(text, add_special_tokens=False).ids) for text in texts["wiki"]]
    firsts = []
    for values in (ids, texts["wiki"]):  # of equal ones that which is drawn first stays
        seen = {}
        for number in order(0, len(values)):
            seen.setdefault(values[number], number)
        firsts.append(sorted(seen.values()))
    assert documents_of(tmp_path / "out.pbin") == [list(ids[number]) for first in firsts for number in first]
    assert [row["kept"] for row in done.prepared] == [*map(len, firsts), 0]
    assert done.prepared[2]["duplicates"] == {"wiki": len(ids)}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('path = "x.pbin"\nfilter = "garbage"', "its filter has rules on text, but it holds token IDs"),
        ('path = "x.jsonl"\nfilter = "noise"', 'there is no filter "noise"'),
        ('path = "x.jsonl"\nfilter = "garbag"', "Did you mean garbage"),
        ('path = "x.jsonl"\ntext = "b"', 'found the field "text". text = "NAME" reads another one'),
        ('path = "x.jsonl"', "the recipe names no tokenizer. Add tokenizer = .NAME. to the recipe"),
    ],
)
def test_errors(tmp_path, source, message):
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "x.pbin").symlink_to(FIXTURES / "modalities" / "D_2byte_gpt2.pbin")
    (tmp_path / "mix.toml").write_text(f"tokfmt = 1\n[[source]]\n{source}\n")
    with pytest.raises(TokfmtError, match=message):
        tokfmt.convert(tmp_path / "mix.toml", tmp_path / "out.pbin")


@pytest.mark.parametrize("paths", ['"none.jsonl"', '["none.jsonl", "x.jsonl.gz"]', '["x.parquet", "none.jsonl"]'])
def test_a_file_without_a_line_holds_no_ids(tmp_path, paths):
    """A filter does not refuse it, nor the text beside it."""
    (tmp_path / "none.jsonl").write_text("")
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n'))
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "x.parquet")
    (tmp_path / "mix.toml").write_text(
        f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = {paths}\nfilter = "few"\n[filter.few]\nmin_words = 1\n'
    )
    texts = [] if paths == '"none.jsonl"' else ["a"]
    assert tokfmt.convert(tmp_path / "mix.toml", tmp_path / "a.pbin", eos=EOS).sequences == len(texts)


def test_records_that_were_read_are_not_read_again_to_be_counted(tmp_path):
    """What the kernel says this process reads, of files whose records no index counts."""
    long = json.dumps({"text": "x" * 100_000}) + "\n"
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"text": "a few words"}\n' + long * 20)
    path = tmp_path / "mix.toml"
    path.write_text(
        f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = ["a.jsonl", "b.jsonl"]\ntokens = 9\n'
        'epochs = 9\nfilter = "some"\n[filter.some]\nmin_words = 2\n'
    )

    def read():
        before = Path("/proc/self/io").read_text().split()[1]
        tokfmt.convert(path, tmp_path / "x.pbin", manifest=False, executor="threads", overwrite=True)
        return int(Path("/proc/self/io").read_text().split()[1]) - int(before)

    read()  # imports what it needs
    size = (tmp_path / "a.jsonl").stat().st_size + (tmp_path / "b.jsonl").stat().st_size
    assert size <= read() < 2 * size


def test_unused_filter_is_noted(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n')
    recipe = written(tmp_path, {"x": (None, None, 1)})
    assert "no source has the filter some" in " ".join(tokfmt.convert(recipe, tmp_path / "a.pbin").notes)
    recipe = written(tmp_path, {"x": (None, SOME, 1)})
    assert "no source has" not in " ".join(tokfmt.convert(recipe, tmp_path / "b.pbin").notes)


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.zst"])
def test_rejects(corpora, tmp_path, name):
    """Each text that was looked at and not kept, with the number of its record, the rule and the value."""
    home, texts = corpora
    some = {"web": (3_000, GARBAGE, 1), "papers": (None, GARBAGE, 1)}
    recipe = written(home, some, dedup='"exact"', seed=2)
    done = tokfmt.convert(recipe, tmp_path / "a.pbin", rejects=tmp_path / name)
    data = (tmp_path / name).read_bytes()
    if name.endswith(".zst"):
        data = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    lines = [json.loads(line) for line in data.splitlines()]
    found = {one: Counter() for one in some}
    for line in lines:
        assert texts[line["source"]][line["record"]] == line["text"]
        if line["filter"] == "dedup":
            assert (line["rule"], line["value"]) == ("exact", None)
        else:
            rule, value = broken(line["text"], GARBAGE)
            assert (line["filter"], line["rule"]) == ("garbage", rule)
            assert line["value"] == (None if value == float("inf") else value)
        found[line["source"]][line["rule"]] += 1
    for row in done.prepared:
        rules = Counter({rule.partition(".")[2]: part["documents"] for rule, part in row["rejected"].items()})
        assert found[row["source"]] == rules + Counter(exact=sum(row["duplicates"].values()))
    with pytest.raises(DestinationExistsError):
        tokfmt.convert(recipe, tmp_path / "b.pbin", rejects=tmp_path / name)
    with pytest.raises(OptionError, match="--rejects"):
        tokfmt.convert(tmp_path / "a.pbin", tmp_path / "b.pbin", rejects=tmp_path / "c.jsonl")


@pytest.mark.parametrize("nested", [False, True])
def test_files_of_a_recipe_are_guarded_as_sources(tmp_path, nested):
    """They are not replaced, and must not change while they are read."""
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "y.pbin").write_bytes((FIXTURES / "modalities" / "D_2byte_gpt2.pbin").read_bytes())
    mix = f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\nto_eos = 4095\n[[source]]\npath = "{{}}"\n'
    (tmp_path / "inner.toml").write_text(mix.format("y.pbin"))
    (tmp_path / "mix.toml").write_text(mix.format("inner.toml" if nested else "x.jsonl"))
    victim = tmp_path / ("y.pbin" if nested else "x.jsonl")
    before = victim.read_bytes()
    with pytest.raises(ConversionError, match="source"):
        tokfmt.convert(tmp_path / "mix.toml", victim, overwrite=True)
    assert victim.read_bytes() == before


def test_samples_exist_once_they_are_stored(corpora):
    home, _ = corpora
    with pytest.raises(OptionError, match=r"tokfmt convert .*mix.toml DST stores it"):
        tokfmt.open(written(home, {"rest": (None, None, 1)}))


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize(
    "ask",
    [
        lambda path, _: tokfmt.stats(path, tokenizer=str(TOKENIZER)),
        lambda path, _: tokfmt.stats([path]),
        lambda path, _: tokfmt.show(path, "token:1", tokenizer=str(TOKENIZER)),
        lambda path, other: tokfmt.check(other, against=path, tokenizer=str(TOKENIZER)),
    ],
)
def test_commands_report_only_known_facts_of_an_unstored_recipe(tmp_path, ask, text):
    """They report neither counts after filters, quotas and duplicates, nor an empty dataset."""
    (tmp_path / "x.jsonl").write_text(
        '{"text": "a"}\n{"text": "a"}\n' if text else '{"input_ids": [1]}\n{"input_ids": [1]}\n'
    )
    path = written(tmp_path, {"x": (None, None, 1)}, dedup='"exact"')
    tokfmt.convert(path, tmp_path / "x.pbin", eos=EOS)
    try:
        told = [finding.message for verdict in ask(path, tmp_path / "x.pbin") for finding in verdict.findings]
    except TokfmtError as error:
        told = [str(error)]
    assert len(told) == 1
    assert f"is a recipe with {'text' if text else 'dedup'}" in told[0]


def test_ids_without_equal_ones_go_to_lines(tmp_path):
    """Lines are not copied as they stand, as nobody knows yet which there will be; beside text as well."""
    (tmp_path / "x.jsonl").write_text('{"input_ids": [1, 2]}\n{"input_ids": [1, 2]}\n{"input_ids": [3]}\n')
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n')
    path, wanted = tmp_path / "ids.toml", [[1, 2], [3]]
    path.write_text('tokfmt = 1\ndedup = "exact"\n[[source]]\npath = "x.jsonl"\n')
    assert tokfmt.convert(path, tmp_path / "a.jsonl", verify=True).sequences == 2
    tokfmt.convert([path, tmp_path / "x.jsonl"], tmp_path / "b.jsonl")
    tokfmt.convert([tmp_path / "t.jsonl", path], tmp_path / "c.jsonl", tokenizer=str(TOKENIZER))
    text = PLAIN.encode("a", add_special_tokens=False).ids
    for name, rows in (("a", wanted), ("b", [*wanted, [1, 2], [1, 2], [3]]), ("c", [text, *wanted])):
        lines = (tmp_path / f"{name}.jsonl").read_text().splitlines()
        assert [json.loads(line)["input_ids"] for line in lines] == rows


def test_packed_samples_of_drawn_documents(corpora, tmp_path):
    """The samples of the recipe equal those of a recipe over the stored documents."""
    home, _ = corpora
    some = {"web": (5_000, GARBAGE, 1), "chat": (None, GARBAGE, 1)}
    tokfmt.convert(written(home, some), tmp_path / "some.pbin")
    (tmp_path / "ids.toml").write_text(
        'tokfmt = 1\nseq_len = 64\nshuffle = "samples"\n[[source]]\npath = "some.pbin"\n'
    )
    tokfmt.convert(
        written(home, some, seq_len=64, shuffle='"samples"'),
        tmp_path / "a.h5",
        to_format="hdf5",
        to_options={"seq_len": 64},
    )
    tokfmt.convert(tmp_path / "ids.toml", tmp_path / "b.h5", to_format="hdf5", to_options={"seq_len": 64})
    assert tokfmt.diff(tmp_path / "a.h5", tmp_path / "b.h5", samples=True).identical


def test_killed_and_continued(corpora, tmp_path):
    """The same bytes after any number of runs that were killed."""
    home, _ = corpora
    recipe = written(home, ELEVEN, dedup='"exact"', seed=5)
    tokfmt.convert(recipe, tmp_path / "whole.pbin")
    words = [sys.executable, "-c", KILLED, str(recipe), str(tmp_path / "again.pbin")]
    kills = 0
    for tasks in (1, 3, 5, 7, 9, 11, 12, 13, 99):
        kills += forkserver.run([*words, str(tasks)], capture_output=True).returncode == -9
    assert kills >= 3
    assert (tmp_path / "again.pbin").read_bytes() == (tmp_path / "whole.pbin").read_bytes()


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
    tokfmt.convert(sys.argv[1], sys.argv[2], resume=True, jobs=1)
"""


@pytest.mark.slow
def test_memory_of_the_process(tmp_path):
    """With the engine of the tokenizer and all libraries, which tell nobody what they allocate."""
    draw_ = random.Random(5)
    text = "".join(json.dumps({"text": f"{row} {prose(draw_, 150)}"}) + "\n" for row in range(6_000))
    (tmp_path / "web.jsonl").write_text(text)
    recipe = written(tmp_path, {"web": (None, GARBAGE, 1)}, dedup='"exact"', shuffle='"documents"')
    assert peak_of(["convert", recipe, "out.pbin", "-q", "--executor", "serial", "-j", "1"], tmp_path)[0] < 300e6


def test_explain_notes_lines_that_a_conversion_refuses(tmp_path):
    lines = ['{"text": "Mens sana"}', "no record", '{"text": null}', '{"text": "in corpore sano"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    path = tmp_path / "mix.toml"
    path.write_text(f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\n[[source]]\npath = "a.jsonl"\n')
    with pytest.raises(FormatError, match="line 2 is not valid JSON"):
        tokfmt.convert(path, tmp_path / "x.pbin")
    said = CliRunner().invoke(cli, ["recipe", str(path), "--explain", "--json"])
    (note,) = json.loads(said.stdout)["notes"]
    assert note.startswith("a: 2 invalid lines") and "line 2 is not valid JSON" in note and "invalid-lines" in note
    said = CliRunner().invoke(cli, ["recipe", str(path), "--explain"])
    assert said.exit_code == 0 and "2 invalid lines" in said.stderr


@pytest.mark.parametrize(("quota", "share"), first(1, [(900, 0.25), (4_000, 0.4)]))
@pytest.mark.parametrize("dedup", [every(False), True])
def test_a_source_far_larger_than_its_quota_is_not_read_whole(tmp_path, quota, share, dedup):
    """With an index; what is drawn is the same as of one that is read from end to end. Most of it is garbage."""
    draw_, texts = random.Random(3), []
    for _ in range(4_000):
        words = " ".join(draw_.choice(WORDS) for _ in range(draw_.randrange(60, 400)))
        texts.append("!" * 1_000 if draw_.random() < 0.6 else words if draw_.random() < 0.8 or not texts else texts[0])
    path = tmp_path / "web.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    recipe = written(tmp_path, {"web": (quota, GARBAGE, 1)}, seed=1, **({"dedup": '"exact"'} if dedup else {}))
    tokfmt.convert(recipe, tmp_path / "whole.pbin", manifest=False)
    documents, _ = expected({"web": texts}, {"web": (quota, GARBAGE, 1)}, seed=1, dedup=dedup)
    assert documents_of(tmp_path / "whole.pbin") == documents
    run("index", path, check=0)
    with asked_of(tmp_path) as asked:
        done = tokfmt.convert(recipe, tmp_path / "some.pbin", manifest=False, jobs=1, executor="serial")
    assert (tmp_path / "some.pbin").read_bytes() == (tmp_path / "whole.pbin").read_bytes()
    assert asked.bytes_of("web.jsonl") < share * path.stat().st_size
    assert done.prepared[0]["documents"] < len(texts) / 4
