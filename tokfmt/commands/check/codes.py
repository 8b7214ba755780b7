"""The explanations of finding codes: those of a format in a TOML file beside its module, TF9xx in codes.toml here.

    TF1xx   modalities        formats/modalities               TF70x   olmo         formats/olmo.py
    TF2xx   stage1            formats/stage1                   TF72x   datatrove    formats/datatrove.py
    TF3xx   hdf5              formats/hdf5                     TF74x   litdata      formats/litdata.py
    TF4xx   flat-tokens       formats/flat_tokens              TF76x   mds          formats/mds.py
    TF5xx   jsonl             formats/jsonl                    TF78x   levanter     formats/levanter.py
                                                               TF79x   array        formats/array
                                                               TF84x   internevo    formats/internevo.py
                                                               TF86x   litgpt-packed  formats/litgpt_packed.py
                                                               TF82x   webdataset   formats/webdataset.py
                                                               TF88x   tfrecord     formats/tfrecord.py
                                                               TF89x   arrayrecord  formats/arrayrecord.py
    TF57x   text              formats/text.py                  TF80x   recipe       mix/format.py
    TF60x   megatron          formats/megatron.py              TF90x   any dataset  opening
    TF61x   megatron          formats/megatron.py              TF91x   any dataset  its manifest and its directory
    TF62x   llmc              formats/llmc.py                  TF81x   run          runs/format.py
    TF64x   nanogpt           formats/nanogpt.py               TF92x   any dataset  --tokenizer
    TF66x   parquet           formats/arrow                    TF93x   any dataset  --against
    TF68x   arrow             formats/arrow                    TF94x   any dataset  its content

The table names the modules of formats. The findings TF91x to TF94x are made in `manifests`, `files`, `vocabulary`,
`corpus`, `separators` and `masks` of `commands/check`. Plug-ins have codes of their own, without TF.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tokfmt import registry
from tokfmt.base.options import nearest
from tokfmt.core.findings import Code, codes_beside
from tokfmt.core.format import Format
from tokfmt.core.losses import LOSSES
from tokfmt.errors import OptionError


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a finding code, as `tokfmt check --explain` prints it.

    Attributes:
        code: The code, such as `TF107`.
        owner: The name of the format that defines the code, or "any format".
        title: The finding in a few words.
        text: One paragraph: the finding, its causes, and the remedy.
        unsafe: True if reading on could execute code, leave the dataset, or exhaust memory.
    """

    code: str
    owner: str
    title: str
    text: str
    unsafe: bool = False


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of findings, or the loss that was asked for."""

    codes: list[Explanation]


def all_codes() -> dict[str, Explanation]:
    """Return the explanations of all codes, sorted by code: those of every installed format, and TF9xx."""
    explanations: dict[str, Explanation] = {}
    owned: list[tuple[str, Mapping[str, Code]]] = [(one.name, one.codes()) for one in registry.list_formats()]
    for owner, codes in (*owned, ("any format", codes_beside(__name__))):
        for code, meaning in codes.items():
            explanations[code] = Explanation(code, owner, meaning.title, meaning.text, meaning.unsafe)
    return dict(sorted(explanations.items()))


def explain(code: str) -> Explanation:
    """Return the explanation of a code, or of a word of `--allow-loss`, in upper or lower case."""
    if code.lower() in LOSSES:
        title, _, text = LOSSES[code.lower()].partition(". ")
        return Explanation(code.lower(), "--allow-loss", title, text)
    explanations = all_codes()
    explanation = explanations.get(code.upper())
    if explanation is None:
        alike = [other for other in explanations if other[:3] == code.upper()[:3]]  # of the same format
        near = nearest(code.lower(), LOSSES) or nearest(code.upper(), alike) or nearest(code.upper(), explanations)
        raise OptionError(f"no finding and no loss has the name {code!r}", name=code, nearest=near)
    return explanation


def meanings(format_: Format | None) -> Mapping[str, Code]:
    """Return the codes that findings of a format can have; without a format, only TF9xx."""
    return {**(format_.codes() if format_ is not None else {}), **codes_beside(__name__)}
