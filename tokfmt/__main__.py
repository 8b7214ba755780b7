"""`python -m tokfmt` is the `tokfmt` command."""

from tokfmt.cli.main import run

run()
