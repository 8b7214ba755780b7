"""What a recipe may say, what it may not, and in which words that is told."""

from tokfmt.recipes.language import is_recipe


def test_sniffed_by_content(tmp_path):
    assert is_recipe(b'tokfmt = "1"\n[[source]]\n', toml=True)  # and reading it says that this is no number
    assert is_recipe(b"# mine\ntokfmt = 1  # version\nseq_len = 4\n[[source]]\npath = 'x'\n", toml=False)
    assert not is_recipe(b"[project]\nname = 'tokfmt'\n", toml=True)
    assert not is_recipe(b"tokfmt = 1\n", toml=False)
    quoted = b"# A page\n\nThat quotes a recipe:\n\ntokfmt = 1\n[[source]]\npath = 'x'\n"
    assert not is_recipe(quoted, toml=False)
    hostile = b"\n" * 60_000 + b"!\ntokfmt = 1\n[[source]]\n"
    assert not is_recipe(hostile, toml=False)  # patterns that take a line break for a blank need 10 s for it
    assert is_recipe(b"tokfmt = 1\n[sources.web]\npath = 'x'\n", toml=True)  # a mistake in it is said by what reads it
    path = tmp_path / "no-suffix"
    path.write_text("tokfmt = 1\n[[source]]\npath = 'x.pbin'\n")
    from tokfmt import registry

    assert registry.detect(path).name == "recipe"
