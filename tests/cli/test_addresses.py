"""Addresses: refused as destinations, and as sources if no store has their scheme, in the same words everywhere."""

import pytest
from amount import FUZZ_ONLY
from commands import run
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.errors import OptionError

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
MERGED = FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin"
RECIPE = """tokfmt = 1
tokenizer = "{tokenizer}"
[[source]]
path = "text.jsonl"
filter = "garbage"
"""
DESTINATIONS = {
    "convert": ["convert", PACK, "{}out.pbin"],
    "convert --dry-run": ["convert", PACK, "{}out.pbin", "--dry-run"],
    "convert --task": ["convert", PACK, "{}out.pbin", "--task", "0/2"],
    "convert --finish": ["convert", "--finish", "{}out.pbin"],
    "convert --split": ["convert", PACK, "{}out.pbin", "--split", "train=0.5,validation=0.5", "--eos", "50256"],
    "convert, a directory": ["convert", PACK, "{}out", "--to", "stage1", "--eos", "50256"],
    "convert --rejects": ["convert", "mix.toml", "out.pbin", "--rejects", "{}rejects.jsonl"],
    "check --fix": ["check", MERGED, "--fix", "{}out.pbin"],
    "stats --html": ["stats", PACK, "--html", "{}page.html"],
    "stats --plot": ["stats", PACK, "--plot", "{}plot.svg"],
    "overlap --list": ["overlap", PACK, "--with", PACK, "--by", "tokens", "--list", "{}list.jsonl"],
    "index -o": ["index", "text.jsonl", "-o", "{}text.idx"],
    "browse --screenshot": ["browse", PACK, "--screenshot", "{}screen.svg"],
}  # fmt: skip
SOURCES = {
    "convert": ["convert", "{}x.pbin", "out.pbin"],
    "check": ["check", "{}x.pbin"],
    "check --against": ["check", PACK, "--against", "{}x.jsonl"],
    "stats": ["stats", "{}x.pbin"],
    "stats --baseline": ["stats", PACK, "--baseline", "{}old.json"],
    "show": ["show", "{}x.pbin"],
    "diff": ["diff", PACK, "{}x.pbin"],
    "browse": ["browse", "{}x.pbin"],
    "index": ["index", "{}x.jsonl"],
    "overlap": ["overlap", PACK, "--with", "{}x.jsonl"],
}  # fmt: skip
STORES = ["s3://bucket/", "gs://bucket/", "hf://datasets/org/", "https://host/"]
UNKNOWN = ["ftp://host/", "oci://bucket/"]
READ_ONLY = ["hf://datasets/org/", "https://host/", "ftp://host/"]


@pytest.fixture
def home(tmp_path):
    (tmp_path / "text.jsonl").write_text('{"text": "a b"}\n')
    (tmp_path / "mix.toml").write_text(RECIPE.format(tokenizer=TOKENIZER))
    for store in [*STORES, *UNKNOWN]:  # what the address is as a path
        (tmp_path / store).mkdir(parents=True)
    return tmp_path


def refusals(commands, home, stores, words):
    held = sorted(home.rglob("*"))
    for number, (name, command) in enumerate(commands.items()):
        for store in [stores[number % len(stores)], stores[0]]:
            ended = run(*(str(word).replace("{}", store) for word in command), cwd=home)
            (address,) = (str(word).replace("{}", store) for word in command if "{}" in str(word))
            line = f"tokfmt: error: {address}: {words.format(scheme=address.partition(':')[0])}\n"
            assert (ended.returncode, ended.stderr.replace("out.train.pbin", "out.pbin")) == (2, line), name
    assert sorted(home.rglob("*")) == held


@FUZZ_ONLY
def test_destinations(home):
    """Also where a directory of that name is, which an absolute path means."""
    for store, remedy in zip(READ_ONLY, (", then run hf upload", ", and upload it", ", and upload it"), strict=True):
        words = f"the scheme {{scheme}} is not written (expected s3, gs or az). Write to a local path{remedy}"
        some = dict(list(DESTINATIONS.items())[READ_ONLY.index(store) :: 3])
        refusals(some, home, [store], words)
    run("convert", PACK, f"{home}/s3:/bucket/out.pbin", cwd=home, check=0)
    assert (home / "s3:" / "bucket" / "out.pbin").is_file()


@FUZZ_ONLY
def test_sources(home):
    known = "az, gs, hf, http, https, s3"
    words = f"the scheme {{scheme}} is not read (expected {known}). Download or mount it first"
    refusals(SOURCES, home, UNKNOWN, words)


def test_in_python(home, monkeypatch):
    monkeypatch.chdir(home)
    with pytest.raises(OptionError, match="^hf://bucket/out.pbin: the scheme hf is not written"):
        tokfmt.convert(PACK, "hf://bucket/out.pbin")
    refused = run("index", home / "text.jsonl", "-o", "oci://bucket/x.idx", check=2)
    assert "oci://bucket/x.idx: the scheme oci is not written" in refused.stderr
    with pytest.raises(OptionError, match="^oci://bucket/x.pbin: the scheme oci is not read"):
        tokfmt.open("oci://bucket/x.pbin")
