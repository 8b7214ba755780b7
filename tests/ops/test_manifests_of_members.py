"""A folder without a manifest, whose files have manifests: what they state holds, in every format, or is an error."""

import json

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import FormatError, TokenizerMismatchError

SOURCE, EOS = FIXTURES / "modalities" / "D_2byte_gpt2.pbin", 50256
NAMES = ["part_{}_text_document.bin", "x_train_00000{}.bin", "part-{}.npy", "part-{}.parquet", "part-{}.jsonl"]
FORMATS = ["megatron", "llmc", "olmo", "parquet", "jsonl"]


@pytest.fixture(params=zip(NAMES, FORMATS, strict=True), ids=FORMATS)
def files(request, tmp_path):
    """Three files of a format with manifests, in one folder."""
    (tmp_path / "in").mkdir()
    name, format_ = request.param
    paths = [tmp_path / "in" / name.format(k) for k in range(3)]
    for k, path in enumerate(paths):
        tokfmt.convert(SOURCE, path, to_format=format_, eos=EOS, select=f"{6 * k}:{6 * k + 6}")
    return paths


def state(path, **facts):
    """Change what the manifest of a file states."""
    manifest = path.with_name(f"{path.name}.tokfmt.json")
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **facts}))


def joined(paths, **options):
    first = paths[0] if isinstance(paths, list) else paths / "x"
    return tokfmt.convert(paths, first.parent.parent / "joined.jsonl", overwrite=True, **options)


def test_the_facts_of_the_manifests_hold_for_the_folder(files):
    made = {"name": "gpt2", "digest": "1" * 32}
    for path in files:
        state(path, tokenizer=made)
    folder = files[0].parent
    assert joined(folder).tokenizer == joined(files).tokenizer == made
    assert (joined(folder).sequences, joined(folder).tokens) == (18, joined(files).tokens)
    about = tokfmt.info(folder)
    assert (about.sequences, about.tokenizer, about.manifest.path) == (18, made, str(folder / "*.tokfmt.json"))
    assert about.eos_id == tokfmt.info(files[0]).eos_id
    (report,) = tokfmt.check(folder, deep=True)
    assert (report.errors, report.manifest) == (0, str(folder / "*.tokfmt.json"))


def test_a_byte_that_changed_is_found(files):
    content = bytearray(files[1].read_bytes())
    content[-3] ^= 1
    files[1].write_bytes(content)
    (report,) = tokfmt.check(files[1].parent, deep=True)
    assert ("TF912", str(files[1])) in {(finding.code, finding.path) for finding in report.findings}
    for path in (files[1].parent, files):
        with pytest.raises(FormatError) as caught:
            joined(path)
        assert files[1].name in str(caught.value)


def test_a_file_of_another_size_is_refused(files):
    state(files[1], output={"bytes": 3, "files": 1, "xxh3_128": "0" * 32})
    (report,) = tokfmt.check(files[1].parent)
    assert ("TF911", str(files[1])) in {(finding.code, finding.path) for finding in report.findings}
    for read in (joined, tokfmt.info):
        with pytest.raises(FormatError, match=files[1].name):
            read(files[1].parent)
    assert joined(files[1].parent, ignore_manifest=True, eos=EOS).sequences == 18


def test_files_of_two_tokenizers_are_refused(files):
    for k, path in enumerate(files):
        state(path, tokenizer={"name": "gpt2", "digest": str(k // 2) * 32})
    with pytest.raises(TokenizerMismatchError, match=files[2].name):
        joined(files[0].parent)
    assert joined(files[0].parent, allow_loss=["tokenizers"]).tokenizer is None
    if files[0].suffix != ".jsonl":
        (report,) = tokfmt.check(files[0].parent, tokenizer=str(FIXTURES / "tokenizer"))
        assert {finding.path for finding in report.findings if finding.code == "TF926"} == set(map(str, files))


def test_files_of_two_separators_are_refused(files):
    state(files[2], eos_id=7, eos_stored="none")
    state(files[1], eos_id=EOS)
    with pytest.raises(FormatError, match=f"{files[1].name}|{files[2].name}"):
        joined(files[0].parent)


def test_a_file_without_a_manifest_leaves_the_tokenizer_unknown(files):
    for path in files[:2]:
        state(path, tokenizer={"name": "gpt2", "digest": "1" * 32})
    files[2].with_name(f"{files[2].name}.tokfmt.json").unlink()
    assert joined(files[0].parent).tokenizer is None
