"""The results of `psephos reproduce`, as panels of curves and rows beside the paper's: each experiment says it its way.

What an experiment says in words of its own (its facts, what it charges, what its paper claims) is put into the
report's here, and nothing is computed that its JSON does not hold.

A result may also carry "curves" (and "comparison") in the report's own words; see `Panel` and `compared`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Curve", "Panel", "Score", "charges", "compared", "facts", "panels", "scores", "tables"]


@dataclass(frozen=True)
class Curve:
    """One algorithm's line: `x`, `mean` and, where it was measured, `std` have the same length."""

    algorithm: str
    x: tuple[float, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Panel:
    """One picture. `log`: whether x is drawn on a logarithmic scale. `note`: what a reader must know about it."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log: bool = True
    note: str = ""


@dataclass(frozen=True)
class Score:
    """One algorithm's accuracy: without noise, private, and the private one's standard deviation over draws."""

    name: str
    nonprivate: float | None = None
    private: float | None = None
    std: float | None = None


_PRIVATE = {"private", "psgd"}
"""What the runs of Pathak and of Rajkumar call the accuracy of what they release."""


def scores(result: Mapping[str, Any]) -> list[Score]:
    """A run's "accuracy", in its order."""
    found = []
    for name, value in (result.get("accuracy") or {}).items():
        if name.endswith("_rows"):
            continue
        if isinstance(value, dict):
            found.append(Score(name, value.get("nonprivate"), value.get("private"), value.get("private_std")))
        else:
            found.append(Score(name, private=value) if name in _PRIVATE else Score(name, value))
    return found


def panels(result: Mapping[str, Any]) -> list[Panel]:
    """Every panel that the result has the numbers for, in its own order."""
    return [*_own(result), *_hamm(result), *_pathak(result), *_rajkumar(result)]


def compared(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of quantity, paper, ours, verdict, why: from "comparison", Hamm's "published", or a paper's claims."""
    rows = [{"why": "", **row} for row in result.get("comparison") or []]
    rows += [*_pathak_claims(result), *_rajkumar_claims(result)]
    for row in result.get("published") or []:
        family, why = row.get("family", "none"), row.get("why", "")
        verdict = "reproduces" if row["reproduces"] else "does not reproduce"
        rows.append(
            {
                "quantity": row["what"] if family == "none" else f"{row['what']} ({family})",
                "paper": row["paper"],
                "ours": row["ours"],
                "verdict": "not tested" if why.startswith("not tested") else verdict,
                "why": why.removeprefix("not tested: "),
            }
        )
    return rows


_THEOREM_4_2 = "the paper's claim (Rajkumar 2012, Theorem 4.2), for the exact minimiser"

_Table = tuple[str, str, list[str], list[list[Any]]]


def tables(result: Mapping[str, Any]) -> list[_Table]:
    """What else is a table, of audited mechanisms and of Pathak's theorems: (title, what it shows, columns, rows)."""
    return [*_audited(result), *_theorems(result)]


def _audited(result: Mapping[str, Any]) -> Iterator[_Table]:
    if mechanisms := result.get("mechanisms"):
        columns = ["mechanism", "dimensions", "epsilon claimed", "epsilon at least", "verdict", "at delta"]
        rows = [
            [
                one["name"],
                one["dimension"],
                one["epsilon"],
                one["lower_bound"],
                "holds" if one["lower_bound"] <= one["epsilon"] else "VIOLATED",
                one["delta"],
            ]
            for one in mechanisms
        ]
        about = (
            "Each mechanism was run on two neighbouring inputs, and epsilon bounded from below by how well their "
            "outputs can be told apart. A bound above the claim convicts the mechanism. One below it proves nothing: "
            "the audit would see a gross mistake, not a small one."
        )
        yield "Audited mechanisms", about, columns, rows


def _theorems(result: Mapping[str, Any]) -> Iterator[_Table]:
    settings = result.get("settings")
    columns = ["setting", "split", "hypotheses hold", "theorem 4.2: bound", "distance", "verdict"]
    rows = [
        [
            setting["name"],
            row["split"],
            row["hypotheses_hold"],
            row["theorem_4_2"]["bound"],
            row["theorem_4_2"]["distance_max"],
            "holds" if row["theorem_4_2"]["holds"] else "FAILS",
        ]
        for setting in (settings if isinstance(settings, list) else ())
        for row in setting.get("theorems") or ()
    ]
    if rows:
        about = (
            "Theorem 4.2 bounds the distance of the averaged classifier from the pooled one. It needs the parties' "
            "data to be alike, which it does not say: the splits with different label shares are there to show it."
        )
        yield "Theorem 4.2, measured", about, columns, rows


def facts(result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What an experiment or an audit was: (words, value) for the head of the page."""
    settings = result.get("settings")
    source = {**settings, **result} if isinstance(settings, dict) else result
    if not ({"experiment", "name", "protocols", "mechanisms"} & set(result)):
        return
    if isinstance(result.get("paper"), str):
        yield "Paper", result["paper"]
    for key, words in (
        ("data", "Data"),
        ("trials", "Splits"),
        ("data_sets", "Data sets or folds"),
        ("deals", "Deals"),
        ("releases", "Noise draws a point"),
        ("executions", "Noise draws a point"),
        ("draws", "Noise draws each"),
        ("counts", "Counts"),
        ("samples_per_party", "Samples a party"),
        ("records", "Training records"),
        ("train", "Training records"),
        ("test", "Test samples"),
        ("steps", "Gradient steps"),
        ("encrypted_steps_checked", "Steps repeated under encryption"),
        ("views", "Views a side"),
        ("power", "Noticed with probability 0.99: a classifier right in"),
    ):
        if key in source:
            yield words, source[key]
    if result.get("mechanisms"):
        first = result["mechanisms"][0]
        yield "Outputs an input", first["samples"]
        yield "Confidence of each bound", first["confidence"]
    for protocol in [result.get("protocols") or []]:
        broken = [mutant for one in protocol for mutant in one.get("mutants") or []]
        if broken:
            yield "Broken on purpose and caught", f"{sum(bool(m['caught']) for m in broken)} of {len(broken)}"


def charges(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What an experiment's releases cost, as rows of a ledger: their epsilon is the axis of its figure."""
    if "families" in result:
        for family, words in result["families"].items():
            private = family != "exponential"
            yield {
                "release": family,
                "mechanism": words.partition(";")[0].partition(":")[0],
                "epsilon": "the axis" if private else "NONE: not private",
                "delta": "at most 2^-64" if family == "ours" else 0.0,
                "unit": "party",
                "source": "certified for what was fitted (Theory, in the documentation)"
                if family == "ours"
                else "the paper's constants: Hamm, Theorems 1 and 3, appendices B.2 to B.4",
            }
    elif "epsilon_real_per_epsilon" in result:
        for setting in result["settings"]:
            inside = setting["rows_in_unit_ball"]
            real = f"{result['epsilon_real_per_epsilon']:.4g} times the axis"
            yield {
                "release": setting["name"],
                "mechanism": "a Laplace variable per coordinate, scale 2/(n_(1) epsilon lambda)",
                "epsilon": real if inside else "NONE: rows leave the unit ball that the proof assumes",
                "delta": 0.0,
                "unit": "record, sizes fixed",
                "source": "L1, sqrt(d) 2/(K n_(1) lambda): Theorem 4.1 takes the L2 bound for it and leaves out 1/K",
            }
    elif isinstance(spent := result.get("epsilon_transcript"), dict):
        delta = (result.get("settings") or {}).get("delta")
        for name, mechanism, epsilon, cost, source in (
            ("psgd, gop: the classifier", "Gaussian objective perturbation", "the panel's", delta, _THEOREM_4_2),
            ("la_printed", "a Laplace variable per coordinate, as printed", "not claimed here", 0.0, "Pathak 2010"),
            ("la_repaired", "spherical Laplace", "the panel's", 0.0, "L2, 2/(K n_(1) lambda), sizes public"),
            ("gop_sigma_printed", "sigma solved as printed", "NONE: not private", delta, "Rajkumar 2012, Procedure 3"),
        ):
            row = {"release": name, "mechanism": mechanism, "epsilon": epsilon, "delta": cost, "unit": "record"}
            yield row | {"source": source}
        for asked, methods in spent.items():
            for name, epsilon in methods.items():
                pure = name.endswith("_pure")
                yield {
                    "release": f"{name.removesuffix('_pure')} at {asked}: every noisy sum",
                    "mechanism": "noise at every step, composed" + (", without a delta" if pure else ""),
                    "epsilon": "without a finite bound" if epsilon is None else epsilon,
                    "delta": 0.0 if pure else delta,
                    "unit": "record",
                    "source": "2 L for one record's gradient, ||x|| <= 1 (Rajkumar 2012, section 4)",
                }


def _pathak_claims(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    settings = result.get("settings")
    for setting in settings if isinstance(settings, list) else ():
        for claim, holds in (setting.get("claims") or {}).items():
            yield {
                "quantity": claim,
                "paper": "claims so",
                "ours": f"{'so' if holds else 'not so'}: {setting['name']}",
                "verdict": "holds" if holds else "FAILS",
                "why": "the pooled classifier always says the majority class here"
                if setting.get("pooled_always_says_majority")
                else "",
            }


def _rajkumar_claims(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The claims in the paper's words, each beside the means that speak to it; a reader judges, no bound was stated."""
    claims = result.get("claims")
    if not isinstance(claims, dict):
        return

    def means(key: str, *methods: str) -> str:
        told = claims[key]
        return "; ".join(
            f"{name} " + ", ".join(f"{mean:.3f}" for mean in told[name].values()) for name in methods if name in told
        )

    def row(words: str, ours: str, holds: bool | None) -> dict[str, Any]:
        verdict = "see the numbers" if holds is None else "holds" if holds else "FAILS"
        return {"quantity": words, "paper": "claims so", "ours": ours, "verdict": verdict, "why": ""}

    total = claims["rows"]
    close, better = claims["psgd_within_one_std_of_gop_rows"], claims["psgd_better_than_la_printed_rows"]
    yield row(
        "PSGD is similar to GOP",
        f"within one standard deviation in {close} of {total} rows; largest gap {claims['largest_gap_psgd_gop']:.3f}",
        close == total,
    )
    repaired = claims["psgd_better_than_la_repaired_rows"]
    yield row(
        "PSGD is better than local aggregation even for 5 parties",
        f"in {better} of {total} rows; with its noise repaired in {repaired}",
        better == total,
    )
    if "mean_error_by_parties" in claims:
        places = ", ".join(next(iter(claims["mean_error_by_parties"].values())))
        words = "more parties make local aggregation worse"
        yield row(
            words,
            f"mean errors with {places} parties: {means('mean_error_by_parties', 'la_printed', 'la_repaired')}",
            None,
        )
    if "mean_error_by_skew" in claims:
        words = "the smaller the smallest party, the worse local aggregation; PSGD and GOP do not depend on the skew"
        ours = means("mean_error_by_skew", "la_printed", "la_repaired", "psgd", "gop")
        yield row(words, f"mean errors from even to most uneven: {ours}", None)


def _curve(algorithm: str, x: Sequence[float], points: Sequence[Mapping[str, float]], mean: str = "mean") -> Curve:
    std = tuple(point["std"] for point in points) if points and "std" in points[0] else None
    return Curve(algorithm, tuple(x), tuple(point[mean] for point in points), std)


def _own(result: Mapping[str, Any]) -> Iterator[Panel]:
    grouped: dict[str, list[Curve]] = {}
    for curve in result.get("curves") or []:
        std = curve.get("std")
        made = Curve(curve["algorithm"], tuple(curve["epsilon"]), tuple(curve["mean"]), std and tuple(std))
        grouped.setdefault(str(curve.get("panel", "")), []).append(made)
    for title, curves in grouped.items():
        yield Panel(title, "epsilon (log scale; more private to the left)", "accuracy", tuple(curves))


def _hamm(result: Mapping[str, Any]) -> Iterator[Panel]:
    for panel in result.get("panels") or []:
        families = result.get("families", {})
        for family, methods in panel["curves"].items():
            drawn = []
            for name, points in methods.items():
                x = result["inverse_epsilons"][-len(points) :]
                drawn.append(_curve(name, x, points))
            for name in ("batch", "indiv"):
                drawn.append(_curve(name, x, [panel[name]] * len(x)))
            yield Panel(
                f"{panel['parties']:,} parties, {family}",
                "1/epsilon (log scale; more private to the right)",
                "accuracy",
                tuple(drawn),
                note=str(families.get(family, "")),
            )


def _pathak(result: Mapping[str, Any]) -> Iterator[Panel]:
    settings = result.get("settings")
    for setting in settings if isinstance(settings, list) else ():
        grouped: dict[str, list[Mapping[str, float]]] = {}
        for point in setting["points"]:
            grouped.setdefault(point["series"], []).append(point)
        drawn = [_curve(name, [p["epsilon"] for p in points], points, "error") for name, points in grouped.items()]
        yield Panel(setting["name"], "epsilon (log scale; more private to the left)", "test error", tuple(drawn))


def _rajkumar(result: Mapping[str, Any]) -> Iterator[Panel]:
    grouped: dict[tuple[str, float, float], list[Mapping[str, Any]]] = {}
    for row in result.get("rows") or []:
        grouped.setdefault((row["panel"], row["lambda"], row["epsilon"]), []).append(row)
    for (panel, lam, epsilon), rows in grouped.items():
        methods = [name for name, value in rows[0].items() if isinstance(value, dict)]
        drawn = [_curve(name, [row["place"] for row in rows], [row[name] for row in rows]) for name in methods]
        label, note = "parties", ""
        if panel != "parties":
            label, note = "skew of the parties' sizes, from even", _skews(result)
        title = f"lambda = {lam:g}, epsilon = {epsilon:g}, {panel}"
        yield Panel(title, label, "test error", tuple(drawn), log=False, note=note)


def _skews(result: Mapping[str, Any]) -> str:
    settings = result.get("settings")
    vectors = settings.get("skews") if isinstance(settings, dict) else None
    told = [f"{place}: {', '.join(f'{part:g}' for part in vector)}" for place, vector in enumerate(vectors or [], 1)]
    return f"Each party's share of the records, {'; '.join(told)}" if told else ""
