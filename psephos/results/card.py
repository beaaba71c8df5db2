"""Model cards: what a reader of a released model has to know, in public values: no accuracy on held-out rows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from psephos.data.splits import Split
from psephos.data.tables import Encoding
from psephos.model import Model, RegressionModel, written_model
from psephos.results.base import Fact
from psephos.results.budget import budget_text
from psephos.results.runs import TallyResult
from psephos.results.scores import RegressionResult
from psephos.results.trust import attack_text, cost_text, facts

_MOST_RELIANCE = 20  # columns that are listed
_NAMED = "that the public rows, their labels and the names of the classes may be known: whoever ran this said so."


def markdown(text: str) -> str:
    """Escape the characters of a text that would be markup, or end a cell of a table, in Markdown."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", text).replace("\n", " ")


def card_text(
    title: str, model: Model | RegressionModel, sections: Sequence[tuple[str, Sequence[str] | Sequence[Fact]]]
) -> str:
    """Return a card as Markdown, of sections: a heading ("" for none), and paragraphs or rows of a table.

    In front stand the fields in YAML by which Hugging Face's hub lists a model.
    """
    task = "classification" if isinstance(model, Model) else "regression"
    front = f"---\nlibrary_name: psephos\npipeline_tag: tabular-{task}\n---"
    parts = [front, f"# {markdown(title)}", *(f"**{markdown(text)}**" for text in model.warnings)]
    for heading, content in sections:
        if content:
            rows = [each for each in content if isinstance(each, Fact)]
            parts += [f"## {heading}"] if heading else []
            parts += [markdown(text) for text in content if isinstance(text, str)]
            parts += [_table(rows)] if rows else []
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Fact]) -> str:
    lines = [f"| {markdown(row.label)} | {markdown(str(row.value))} |" for row in rows]
    return "\n".join(["| | |", "| --- | --- |", *lines])


def privacy_rows(model: Model | RegressionModel, trust: Sequence[Fact], cost: str, budget: str) -> list[Fact]:
    """Return the rows of a card about privacy; `trust`: the facts of the run or study; `budget`: of all releases."""
    release = model.release
    chosen = ", ".join(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
                       for name, value in sorted(release.chosen.items()))  # fmt: skip
    noise = [Fact("noise", "noise", f"{release.mechanism}: {fact.value}") for fact in trust if fact.topic == "noise"]
    asked = release.epsilon != 0
    return [
        Fact("privacy", "method", model.method),
        Fact("privacy", "privacy", cost),
        *(fact for fact in trust if fact.topic == "unit"),
        *(noise if asked else [Fact("noise", "noise", "none: no party was asked")]),
        *(fact for fact in trust if fact.topic == "colluders"),
        Fact("privacy", "budget", budget),
        Fact("privacy", "sensitivity", f"{release.sensitivity or 0:.4g} ({release.norm}): {release.source}"),
        *([Fact("privacy", "parameters, chosen by rules that use public values only", chosen)] * bool(chosen)),
        *([Fact("privacy", "signal, from this release and public values alone", release.worth)] * bool(release.worth)),
    ]


def model_card(
    model: Model | RegressionModel, result: TallyResult | RegressionResult, split: Split, right: float | None = None
) -> str:
    """Return the card of a released model as Markdown; `right`: the share of public rows that it gets right."""
    trust, asked = facts(result.trust()), model.release.epsilon != 0
    budget = "this release alone; another release from the same rows adds to what it has cost"
    if result.budget is not None:
        budget = budget_text(result.budget)
    seeded = "" if result.noise_source == "system" else ", seeded: whoever has the seed can subtract the noise"
    learned = [fact for fact in trust if fact.topic in ("learns", "opens")]
    if not asked:
        learned = [Fact("learns", "anybody", f"the released {result.trust().noun}; no party sent anything")]
    everything = "everything, since one machine played every role: all rows, all ballots, all keys"
    if result.notice:
        everything += "; result.json and reports have numbers on private rows, and are not for publication"
    encoded = "Where there is a model.onnx, it takes these numbers and not the columns."
    worth = "" if right is None else f"It is right on {right:.1%} of the public rows, whose labels are public too."
    if worth and model.encoding.map is not None and model.encoding.map.grown:
        worth += " A row was judged without the trees that were grown on it."
    columns = [Fact("column", *row) for row in model.encoding.summary] if split.encoding is not None else []
    rows = "the samples drawn from the schema" if split.schema == "samples" else "the public rows"
    return card_text(
        f"A {'private ' * asked}{result.trust().noun} from {'public rows of ' * (not asked)}{result.dataset}",
        model,
        [
            ("", [_introduction(model, result)]),
            (
                "Privacy",
                privacy_rows(model, trust, cost_text(model.release) + (seeded or attack_text(model.release)), budget),
            ),
            ("Who did not follow the protocol", [each.fact for each in result.deviations]),
            ("Who could learn what", [*learned, Fact("learns", "whoever ran this", everything)]),
            ("How a row becomes numbers", [_encoded_by(split), encoded]),
            ("", columns),
            ("", _size_of(model)),
            (f"Which columns matter, when their values are permuted among {rows} alone", _reliance_rows(model, split)),
            ("", [f"{text}." for text in split.cautions]),
            ("What was not checked", [f"{fact.value}." for fact in trust if fact.topic == "unchecked" and asked]),
            ("", [_NAMED] * (split.encoding is not None)),
            ("What it is worth", [*getattr(result, "remarks", ()), *[worth] * bool(worth)]),
        ],
    )


def _introduction(model: Model | RegressionModel, result: TallyResult | RegressionResult) -> str:
    who = f"{result.parties} {'parties' if result.parties_are == 'owners' else 'shards of one table'}"
    if model.release.epsilon == 0:
        who = (
            f"{result.auxiliary} rows that are public alone (no gain of a private release was expected, so none of "
            f"the {who} was asked for anything)"
        )
    features = _features(model.encoding)
    use = f"learned from {who} by Psephos. psephos predict and psephos.load_model use it."
    if isinstance(model, Model):
        return (
            f"A linear classifier of {features} with the classes {', '.join(model.classes)}, {use} Its scores rank "
            "classes; they are not probabilities."
        )
    low, high = model.bounds
    return (
        f"A linear prediction of the number {model.label} from {features}, {use} Predictions lie between {low:.4g} and "
        f"{high:.4g}, the smallest and the largest public label; a feature far outside the range of the public rows "
        "counts as less far outside."
    )


def _features(encoding: Encoding) -> str:
    """Return of what a model is linear: where there is a map, this is not the columns of the table."""
    if encoding.map is None:
        return f"{len(encoding.features)} features"
    return (
        f"{len(encoding.features)} features, {len(encoding.inputs)} encoded columns and {encoding.map.summary} (so it "
        "is not linear in the columns alone)"
    )


def _size_of(model: Model | RegressionModel) -> list[str]:
    if model.encoding.map is None:
        return []
    digest = model.encoding.map.digest.hex()[:16]
    return [
        f"The map from columns to features ({digest}) is in the model file, of {len(written_model(model)):,} bytes."
    ]


def _reliance_rows(model: Model | RegressionModel, split: Split) -> list[Fact]:
    """Return how much a model that is not linear in the columns relies on each of them, the most important ones."""
    if model.encoding.map is None or split.inputs is None:
        return []
    from psephos.released import ReleasedClassifier, ReleasedRegressor, reliance  # scikit-learn takes most of a second

    released = ReleasedClassifier(model) if isinstance(model, Model) else ReleasedRegressor(model)
    shares, count = reliance(released, split.inputs)
    changes = "{:.1%} of {} rows change class" if isinstance(model, Model) else "{:.4g}, in the mean of {} rows"
    most = sorted(shares.items(), key=lambda one: -one[1])[:_MOST_RELIANCE]
    return [Fact("column", name, changes.format(share, count)) for name, share in most]


def _encoded_by(split: Split) -> str:
    """Return a sentence that says which rows or schema determined the encoding and the scaling."""
    rows = f"{len(split.auxiliary)} rows"
    if split.schema == "samples":
        return f"Settled by a schema alone; the {len(split.auxiliary)} auxiliary samples were drawn from it."
    if split.encoding is None:
        return f"The features of {split.dataset.name} as they are published, scaled by {rows} of it alone."
    if split.schema:
        return f"Settled by a schema, and scaled by {rows} that somebody named as public."
    return f"Settled by {rows} alone that somebody named as public."
