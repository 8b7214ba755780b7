"""Messages name options by value; each interface words them."""

import ast
import dataclasses
import pickle
import re
from pathlib import Path

import pytest
from amount import FUZZ_ONLY
from paths import ROOT

import tokfmt
from tokfmt.core.errors import DestinationExistsError, FormatError, Loss, LossyConversionError, OptionError
from tokfmt.core.messages import python_words, recipe_words, reword
from tokfmt.plugin import Message, Option, allowing, from_option, to_option


@pytest.mark.parametrize(
    ("option", "command_line", "python"),
    [
        (Option("overwrite"), "--overwrite", "overwrite=True"),
        (Option("no-manifest"), "--no-manifest", "manifest=False"),
        (Option("tokenizer"), "--tokenizer", "tokenizer="),
        (Option("seq-len", "N"), "--seq-len N", "seq_len=N"),
        (Option("eos", 50256), "--eos 50256", "eos=50256"),
        (Option("eos", "none"), "--eos none", 'eos="none"'),
        (Option("split", "train=0.9,test=0.1"), "--split train=0.9,test=0.1", 'split="train=0.9,test=0.1"'),
        (Option("from", "jsonl"), "--from jsonl", 'format="jsonl"'),
        (from_option("gaps", "accept"), "--from-opt gaps=accept", 'options={"gaps": "accept"}'),
        (from_option("width", 4), "--from-opt width=4", 'options={"width": 4}'),
        (from_option("stride"), "--from-opt stride=", 'options={"stride": ...}'),
        (to_option("shard_size", "N"), "--to-opt shard_size=N", 'to_options={"shard_size": N}'),
        (allowing("fields"), "--allow-loss fields", 'allow_loss="fields"'),
        (allowing("fields", "tail"), "--allow-loss fields --allow-loss tail", 'allow_loss=["fields", "tail"]'),
    ],
)
def test_an_option_in_the_words_of_each_interface(option, command_line, python):
    message = Message(f"say {option}, please")
    assert message == f"say {command_line}, please"
    assert message.reworded(python_words) == f"say {python}, please"
    assert pickle.loads(pickle.dumps(message)).reworded(python_words) == f"say {python}, please"


def test_recipes_word_the_options_of_their_sources_only():
    message = Message(f"{Option('eos', 'none')}; {from_option('view', 'rows')}; {Option('overwrite')}")
    inside = message.reworded(recipe_words)
    assert inside == 'eos = "none" in the recipe; options = { view = "rows" } in the recipe; --overwrite'
    assert inside.reworded(python_words).endswith("; overwrite=True")


def test_a_message_is_a_part_of_another():
    inner = Message(f"{Option('from', 'a')} reads it")
    assert Message(f"say {inner.marked}.").reworded(python_words) == 'say format="a" reads it.'
    assert f"note: {inner}" == "note: --from a reads it"
    assert Message(inner) is inner
    assert reword("a plain text with --eos", python_words) == "a plain text with --eos"


def test_options_that_follow_each_other_are_used_together():
    message = Message(f"{Option('from', 'stage1')} {Option('eos', 'ID')} reads it")
    assert message == "--from stage1 --eos ID reads it"
    assert message.reworded(python_words) == 'format="stage1", eos=ID reads it'
    assert message.without("eos") == "--from stage1 reads it"
    assert message.without("from") == message


def test_a_message_about_an_option():
    error = OptionError(f"{Option('seed')}: nothing is dealt out")
    error.reword(python_words)
    assert str(error) == "seed: nothing is dealt out"


def test_errors_are_worded_again():
    error = FormatError("x.bin", "is cut", expected=4, found=3, remedy=f"{allowing('tail')} reads the rest")
    error.advise(f"{Option('eos', 'ID')} names the separator")
    assert str(error).endswith("found 3. --allow-loss tail reads the rest. --eos ID names the separator")
    error.reword(python_words)
    assert str(error).endswith('found 3. allow_loss="tail" reads the rest. eos=ID names the separator')
    assert error.remedy == 'allow_loss="tail" reads the rest. eos=ID names the separator'
    lossy = LossyConversionError("o.h5", [Loss("fields", "2 fields"), Loss("tail", "3 bytes")])
    lossy.reword(python_words)
    assert str(lossy).endswith('To accept that, add allow_loss=["fields", "tail"]')
    there = pickle.loads(pickle.dumps(DestinationExistsError("o.h5")))
    there.reword(python_words)
    assert str(there) == "o.h5: already exists. overwrite=True replaces it"


_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_COMMAND = re.compile(r"`?tokfmt [a-z]+ [^.;:]*|h5repack .*|aws sso login .*|, as with --append-eod, or none")
_OF_THE_COMMAND_LINE = ("cli", "tui", "sample", "unsupported_config.py", "plugin_package.py")
"""The last three name or print whole commands, and write files with commands in them."""


def _constants(path):
    """The texts of a module besides docstrings, descriptions of options, and explanations for `check --explain`."""
    tree = ast.parse(path.read_text())
    left_out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            left_out.add(id(node.value))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Code", "option"):
            left_out |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.lineno, node.value


@FUZZ_ONLY
def test_the_library_writes_no_syntax_of_the_command_line():
    root = Path(tokfmt.__file__).parent
    found = [
        f"{path}:{line}: {text}"
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in _OF_THE_COMMAND_LINE
        for line, text in _constants(path)
        if _OPTION.search(_COMMAND.sub("", text))
    ]
    assert not found, "name options by values, as tokfmt.core.messages describes:\n" + "\n".join(found)


def remedies(path):
    """Yield each option of a format that the messages of a module name: its kind, its name, and the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("to_option", "from_option"):
            if isinstance(node.args[0], ast.Constant):
                yield ast.unparse(node.func)[:-7], node.args[0].value, node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for kind, name in re.findall(r"--(to|from)-opt (\w+)=", node.value):
                yield kind, name, node.lineno


def test_formats_have_the_options_that_their_remedies_name():
    owned, every = {}, set()
    for one in tokfmt.list_formats():
        options = ("to", one.write_options), ("from", one.read_options)
        known = {(kind, field.name) for kind, kept in options for field in dataclasses.fields(kept)}
        owned.setdefault(type(one).__module__.split(".")[2], set()).update(known)
        every |= known
    named = 0
    for path in sorted((ROOT / "tokfmt/formats").rglob("*.py")):
        known = owned.get(path.relative_to(ROOT).parts[2].removesuffix(".py"), every)
        for kind, name, line in remedies(path):
            named += 1
            assert (kind, name) in known, f"{path}:{line}"
    assert named > 40
