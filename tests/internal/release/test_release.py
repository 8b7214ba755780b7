"""What a release has beside the package is what the commands and pyproject.toml say."""

from release.commands import pages

from tokfmt.cli.main import COMMANDS, cli
from tokfmt.core.losses import LOSSES


def test_every_command_has_a_page_with_its_options():
    found = {page.name.removeprefix("tokfmt").strip(): page for page in pages()}
    assert [*found] == ["", *COMMANDS]
    assert list(cli.commands) == list(COMMANDS)
    listed = {names for records in found["convert"].options.values() for names, _ in records}
    assert {"--to FORMAT", "--verify", "--allow-loss NAME"} <= listed
    assert found["convert"].losses == tuple(LOSSES) and not found["formats"].losses
    for page in found.values():
        assert page.examples and all(line.startswith("tokfmt ") for line in page.examples), page.name
        assert page.summary.endswith(".")
