"""Messages name options as the command line does, and name options that exist."""

import ast
import dataclasses
import pickle
import re
from functools import cache

from paths import ROOT

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import DestinationExistsError, FormatError, Loss, LossyConversionError


def test_errors_get_advice_and_are_pickled():
    error = FormatError("x.bin", "is cut", expected=4, found=3, remedy="--allow-loss tail reads the rest")
    error.advise("--eos ID names the separator")
    assert str(error).endswith("found 3. --allow-loss tail reads the rest. --eos ID names the separator")
    assert error.remedy == "--allow-loss tail reads the rest. --eos ID names the separator"
    lossy = LossyConversionError("o.h5", [Loss("fields", "2 fields"), Loss("tail", "3 bytes")])
    assert str(lossy).endswith("To accept that, add --allow-loss fields --allow-loss tail")
    assert lossy.losses == ["fields", "tail"]
    there = pickle.loads(pickle.dumps(DestinationExistsError("o.h5")))
    assert str(there) == "o.h5: already exists. --overwrite replaces it"
    assert there.facts()["path"] == "o.h5"


@cache
def messages(path):
    """Return the texts of a module that names options, each with its line, and with {} for each value that is put in."""
    source, parts, texts = path.read_text(), set(), []
    for node in ast.walk(ast.parse(source)) if "--" in source else ():
        if isinstance(node, ast.JoinedStr):
            parts.update(map(id, node.values))
            texts.append(
                ("".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values), node.lineno)
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            texts.append((node.value, node.lineno))
    return texts


MODULES = sorted((ROOT / "tokfmt").rglob("*.py"))


def test_formats_have_the_options_that_their_remedies_name():
    owned, every = {}, set()
    for one in tokfmt.list_formats():
        options = ("to", one.write_options), ("from", one.read_options)
        known = {(kind, field.name) for kind, kept in options for field in dataclasses.fields(kept)}
        owned[one.name] = known
        owned.setdefault(type(one).__module__.split(".")[2], set()).update(known)
        every |= known
    named = 0
    for path in MODULES:
        folder, module = path.relative_to(ROOT).parts[1:3] if path.parent != ROOT / "tokfmt" else ("", "")
        known = owned.get(module.removesuffix(".py"), every) if folder == "formats" else every
        for text, line in messages(path):
            for other, kind, name in re.findall(r"(?:--from ([\w-]+) )?--(to|from)-opt (\w+)=", text):
                named += 1
                assert (kind, name) in owned.get(other, known), f"{path}:{line}"
    assert named > 60


def test_remedies_give_options_of_formats_a_value():
    """A value, or a word in capitals for it: `--from-opt width=` is nothing that a user can type."""
    bare = [
        f"{path}:{line}: {text}"
        for path in MODULES
        for text, line in messages(path)
        if re.search(r"--(to|from)-opt (?!\{|\w+=[\w{]|\(\?P<)", text)
    ]
    assert not bare, "\n".join(bare)


OF_OTHERS = {
    "--append-eod", "--data-args-path", "--data-cache-path", "--data-path", "--per-dataset-sequences-path", "--per-split-data-args-path",
    "--high", "--low", "--profile",
}  # fmt: skip
"""Options of Megatron-LM, h5repack and aws."""


def options_of(command):
    """Yield the long options of a command and of the commands below it."""
    for parameter in command.params:
        yield from (name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("--"))
    for below in getattr(command, "commands", {}).values():
        yield from options_of(below)


def test_messages_name_options_that_exist():
    known = {*options_of(cli), "--help"} | OF_OTHERS
    unknown, named = [], 0
    for path in MODULES:
        for text, line in messages(path):
            options = re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*(?![\w-])", text)
            named += len(options)
            unknown += [f"{path}:{line}: {option}" for option in options if option not in known]
    assert not unknown, "\n".join(unknown)
    assert named > 300


def test_no_sentence_has_a_name_that_is_only_in_the_code():
    """A rename of a variable must not run through sentences: what they name is in the docs, or is a key or a field."""
    pages = [ROOT / "README.md", ROOT / "tokfmt/formats/README.md", *(ROOT / "docs").rglob("*.md")]
    known = set(re.findall(r"\w+", " ".join(page.read_text() for page in pages)))
    names, sentences = set(), []
    for path in MODULES:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            names.update(getattr(node, key, None) for key in ("name", "arg", "attr"))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                if " " in node.value:
                    sentences.append((node.value, f"{path}:{node.lineno}"))
                else:
                    known.update(re.findall(r"\w+", node.value))
    in_sentence = re.compile(r"(?<=[a-z,;:] )[a-z]+(?:_[a-z]+)+(?=[ ,;.]*(?: [a-z]|$))")
    found = [(line, word) for text, line in sentences for word in in_sentence.findall(text) if word in names - known]
    assert len(sentences) > 3000
    assert not found
