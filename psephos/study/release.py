"""The curator's release: counts in, the bytes of one private classifier's model file out; and what everybody checks.

The noise is drawn from the operating system, once: `Publishing` keeps the bytes before anybody sees them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from psephos.curator.hamm.release import Labels
from psephos.curator.hamm.statistic import MechanismName
from psephos.curator.losses import loss_named
from psephos.curator.tally import OpenedSum
from psephos.model import MOST_BYTES, Model, written_model
from psephos.protocol.encrypted_sum.votes import VoteLayout
from psephos.protocol.errors import AgreementError, StudyError
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.study.study import Study
from psephos.simulation.methods import Method, Request, erm_method, ledger_entry, statistic_method
from psephos.study.identity import fingerprint
from psephos.study.protocols import Public, Statistic, play_of
from psephos.study.samples import PublicSamples

__all__ = ["card", "check_release", "checked", "released"]
_CURATOR = {
    "tally": "has seen the exact counts of votes per sample; they are no part of this file, and no epsilon covers them",
    "statistic": "has seen the sum with all parties' noise in it, like everybody who reads the board",
}


def released(study: Study, samples: PublicSamples, opened: OpenedSum, randomness: Randomness = SYSTEM) -> bytes:
    """One private classifier by the study's method, as a model file.

    Of a statistic it is a function of the sum on the board, and `randomness` is not asked. Raises what the method does.
    """
    if study.protocol == "statistic":
        play = play_of(Public(study, samples.auxiliary))
        assert isinstance(play, Statistic)
        plan, noise = play.plan, "Skellam shares" if study.delta else "discrete Laplace in shares"
        w, paid = play.classifier(opened), ledger_entry(plan.event, plan.sensitivity, noise, {"rank": plan.rank})
    else:
        counts = VoteLayout(study.samples, len(study.classes)).decode(opened.sums, opened.ballots)
        method = _method(study, samples.auxiliary.samples, counts)
        w, paid = method.draw(randomness), method.ledger_entry
    coefficients, intercepts = samples.scaler.fold(np.atleast_2d(w))
    model = Model(
        psephos_model=1,
        classes=study.classes,
        encoding=samples.encoding,
        coefficients=tuple(map(tuple, coefficients.tolist())),
        intercepts=tuple(intercepts.tolist()),
        method=study.method,
        parties=opened.ballots,
        release=paid,
    )
    return written_model(model)


def _method(study: Study, auxiliary: Any, counts: Any) -> Method:
    lam = study.parameters.get("lam")
    noise: MechanismName = "gaussian" if study.delta else "spherical-laplace"
    request = Request(study.epsilon, study.delta, noise, None if lam is None else float(lam), "certified", False)
    if study.method == "statistic":
        return statistic_method(counts, auxiliary, request)
    labels: Labels = "majority" if study.method == "vote" else "soft"
    return erm_method(labels, counts, auxiliary, loss_named("logistic", len(study.classes)), request)


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
        ("delta", paid.delta is not None and paid.delta <= study.delta + 2.0**-50),
        ("number of ballots", study.minimum_ballots <= model.parties <= len(study.parties)),
    ):
        if not agreed:
            raise AgreementError(f"the curator's result is not what was agreed on: its {what} is another")
    return model


def card(study: Study, model: Model) -> str:
    """The model's card, Markdown."""
    paid, holders = model.release, len(study.holders)
    trial = "**A trial: the key of this study may be too short to protect anything.**\n\n" if study.trial else ""
    rows = "".join(f"| {name} | {what} |\n" for name, what in model.encoding.summary)
    chosen = "".join(f", {name} {value}" for name, value in sorted(paid.chosen.items()))
    return f"""# {study.title}

{trial}A linear classifier of `{study.label}` ({", ".join(study.classes)}), learned from {model.parties} of
{len(study.parties)} parties by way of {study.samples} public samples; none of the parties' rows left them.

| | |
| --- | --- |
| study | {fingerprint(study.digest)} ({study.digest.hex()}) |
| method | {model.method}{chosen} |
| privacy | epsilon {paid.epsilon:g}, delta {paid.delta:.3g}, of one {paid.unit}: all that it holds may change |
| noise | {paid.mechanism}, for a sensitivity ({paid.norm}) of {paid.sensitivity:.6g}: {paid.source} |
| key | {study.key_bits} bits, made by {holders} holders of whom {study.threshold} open; nobody has it |
| curator | {_CURATOR[study.protocol]} |

Not checked: what the parties trained on, that the noise that was to be added was added, and how good the classifier is
on your own rows. Whoever holds {study.threshold} of the {holders} shares of the key is not bound by epsilon.

## Columns

| column | becomes |
| --- | --- |
{rows}"""


def check_release(study: Study) -> None:
    """Raise StudyError for a release that the commands cannot make, before anybody signs the study."""
    if study.protocol not in ("tally", "statistic"):
        raise StudyError(
            f"the commands play the protocols tally and statistic; {study.protocol} is played from Python "
            "(psephos.study.roles)"
        )
    lam = study.parameters.get("lam", 1.0)
    if not (isinstance(lam, float) and 0 < lam < 1e6):
        raise StudyError(f"lam is a positive number, not {lam}")
