"""Chats become documents of token IDs through a chat template, with a loss mask on what the assistant says."""

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from amount import first
from browsing import browse, fetched, line, tab_of
from paths import FIXTURES, TOKENIZER
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

import tokfmt
from tokfmt.errors import LossyConversionError, TokfmtError
from tokfmt.text import chats

CHATS = Path(str(FIXTURES / "chats"))
EOS = 4095
EXPECTED = json.loads((CHATS / "expected.json").read_text())
PLAIN = (CHATS / "plain" / "chat_template.jinja").read_text()


@pytest.fixture(scope="module", autouse=True)
def _process(tmp_path_factory):
    """The process that renders is kept for ten seconds, and not left to other modules. A library prints in it."""
    home = tmp_path_factory.mktemp("prints")
    (home / "sitecustomize.py").write_text(
        "import sys\nclass Prints:\n    def find_spec(self, name, *_):\n"
        "        name == 'transformers' and print(name, flush=True)\nsys.meta_path.insert(0, Prints())\n"
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(home))
        chats.end_rendering()
        yield
    chats.end_rendering()


def ids_of(path):
    with tokfmt.open(path, tokenizer=CHATS / "plain", allow_loss=["loss-mask"]) as dataset:
        return [ids.tolist() for ids in dataset]


def rows(path):
    """The IDs of each row of a Parquet file, and 1 where its labels count."""
    return [
        {"input_ids": row["input_ids"], "assistant_masks": [int(label != -100) for label in row["labels"]]}
        for row in pq.read_table(path).to_pylist()
    ]


def template(home, text, config=None):
    """A tokenizer with a chat template."""
    shutil.copytree(CHATS / "plain", home, dirs_exist_ok=True)
    (home / "chat_template.jinja").write_text(text)
    if config is not None:
        (home / "tokenizer_config.json").write_text(json.dumps(config))
    return home


def chat(path, *messages):
    """A file of one chat of (role, content)."""
    listed = [{"role": role, "content": content} for role, content in messages]
    path.write_text(json.dumps({"messages": listed}) + "\n")
    return path


@pytest.mark.parametrize("name", ["plain", "marked"])
def test_ids_and_masks_are_those_of_transformers(name, tmp_path):
    for file, number in (("messages.jsonl", 4), ("messages.parquet", 2), ("sharegpt.jsonl", 2)):
        done = tokfmt.convert(CHATS / file, tmp_path / f"{file}.parquet", tokenizer=CHATS / name, jobs=1)
        assert rows(tmp_path / f"{file}.parquet") == EXPECTED[:number]
    trained, tokens = (sum(map(len_of, EXPECTED[:2])) for len_of in (lambda one: sum(one["assistant_masks"]), total))
    counts = "2 chats with 7 messages (assistant 3, system 1, user 3)"
    assert f"{counts}; {trained} of {tokens} tokens, what the assistant says, count in the loss" in done.notes[-1]


LINES = [json.loads(line) for line in (CHATS / "messages.jsonl").read_text().splitlines()]
ENDED = [(row["messages"], wanted) for row, wanted in zip(LINES, EXPECTED, strict=True)
         if row["messages"][-1]["role"] == "assistant" and "weight" not in row["messages"][-1]]  # fmt: skip


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "arrow"])
def test_a_prompt_of_messages_counts_from_its_completion_on(suffix, tmp_path):
    """As trl's completion_mask: what the template renders of the prompt, with the header of an answer, is 0."""
    ended = ENDED if suffix == "jsonl" else ENDED[:2]  # one type of a column
    pairs = [{"prompt": chat[:-1], "completion": chat[-1:]} for chat, _ in ended]
    source = stored(tmp_path / f"x.{suffix}", pairs)
    done = tokfmt.convert(source, tmp_path / "y.parquet", tokenizer=CHATS / "plain", eos="none", jobs=1, verify=True)
    for row, (_, wanted) in zip(rows(tmp_path / "y.parquet"), ended, strict=True):
        ids, mask = wanted["input_ids"], wanted["assistant_masks"]
        first = len(mask) - mask[::-1].index(1) - 1
        while mask[first - 1]:
            first -= 1
        assert row == {"input_ids": ids, "assistant_masks": [0] * first + [1] * (len(ids) - first)}
    assert f"{len(pairs)} prompts with their completions of" in done.notes[-1]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "arrow"])
def test_a_prompt_of_text_counts_from_its_completion_on_without_a_template(suffix, tmp_path):
    pairs = [{"prompt": "The sky is", "completion": " blue é."}, {"prompt": "", "completion": "two <|endoftext|>"}]
    source = stored(tmp_path / f"x.{suffix}", pairs)
    tokfmt.convert(source, tmp_path / "y.parquet", tokenizer=TOKENIZER, to_eos=EOS, jobs=1, verify=True)
    encode = Tokenizer.from_file(str(TOKENIZER / "tokenizer.json")).encode
    (tmp_path / "plain.jsonl").write_text(
        "".join(json.dumps({"text": "".join(pair.values())}) + "\n" for pair in pairs)
    )
    tokfmt.convert(tmp_path / "plain.jsonl", tmp_path / "plain.parquet", tokenizer=TOKENIZER, to_eos=EOS, jobs=1)
    plain = [row["input_ids"] for row in pq.read_table(tmp_path / "plain.parquet").to_pylist()]
    for row, ids, pair in zip(rows(tmp_path / "y.parquet"), plain, pairs, strict=True):
        first = len(encode(pair["prompt"], add_special_tokens=False).ids)
        assert row["input_ids"][: len(ids)] == ids
        assert row["assistant_masks"] == [0] * first + [1] * (len(row["input_ids"]) - first)
    with pytest.raises(LossyConversionError, match="loss masks of its prompts, on their completions"):
        tokfmt.convert(source, tmp_path / "x.pbin", tokenizer=TOKENIZER, jobs=1)
    tokfmt.convert(source, tmp_path / "back.jsonl")
    assert [json.loads(line) for line in (tmp_path / "back.jsonl").read_text().splitlines()] == pairs
    with tokfmt.open(source, tokenizer=TOKENIZER) as opened:
        assert opened[1].tolist() == plain[1]


def stored(path, pairs):
    """Write records: lines, or a table as pyarrow infers it."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
        return path
    table = pa.Table.from_pylist(pairs)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as out:
            out.write_table(table)
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "arrow"])
def test_a_path_names_a_message_in_every_format_of_records(suffix, tmp_path):
    chats_ = [chat for chat, _ in ENDED[:2]]
    source = stored(tmp_path / f"x.{suffix}", [{"id": 1, "meta": {"messages": chat}} for chat in chats_])
    how = {"options": {"text_field": "meta.messages.0.content"}}
    tokfmt.convert(source, tmp_path / "y.jsonl", allow_loss="fields", tokenizer=TOKENIZER, **how)
    wanted = [chat[0]["content"] for chat in chats_]
    with tokfmt.open(source, tokenizer=TOKENIZER, **how) as opened:
        assert [opened.text(k) for k in range(2)] == wanted
    source = stored(
        tmp_path / f"z.{suffix}",
        [{"meta": {"messages": chat[:length]}} for chat, length in zip(chats_, (3, 1), strict=True)],
    )
    with pytest.raises(TokfmtError, match="line 2|row 1 of .* is NULL"):
        tokfmt.convert(
            source, tmp_path / "y.pbin", tokenizer=TOKENIZER, options={"text_field": "meta.messages.2.content"}
        )


def test_pairs_that_are_not_of_one_kind_are_refused_with_their_line(tmp_path):
    message = [{"role": "user", "content": "a"}]
    for second, error in (
        ({"prompt": "a"}, "has no completion of text"),
        ({"prompt": message, "completion": message}, "has no prompt of text"),
    ):
        source = stored(tmp_path / "x.jsonl", [{"prompt": "a", "completion": "b"}, second])
        with pytest.raises(TokfmtError, match=f"line 2 {error}"):
            tokfmt.convert(source, tmp_path / "y.parquet", tokenizer=TOKENIZER, jobs=1)


def total(one):
    return len(one["input_ids"])


def test_a_destination_without_masks_is_refused_and_a_recipe_keeps_them(tmp_path):
    recipe = tmp_path / "r.toml"
    source = f'[[source]]\nname = "chats"\npath = "{CHATS / "messages.jsonl"}"\n'
    recipe.write_text(f'tokfmt = 1\ntokenizer = "{CHATS / "plain"}"\n{source}')
    for given in ({"sources": CHATS / "messages.jsonl", "tokenizer": CHATS / "plain"}, {"sources": recipe}):
        path = given.pop("sources")
        with pytest.raises(LossyConversionError, match="--allow-loss loss-mask"):
            tokfmt.convert(path, tmp_path / "x.pbin", jobs=1, overwrite=True, **given)
        done = tokfmt.convert(path, tmp_path / "x.pbin", jobs=1, allow_loss="loss-mask", overwrite=True, **given)
        assert done.losses.keys() == {"loss-mask"}
    tokfmt.convert(recipe, tmp_path / "r.parquet", jobs=1)
    assert sorted(rows(tmp_path / "r.parquet"), key=str) == sorted(EXPECTED, key=str)


def test_a_separator_counts_after_a_completion_of_text_and_not_after_a_chat(tmp_path):
    """A template ends what the assistant says, and TRL ends a completion of text with the EOS."""
    pairs = stored(tmp_path / "pairs.jsonl", [{"prompt": "The sky is", "completion": " blue."}] * 3)
    chats = chat(tmp_path / "chats.jsonl", ("user", "Hello"), ("assistant", "there"))
    for source, counts in ((pairs, 1), (chats, 0)):
        out = tmp_path / f"{source.stem}.ds"
        tokfmt.convert(source, out, tokenizer=CHATS / "plain", to_eos=300, jobs=1, verify=True)
        ends = np.fromfile(f"{out}.index", "<u8").astype(int) - 1
        assert np.fromfile(out, "<u2")[ends].tolist() == [300] * len(ends)
        assert np.fromfile(f"{out}.loss", "u1")[ends].tolist() == [counts] * len(ends)


@pytest.mark.parametrize("name", first(1, ["messages.jsonl", "messages.parquet"]))
def test_the_browser_draws_a_chat_with_what_the_assistant_says(name, tmp_path, monkeypatch):
    """As transformers masks it, and with the borders between which `}` goes."""
    wanted = EXPECTED[0]["assistant_masks"]
    border = next(at for at, flag in enumerate(wanted) if flag)

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def steps(app, press):
        tab, facts = tab_of(app), app.query_one("#detail")
        piece = fetched(tab.reader.port, 0, 0, len(wanted))
        assert piece.targets.tolist() == [bool(flag) for flag in wanted]
        trained = sum(wanted)
        words = f"{len(wanted)} = {len(wanted) - trained} prompt + {trained} trained + 0 padding"
        assert words in line(tab.strip, 0)
        assert "not trained" in line(facts, 0)
        await press("enter", "}")
        assert tab.reader.cursor == border
        assert "trained" in line(facts, 0) and "not trained" not in line(facts, 0)

    browse([CHATS / name], steps, tokenizer=str(CHATS / "plain"))


def test_lines_keep_chats_and_commands_read_them_as_texts(tmp_path):
    tokfmt.convert(CHATS / "messages.parquet", tmp_path / "back.jsonl")
    lines = (tmp_path / "back.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        json.loads(line) for line in (CHATS / "messages.jsonl").read_text().splitlines()[:2]
    ]
    counted = tokfmt.stats(CHATS / "messages.jsonl", tokenizer=CHATS / "plain", jobs=1)
    assert counted.datasets[0].tokens == sum(map(total, EXPECTED))
    assert tokfmt.open(CHATS / "messages.jsonl", tokenizer=CHATS / "plain")[1].tolist() == EXPECTED[1]["input_ids"]


@pytest.mark.parametrize(
    ("text", "messages", "error"),
    [
        (PLAIN, [("user", "Hi <|end|>"), ("assistant", "x")], r"spells the special token <\|end\|> in its message 0.*"
         r"--special-tokens parse"),
        ("{% for m in messages %}{% if m.role != 'critic' %}{{ m.content }}{% endif %}{% endfor %}",
         [("user", "a"), ("critic", "b")], 'has a message 1 of the role "critic" that the chat template leaves out'),
        ("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}", [("user", "a"), ("assistant", "b")],
         'has "<assistant>" before its message 1 also without add_generation_prompt'),
        ("{{ raise_exception('no system message') }}", [("user", "a")], "is refused by the chat template: no system"),
        ("{{ ''.__class__.__mro__ }}", [("user", "a")], "access to attribute '__class__' of 'str' object is unsafe"),
        ("{{ 'x' * 10 ** 12 }}", [("user", "a")], "is refused by the chat template: MemoryError"),
        ("{% for m in messages %}{{ m.content if loop.last else m.content | upper }}{% endfor %}",
         [("user", "1"), ("assistant", "is"), ("user", "2"), ("assistant", "IS")],
         r"is rendered otherwise as a whole than up to message 1.*\{% generation %\}; --allow-loss loss-mask"),
        ("{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}",
         [("user", "a"), ("assistant", "b")], "is rendered otherwise as a whole than before message 1"),
    ],
    ids=["special", "role", "header", "raises", "unsafe", "memory", "history", "prompt"],
)  # fmt: skip
def test_chats_that_cannot_be_encoded_are_refused_with_their_place(text, messages, error, tmp_path):
    tokenizer, source = template(tmp_path / "tok", text), chat(tmp_path / "x.jsonl", *messages)
    with pytest.raises(TokfmtError, match=rf"x\.jsonl: the chat at byte 0 .*{error}"):
        tokfmt.convert(source, tmp_path / "y.parquet", tokenizer=tokenizer, jobs=1)


def test_a_template_that_does_not_end_is_ended():
    loop = "{% for i in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}"
    encoder = chats.ChatEncoder(None, chats.ChatTemplate(loop, {}), masked=True, parse=True, special={}, seconds=1)
    with pytest.raises(TokfmtError, match="a chat needs more than 1 seconds or 2 GiB of memory"):
        encoder.encode(['[{"role": "user", "content": "a"}]'])


def test_a_process_that_was_idle_is_started_again(monkeypatch, tmp_path):
    chats.end_rendering()
    (tmp_path / "sitecustomize.py").write_text(
        "import select\nreal = select.select\nselect.select = lambda *words: real(*words[:3], 0.1)\n"
    )
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONPATH", str(tmp_path))
        assert ids_of(CHATS / "messages.jsonl") == [one["input_ids"] for one in EXPECTED[:4]]
    time.sleep(0.3)
    assert ids_of(CHATS / "messages.jsonl") == [one["input_ids"] for one in EXPECTED[:4]]


def test_a_tokenizer_that_lacks_what_a_chat_needs_is_refused(tmp_path):
    source = chat(tmp_path / "x.jsonl", ("user", "a"))
    for text, config, error in (
        (" ", {}, "has no chat template, which chats need. Save one as chat_template.jinja"),
        ("{{ bos_token }}", {}, "its chat template uses bos_token, which its tokenizer_config.json does not state"),
    ):
        with pytest.raises(TokfmtError, match=error):
            tokfmt.open(source, tokenizer=template(tmp_path / "tok", text, config))[0]


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([{"role": "user", "content": "a"}, {"content": "b"}], "line 2 has a message 1 without a role"),
        ([], "line 2 has no messages"),
        ([{"role": "user", "content": [{"type": "image"}]}], "whose content is neither a text nor parts of text"),
        ("hello", "line 2 has no messages"),
        ([{"role": "user", "content": "\ud800"}], "line 2 has a lone surrogate in its messages"),
    ],
    ids=["role", "none", "image", "text", "surrogate"],
)
def test_records_that_are_no_chats_are_refused_with_their_line(messages, error, tmp_path):
    source = chat(tmp_path / "x.jsonl", ("user", "a"))
    source.write_text(source.read_text() + json.dumps({"messages": messages}) + "\n")
    with pytest.raises(TokfmtError, match=error):
        tokfmt.stats(source)


@pytest.fixture(scope="module")
def templated(tmp_path_factory):
    """A tokenizer whose post-processor and chat template both begin a text with its BOS: the directory and itself."""
    place = tmp_path_factory.mktemp("templated")
    letters = {one: number for number, one in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=letters, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(one, special=True) for one in ("<s>", "</s>", "<|im_start|>", "<|im_end|>")])
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    made.save(str(place / "tokenizer.json"))
    message = "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
    asked = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    template = f"{{{{ bos_token }}}}{{% for m in messages %}}{message}{{% endfor %}}{asked}"
    settings = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": template}
    (place / "tokenizer_config.json").write_text(json.dumps(settings))
    return str(place), made


ROLES = ("user", "assistant")
RENDERED = [
    "<s>" + "".join(f"<|im_start|>{role}\n{said} {number}<|im_end|>\n" for role, said in zip(ROLES, ("ask", "answer")))
    for number in range(20)
]


def conversations(path):
    messages = [
        [{"role": role, "content": f"{said} {number}"} for role, said in zip(ROLES, ("ask", "answer"))]
        for number in range(20)
    ]
    path.write_text("".join(json.dumps({"messages": one}) + "\n" for one in messages))
    return path


def texts(path, some=RENDERED):
    path.write_text("".join(json.dumps({"text": one}) + "\n" for one in some))
    return path


@pytest.mark.parametrize("name", ["o.parquet", "o.pbin", "o.jsonl", "o.ds"])
@pytest.mark.parametrize(("make", "how"), [(conversations, "text"), (texts, "parse")])
def test_what_tokfmt_encoded_is_compared_as_it_was_encoded(make, how, name, templated, tmp_path):
    """Special tokens of a template and of parsed texts are encoded again as such, also without the manifest."""
    place, made = templated
    corpus, out = make(tmp_path / "corpus.jsonl"), tmp_path / name
    tokfmt.convert(corpus, out, tokenizer=place, special_tokens=how, allow_loss="loss-mask")
    wanted = [made.encode(one, add_special_tokens=False).ids for one in RENDERED]
    with tokfmt.open(out) as dataset:
        assert [one.tolist() for one in dataset] == wanted
    ids = tmp_path / "ids.jsonl"
    ids.write_text("".join(json.dumps({"input_ids": one}) + "\n" for one in wanted))
    for of in (corpus, ids):
        (report,) = tokfmt.check(out, deep=True, against=of, tokenizer=place)
        assert {one.code for one in report.findings} <= {"TF121"}
    if make is conversations:
        out.with_name(f"{name}.tokfmt.json").unlink()
        (report,) = tokfmt.check(out, deep=True, against=corpus, tokenizer=place, eos=257)
        assert {one.code for one in report.findings} <= {"TF121"}


def test_special_tokens_in_texts_are_counted_and_a_bos_is_not_written_twice(templated, tmp_path):
    place, made = templated
    corpus = texts(tmp_path / "corpus.jsonl")
    done = tokfmt.convert(corpus, tmp_path / "a.parquet", tokenizer=place, to_bos="none")
    (note,) = [one for one in done.notes if "--special-tokens parse" in one]
    assert "100 " in note and "20 of 20 " in note
    plain = tokfmt.convert(texts(tmp_path / "plain.jsonl", ["a", "b"]), tmp_path / "b.parquet", tokenizer=place)
    assert not any("--special-tokens" in note for note in plain.notes)
    how = {"tokenizer": place, "special_tokens": "parse"}
    done = tokfmt.convert(corpus, tmp_path / "c.pbin", **how)
    assert not any("--special-tokens" in note or "--to-bos" in note for note in done.notes)
    tokfmt.convert(corpus, tmp_path / "d.pbin", **how, to_bos=256, verify=True)
    with tokfmt.open(tmp_path / "d.pbin", bos="none") as dataset:
        assert [one.tolist() for one in dataset] == [made.encode(one, add_special_tokens=False).ids for one in RENDERED]
    (report,) = tokfmt.check(tmp_path / "d.pbin", deep=True, against=corpus, tokenizer=place)
    assert {one.code for one in report.findings} <= {"TF121"}
