"""`tokfmt show` and `tokfmt diff` as people and pipes meet them."""

import subprocess
import sys

from amount import FUZZ_ONLY
from click.testing import CliRunner
from paths import CORPUS, FIXTURES, TOKENIZER

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
