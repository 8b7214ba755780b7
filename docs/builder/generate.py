"""Write the source of the site: `python -m builder.generate DIRECTORY`.

docs/*.md          copied; links to other files of the repository lead to their page, or to the repository
cli/*.md           a page for each command, from click
formats/*.md       a page for each format, from `tokfmt formats --json`
findings.md        all codes of `check`, from `tokfmt check --explain all --json`
api.md             the Python API, from the docstrings
losses.md          all words of `--allow-loss`
schemas.md         the documents of --json, from their schemas; the schemas themselves are beside it
llms.txt           the list of pages with their first sentences
mkdocs.yml         the settings and the navigation, for Zensical and for MkDocs
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from release.commands import CommandPage, pages

from builder.api import api_page
from tokfmt.cli import schemas
from tokfmt.cli.main import COMMANDS
from tokfmt.core.losses import LOSSES

ROOT = Path(__file__).resolve().parents[2]
COPIED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/RESULTS.md": "benchmark-results.md",
    "tokfmt/formats/README.md": "write-a-format.md",
}
"""Pages that are not in docs/, and their names on the site. The other pages are those of docs/."""

GUIDES = (
    "ten-tasks",
    "questions",
    "inspect",
    "screens",
    "convert",
    "prepare",
    "contamination",
    "train",
    "runs",
    "python",
    "remote",
    "cluster",
    "write-a-format",
    "notebooks",
)
_WORD = r"(?: [A-Z]+(?:\.\w+)?(?![\w=])| \w+[.=][\w,=.]*\w)"
_OPTION = rf"(?:--allow-loss (?:{'|'.join(LOSSES)})\b|--[a-z][a-z-]*(?:=\w+|{_WORD})?)"

ABOUT = ("compatibility", "survives", "benchmarks", "benchmark-results", "changelog", "security", "contributing")


def repository() -> str:
    """Return the address of the repository."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["urls"]["Repository"])


def asked(*words: str) -> Any:
    """Return the JSON document that a command prints."""
    done = subprocess.run([sys.executable, "-m", "tokfmt", *words, "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)


def site_pages() -> Mapping[Path, str]:
    """Return the page of each file of the repository that has one."""
    found = {path: path.relative_to(ROOT / "docs").as_posix() for path in sorted((ROOT / "docs").glob("*.md"))}
    for path in sorted([*(ROOT / "fixtures" / "pictures").glob("*.png"), *(ROOT / "docs" / "pictures").glob("*.svg")]):
        found[path] = f"pictures/{path.name}"
    return found | {ROOT / name: page for name, page in COPIED.items() if (ROOT / name).exists()}


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Apply a function to the parts of a page that are not blocks of code."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


def drawn(text: str) -> str:
    """Return the text of a page with each graph of Mermaid as lines `a → b; c`, because the site loads no program."""

    def lines(found: re.Match[str]) -> str:
        arrows = dict[str, list[str]]()
        for start, stop in re.findall(r'\["(.+?)"\] --> \w+\["(.+?)"\]', found[1]):
            arrows.setdefault(start, []).append(stop)
        return "\n".join(["```text", *(f"{start} → {'; '.join(stops)}" for start, stops in arrows.items()), "```"])

    return re.sub(r"^```mermaid\n(.*?)^```$", lines, text, flags=re.MULTILINE | re.DOTALL)


def linked(text: str, source: Path, page: str, known: Mapping[Path, str]) -> str:
    """Return the text of a page with its relative links as they are on the site.

    Args:
        text: The text.
        source: The file that it is from.
        page: Its page on the site.
        known: The page of each file that has one.
    """

    def target(found: re.Match[str]) -> str:
        name, sharp, anchor = found[1].partition("#")
        if "://" in name or not name:
            return found[0]
        place = (source.parent / name).resolve()
        if place in known:
            return f"]({os.path.relpath(known[place], Path(page).parent)}{sharp}{anchor})"
        assert place.exists(), f"{source}: links to {name}, which does not exist"
        return f"]({repository()}/blob/main/{place.relative_to(ROOT).as_posix()}{sharp}{anchor})"

    def bars(found: re.Match[str]) -> str:
        return f"<code>{escape(found[1]).replace(chr(92) + '|', '&#124;')}</code>"

    def changed(part: str) -> str:
        assert not re.search(r"^ {1,3}[-*] ", part, re.MULTILINE), f"{source}: an inner list needs 4 blanks"
        return re.sub(r"`([^`\n]*\\\|[^`\n]*)`", bars, re.sub(r"\]\(([^)\s]+)\)", target, part))

    return outside_code(text, changed)


def cell(text: object) -> str:
    """Return text for a cell of a table.

    A bar in code is written as HTML, because Markdown shows its escape there. A line may end after it.
    """
    words = " ".join(str(text).split())
    words = re.sub(
        r"`([^`]*\|[^`]*)`", lambda found: f"<code>{escape(found[1]).replace('|', '&#124;<wbr>')}</code>", words
    )
    parts = re.split(r"(<code>.*?</code>|`[^`]*`)", words)
    # a brace would begin attributes of the cell
    plain = (re.sub(r"[|\[*_]", r"\\\g<0>", part).replace("<", "&lt;").replace("{", "&#123;") for part in parts[::2])
    return "".join(one for pair in zip(plain, [*parts[1::2], ""], strict=True) for one in pair)


def with_code(text: str) -> str:
    """Return sentences of tokfmt with the commands and options in them as code."""
    command = rf"(?:tokfmt (?:{'|'.join(COMMANDS)})\b|h5repack){_WORD}*(?: {_OPTION}| -[a-z](?: [A-Z]\S*\w)?)*"
    return re.sub(rf"(?<![\w`-])(?:{command}|{_OPTION})", r"`\g<0>`", text)


def table(heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield ""
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"
    yield ""


def command_page(page: CommandPage, known: list[CommandPage], sample: set[str]) -> Iterator[str]:
    """Yield the lines of the page of a command.

    Args:
        page: The command.
        known: All commands.
        sample: The names that `tokfmt demo` writes.
    """
    yield from (f"# {page.name}", "", page.summary, "", "```text", page.usage, "```", "")
    for paragraph in page.paragraphs:
        yield from (cell(with_code(paragraph)), "")
    if page.name == "tokfmt":
        others = [(f"[{one.name}]({one.name.replace(' ', '-')}.md)", one.summary) for one in known[1:]]
        yield from ("", "| command | what it does |", "|---|---|")
        yield from (f"| {link} | {text} |" for link, text in others)
        yield ""
    yield from ("## Examples", "")
    if any(word in sample for example in page.examples for word in example.split()):
        yield from ("The examples run in the directory that `tokfmt demo` writes.", "")
    yield from ("```bash", *page.examples, "```", "")
    for heading, records in page.options.items():
        yield f"## {heading if heading == 'Options' else f'{heading} options'}"
        yield from table(("option", "meaning"), [(f"`{names}`", with_code(text)) for names, text in records])
    if page.losses:
        words = ", ".join(f"[`{one}`](../losses.md#{one})" for one in page.losses)
        yield from ("## Losses", "", f"`--allow-loss` accepts these words: {words}.", "")


def losses_page() -> Iterator[str]:
    """Yield the lines of the page of the words of --allow-loss."""
    yield from ("# Losses", "", "Look up what each word of `--allow-loss` accepts.", "")
    yield "tokfmt refuses what would lose something, and names the word that accepts the loss. The result and the"
    yield "manifest list what was lost. Several words are several options: `--allow-loss tail --allow-loss fields`; in"
    yield from ('Python, `allow_loss=["tail", "fields"]`. `tokfmt check --explain WORD` prints the same.', "")
    for word, text in LOSSES.items():
        title, _, rest = text.partition(". ")
        yield from (f"## `{word}`: {title[0].lower()}{title[1:]} {{ #{word} }}", "", cell(with_code(rest)), "")


def byte_table(lines: Sequence[str]) -> list[str]:
    """Return the table that aligned lines are, in Markdown.

    Args:
        lines: The lines. The first has the names of the columns, at least two blanks apart. A line that has only the
            last column continues the line before it. Text that is wider than its column takes the next one too.
    """
    starts = [found.start() for found in re.finditer(r"(?:^|(?<=  ))\S", lines[0])]
    assert len(starts) > 1, f"not a table with names of columns: {lines[0]}"
    rows = list[list[str]]()
    for line in lines:
        begun = [start for start in starts if not start or not line[start - 1 : start].strip()]
        parts = {start: line[start:stop].strip() for start, stop in itertools.pairwise([*begun, len(line)])}
        cells = [parts.get(start, "") for start in starts]
        if rows and not any(cells[:-1]):
            rows[-1] = [f"{one} {more}".strip() for one, more in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
    return list(table(tuple(rows[0]), [tuple(row) for row in rows[1:]]))


def prose(text: str) -> Iterator[str]:
    """Yield the text of a module in Markdown: paragraphs, lists, and tables of what is indented and aligned."""
    for part in re.split(r"\n\s*\n|\n(?=Source: )", text.strip("\n")):
        lines = part.splitlines()
        if all(line.startswith("    ") for line in lines):
            yield from byte_table([line[4:] for line in lines])
            continue
        items = re.split(r"\n(?=- )", part)
        plain = items[0] if not items[0].startswith("- ") else ""
        if plain:
            yield from (cell(with_code(plain)).replace("\\|", "|"), "")
        for item in items[1 if plain else 0 :]:
            yield f"- {cell(with_code(item[2:]))}".replace("\\|", "|")
        yield ""


def format_page(facts: Mapping[str, Any], codes: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the page of a format."""
    name = facts["name"]
    yield from (f"# {name}", "", f"{facts['title']}.", "")
    named = ", ".join(f"`*{one.removeprefix('*')}`" for one in facts["destinations"]) or f"`--to {name}`"
    yield f"- Destinations: {'none; tokfmt only reads it' if facts['read_only'] else named}"
    yield f"- Stores: {facts['stores']}"
    if not facts["read_only"]:
        yield f"- Cannot store: {facts['cannot_store']}"
    yield ""
    kinds = [("read_options", "Read options (--from-opt)")]
    kinds += [] if facts["read_only"] else [("write_options", "Write options (--to-opt)")]
    for key, heading in kinds:
        yield f"## {heading}"
        options = [
            (f"`{o['name']}`", f"`{o['type']}`", f"`{o['default'] or 'none'}`", with_code(o["help"]))
            for o in facts[key]
        ]
        if options:
            yield from table(("option", "values", "default", "meaning"), options)
        else:
            yield from ("", "The format has no options here.", "")
    yield from ("## Bytes", "", *prose(facts["layout"]))
    own = [one for one in codes if one["owner"] == name]
    if own:
        yield "## Findings"
        yield from ("", "| code | problem |", "|---|---|")
        yield from (f"| [{one['code']}](../findings.md#{one['code'].lower()}) | {cell(one['title'])} |" for one in own)
        yield ""


def findings_page(codes: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of the page of all findings."""
    yield from (
        "# Findings",
        "",
        f"Look up the code of a finding of `tokfmt check`: {len(codes)} codes, by format.",
        "",
    )
    yield from (
        "`tokfmt check --explain CODE` prints the same. Codes are stable: a code never changes its meaning.",
        "[Repair a dataset](inspect.md#repair-a-dataset) lists those that `--fix` repairs.",
        "",
    )
    for owner in dict.fromkeys(one["owner"] for one in codes):
        yield from (f"## {owner}", "")
        for one in codes:
            if one["owner"] != owner:
                continue
            unsafe = " `check` ends with exit code 3." if one["unsafe"] else ""
            yield from (f"### {one['code']}: {cell(one['title'])} {{ #{one['code'].lower()} }}", "")
            yield from (cell(with_code(one["text"])) + unsafe, "")


def schema_page() -> Iterator[str]:
    """Yield the lines of the page of the documents of --json."""
    yield from ("# Schemas of the JSON output", "", "Find every key of the documents that `--json` prints.", "")
    yield "`tokfmt schema NAME` prints the schema itself. The number in a `$id` grows if a key is removed or changes"
    yield from ("its meaning. New keys can be added without a new number: [compatibility](compatibility.md).", "")
    yield from ("If a command asked a store, its document has one more key: [transfer](#transfer).", "")
    for name in schemas.names():
        one = schemas.schema(name)
        yield from (f"## {name}", "", f"{cell(one['title'])} ([{name}.json](schemas/{name}.json), `{one['$id']}`)", "")
        branches = one.get("anyOf", [one])
        for branch in branches:
            if len(branches) > 1:
                yield from (branch.get("description", ""), "")
            keys = branch["properties"].items()
            rows = list(_keys({key: given for key, given in keys if key != "transfer"}, "", one))
            yield from table(("key", "type", "meaning"), rows)
    yield from ("## transfer", "", "What a command asked of stores, in each document of a command that asked one.")
    one = schemas.schema("info")
    yield from table(("key", "type", "meaning"), list(_keys({"transfer": one["properties"]["transfer"]}, "", one)))


def _keys(properties: Mapping[str, Any], above: str, whole: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each key, and for each key of objects in it."""
    for key, given in properties.items():
        inner = _resolved(given, whole)
        words = inner.get("type") or ("constant" if "const" in inner else "")
        words = "any" if isinstance(words, list) else words
        if "enum" in inner:
            words = "/".join("null" if one is None else repr(one).replace("'", '"') for one in inner["enum"])
        words += "/null" if {"type": "null"} in given.get("anyOf", ()) else ""
        meaning = given.get("description") or inner.get("description", "")
        yield f"`{above}{key}`", words.replace("/", "/\u200b"), with_code(meaning)
        below = _resolved(inner["items"], whole) if inner.get("items") else inner
        if "properties" in below and above.count(".") < 2:
            yield from _keys(below["properties"], f"{above}{key}{'[]' if 'items' in inner else ''}.", whole)


def _resolved(node: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema that is not a reference, and the first of several that is not null."""
    if "$ref" in node:
        found: Mapping[str, Any] = whole["$defs"][node["$ref"].rpartition("/")[2]]
        return found
    if "anyOf" in node and "properties" not in node:
        return _resolved(next(one for one in node["anyOf"] if one.get("type") != "null"), whole)
    return node


def navigation(there: set[str], commands: list[CommandPage], formats: list[str]) -> list[Any]:
    """Return the navigation; a page that does not exist is left out, and one that is not listed is an error."""

    def listed(names: tuple[str, ...]) -> list[str]:
        return [f"{name}.md" for name in names if f"{name}.md" in there]

    nav = [
        {"Home": "index.md"},
        {"Guides": listed(GUIDES)},
        {
            "Reference": [
                {"Command line": [f"cli/{page.name.replace(' ', '-')}.md" for page in commands]},
                {"Formats": ["formats.md", *(f"formats/{name}.md" for name in formats)]},
                "findings.md",
                "losses.md",
                "api.md",
                *listed(("json",)),
                "schemas.md",
                *listed(("environment", "limits", "glossary")),
            ]
        },
        {"About": [*listed(ABOUT), {"Repository": repository()}]},  # `repo_url` would ask the host for stars
    ]
    named = set(re.findall(r"[\w./-]+\.md", json.dumps(nav)))
    assert there == named, sorted(there ^ named)
    return nav


def settings(nav: list[Any]) -> str:
    """Return mkdocs.yml; JSON is YAML."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    schemes = [
        {
            "media": "(prefers-color-scheme: light)",
            "scheme": "default",
            "toggle": {"icon": "material/weather-sunny", "name": "Dark mode"},
        },
        {
            "media": "(prefers-color-scheme: dark)",
            "scheme": "slate",
            "toggle": {"icon": "material/weather-night", "name": "Light mode"},
        },
    ]
    features = ["navigation.indexes", "navigation.top", "content.code.copy", "search.highlight", "toc.follow"]
    content = {
        "site_name": "tokfmt",
        "site_description": project["description"],
        "docs_dir": "pages",
        "site_dir": "html",
        "use_directory_urls": False,
        "theme": {"name": "material", "font": False, "features": features, "palette": schemes},
        "plugins": ["search"],
        "extra_css": ["extra.css"],
        "markdown_extensions": [
            "attr_list",
            "tables",
            "admonition",
            {"toc": {"permalink": True}},
            "pymdownx.superfences",
            "pymdownx.highlight",
        ],
        "validation": {"links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn"}},
        "nav": nav,
    }
    return json.dumps(content, indent=2) + "\n"


def first_sentence(text: str) -> tuple[str, str]:
    """Return the heading and the first sentence of a page."""
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    assert heading is not None, text[:80]
    body = text[heading.end() :].strip().split("\n\n")[0]
    return heading[1], " ".join(body.split()) if not body.startswith(("```", "|")) else ""


def write_pages(home: Path) -> None:
    """Write all pages and the settings to a directory, which is replaced."""
    shutil.rmtree(home, ignore_errors=True)
    target, known = home / "pages", site_pages()
    own = {path: page for path, page in known.items() if page.endswith(".md") and path != ROOT / "README.md"}
    texts = {page: linked(drawn(path.read_text()), path, page, known) for path, page in own.items()}
    texts["benchmark-results.md"] = f"---\nhide: [toc]\n---\n\n{texts['benchmark-results.md']}"  # for its wide table
    for path, page in known.items():
        if page.endswith((".png", ".svg")):
            (target / page).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / page)
    commands, listed = pages(), asked("formats")["formats"]
    codes = asked("check", "--explain", "all")["codes"]
    with tempfile.TemporaryDirectory() as made:
        sample = {Path(file).relative_to(made).parts[0] for file in asked("demo", made)["files"]}
    for one in commands:
        texts[f"cli/{one.name.replace(' ', '-')}.md"] = "\n".join(command_page(one, commands, sample))
    for facts in listed:
        texts[f"formats/{facts['name']}.md"] = "\n".join(format_page(facts, codes))
    texts["findings.md"] = "\n".join(findings_page(codes))
    texts["api.md"] = "\n".join(api_page())
    texts["schemas.md"] = "\n".join(schema_page())
    texts["losses.md"] = "\n".join(losses_page())
    for page, text in texts.items():
        (target / page).parent.mkdir(parents=True, exist_ok=True)
        (target / page).write_text(text.rstrip() + "\n")
    shutil.copyfile(Path(__file__).with_name("extra.css"), target / "extra.css")
    (target / "schemas").mkdir()
    for name in schemas.names():
        (target / "schemas" / f"{name}.json").write_text(json.dumps(schemas.schema(name), indent=2) + "\n")
    nav = navigation(set(texts), commands, [facts["name"] for facts in listed])
    (home / "mkdocs.yml").write_text(settings(nav))
    (target / "llms.txt").write_text("\n".join(_for_models(texts)) + "\n")


def _for_models(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of llms.txt."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield from ("# tokfmt", "", f"> {project['description']}", "", "## Pages", "")
    for page in sorted(texts):
        heading, sentence = first_sentence(texts[page])
        yield f"- [{heading}]({page.removesuffix('.md')}.html){f': {sentence}' if sentence else ''}"


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]))
