"""What a file in a store may name: places of its own bucket, host or repository."""

import shutil

import pytest
from amount import FUZZ_ONLY
from click.testing import CliRunner
from paths import FIXTURES
from stores import close_stores

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import FormatError, UnsafeError
from tokfmt.files.named import place_named
from tokfmt.files.place import LocalPlace
from tokfmt.plugin import Url

HOME = Url.parse("s3://b/mixes/mix.toml")


@pytest.mark.parametrize(
    ("file", "name", "place"),
    [
        (HOME, "web.pbin", "s3://b/mixes/web.pbin"), (HOME, "../data/*.parquet", "s3://b/data/*.parquet"),
        (HOME, "s3://b/x.pbin", "s3://b/x.pbin"), (HOME, "..", "s3://b"), (HOME, "./a//b", "s3://b/mixes/a/b"),
        (Url.parse("https://h/a/mix.toml"), "https://h/x?download=true", "https://h/x?download=true"),
        (Url.parse("hf://datasets/o/n@v1/mix.toml"), "data/x", "hf://datasets/o/n@v1/data/x"),
        (Url.parse("hf://datasets/o/n@v1/mix.toml"), "hf://datasets/o/n/x", "hf://datasets/o/n/x"),
        (LocalPlace("/r/mix.toml"), "s3://c/x", "s3://c/x"), (LocalPlace("/r/mix.toml"), "/etc/x", "/etc/x"), (LocalPlace("/r/mix.toml"), "../x", "/r/../x"),
    ],
)  # fmt: skip
def test_what_is_named(file, name, place):
    found = place_named(file, name)
    assert (found.address if isinstance(found, Url) else str(found)) == place


OUTSIDE = [
    (HOME, "/etc/passwd", "names /etc/passwd, which is outside of s3://b."), (HOME, "../../x", "outside of s3://b."),
    (HOME, "../../../etc/passwd", "outside of s3://b."), (HOME, "s3://c/x", "names s3://c/x, which is outside of s3://b."),
    (HOME, "gs://b/x", "outside of s3://b."), (HOME, "file:///etc/passwd", "names file:///etc/passwd, which"),
    (HOME, "https://169.254.169.254/latest", "outside of s3://b."), (HOME, "s3:/etc/passwd", "outside of s3://b."),
    (HOME, "s3://b/../c/x", "outside of s3://b."), (HOME, "S3://c/x", "outside of s3://b."),
    (Url.parse("https://h/a/mix.toml"), "http://h/x", "outside of https://h."),
    (Url.parse("https://h/a/mix.toml"), "https://h:8443/x", "outside of https://h."),
    (Url.parse("hf://datasets/o/n@v1/mix.toml"), "hf://datasets/o/m/x", "outside of hf://datasets/o/n."),
    (Url.parse("hf://datasets/o/n@v1/mix.toml"), "../../m/x", "outside of hf://datasets/o/n."),
]  # fmt: skip


@pytest.mark.parametrize(("file", "name", "words"), OUTSIDE)
def test_what_is_outside_is_refused(file, name, words):
    with pytest.raises(UnsafeError) as caught:
        place_named(file, name)
    assert str(caught.value).startswith(f"{file}: ") and words in str(caught.value)
    assert "local file" in str(caught.value) and caught.value.exit_code == 3


@pytest.mark.parametrize("file", [HOME, LocalPlace("/r/mix.toml"), Url.parse("https://h/mix.toml")])
@pytest.mark.parametrize(
    "name", ["https://h/x?X-Amz-Signature=planted", "https://h/x?sv=1&sig=planted", "https://h/x?access_token=planted", "https://me:planted@h/x"]
)  # fmt: skip
def test_no_file_names_a_secret(file, name):
    with pytest.raises((FormatError, UnsafeError)) as caught:
        place_named(file, name)
    assert "planted" not in str(caught.value)
    assert isinstance(file, Url) or "a signature" in str(caught.value) or "a password" in str(caught.value)


@pytest.fixture
def run(server, bucket):
    """Run a command on a file of the bucket, which has a pack and two Megatron datasets of ours beside it."""
    for name in ("modalities", "megatron"):
        shutil.copytree(FIXTURES / name, bucket / name)
        shutil.copytree(FIXTURES / name, server.home / "other" / name)

    def run(name, text, *options):
        (bucket / name).write_text(text)
        close_stores()
        return CliRunner().invoke(cli, ["stats", f"s3://bkt/{name}", "--json", *options])

    yield run
    close_stores()


def mix(path):
    return f'tokfmt = 1\nseq_len = 64\n[[source]]\npath = "{path}"\n'


@FUZZ_ONLY
def test_a_recipe_in_a_bucket(run, tmp_path):
    assert run("mix.toml", mix("modalities/D_2byte_gpt2.pbin")).exit_code == 0
    other = mix("s3://other/modalities/D_2byte_gpt2.pbin")
    for text in (other, mix("/etc/passwd"), mix("../../etc/passwd"), mix("https://h/x?X-Amz-Signature=planted")):
        error = run("mix.toml", text).exception
        assert isinstance(error, UnsafeError) and "planted" not in f"{error}{error.__notes__}"
        assert "which is outside of s3://bkt. Copy it to a local file" in str(error)
    (tmp_path / "mix.toml").write_text(other)
    (found,) = tokfmt.stats(tmp_path / "mix.toml").datasets
    assert found.sequences


def test_a_blend_list_in_a_bucket(run, bucket, tmp_path, monkeypatch):
    """Nor does one find an index in the working directory."""
    assert run("blend.txt", "1 megatron/gpt2_text_document").exit_code == 0
    shutil.copytree(FIXTURES / "megatron", tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    for prefix in (f"{tmp_path}/here/gpt2_text_document", "here/gpt2_text_document", "../../x_text_document"):
        error = run("blend.txt", f"0.5 megatron/gpt2_text_document 0.5 {prefix}").exception
        assert isinstance(error, FormatError)
        assert isinstance(error, UnsafeError) is (prefix != "here/gpt2_text_document"), error
