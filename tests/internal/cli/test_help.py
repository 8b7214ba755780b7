"""Help texts: one sentence of at most 60 characters for each command, defaults of options in parentheses."""

from tokfmt import registry
from tokfmt.core.options import described


def test_formats_that_write_several_files_have_the_same_option_for_their_size():
    """Other options that count what a file holds have no other name."""
    written = {one.name: {o["name"]: o for o in described(one.write_options)} for one in registry.list_formats()}
    several = {name for name, options in written.items() if "shard_size" in options}
    assert several == {"stage1", "hdf5", "arrow", "parquet", "llmc", "litdata", "mds", "megatron", "olmo"}
    for name in several:
        assert written[name]["shard_size"]["type"] == "int"
        assert "tokens per " in written[name]["shard_size"]["help"]
    assert not [name for options in written.values() for name in options if name.endswith(("_tokens", "_per_file"))]
