"""What must not leak from a protocol: the inventory that every specification declares, and an audit tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Secret:
    """A value that must not leak, or a property that no attack may break; a description, never the value itself.

    Attributes:
        name: the column of the audit's matrix; unique in a protocol.
        by_attack: whether it is tested against roles that deviate; otherwise against the views of roles that do not.
    """

    name: str
    owner: str
    description: str
    by_attack: bool = False


def names_of(secrets: Sequence[Secret], *, by_attack: bool | None = None) -> tuple[str, ...]:
    """Return the names of secrets, in order and without repetitions; `by_attack`: of those with this value alone."""
    chosen = (secret for secret in secrets if by_attack is None or secret.by_attack == by_attack)
    return tuple(dict.fromkeys(secret.name for secret in chosen))


DATA = Secret("data", "each party", "The party's own rows: their features and labels.")
CLASSIFIER = Secret(
    "classifier", "each party", "The classifier, or its parameters, that the party trained on its rows."
)
VOTES = Secret("votes", "each party", "The classes that the party's classifier predicts for the auxiliary samples.")
DIRECTION = Secret("direction", "each party", "The bounded vector computed from the party's own rows that it encrypts.")
NOISE = Secret("noise", "the release", "The noise in the released value, without which the exact value follows.")
SIZES = Secret("sizes", "each party", "The number of rows that the party holds.")
VOTE_COUNTS = Secret("alpha", "all parties", "The exact vote counts of each auxiliary sample.")
EXACT_SUM = Secret("exact sum", "all parties", "The sum of the parties' vectors without noise.")

OTHER_SUM = Secret(
    "a sum of other ballots",
    "all parties",
    "A sum that is not the sum of the valid ballots of the round.",
    by_attack=True,
)
CULPRIT = Secret(
    "who lied",
    "nobody",
    "The sender of an invalid message, which the error of an honest role must name; an attack gains by hiding it.",
    by_attack=True,
)

KEY_SECRETS = (
    Secret("p and q", "nobody", "The prime factors of the modulus."),
    Secret("d", "nobody", "The private exponent, which the holders' shares sum to and which no machine ever has."),
    Secret("shares", "each holder", "The holder's share of the private exponent."),
)
"""The secrets of the ceremony in which the holders generate a key together, which is no specification of a study."""
