"""`tokfmt show` and `tokfmt diff` as people and pipes meet them."""

import fcntl
import json
import os
import pickle
import pty
import re
import shutil
import socket
import struct
import subprocess
import sys
import termios
from pathlib import Path

import commands
import forkserver
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amount import FUZZ_ONLY
from click.testing import CliRunner
from paths import CORPUS, FIXTURES, TOKENIZER
from peak import peak_of
from xxhash import xxh3_128_hexdigest

import tokfmt as package
from tokfmt.cli.main import cli

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


@FUZZ_ONLY
def test_pipes_that_close_early():
    for words in ("show PACK :", "show PACK : --json", "show PACK len>0 --limit 0 --ids", "diff PACK OTHER"):
        line = words.replace("PACK", str(PACK)).replace("OTHER", str(PACK.with_name("D_2byte_gpt2_filtered_mod3.pbin")))
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m tokfmt {line.replace('>', chr(92) + '>')} | head -c 1"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert len(done.stdout) == 1
        assert "Traceback" not in done.stderr
        assert "Broken" not in done.stderr
        assert "error" not in done.stderr


def test_ids_of_text_need_a_tokenizer():
    refused = CliRunner().invoke(cli, ["show", str(CORPUS), "0", "--ids"])
    assert refused.exit_code == 2
    assert "--ids needs a tokenizer" in refused.stderr
    shown = CliRunner().invoke(cli, ["show", str(CORPUS), "0", "--ids", "--tokenizer", str(TOKENIZER)])
    assert shown.stdout.split()[0].isdigit()


def tokfmt(*words, check=0):
    return commands.run(*words, check=check)


def shown(*words):
    return json.loads(tokfmt("show", *words, "--json").stdout)["shown"]


@pytest.fixture(scope="module")
def pack():
    return [s["ids"] for s in shown(PACK, ":")]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("show") / "corpus.pbin"
    tokfmt("convert", CORPUS, path, "--tokenizer", TOKENIZER, "-q")
    return path, [json.loads(line)["text"] for line in CORPUS.read_text().splitlines()]


def write_pack(path, tokens, sequences):
    """A pack written by hand: `tokens` may be a number of zeros, which take no place on the disk."""
    count = tokens if isinstance(tokens, int) else len(tokens)
    with open(path, "wb") as file:
        file.write(struct.pack("<QI", 2 * count, 2))
        if not isinstance(tokens, int):
            file.write(np.asarray(tokens, "<u2").tobytes())
        file.seek(12 + 2 * count)
        file.write(pickle.dumps(sequences))
    return path


def on_a_terminal(*words, columns=80, **asked):
    """What a person sees, and the exit code; `asked`: variables of the environment."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    unset = ("NO_COLOR", "COLUMNS", "LINES")  # a worker of pytest has the last two, which outweigh a terminal
    env = {key: value for key, value in os.environ.items() if key not in unset} | asked
    child = forkserver.Popen([sys.executable, "-m", "tokfmt", *map(str, words)], stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(ours)
    return seen.decode().replace("\r\n", "\n"), child.wait()


def test_a_terminal_that_wants_no_colours():
    for asked in ({"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": ""}):  # an empty one asks for nothing
        assert "\x1b[" in on_a_terminal("show", PACK, "0", **asked)[0]
    for asked in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b[" not in on_a_terminal("show", PACK, "0", **asked)[0]


def test_selections(pack):
    n = len(pack)
    for words, numbers in (
        (["5"], [5]),
        (["-1"], [n - 1]),
        (["-3:"], [n - 3, n - 2, n - 1]),
        (["0:2"], [0, 1]),
        ([], list(range(5))),
        (["0:10", "--limit", "2"], [0, 1]),
        (["len==0"], [i for i, s in enumerate(pack) if not s]),
        (["len>100", "--limit", "0"], [i for i, s in enumerate(pack) if len(s) > 100]),
        (["10<len<=23", "--limit", "0"], [i for i, s in enumerate(pack) if 10 < len(s) <= 23]),
        (["token:13", "--limit", "0"], [i for i, s in enumerate(pack) if 13 in s]),
        (["token:50256"], [i for i, s in enumerate(pack) if 50256 in s]),
    ):
        found = shown(PACK, *words)
        assert [s["index"] for s in found] == numbers, words
        assert [s["ids"] for s in found] == [pack[i] for i in numbers]
    [one] = shown(PACK, "token:464,2068")
    assert one["ids"][slice(*one["found"])] == [464, 2068]


def test_random_is_the_same_again(pack):
    one = [s["index"] for s in shown(PACK, "random:5", "--seed", "1")]
    assert one == [s["index"] for s in shown(PACK, "random:5", "--seed", "1")]
    assert len(set(one)) == 5
    assert one == sorted(one)
    assert one != [s["index"] for s in shown(PACK, "random:5", "--seed", "2")]
    assert [s["index"] for s in shown(PACK, "random:1000")] == list(range(len(pack)))


def test_samples_are_searched():
    path = FIXTURES / "hdf5" / "padded_eos"
    padding = {sample["index"]: sample["padding"] for sample in shown(path, "0:94", "--samples")}
    searched = shown(path, "padding>20", "--samples", "--limit", "0")
    assert [sample["index"] for sample in searched] == [index for index, count in padding.items() if count > 20]


def test_text_is_searched_in_ids_and_in_records(corpus):
    path, texts = corpus
    for pattern in ("smoke", "(?i)THE END|morning", "é", r"\d,\d", "морем|Salt"):
        wanted = [(i, *re.search(pattern, t).span()) for i, t in enumerate(texts) if re.search(pattern, t)]
        records = shown(CORPUS, f"regex:{pattern}", "--limit", "0")
        assert [(s["index"], *s["found"]) for s in records] == wanted
        ids = shown(path, f"regex:'{pattern}'", "--tokenizer", TOKENIZER, "--limit", "0")
        assert [s["index"] for s in ids] == [i for i, *_ in wanted]
        assert [s["text"] for s in ids] == [texts[i] for i, *_ in wanted]
        assert all(s["found"][0] < s["found"][1] <= s["length"] for s in ids)
    for words in ("f(x) =", "3.14", "$\\int_0^1"):
        wanted = [i for i, text in enumerate(texts) if words in text]
        assert [s["index"] for s in shown(CORPUS, f"text:{words}", "--limit", "0")] == wanted
        assert [s["index"] for s in shown(path, f"text:{words}", "--tokenizer", TOKENIZER, "--limit", "0")] == wanted
    long = shown(CORPUS, "len>1000", "--limit", "0")
    assert [s["index"] for s in long] == [i for i, t in enumerate(texts) if len(t) > 1000]


def test_limit_is_noted():
    done = tokfmt("show", PACK, "len>0")
    assert "stopped after 10" in done.stderr
    assert len(re.findall(r"^#", done.stdout, re.MULTILINE)) == 10
    assert "stopped" not in tokfmt("show", PACK, "0:10").stderr
    assert "nothing found" in tokfmt("show", PACK, "token:49999").stderr


@pytest.mark.parametrize(("limit", "count", "stopped"), [((), None, None), (("--limit", "7"), 7, 7)])
def test_documents_and_python_stop_only_at_a_limit(pack, limit, count, stopped):
    every = [i for i, ids in enumerate(pack) if len(ids)]
    document = json.loads(tokfmt("show", PACK, "len>0", "--json", *limit).stdout)
    assert [one["index"] for one in document["shown"]] == every[:count]
    assert document["stopped_after"] == stopped
    assert [one.index for one in package.show(PACK, "len>0", limit=count).shown] == every[:count]


@pytest.mark.parametrize(("first", "before"), [(0, 2), (2, 0)])
def test_a_sequence_that_cannot_be_read_leaves_one_document(tmp_path, first, before):
    (tmp_path / "t.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text": "c\n{"text": "d"}\n')
    done = tokfmt("show", tmp_path / "t.jsonl", f"{first}:9", "--json", "--tokenizer", TOKENIZER, check=3)
    document = json.loads(done.stdout)
    assert [one["text"] for one in document.get("shown", ())] == ["a", "b"][:before]
    assert document["error"]["exit_code"] == 3
    assert document["error"]["offset"] == 28 + len('{"text": ')


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tokn:5"], "Did you mean token?"),
        (["randm:5"], "Did you mean random:5?"),
        (["lenght>4"], "Did you mean len?"),
        (["1e400"], "expected A:B"),
        (["len>1e400"], "is too large (expected less than 1e21)"),
        (["text:a"], "--tokenizer"),
        (["regex:("], "not a regular expression"),
        (["random:x"], "not a whole number"),
        (["random:5", "--seed", "-1"], "expected a whole number"),
        (["5", "--limit", "-1"], "--limit"),
    ],
)
def test_errors(words, said):
    done = tokfmt("show", PACK, *words, check=2)
    assert said in done.stderr
    assert done.stderr.count("tokfmt: error:") == 1
    assert not done.stdout


def test_ids_in_text_without_a_tokenizer():
    assert "--tokenizer" in tokfmt("show", CORPUS, "token:5", check=2).stderr


def test_text_of_formats_that_hold_text_or_ids(tmp_path):
    """Text is shown without a tokenizer. IDs need one, which the manifest of the dataset may name."""
    texts, ids, columns = tmp_path / "texts.jsonl", tmp_path / "ids.jsonl", tmp_path / "texts.parquet"
    texts.write_text('{"text": "hello world"}\n{"text": "bye"}\n')
    pq.write_table(pa.table({"text": ["hello world", "bye"]}), columns)
    for path in (texts, columns):
        assert tokfmt("show", path, "--text").stdout == "hello world\nbye\n"
    tokfmt("convert", texts, ids, "--tokenizer", TOKENIZER)
    assert tokfmt("show", ids, "--text").stdout == "hello world\nbye\n"
    assert (
        "--text needs a tokenizer. Add --tokenizer"
        in tokfmt("show", ids, "--text", "--ignore-manifest", check=2).stderr
    )


def test_ids_without_text_are_shown_as_ids(tmp_path):
    tokens = [4000, 65000, 222]  # the last is half a character
    path = write_pack(tmp_path / "x.pbin", tokens, [(0, 6)])
    [one] = shown(path, "0", "--tokenizer", TOKENIZER, "--eos", "none")
    assert "⟨65000⟩" in one["text"]
    assert re.search(r"\\x[89a-f][0-9a-f]$", one["text"])
    assert "\ufffd" not in one["text"]


def test_a_terminal_shows_the_hit_in_its_place(corpus):
    path, texts = corpus
    seen, code = on_a_terminal("show", path, "text:smoke", "--tokenizer", TOKENIZER, "--limit", "1")
    assert code == 0
    assert re.search(r"\x1b\[7m ?smoke\x1b\[0m", seen)
    assert "(+" in seen
    assert "--full" in seen
    plain = re.sub(r"\x1b\[[\d;]*m", "", seen)
    assert max(map(len, plain.split("\n")[1:])) < 80 * 4
    whole, _ = on_a_terminal("show", path, "11", "--tokenizer", TOKENIZER, "--full", "--text")
    assert texts[11] in whole


@pytest.mark.parametrize("columns", [23, 80])
def test_a_terminal_breaks_lines_between_ids(pack, columns):
    seen, code = on_a_terminal("show", PACK, "11", "--ids", "--full", "-q", columns=columns)
    lines = re.sub(r"\x1b\[[\d;]*m", "", seen).splitlines()
    assert (code, max(map(len, lines)) <= columns, len(lines) > 40) == (0, True, True)
    assert [int(word) for line in lines for word in line.split()] == pack[11]


def test_a_giant_sequence_is_cut_and_not_read_whole(tmp_path):
    """Three billion tokens in a sparse file: to read all takes far longer than the time allowed."""
    path = write_pack(tmp_path / "giant.pbin", 3_000_000_000, [(0, 6_000_000_000)])
    seen, code = on_a_terminal("show", path, "0", "--eos", "none")
    assert code == 0
    assert re.search(r"… \(\+2,999,999,\d{3} tokens; --full\)", seen)
    assert len(seen) < 2000
    done = forkserver.Popen(
        [sys.executable, "-m", "tokfmt", "show", path, "0", "--full", "--ids", "--eos", "none"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert done.stdout.read(1000) == b"0 " * 500
    done.stdout.close()
    assert done.wait(timeout=60) == 0
    said = done.stderr.read().decode()
    done.stderr.close()
    assert "Traceback" not in said
    assert "Broken" not in said


@FUZZ_ONLY
def test_a_long_sequence_in_a_document_is_not_held(tmp_path):
    """36 MB of JSON."""
    peaks = []
    for tokens in (12, 12_000_000):
        path = write_pack(tmp_path / f"{tokens}.pbin", tokens, [(0, 2 * tokens)])
        peak, printed = peak_of(["show", path, "0", "--json", "--eos", "none"], tmp_path)
        assert len(json.loads(printed)["shown"][0]["ids"]) == tokens
        peaks.append(peak)
    assert peaks[1] < peaks[0] + (24 << 20)


def test_diff_in_words_and_json():
    same = PACK.with_name("synthetic_D_2byte_proto2.pbin")
    eos = ("--eos", "50256")
    done = tokfmt("diff", PACK, same, *eos)
    assert done.stdout == "identical: 42 sequences, 2,004 tokens\n"
    other = PACK.with_name("D_2byte_gpt2_filtered_mod3.pbin")
    done = tokfmt("diff", PACK, other, *eos, "--limit", "2", check=1)
    assert done.stdout.splitlines()[0] == "different: 28 only in A; 14 sequences alike"
    assert "first: sequence 1 of A is missing in B" in done.stdout
    assert "… and 26 more" in done.stdout
    report = json.loads(tokfmt("diff", PACK, other, *eos, "--json", check=1).stdout)
    assert report["schema"] == "tokfmt.diff/1"
    assert (report["identical"], report["same"], report["counts"]) == (False, 14, {"only_in_a": 28})
    assert report["first"]["a"]["sequence"] == 1
    done = tokfmt("diff", PACK, other, *eos, "--ignore-order", check=1)
    assert "only in A: sequences 1, 2, 4, 5, 7, 8, 10, 11, 13, 14 …" in done.stdout


def test_diff_shows_both_values(tmp_path):
    one = write_pack(tmp_path / "a.pbin", [1, 2, 3, 9, 4, 9], [(0, 8), (8, 4)])
    two = write_pack(tmp_path / "b.pbin", [1, 7, 3, 9, 4, 9], [(0, 8), (8, 4)])
    done = tokfmt("diff", one, two, "--eos", "9", "-q", check=1)
    assert "first: sequence 0 differs\n  at token 1: 2 in A, 7 in B\n" in done.stdout
    assert "A 0: 1 [2] 3  (3 tokens)" in done.stdout
    assert "B 0: 1 [7] 3  (3 tokens)" in done.stdout
    with_text = tokfmt("diff", one, two, "--tokenizer", TOKENIZER, "--eos", "9", "-q", check=1)
    assert len(with_text.stdout.splitlines()) == 7
    assert "expected a whole number from 1 to 1,024, found 0" in tokfmt("diff", one, two, "--jobs", "0", check=2).stderr
    assert "no such file" in tokfmt("diff", one, tmp_path / "none", check=3).stderr


def test_diff_puts_neighbors_together(tmp_path):
    """Texts that are missing, or differ, one after the other are one line."""

    def put(name, words):
        (tmp_path / name).write_text("".join(json.dumps({"text": word}) + "\n" for word in words))
        return tmp_path / name

    words = [f"number {i}" for i in range(30)]
    whole = put("a.jsonl", words)
    fewer = put("b.jsonl", words[:4] + words[9:20] + words[21:])
    said = tokfmt("diff", whole, fewer, "-q", check=1).stdout
    assert "first: text 4 of A is missing in B\n" in said
    assert "then texts 5 to 8 of A are missing in B\nthen text 20 of A is missing in B\n" in said
    assert "then texts 5 to 8 of B are missing in A\n" in tokfmt("diff", fewer, whole, "-q", check=1).stdout
    other = put("c.jsonl", [word.upper() if i in (1, 6, 7, 8, 20) else word for i, word in enumerate(words)])
    said = tokfmt("diff", whole, other, "-q", check=1).stdout
    for k in (6, 7, 8, 20):  # Of what changed, both versions are printed.
        assert f"then text {k} differs\n" in said
        assert f"    number {k}\n" in said
        assert f"    NUMBER {k}\n" in said


def test_origins(tmp_path):
    """From which line of which file; as JSON too. What has no ledger says how to get one."""
    tokfmt("convert", FIXTURES / "recipe" / "prepare.toml", tmp_path / "a.pbin", "--ledger", "-q")
    lines = CORPUS.read_bytes().splitlines(keepends=True)
    told = shown(tmp_path / "a.pbin", "3", "--origin")[0]["origins"][0]
    assert lines[told["line"] - 1] == CORPUS.read_bytes()[told["byte_offset"] :].splitlines(keepends=True)[0]
    done = tokfmt("show", tmp_path / "a.pbin", "3", "--origin")
    assert f"  from corpus record {told['record']}, 0 to {told['stop']}  " in done.stdout
    assert f"corpus.jsonl, line {told['line']:,}, at byte {told['byte_offset']:,}\n" in done.stdout
    assert "has no ledger" in tokfmt("show", PACK, "3", "--origin", check=3).stderr
    for words in (["--raw"], ["--samples"]):
        said = tokfmt("show", tmp_path / "a.pbin", "--origin", *words, check=2).stderr
        assert f"Leave {words[0]} out" in " ".join(said.split())
    assert (
        "--ledger"
        in tokfmt("convert", CORPUS, tmp_path / "b.pbin", "--ledger", "--tokenizer", TOKENIZER, check=2).stderr
    )


def test_text_with_the_tokenizer_that_the_manifest_names(tmp_path, monkeypatch):
    """Where it is on this machine and is the same; nobody asks the network for a name that stands in a file."""
    path = tmp_path / "x.pbin"
    tokfmt("convert", CORPUS, path, "--tokenizer", TOKENIZER)
    told = tokfmt("show", path, "3", "--text")
    assert told.stdout == tokfmt("show", path, "3", "--text", "--tokenizer", TOKENIZER).stdout
    assert f"note: tokenizer {TOKENIZER}, by the manifest of x.pbin" in told.stderr
    assert "by the manifest" not in tokfmt("show", path, "3", "--text", "--quiet").stderr
    manifest = Path(f"{path}.tokfmt.json")
    said = json.loads(manifest.read_text())

    def named(name, check):
        found = {key: value for key, value in said["tokenizer"].items() if key != "path"}
        manifest.write_text(json.dumps({**said, "tokenizer": {**found, "name": name}}))
        return tokfmt("show", path, "3", "--text", check=check).stderr

    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("asks the network"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    for name in ("some/thing", "/no/such/place", "a b c"):
        digest = said["tokenizer"]["digest"][:8]
        looked = f"which is not at {name}" if os.path.isabs(name) else f"which is not at {name} or {tmp_path / name}"
        expected = f"--text needs a tokenizer: the manifest names {name} with digest {digest}, {looked}"
        assert expected in named(name, 2)
    shutil.copytree(TOKENIZER, tmp_path / "beside")
    named("beside", 0)
    content = json.loads((TOKENIZER / "tokenizer.json").read_text())
    content["added_tokens"][0]["content"] = "<other>"
    (tmp_path / "beside" / "tokenizer.json").write_text(json.dumps(content))
    other = xxh3_128_hexdigest((tmp_path / "beside" / "tokenizer.json").read_bytes())[:8]
    assert f"and {tmp_path / 'beside'} is another file (digest {other})" in named("beside", 2)
    assert (
        "was made with another tokenizer, by its manifest"
        in tokfmt("show", path, "3", "--text", "--tokenizer", tmp_path / "beside", check=4).stderr
    )


def test_the_tokenizer_of_a_manifest_is_found_from_anywhere(tmp_path, monkeypatch):
    """By its path from the manifest: from another directory, after all was moved, and of what was made of it."""
    shutil.copytree(TOKENIZER, tmp_path / "one" / "in")
    monkeypatch.chdir(tmp_path / "one")
    (tmp_path / "one" / "out").mkdir()
    tokfmt("convert", CORPUS, "out/x.pbin", "--tokenizer", "in/tokenizer.json")
    tokfmt("convert", "out/x.pbin", "y.zarr")
    for name, place in (("out/x.pbin", "../in/tokenizer.json"), ("y.zarr", "in/tokenizer.json")):
        made = json.loads(Path(f"{name}.tokfmt.json").read_text())["tokenizer"]
        assert (made["name"], made["path"]) == ("in/tokenizer.json", place)
    (tmp_path / "one").rename(tmp_path / "two")
    monkeypatch.chdir(tmp_path)
    wanted = tokfmt("show", "two/out/x.pbin", "3", "--text", "--tokenizer", TOKENIZER).stdout
    for place in ("two/out/x.pbin", "two/y.zarr"):
        told = tokfmt("show", place, "3", "--text")
        assert told.stdout == wanted
        assert "two/in/tokenizer.json, by the manifest of" in told.stderr
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "tokenizer.json").write_text("{}")  # another file where the name leads to
    assert tokfmt("show", "two/y.zarr", "3", "--text").stdout == wanted
    (tmp_path / "two" / "in" / "tokenizer.json").unlink()
    why = tokfmt("show", "two/y.zarr", "3", "--text", check=2).stderr
    assert "and in/tokenizer.json is another file (digest dc7048f8)" in why


def test_raw_on_a_terminal_fits_and_keeps_colors_apart():
    seen, code = on_a_terminal("show", PACK, "--raw", NO_COLOR="1")
    assert code == 0
    plain = re.sub(r"\x1b\[[\d;]*m", "", seen)
    assert "data length" in plain and max(map(len, plain.splitlines())) <= 80
