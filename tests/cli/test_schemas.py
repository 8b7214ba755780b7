"""Every document of `--json` has a schema, which is itself valid; `tokfmt schema` prints it."""

import json
import re

import commands
import pytest
from jsonschema import ValidationError
from paths import FIXTURES, ROOT
from schemas import closed, validate, validator

from tokfmt.cli import schemas
from tokfmt.errors import OptionError

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def tokfmt(*words, code=0):
    return commands.run(*words, cwd=ROOT, check=code).stdout


def test_every_document_that_the_code_prints_has_a_schema():
    named = set()
    for path in (ROOT / "tokfmt" / "cli").glob("*.py"):
        text = path.read_text()
        named |= {*re.findall(r'\bdocument\(\s*"([\w-]+)"', text), *re.findall(r'"tokfmt\.([\w-]+)/\d', text)}
        named |= {*re.findall(r'\blisted\(\s*"([\w-]+)"', text)}
    assert named == set(schemas.names())


@pytest.mark.parametrize("name", schemas.names())
def test_a_schema_is_valid_and_printed(name):
    validator(name)  # which checks the schema itself
    found = schemas.schema(name)
    assert found["$id"] == f"urn:tokfmt:{name}:1"
    assert found["title"].startswith(f"tokfmt.{name}/1: the output of `")
    assert json.loads(tokfmt("schema", name)) == json.loads(tokfmt("schema", f"tokfmt.{name}/1")) == found


def test_the_list_of_schemas():
    listed = tokfmt("schema").splitlines()
    assert [line.split()[0] for line in listed] == schemas.names()
    document = json.loads(tokfmt("schema", "--json"))
    validate(document)
    assert [one["name"] for one in document["schemas"]] == schemas.names()
    with pytest.raises(OptionError, match="Did you mean convert?"):
        schemas.schema("convrt")


CASES = {
    "demo": "demo {1}/sample",
    "index": "index fixtures/text/corpus.jsonl -o {1}/x.idx",
    "info": "info {0}",
    "check": "check {0}",
    "convert": "convert {0} {1}/x.h5 --seq-len 64 --eos 50256 --allow-loss empty-sequences --allow-loss embedded-separators",
    "splits": "convert {0} {1}/x.pbin --split a=0.5,b=0.5 --seed 1 --verify --eos 50256",
    "diff": "diff {0} {0}",
    "overlap": "overlap {0} --with {0} --by tokens",
    "formats": "formats",
    "stats": "stats {0} --seq-len 64",
    "stats of two": "stats {0} {0}",
    "a step": "show fixtures/recipe/mix.toml --step 0 --batch-size 2",
    "a recipe": "recipe fixtures/recipe/mix.toml --explain",
    "a dry run": "convert {0} {1}/x.pbin --dry-run",
    "samples with text": "show fixtures/hdf5/padded_eos 0 --samples --tokenizer fixtures/tokenizer",
    "a search": "show {0} token:464",
    "text": "show fixtures/text/corpus.jsonl 0",
    "in any order": "diff {0} fixtures/modalities/D_2byte_gpt2_shuffled_seed7.pbin --ignore-order --eos 50256",
    "one format": "formats hdf5",
    "all codes": "check --explain all",
    "damaged bytes": "show fixtures/bad/modalities/opcode_global.pbin --raw",
    "one sample": "show fixtures/recipe/mix.toml --sample 3",
}


@pytest.mark.parametrize("case", CASES)
def test_a_document_is_as_its_schema_says(case, tmp_path):
    validate(json.loads(tokfmt(*CASES[case].format(PACK, tmp_path).split(), "--json")))


def test_errors():
    for words, code in (["stats", "nowhere"], 3), (["convert", PACK], 2), (["show", PACK, "999999"], 2):
        validate(json.loads(tokfmt(*words, "--json", code=code)))


def test_an_unknown_key_and_a_missing_one_are_found():
    """By the tests; the published schemas allow keys that they do not list."""
    document = json.loads(tokfmt("schema", "--json"))
    validate(document)
    for wrong in ({**document, "new": 1}, {key: one for key, one in document.items() if key != "schemas"}):
        with pytest.raises(AssertionError):
            validate(wrong)
    from jsonschema import validate as published

    published({**document, "new": 1}, schemas.schema("schemas"))
    with pytest.raises(ValidationError):
        published({**document, "schemas": "many"}, schemas.schema("schemas"))
    assert closed({"properties": {"a": {"type": "integer"}}})["unevaluatedProperties"] is False
