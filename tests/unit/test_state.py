"""Facts about datasets that the browser keeps between runs."""

from tokfmt.browser.data.state import recall, remember, state_file
from tokfmt.plugin import Url


def test_facts_about_an_address_are_kept_without_its_signature(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    remember(Url.parse("https://host/x.pbin?X-Amz-Signature=planted"), tokenizer="gpt2")
    assert recall(Url.parse("https://host/x.pbin"))["tokenizer"] == "gpt2"
    assert "planted" not in state_file().read_text()
