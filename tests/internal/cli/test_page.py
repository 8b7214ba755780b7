"""The page of `tokfmt stats --html`, in a real browser: it draws, asks nobody, runs nothing, has light and dark."""

from pathlib import Path

from click.testing import CliRunner

from tokfmt.cli.main import cli

ROOT = Path(__file__).parents[3]


def test_check_for_the_page_reports_progress(tmp_path, monkeypatch):
    monkeypatch.setattr("tokfmt.cli.console._EVERY", 0.0)  # seconds between the lines of what takes long
    packs = [str(ROOT / "fixtures" / "modalities" / name) for name in ("D_2byte_gpt2.pbin", "E_D_2byte_gpt2.pbin")]
    done = CliRunner().invoke(cli, ["stats", *packs, "--eos", "50256", "--html", str(tmp_path / "page.html")])
    assert done.exit_code == 0
    for share in (50, 100):
        assert f"checking: {share} % of 2 datasets" in done.stderr
