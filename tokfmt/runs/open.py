"""Open a run: its sources, as they are stored, and its order."""

from __future__ import annotations

from collections.abc import Sequence

from tokfmt.core.format import Hints
from tokfmt.core.records import RecordReader
from tokfmt.errors import FormatError, OptionError
from tokfmt.files.file import names_in
from tokfmt.model.dataset import Dataset
from tokfmt.model.readers import dataset_of
from tokfmt.runs.facts import RunFacts
from tokfmt.runs.frameworks import framework_of, module_of
from tokfmt.runs.order import RunSource
from tokfmt.runs.reader import RunReader
from tokfmt.source.open import open_dataset
from tokfmt.source.request import EosChoice, Reading, SourceRequest
from tokfmt.source.stored import Source, agreed_tokenizer
from tokfmt.wording import printable


def framework_of_run(facts: RunFacts) -> str:
    """Return the framework of a run: as stated, or the one whose order files are there."""
    if facts.given.framework is not None:
        return facts.given.framework
    found = framework_of(names_in(facts.cache)) if facts.cache.is_dir() else None
    if found is None:
        raise OptionError(
            f"{printable(facts.where)}: does not state its framework, and {printable(facts.cache)} holds no order "
            'files. Add framework = "NAME" below [run], or --from-opt framework=NAME; tokfmt formats run lists them',
            name="framework",
        )
    return found


def sources_of(facts: RunFacts) -> Sequence[RunSource]:
    """Return the datasets that a run read."""
    found: Sequence[RunSource] = module_of(framework_of_run(facts)).sources(facts)
    return found


def open_run(facts: RunFacts, hints: Hints) -> RunReader:
    """Open the sources and the order of a run."""
    module = module_of(framework_of_run(facts))
    if facts.given.cache is not None and not facts.cache.is_dir():
        raise FormatError(facts.cache, "is not a folder of order files", remedy="Name another: --from-opt cache=DIR")
    read: Sequence[RunSource] = module.sources(facts)
    opened = [_opened(source, hints) for source in read]
    made_by, _ = agreed_tokenizer([source for source, _ in opened], None, frozenset({"tokenizers"}))
    return RunReader(module.order(facts, read, [dataset for _, dataset in opened]), made_by)


def _opened(source: RunSource, hints: Hints) -> tuple[Source, Dataset]:
    # The run read separators as any other token: they only show where documents are.
    eos: EosChoice = "none" if source.eos_id is None else source.eos_id
    request = SourceRequest(source.paths, source.format, eos, source.options, bos="none", allow_loss=hints.allow_loss)
    opened = open_dataset(request, Reading(jobs=hints.jobs, reads_ends=False))
    if isinstance(opened.reader, RecordReader):
        raise FormatError(source.paths[0], "holds text, and a run reads token IDs")
    return opened, opened.dataset or dataset_of(opened.reader)
