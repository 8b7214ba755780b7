"""Help texts: one sentence of at most 60 characters for each command, defaults of options in parentheses."""

from importlib import import_module

import click
import pytest

from tokfmt.cli.main import COMMANDS


def command_named(name):
    return import_module(COMMANDS[name][0]).command


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_one_summary(name):
    text = COMMANDS[name][1]
    assert len(text) <= 60 and text.endswith(".") and "?" not in text
    assert command_named(name).help.partition("\n\n")[0] == text


@pytest.mark.parametrize("name", COMMANDS)
def test_option_help_has_its_default_in_parentheses(name):
    for option in command_named(name).params:
        if isinstance(option, click.Option):
            assert option.help and option.help.endswith("."), option.name
            assert not option.show_default and "Default" not in option.help, option.name
            if isinstance(option.default, str | int) and not option.is_flag and option.default != "":
                assert f"(default: {option.default})" in option.help, option.name
