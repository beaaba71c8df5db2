"""Who adds the noise, what it protects, who could learn what, what nobody checks: each sentence is here once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from psephos.results.base import Fact

if TYPE_CHECKING:
    from psephos.curator.ledger import Release
    from psephos.parties.noise import NoiseFrom

Opened = Literal["counts", "sum", "noisy"]
SAFE_BITS = 2048

SEEDED = "The noise was drawn from the seed. Whoever knows the seed can subtract it: nothing here is private."
DIFFERS = "The opened sums differ from those computed in the clear. Do not use this result."
DEALT = "a dealer made the key, and could read every ballot until it forgot it"
NO_DEALER = "there is none: the holders generate the key together; no machine ever has all of it"

PROVED = {
    "none": "nothing: everybody is assumed to follow the protocol",
    "knowledge": "its sender knows its content, so that a ballot made from others' ballots is refused; a lying party "
    "can make the sum wrong, and where an exact sum is opened, learn a bit of it",
    "valid": "its sender knows its content, and it holds one vote for each sample",
    "bounded": "its sender knows its content, every entry is in its range, and the vector is no longer than an honest "
    "one can be, with the noise that its sender adds",
}
"""What a ballot proves: of "valid" proofs, "valid" is of votes, and "bounded" of other vectors."""


def test_key_warning(key_bits: int) -> str:
    """Return a warning if the key is too short for security, otherwise ""; 0 is no key."""
    return f"A {key_bits}-bit key is a test key: it protects nothing." if 0 < key_bits < SAFE_BITS else ""


test_key_warning.__test__ = False  # type: ignore[attr-defined] # pytest would collect it by its name


def cost_text(release: Release) -> str:
    """Return the privacy parameters of a release: "epsilon 1, delta 1e-06"."""
    if release.epsilon is None:
        return release.said
    if release.epsilon == 0:
        return "epsilon 0: no party was asked"
    return f"epsilon {release.epsilon:g}" + (f", delta {release.delta:.3g}" if release.delta else "")


def attack_success(epsilon: float, delta: float) -> float:
    """Return the largest probability of a right guess which of two equally likely neighbours was the input.

    It is (e^epsilon + delta) / (1 + e^epsilon), which randomised response attains (Kairouz, Oh and Viswanath 2015, "The
    composition theorem for differential privacy", theorem 2.1).
    """
    odds = math.exp(min(epsilon, 700.0))
    return min(1.0, (odds + delta) / (1 + odds))


def attack_text(release: Release) -> str:
    """Return what epsilon and delta allow an attacker who guesses, to follow `cost_text`; "" where nobody was asked."""
    if not release.epsilon or release.delta is None:
        return ""
    right = attack_success(release.epsilon, release.delta)
    return (
        "; whoever knows all other rows, and finds two contents of what is protected equally likely, guesses the right "
        f"one in at most {right:.1%} of cases"
    )


def colluders_text(colluders: int, threshold: int, adders: NoiseFrom = "parties") -> str:
    """Describe the coalition that noise in shares withstands, with a warning if `threshold` - 1 holders are more."""
    one, several = ("key holder", "key holders") if adders == "holders" else ("party", "parties")
    if colluders == 0:
        text = f"0: epsilon holds only while no {one} tells another one its noise"
    else:
        who = f"any {one} that tells" if colluders == 1 else f"any {colluders} {several} that tell each other and"
        whose = "its" if colluders == 1 else "their"
        text = f"{colluders}: epsilon holds against {who} the curator {whose} noise"
    if colluders >= threshold - 1:
        return text
    return (
        f"{text}. WARNING: {threshold - 1} key holders, who cannot open a sum, together learn more than epsilon allows"
    )


@dataclass(frozen=True, kw_only=True)
class TrustModel:
    """What the statements about privacy and trust of a run or a study follow from.

    Attributes:
        noun: what is released: "classifier" or "prediction".
        opened: what the curator is given: vote "counts", an exact "sum", or a "noisy" sum.
        adders: who adds the noise to a noisy sum; otherwise the curator does.
        verifiable: whether everybody who reads the board can compute what is released.
        unit, persons, neighbours: what epsilon protects, as in `PrivacyUnit`; the column that names persons, or "".
        parties, shards: how many, and whether they are shards of one table, dealt at random.
        holders, threshold: number of key holders, and of those who open a sum; 0 without a key.
        colluders: how many colluding adders the noise withstands; None where the curator adds it.
        excluded: without a key, number of parties that together have no other party's shares.
        dealer: whether a dealer made the key.
        short_key: whether the key may be too short to protect anything.
        proved: what ballots prove, a key of `PROVED`.
    """

    noun: str
    opened: Opened
    adders: NoiseFrom = "parties"
    verifiable: bool = False
    unit: str
    persons: str = ""
    neighbours: str = "any"
    parties: int
    shards: bool = False
    holders: int
    threshold: int
    colluders: int | None
    excluded: int = 0
    dealer: bool = False
    short_key: bool = False
    proved: str = "none"

    @property
    def adder(self) -> str:
        """One of those who add the noise."""
        if self.opened != "noisy":
            return "curator"
        return "key holder" if self.adders == "holders" else "party"

    @property
    def all_adders(self) -> str:
        """Those who add the noise."""
        return {"curator": "the curator", "party": "the parties", "key holder": "the key holders"}[self.adder]


def unit_text(trust: TrustModel) -> str:
    """Return what the release may reveal no more of than epsilon says."""
    changed = {"any": "replaced, added or removed", "add-remove": "added or removed", "replace": "replaced"}
    one = "shard" if trust.shards else "party"
    dealt = (
        f"; the {trust.parties} shards of one table were dealt at random by whoever ran this: no institution, and no "
        "person with rows in several shards, is protected"
        if trust.shards
        else ""
    )
    if trust.persons:
        return (
            f"one person, as the column {trust.persons} names them, who is {changed[trust.neighbours]} with all rows "
            f"at one {one}; of a person at several it reveals more{dealt}"
        )
    if trust.unit == "record":
        return f"one row of one {one} that is {changed[trust.neighbours]}; of all its rows it reveals more{dealt}"
    return f"the rows of one shard{dealt}" if trust.shards else "all that one party holds"


def facts(trust: TrustModel) -> list[Fact]:
    """Return the rows about privacy and trust.

    Their topics: "unit", "noise", "colluders", "unverified" (what nobody else can check of the release), "learns" and
    "opens" (who learns what; the latter of coalitions that could have what one party sent), "proved", "unchecked".
    """
    rows = [Fact("unit", "unit", unit_text(trust)), Fact("noise", "noise", _noise(trust))]
    if trust.colluders is not None:
        text = colluders_text(trust.colluders, trust.threshold, trust.adders)
        rows.append(Fact("colluders", "colluders", text))
    if not trust.verifiable:
        rows.append(Fact("unverified", "", f"NOT VERIFIED: {_unverified(trust)}."))
    return [
        *rows,
        Fact("learns", "anybody", _public(trust)),
        Fact("learns", "the curator", _CURATOR[trust.opened].format(adders=trust.all_adders)),
        *(_with_key(trust) if trust.threshold else _without_key(trust)),
        Fact("proved", "each ballot proves", PROVED[trust.proved]),
        *(Fact("unchecked", "", text) for text in _unchecked(trust)),
    ]


_CURATOR = {
    "counts": "the exact count of votes for each sample and class (alpha), which no epsilon covers: do not publish it. "
    "Where a count is 0 or equals the number of ballots, it has every party's vote on that sample",
    "sum": "the exact sum of what the parties send, which no epsilon covers: do not publish it",
    "noisy": "the sum with all the noise of {adders} in it; no exact sum",
}
"""What the curator is given besides public values."""


def _noise(trust: TrustModel) -> str:
    if trust.opened != "noisy":
        return "the curator adds the noise after the sum is opened"
    before = "before anything is opened"
    if trust.adders == "holders":
        return f"every key holder adds its share of the noise, in an encrypted sum of its own, {before}"
    return f"every party adds its share of the noise to what it sends, {before}"


def _unverified(trust: TrustModel) -> str:
    if trust.opened != "noisy":
        return "the curator adds the noise, and nobody else can check that it does"
    return f"the sum is opened for the curator alone, and nobody else can check that the {trust.noun} follows from it"


def _public(trust: TrustModel) -> str:
    noisy = "the sum with all the noise in it, " if trust.verifiable else ""
    return (
        f"{noisy}the released {trust.noun}, who took part, and each ballot's size; of what one party sent, what "
        "epsilon allows"
    )


def _with_key(trust: TrustModel) -> list[Fact]:
    few, enough = f"{trust.threshold - 1} of the holders", f"{trust.threshold} of the holders"
    rows = [Fact("learns", few, "no honest party's ballot, together with the curator and any parties")]
    if trust.colluders is not None:
        adders = trust.all_adders.removeprefix("the ")
        withstood = "nothing more, together with the curator: the others' noise is enough"
        rows.append(Fact("learns", f"{trust.colluders} of the {adders}", withstood))
    everything = f"any of {trust.holders}, together: every ballot, and epsilon does not bind them"
    rows.append(Fact("opens", enough, everything))
    if trust.short_key:
        rows.append(Fact("opens", "whoever factors the key", "every ballot: the key may be too short to protect"))
    rest = "what the last one sent: they subtract their own from the "
    if trust.opened != "noisy":
        rows.append(Fact("opens", "all other parties", f"together with the curator, {rest}exact sum"))
    elif trust.adders == "holders":
        left = "sum; with the noise of those key holders in it that are not among them"
        rows.append(Fact("opens", "all other parties", rest + left))
    else:
        rows.append(Fact("opens", "all other parties", f"{rest}sum; with its own share of the noise in it"))
    return [*rows, Fact("learns", "a dealer", DEALT if trust.dealer else NO_DEALER)]


def _without_key(trust: TrustModel) -> list[Fact]:
    return [
        Fact(
            "learns",
            f"{trust.excluded} of the parties",
            "no other party's parameters, together with the curator",
        ),
        Fact("opens", "all other parties", "a party's parameters, with that party's own noise in them"),
    ]


def _unchecked(trust: TrustModel) -> list[str]:
    """Return what nobody checks, as noun phrases."""
    follow = {
        "none": ["that parties follow the protocol: ballots carried no proofs"],
        "knowledge": ["that what the parties send is valid: a ballot proves only that its sender knew its content"],
    }
    shares = [f"that each {trust.adder} added its share of the noise"] if trust.opened == "noisy" else []
    return [
        *follow.get(trust.proved, []),
        *shares,
        "the parties' data: wrong labels, or labels chosen to mislead, went in as they were",
        f"how good or how fair the {trust.noun} is on other people's data, or on any group of them",
        "traffic, timing and memory of the machines",
    ]
