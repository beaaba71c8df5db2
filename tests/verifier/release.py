"""The round of a sum and the published model, by sections 6, 8 and 9 of docs/wire.md."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.verifier import multiclass
from tests.verifier.board import Refused, Study, require, sha256
from tests.verifier.evaluations import ErrorEvaluation
from tests.verifier.noise import Statistic
from tests.verifier.paillier import Key
from tests.verifier.public import Public
from tests.verifier.regression import Regression, ranges_of
from tests.verifier.rehearsed import Rehearsed
from tests.verifier.steps import step_of
from tests.verifier.sums import Noise, Round

Array = NDArray[np.float64]


@dataclass
class Result:
    """What a protocol computes, as far as the board shows it."""

    parties: Sequence[int]
    sums: Sequence[int] | None
    classifier: Array | None = None
    facts: dict[str, Any] | None = None


def round_of(study: Study, samples: Public, key: Key) -> Round:
    """The round of a study of one sum."""
    nonce, classes = study.nonce(key.digest, "round"), len(study.classes)
    if study.protocol == "tally":
        names = b"".join(len(str(k)).to_bytes(4, "big") + str(k).encode() for k in range(classes))
        context = sha256(b"psephos votes\0", b"\0", samples.digest, classes.to_bytes(4, "big"), names)
        return Round(study, key, "votes", len(samples.samples) * (classes - 1), 0, 1, context, nonce, classes - 1)
    if study.protocol == "average" and study.method == "avg":
        radius = float(study.parameters["radius"])
        limit = math.floor(Fraction(radius) * 2**24)
        context = sha256(f"psephos parameters {radius.hex()} 24".encode())
        length = len(study.features) * (1 if classes == 2 else classes)
        squares = min(length * limit**2, math.floor((Fraction(radius) * 2**24) ** 2))
        return Round(study, key, "parameters", length, -limit, limit, context, nonce, squares=squares)
    if step := step_of(study, samples):
        squares = step.squares if isinstance(step, Rehearsed | Regression) else None
        return Round(study, key, "statistic", step.length, *step.entries, step.context, nonce, squares=squares)
    plan = Statistic(study, samples.samples)
    low, high = plan.range
    if study.protocol == "average":
        return Round(study, key, "parameters", plan.length, low, high, plan.context, nonce, squares=plan.squares)
    require(study.protocol == "statistic", f"{study.protocol} is beyond this verifier")
    bound, longest = plan.share
    noise = Noise(bound, longest**2) if plan.by_holders else None
    added = 0 if noise else bound
    terms = plan.length, low - added, high + added, plan.context, nonce
    return Round(study, key, "statistic", *terms, squares=plan.squares, noise=noise)


# -- the model

_FIELDS = (
    "psephos_model classes encoding coefficients intercepts method parties release warnings".split()  # noqa: SIM905
)
_OF_NUMBERS = (
    "psephos_model task label encoding ranges coefficients intercept bounds method parties release warnings".split()  # noqa: SIM905
)
_RELEASE = "mechanism epsilon delta unit sensitivity norm source said chosen signal protects".split()  # noqa: SIM905


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    require(len({name for name, _ in pairs}) == len(pairs), "a field occurs twice")
    return dict(pairs)


def written(model: dict[str, Any]) -> bytes:
    """The only bytes in which a model may be published."""
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in model.items())
    return f"{{\n{lines}\n}}\n".encode()


def _floats(value: Any, depth: int) -> bool:
    if depth:
        return isinstance(value, list) and all(_floats(item, depth - 1) for item in value)
    return isinstance(value, float) and abs(value) <= 1e300


def _close(stated: Any, expected: Any) -> bool:
    if isinstance(expected, float) and type(stated) in (int, float):
        return math.isclose(stated, expected, rel_tol=1e-9)
    if isinstance(expected, dict):
        same_names = isinstance(stated, dict) and stated.keys() == expected.keys()
        return same_names and all(_close(stated[name], value) for name, value in expected.items())
    return type(stated) is type(expected) and bool(stated == expected)


def _classes(study: Study, model: dict[str, Any]) -> tuple[Array, Array]:
    """The coefficients and intercepts of a classifier of the study's classes."""
    require(model["classes"] == study.classes, "it has other classes")
    require(_floats(model["coefficients"], 2) and _floats(model["intercepts"], 1), "its numbers are no floats")
    rows, width = 1 if len(study.classes) == 2 else len(study.classes), len(study.features) - 1
    shape = [len(row) for row in model["coefficients"]]
    require(shape == [width] * rows and len(model["intercepts"]) == rows, "it has another shape")
    return np.array(model["coefficients"]), np.array(model["intercepts"])


def _prediction(study: Study, samples: Public, model: dict[str, Any]) -> tuple[Array, Array, float]:
    """As `_classes`, of a prediction of the study's number, and what was added to the intercept."""
    plan: Regression | ErrorEvaluation
    if study.protocol == "regression":
        plan = Regression(study, samples.samples)
    else:
        plan = ErrorEvaluation(study, samples.samples)
    require(model["task"] == "regression" and model["label"] == study.label, "it predicts something else")
    right = _floats(model["coefficients"], 1) and _floats([model["intercept"]], 1)
    require(right and _floats(model["ranges"], 2) and _floats(model["bounds"], 1), "its numbers are no floats")
    require(len(model["coefficients"]) == len(study.features) - 1, "it has another shape")
    require(model["ranges"] == ranges_of(samples).T.tolist(), "its ranges are others")
    require(model["bounds"] == [plan.low, plan.high], "its bounds are others")
    return np.array([model["coefficients"]]), np.array([model["intercept"]]), plan.middle


def check_model(study: Study, samples: Public, content: bytes, result: Result | None) -> list[str]:
    """Check what the curator published; returns what holds."""
    try:
        model = json.loads(content.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise Refused("it is no JSON") from None
    earlier = _earlier(study)
    fields = [*(_OF_NUMBERS if study.predicts_number else _FIELDS), *(["earlier", "together"] if earlier else [])]
    require(isinstance(model, dict) and list(model) == fields, "its fields are others")
    require(model["psephos_model"] == 1 and written(model) == content, "it is not written as a model is")
    require(model["method"] == study.method, "it has another method")
    require(model["encoding"] == json.loads(samples.encoding()), "it encodes columns in another way")
    if study.predicts_number:
        coefficients, intercepts, middle = _prediction(study, samples, model)
    else:
        coefficients, intercepts, middle = *_classes(study, model), None
    trial = ["A trial: the key of this study may be too short to protect anything."] if study.trial else []
    require(model["warnings"] == trial, "its warnings are others")
    parties = model["parties"]
    require(type(parties) is int and study.minimum <= parties <= len(study.roster), "the number of ballots is wrong")
    release = model["release"]
    require(isinstance(release, dict) and list(release) == _RELEASE, "the fields of its release are others")
    require(release["delta"] == study.delta + 2.0**-64, "it states another delta")
    require(isinstance(release["epsilon"], float), "it states no epsilon")
    require(release["epsilon"] <= study.epsilon * (1 + 1e-12), "it states a larger epsilon")
    require(math.isclose(release["epsilon"], study.epsilon, rel_tol=1e-9), "it states another epsilon")
    for name, value in _facts(study, samples, result).items():
        require(_close(release[name], value), f"it states another {name}")
    require(release["protects"] == _protected(study, release["unit"]), "it says that it protects something else")
    if earlier:
        require(model["earlier"] == earlier, "it states other releases than the study")
        require(model["together"] == _together([release, *earlier]), "it adds up its costs in another way")
    holds = ["the result is of the agreed classes, columns, method, epsilon and delta"]
    if result is None:
        return holds
    require(parties == len(result.parties), "it is said to be of another number of ballots")
    w = _classifier(study, samples, result)
    if w is not None:
        follows = _follows(np.atleast_2d(w), coefficients, intercepts, samples, middle)
        require(follows, "it does not follow from the sum")
        holds.append("the result follows from the sum")
    return holds


def _earlier(study: Study) -> list[dict[str, Any]]:
    """What an evaluated model has cost, as the study states it."""
    text = study.parameters.get("released") if study.protocol == "evaluation" else ""
    if not text:
        return []
    try:
        releases: list[dict[str, Any]] = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise Refused("what the model has cost is no JSON") from None
    require(isinstance(releases, list) and all(list(one) == _RELEASE for one in releases), "its fields are others")
    require(all(text.isprintable() for text in _texts(releases)), "a text has control characters")
    return releases


def _texts(value: Any) -> list[str]:
    """All texts in nested lists and objects."""
    if isinstance(value, str):
        return [value]
    within = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for each in within for text in _texts(each)]


def _protected(study: Study, unit: str) -> dict[str, Any]:
    """What neighbouring inputs of a study differ in."""
    column = "" if unit == "party" else study.parameters.get("record", "")
    changed = "replace" if study.protocol == "psgd" else "any"
    return {"kind": "person" if column else unit, "of": column, "neighbours": changed, "at": ""}


def _covers(unit: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether what is private for a unit is as private for the other one."""
    if unit["neighbours"] not in ("any", other["neighbours"]):
        return False
    owner = {"party": other["of"], "person": other["at"], "record": ""}.get(other["kind"])
    if unit["kind"] == "party":
        return other["kind"] == "record" or (owner is not None and unit["of"] in ("", owner))
    if unit["kind"] != other["kind"] or unit["of"] != other["of"]:
        return False
    if unit["kind"] == "person":
        return unit["at"] in ("", other["at"])
    return unit["kind"] == "record" or (unit["kind"] == "shard" and unit["of"] != "")


def _together(releases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What releases cost together, for each unit those that cover it."""
    costly, costs = [one for one in releases if one["epsilon"] != 0], []
    for one in costly:
        unit = one["protects"]
        if _covers(unit, unit) and unit in [cost["unit"] for cost in costs]:
            continue
        alike = [other for other in costly if other is one or _covers(other["protects"], unit)]
        epsilons, deltas = [each["epsilon"] for each in alike], [each["delta"] for each in alike]
        epsilon = None if None in epsilons else math.fsum(epsilons)
        delta = None if None in deltas else min(math.fsum(deltas), 1.0)
        costs.append({"unit": unit, "releases": len(alike), "epsilon": epsilon, "delta": delta})
    return costs


def _classifier(study: Study, samples: Public, result: Result) -> Array | None:
    """The classifier of scaled rows."""
    if result.classifier is not None or result.sums is None:
        return result.classifier
    if step := step_of(study, samples):
        return step.classifier(result.sums, len(result.parties))
    if study.protocol != "statistic":
        return None
    plan = Statistic(study, samples.samples)
    if plan.classes > 2:
        return multiclass.classifier(plan, result.sums, len(result.parties))
    return plan.classifier(result.sums, len(result.parties))


def _facts(study: Study, samples: Public, result: Result | None) -> dict[str, Any]:
    """What a model must state of its release besides epsilon and delta."""
    if result is not None and result.facts is not None:
        return result.facts
    if step := step_of(study, samples):
        return step.facts(len(study.roster) if result is None else len(result.parties))
    if study.protocol != "statistic":
        return {"unit": "party", "said": "", "signal": None}
    plan = Statistic(study, samples.samples)
    sensitivity, norm = plan.sensitivity
    if result is not None:
        sensitivity *= plan.parties / len(result.parties)
    return plan.noise.facts("party", sensitivity, norm, rank=plan.rank)


def _follows(w: Array, published: Array, intercepts: Array, samples: Public, middle: float | None) -> bool:
    """Whether a model is w (k, d'), rounded to 24 bits of its largest entry, and folded; then `middle` is added."""
    largest = float(np.abs(w).max())
    step = math.ldexp(1.0, math.frexp(largest)[1] - 24) if largest > 0 else 1.0
    position = w / step
    nearest = np.rint(position)
    offset = position - nearest
    second = nearest + np.where(offset > 0, 1.0, -1.0)
    open_ = np.abs(offset) >= 0.5 - 2.0**-36 * largest / step
    multiples = nearest.copy()
    width = published.shape[1]
    matches = open_[:, :width] & (samples.fold(second * step + 0.0)[0] == published)
    multiples[:, :width][matches] = second[:, :width][matches]
    other = multiples.copy()
    other[:, width:] = np.where(open_, second, nearest)[:, width:]
    (folded, first), (_, last) = (samples.fold(choice * step + 0.0) for choice in (multiples, other))
    if middle is not None:
        first, last = first + middle, last + middle
    return bool(_same(folded, published).all() and (_same(first, intercepts) | _same(last, intercepts)).all())


def _same(a: Array, b: Array) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (a == b) & (np.signbit(a) == np.signbit(b))
    return same
