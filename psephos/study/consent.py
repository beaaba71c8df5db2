"""The description of a study that a member reads before it signs."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill, wrap

from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.study.study import Study
from psephos.results.runs import colluders_text
from psephos.specs.registry import SPECS, coalition_of, is_verifiable, unit_of
from psephos.study.identity import Identity, fingerprint, fingerprint_words

__all__ = ["curator_view", "describe_study", "use_of_samples"]

_WIDTH = 80
_LABEL_WIDTH = 24

_CONTRIBUTIONS = {
    "own-data": "Each party sends the direction in which its own rows differ by class.",
    "avg": "Each party trains a classifier on its own rows and sends its parameters.",
    "pathak": "Each party trains a classifier on its own rows and sends its parameters.",
    "psgd": "In each step, each party sends the gradient of its own rows' loss at a public point.",
    "whitened": "Each party sends the direction of a linear classifier that it trains on its own rows.",
}
_VOTES = "Each party trains a classifier on its own rows and votes with it on the samples."
_UNITS = {"party": "all that one party holds", "record": "one row of one party; of all its rows it reveals more"}
_PROOFS = {
    "knowledge": "its sender knows its content, so that a ballot made from others' ballots is refused",
    "valid": "it holds one vote for each sample, and its sender knows its content",
}


def use_of_samples(study: Study) -> str:
    """Return what the public samples are used for, as a verb phrase."""
    return "define how columns become numbers" if study.method in _CONTRIBUTIONS else "are voted on"


def curator_view(study: Study) -> str:
    """Return what the curator learns besides the release, as a noun phrase."""
    if study.protocol == "tally":
        return (
            "the exact count of votes for each sample and class, which no epsilon covers; where a count is 0 or "
            "equals the number of ballots, every party's vote on that sample"
        )
    if study.protocol == "average":
        return "the exact sum of what the parties send, which no epsilon covers"
    return "the sum with all the parties' noise in it; no exact sum"


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
    parameters = [(name, str(value)) for name, value in sorted(study.parameters.items()) if name != "coordinates"]
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
    noise = (
        "Every party adds its share of the noise; the sum with all the noise in it is opened for everybody."
        if is_verifiable(study)
        else "Every party adds its share of the noise; the sum with all the noise in it is opened for the curator "
        "alone. NOT VERIFIED: nobody else can check that the classifier follows from it."
        if SPECS[study.protocol].joint
        else "The curator sees the exact sum, adds noise, and releases a classifier. NOT VERIFIED: nobody else can "
        "check that it adds the noise."
    )
    return [
        f"One linear classifier of {study.label or 'the classes'} ({', '.join(study.classes)}).",
        f"{study.samples} public samples of {len(study.features)} features ({study.auxiliary.hex()[:16]}) "
        f"{use_of_samples(study)}.",
        _CONTRIBUTIONS.get(study.method, _VOTES),
        f"The sum is computed {'under encryption' if study.uses_key else 'from random shares'}. {noise}",
    ]


def _cost(study: Study, identity: Identity | None) -> list[str]:
    coalition = coalition_of(study)
    paragraphs = [
        f"epsilon {study.epsilon:g}, delta {stated_delta(study.delta):.3g}, which bound what the release reveals of "
        f"{_UNITS[unit_of(study)]}."
    ]
    if coalition is not None:
        paragraphs.append(f"colluders {colluders_text(coalition, study.threshold)}.")
    if identity is not None:
        paragraphs += _own_cost(study, identity)
    return paragraphs


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
    return paragraphs


def _observers(study: Study) -> list[tuple[str, str]]:
    """Return pairs of an observer or a coalition, and what it could learn."""
    noisy_sum = "the sum with all the noise in it, " if study.public or study.protocol in ("psgd", "pathak") else ""
    return [
        (
            "anybody",
            f"{noisy_sum}the released classifier, who took part; of what one party sent, what epsilon allows",
        ),
        ("the curator", curator_view(study)),
        *(_coalitions_with_key(study) if study.uses_key else _coalitions_without_key(study)),
    ]


def _coalitions_with_key(study: Study) -> list[tuple[str, str]]:
    tolerated = study.ceremony().tolerated
    rest = (
        "from the sum, what epsilon allows while no more parties collude than the noise is sized for"
        if SPECS[study.protocol].joint
        else "with all parties but one, they subtract their own from the exact sum, and have the last one's"
    )
    rows = [
        (
            f"{tolerated} of the holders",
            f"no honest party's ballot, together with the curator and any parties; {rest}",
        )
    ]
    if "colluders" in SPECS[study.protocol].parameters:
        rows.append(
            (
                f"{coalition_of(study)} of the parties",
                "nothing more, together with the curator: the others' noise is enough",
            )
        )
    return [
        *rows,
        (
            f"{tolerated + 1} of the holders",
            "all that was sent, if they break the rules during the key generation, or "
            f"{study.threshold} of them afterwards",
        ),
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
            f"{_PROOFS[study.proofs]}",
        ),
        ("end", f"{closing}; then the curator waits {study.patience} s for answers"),
    ]
