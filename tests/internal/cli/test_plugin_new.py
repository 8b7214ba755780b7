"""`tokfmt plugin new`: a package that works as it was written."""

import pytest

from tokfmt.plugin_package import new_package


def test_a_package_is_complete_or_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("tokfmt.plugin_package._MODULE", "\udcff")
    with pytest.raises(UnicodeEncodeError):
        new_package("fresh", tmp_path / "p")
    assert list(tmp_path.iterdir()) == []
