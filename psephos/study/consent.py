"""The description of a study that a member reads before it signs."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill, wrap

from psephos.curator.ledger import costs_together
from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.study.study import Study
from psephos.results.base import Fact
from psephos.results.trust import TrustModel, facts
from psephos.specs.registry import coalition_of, is_verifiable, noise_from, protected_by, spec_class
from psephos.specs.rows import stated_releases
from psephos.study.identity import Identity, fingerprint, fingerprint_words
from psephos.study.samples import CONSTANT, map_of

_WIDTH = 80
_LABEL_WIDTH = 24

_SHOWN_OTHERWISE = ("classifier", "coordinates", "map", "offset", "released")
"""Parameters that the table of the description leaves out: what is long, and the cost of an evaluated model."""


def contribution(study: Study) -> str:
    """Return one sentence about what each party sends."""
    return spec_class(study.protocol).contribution(study)


def released_noun(study: Study) -> str:
    """Return what is released, as a noun."""
    return "prediction" if study.predicts_number else "classifier"


def trust_of(study: Study) -> TrustModel:
    """Return what the statements about privacy and trust of a study follow from."""
    protected, opened = protected_by(study), spec_class(study.protocol).opens
    return TrustModel(
        noun=released_noun(study),
        opened=opened,
        adders=noise_from(study),
        verifiable=is_verifiable(study),
        unit=protected.kind,
        persons=protected.of,
        neighbours=protected.neighbours,
        parties=len(study.parties),
        holders=len(study.holders) if study.uses_key else 0,
        threshold=study.threshold if study.uses_key else 0,
        colluders=coalition_of(study),
        excluded=int(study.parameters.get("excluded", 1)),
        short_key=study.trial,
        proved="bounded" if study.proofs == "valid" and opened != "counts" else study.proofs,
    )


def use_of_samples(study: Study) -> str:
    """Return what the public samples are used for, as a verb phrase."""
    if study.parameters.get("labelled"):
        label = "number" if study.predicts_number else "class"
        return f"define how columns become numbers, and those with a {label} give a public model"
    return spec_class(study.protocol).samples_are.get(study.method, "define how columns become numbers")


def describe_study(study: Study, identity: Identity | None = None) -> str:
    """Return what the members agree to by signing, who could learn what, and what it costs, in 80 columns.

    For an `identity`, its roles and its privacy budget are added; raises StudyError if it is not in the study.
    """
    rows = facts(trust_of(study))
    learned = [fact for fact in rows if fact.topic in ("learns", "opens")]
    parameters = [
        Fact("parameter", name, str(value))
        for name, value in sorted(study.parameters.items())
        if name not in _SHOWN_OTHERWISE
    ]
    sections = [
        _heading(study),
        _participants(study),
        _section("What is computed", _computation(study, rows)),
        _section("What it costs each party", _cost(study, rows, identity)),
        _table("Who could learn what", learned),
        _table("Procedure", _procedure(study, rows)),
        *([_table("Parameters", parameters)] if parameters else []),
    ]
    return "\n\n".join(sections) + "\n"


def _section(title: str, paragraphs: Sequence[str]) -> str:
    lines = [
        fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False) for text in paragraphs
    ]
    return "\n".join([title, *lines])


def _table(title: str, rows: Sequence[Fact]) -> str:
    """Return rows of a label and a text; the lines of a long text are aligned."""
    lines, indent = [title], " " * (_LABEL_WIDTH + 4)
    for row in rows:
        # A fingerprint is compared and copied as one word.
        wrapped = wrap(row.value, _WIDTH - len(indent), break_long_words=False, break_on_hyphens=False)
        first, *rest = wrapped or [""]
        lines.append(f"  {row.label:<{_LABEL_WIDTH}}  {first}")
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


def features_text(study: Study) -> str:
    """Return in what a study's release is linear."""
    stated = map_of(study)
    if stated is None:
        return "linear in the encoded columns"
    return (
        f"linear in the encoded columns and {stated.summary} (a public map, {stated.digest.hex()[:16]}, of "
        f"{len(stated.encoded):,} bytes)"
    )


def _computation(study: Study, rows: Sequence[Fact]) -> list[str]:
    planned = (
        "The study states the public model and the plan of the step. `psephos verify` computes both again from the "
        "public samples; agents do not."
    )
    columns = sum(name != CONSTANT for name in study.features)
    noise = "; ".join(fact.value for fact in rows if fact.topic in ("noise", "unverified"))
    return [
        f"One {released_noun(study)} of {study.label or 'the classes'} "
        f"({', '.join(study.classes) or 'a number, within the range of the public ones'}), {features_text(study)}.",
        f"{study.samples} public samples of {columns} features ({study.public_table.hex()[:16]}) "
        f"{use_of_samples(study)}.",
        contribution(study),
        *([planned] if spec_class(study.protocol).checks_plan == "verify" else []),
        f"The sum is computed {'under encryption' if study.uses_key else 'from random shares'}; {noise}",
    ]


def _cost(study: Study, rows: Sequence[Fact], identity: Identity | None) -> list[str]:
    unit, *colluders = [fact for fact in rows if fact.topic in ("unit", "colluders")]
    paragraphs = [
        f"epsilon {study.epsilon:g}, delta {stated_delta(study.delta):.3g}, which bound what the release reveals of "
        f"{unit.value}.",
        model_cost_text(study),
        *(f"colluders {fact.value}." for fact in colluders),
    ]
    return [text for text in paragraphs if text] + ([] if identity is None else _own_cost(study, identity))


def model_cost_text(study: Study) -> str:
    """Return a sentence about the privacy cost of the model that a study evaluates; "" where it evaluates none."""
    if not spec_class(study.protocol).evaluates:
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
        limit, (before, _), (after, delta) = identity.limit(), identity.spent(), identity.spent(study)
        budget = "no budget is set" if limit is None else f"the budget is {limit.epsilon:g}"
        paragraphs.append(
            f"Your studies, and what else is charged with them, have cost epsilon {before:.6g} so far; with this one "
            f"{after:.6g}, at a delta of {delta:.3g}; {budget}."
        )
        if not spec_class(study.protocol).joint and (others := identity.exact_sums(study)):
            paragraphs.append(
                f"The exact sum of study {', '.join(map(fingerprint, others))} has what you sent, too. Where votes or "
                "parameters are nearly the same, also with other samples or columns, whoever sees both sums can learn "
                "yours from their difference, if the other parties are the same."
            )
    return paragraphs


def _procedure(study: Study, rows: Sequence[Fact]) -> list[Fact]:
    if not study.uses_key:
        shares = "none; each party's parameters are split into random shares, one for each of the other parties"
        until = f"all {len(study.parties)} until the end, or there is no result"
        return [Fact("procedure", "key", shares), Fact("procedure", "parties", until)]
    holders = len(study.holders)
    closing = f"when all have voted,{' at ' + study.closes if study.closes else ''} or when the curator closes the vote"
    if study.is_series:
        closing = "of a step, when all have answered it"
    (proved,) = (fact.value for fact in rows if fact.topic == "proved")
    absent = holders - study.confirmations
    key = (
        f"{study.key_bits} bits; all {holders} holders generate it; {study.threshold} open a sum; "
        f"{study.confirmations} must confirm what is opened, so {f'at most {absent}' if absent else 'none'} may be "
        "absent at that time"
    )
    least = f"at least {study.minimum_ballots} of {len(study.parties)}, or nothing is opened"
    return [
        Fact("procedure", "key", key),
        Fact("procedure", "ballots", f"{least}; each proves that {proved}"),
        Fact("procedure", "end", f"{closing}; then the curator waits {study.patience} s for answers"),
    ]
