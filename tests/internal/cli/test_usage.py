"""Help and usage errors of every command: what a stranger reads first."""

import os
import re
import subprocess
import sys
from importlib import import_module

import pytest

import tokfmt.core.errors
from tokfmt import registry
from tokfmt.cli.main import COMMANDS
from tokfmt.core.losses import LOSSES
from tokfmt.ops.source.request import check_losses, loss_words


def run(*words, check):
    environment = {**os.environ, "COLUMNS": "100"}
    done = subprocess.run([sys.executable, "-m", "tokfmt", *words], capture_output=True, text=True, timeout=60,
                          env=environment)  # fmt: skip
    assert done.returncode == check, done.stderr
    return done


def has_allow_loss(name):
    command = import_module(COMMANDS[name][0]).command
    return any("--allow-loss" in param.opts for param in command.params)


def test_table_of_losses_equals_the_words_of_allow_loss():
    assert loss_words()[: len(LOSSES)] == LOSSES
    own = [format_ for format_ in registry.list_formats() if type(format_).__module__.startswith("tokfmt.")]
    assert own, "no format is installed"
    assert not any(format_.losses for format_ in own), "a word of tokfmt itself belongs into the table"
    assert check_losses(LOSSES) == set(LOSSES)
    with pytest.raises(tokfmt.core.errors.OptionError, match="Did you mean gaps"):
        check_losses(["gap"])


@pytest.mark.parametrize("name", [name for name in COMMANDS if has_allow_loss(name)])
def test_the_help_lists_every_word_of_allow_loss(name):
    out = run(name, "--help", check=0).stdout
    assert re.search(r"--allow-loss NAME +Loss to accept", out)
    said = out.partition("\nLosses that --allow-loss accepts:\n")[2].partition("\n\n")[0]
    assert " ".join(said.split()).split(", ") == list(LOSSES)
