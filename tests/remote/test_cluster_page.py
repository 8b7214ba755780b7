"""The scripts of docs/cluster.md, run with stand-ins of Slurm: eight machines that share no directory."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from amount import FUZZ_ONLY
from paths import ROOT, TOKENIZER

import tokfmt

SBATCH = """
import os, pathlib, re, subprocess, sys

words, script = sys.argv[1:-1], sys.argv[-1]
given = dict(word.lstrip("-").partition("=")[::2] for word in words)
failed = pathlib.Path("failed")
if "dependency" in given and failed.exists():
    sys.exit(0)  # afterok: it does not run
stated = re.search("--array=([0-9,-]+)", pathlib.Path(script).read_text())
array = given.get("array") or (stated[1] if stated else "")
spans = [part.split("-") for part in array.split(",")] if array else []
numbers = [k for span in spans for k in range(int(span[0]), int(span[-1]) + 1)]
failed.unlink(missing_ok=True)
running = []
for number in numbers or [None]:
    home = pathlib.Path(f"machine-{number}").absolute()
    home.mkdir(exist_ok=True)
    own = {"TMPDIR": str(home), "HOME": str(home)}
    if number is not None:
        own["SLURM_ARRAY_TASK_ID"] = str(number)
    run = f"exec bash {pathlib.Path(script).absolute()}"
    if os.environ.get("MOUNTS"):
        run = f"mount -t tmpfs none '{home}' && {run}"
    words = ["sh", "-c", run] if not os.environ.get("MOUNTS") else ["unshare", "-m", "sh", "-c", run]
    lost = str(number) in os.environ.get("LOST", "").split(",")
    if not lost:
        log = open(f"log-{number}-{os.getpid()}", "w")
        running.append(subprocess.Popen(words, env={**os.environ, **own}, stdout=log, stderr=log))
    else:
        failed.touch()
    if len(running) == 4:
        if running.pop(0).wait():
            failed.touch()
for process in running:
    if process.wait():
        failed.touch()
print(1)
"""


def scripts():
    page = (ROOT / "docs/cluster.md").read_text()
    return re.findall(r"^```bash\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@FUZZ_ONLY
def test_slurm(server, bucket, tmp_path):
    """Two tasks are lost; the finish that depends on them does not run; then the missing ones are run, and it does."""
    (bucket / "raw").mkdir()
    for k in range(10):
        lines = [json.dumps({"text": f"file {k}, line {i}: " + "word " * (1 + i % 9)}) for i in range(40)]
        (bucket / f"raw/{k:02}.jsonl").write_text("\n".join(lines) + "\n")
    _, tasks, finish, submit, again = (block.replace("s3://bucket/", "s3://bkt/") for block in scripts())
    (tmp_path / "tasks.sh").write_text(tasks)
    (tmp_path / "finish.sh").write_text(finish)
    commands = tmp_path / "commands"
    commands.mkdir()
    (commands / "sbatch.py").write_text(SBATCH)
    for name, run in (("sbatch", f"{commands / 'sbatch.py'}"), ("tokfmt", "-m tokfmt")):
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} {run} "$@"\n')
        (commands / name).chmod(0o755)
    mounts = not os.geteuid() and not subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode
    env = {
        **os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
        "TOKENIZER": str(TOKENIZER), "MOUNTS": "1" if mounts else "",
    }  # fmt: skip
    env.pop("TOKFMT_SPOOL", None)

    def shell(code, **more):
        return subprocess.run(["bash", "-c", code], cwd=tmp_path, env={**env, **more}, check=True)

    shell(submit, LOST="2,5")
    assert not (bucket / "out.tokfmt.json").exists(), "--finish ran"
    shell(again)
    logs = {path.name: path.read_text() for path in tmp_path.glob("log-*")}
    assert (bucket / "out.tokfmt.json").exists(), logs
    assert len([name for name in logs if name.startswith("log-2-")]) == 1, "only the missing tasks ran again"
    assert len([name for name in logs if name.startswith("log-0-")]) == 1
    tokfmt.convert("s3://bkt/raw", tmp_path / "whole.pbin", tokenizer=str(TOKENIZER), executor="serial")
    with tokfmt.open("s3://bkt/out") as one, tokfmt.open(tmp_path / "whole.pbin") as other:
        assert [list(map(int, found)) for found in one] == [list(map(int, found)) for found in other]
    assert not list(bucket.glob("out.tokfmt-tasks/*"))
    shutil.rmtree(commands)


JOBQUEUE = """
import distributed


class SLURMCluster(distributed.LocalCluster):
    def __init__(self, cores, processes, memory):
        super().__init__(n_workers=0, threads_per_worker=1, dashboard_address=None)

    def scale(self, jobs):
        super().scale(jobs)
        with distributed.Client(self) as client:
            client.wait_for_workers(jobs, timeout=60)
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="the extra dask is not installed")
@FUZZ_ONLY
def test_dask(server, bucket, tmp_path, monkeypatch):
    """The Python of the page, with a cluster on this machine in place of one that Slurm starts."""
    monkeypatch.delenv("TOKFMT_SPOOL", raising=False)
    (bucket / "raw").mkdir()
    for k in range(5):
        (bucket / f"raw/{k}.jsonl").write_text("".join(f'{{"text": "file {k}, line {i}"}}\n' for i in range(40)))
    page = (ROOT / "docs/cluster.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "dask_jobqueue.py").write_text(JOBQUEUE)
    body = code.replace("s3://bucket/", "s3://bkt/").replace("org/name", str(TOKENIZER)).replace("\n", "\n    ")
    (tmp_path / "page.py").write_text(f'if __name__ == "__main__":\n    {body}')
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tokfmt.open("s3://bkt/out") as found:
        assert len(found) == 200
    assert not (bucket / "out.tokfmt-writing").exists() and not list(bucket.glob("out.tokfmt-tasks/*"))
    assert not list(bucket.glob("out/*.tokfmt*"))
