"""Help and usage errors of every command: what a stranger reads first."""

import inspect
import re
from importlib import import_module

import pytest
from click.testing import CliRunner
from commands import run

import tokfmt
from tokfmt.cli.main import COMMANDS, cli

PACK = "fixtures/modalities/D_2byte_gpt2.pbin"


@pytest.fixture(autouse=True)
def _width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize("name", COMMANDS)
def test_summaries_and_options_are_short(name):
    command = import_module(COMMANDS[name][0]).command
    summary = inspect.cleandoc(command.help).split("\n")[0]
    assert summary == COMMANDS[name][1]
    assert len(summary) <= 60
    assert summary.endswith(".")
    for param in command.params:
        words = getattr(param, "help", None)
        assert words is None or words[0].isupper(), (name, words)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_names_the_command_and_one_remedy(name):
    said = run(name, "--no-such-thing", check=2).stderr
    start = f"tokfmt: error: tokfmt {name} has no option --no-such-thing. "
    assert said.startswith(start), said
    assert re.fullmatch(rf"Did you mean --\S+\?|Run tokfmt {name} --help for its options", said[len(start) :].strip())


_DUP = (
    '\'dup\' is not a query; tokfmt show takes it, without "not"; in a recipe, dedup = "exact" leaves out what is equal'
)
_FILTERS = 'A recipe takes dedup = "exact", and filters such as min_tokens: tokfmt recipe SRC -o mix.toml writes one'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["convert", "--ovrwrite", "a", "b"], "tokfmt convert has no option --ovrwrite. Did you mean --overwrite?"),
        (["formats", "--jsn"], "tokfmt formats has no option --jsn. Did you mean --json?"),
        (["diff", "a"], "B... is missing (expected tokfmt diff [OPTIONS] A B...). Run tokfmt diff --help for examples"),
        (["check", "--deep"],
         "PATH... is missing (expected tokfmt check [OPTIONS] PATH...). Run tokfmt check --help for examples"),
        (["formats", "a", "b"],
         "tokfmt formats takes no argument 'b' (expected tokfmt formats [OPTIONS] [NAME]). Leave it out"),
        (["show", PACK, "1", "-2"],
         "tokfmt show takes no argument '-2' (expected tokfmt show [OPTIONS] PATH [SEL]). Leave it out"),
        (["show", PACK, "text:some", "words", "here"],
         "tokfmt show takes no argument 'words' (expected tokfmt show [OPTIONS] PATH [SEL]). "
         "A search with spaces is quoted: 'text:some words here'"),
        (["show", PACK, "--select", "5"],
         "tokfmt show has no option --select. tokfmt show PATH 'text:some words' searches"),
        (["show", PACK, "some words"], "'some words' is not a query; write 'text:some words' to find these words"),
        (["convert", PACK, "o.pbin", "--limit", "3"],
         "tokfmt convert has no option --limit. --select 0:N takes the first N sequences"),
        (["convert", PACK, "o.pbin", "--dedup"], "tokfmt convert has no option --dedup. " + _FILTERS),
        (["convert", PACK, "o.pbin", "--min-tokens", "5"], "tokfmt convert has no option --min-tokens. " + _FILTERS),
        (["convert", PACK, "o.pbin", "--pack", "bestfit"], "tokfmt convert has no option --pack. "
         "tokfmt recipe SRC -o mix.toml has such options, and writes a recipe that convert reads"),
        (["convert", PACK, "o.pbin", "--select", "dup"], _DUP),
        (["convert", PACK, "o.pbin", "--select", "not dup"], _DUP),
        (["show", PACK, "not dup"], _DUP),
        (["check", PACK, "--vocab-size", "50257"],
         "tokfmt check has no option --vocab-size. --tokenizer NAME compares the IDs with its vocabulary; "
         "tokfmt stats has the largest ID"),
        (["grep", "words", PACK], "no command 'grep'. tokfmt show PATH 'text:some words' searches"),
        (["show", PACK, "regex:f(x"], "regex:f(x: not a regular expression: missing ) at position 3"),
        (["stats", PACK, "--seq-len"], "--seq-len: its value is missing (expected --seq-len NUMBER). Add the value"),
        (["stats", PACK, "--json=1"], "--json: is a switch and takes no value. Leave the value out"),
        (["stats", PACK, "--seq-len", "0"],
         "--seq-len: is out of range (expected a whole number of at least 1, found 0). Choose a number in it"),
        (["check", PACK, "-j", "2000"],
         "--jobs: is out of range (expected a whole number from 1 to 1,024, found 2,000). Choose a number in it"),
        (["stats", PACK, "--executor", "xml"],
         "--executor: unknown value 'xml' (expected serial, threads, processes or dask). Choose one of them"),
        (["completion", "bsh"], "SHELL: unknown value 'bsh' (expected bash, zsh or fish). Did you mean bash?"),
        (["convert", PACK, "o.pbin", "--task", "3"],
         "--task: '3' is not of the form I/N. Write 0/8 for the first of eight tasks"),
        (["browse", PACK, "--size", "3"],
         "--size: is not a size (expected 20x5 to 500x200, found '3'). Write COLUMNSxLINES, as 160x48"),
        (["check", PACK, "--ignore-order"], "--ignore-order has no effect without --against CORPUS. Add --against"),
        (["convert", PACK, "o.pbin", "--eos", "nil"],
         "--eos: is not a separator (expected a token ID or none, found 'nil'). Write an ID such as 50256, or none"),
        (["nonsense"], f"no command 'nonsense'. The commands are {', '.join(COMMANDS)}"),
    ],
)  # fmt: skip
def test_a_usage_error_is_one_sentence_and_one_remedy(words, said):
    assert run(*words, check=2).stderr == f"tokfmt: error: {said}\n"


@pytest.mark.parametrize(("words", "meant"), [(["help"], "tokfmt --help"), (["help", "info"], "tokfmt info --help")])
def test_help_as_a_command_names_the_option(words, meant):
    done = CliRunner().invoke(cli, words, prog_name="tokfmt")
    assert done.exit_code == 2
    assert f"Did you mean {meant}?" in done.output


def test_help_of_each_call_in_one_process_is_that_of_its_command():
    for words in (["info", "-h"], ["-h"], ["stats", "--help"], ["info", "--nope"], ["-h"], ["info", "-h"]):
        done = CliRunner().invoke(cli, words, prog_name="tokfmt")
        named = f"tokfmt {words[0]} " if words[0][0] != "-" else "tokfmt [OPTIONS] COMMAND"
        assert done.output.startswith(f"Usage: {named}")


def has_allow_loss(name):
    command = import_module(COMMANDS[name][0]).command
    return any("--allow-loss" in param.opts for param in command.params)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_fits_a_screen_and_all_of_it_has_every_option(name):
    short, every = (run(name, option, check=0).stdout for option in ("--help", "--help-all"))
    assert short.count("\n") <= 50 and "--help-all" in short
    command = import_module(COMMANDS[name][0]).command
    for param in command.params:
        for option in param.opts if param.param_type_name == "option" else ():
            assert option in every
    assert ("--allow-loss" in every) == has_allow_loss(name)


def test_no_format_of_tokfmt_has_losses_of_its_own():
    """They belong into the table of all."""
    own = [format_ for format_ in tokfmt.list_formats() if type(format_).__module__.startswith("tokfmt.")]
    assert own
    assert not any(format_.losses for format_ in own)


@pytest.mark.parametrize(
    ("word", "name"),
    [("numpy", "array"), ("npy", "array"), ("zarr", "flat-tokens"), ("h5", "hdf5"), ("pbin", "modalities")],
)
def test_a_name_that_people_use_for_a_format_leads_to_it(word, name):
    done = run("convert", PACK, "nowhere.x", "--to", word, check=2)
    assert f"Did you mean {name}?" in done.stderr


def test_the_words_of_a_table_lead_to_its_keys():
    assert "Did you mean max_id?" in run("stats", PACK, "--expect", "largest_id < 3", check=2).stderr
