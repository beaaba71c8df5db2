"""Transitional: results that are still dictionaries, as outcomes. Goes when the last of them does."""

from __future__ import annotations

import inspect
from dataclasses import field, make_dataclass
from typing import Any, get_type_hints

from psephos.outcomes import Outcome
from psephos.outcomes.base import FORMAT, KINDS

_METHODS = {"pooled": "batch", "private": "pathak"}


def options_of(function: Any, name: str) -> Any:
    hints = get_type_hints(function)
    fields = []
    for one in inspect.signature(function).parameters.values():
        if one.name in ("transcript", "progress"):
            continue
        kind = hints[one.name]
        if one.name in ("data_dir", "state_dir"):
            kind = str | None
        if one.name == "samples_per_party":
            kind = int | None
        fields.append((one.name, kind, field(default=one.default)))
    return make_dataclass(name, fields, frozen=True)


def adapt(result: Any) -> Outcome:
    if isinstance(result, Outcome):
        return result
    protocol = str(result.get("protocol", ""))
    if protocol in ("tally", "statistic"):
        return _tally(result)
    return _pathak_adult(result)


def _made(kind: str, given: dict[str, Any]) -> Outcome:
    from dataclasses import fields

    known = {f.name for f in fields(KINDS[kind])}
    return KINDS[kind].from_json({"format": FORMAT, "kind": kind, **{k: v for k, v in given.items() if k in known}})


def _accuracy(found: dict[str, Any], private: str) -> dict[str, Any]:
    return {
        _METHODS.get(k, k): v if isinstance(v, dict) else {"private" if k == private else "nonprivate": v}
        for k, v in found.items()
        if not k.endswith("_rows")
    }


def _tally(r: dict[str, Any]) -> Outcome:
    names = ("epsilon", "delta", "unit", "sensitivity", "norm", "source", "mechanism")
    privacy = {
        n: {k: e[k] for k in names} | {"chosen": {k: v for k, v in e.items() if k not in names}}
        for n, e in r["privacy"].items()
    }
    measured = {"batch": r["accuracy"]["batch_rows"], "ensemble": r["accuracy"]["ensemble_test_rows"]}
    curves = [
        {"algorithm": c["algorithm"], "x": c["epsilon"], "mean": c["mean"], "std": c["std"]}
        for c in r.get("curves", [])
    ]
    return _made("tally", r | {
        "privacy": privacy, "accuracy": _accuracy(r["accuracy"], ""), "measured_on": measured, "curves": curves,
    })  # fmt: skip


def _pathak_adult(r: dict[str, Any]) -> Outcome:
    settings = []
    for s in r["settings"]:
        theorems = []
        for t in s["theorems"]:
            a, b = t["theorem_4_2"], t["equation_3"]
            theorems.append(t | {
                "distance_mean": a["distance_mean"],
                "theorem_4_2": {"bound": a["bound"], "largest": a["distance_max"], "holds": a["holds"]},
                "equation_3": {"bound": b["bound"], "largest": b["excess_max"], "holds": b["holds"]},
            })  # fmt: skip
        settings.append(s | {"theorems": theorems})
    return _made("pathak-adult", r | {
        "experiment": r["name"], "paper": "Pathak, Rane, Raj 2010, section 5, Figure 2", "claims": r["paper"]["claims"],
        "draws_per_point": r["executions"], "settings": settings, "seconds": {"total": r["seconds"]},
        "counterexample": r["theorem_4_2_counterexample"],
    })  # fmt: skip
