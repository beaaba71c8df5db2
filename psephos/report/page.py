"""The page: one HTML file with its style and its pictures inside, and no script, so that nothing it shows can change.

Every number of the result stands in a `<data value="...">` element: people read it rounded, programs and tests exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from psephos.curator.losses import loss_named
from psephos.report.charts import bytes_by_phase
from psephos.report.document import ALPHA_NOTICE, gaps
from psephos.report.experiments import charges, compared, facts, panels, scores, tables
from psephos.report.knowledge import VERDICTS, matrices
from psephos.report.palette import DARK, LIGHT
from psephos.report.sequence import LOOKS, arrange, contents_of, family, received, size_text, svg

__all__ = ["LISTED", "code", "number", "render", "share"]

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
    "gop": "Gaussian objective perturbation: one place holds all data",
    "la_printed": "local aggregation (Pathak 2010), with the noise as printed",
    "la_repaired": "local aggregation, with the factor 1/K and spherical noise",
    "psgd_transcript": "ours: private in everything that the curator sees",
    "gop_sigma_printed": "the paper's sigma as printed: NOT private",
    "pooled + noise": "all data in one place, with the noise of one party",
}

_PATHS = {
    "accuracy": "the accuracies",
    "sensitivity": "the sensitivities",
    "seconds": "the times",
    "stages": "time and bytes of the stages",
    "tally_equals_plaintext": "the comparison of the opened counts with the clear ones",
    "shares_equal_reference": "the comparison of the published shares with the clear computation",
    "sums_equal_reference": "the comparison of the opened sums with the clear ones",
    "steps": "the number of gradient steps",
    "epsilon_proved": "the epsilon that was proved",
    "epsilon_final": "the epsilon of the final classifier",
    "epsilon_transcript": "the epsilon of everything that the curator saw",
}


def render(document: Mapping[str, Any], figures: Mapping[str, Markup]) -> str:
    """The page of a checked document and its figures' inline markup, by name."""
    result = document["result"]
    transcript = document["transcript"]
    lanes, blocks = arrange(transcript) if transcript else ([], [])
    shown = panels(result)
    drawn = dict.fromkeys(curve.algorithm for panel in shown for curve in panel.curves)
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
        repeat=_repeat(result),
        lead=_lead(result),
        accuracies=scores(result),
        words=_ALGORITHMS,
        ledger=list(_ledger(result)),
        panels=shown,
        curves=[(name, _ALGORITHMS[name]) for name in drawn if name in _ALGORITHMS and not scores(result)],
        comparison=compared(result),
        tables=tables(result),
        sequence=svg(lanes, blocks, _members(lanes, transcript)) if transcript else None,
        inside=[
            (role, [(kind, contents_of(kind)) for kind in kinds]) for role, kinds in received(transcript or []).items()
        ],
        looks=LOOKS,
        phases=_phases(result, bytes_by_phase(transcript) if transcript else {}),
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
        text = str(value) or "(empty)"
    return Markup('<data value="{}">{}</data>').format(exact, text)


def code(text: str) -> Markup:
    """Words in which `this` is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped first


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
    environment.filters |= {"code": code, "number": number, "share": share, "size": size_text}
    return environment.get_template("report.html.jinja")


def _title(result: Mapping[str, Any]) -> str:
    if "experiment" in result or "name" in result:
        return f"Psephos: {result.get('experiment', result.get('name'))}"
    if "protocols" in result:
        names = [str(one.get("name")) for one in result["protocols"]]
        return "Psephos: who learned what" + (f" in {names[0]}" if len(names) == 1 else "")
    if result.get("protocol") == "privacy-audit":
        return "Psephos: audit of the noise"
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
    if isinstance(result.get("as_expected"), bool):
        good, bad = "as expected, all of them", "NOT AS EXPECTED"
        words = good if result["as_expected"] else bad
        yield "Verdicts", Markup('<data value="{}">{}</data>').format(json.dumps(result["as_expected"]), words)
    for words, value in facts(result):
        yield words, number(value)
    if "parties" in result:
        ballots = result.get("ballots")
        counted = Markup(", {} ballots counted").format(number(ballots)) if ballots is not None else ""
        yield "Parties", number(result["parties"]) + counted
    if "auxiliary" in result:
        yield "Public auxiliary samples", number(result["auxiliary"])
    if "epsilon" in result:
        what = "per release and party" if result.get("protocol") in ("tally", "statistic") else ""
        yield "epsilon", number(result["epsilon"]) + (f" {what}" if what else "")
    if "steps" in result and "records" in result:
        yield "Gradient steps", number(result["steps"]) + Markup(" on {} records").format(number(result["records"]))
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
    if result.get("as_expected") is False:
        yield "Not everything is as expected: something leaks, a mutant was missed, or an epsilon does not hold."
    if result.get("quick"):
        yield "Run with --quick: fewer trials and points than the paper's. Nothing here is to be cited."
    if isinstance(result.get("key_bits"), int) and result["key_bits"] < 2048:
        yield f"A {result['key_bits']}-bit key is a test key: it protects nothing."


def _seed(result: Mapping[str, Any]) -> Any:
    for place in (result, result.get("options"), result.get("settings")):
        if isinstance(place, dict) and "seed" in place:
            return place["seed"]
    return None


def _repeat(result: Mapping[str, Any]) -> str:
    """What the seed does, in the kind of run that this was."""
    if "protocols" in result:
        return (
            "it drives the views that are compared and the tests. The command takes fresh coins each time; "
            "`psephos.security.audit.audit(..., seed=...)` repeats this very run."
        )
    simulated = "simulation" in str(result.get("noise_source", "system"))
    if {"experiment", "name"} & set(result) and simulated:
        return "it drives splits, training and noise, so every number but the times comes out the same."
    noise = "" if simulated else ", the noise"
    return (
        "it drives splits and training, never keys or encryption, so everything but the keys, the ciphertexts"
        f"{noise} and the times comes out the same."
    )


def _lead(result: Mapping[str, Any]) -> str:
    """What a reader of an audit's or an experiment's report has before them; a run needs no words for that."""
    if result.get("protocol") == "privacy-audit":
        return (
            "Every noise mechanism, sampled. No message was sent and no data set was used, so there is no table of who "
            "learned what; `psephos audit` without --privacy makes that one."
        )
    if "protocols" in result:
        return (
            "The security analysis: each role's and each coalition's view was compared with what a simulator makes "
            "from the coalition's input and output alone, and attacked. Then the protocol was broken on purpose, to "
            "see that the tests notice. Views hold secrets, so the page has verdicts and no messages; "
            "`psephos run --report DIR` draws those."
        )
    if {"experiment", "name"} & set(result):
        return (
            "An experiment of a paper, run again. It shows what privacy costs in accuracy. The messages of the "
            "protocol and who learns what from them are in the reports of `psephos run` and `psephos audit`."
        )
    return ""


def _phases(
    result: Mapping[str, Any], sizes: Mapping[str, tuple[int, int]]
) -> dict[str, tuple[float | None, int, int]]:
    """Seconds, messages and bytes of each phase: the transcript's, or what the result says where there is none."""
    stages = result.get("stages")
    stages = stages if isinstance(stages, dict) else {}
    if not sizes:
        return {name: (stage["seconds"], stage["messages"], stage["bytes"]) for name, stage in stages.items()}
    return {name: (stages.get(name, {}).get("seconds"), *pair) for name, pair in sizes.items()}


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
        yield from _pathak_ledger(result)
        return
    if "epsilon_transcript" in result and "protocol" in result:
        yield from _psgd_ledger(result)
        return
    if charged := list(charges(result)):
        for row in charged:
            yield _row(**row)
        return
    sensitivity = result.get("sensitivity")
    for name, value in sensitivity.items() if isinstance(sensitivity, dict) else ():
        said = (result.get("sensitivity_source") or {}).get(name)
        row = {"mechanism": result.get("mechanism"), "epsilon": result.get("epsilon"), "delta": result.get("delta")}
        yield _row(name, **row, sensitivity=value, source=said)


def _pathak_ledger(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One release, two notions of privacy. Its sensitivity grows with 1/n_(1), and that size is a secret."""
    noise, printed = result.get("noise"), result.get("variant") == "printed"
    known = {"delta": result.get("delta"), "sensitivity": "a secret: it tells the smallest size n_(1)"}
    known["mechanism"] = f"{noise}, " + ("one party's own noise" if printed else "a share of noise from every party")
    grid = "L2, S + g sqrt(d)" if noise == "spherical" else "L1, sqrt(d) S + g d"
    source = f"{grid} on a grid of pitch g; S = (2/n_(1) + 2 tau)/mu (Chaudhuri and Monteleoni 2008, corollary 2)"
    unit = result.get("epsilon_proved_for")
    yield _row("the published shares", **known, epsilon=result["epsilon_proved"], unit=unit, source=source)
    if "epsilon_party_level" in result:
        source = "no minimiser is longer than R: S = 2 R, whatever the party's data; the paper claims nothing here"
        known |= {"epsilon": result["epsilon_party_level"], "unit": "party, its size apart"}
        yield _row("the same release, for a party", **known, source=source)


def _psgd_ledger(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The final classifier and everything that led to it: two statements about one run."""
    guarantee = result.get("guarantee") or {}
    unit = guarantee.get("unit")
    known: dict[str, Any] = {"delta": result.get("delta"), "unit": unit, "norm": "l2"}
    if unit == "party" and "gradient_bound" in result:
        known |= {"sensitivity": 2 * result["gradient_bound"]}
        source = "twice the bound of a party's gradient"
    else:
        lipschitz = loss_named(str(result.get("loss", "logistic")), 2).lipschitz
        known |= {"sensitivity": 2 * lipschitz}
        source = "2 L: one record's gradient, ||x|| <= 1 (Rajkumar 2012, section 4)"
    if result.get("epsilon_final") is not None:
        mechanism = "Gaussian objective perturbation, a share from every party"
        chosen = {"sigma": result["sigma"]} if "sigma" in result else {}
        epsilon = result["epsilon_final"]
        words = f"{source}; {guarantee.get('final_is', '')}".rstrip("; ")
        yield _row("final classifier", **known, mechanism=mechanism, epsilon=epsilon, source=words, chosen=chosen)
    epsilon = result["epsilon_transcript"]
    joint = result.get("variant") == "gaussian"
    mechanism = "Skellam shares at every step" if joint else "spherical Laplace at every step, from every party"
    steps = f", {result['steps_agreed']:,} steps composed" if "steps_agreed" in result else ", all steps composed"
    samplers = guarantee.get("delta_samplers")
    yield _row(
        "everything the curator saw",
        **known,
        mechanism=mechanism,
        epsilon="without a finite bound" if epsilon is None else epsilon,
        source=f"{source} and the grid{steps}",
        chosen={} if samplers is None else {"delta of the samplers": samplers},
    )


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
