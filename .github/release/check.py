"""Check that a checkout can be released: `python .github/release/check.py v0.1.0`.

The checkout must be clean, the tag must be that of the version, the changelog must have a dated section for it, and the
owner of the repository must be stated. Tests check the parts that hold before a release as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACEHOLDER = "OWNER"
"""The owner of the repository, until a person who publishes states it in `[project.urls]`."""
_NAMED = re.compile(r"(?:github\.com/|uses: )([A-Za-z0-9-]+)/tokfmt\b")


def owner() -> str:
    """Return the owner of the repository, which pyproject.toml states once."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    found = _NAMED.search(urls["Repository"])
    assert found is not None, urls
    return found[1]


def other_owners() -> Iterator[str]:
    """Yield each place that names another owner than pyproject.toml."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if name.startswith(("fixtures/", "tests/", "benchmarks/")) or path.suffix not in (
            ".md",
            ".toml",
            ".yml",
            ".yaml",
            ".cff",
        ):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for found in _NAMED.findall(line):
                if found != owner():
                    yield f"{name}:{number}: names the owner {found} (expected {owner()})"


def version() -> str:
    """Return the version of the package."""
    text = (ROOT / "tokfmt" / "base" / "version.py").read_text()
    found = re.search(r'__version__ = "([^"]+)"', text)
    assert found is not None, text
    return found[1]


def problems(tag: str) -> Iterator[str]:
    """Yield each reason not to release the checkout as `tag`."""
    if tag != f"v{version()}":
        yield f"tag {tag}: is not that of the version (expected v{version()}). Change tokfmt/base/version.py or the tag"
    changelog = (ROOT / "CHANGELOG.md").read_text()
    if not re.search(rf"^## {re.escape(version())} \(\d{{4}}-\d{{2}}-\d{{2}}\)$", changelog, re.MULTILINE):
        yield f"CHANGELOG.md: has no dated section (expected ## {version()} (YYYY-MM-DD)). Add the date"
    if owner() == PLACEHOLDER:
        yield f"pyproject.toml: the owner is {PLACEHOLDER}. State it in [project.urls], and run sed on the files below"
    yield from other_owners()
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    if changed:
        yield f"the checkout is not clean: {len(changed.splitlines())} files. Untracked files would be released"


def main() -> int:
    """Print each problem; return 1 if there is any."""
    found = list(problems(sys.argv[1]))
    for line in found:
        print(line)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
