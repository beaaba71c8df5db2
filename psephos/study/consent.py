"""What a study says, in words: what somebody is about to sign."""

from __future__ import annotations

from psephos.protocol.privacy.accounting import stated_delta
from psephos.protocol.study.study import Study
from psephos.results.runs import colluders_text
from psephos.specs.registry import SPECS, coalition_of, unit_of
from psephos.study.identity import Identity, fingerprint

__all__ = ["described", "seen_by_curator", "serve"]

_BRINGS = {
    "own-data": "Each party gives the direction in which its own rows differ by class.",
    "avg": "Each party trains a classifier on its own rows and gives its parameters.",
    "pathak": "Each party trains a classifier on its own rows and gives its parameters.",
    "psgd": "Each party gives, step by step, the gradient of its own rows' loss at a public point.",
    "whitened": "Each party gives the direction of a linear classifier that it trains on its own rows.",
}
_VOTES = "Each party trains a classifier on its own rows and votes with it on the samples."
_OPENED = {
    False: "The curator sees the sum, adds noise, and releases.",
    True: "Every party adds its share of the noise; the sum with all the noise in it is opened for everybody.",
}
_CURATOR = {
    "tally": "the exact count of votes for each sample and class, which no epsilon covers; where a count is 0 or that "
    "of all ballots, everybody's vote on that sample",
    "average": "the exact sum of what the parties give, which no epsilon covers",
}
_BREAK, _INDENTED = "where a count", "where a\n                          count"
_SUM = "the sum with all the parties' noise in it; no exact sum"
_UNIT = {"party": "all that one party holds", "record": "one row of one party; of all its rows it reveals more"}
_PROOFS = {
    "knowledge": "that its sender knows what is in it, so that a ballot made of others' ballots is refused",
    "valid": "that it holds one vote for each sample, and that its sender knows what is in it",
}


def serve(study: Study) -> str:
    """What the public samples do in it."""
    return "say how columns become numbers" if study.method in _BRINGS else "are voted on"


def seen_by_curator(study: Study) -> str:
    """Return what the curator learns besides the release, as a noun phrase."""
    return _CURATOR.get(study.protocol, _SUM)


def described(study: Study, identity: Identity | None = None) -> str:
    """What the members agree to by signing, who could learn what, and what it costs the `identity`, where one asks.

    Raises StudyError for an identity that is not in the study.
    """
    joint, coalition = SPECS[study.protocol].joint, coalition_of(study)
    width = max(len(name) for name in (study.curator_name, *(member.name for member in study.parties)))
    lines = [
        study.title,
        f"study {fingerprint(study.digest)}: everybody must see the same digits",
        *(["A TRIAL: its key may be too short to protect anything."] if study.trial else []),
        "",
        "Who takes part",
        f"  curator   {study.curator_name:<{width}}   {fingerprint(study.curator.raw)}",
        *(
            f"  party {number}   {member.name:<{width}}   {fingerprint(member.key.raw)}"
            + (f"   also key holder {member.holder}" if member.holder else "")
            for number, member in enumerate(study.parties)
        ),
        "",
        "What is computed",
        f"  One linear classifier of {study.label or 'the classes'} ({', '.join(study.classes)}).",
        f"  {study.samples} public samples of {len(study.features)} features ({study.auxiliary.hex()[:16]}) "
        f"{serve(study)}.",
        f"  {_BRINGS.get(study.method, _VOTES)}",
        f"  These are added up {'under encryption' if study.uses_key else 'in random shares'}. {_OPENED[joint]}",
        "",
        "What it costs each party",
        f"  epsilon {study.epsilon:g}, delta {stated_delta(study.delta):.3g}, which bound what the release reveals of "
        f"{_UNIT[unit_of(study)]}.",
        *([] if coalition is None else [f"  colluders {colluders_text(coalition, study.threshold)}."]),
        *(_own(study, identity) if identity is not None else []),
        "",
        "Who could learn what",
        f"  anybody                 {_anybody(study)}",
        f"  the curator             {seen_by_curator(study).replace(_BREAK, _INDENTED)}",
        *(_keyed(study) if study.uses_key else _unkeyed(study)),
        *(f"  {name}  {value}" for name, value in sorted(study.parameters.items()) if name != "coordinates"),
    ]
    return "\n".join(lines) + "\n"


def _anybody(study: Study) -> str:
    """What a reader of the board learns."""
    noisy = "the sum with all the noise in it, " if study.public or study.protocol in ("psgd", "pathak") else ""
    return f"{noisy}the released classifier, who took part; of what one party gave, what epsilon allows"


def _last(study: Study) -> str:
    """What a coalition of the curator and many parties can do with the opened sum."""
    if SPECS[study.protocol].joint:
        return "the noise is whole for as many colluding parties as it is sized for"
    return "with all parties but one they take their own from the exact sum, and have the last one's"


def _keyed(study: Study) -> list[str]:
    safe, holders, least = study.ceremony().tolerated, len(study.holders), study.threshold
    noise = []
    if "colluders" in SPECS[study.protocol].parameters:
        who = f"  {coalition_of(study)} of the parties        "
        noise = [f"{who}nothing more, together with the curator: the others' noise is enough"]
    end = f"when all have voted,{' at ' + study.closes if study.closes else ''} or when the curator ends it"
    if study.protocol == "psgd":
        end = "of a step, when all have answered it"
    return [
        f"  {safe} of the holders        no honest party's ballot, together with the curator and any parties;",
        f"                          {_last(study)}",
        *noise,
        f"  {safe + 1} of the holders        all that was sent, if they break the rules while the key is made,",
        f"                          or {least} later",
        "  dealer                  there is none: the holders make the key among themselves; no machine has it whole",
        "",
        "How it goes",
        f"  key      {study.key_bits} bits; {holders} holders make it, all of them; {least} open a sum; "
        f"{study.confirmations} must confirm what is opened,",
        f"           so at most {holders - study.confirmations} may be absent at that time",
        f"  ballots  at least {study.minimum_ballots} of {len(study.parties)}, or nothing is opened; each proves",
        f"           {_PROOFS[study.proofs]}",
        f"  the end  {end};",
        f"           then answers are waited for {study.patience} s",
    ]


def _unkeyed(study: Study) -> list[str]:
    excluded = study.parameters.get("excluded", 1)
    return [
        f"  {excluded} of the parties        no other party's parameters, together with the curator",
        "  all others together     a party's parameters, with that party's own noise in them",
        "",
        "How it goes",
        "  key      none is made: each party's parameters are cut into random shares, one for each of the others",
        f"  parties  all {len(study.parties)}, to the end, or there is no result",
    ]


def _own(study: Study, identity: Identity) -> list[str]:
    roles = study.roles_of(identity.key.verification_key)
    said = [f"  You, {identity.card.name}, would be {' and '.join(roles)}."]
    if any(role.startswith("party") for role in roles):
        limit, before, after = identity.limit(), identity.spent(), identity.spent(study)
        bound = "no budget is set" if limit is None else f"the budget is {limit:g}"
        said.append(
            f"  Your studies have cost epsilon {before:.6g} so far; with this one {after:.6g}; {bound}. These are "
            "added up at the budget's own delta, 1e-5."
        )
    return said
