"""The model card: what a reader of a released classifier has to know. It contains public values only.

The accuracy on held-out rows is not in it: those rows are private, and no epsilon covers what was measured on them.
"""

from __future__ import annotations

from psephos.data.splits import Split
from psephos.model import Model, RegressionModel
from psephos.results import RegressionResult, TallyResult
from psephos.results.budget import budget_text
from psephos.results.runs import colluders_text, cost_text

__all__ = ["model_card", "regression_card"]

_OPENED = {
    "counts": "the exact number of votes for each class on each public row (alpha). Where a count is 0 or that of all "
    "ballots, this is every party's vote on that row; with all parties but one the curator has the last one's votes. "
    "alpha is not private: do not publish it",
    "sum": "the exact sum of the parties' parameters, each projected on a public ball; with all parties but one the "
    "last one's. It is not private: do not publish it",
    "statistic": "the sum with the noise in it, from which the classifier is computed; no exact sum",
}
"""Description of the values that the curator gets besides public ones."""


def model_card(model: Model, result: TallyResult, split: Split, right: float | None) -> str:
    """Return the card of a model as Markdown.

    Args:
        model: the released classifier.
        result: result of the run that released it.
        split: split of the run's data.
        right: share of the labelled public rows that the classifier gets right; None if there are none.
    """
    release, own, shards = model.release, split.encoding is not None, result.parties_are == "shards"
    everybody = f"what epsilon allows them to say about any one {_one(model, shards=shards)}" + (
        "" if shards else "; who took part, and each ballot's size"
    )
    if not result.asked:
        everybody = "nothing about any party"
    source = "the operating system" if result.noise_source == "system" else "a SEED, by which it can be taken off"
    noise_from, joint = "curator", []
    if result.colluders is not None:
        noise_from = "key holders" if result.noise_from == "holders" else "parties"
        joint = [("colluders", colluders_text(result.colluders, result.threshold, result.noise_from))]
    chosen = ", ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                       for name, value in release.chosen.items())  # fmt: skip
    parts = [
        f"# A private classifier from {result.dataset}",
        *(f"**{text}**" for text in model.warnings),
        f"A linear classifier of {len(model.encoding.features)} features with the classes {', '.join(model.classes)}, "
        f"learned from {_learned_from(result, shards=shards)} by Psephos. `psephos predict model.json FILE.csv` and "
        "`psephos.load_model` use it. Its scores rank classes; they are not probabilities.",
        "## Privacy",
        _table(
            ("method", model.method),
            ("epsilon", cost_text(release).removeprefix("epsilon ")),
            ("unit", _unit(model, result.parties, shards=shards)),
            ("noise", f"{release.mechanism}, added by the {noise_from}, from {source}" if result.asked else "none"),
            *joint,
            ("budget", _budget(result)),
            ("sensitivity", f"{release.sensitivity or 0:.4g} ({release.norm})"),
            ("its source", release.source),
            ("parameters, chosen by rules that use public values only", chosen),
            ("signal, from this release and public values alone", release.worth or "not computed"),
        ),
        "## Who could learn what",
        _table(
            ("everybody", "this classifier and card, and " + everybody),
            *_roles_learned(model, result),
            ("whoever ran this", "everything, since one machine played every role: all rows, all votes or vectors, "
             "all keys" + ("; result.json and reports have accuracies on private rows, and are not for publication"
             if result.own_rows else "")),
        ),
        "## How a row becomes numbers",
        _encoded_by(split),
        "Where there is a `model.onnx`, it takes these numbers and not the columns.",
        _table(*model.encoding.summary) if own else f"The features of {result.dataset} as they are published.",
        *(["\n".join(f"* {text}." for text in split.cautions)] if split.cautions else []),
        "## What was not checked",
        "\n".join(f"* {text}." for text in _unchecked(result, own)),
    ]  # fmt: skip
    if right is not None:
        parts += ["## What it is worth", f"It is right on {right:.1%} of the public rows, whose labels are public too."]
    return "\n\n".join(parts) + "\n"


def regression_card(model: RegressionModel, result: RegressionResult, split: Split) -> str:
    """Return the card of a model that predicts a number as Markdown.

    Args:
        model: the released model.
        result: result of the run that released it.
        split: split of the run's data.
    """
    release, shards = model.release, result.options.get("party") is None
    source = "the operating system" if result.noise_source == "system" else "a SEED, by which it can be taken off"
    protected = _unit(model, model.parties, shards=shards)
    allowed = f"what epsilon allows it to say about any one {_one(model, shards=shards)}"
    chosen = ", ".join(f"{name} {value}" for name, value in release.chosen.items())
    low, high = model.bounds
    unchecked = [
        "that parties follow the protocol: ballots carried no proofs",
        "the parties' data: wrong labels, or labels chosen to mislead, went in as they were",
        "that the public rows and their labels may be known",
        "how good or how fair it is on other people's data, or on any group of them",
        "traffic, timing and memory of the machines",
    ]
    parts = [
        f"# A private prediction of {model.label} from {result.dataset}",
        *(f"**{text}**" for text in model.warnings),
        f"A linear prediction of the number {model.label} from {len(model.encoding.features)} features, learned from "
        f"{model.parties} {'shards of one table' if shards else 'parties'} by Psephos. `psephos predict model.json "
        f"FILE.csv` and `psephos.load_model` use it. Predictions lie between {low:.4g} and {high:.4g}, the smallest "
        "and the largest public label; a feature far outside the range of the public rows counts as less far outside.",
        "## Privacy",
        _table(
            ("method", model.method),
            ("epsilon", cost_text(release).removeprefix("epsilon ")),
            ("unit", protected),
            ("noise", f"{release.mechanism}, added by the parties, from {source}"),
            ("colluders", colluders_text(result.colluders, result.threshold)),
            ("budget", _budget(result)),
            ("sensitivity", f"{release.sensitivity or 0:.4g} ({release.norm})"),
            ("its source", release.source),
            ("parameters, chosen by rules that use public values only", chosen),
        ),
        "## Who could learn what",
        _table(
            ("everybody", f"this model and card, and {allowed}; who took part, and each ballot's size"),
            ("curator", _OPENED["statistic"].replace("classifier", "model")),
            ("key holders", f"up to {result.threshold - 1} together cannot open a ballot; {result.threshold} could"),
            ("whoever ran this", "everything, since one machine played every role; result.json and reports have errors "
             "on private rows, and are not for publication"),
        ),
        "## How a row becomes numbers",
        _encoded_by(split),
        _table(*model.encoding.summary),
        *(["\n".join(f"* {text}." for text in split.cautions)] if split.cautions else []),
        "## What was not checked",
        "\n".join(f"* {text}." for text in unchecked),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _budget(result: TallyResult | RegressionResult) -> str:
    """Describe the joint cost of the releases from the same rows, as far as the run knows it."""
    if result.budget is not None:
        return budget_text(result.budget)
    return "this release alone; another release from the same rows adds to what it has cost"


def _learned_from(result: TallyResult, *, shards: bool) -> str:
    """Describe whose rows a classifier was learned from."""
    who = f"{result.parties} {'shards of one table' if shards else 'parties'}"
    if result.asked:
        return who
    rows = f"{result.auxiliary} rows that are public"
    return f"{rows} alone (no private step was expected to improve it, so none of the {who} was asked for anything)"


def _roles_learned(model: Model, result: TallyResult) -> list[tuple[str, str]]:
    """Return pairs (role, what it could learn) for the curator, the key holders and a dealer."""
    if not result.asked:
        return [("curator", "the same: no party sent anything")]
    opened = "statistic" if result.reveal == "statistic" else "sum" if model.method == "avg" else "counts"
    rows = [
        ("curator", _OPENED[opened]),
        (
            "key holders",
            f"up to {result.threshold - 1} of {result.holders} together cannot open a ballot; {result.threshold} could "
            "open every one, and epsilon does not bind them",
        ),
    ]
    if result.options["keys"] == "dealer":
        rows.append(("dealer of the key", "could open every ballot, until it forgot the key"))
    return rows


def _encoded_by(split: Split) -> str:
    """Return a sentence that says which rows or schema determined the encoding and the scaling."""
    if split.schema == "samples":
        return f"Settled by a schema alone; the {len(split.auxiliary)} auxiliary samples were drawn from it."
    if split.encoding is None:
        return f"Scaled by {len(split.auxiliary)} rows of the published data set alone."
    if split.schema:
        return f"Settled by a schema, and scaled by {len(split.auxiliary)} rows that somebody named as public."
    return f"Settled by {len(split.auxiliary)} rows alone that somebody named as public."


def _one(model: Model | RegressionModel, *, shards: bool) -> str:
    """Return a noun for the unit of privacy: "person", "row", "shard" or "party"."""
    if "persons" in model.release.chosen:
        return "person"
    return "row" if model.release.unit == "record" else "shard" if shards else "party"


def _unit(model: Model | RegressionModel, parties: int, *, shards: bool) -> str:
    """Describe what epsilon protects."""
    if model.release.unit == "record":
        changed = (
            # models of version 0.2.0
            "added or removed"
            if model.release.chosen.get("neighbours") == "add-remove"
            else "replaced, added or removed"
        )
        if (persons := model.release.chosen.get("persons")) is not None:
            return (
                f"record: what is protected is one person, as the column {persons} names them, {changed} with all "
                f"rows at one of the {parties} {'shards' if shards else 'parties'}; a person known to several of "
                "them less, and what all persons of a party have in common not at all"
            )
        return (
            f"record: what is protected is one row, {changed}, of one of the {parties} "
            f"{'shards' if shards else 'parties'}; a person with several rows less, and what all rows of a party have "
            "in common not at all"
        )
    if not shards:
        return f"{model.release.unit}: what is protected is everything that one of the {parties} holds"
    return (
        f"{model.release.unit}, which here is a shard: the rows of one table were dealt at random into {parties} "
        "shards by whoever ran this. What is protected is the rows of one shard; no institution, and no person with "
        "rows in several shards"
    )


def _unchecked(result: TallyResult, own: bool) -> list[str]:
    """Return what the run did not check, as clauses; `own`: whether the rows are a user's own table."""
    followed = {
        "none": "that parties follow the protocol: ballots carried no proofs",
        "knowledge": "that votes are valid: ballots proved only that their senders knew what was in them",
        "valid": "that ballots are honest: they proved only that votes are valid, and other vectors within bounds",
    }
    about_parties = [
        followed[result.options["proofs"]],
        "the parties' data: wrong labels, or labels chosen to mislead, went in as they were",
    ]
    return [
        *(about_parties if result.asked else ["that the public rows belong to no protected party"]),
        *(["that the names of the classes may be known: whoever ran this said so"] if own else []),
        *(["that what settled the encoding and the auxiliary samples may be known"] if own else []),
        "how good or how fair it is on other people's data, or on any group of them",
        "traffic, timing and memory of the machines",
    ]


def _table(*rows: tuple[str, str]) -> str:
    cells = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(["| | |", "| --- | --- |", *cells])
