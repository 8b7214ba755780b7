"""Write the man pages and completion scripts that a wheel installs: `python -m release.share [--check]`.

They are in the repository, because a wheel is built without tokfmt. A test compares them with what this module writes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from click.shell_completion import get_completion_class

from release.commands import CommandPage, pages
from tokfmt.base.version import __version__
from tokfmt.cli.main import cli

HOME = Path(__file__).parent / "share"
_COMPLETIONS = {
    "bash": "bash-completion/completions/tokfmt",
    "zsh": "zsh/site-functions/_tokfmt",
    "fish": "fish/vendor_completions.d/tokfmt.fish",
}
_EXIT_CODES = {
    "0": "The command is done.",
    "1": "There are findings or differences, or an expectation does not hold.",
    "2": "The usage is wrong.",
    "3": "A source cannot be read, or is unsafe to read.",
    "4": "A conversion failed, or standard output accepts no more.",
    "70": "There is a bug in tokfmt, or in a format of another package.",
}


def files() -> Mapping[str, str]:
    """Return the content of each file by its path below share/."""
    known = pages()
    found = {f"man/man1/{page.name.replace(' ', '-')}.1": man_page(page, known) for page in known}
    for shell, path in _COMPLETIONS.items():
        completion = get_completion_class(shell)
        assert completion is not None, shell
        found[path] = completion(cli, {}, "tokfmt", "_TOKFMT_COMPLETE").source().strip() + "\n"
    return found


def man_page(page: CommandPage, known: list[CommandPage]) -> str:
    """Return a command as a page for man(1)."""
    return "\n".join(_lines(page, known)) + "\n"


def _lines(page: CommandPage, known: list[CommandPage]) -> Iterator[str]:
    name = page.name.replace(" ", "-")
    yield f'.TH "{name.upper()}" "1" "" "tokfmt {__version__}" "User Commands"'
    yield from (".SH NAME", f"{_text(name)} \\- {_text(page.summary.rstrip('.'))}")
    yield from (".SH SYNOPSIS", f".B {_text(page.usage)}")
    yield from (".SH DESCRIPTION", _text(page.summary))
    for paragraph in page.paragraphs:
        yield from (".PP", _text(paragraph))
    if len(page.name.split()) == 1:
        yield ".SH COMMANDS"
        for other in known[1:]:
            yield from (".TP", f".BR {_text(other.name.replace(' ', '-'))} (1)", _text(other.summary))
    for heading, records in page.options.items():
        yield f".SH {_text(heading.upper() if heading == 'Options' else f'{heading.upper()} OPTIONS')}"
        for names, text in records:
            yield from (".TP", f".B {_text(names)}", _text(text))
    if page.losses:
        yield from (".SH LOSSES", f"The words that {_text('--allow-loss')} accepts: {_text(', '.join(page.losses))}.")
    yield from (".SH EXAMPLES", "The examples run in a directory that tokfmt demo writes.", ".PP", ".nf")
    yield from (_text(line) for line in page.examples)
    yield from (".fi", ".SH EXIT STATUS")
    for code, text in _EXIT_CODES.items():
        yield from (".TP", f".B {code}", _text(text))
    others = [f"{_text(other.name.replace(' ', '-'))}(1)" for other in known if other is not page]
    yield from (".SH SEE ALSO", ", ".join(others))


def _text(text: str) -> str:
    """Escape text for roff: backslashes, hyphens, and a control character at the start of a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def main() -> int:
    """Write the files; with --check, report those that differ instead."""
    wanted, check = files(), "--check" in sys.argv[1:]
    there = {path.relative_to(HOME).as_posix() for path in HOME.rglob("*") if path.is_file()}
    stale = sorted(there - wanted.keys())
    stale += sorted(name for name, text in wanted.items() if name not in there or (HOME / name).read_text() != text)
    if check:
        for name in stale:
            print(f".github/release/share/{name}: differs from the commands. Run make share")
        return int(bool(stale))
    for name in there - wanted.keys():
        (HOME / name).unlink()
    for name, text in wanted.items():
        (HOME / name).parent.mkdir(parents=True, exist_ok=True)
        (HOME / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
