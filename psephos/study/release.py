"""The curator's release: one private classifier's model file, of what the curator came to; and what everybody checks.

The noise is drawn from the operating system, once: `PublishStage` keeps the bytes before anybody sees them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from psephos.model import MOST_BYTES, Model, written_model
from psephos.protocol.errors import AgreementError, StudyError
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.study.study import Study
from psephos.results.runs import colluders_text
from psephos.specs.registry import SPECS, coalition_of, spec_of, unit_of
from psephos.specs.study import StudyTerms
from psephos.study.consent import use_of_samples
from psephos.study.identity import fingerprint
from psephos.study.samples import PublicSamples

__all__ = ["card", "checked", "released"]

_CURATOR = {
    False: "has seen the exact sum (of a tally, the counts per sample; unanimous ones tell everybody's vote): no part "
    "of this file, and no epsilon covers it",
    True: "has seen the sum with all parties' noise in it, like everybody who reads the board",
}
"""By whether the parties add the noise."""


def released(study: Study, samples: PublicSamples, result: Any, randomness: Randomness = SYSTEM) -> bytes:
    """One private classifier by the study's method, as a model file, of what the curator came to.

    Where the parties have added the noise it is a function of `result`, and `randomness` is not asked. Raises what the
    method does, and StudyError for one that costs a larger delta than the study states.
    """
    spec = spec_of(StudyTerms(study, samples.auxiliary))
    w, paid = spec.release(result, randomness)
    if (paid.delta or 0.0) > stated_delta(study.delta):
        raise StudyError(f"the release costs delta {paid.delta!r}, and the study says {stated_delta(study.delta)!r}")
    paid = replace(paid, delta=stated_delta(study.delta))
    coefficients, intercepts = samples.scaler.fold(np.atleast_2d(w))
    model = Model(
        psephos_model=1,
        classes=study.classes,
        encoding=samples.encoding,
        coefficients=tuple(map(tuple, coefficients.tolist())),
        intercepts=tuple(intercepts.tolist()),
        method=study.method,
        parties=spec.ballots(result),
        release=paid,
        warnings=_warnings(study),
    )
    return written_model(model)


def _warnings(study: Study) -> tuple[str, ...]:
    return ("A trial: the key of this study may be too short to protect anything.",) if study.trial else ()


def checked(study: Study, samples: PublicSamples, content: bytes) -> Model:
    """What the curator published, as the model that the study asks for.

    Raises AgreementError for bytes that are no model, and for one of other classes, columns, method or price.
    """
    if len(content) > MOST_BYTES:
        raise AgreementError("the curator published a result larger than any model")
    try:
        model = msgspec.json.decode(content, type=Model)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise AgreementError(f"the curator's result is no model of this version of psephos: {error}") from None
    paid = model.release
    for what, agreed in (
        ("classes", model.classes == study.classes),
        ("encoding", model.encoding == samples.encoding),
        ("method", model.method == study.method),
        ("epsilon", paid.epsilon is not None and paid.epsilon <= study.epsilon * (1 + 1e-12)),
        ("unit of privacy", paid.unit == unit_of(study)),
        ("delta", paid.delta == stated_delta(study.delta)),
        ("warning", model.warnings == _warnings(study)),
        ("number of ballots", study.minimum_ballots <= model.parties <= len(study.parties)),
    ):
        if not agreed:
            raise AgreementError(f"the curator's result is not what was agreed on: its {what} is another")
    return model


def card(study: Study, model: Model) -> str:
    """The model's card, Markdown."""
    paid, holders = model.release, len(study.holders)
    trial = "".join(f"**{text}**\n\n" for text in model.warnings)
    moves = "all that it holds" if paid.unit == "party" else "it"
    rows = "".join(f"| {name} | {what} |\n" for name, what in model.encoding.summary)
    key = f"{study.key_bits} bits, made by {holders} holders of whom {study.threshold} together open; none has it whole"
    shares = f"Whoever holds {study.threshold} of the {holders} shares of the key is not bound by epsilon."
    chosen = "".join(f", {name} {value}" for name, value in sorted(paid.chosen.items()) if name != "colluders")
    coalition = coalition_of(study)
    whole = "" if coalition is None else f"| colluders | {colluders_text(coalition, study.threshold)} |\n"
    return f"""# {study.title}

{trial}A linear classifier of `{study.label}` ({", ".join(study.classes)}), learned from {model.parties} of
{len(study.parties)} parties, with {study.samples} public samples, which {use_of_samples(study)};
none of the parties' rows left them.

| | |
| --- | --- |
| study | {fingerprint(study.digest)} |
| method | {model.method}{chosen} |
| privacy | epsilon {paid.epsilon:g}, delta {paid.delta:.3g}, of one {paid.unit}: {moves} may change |
| noise | {paid.mechanism}, for a sensitivity ({paid.norm}) of {paid.sensitivity:.6g}: {paid.source} |
{whole}| key | {key if study.uses_key else "none: the parties share their sums among all of them"} |
| curator | {_CURATOR[SPECS[study.protocol].joint]} |

Not checked: what the parties trained on, that the noise that was to be added was added, and how good the classifier is
on your own rows. {shares if study.uses_key else ""}

## Columns

| column | becomes |
| --- | --- |
{rows}"""
