"""The page: one HTML file with its style and its pictures inside, and no script, so that nothing it shows can change.

Every number of the result stands in a `<data value="...">` element: people read it rounded, programs and tests exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from psephos.report.document import ALPHA_NOTICE, gaps
from psephos.report.experiments import compared, panels, scores, tables
from psephos.report.figures import bytes_by_phase
from psephos.report.knowledge import VERDICTS, matrices
from psephos.report.palette import DARK, LIGHT
from psephos.report.sequence import LOOKS, arrange, contents_of, family, size_text, svg

__all__ = ["LISTED", "number", "render", "share"]

LISTED = 2000
"""A longer transcript is listed up to here; report.json has the rest."""

_ALGORITHMS = {
    "batch": "all data in one place; what nobody may do",
    "indiv": "each party alone, on average",
    "ensemble": "the parties' majority vote on each test sample",
    "vote": "Hamm's Algorithm 1: majority labels",
    "soft": "Hamm's Algorithm 2: soft labels",
    "avg": "the average of the parties' parameters",
    "statistic": "the linear statistic of the votes",
    "pate": "PATE: a student of the noisy answers",
    "psgd": "Rajkumar's private gradient descent",
    "nonprivate": "the same problem without noise",
    "private": "the classifier that the published shares make",
    "average": "the average of the parties' parameters, without noise",
    "pooled": "all data in one place; what nobody may do",
    "majority": "always the most frequent class",
}

_PATHS = {
    "accuracy": "the accuracies",
    "sensitivity": "the sensitivities",
    "seconds": "the times",
    "stages": "time and bytes of the stages",
    "tally_equals_plaintext": "the comparison of the opened counts with the clear ones",
    "shares_equal_reference": "the comparison of the published shares with the clear computation",
    "sums_equal_reference": "the comparison of the opened sums with the clear ones",
}


def render(document: Mapping[str, Any], figures: Mapping[str, Markup]) -> str:
    """The page of a checked document and its figures' inline markup, by name."""
    result = document["result"]
    transcript = document["transcript"]
    lanes, blocks = arrange(transcript) if transcript else ([], [])
    kinds = {message["kind"]: None for message in transcript or []}
    text: str = _template().render(
        document=document,
        result=result,
        protocol=result.get("protocol"),
        title=_title(result),
        figures=figures,
        facts=list(_facts(result)),
        warnings=list(_warnings(document)),
        missing=[_gap(path) for path in gaps(document)],
        seed=_seed(result),
        accuracies=scores(result),
        words=_ALGORITHMS,
        ledger=list(_ledger(result)),
        panels=panels(result),
        comparison=compared(result),
        tables=tables(result),
        sequence=svg(lanes, blocks, _members(lanes, transcript)) if transcript else None,
        kinds=[(kind, contents_of(kind)) for kind in kinds],
        looks=LOOKS,
        phases=bytes_by_phase(transcript) if transcript else {},
        matrices=matrices(result),
        mutants=[
            (p.get("name"), {"by": ""} | m) for p in result.get("protocols") or [] for m in p.get("mutants") or []
        ],
        verdicts=VERDICTS,
        flat=list(_flatten(result)),
        listed=LISTED,
        alpha_notice=ALPHA_NOTICE,
        light=LIGHT,
        dark=DARK,
    )
    return text


def number(value: Any, digits: int = 4) -> Markup:
    """A value as people read it, with its exact JSON beside it for programs."""
    exact = json.dumps(value)
    if isinstance(value, bool):
        text = "yes" if value else "no"
    elif value is None:
        text = "none"
    elif isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = repr(value) if digits >= 17 else f"{value:.{digits}g}"
    else:
        text = str(value)
    return Markup('<data value="{}">{}</data>').format(exact, text)


def share(value: float) -> Markup:
    """A share between 0 and 1 with three decimals, with its exact JSON beside it."""
    return Markup('<data value="{}">{:.3f}</data>').format(json.dumps(value), value)


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("psephos.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "share": share, "size": size_text}
    return environment.get_template("report.html.jinja")


def _title(result: Mapping[str, Any]) -> str:
    if "experiment" in result or "name" in result:
        return f"Psephos: {result.get('experiment', result.get('name'))}"
    if "protocols" in result:
        return "Psephos: who learned what"
    return f"Psephos: {result['protocol']}" + (f" on {result['dataset']}" if "dataset" in result else "")


def _facts(result: Mapping[str, Any]) -> Iterator[tuple[str, Markup]]:
    """The few lines a reader wants first."""
    for key, words, good, bad in (
        ("tally_equals_plaintext", "Opened sums against the clear ones", "equal, entry by entry", "THEY DIFFER"),
        ("shares_equal_reference", "Published shares against the clear sum", "equal, entry by entry", "THEY DIFFER"),
        ("sums_equal_reference", "Opened sums against the clear ones", "equal, every step", "THEY DIFFER"),
    ):
        if result.get(key) is not None:
            yield (
                words,
                Markup('<data value="{}">{}</data>').format(json.dumps(result[key]), good if result[key] else bad),
            )
    if "parties" in result:
        ballots = result.get("ballots")
        counted = Markup(", {} ballots counted").format(number(ballots)) if ballots is not None else ""
        yield "Parties", number(result["parties"]) + counted
    if "auxiliary" in result:
        yield "Public auxiliary samples", number(result["auxiliary"])
    if "epsilon" in result:
        what = "per release and party" if result.get("protocol") in ("tally", "statistic") else ""
        yield "epsilon", number(result["epsilon"]) + (f" {what}" if what else "")
    if "key_bits" in result:
        mode = Markup(", randomness {}").format(result["randomness"]) if "randomness" in result else ""
        yield "Paillier key", number(result["key_bits"]) + " bits" + mode
    if "threshold" in result and "holders" in result:
        yield "Opened by", number(result["threshold"]) + " of " + number(result["holders"]) + " key holders"
    if "false_alarm_rate" in result:
        yield "False alarms, all tests together", number(result["false_alarm_rate"])


def _warnings(document: Mapping[str, Any]) -> Iterator[str]:
    result = document["result"]
    if result.get("interrupted"):
        yield f"This run was interrupted: {result['interrupted']}. What follows is what there was."
    if "simulation" in str(result.get("noise_source", "")):
        yield "The noise was drawn from a seed. Whoever knows the seed can take it off: nothing here is private."
    for key in ("tally_equals_plaintext", "shares_equal_reference", "sums_equal_reference"):
        if result.get(key) is False:
            yield f"{key} is false: what was opened is not the sum of what was sent. Do not use this result."
    if isinstance(result.get("key_bits"), int) and result["key_bits"] < 2048:
        yield f"A {result['key_bits']}-bit key is a test key: it protects nothing."


def _seed(result: Mapping[str, Any]) -> Any:
    for place in (result, result.get("options"), result.get("settings")):
        if isinstance(place, dict) and "seed" in place:
            return place["seed"]
    return None


def _gap(path: str) -> tuple[str, str]:
    head, _, rest = path.partition(".")
    words = _PATHS.get(path) or (f"{_PATHS[head]} of {rest}" if head in _PATHS and rest else path.replace("_", " "))
    return path, words


_WORDS = {"lam": "lambda"}
_LEDGER = ("mechanism", "sensitivity", "norm", "source", "unit", "epsilon", "delta")


def _ledger(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row per release: what the result says of each, or what follows from its sensitivity and epsilon."""
    privacy = result.get("privacy")
    if isinstance(privacy, dict):
        for name, entry in privacy.items():
            chosen = {_WORDS.get(key, key): value for key, value in entry.items() if key not in _LEDGER}
            yield {"release": name, **{key: entry.get(key) for key in _LEDGER}, "chosen": chosen}
        return
    if "epsilon_proved" in result:
        row = {"mechanism": result.get("noise"), "delta": result.get("delta")}
        yield _row("shares", **row, epsilon=result["epsilon_proved"], unit=result.get("epsilon_proved_for"))
        if "epsilon_party_level" in result:
            yield _row("shares", **row, epsilon=result["epsilon_party_level"], unit="party")
        return
    if "epsilon_transcript" in result and "protocol" in result:
        guarantee = result.get("guarantee") or {}
        row = {"mechanism": result.get("variant"), "delta": result.get("delta"), "unit": guarantee.get("unit")}
        yield _row("final classifier", **row, epsilon=result.get("epsilon_final"), source=guarantee.get("final_is"))
        source = "every noisy sum that the curator opened, composed"
        yield _row("everything the curator saw", **row, epsilon=result["epsilon_transcript"], source=source)
        return
    sensitivity = result.get("sensitivity")
    for name, value in sensitivity.items() if isinstance(sensitivity, dict) else ():
        said = (result.get("sensitivity_source") or {}).get(name)
        row = {"mechanism": result.get("mechanism"), "epsilon": result.get("epsilon"), "delta": result.get("delta")}
        yield _row(name, **row, sensitivity=value, source=said)


def _row(release: str, **known: Any) -> dict[str, Any]:
    return {"release": release, **dict.fromkeys(_LEDGER), "chosen": {}, **known}


def _members(lanes: Sequence[str], messages: Sequence[Mapping[str, Any]] | None) -> dict[str, int]:
    roles = {message[end] for message in messages or [] for end in ("from", "to")}
    return {lane: 1 if lane in roles else sum(family(role) == lane for role in roles) for lane in lanes}


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and word of the result, with its path; long lists are in report.json only."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flatten(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and len(value) > 64:
        yield path, f"a list of {len(value):,} entries (in report.json)"
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _flatten(inner, f"{path}[{place}]")
    else:
        yield path, value
