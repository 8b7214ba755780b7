"""What commands print: stdout, stderr and exit code, kept in snapshots/.

`SNAPSHOTS=renew pytest tests/cli/test_snapshots.py` writes them again. Read each line that changed before you commit it.
Times, versions of other packages and addresses of this machine are masked.
"""

import difflib
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from paths import FIXTURES

from tokfmt.cli.main import COMMANDS, cli
from tokfmt.errors import TokfmtError

KEPT = Path(__file__).with_name("snapshots")
INFO = (
    "modalities/D_2byte_gpt2.pbin", "stage1/blocks", "flat-tokens/multi_chunk.zarr", "hdf5/padded_eos", "jsonl/crlf.jsonl",
    "megatron/gpt2_text_document.bin", "llmc/fineweb_val_000000.bin", "nanogpt/openwebtext", "olmo/core-00000.npy", "array/cu_pair", "internevo/sft", "litgpt-packed/llama3_int32", "webdataset/tokshuf_rs", "tfrecord/maxtext_packed.tfrecord", "arrayrecord/example_inputs.array_record",
    "datatrove/00001_unshuffled.ds", "litdata/torch_int32", "mds/packed256_static", "levanter/cache_uint32",
    "parquet/int32.parquet", "parquet/save_to_disk", "text/corpus.jsonl",
)  # fmt: skip
LINES = {
    **{f"help of {name}": f"{name} --help" for name in sorted(COMMANDS)},
    "help": "--help",
    "all help of convert": "convert --help-all",
    "formats": "formats",
    **{f"formats {name}": f"formats {name}" for name in ("modalities", "hdf5", "parquet", "jsonl", "flat-tokens")},
    "formats json": "formats --json",
    "every finding explained": "check --explain all",
    "a finding explained": "check --explain TF103",
    **{f"info of {path.replace('/', ' ')}": f"info fixtures/{path}" for path in INFO},
    "info json": "info corpus.pbin --json",
    "info of a recipe": "info mix.toml",
    "info of a folder": "info sample",
    "info of a merged pack": "info sample/merged.pbin",
    "stats": "stats corpus.pbin --tokenizer sample/tokenizer",
    "stats json": "stats corpus.pbin --tokenizer sample/tokenizer --seq-len 128 --json",
    "stats of several": "stats corpus.pbin short.pbin --seq-len 128",
    "stats of text": "stats sample/corpus.jsonl",
    "stats of samples": "stats fixtures/hdf5/padded_eos",
    "stats of samples json": "stats fixtures/hdf5/padded_eos --json",
    "show raw of a folder of parts": "show fixtures/litdata/torch_int32 --raw",
    "stats of a recipe": "stats mix.toml",
    "stats, a sample of them": "stats corpus.pbin --sample 20 --seed 3",
    "stats, expectations": "stats corpus.pbin --expect 'tokens > 1e6' --expect 'max_id < 50257'",
    "stats page": "stats corpus.pbin --tokenizer sample/tokenizer --html page.html",
    "stats of nothing": "stats nowhere.pbin",
    "check": "check corpus.pbin sample/merged.pbin",
    "check in depth": "check --deep corpus.pbin sample/merged.pbin sample/messy.jsonl",
    "check json": "check sample/merged.pbin --json",
    "check against": "check short.pbin --against sample/corpus.jsonl --tokenizer sample/tokenizer",
    "check with a tokenizer": "check corpus.pbin --tokenizer other",
    "show": "show corpus.pbin 3:5 --tokenizer sample/tokenizer",
    "show ids": "show corpus.pbin 3 --ids",
    "show text": "show sample/corpus.jsonl 0:3 --text",
    "show json": "show corpus.pbin 3 --tokenizer sample/tokenizer --json",
    "show raw": "show corpus.pbin --raw",
    "show by the tokenizer of the manifest": "show corpus.pbin 3",
    "show text by the tokenizer of the manifest": "show corpus.pbin 3 --text",
    "show raw of a store": "show fixtures/flat-tokens/multi_chunk.zarr --raw",
    "show raw of blocks": "show fixtures/stage1/blocks --raw",
    "show raw of blocks with a gap": "show fixtures/bad/stage1/gap --raw",
    "show raw of a pair": "show fixtures/megatron/gpt2_text_document.bin --raw",
    "show raw of a table": "show fixtures/parquet/int32.parquet --raw",
    "show raw of a folder": "show fixtures/mds/packed256_static --raw",
    "show raw json": "show fixtures/hdf5/padded_eos --raw --json",
    "show raw of lines": "show sample/messy.jsonl --raw",
    "show samples": "show fixtures/hdf5/padded_eos 0:2 --samples",
    "show samples json": "show fixtures/hdf5/padded_eos 1 --samples --json",
    "show a step": "show mix.toml --step 1 --batch-size 2",
    "show samples of a recipe": "show mix.toml 5 --tokenizer sample/tokenizer",
    "show random": "show corpus.pbin random:2 --seed 1 --ids",
    "diff of equal ones": "diff corpus.pbin corpus.pbin",
    "diff": "diff sample/corpus.jsonl changed.jsonl",
    "diff of tokens": "diff corpus.pbin changed.jsonl --tokenizer sample/tokenizer",
    "diff json": "diff corpus.pbin short.pbin --json",
    "diff of samples": "diff fixtures/hdf5/packed_overlap fixtures/hdf5/shuffled --samples",
    "diff in any order": "diff corpus.pbin short.pbin --ignore-order",
    "overlap": "overlap sample/corpus.jsonl --with sample/more.jsonl --ngram 20",
    "overlap of tokens json": "overlap corpus.pbin --with short.pbin --by tokens --ngram 200 --json",
    "overlap, a field that lacks": "overlap sample/corpus.jsonl --with sample/more.jsonl --field question",
    "overlap, expectations": "overlap corpus.pbin --with sample/more.jsonl --expect 'max_share < 1%' --quiet",
    "recipe": "recipe corpus.pbin short.pbin --seq-len 128",
    "recipe explained": "recipe web=corpus.pbin:0.7 books=short.pbin:0.3 --seq-len 128 --shuffle samples --explain",
    "convert, dry run": "convert corpus.pbin out.zarr --dry-run",
    "convert, dry run json": "convert sample/corpus.jsonl out.h5 --seq-len 128 --tokenizer sample/tokenizer --dry-run --json",
    "convert without a separator": "convert fixtures/stage1/blocks out.jsonl --dry-run",
    "convert, losses": "convert sample/messy.jsonl out.pbin --tokenizer sample/tokenizer",
    "convert, no tokenizer": "convert sample/corpus.jsonl out.pbin",
    "convert to nothing known": "convert corpus.pbin out.xyz",
    "convert of a merged pack": "convert sample/merged.pbin out.zarr --eos 50256",
    "a mistyped option": "stats corpus.pbin --expct 1",
    "a mistyped command": "chek corpus.pbin",
    "a mistyped format": "stats corpus.pbin --from modalites",
    "schema": "schema index",
    "completion": "completion bash",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    from builder import screens

    home = tmp_path_factory.mktemp("commands")
    screens.prepare(home)
    (home / "fixtures").symlink_to(FIXTURES)
    return home


def masked(text):
    """Without what differs from run to run."""
    text = re.sub(r"\b\d+(\.\d+)? (ms|s)\b", "TIME", text)
    text = re.sub(
        r'("(?:seconds|cpu_seconds|measured_seconds|elapsed|time|tokens_per_second)": )[\d.e-]+', r"\1TIME", text
    )
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?", "DATE", text)
    text = re.sub(
        r'[\d.]+ .?B free|(?<=runs in) .*|(?<="free_bytes": )\d+|(?<="memory_bytes": )\d+|(?<="jobs": )\d+|(?<=, under a second with ).*',
        "THIS MACHINE",
        text,
    )
    # compressed sizes depend on the version of a compressor, and on the CPU
    text = re.sub(r'(?<="size_bytes": )\d+(?=,\s+"scratch_bytes")|[\d.]+ .?B(?= in out\.(zarr|h5))', "COMPRESSED", text)
    # click remembers the names of the first call, which may have been of a command alone
    text = re.sub(r"(-h, )?--help +Show", "--help  Show", text)
    text = text.replace(str(FIXTURES), "fixtures")
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("name", LINES)
def test_a_command_prints_what_was_kept(name, home, monkeypatch):
    monkeypatch.chdir(home)
    for variable, value in {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    done = CliRunner().invoke(cli, shlex.split(LINES[name]), prog_name="tokfmt")
    ended = f"{type(done.exception).__name__}: {done.exception}" if isinstance(done.exception, TokfmtError) else ""
    assert ended or isinstance(done.exception, SystemExit | None), done.exception
    parts = {"stdout": done.stdout, "stderr": done.stderr, "error": ended, "exit code": str(done.exit_code)}
    found = [f"$ tokfmt {LINES[name]}"]
    for part, text in parts.items():
        if text:
            found += [f"--- {part}", *masked(text.replace(str(home), "HOME")).splitlines()]
    if name == "stats page":
        found += ["--- page.html", *masked((home / "page.html").read_text()).splitlines()]
    kept = KEPT / f"{name}.txt"
    if os.environ.get("SNAPSHOTS") == "renew":
        kept.write_text("\n".join(found) + "\n")
    changed = list(difflib.unified_diff(kept.read_text().splitlines(), found, kept.name, "now", lineterm=""))
    assert not changed, "\n".join(changed)


def test_every_snapshot_is_of_a_command():
    assert {path.stem for path in KEPT.iterdir()} == set(LINES)
