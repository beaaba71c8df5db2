"""The form of a key: each condition by itself, met and violated."""

from __future__ import annotations

import gc
from collections.abc import Callable

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.kernel import Ring
from psephos.protocol.paillier.keys import odd_primorial
from psephos.protocol.paillier.private_key import PrivateKey, form_bound, generate_private_key

BITS = 64
BOUND = form_bound(BITS)


def prime(holds: Callable[[mpz], bool], step: int = 1, start: int = 3 << BITS - 2) -> int:
    """The first prime 1 modulo `step` with a property."""
    p = mpz(start) // step * step + 1
    while not (gmpy2.is_prime(p) and holds(p)):
        p += step
    return int(p)


def clean(p: mpz, but: int = 1) -> bool:
    """Without a small factor in (p - 1)/2, one aside."""
    return bool(gmpy2.gcd(p >> 1, odd_primorial(BOUND)) == but)


GOOD = prime(lambda p: p % 4 == 3 and clean(p))
OTHER = prime(lambda p: p % 4 == 3 and clean(p), start=7 << BITS - 3)
COMMON = int(gmpy2.next_prime(2**20))
SHARING = [prime(lambda p: p % 4 == 3 and clean(p), 2 * COMMON, start << BITS - 3) for start in (6, 7)]


@pytest.mark.parametrize(
    ("p", "q", "form"),
    [
        (GOOD, OTHER, "psephos"),
        (prime(lambda p: p % 4 == 1 and clean(p)), OTHER, "foreign"),
        (prime(lambda p: p % 4 == 3 and clean(p, 3)), OTHER, "foreign"),
        (prime(lambda p: p % 4 == 3 and clean(p, 251)), OTHER, "foreign"),  # the largest that is looked for
        (prime(lambda p: p % 4 == 3 and clean(p) and p % 257 == 1), OTHER, "psephos"),
        (*SHARING, "foreign"),
    ],
    ids=["of our form", "1 modulo 4", "a factor 3", "a factor 251", "a factor 257", "a common factor"],
)
def test_every_condition_of_the_form_is_checked(p: int, q: int, form: str) -> None:
    for key in (PrivateKey(p, q), PrivateKey(q, p)):
        assert key.public_key.form == form
        assert key.factors() == (min(p, q), max(p, q))


def test_nothing_keeps_the_factors_of_a_key_that_is_gone() -> None:
    """A cache of rings, such as that of public moduli, would have them as long as the process lives."""
    key = generate_private_key(512, test_key=True)
    squares = [mpz(factor) ** 2 for factor in key.factors()]
    assert key.raw_decrypt(Encryptor(key.public_key, expected=1).encrypt([mpz(7)])[0]) == 7

    def rings() -> int:
        gc.collect()
        return sum(isinstance(one, Ring) and one.modulus in squares for one in gc.get_objects())

    assert rings() == 2
    del key
    assert rings() == 0
