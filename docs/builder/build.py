"""Build the site without a network, and fail if there is any warning.

`python -m builder.build PROGRAMS DIRECTORY [mkdocs]`
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from builder.generate import write_pages

_PROBLEM = re.compile(r"warn|error|issue|not found|unrecognized", re.IGNORECASE)
_LONG = 20  # characters of code, and of a word of code, from which on a line may end in it
_NONE = re.compile(r"\b(0|no) (issues|warnings|errors)", re.IGNORECASE)


def unbroken(html: str) -> str:
    """Return a page in which a line ends inside of code only after a blank, `/`, `,`, `|` or `::`, not after a hyphen.

    In a long word, it can also end after `_`, `.` and `=`.
    """

    def word(text: str) -> str:
        return re.sub(r"(?<=\w)[_.=]+", r"\g<0><wbr>", text) if len(text) > _LONG else text

    def code(found: re.Match[str]) -> str:
        text = found[1].replace("<wbr>", "")
        if len(text) <= _LONG and "&#124;" not in text:
            return found[0]
        parts = re.split(r"( |/(?=...)|,|::|&#124;|\|)", text)
        return f"<code>{''.join(f'{part}<wbr>' if k % 2 else word(part) for k, part in enumerate(parts))}</code>"

    parts = re.split(r"(<pre.*?</pre>)", html, flags=re.DOTALL)
    parts[::2] = [re.sub(r"<code>((?:[^<]|<wbr>)*)</code>", code, part) for part in parts[::2]]
    return "".join(parts)


def guides_first(index: dict[str, Any]) -> dict[str, Any]:
    """Return an index of the search that finds findings by their codes and titles alone, and no changes.

    There are more of both than of all other sections, which they would hide.
    """
    kept = [one for one in index["items"] if not one["location"].startswith("changelog.html")]
    brief = [{**one, "text": ""} if one["location"].startswith("findings.html") else one for one in kept]
    return {**index, "items": brief}


def main() -> int:
    """Write the pages, build them, and print what the builder reports if it reports a problem."""
    programs, home, *rest = sys.argv[1:]
    write_pages(Path(home))
    builder = rest[0] if rest else "zensical"
    # a proxy that refuses every connection: a build that asks the network for anything fails
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
    environment = {
        **os.environ,
        **dict.fromkeys(proxies, "http://127.0.0.1:9"),
        "NO_COLOR": "1",
        "NO_MKDOCS_2_WARNING": "1",
    }
    words = [str(Path(programs).absolute() / builder), "build", "--strict", "--config-file", "mkdocs.yml"]
    done = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True)
    told = done.stdout + done.stderr
    wrong = [line for line in told.splitlines() if _PROBLEM.search(line) and not _NONE.search(line)]
    if done.returncode or wrong:
        print(told)
        return 1
    index = Path(home) / "html" / "search.json"
    if index.exists():  # MkDocs has another
        index.write_text(json.dumps(guides_first(json.loads(index.read_text()))))
    made = list((Path(home) / "html").rglob("*.html"))
    for page in made:
        page.write_text(unbroken(page.read_text()))
    print(f"{home}/html: {len(made)} pages, 0 warnings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
