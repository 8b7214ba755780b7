"""Help texts: one sentence of at most 60 characters for each command, defaults of options in parentheses."""

from tokfmt import registry
from tokfmt.core.options import choices, described


def test_formats_that_write_several_files_have_the_same_option_for_their_size():
    """Other options that count what a file holds have no other name."""
    written = {one.name: {o["name"]: o for o in described(one.write_options)} for one in registry.list_formats()}
    several = {name for name, options in written.items() if "shard_size" in options}
    assert several == {"stage1", "hdf5", "arrow", "parquet", "llmc", "litdata", "mds", "megatron", "olmo"}
    for name in several:
        assert written[name]["shard_size"]["type"] == "int"
        assert "tokens per " in written[name]["shard_size"]["help"]
    assert not [name for options in written.values() for name in options if name.endswith(("_tokens", "_per_file"))]


def test_formats_have_the_same_option_for_a_separator_that_can_be_left_out():
    with_eos = {one.name for one in registry.list_formats() if "none" in choices(one.write_options, "eos")}
    assert with_eos == {"megatron", "modalities", "datatrove", "litdata", "mds"}
    assert not [
        one.name for one in registry.list_formats() if any(o["name"] == "eod" for o in described(one.write_options))
    ]
