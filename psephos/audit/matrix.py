"""What each coalition is meant to learn in each audited protocol: the expected verdicts, as tables.

It imports no analysis, so that a report can show the verdicts without it. The checks are in the modules `case_*`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from psephos.specs.exact import HONEST_VOTE, OwnDataSpec, TallySpec, VectorSpec
from psephos.specs.noisy import StatisticSpec
from psephos.specs.pathak import BARE_SUM, PathakSpec
from psephos.specs.psgd import HONEST_GRADIENT, PsgdSpec
from psephos.specs.secrets import CULPRIT, KEY_SECRETS, OTHER_SUM, names_of

Verdict = Literal["hidden", "revealed by design", "LEAK"]
HIDDEN: Verdict = "hidden"
"""None of the checks of the secret found a leak."""
REVEALED: Verdict = "revealed by design"
"""The ideal functionality gives the secret to the coalition, or its members hold the keys to it: not a leak."""
LEAK: Verdict = "LEAK"
"""The coalition learned a secret that its ideal functionality does not give to it."""

OPENS = "outside the threat model: it can open every ballot"


@dataclass(frozen=True)
class Members:
    """The members of a coalition; whether they `opens` single ballots, and whether its parties are `lying`."""

    curator: bool = False
    parties: tuple[int, ...] = ()
    holders: tuple[int, ...] = ()
    opens: bool = False
    lying: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members in transcripts; one that opens ballots without shares of the key is the dealer."""
        numbered = [f"party {p}" for p in self.parties] + [f"holder {h}" for h in self.holders]
        return (*["curator"] * self.curator, *numbered, *["dealer"] * (self.opens and not self.holders))


HONEST = Members()
"""No coalition: every role follows the protocol."""


@dataclass(frozen=True)
class Coalition:
    """Roles that pool their views.

    `granted` says why the ideal functionality gives a secret to the coalition as well, `known_leaks` why one leaks
    although the paper says that it does not.
    """

    name: str
    members: tuple[str, ...]
    granted: dict[str, str] = field(default_factory=dict)
    known_leaks: dict[str, str] = field(default_factory=dict)

    def expected(self, secret: str) -> Verdict:
        """Return the verdict that the cell of a secret should have."""
        if secret in self.granted:
            return REVEALED
        return LEAK if secret in self.known_leaks else HIDDEN


class Expected(NamedTuple):
    """The expected matrix of one case: its name, the names of its secrets, and its coalitions."""

    name: str
    secrets: tuple[str, ...]
    coalitions: tuple[Coalition, ...]


Granted = Callable[[Members], dict[str, str]]
"""(members) -> name of a secret -> why the ideal functionality gives it to them."""


def _expected(name: str, secrets: tuple[str, ...], members: Mapping[str, Members], granted: Granted) -> Expected:
    return Expected(name, secrets, tuple(Coalition(who, m.names, granted(m)) for who, m in members.items()))


# -- encrypted sums of five parties and three holders, two of whom open a sum

SUM_MEMBERS = {
    "outsider (the board)": Members(),
    "party": Members(parties=(4,)),
    "t - 1 holders": Members(parties=(2,), holders=(3,)),
    "curator": Members(curator=True),
    "curator and a party": Members(curator=True, parties=(4,)),
    "curator and t - 1 holders": Members(curator=True, parties=(2,), holders=(3,)),
    "all parties but two, t - 1 holders among them": Members(parties=(2, 3, 4), holders=(3,)),
    "curator and all parties but two": Members(curator=True, parties=(2, 3, 4), holders=(3,)),
    "t holders": Members(parties=(1, 2), holders=(2, 3), opens=True),
    "dealer": Members(opens=True),
}
TALLY_MEMBERS = SUM_MEMBERS | {
    "curator and all parties but one": Members(curator=True, parties=(1, 2, 3, 4), holders=(3,))
}


@dataclass(frozen=True)
class SumSecrets:
    """The secrets of one sum: names of the secrets that a party's vector, and the exact sum of all vectors, are.

    `inputs`: from which the vectors are computed, and on which no message depends otherwise. `noisy`: whether the
    parties add noise.
    """

    vectors: str = "direction"
    total: str = "exact sum"
    inputs: tuple[str, ...] = ("data", "sizes")
    noisy: bool = True

    @property
    def simulated(self) -> tuple[str, ...]:
        """The secrets that the simulation shows to be hidden: the vectors, their exact sum and the noise."""
        return (self.vectors, *["noise"] * self.noisy, self.total)

    def granted(self, m: Members) -> dict[str, str]:
        """Return the secrets that the ideal functionality gives to a coalition, and why."""
        if m.opens:
            few = ", and one share of noise hides little" if self.noisy else ""
            return dict.fromkeys(self.simulated, OPENS + few)
        if self.noisy or not m.curator:
            return {}
        last = {self.vectors: "the sum less one's own vectors is the last party's"} if len(m.parties) == 4 else {}
        return {self.total: "what this curator is given; it adds the noise"} | last

    def expected(self, name: str) -> Expected:
        """Return the expected matrix of a case."""
        declared = names_of((StatisticSpec if self.noisy else OwnDataSpec).secrets)
        secrets = tuple(secret for secret in declared if secret in {*self.inputs, *self.simulated})
        return _expected(name, secrets, SUM_MEMBERS, self.granted)


_TRAINED = ("data", "classifier", "sizes")
STATISTICS = {
    "statistic": SumSecrets("votes", "alpha", _TRAINED),
    "statistic-gaussian": SumSecrets("votes", "alpha", _TRAINED),
    "own-data": SumSecrets(),
    "own-data-exact": SumSecrets(noisy=False),
    "whitened": SumSecrets(inputs=_TRAINED, noisy=False),
    "record": SumSecrets(),
    "rehearsed": SumSecrets(),
    "rehearsed-gaussian": SumSecrets(),
    "evaluation": SumSecrets(),
    "evaluation-errors": SumSecrets(),
}
"""The sums of statistics; "whitened" is the average as in Pathak 2010, whose curator has the exact sum."""
VOTES = SumSecrets("votes", "alpha", _TRAINED, noisy=False)
PARAMETERS = SumSecrets("classifier", "sum of parameters", (), noisy=False)
"""The two sums of the tally: of votes, and for the method avg of parameters, which follow from the classifier alone."""


def _tally_granted(m: Members) -> dict[str, str]:
    noise = "the curator adds the noise in this protocol; `statistic` is the one where nobody can"
    return VOTES.granted(m) | PARAMETERS.granted(m) | ({"noise": noise} if m.curator else {})


# -- Pathak's protocol: four parties; party 0 leads, party 2 has the smallest data set

LEADER, SMALLEST = 0, 2
PATHAK_KINDS = ("public-bound", "repaired", "all-pairs", "printed")
PATHAK_MEMBERS = {
    "consumer (the published shares)": Members(),
    "party 0 (draws pi_1, the key and the mask)": Members(parties=(LEADER,)),
    "party 2 (the smallest)": Members(parties=(SMALLEST,)),
    "all parties but two": Members(parties=(0, 3)),
    "curator": Members(curator=True),
    "curator and a party": Members(curator=True, parties=(3,)),
    "curator and party 0": Members(curator=True, parties=(LEADER,)),
}
LYING = {"curator and a party that adds nothing": Members(True, (3,), lying=True)}
"""The coalition that deviates from the protocol, in the variant that withstands it."""


def pathak_members(kind: str) -> dict[str, Members]:
    """Return the coalitions of one kind of `PATHAK_KINDS`, by name."""
    return PATHAK_MEMBERS | LYING if kind == "public-bound" else PATHAK_MEMBERS


def _pathak(kind: str) -> Expected:
    both = "Charlie and any party hold both keys and pi_1 between them"
    mask = "Charlie and party 0 hold the noise and its mask between them"
    insider = "the insider: the noise is this party's own vector (docs/security/index.md, finding 6)"
    coalitions = []
    for name, m in pathak_members(kind).items():
        granted = {}
        if kind != "public-bound" and m.curator and m.parties:
            granted = {"sizes": both, "who is smallest": both, **({"noise": mask} if LEADER in m.parties else {})}
        leaks = {"noise": insider} if kind == "printed" and SMALLEST in m.parties else {}
        coalitions.append(Coalition(name, m.names, granted, leaks))
    return Expected(f"pathak-{kind}", names_of(PathakSpec.secrets, by_attack=False), tuple(coalitions))


PATHAK_LIAR = ("party 1",)
"""The party that deviates: neither the leader nor the one with the smallest data set."""
_CURATOR, _HOLDER = ("curator",), ("holder 1",)
_KNOWN = {
    BARE_SUM.name: "whose noise is used is for one role to say: a finding, and why the variant is not the default"
}

# -- descent, and the ceremony

PSGD_MEMBERS = {
    "outsider (the board)": Members(),
    "party": Members(parties=(2,), holders=(3,)),
    "curator": Members(curator=True),
    "curator and a party, t - 1 holders": Members(curator=True, parties=(2,), holders=(3,)),
}
PSGD_LIAR = ("party 2",)
CEREMONY_MEMBERS = {
    "outsider (the board)": Members(),
    "t - 1 holders": Members(holders=(2,)),
    "t holders": Members(holders=(2, 3)),
}


def _psgd(name: str) -> Expected:
    secrets = names_of(PsgdSpec.secrets, by_attack=False)
    return _expected(name, secrets, PSGD_MEMBERS, lambda m: {"sizes": "public: the noise is sized by them"})


def _ceremony_granted(m: Members) -> dict[str, str]:
    why = "t holders together have the key"
    return dict.fromkeys(names_of(KEY_SECRETS), why) if len(m.holders) > 1 else {}


_LIARS = (
    Coalition("lying parties", ("parties 1 to 4",)),
    Coalition("t - 1 lying holders", ("holder 3",)),
    Coalition("lying curator and parties", ("curator", "parties 1 to 4")),
    Coalition(
        "lying curator, board, parties and t - 1 holders", ("curator", "the board", "parties 1 to 4", "holder 3")
    ),
)
_PATHAK_LIARS = (
    Coalition("public-bound: a lying party", PATHAK_LIAR),
    Coalition("public-bound: lying curator", _CURATOR),
    Coalition("public-bound: lying curator and a party", _CURATOR + PATHAK_LIAR),
    Coalition("repaired: a lying party", PATHAK_LIAR, known_leaks=_KNOWN),
    Coalition("repaired: lying curator", _CURATOR, known_leaks=_KNOWN),
    Coalition("printed: a lying party", PATHAK_LIAR, known_leaks=_KNOWN),
    Coalition("printed: lying curator", _CURATOR, known_leaks=_KNOWN),
)
_PSGD_LIARS = (
    Coalition("a lying party", PSGD_LIAR),
    Coalition("t - 1 lying holders", _HOLDER),
    Coalition("lying curator and party", _CURATOR + PSGD_LIAR),
    Coalition("lying curator, board, party and t - 1 holders", (*_CURATOR, "the board", *PSGD_LIAR, *_HOLDER)),
)

EXPECTED: dict[str, Expected] = {
    one.name: one
    for one in (
        _expected("ceremony", names_of(KEY_SECRETS), CEREMONY_MEMBERS, _ceremony_granted),
        _expected(
            "tally",
            names_of((*TallySpec.secrets, *VectorSpec.secrets), by_attack=False),
            TALLY_MEMBERS,
            _tally_granted,
        ),
        Expected("tally-liars", names_of((HONEST_VOTE, OTHER_SUM, CULPRIT)), _LIARS),
        *(secrets.expected(name) for name, secrets in STATISTICS.items()),
        *map(_pathak, PATHAK_KINDS),
        Expected("pathak-liars", (BARE_SUM.name,), _PATHAK_LIARS),
        _psgd("psgd"),
        _psgd("psgd-gaussian"),
        Expected("psgd-liars", names_of((HONEST_GRADIENT, OTHER_SUM, CULPRIT)), _PSGD_LIARS),
    )
}
"""The expected matrix of each case, by its name."""
