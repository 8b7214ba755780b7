"""`tokfmt show --raw` and `--samples`, as they are printed."""

from click.testing import CliRunner
from paths import FIXTURES

from tokfmt.cli.main import cli

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def run(*words, **env):
    result = CliRunner().invoke(cli, ["show", *map(str, words)], env=env, catch_exceptions=False)
    assert result.exit_code == 0
    return result


def test_raw_on_a_terminal_fits_and_keeps_colours_apart(monkeypatch):
    monkeypatch.setattr("tokfmt.cli.show._terminal", lambda: True)
    out = run(PACK, "--raw", COLUMNS="80", NO_COLOR="1").stdout
    assert "data length" in out and max(map(len, out.splitlines())) <= 80
