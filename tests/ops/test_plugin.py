"""A format from another package is found by its entry point, like tokfmt's own."""

import json
import subprocess
import sys

import forkserver
import pytest
from dummy_plugin import MODULE, installed, raising
from paths import FIXTURES

from tokfmt.plugin import FlatFormat, Hints

pytestmark = pytest.mark.slow


def run(env, cwd, *words):
    return forkserver.run(
        [sys.executable, "-m", "tokfmt", *map(str, words)],
        env=env,
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (None, "the format lines of tokfmt-lines cannot be used: ModuleNotFoundError"),
        ("raise RuntimeError('no\\nGPU')", "the format lines of tokfmt-lines cannot be used: RuntimeError: no GPU"),
        ("import sys\nsys.exit(0)", "the format lines of tokfmt-lines cannot be used: SystemExit"),
        (
            "FORMAT = object()",
            "the format lines of tokfmt-lines cannot be used: TypeError: tokfmt_lines:FORMAT is not a format",
        ),
        (
            MODULE.replace("return Confidence.CERTAIN if", "return 1 // 0 if probe.size or"),
            "the format lines of tokfmt-lines fails",
        ),
    ],
)
def test_a_broken_plugin_is_left_out_with_a_note(tmp_path, code, says):
    """Commands go on; only who names it gets an error, in one line."""
    env = installed(tmp_path, "lines", "tokfmt_lines", code=code)
    for words in (["stats", PACK], ["convert", PACK, "out.zarr", "--overwrite"], ["check", PACK], ["formats"]):
        done = run(env, tmp_path, *words)
        assert done.returncode == 0, done.stderr
        if "fails" not in says or words[0] != "formats":
            assert f"note: {says}" in done.stderr
            assert done.stderr.count(says) == 1 and "Traceback" not in done.stderr
    done = run(env, tmp_path, "stats", PACK, "--from", "lines")
    assert done.returncode in (2, 3, 70)
    if "cannot be used" in says:
        assert done.returncode == 2
        assert done.stderr.strip().splitlines()[-1].startswith(f"tokfmt: error: {says}")


def test_a_plugin_with_the_name_of_a_format_of_tokfmt(tmp_path):
    env = installed(tmp_path, "modalities", "tokfmt_lines", "other-package", MODULE)
    done = run(env, tmp_path, "stats", PACK, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["format"] == "modalities"
    assert "note: the format modalities of other-package is left out: tokfmt has one of that name" in done.stderr


def test_a_name_that_several_formats_mean(tmp_path):
    env = installed(tmp_path, "lines", "tokfmt_lines", code=MODULE.replace('(".lines",)', '(".lines", ".pbin")'))
    done = run(env, tmp_path, "convert", PACK, "out.pbin")
    assert done.returncode == 2
    assert (
        "the name 'out.pbin' may mean lines or modalities. Choose one with --to lines or --to modalities" in done.stderr
    )


def test_a_plugin_is_a_format_like_any_other(tmp_path):
    env = installed(tmp_path, "lines", "tokfmt_lines", code=MODULE)

    def tokfmt(*words):
        done = run(env, tmp_path, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "lines" in [f["name"] for f in json.loads(tokfmt("formats", "--json"))["formats"]]
    tokfmt("convert", FIXTURES / "modalities" / "D_2byte_gpt2.pbin", "o.lines")
    tokfmt("convert", "o.lines", "back.pbin", "--eos", "50256")
    again, first = (json.loads(tokfmt("show", p, ":", "--json")) for p in ("back.pbin", "o.lines"))
    assert [s["ids"] for s in again["shown"]] == [s["ids"] for s in first["shown"]]
    assert again["sequences"] == 42


READS = raising("    def inspect(self, paths, options, hints):", "        raise KeyError('magic')")
WRITES = raising("    def write(self, region, source):", "        raise IndexError('beyond')")


@pytest.mark.parametrize(
    ("code", "words", "error"),
    [
        (READS, ["show", "x.lines", "--json"], "unexpected KeyError: 'magic'"),
        (WRITES, ["convert", PACK, "o.lines", "--executor", "processes", "-j", "2"], "unexpected IndexError: beyond"),
    ],
)
def test_an_error_in_a_plugin_is_unexpected(tmp_path, code, words, error):
    """In this process or in a worker; with --debug, the traceback shows in whose code."""
    (tmp_path / "x.lines").write_text("#lines\n1 2 3\n")
    env = installed(tmp_path, "lines", "tokfmt_lines", code=code)
    done = run(env, tmp_path, *words)
    assert done.returncode == 70
    assert error in done.stderr and "Traceback" not in done.stderr
    if "--json" in words:
        assert error in json.loads(done.stdout)["error"]["message"]
    done = run(env, tmp_path, *words, "--debug")
    assert done.returncode == 70
    assert "Traceback" in done.stderr and "tokfmt_lines.py" in done.stderr


TIMED = MODULE
for old, new in (
    ("stores, cannot_store =", 'losses = ("timestamps",)\n    stores, cannot_store ='),
    (
        "return WriterTraits()",
        'return WriterTraits(lost=lambda source, drop: [Loss("timestamps", "the times of 2 documents")])',
    ),
    ("import CorruptError", "import CorruptError, Loss"),
    ('    """None."""', '    """None of samples."""\n    view: Literal["documents", "lines"] = "documents"'),
    ("import numpy as np", "from typing import Literal\nimport numpy as np"),
):
    assert old in TIMED
    TIMED = TIMED.replace(old, new)


def test_loss_defined_by_a_plugin(tmp_path):
    """Its own word of --allow-loss is required, accepted, and recorded in the manifest."""
    env = installed(tmp_path, "lines", "tokfmt_lines", code=TIMED)
    refused = run(env, tmp_path, "convert", PACK, "o.lines")
    assert refused.returncode == 4
    assert "the times of 2 documents. To accept that, add --allow-loss timestamps" in refused.stderr
    done = run(env, tmp_path, "convert", PACK, "o.lines", "--allow-loss", "timestamps")
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "o.lines.tokfmt.json").read_bytes())
    assert told["losses"] == {"timestamps": "the times of 2 documents"}
    assert run(env, tmp_path, "convert", PACK, "p.lines", "--allow-loss", "timestamp").returncode == 2


def test_an_option_called_view_has_no_hidden_duty(tmp_path):
    """It may have no word for samples: browse, diff and show see what there is."""
    env = installed(tmp_path, "lines", "tokfmt_lines", code=TIMED)
    assert run(env, tmp_path, "convert", PACK, "o.lines", "--allow-loss", "timestamps").returncode == 0
    opened = (
        "import sys; from tokfmt.browser.data.session import open_session; from tokfmt.source.request import SourceRequest;"
        "print([view.name for view in open_session(SourceRequest(('o.lines',))).opened.views])"
    )
    done = subprocess.run([sys.executable, "-c", opened], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "['documents']\n"), done.stderr
    for words in (
        ["diff", "o.lines", "o.lines"],
        ["show", "o.lines"],
        ["stats", "o.lines", "--from-opt", "view=lines"],
    ):
        assert run(env, tmp_path, *words).returncode == 0
    said = run(env, tmp_path, "show", "o.lines", "--samples")
    assert said.returncode == 2
    assert "lines stores no samples here" in said.stderr


def test_flat_format_without_examine_raises_a_type_error(tmp_path):
    class Unfinished(FlatFormat):
        name, title, extensions = "unfinished", "No format yet", (".x",)

    (tmp_path / "a.x").write_bytes(b"1")
    with pytest.raises(TypeError, match="the format unfinished defines neither examine_file nor examine"):
        Unfinished().open([tmp_path / "a.x"], None, Hints())


FOLDERS = MODULE
for old, new in (
    ('    def sniff(self, probe): return Confidence.CERTAIN if probe.head.startswith(b"#lines\\n") else None', "SNIFF"),
    ("SNIFF", "    def files(self, path): return sorted(path.glob('*.lines')) if path.is_dir() else [path]\nSNIFF"),
    (
        "SNIFF",
        "    def sniff(self, probe):\n        inside = probe.is_directory and any(n == 'a.lines' for n in probe.entries)\nREST",
    ),
    ("REST", "        return Confidence.CERTAIN if inside or probe.head.startswith(b'#lines\\n') else None"),
):
    assert old in FOLDERS
    FOLDERS = FOLDERS.replace(old, new)


def test_damaged_file_is_detected_by_its_name(tmp_path):
    """The file is not taken for a part of a dataset in its folder."""
    env = installed(tmp_path, "lines", "tokfmt_lines", code=FOLDERS)
    home = tmp_path / "home"
    home.mkdir()
    (home / "a.lines").write_text("#lines\n1 2 3\n")
    (home / "b.lines").write_text("\x00lines\n1 2 3\n")
    done = run(env, home, "stats", "b.lines")
    assert done.returncode == 3
    assert (
        "b.lines: no format recognizes its content. Its name implies lines. Use --from lines to see what is wrong"
        in done.stderr
    )
    (home / "c.other").write_bytes(b"\x00\x01")
    assert "tokfmt reads jsonl" in run(env, home, "stats", "c.other").stderr
