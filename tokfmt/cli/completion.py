"""`tokfmt completion`: print the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tokfmt.cli.parameters import Command, Words, examples


@click.command("completion", cls=Command, no_args_is_help=True, epilog=examples("tokfmt completion bash > tokfmt.bash"))
@click.argument("shell", type=Words(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell."""
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"click has no completion for {shell}. Choose another shell")
    click.echo(completion(ctx.find_root().command, {}, "tokfmt", "_TOKFMT_COMPLETE").source())
