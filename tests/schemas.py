"""The published schemas of `--json`, as the tests apply them: a document has no key beside those that are listed."""

from functools import cache

from jsonschema import Draft202012Validator

from tokfmt.cli import schemas


@cache
def validator(name):
    schema = schemas.schema(name)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(closed(schema))


def closed(node, *, whole=True):
    """A schema that allows no other keys. Those of `allOf` and `$defs` are closed where they are used."""
    if not isinstance(node, dict):
        return node
    made = dict(node)
    for word in ("properties", "$defs"):
        made |= {word: {key: closed(one, whole=word != "$defs") for key, one in node.get(word, {}).items()}}
    for word in ("anyOf", "allOf"):
        if word in node:
            made[word] = [closed(one, whole=word != "allOf") for one in node[word]]
    for word in ("items", "additionalProperties"):
        if word in node:
            made[word] = closed(node[word])
    of_any_error = node.get("$ref", "").endswith("/ErrorFacts")  # its type has more facts
    if whole and ("properties" in node or "$ref" in node) and not of_any_error:
        made["unevaluatedProperties"] = False
    return made


def validate(document):
    """Raise an error unless a document is as the schema of its name says."""
    name, _, number = document["schema"].removeprefix("tokfmt.").partition("/")
    assert schemas.schema(name)["$id"] == f"urn:tokfmt:{name}:{number}"
    errors = sorted(validator(name).iter_errors(document), key=lambda error: list(map(str, error.path)))
    assert not errors, "\n".join(f"{error.json_path}: {error.message}" for error in errors)
