"""Datasets of the Hugging Face Hub are read as local ones, at one commit, and no other server gets the token."""

import pickle
import shutil

import numpy as np
import pytest
from paths import FIXTURES
from remote import fake_hub
from remote.conftest import forget
from stores import close_stores

import tokfmt
from tokfmt.errors import FormatError, OptionError, UnsafeError
from tokfmt.plugin import Url, open_file

REPOSITORY = "datasets/org/corpus"
ADDRESS = f"hf://{REPOSITORY}"
TOKEN = "hf_planted_token"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    home = tmp_path / "hub"
    for name in ("stage1", "parquet", "mds", "modalities", "levanter"):
        shutil.copytree(FIXTURES / name, home / REPOSITORY / name)
    shutil.copytree(FIXTURES / "modalities", home / "models/org/corpus")
    for name in (
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HF_HUB_DISABLE_IMPLICIT_TOKEN",
        "HF_TOKEN_PATH",
        "TOKFMT_STORE_OPTIONS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("TOKFMT_RETRY_TIMEOUT", "1")
    forget()
    with fake_hub.serving(home) as served:
        monkeypatch.setenv("HF_ENDPOINT", served.site.endpoint)
        close_stores()
        yield served
    close_stores()


def same(address, path):
    stored, local = tokfmt.open(address), tokfmt.open(FIXTURES / path)
    return len(stored) == len(local) > 0 and all(np.array_equal(*pair) for pair in zip(stored, local))


@pytest.mark.parametrize(
    "path",
    ["modalities/D_2byte_gpt2.pbin", "parquet/int32.parquet", "parquet/save_to_disk", "mds/ndarray_uint32_zstd", "stage1/blocks", "levanter/cache_uint32"],
)  # fmt: skip
def test_files_and_folders_are_read_as_local_ones(hub, path):
    assert same(f"{ADDRESS}/{path}", path)
    assert [line for line in hub.site.seen if "/revision/" in line[1]] == hub.site.seen[:1], "one request resolves it"


def test_patterns_revisions_and_models(hub):
    hub.revisions |= {"v1.0": fake_hub.COMMIT, "refs/convert/parquet": fake_hub.COMMIT}
    for address in (f"{ADDRESS}@v1.0/parquet/int3*.parquet", f"{ADDRESS}@refs/convert/parquet/parquet/int32.parquet"):
        assert same(address, "parquet/int32.parquet")
    assert same(f"{ADDRESS}@refs%2Fconvert%2Fparquet/parquet/int32.parquet", "parquet/int32.parquet")
    assert same("hf://models/org/corpus/D_2byte_gpt2.pbin", "modalities/D_2byte_gpt2.pbin")


@pytest.mark.parametrize("stored", [False, True])
def test_the_token_goes_to_the_hub_alone(hub, tmp_path, monkeypatch, stored):
    hub.token = TOKEN
    if stored:
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        (tmp_path / "token").write_text(f"{TOKEN}\n")
    else:
        monkeypatch.setenv("HF_TOKEN", TOKEN)
    dataset = tokfmt.open(f"{ADDRESS}/mds/ndarray_uint32_zstd")
    assert dataset[0].size and hub.bytes.seen
    assert all(headers["Authorization"] == f"Bearer {TOKEN}" for _, _, headers in hub.site.seen)
    assert not [line for line in hub.bytes.seen if "Authorization" in line[2] or TOKEN in str(line)]
    assert TOKEN.encode() not in pickle.dumps(dataset) and "sig-0" not in str(pickle.dumps(dataset))


def test_a_moved_branch_is_read_at_the_commit_of_the_first_look(hub):
    dataset = tokfmt.open(f"{ADDRESS}/modalities/D_2byte_gpt2.pbin")
    hub.revisions["main"] = "d" * 40
    forget()
    close_stores()
    again = pickle.loads(pickle.dumps(dataset))
    assert np.array_equal(again[3], tokfmt.open(FIXTURES / "modalities/D_2byte_gpt2.pbin")[3])


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        ("datasets/org/none/x", FormatError, "dataset org/none does not exist, or you cannot read it. Set HF_TOKEN if it is private"),
        ("datasets/org/corpus@v9/x", FormatError, "dataset org/corpus has no revision v9"),
        ("datasets/org/corpus@refs%2Fheads%2Fx/x", OptionError, "refs/heads/x is not a revision"),
        ("datasets/squad", OptionError, "expected hf://datasets/ORG/NAME"),
        ("spaces/org/corpus", OptionError, "expected hf://datasets/ORG/NAME"),
    ],
)  # fmt: skip
def test_what_does_not_exist_is_reported(hub, key, error, words):
    with pytest.raises(error) as caught:
        tokfmt.open(f"hf://{key}")
    assert words in str(caught.value)


def test_a_gated_dataset(hub):
    hub.gated = True
    with pytest.raises(
        FormatError, match=rf"org/corpus is gated. Ask for access at {hub.site.endpoint}/datasets/org/corpus$"
    ):
        tokfmt.open(f"{ADDRESS}/modalities")


@pytest.mark.parametrize("target", ["http://localhost:9/x", "file:///etc/passwd", "http://169.254.169.254/latest"])
def test_redirects_that_are_not_followed(hub, target):
    hub.redirect = target
    with pytest.raises(UnsafeError, match="leads to"):
        tokfmt.open(f"{ADDRESS}/modalities/D_2byte_gpt2.pbin")


def test_redirects_of_the_hub_to_itself_are_followed_five_times(hub):
    hub.hops = 5
    assert same(f"{ADDRESS}/modalities/D_2byte_gpt2.pbin", "modalities/D_2byte_gpt2.pbin")
    close_stores()
    forget()
    hub.hops = 6
    with pytest.raises(UnsafeError, match="more than 5 times"):
        tokfmt.open(f"{ADDRESS}/modalities/D_2byte_gpt2.pbin")


def test_an_answer_of_more_than_16_mib_is_refused(hub):
    hub.size = 16 << 20
    assert same(f"{ADDRESS}/modalities/D_2byte_gpt2.pbin", "modalities/D_2byte_gpt2.pbin")
    close_stores()
    forget()
    hub.size += 1
    with pytest.raises(FormatError, match="the Hub answers too much.*at most 16777216 bytes") as caught:
        tokfmt.open(f"{ADDRESS}/modalities/D_2byte_gpt2.pbin")
    assert str(caught.value).startswith(f"{ADDRESS}/modalities/D_2byte_gpt2.pbin: ")


def test_an_address_that_ends_is_resolved_again(hub):
    content = np.random.default_rng(0).bytes(4 << 20)
    (hub.home / "datasets/org/corpus/large.bin").write_bytes(content)
    file = open_file(Url.parse(f"{ADDRESS}/large.bin"))
    assert file.read(0, 9) == content[:9]
    hub.signature = "sig-1"
    assert file.read(3 << 20, 99) == content[3 << 20 :][:99]
    assert len([line for line in hub.site.seen if "/resolve/" in line[1]]) == 2
