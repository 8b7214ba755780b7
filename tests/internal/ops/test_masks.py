"""What stands beside tokens, loss masks and inner boundaries, through views and conversions."""

import itertools

import numpy as np
import pytest
from model.separated import with_separators

from tokfmt.core.errors import VerificationError
from tokfmt.ops.convert.verify import compare
from tokfmt.ops.source.open import open_source
from tokfmt.run.execute import make_executor
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress

EOS = 9


def datatrove(path, documents, masks):
    """Written by hand: documents with the separator after each, and a mask of both."""
    tokens = np.array([token for one in documents for token in (*one, EOS)], "<u2")
    path.write_bytes(tokens.tobytes())
    ends = np.cumsum([len(one) + 1 for one in documents], dtype="<u8") if documents else np.zeros(0, "<u8")
    path.with_name(path.name + ".index").write_bytes(ends.tobytes())
    path.with_name(path.name + ".metadata").write_text(f"x|2\n{len(tokens)}\n{len(tokens)} T")
    path.with_name(path.name + ".loss").write_bytes(np.concatenate([[], *masks]).astype("u1").tobytes())
    return path


@pytest.mark.parametrize("indexed", [True, False], ids=["index", "stream"])
def test_windows_of_marks_are_parts_of_the_whole(indexed, tmp_path):
    """Whatever takes separators away or puts them in; bit 2 is the masked separator behind a token."""
    documents, masks = [[1, 2], [], [3], [], [], [4, 5, 6]], [[1, 0, 0], [1], [0, 0], [1], [1], [1, 1, 0, 1]]
    source = datatrove(tmp_path / "a.ds", documents, masks)
    if not indexed:
        (tmp_path / "a.ds.index").unlink()
    reader = open_source([source], eos=EOS).reader
    separated = with_separators(reader, EOS)
    whole = [[1, 2, 2, 1, 1, 0], [1, 0, 0, 1, 0, 0, 1, 1, 1, 1, 0, 1]]
    for axis, expected in zip((reader, separated), whole, strict=True):
        total = axis.info.tokens
        for a, b in itertools.combinations_with_replacement(range(total + 1), 2):
            assert axis.marks(a, b).tolist() == expected[a:b]
    reader.close()


def test_verification_compares_masks(tmp_path):
    source = datatrove(tmp_path / "a.ds", [[1, 2], [3]], [[1, 0, 1], [0, 1]])
    datatrove(tmp_path / "elsewhere", [[1, 2], [3]], [[1, 1, 1], [0, 1]])
    opened = open_source([source], eos=EOS), open_source([tmp_path / "elsewhere"], format="datatrove", eos=EOS)
    with make_executor("serial", 1) as executor, pytest.raises(VerificationError, match="token position 1 "):
        compare(opened[0].reader, opened[1].reader, Workers(executor, 1, tmp_path), Progress())
