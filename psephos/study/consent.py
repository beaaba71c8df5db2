"""The description of a study that a member reads before it signs."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill, wrap

from psephos.curator.ledger import costs_together
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.study.study import Study
from psephos.results.runs import colluders_text
from psephos.specs.evaluation import stated_releases
from psephos.specs.registry import (
    SPECS,
    coalition_of,
    is_verifiable,
    noise_from,
    person_column,
    unit_of,
)
from psephos.study.identity import Identity, fingerprint, fingerprint_words

__all__ = ["contribution", "curator_view", "describe_study", "model_cost_text", "released_noun", "use_of_samples"]

_WIDTH = 80
_LABEL_WIDTH = 24

_CONTRIBUTIONS = {
    "own-data": "Each party sends the direction in which its own rows differ by class.",
    "avg": "Each party trains a classifier on its own rows and sends its parameters.",
    "newton": "Each party sends a sum over its own rows: the gradient of the loss at a public score, and a bound of "
    "its second derivative.",
    "pathak": "Each party trains a classifier on its own rows and sends its parameters.",
    "platt": "Each party scores its own rows with a public classifier, and counts them by score and class.",
    "psgd": "In each step, each party sends the gradient of its own rows' loss at a public point.",
    "rehearsed": "Each party sends one step from a public model towards its own rows, scaled to a bounded length.",
    "unchanged": "Each party compares a public prediction with its own rows' numbers, and sends sums or a mean of "
    "errors, and sums of labels, within public bounds.",
    "vote-directions": "Each party trains a classifier on its own rows, labels the samples with it, and sends the "
    "direction in which the labelled samples differ by class.",
    "whitened": "Each party sends the direction of a linear classifier that it trains on its own rows.",
}
_VOTES = "Each party trains a classifier on its own rows and votes with it on the samples."
_UNITS = {"party": "all that one party holds", "record": "one row of one party; of all its rows it reveals more"}
_PARTY_AVERAGE = (
    "Each party sends the average over its own rows of the gradient of the loss at a public score and of a bound of "
    "its second derivative, less a public vector, and clipped to a ball of a public radius."
)
_SHOWN_OTHERWISE = ("classifier", "coordinates", "offset", "released")
"""Parameters that the table of the description leaves out: long matrices, and the cost of an evaluated model."""
_PROOFS = {
    "knowledge": "its sender knows its content, so that a ballot made from others' ballots is refused; a lying party "
    "can make the sum wrong, and where an exact sum is opened, learn a bit of it",
    "valid": "its sender knows its content, and it holds one vote for each sample",
    "bounded": "its sender knows its content, every entry is in its range, and the vector is no longer than an honest "
    "one can be, with the noise that its sender adds",
}
"""What a ballot proves, by what `proved_of` returns."""


def contribution(study: Study) -> str:
    """Return one sentence about what each party sends."""
    if study.protocol == "regression" and unit_of(study) == "party":
        return _PARTY_AVERAGE
    return _CONTRIBUTIONS.get(study.method, _VOTES)


def released_noun(study: Study) -> str:
    """Return what is released, as a noun."""
    return "prediction" if study.predicts_number else "classifier"


def proved_of(study: Study) -> str:
    """Return what every ballot proves: "knowledge", "valid" for votes or "bounded" for other vectors."""
    return "bounded" if study.proofs == "valid" and study.protocol != "tally" else study.proofs


def use_of_samples(study: Study) -> str:
    """Return what the public samples are used for, as a verb phrase."""
    if study.parameters.get("labelled"):
        label = "number" if study.predicts_number else "class"
        return f"define how columns become numbers, and those with a {label} give a public model"
    if study.method == "vote-directions":
        return "are labelled by every party's classifier"
    return "define how columns become numbers" if study.method in _CONTRIBUTIONS else "are voted on"


def _unit(study: Study) -> str:
    """Return what the release may reveal no more of than epsilon says, as a noun phrase."""
    if study.protocol not in ("record", "regression", "evaluation") or unit_of(study) == "party":
        return _UNITS[unit_of(study)]
    if column := person_column(study):
        return (
            f"one person, as the column {column} names them, who is replaced, added or removed with all rows at one "
            "party; of a person at several parties it reveals more"
        )
    return "one row of one party that is replaced, added or removed; of all its rows it reveals more"


def curator_view(study: Study) -> str:
    """Return what the curator learns besides the release, as a noun phrase."""
    if study.protocol == "tally":
        return (
            "the exact count of votes for each sample and class, which no epsilon covers; where a count is 0 or "
            "equals the number of ballots, every party's vote on that sample"
        )
    if study.protocol == "average":
        return "the exact sum of what the parties send, which no epsilon covers"
    adders = "key holders" if noise_from(study) == "holders" else "parties"
    return f"the sum with all the {adders}' noise in it; no exact sum"


def describe_study(study: Study, identity: Identity | None = None) -> str:
    """Return what the members agree to by signing, who could learn what, and what it costs.

    Args:
        study: the study.
        identity: a member; its roles and its privacy budget are added.

    Returns:
        Text of several lines, of at most 80 columns unless a name is longer.

    Raises:
        StudyError: the identity is not in the study.
    """
    sections = [
        _heading(study),
        _participants(study),
        _section("What is computed", _computation(study)),
        _section("What it costs each party", _cost(study, identity)),
        _table("Who could learn what", _observers(study)),
        _table("Procedure", _procedure(study)),
    ]
    parameters = [
        (name, str(value)) for name, value in sorted(study.parameters.items()) if name not in _SHOWN_OTHERWISE
    ]
    if parameters:
        sections.append(_table("Parameters", parameters))
    return "\n\n".join(sections) + "\n"


def _section(title: str, paragraphs: Sequence[str]) -> str:
    lines = [fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ") for text in paragraphs]
    return "\n".join([title, *lines])


def _table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return rows of a label and a text; the lines of a long text are aligned."""
    lines = [title]
    for label, text in rows:
        indent = " " * (_LABEL_WIDTH + 4)
        first, *rest = wrap(text, _WIDTH - len(indent), break_long_words=False) or [""]
        lines.append(f"  {label:<{_LABEL_WIDTH}}  {first}")
        lines += [indent + line for line in rest]
    return "\n".join(lines)


def _heading(study: Study) -> str:
    lines = [
        study.title,
        f"study {fingerprint(study.digest)}",
        fill(fingerprint_words(study.digest), _WIDTH, initial_indent="  ", subsequent_indent="  "),
        "All members must see the same digits, or words: compare them by telephone.",
    ]
    if study.trial:
        lines.append("A TRIAL: its key may be too short to protect anything.")
    return "\n".join(lines)


def _participants(study: Study) -> str:
    rows = [("curator", study.curator_name, fingerprint(study.curator.raw), "")]
    rows += [
        (f"party {number}", member.name, fingerprint(member.key.raw), f"holder {member.holder}" * bool(member.holder))
        for number, member in enumerate(study.parties)
    ]
    width = max(len(name) for _, name, _, _ in rows)
    lines = [f"  {role:<9} {name:<{width}}  {digits}  {holder}".rstrip() for role, name, digits, holder in rows]
    return "\n".join(["Who takes part", *lines])


def _computation(study: Study) -> list[str]:
    adder, noun = "key holder" if noise_from(study) == "holders" else "party", released_noun(study)
    noise = (
        f"Every {adder} adds its share of the noise; the sum with all the noise in it is opened for everybody."
        if is_verifiable(study)
        else f"Every {adder} adds its share of the noise; the sum with all the noise in it is opened for the curator "
        f"alone. NOT VERIFIED: nobody else can check that the {noun} follows from it."
        if SPECS[study.protocol].joint
        else "The curator sees the exact sum, adds noise, and releases a classifier. NOT VERIFIED: nobody else can "
        "check that it adds the noise."
    )
    planned = []
    if study.protocol == "rehearsed":
        planned = [
            "The study states the public model and the plan of the step. `psephos verify` computes both again from the "
            "public samples; agents do not."
        ]
    return [
        f"One linear {noun} of {study.label or 'the classes'} "
        f"({', '.join(study.classes) or 'a number, within the range of the public ones'}).",
        f"{study.samples} public samples of {len(study.features)} features ({study.public_table.hex()[:16]}) "
        f"{use_of_samples(study)}.",
        contribution(study),
        *planned,
        f"The sum is computed {'under encryption' if study.uses_key else 'from random shares'}. {noise}",
    ]


def _cost(study: Study, identity: Identity | None) -> list[str]:
    coalition = coalition_of(study)
    paragraphs = [
        f"epsilon {study.epsilon:g}, delta {stated_delta(study.delta):.3g}, which bound what the release reveals of "
        f"{_unit(study)}."
    ]
    if text := model_cost_text(study):
        paragraphs.append(text)
    if coalition is not None:
        paragraphs.append(f"colluders {colluders_text(coalition, study.threshold, noise_from(study))}.")
    if identity is not None:
        paragraphs += _own_cost(study, identity)
    return paragraphs


def model_cost_text(study: Study) -> str:
    """Return a sentence about the privacy cost of the model that a study evaluates; "" where it evaluates none."""
    if study.protocol != "evaluation":
        return ""
    model = f"The {released_noun(study)} that is evaluated"
    if not (releases := stated_releases(study)):
        return f"{model} has a cost of its own, which the study does not state."
    costs = "; ".join(map(str, costs_together(releases))) or "no party was asked"
    return f"{model} has cost, as the study states it: {costs}."


def _own_cost(study: Study, identity: Identity) -> list[str]:
    roles = study.roles_of(identity.key.verification_key)
    paragraphs = [f"You, {identity.card.name}, would be {' and '.join(roles)}."]
    if any(role.startswith("party") for role in roles):
        limit, before, after = identity.limit(), identity.spent(), identity.spent(study)
        budget = "no budget is set" if limit is None else f"the budget is {limit:g}"
        paragraphs.append(
            f"Your studies have cost epsilon {before:.6g} so far; with this one {after:.6g}; {budget}. These are "
            "added up at the budget's own delta, 1e-5."
        )
        if not SPECS[study.protocol].joint and (others := identity.exact_sums(study)):
            paragraphs.append(
                f"The exact sum of study {', '.join(map(fingerprint, others))} has what you sent, too. Where votes or "
                "parameters are nearly the same, also with other samples or columns, whoever sees both sums can learn "
                "yours from their difference, if the other parties are the same."
            )
    return paragraphs


def _observers(study: Study) -> list[tuple[str, str]]:
    """Return pairs of an observer or a coalition, and what it could learn."""
    noisy_sum = "the sum with all the noise in it, " if study.sum_is_public else ""
    return [
        (
            "anybody",
            f"{noisy_sum}the released {released_noun(study)}, who took part; of what one party sent, what epsilon "
            "allows",
        ),
        ("the curator", curator_view(study)),
        *(_coalitions_with_key(study) if study.uses_key else _coalitions_without_key(study)),
    ]


def _coalitions_with_key(study: Study) -> list[tuple[str, str]]:
    rest = (
        f"from the sum, what epsilon allows while no more {noise_from(study)} collude than the noise is sized for"
        if SPECS[study.protocol].joint
        else "with all parties but one, they subtract their own from the exact sum, and have the last one's"
    )
    rows = [
        (
            f"{study.threshold - 1} of the holders",
            f"no honest party's ballot, together with the curator and any parties; {rest}",
        )
    ]
    if "colluders" in SPECS[study.protocol].parameters:
        rows.append(
            (
                f"{coalition_of(study)} of the {noise_from(study)}",
                "nothing more, together with the curator: the others' noise is enough",
            )
        )
    return [
        *rows,
        (f"{study.threshold} of the holders", "all that was sent, if they break the rules together"),
        ("a dealer", "there is none: the holders generate the key together; no machine ever has all of it"),
    ]


def _coalitions_without_key(study: Study) -> list[tuple[str, str]]:
    excluded = study.parameters.get("excluded", 1)
    return [
        (f"{excluded} of the parties", "no other party's parameters, together with the curator"),
        ("all others together", "a party's parameters, with that party's own noise in them"),
    ]


def _procedure(study: Study) -> list[tuple[str, str]]:
    if not study.uses_key:
        return [
            (
                "key",
                "none; each party's parameters are split into random shares, one for each of the other parties",
            ),
            ("parties", f"all {len(study.parties)} until the end, or there is no result"),
        ]
    holders = len(study.holders)
    closing = f"when all have voted,{' at ' + study.closes if study.closes else ''} or when the curator closes the vote"
    if study.protocol == "psgd":
        closing = "of a step, when all have answered it"
    return [
        (
            "key",
            f"{study.key_bits} bits; all {holders} holders generate it; {study.threshold} open a sum; "
            f"{study.confirmations} must confirm what is opened, so at most {holders - study.confirmations} may be "
            "absent at that time",
        ),
        (
            "ballots",
            f"at least {study.minimum_ballots} of {len(study.parties)}, or nothing is opened; each proves that "
            f"{_PROOFS[proved_of(study)]}",
        ),
        ("end", f"{closing}; then the curator waits {study.patience} s for answers"),
    ]
