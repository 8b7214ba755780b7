"""The command line as users meet it: on real files, every line that it prints."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import commands
import forkserver
import pytest
from amount import FUZZ_ONLY, every
from paths import CORPUS, FIXTURES, ROOT, TOKENIZER

from tokfmt.cli.main import COMMANDS, cli

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
BLOCK = FIXTURES / "stage1" / "in.bin"


def tokfmt(*words, **how):
    done = commands.run(*words, **how)
    assert "Traceback" not in done.stderr
    return done


def test_help_and_version_import_nothing_heavy():
    """`--help`, `--version` and completion start light: no numpy, no zarr, h5py, rich, textual, transformers."""
    script = (
        "import sys\n"
        "from tokfmt.cli.main import run\n"
        "try:\n    run(sys.argv[1:])\n"
        "except SystemExit as leave:\n    assert leave.code == 0, leave.code\n"
        "heavy = {'numpy', 'zarr', 'h5py', 'textual', 'transformers', 'rich', 'tokenizers', 'fastokens', 'msgspec'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))\n"
    )
    for words in (["--help"], ["--version"], ["convert", "--help"], ["completion", "bash"]):
        done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60)
        assert done.stdout.splitlines()[-1:] == ["HEAVY []"], (words, done.stdout, done.stderr)


def test_as_a_new_user_in_an_empty_directory(tmp_path):
    """`tokfmt convert in.bin out.zarr`, exactly so."""
    shutil.copy(BLOCK, tmp_path / "in.bin")
    done = tokfmt("convert", "in.bin", "out.zarr", cwd=tmp_path, check=0)
    expected = json.loads((FIXTURES / "stage1" / "expected.json").read_bytes())["in.bin"]
    tokens = sum(map(len, expected))
    assert done.stdout == ""
    assert re.fullmatch(
        rf"out\.zarr \(flat-tokens\): {len(expected):,} sequences, {tokens:,} tokens, separator 50256 \(stage1 convention; {len(expected):,} dropped\), "
        r"\d+\.\d s\n",
        done.stderr,
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.bin", "out.zarr", "out.zarr.tokfmt.json"]
    shown = json.loads(tokfmt("show", "out.zarr", ":", "--json", cwd=tmp_path, check=0).stdout)
    assert [s["ids"] for s in shown["shown"]] == expected


def test_an_existing_destination_is_refused_then_replaced(tmp_path):
    out = tmp_path / "out.pbin"
    tokfmt("convert", PACK, out, check=0)
    before = out.read_bytes()
    done = tokfmt("convert", BLOCK, out, check=4)
    assert done.stderr == f"tokfmt: error: {out}: already exists. --overwrite replaces it\n"
    assert out.read_bytes() == before
    tokfmt("convert", BLOCK, out, "--overwrite", check=0)
    assert out.read_bytes() != before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.pbin", "out.pbin.tokfmt.json"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["convrt"], 2, "no command 'convrt'. Did you mean convert?"),
        (["convert", PACK, "o.zarr", "--tokeniser", "x"], 2, "--tokenizer"),
        (["convert", PACK, "o.zarr", "--executor", "thread"], 2, "Did you mean threads?"),
        (["convert", PACK, "o.zarr", "--from", "modality"], 2, "no format 'modality' (known: jsonl, modalities,"),
        (["convert", PACK, "o.bin"], 2, "cannot tell the format of 'o.bin' from its name. Use --to NAME"),
        (["convert", PACK, "o.zarr", "--to-opt", "chunks=4"], 2, "flat-tokens has no option 'chunks' "),
        (["convert", PACK, "o.zarr", "--allow-loss", "field"], 2, "Did you mean fields?"),
        (["convert", PACK, "o.zarr", "--seq-len", "many"], 2, "'many' is not a whole number"),
        (["convert", PACK, "o.zarr", "--seq-len", "5"], 2, "flat-tokens has no samples"),
        (["convert", PACK, "o.npy", "--to-opt", "shard_size=9"], 2, "o.npy is one file. Name a folder"),
        (
            ["convert", PACK, "o.npy", "--seq-len", "5"],
            2,
            "rows of array are the samples of a recipe. `tokfmt recipe SRC",
        ),
        (["convert", PACK, "o.zarr", "--select", "5:2"], 2, "ends before it begins"),
        (["convert", "missing.pbin", "o.zarr"], 3, "missing.pbin: no such file"),
        (["convert", "/dev/null", "o.zarr"], 3, "/dev/null: is not a regular file"),
        (["convert", PACK, "no/such/o.zarr"], 4, "the directory it should go to does not exist"),
        (["convert", CORPUS, "o.pbin"], 2, "holds text"),
        (["convert", CORPUS, "o.pbin", "--tokenizer", TOKENIZER, "--text-field", ""], 2, "'' is not a field"),
        (["convert", CORPUS, "o.pbin", "--tokenizer", "./nowhere"], 2, "nowhere"),
        (
            ["show", PACK, "99"],
            2,
            f"tokfmt: error: {PACK}: sequence 99 is not one of the 42 sequences there are: 0 to 41",
        ),
        (["convert", PACK, "o.zarr", "--select", "99"], 2, f"{PACK}: sequence 99 is not one of the 42 sequences"),
        (["convert", PACK, BLOCK, "o.zarr", "--select", "999"], 2, f"{PACK} and 1 more: sequence 999 is not one of"),
        (["convert", CORPUS, CORPUS, "o.jsonl", "--select", "999"], 2, f"{CORPUS} and 1 more: sequence 999 is not"),
        (
            ["convert", CORPUS, CORPUS, "o.pbin", "--tokenizer", TOKENIZER, "--select", "999"],
            2,
            f"{CORPUS} and 1 more: sequence 999 is not one of the 368 sequences",
        ),
        *(
            (["stats", CORPUS, "--from", name], 3, f"{CORPUS}: is a file: expected a directory that holds {index}")
            for name, index in (("mds", "index.json"), ("litdata", "index.json"), ("levanter", "shard_ledger.json"))
        ),
    ],
)
def test_one_line_and_an_exit_code(tmp_path, words, code, says):
    done = tokfmt(*words, cwd=tmp_path, check=code)
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("tokfmt: error: "), done.stderr
    assert says in lines[-1], lines[-1]
    assert len([line for line in lines if not line.startswith("note: ")]) == 1
    assert list(tmp_path.iterdir()) == []
    with_json = tokfmt(*words, "--json", cwd=tmp_path)
    assert json.loads(with_json.stdout)["error"]["exit_code"] == code


def test_empty_selection_is_refused_before_the_separator_is_needed(tmp_path):
    (tmp_path / "ids.jsonl").write_text('{"input_ids": [1, 2]}\n{"input_ids": [3, 4]}\n')
    words = ("convert", "ids.jsonl", "o.pbin", "--select")
    for chosen, says in (("99:100", "nothing is selected: the sources have 2 sequences"), ("99", "one of the 2 seq")):
        done = tokfmt(*words, chosen, cwd=tmp_path, check=2)
        assert says in done.stderr
        assert "--eos" not in done.stderr
    assert "--eos ID" in tokfmt(*words, "0:1", cwd=tmp_path, check=4).stderr


def test_a_source_is_never_the_destination(tmp_path):
    shutil.copy(PACK, tmp_path / "a.pbin")
    done = tokfmt("convert", "a.pbin", "./a.pbin", "--overwrite", cwd=tmp_path, check=4)
    assert "is also a source" in done.stderr
    (tmp_path / "keep").mkdir()
    (tmp_path / "keep" / "thesis.txt").write_text("three years")
    done = tokfmt("convert", "a.pbin", "keep", "--to", "flat-tokens", "--overwrite", cwd=tmp_path, check=4)
    assert "keep: is not replaced: it holds thesis.txt, which belongs to no dataset there" in done.stderr
    assert (tmp_path / "keep" / "thesis.txt").exists()


def test_json_is_one_document(tmp_path):
    done = tokfmt("convert", PACK, tmp_path / "o.zarr", "--json", "--verify", check=0)
    said = json.loads(done.stdout)
    assert (said["schema"], said["sequences"], said["verified"]) == ("tokfmt.convert/1", 42, True)
    known = {"eos_id": 50256, "from": f"manifest of {PACK.name}", "seen": "each of 42 sequences ends with it"}
    assert said["separator"] == {**known, "inferred": False}
    assert done.stderr.count("\n") == 0
    assert tokfmt("convert", PACK, tmp_path / "p.zarr", "-q", check=0).stderr == ""


def test_dry_run_writes_nothing(tmp_path):
    done = tokfmt("convert", PACK, "o.h5", "--dry-run", cwd=tmp_path, check=4)
    assert "cannot store 1 empty sequence (first: sequence 19)" in done.stderr
    done = tokfmt("convert", PACK, "o.h5", "--dry-run", "--allow-loss", "empty-sequences", cwd=tmp_path, check=0)
    assert "loses        empty-sequences: 1 empty sequence (first: sequence 19)" in done.stdout
    assert "destination  o.h5 (hdf5)" in done.stdout
    assert "separator    50256 (manifest of D_2byte_gpt2.pbin; each of 42 sequences ends with it" in done.stdout
    for name, line in (("text", '{"text": "a"}'), ("ids", '{"input_ids": [1]}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jsonl").write_text(line + "\n")
        done = tokfmt("convert", "x.jsonl", "o.jsonl", "--dry-run", cwd=tmp_path / name, check=0)
        assert os.listdir(tmp_path / name) == ["x.jsonl"]
        assert "holds        records, counted as they are read\n" in done.stdout  # which are not tokenized
        assert "tokenized" not in done.stdout


def test_manifest_records_the_conversion(tmp_path):
    tokfmt("convert", CORPUS, "o.pbin", "--tokenizer", TOKENIZER, cwd=tmp_path, check=0)
    manifest = json.loads((tmp_path / "o.pbin.tokfmt.json").read_bytes())
    import xxhash

    assert manifest["output"]["xxh3_128"] == xxhash.xxh3_128((tmp_path / "o.pbin").read_bytes()).hexdigest()
    assert manifest["sources"][0]["bytes"] == CORPUS.stat().st_size
    assert manifest["tokenizer"]["eos_id"] == manifest["eos_id"]
    tokfmt("convert", "o.pbin", "p.pbin", "--no-manifest", cwd=tmp_path, check=0)
    assert not (tmp_path / "p.pbin.tokfmt.json").exists()
    assert (tmp_path / "p.pbin").read_bytes() == (tmp_path / "o.pbin").read_bytes()
    # the separator of a store that does not hold one is known from its manifest
    tokfmt("convert", "o.pbin", "o.zarr", cwd=tmp_path, check=0)
    tokfmt("convert", "o.zarr", "q.pbin", cwd=tmp_path, check=0)
    assert (tmp_path / "q.pbin").read_bytes() == (tmp_path / "o.pbin").read_bytes()
    (tmp_path / "o.zarr.tokfmt.json").unlink()
    done = tokfmt("convert", "o.zarr", "r.pbin", cwd=tmp_path, check=4)
    assert "Give its token ID with --eos ID" in done.stderr


def test_text_and_back(tmp_path):
    tokfmt("convert", CORPUS, "o.h5", "--tokenizer", TOKENIZER, "--seq-len", "64", "--verify", cwd=tmp_path, check=0)
    tokfmt("convert", "o.h5", "back.jsonl", "--tokenizer", TOKENIZER, "--verify", cwd=tmp_path, check=0)
    said, back = (
        [json.loads(line)["text"] for line in p.read_bytes().splitlines()] for p in (CORPUS, tmp_path / "back.jsonl")
    )
    assert back == [text for text in said if text]


def test_lines_to_lines_stay_as_they_are(tmp_path):
    tokfmt("convert", CORPUS, "o.jsonl", "--select", "3:8", "--verify", cwd=tmp_path, check=0)
    assert (tmp_path / "o.jsonl").read_bytes().splitlines() == CORPUS.read_bytes().splitlines()[3:8]
    tokfmt("convert", CORPUS, "o.jsonl", "p.jsonl", cwd=tmp_path, check=0)
    assert (tmp_path / "p.jsonl").read_bytes() == CORPUS.read_bytes() + (tmp_path / "o.jsonl").read_bytes()


def test_one_bad_document_never_truncates_the_output(tmp_path):
    """Upstream's packer drops everything after it and exits 0."""
    lines = ['{"text": "one"}', '{"text": "two"}', '{"text": 3}', '{"text": "four"}', "{broken", '{"text": "six"}']
    (tmp_path / "c.jsonl").write_text("\n".join(lines) + "\n")
    done = tokfmt("convert", "c.jsonl", "o.pbin", "--tokenizer", TOKENIZER, cwd=tmp_path, check=3)
    assert re.search(r"c\.jsonl: .*line 3.*byte 32.*--allow-loss invalid-lines", done.stderr), done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["c.jsonl"]
    done = tokfmt(
        "convert", "c.jsonl", "o.pbin", "--tokenizer", TOKENIZER, "--allow-loss", "invalid-lines", cwd=tmp_path, check=0
    )
    assert "lost invalid-lines: 2 invalid lines" in done.stderr
    shown = json.loads(tokfmt("show", "o.pbin", ":", "--tokenizer", TOKENIZER, "--json", cwd=tmp_path, check=0).stdout)
    assert [s["text"] for s in shown["shown"]] == ["one", "two", "four", "six"]


def test_blank_lines_are_no_documents_and_counted(tmp_path):
    (tmp_path / "c.jsonl").write_text('{"text": "a"}\n\n{"text": "b"}\n  \n')
    done = tokfmt("convert", "c.jsonl", "o.pbin", "--tokenizer", TOKENIZER, cwd=tmp_path, check=0)
    assert "note: c.jsonl: blank lines, which are not documents: 2\n" in done.stderr
    manifest = json.loads((tmp_path / "o.pbin.tokfmt.json").read_text())
    assert (manifest["sequences"], manifest["losses"]) == (2, {})


def test_fields_beside_the_text_are_not_lost_silently(tmp_path):
    source = FIXTURES / "text" / "with_fields.jsonl"
    done = tokfmt("convert", source, tmp_path / "o.pbin", "--tokenizer", TOKENIZER, check=0)
    what = 'fields beside "text" of 25 records ("id" in 25, "lang" in 25; first: line 1)'
    assert f"{what} are not kept" in done.stderr
    manifest = json.loads((tmp_path / "o.pbin.tokfmt.json").read_text())
    assert what in manifest["notes"][0]
    assert manifest["losses"] == {}
    tokfmt("convert", source, tmp_path / "p.pbin", "--tokenizer", TOKENIZER, "--allow-loss", "fields", check=0)
    lost = what.replace("line 1", "line 1 of with_fields.jsonl at byte 0")
    assert json.loads((tmp_path / "p.pbin.tokfmt.json").read_text())["losses"] == {"fields": lost}
    done = tokfmt("convert", source, tmp_path / "o.jsonl", "--tokenizer", TOKENIZER, check=4)
    assert "o.jsonl: cannot store fields beside" in done.stderr
    assert "--allow-loss fields" in done.stderr


def test_several_sources_in_order(tmp_path):
    tokfmt("convert", PACK, BLOCK, tmp_path / "o.zarr", check=0)
    both = json.loads(tokfmt("show", tmp_path / "o.zarr", ":", "--json", check=0).stdout)["shown"]
    parts = [json.loads(tokfmt("show", p, ":", "--json", check=0).stdout)["shown"] for p in (PACK, BLOCK)]
    assert [s["ids"] for s in both] == [s["ids"] for part in parts for s in part]


def test_a_quoted_pattern_is_in_natural_order(tmp_path):
    for n in (1, 2, 10):
        (tmp_path / f"part-{n}.jsonl").write_text(f'{{"text": "{n}"}}\n')
    tokfmt("convert", "part-*.jsonl", "o.jsonl", cwd=tmp_path, check=0)
    assert [json.loads(line)["text"] for line in (tmp_path / "o.jsonl").read_text().splitlines()] == ["1", "2", "10"]
    done = tokfmt("convert", "none-*.jsonl", "p.jsonl", cwd=tmp_path, check=3)
    assert done.stderr == "tokfmt: error: none-*.jsonl: no file matches this pattern\n"


def test_debug_shows_where():
    done = commands.run("convert", "missing", "o.zarr", "--debug", check=3)
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1] == "tokfmt: error: missing: no such file"


def test_formats_lists_and_explains(capsys):
    listed = json.loads(tokfmt("formats", "--json", check=0).stdout)
    names = [f["name"] for f in listed["formats"]]
    assert names[:5] == ["jsonl", "modalities", "stage1", "hdf5", "flat-tokens"]
    for name in names:
        assert not cli.main(["formats", name], standalone_mode=False)  # a process each would be most of this test
        page = capsys.readouterr().out
        for facts in (f for f in listed["formats"] if f["name"] == name):
            table = facts["layout"].splitlines()
            assert len(table) > 5
            assert all(line in page for line in table), "its byte table"
            for option in facts["read_options"] + facts["write_options"]:
                assert f"{option['name']}=" in page
                assert option["help"], f"{name} {option['name']} is not documented"
    assert "what it is" in tokfmt("formats", check=0).stdout


def test_ids_are_a_line_for_each_sequence():
    ids = tokfmt("show", PACK, "0:2", "--ids", check=0)
    assert len(ids.stdout.splitlines()) == 2
    assert all(word.isdigit() for word in ids.stdout.split())


def test_text_from_a_file_cannot_reach_the_terminal(tmp_path):
    (tmp_path / "evil.jsonl").write_text(json.dumps({"text": "a\x1b]0;owned\x07b\u202ec\x9b31m"}) + "\n")
    out = tokfmt("show", "evil.jsonl", "0", cwd=tmp_path, check=0).stdout
    assert not set("\x1b\x07\u202e\x9b") & set(out)
    assert "\\x1b]0;owned" in out


def test_index(tmp_path):
    tokfmt("index", FIXTURES / "jsonl" / "corpus.jsonl", "-o", "c.idx", cwd=tmp_path, check=0)
    assert (tmp_path / "c.idx").read_bytes() == (FIXTURES / "jsonl" / "corpus.idx").read_bytes()


def test_completion():
    for shell in ("bash", "zsh", "fish"):
        assert "_TOKFMT_COMPLETE" in tokfmt("completion", shell, check=0).stdout


def examples():
    for name in ("", *COMMANDS):
        page = tokfmt(*filter(None, [name]), "--help", check=0).stdout
        found = re.findall(r"^\s+(tokfmt .+)$", page, re.MULTILINE)
        assert found, f"no example in tokfmt {name} --help"
        yield from found


@FUZZ_ONLY
@pytest.mark.slow
def test_examples_work_when_pasted(tmp_path):
    home = tmp_path / "home"
    tokfmt("demo", home, check=0)
    for line in dict.fromkeys(examples()):
        words = shlex.split(line.split(" > ")[0])[1:]
        done = tokfmt(*words, cwd=home)
        finds = words[0] == "check" and "TF107" in done.stdout  # an example of what it finds
        assert done.returncode == (1 if finds and "--explain" not in words and "--fix" not in words else 0), done.stderr


@pytest.mark.parametrize("scale", ["2T", "2TB", "2_000_000_000_000"])
def test_a_dry_run_is_scaled_to_bytes(scale, tmp_path):
    done = tokfmt(
        "convert", PACK, tmp_path / "o.bin", "--to", "megatron", "--dry-run", "--scale", scale, "--json", check=0
    )
    assert json.loads(done.stdout)["plan"]["estimate"]["scaled_to"] == 2 * 10**12


def test_readme_shows_the_two_commands():
    readme = (ROOT / "README.md").read_text()
    assert readme.index("make demo") < readme.index("make test")


STARTS = {
    "convert": [PACK, "o.zarr"], "browse": [PACK, "--screenshot", "o.svg"], "stats": [PACK], "check": [PACK],
    "diff": [PACK, PACK], "show": [PACK], "recipe": ["mix=part.jsonl:1", "--seq-len", "4", "-o", "mix.toml"],
    "index": ["part.jsonl", "-o", "part.idx"], "formats": [], "completion": ["bash"],
    "info": [PACK], "overlap": [PACK, "--with", PACK, "--by", "tokens"], "schema": [], "demo": ["sample"],
}  # fmt: skip


@pytest.mark.parametrize("command", [one if one in ("convert", "stats") else every(one) for one in COMMANDS])
def test_each_command_starts(command, tmp_path):
    """A real interpreter that has imported nothing; other tests have processes of a server that has."""
    (tmp_path / "part.jsonl").write_text('{"input_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9]}\n')
    words = [Path(sys.executable).with_name("tokfmt"), command, *STARTS[command]]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [[], ["convert"], ["stats"], ["check"], ["diff"], ["show"], ["index"], ["browse"], ["completion"], ["overlap"]],
)
def test_a_command_without_arguments_shows_its_help_as_help(words):
    """A usage error that can be read: what `--help` prints, on stderr."""
    bare = tokfmt(*words, check=2)
    assert bare.stdout == ""
    assert bare.stderr == tokfmt(*words, "--help", check=0).stdout


@pytest.mark.parametrize("command", ["convert", "stats", "check", "diff"])
@pytest.mark.parametrize("jobs", ["0", "-1", "9999", "many"])
def test_jobs_have_bounds(command, jobs, tmp_path):
    paths = {"convert": [PACK, "o.zarr"], "diff": [PACK, PACK]}.get(command, [PACK])
    done = tokfmt(command, *paths, "-j", jobs, cwd=tmp_path, check=2)
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("tokfmt: error: --jobs: ")
    assert list(tmp_path.iterdir()) == []


def test_a_prefix_is_a_dataset_to_every_command():
    """`data/my_text_document` of .bin and .idx: what Megatron-LM is told."""
    prefix = FIXTURES / "megatron" / "gpt2_text_document"
    for words in (("show", "--limit", "1"), ("show", "--raw"), ("stats",), ("check", "--deep")):
        tokfmt(*words, prefix, check=0)


def test_bytes_a_token_are_not_those_of_other_splits():
    """The size is that of the dataset; of one split of it nothing is said."""
    for path, said in ((FIXTURES / "flat-tokens" / "multi_chunk.zarr", False), (PACK, True)):
        assert (" bytes per token" in tokfmt("stats", path, check=0).stdout) is said


def test_formats_lists_a_destination_for_every_format():
    """`tokfmt formats` has no empty destination."""
    for name, said in (("mds", "--to mds"), ("levanter", "read only"), ("recipe", "read only"), ("hdf5", ".h5")):
        assert tokfmt("formats", name, check=0).stdout.splitlines()[2] == f"destinations  {said}"


@pytest.mark.parametrize("command", ["stats", "check", "show", "browse"])
def test_a_name_that_no_file_can_have(tmp_path, command):
    """Of a text, say, that somebody took for a path."""
    done = tokfmt(command, "x" * 300, cwd=tmp_path, check=3)
    assert "file name too long" in done.stdout + done.stderr


def test_a_destination_whose_manifest_has_too_long_a_name(tmp_path):
    name = "x" * 246 + ".pbin"
    assert "cannot be written: file name too long" in tokfmt("convert", PACK, name, cwd=tmp_path, check=4).stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("words", ["stats --seq-len", "show --limit", "convert out.zarr --eos", "stats --sample"])
def test_numbers_that_are_too_large(tmp_path, words):
    command, *rest = words.split()
    done = tokfmt(command, PACK, *rest, "1e20", cwd=tmp_path, check=2)
    assert "to 9,223,372,036,854,775,807, found 100,000,000,000,000,000,000" in done.stderr
    assert "1e400' is too large" in tokfmt(command, PACK, *rest, "1e400", cwd=tmp_path, check=2).stderr


AT_WORK = """
import sys, threading
import numpy as np
from tokfmt.cli.main import run

def work():
    while True:
        np.array2string(np.sort(np.unique(np.arange(1000))))

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
run(sys.argv[1:])
"""


@pytest.mark.parametrize(("words", "code"), [(["formats"], 0), (["formats", "none"], 2)])
def test_threads_that_are_still_at_work_do_not_change_the_end_of_a_command(words, code):
    """The browser's threads go on while it closes; Python 3.11 aborts (134) if it unwinds them through numpy."""
    for _ in range(3):
        done = forkserver.run([sys.executable, "-c", AT_WORK, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stderr
        assert done.stdout.count("\n") >= 17 if code == 0 else done.stderr.startswith("tokfmt: error: ")


LIMITED = """
import concurrent.futures, sys
from tokfmt.cli.main import run

def refused(self):
    raise {error}

concurrent.futures.ThreadPoolExecutor._adjust_thread_count = refused
run(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ('RuntimeError("can\'t start new thread")', "cannot start another thread: memory or processes are limited"),
        ("MemoryError()", "out of memory"),
        ('OSError(12, "Cannot allocate memory")', "out of memory"),
        ('ImportError("libx.so: failed to map segment from shared object")', "out of memory"),
    ],
)
@pytest.mark.parametrize("words", [["check", "--deep", str(PACK)], ["convert", str(PACK), "o.zarr", "-j", "4"]])
def test_out_of_memory_is_one_line_and_not_a_bug(tmp_path, error, says, words):
    """With `ulimit -v`, a command prints one line and leaves no file."""
    script = [sys.executable, "-c", LIMITED.replace("{error}", error), *words]
    done = forkserver.run(script, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, len(done.stderr.splitlines())) == (4, 1), done.stderr
    assert says in done.stderr or "o.zarr: cannot be written: cannot allocate memory" in done.stderr
    assert list(tmp_path.iterdir()) == []
