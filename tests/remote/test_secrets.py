"""No command leaves a key, a token, a password or a signature in what it prints or writes."""

import json
import os
import pickle
import shutil
import subprocess
import sys

import forkserver
import processes
import pytest
from amount import FUZZ_ONLY
from paths import FIXTURES, ROOT
from stores import close_stores

import tokfmt

PACK = "modalities/D_2byte_gpt2.pbin"
PLANTED = {
    "AWS_ACCESS_KEY_ID": "PLANTEDKEY", "AWS_SECRET_ACCESS_KEY": "planted-secret", "AWS_SESSION_TOKEN": "planted-session",
    "AZURE_STORAGE_SAS_TOKEN": "sig=planted-azure",
}  # fmt: skip
COMMANDS = {
    "stats": ["stats", "{0}", "--json"],
    "stats of many": ["stats", "{0}", "{1}", "--html", "{out}/page.html", "--plot", "{out}/plot.svg"],
    "show": ["show", "{0}", "5", "--ids"],
    "show raw": ["show", "{0}", "--raw", "--verbose"],
    "check": ["check", "{0}", "--deep", "--json"],
    "diff": ["diff", "{0}", "{1}"],
    "overlap": ["overlap", "{0}", "--with", "{4}", "--by", "words", "--json"],
    "convert": ["convert", "{0}", "{out}/o.zarr", "--verbose"],
    "convert by tasks": ["convert", "{0}", "{out}/o.jsonl", "--jobs", "2", "--verify"],
    "dry run": ["convert", "{0}", "{out}/p.parquet", "--dry-run"],
    "recipe": ["recipe", "a={0}:1", "--seq-len", "64", "-o", "{out}/mix.toml"],
    "fix": ["check", "{2}", "--fix", "{out}/fixed.pbin"],
    "index": ["index", "{4}", "-o", "{out}/lines.idx"],
    "browse": ["browse", "{0}", "--screenshot", "{out}/screen.svg", "--keys", "i"],
    "broken off": ["convert", "{0}", "{3}", "{out}/never.zarr", "--resume"],
    "cut": ["convert", "{2}", "{out}/never.jsonl"],
    "nothing": ["stats", "{3}"],
}
FAILING = ("cut", "nothing", "diff", "recipe", "check", "fix", "broken off")
"""Commands that end with another exit code than 0, for one of the addresses at least."""


@FUZZ_ONLY
@pytest.mark.parametrize("kind", ["bucket", "signature", "password"])
def test_commands(server, bucket, tmp_path, monkeypatch, kind):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    shutil.copytree(FIXTURES / "text", bucket / "text")
    (bucket / "cut.pbin").write_bytes((FIXTURES / PACK).read_bytes()[:-900])
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TOKFMT_DEBUG", "remote")
    server.forever["bkt/never.pbin"] = "503"
    (bucket / "never.pbin").touch()
    addresses = [
        f"{kinds(server)[kind].format(key)}"
        for key in (PACK, "modalities/E_D_2byte_gpt2.pbin", "cut.pbin", "never.pbin", "text/with_fields.jsonl")
    ]
    (tmp_path / "out").mkdir()
    told = {}
    for name, words in COMMANDS.items():
        given = [word.format(*addresses, out=tmp_path / "out") for word in words]
        command = [sys.executable, "-m", "tokfmt", *given]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with processes.running(forkserver.Popen(command, cwd=ROOT, text=True, env=dict(os.environ), **pipes)) as done:
            told[name], _ = done.communicate(timeout=100)
        assert "Traceback" not in told[name]
        assert name in FAILING or done.returncode == 0, told[name]
    held = {
        str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "served" not in path.parts
    }
    assert any(name.endswith(".tokfmt.json") for name in held)
    close_stores()
    dataset = tokfmt.open(addresses[0])
    texts = {**told, "object": f"{dataset!r}{dataset.info}{json.dumps(dataset.notes)}", "names": "\n".join(held)}
    found = [name for name, text in texts.items() if "planted" in text.lower()]
    assert not found, {name: texts[name] for name in found}
    assert not [name for name, content in held.items() if b"planted" in content.lower()]
    assert kind != "bucket" or b"planted" not in pickle.dumps(dataset).lower()


def kinds(server):
    return {
        "bucket": "s3://bkt/{0}",
        "signature": f"{server.endpoint}/bkt/{{0}}?X-Amz-Signature=planted",
        "password": f"{server.endpoint.replace('//', '//me:planted@')}/bkt/{{0}}",
    }
