"""The published model, by section 9 of docs/wire.md."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.verifier.board import Array, Refused, Released, Study, require
from tests.verifier.public import Public


@dataclass
class Result:
    """What a protocol computes, as far as the board shows it."""

    plan: Released
    parties: Sequence[int]
    sums: Sequence[int] | None


_FIELDS = ("psephos_model", "classes", "encoding", "coefficients", "intercepts", "method", "parties", "release")
_OF_NUMBERS = ("psephos_model", "task", "label", "encoding", "ranges", "coefficients", "intercept", "bounds", "method")
_RELEASE = "mechanism epsilon delta unit sensitivity norm source said chosen signal protects".split()  # noqa: SIM905


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    require(len({name for name, _ in pairs}) == len(pairs), "a field occurs twice")
    return dict(pairs)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise Refused("it is no JSON") from None


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


def _weights(study: Study, public: Public, plan: Released, model: dict[str, Any]) -> tuple[Array, Array]:
    """The coefficients (k, d - 1) and the intercepts (k,) of a model."""
    if study.predicts_number:
        require(model["task"] == "regression" and model["label"] == study.label, "it predicts something else")
        ends = [model["ranges"], model["bounds"]]
        require(json.dumps(ends) == json.dumps([public.ranges, plan.bounds]), "its ranges or bounds are others")
        rows, intercepts = [model["coefficients"]], [model["intercept"]]
    else:
        require(model["classes"] == study.classes, "it has other classes")
        rows, intercepts = model["coefficients"], model["intercepts"]
    require(_floats(rows, 2) and _floats(intercepts, 1), "its numbers are no floats")
    count = 1 if len(study.classes) in (0, 2) else len(study.classes)
    shape = [len(row) for row in rows]
    require(shape == [len(study.features) - 1] * count and len(intercepts) == count, "it has another shape")
    return np.array(rows), np.array(intercepts)


def check_model(study: Study, public: Public, content: bytes, result: Result) -> list[str]:
    """Check what the curator published; returns what holds."""
    try:
        model = _parsed(content.decode())
    except UnicodeDecodeError:
        raise Refused("it is no text") from None
    earlier, plan, ballots = _earlier(study), result.plan, len(result.parties)
    fields = [*_OF_NUMBERS, "parties", "release"] if study.predicts_number else [*_FIELDS]
    fields += ["warnings", *(["earlier", "together"] if earlier else [])]
    require(isinstance(model, dict) and list(model) == fields, "its fields are others")
    require(model["psephos_model"] == 1 and written(model) == content, "it is not written as a model is")
    require(model["method"] == study.method, "it has another method")
    require(json.dumps(model["encoding"]) == json.dumps(public.encoding), "it encodes columns in another way")
    coefficients, intercepts = _weights(study, public, plan, model)
    trial = ["A trial: the key of this study may be too short to protect anything."] if study.trial else []
    require(model["warnings"] == trial, "its warnings are others")
    require(type(model["parties"]) is int and model["parties"] == ballots, "the number of ballots is another")
    _check_release(study, model["release"], plan.facts(ballots))
    if earlier:
        require(model["earlier"] == earlier, "it states other releases than the study")
        require(model["together"] == _together([model["release"], *earlier]), "it adds up its costs in another way")
    holds = ["the result is of the agreed classes, columns, method, epsilon and delta"]
    w = None if result.sums is None else plan.classifier(result.sums, ballots)
    if w is not None:
        follows = _follows(np.atleast_2d(w), coefficients, intercepts, public, plan.middle)
        require(follows, "it does not follow from the sum")
        holds.append("the result follows from the sum")
    return holds


def _check_release(study: Study, release: Any, facts: dict[str, Any]) -> None:
    require(isinstance(release, dict) and list(release) == _RELEASE, "the fields of its release are others")
    require(release["delta"] == study.delta + 2.0**-64, "it states another delta")
    require(isinstance(release["epsilon"], float), "it states no epsilon")
    require(release["epsilon"] <= study.epsilon * (1 + 1e-12), "it states a larger epsilon")
    require(math.isclose(release["epsilon"], study.epsilon, rel_tol=1e-9), "it states another epsilon")
    for name, value in facts.items():
        require(_close(release[name], value), f"it states another {name}")
    column = "" if release["unit"] == "party" else study.parameters.get("record", "")
    changed = "replace" if study.protocol == "psgd" else "any"
    protects = {"kind": "person" if column else release["unit"], "of": column, "neighbours": changed, "at": ""}
    require(release["protects"] == protects, "it says that it protects something else")


# -- what an evaluated model has cost


def _earlier(study: Study) -> list[dict[str, Any]]:
    """The earlier releases, as the study states them."""
    text = study.parameters.get("released") if study.protocol == "evaluation" else ""
    releases: list[dict[str, Any]] = _parsed(text) if text else []
    require(isinstance(releases, list) and all(list(one) == _RELEASE for one in releases), "its fields are others")
    require(all(text.isprintable() for text in _texts(releases)), "a text has control characters")
    return releases


def _texts(value: Any) -> list[str]:
    """All texts in nested lists and objects."""
    if isinstance(value, str):
        return [value]
    within = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for each in within for text in _texts(each)]


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


# -- the classifier


def _follows(w: Array, published: Array, intercepts: Array, public: Public, middle: float | None) -> bool:
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
    matches = open_[:, :width] & (public.fold(second * step + 0.0)[0] == published)
    multiples[:, :width][matches] = second[:, :width][matches]
    other = multiples.copy()
    other[:, width:] = np.where(open_, second, nearest)[:, width:]
    (folded, first), (_, last) = (public.fold(choice * step + 0.0) for choice in (multiples, other))
    if middle is not None:
        first, last = first + middle, last + middle
    return bool(_same(folded, published).all() and (_same(first, intercepts) | _same(last, intercepts)).all())


def _same(a: Array, b: Array) -> NDArray[np.bool_]:
    return (a == b) & (np.signbit(a) == np.signbit(b))
