"""Annotations of GitHub Actions: https://docs.github.com/actions/reference/workflow-commands-for-github-actions."""

from __future__ import annotations


def annotation(level: str, path: str, title: str, message: str) -> str:
    """A line that GitHub shows at a file. `level`: "error", "warning" or "notice"."""
    return f"::{level} file={_property(path)},title={_property(title)}::{_escaped(message)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
