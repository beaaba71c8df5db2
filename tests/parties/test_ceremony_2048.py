"""A lying holder in the stages whose sizes follow a key of 2,048 bits: it is named by all.

The holders' coins are seeded, so that the first batch has the winner and a ceremony takes seconds. With other coins the
tests would pass as well, and take longer.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from psephos.parties.ceremony import CeremonyHolder
from psephos.protocol.ceremony.search import Batch
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.driver import Driver, replace_roles
from psephos.protocol.errors import CheatingError, ShareRangeError
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import Role
from tests.parties import test_ceremony as lies
from tests.parties import test_ceremony_form as form

TERMS = CeremonyTerms(2048, 3, 2, lies.CONTEXT)
SEED = 20
"""With these coins of holders 1 and 3, and honest coins of holder 2, the first batch has a winner."""

Change = Callable[[CeremonyHolder], Role]


def honest(number: int) -> CeremonyHolder:
    return CeremonyHolder(TERMS, number, randomness=SimulationRandomness(SEED, number))


def computes(kind: type[Batch]) -> Change:
    def change(holder: CeremonyHolder) -> Role:
        holder._batch = lambda state: kind(TERMS, holder._batch_seeds(state))  # type: ignore[method-assign]
        return holder

    return change


LIES: dict[str, Change] = {
    "adds noise to the multiples of phi": computes(form.NoisyMultiples),
    "shares another d": computes(lies.OtherExponent),
}
"""One before there is a modulus, one after it; all lies, with a short key: `tests.parties.test_ceremony`."""


def ends(change: Change) -> list[str]:
    """Run the ceremony; return each honest holder's error, or nothing if all have a share of one key."""
    roles: list[Role] = [honest(j) for j in (1, 2, 3)]
    driver = Driver(replace_roles(roles, {"holder 2": lambda role: change(honest(2))}), strict=False)
    results = driver.run()
    errors = [f"{refusal.error}" for name, refusal in driver.refused if name != "holder 2"]
    assert all(isinstance(refusal.error, CheatingError | ShareRangeError) for _, refusal in driver.refused)
    if not errors:
        shares = [results[name] for name in TERMS.names]
        assert len({share.threshold_key for share in shares}) == 1
        private = lies.factored(int(shares[0].threshold_key.key.modulus), lies.exponent(shares, (1, 3)))
        assert private.public_key == shares[0].threshold_key.key
    return errors


@pytest.mark.soak
@pytest.mark.parametrize("lie", LIES)
def test_a_liar_is_named_by_all(lie: str) -> None:
    errors = ends(LIES[lie])
    print(f"{lie}: {errors[0] if errors else 'a good key'}")
    assert len(errors) == 2
    for text in errors:
        assert re.match(r"holder 2(:| [a-z])", text), text


@pytest.mark.soak
def test_the_honest_get_a_key() -> None:
    assert ends(lambda holder: holder) == []
