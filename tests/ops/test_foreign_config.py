"""A configuration of Modalities as a source: the refusal names the command that does the same, and that works."""

import json
import re
import shlex

import pytest
from click.testing import CliRunner
from paths import TOKENIZER
from tokenizers import Tokenizer

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import UnknownFormatError

CONFIG = """# as in Modalities' tutorials
settings:
  src_path: data/lorem ipsum.jsonl  # relative to where it runs
  dst_path: data/lorem_ipsum.pbin
  index_path: data/lorem_ipsum.idx
  jq_pattern: .body.text
  num_cpus: ${node_env:num_cpus}
  eod_token: <|endoftext|>
  processing_batch_size: 10

tokenizer:
  component_key: tokenizer
  variant_key: pretrained_hf_tokenizer
  config:
    pretrained_model_name_or_path: TOKENIZER
    padding: false
    truncation: false
""".replace("TOKENIZER", str(TOKENIZER))
TEXTS = ["one two", "three <|endoftext|> four", "été"]


def refused(path):
    done = CliRunner().invoke(cli, ["convert", str(path), str(path.parent / "x.pbin")])
    assert isinstance(done.exception, UnknownFormatError)
    with pytest.raises(UnknownFormatError) as caught:
        tokfmt.convert(path, path.parent / "x.pbin")
    assert str(caught.value) == str(done.exception), "a command is one for Python, too"
    assert "is a configuration of Modalities' pack_encoded_data" in str(done.exception)
    return str(done.exception)


def test_the_command_that_the_refusal_names_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "cfg.yaml").write_text(CONFIG)
    lines = "".join(json.dumps({"body": {"text": text}}) + "\n" for text in TEXTS)
    (tmp_path / "data" / "lorem ipsum.jsonl").write_text(lines)
    command = re.search(r"tokfmt (convert .*--eos \d+)", refused(tmp_path / "cfg.yaml"))[1]
    done = CliRunner().invoke(cli, shlex.split(command))
    assert done.exit_code == 0, done.output
    plain = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json"))
    eos = plain.token_to_id("<|endoftext|>")
    stream = [token for text in TEXTS for token in (*plain.encode(text, add_special_tokens=False).ids, eos)]
    with tokfmt.open("data/lorem_ipsum.pbin", eos="none") as found:
        assert [token for row in found for token in row.tolist()] == stream


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (".body.text", '".text | ascii_downcase"'),
        ("data/lorem ipsum.jsonl", "${settings.other}"),
        ("pretrained_hf_tokenizer", "pretrained_sp_tokenizer"),
        ("truncation: false", "truncation: true"),
        ("data/lorem_ipsum.pbin", "|"),
        ("truncation: false", "special_tokens:\n      pad_token: x"),
    ],
)
def test_unread_settings_are_not_guessed(tmp_path, before, after):
    (tmp_path / "cfg.yaml").write_text(CONFIG.replace(before, after))
    assert "tokfmt convert SRC DST.pbin --tokenizer NAME --text-field PATH --eos ID" in refused(tmp_path / "cfg.yaml")


def test_values_are_shown_without_control_characters(tmp_path):
    (tmp_path / "cfg.yaml").write_text(CONFIG.replace("data/lorem ipsum", "data/\x1b[31mlorem"))
    assert "\x1b" not in refused(tmp_path / "cfg.yaml")


def test_a_tokenizer_that_is_not_on_disk_leaves_the_id_open(tmp_path):
    (tmp_path / "cfg.yaml").write_text(CONFIG.replace(str(TOKENIZER), "org/model"))
    assert "--tokenizer org/model" in refused(tmp_path / "cfg.yaml")
    assert "where ID is the token ID of <|endoftext|>" in refused(tmp_path / "cfg.yaml")
