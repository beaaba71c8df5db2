"""The numbers that security rests on are what their page says, measured from what is sent.

`tests.security.lab.parameters` measures, with the operating system's coins: each statistical measurement fails a sound
product with probability 2^-31 at most.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.proofs import knowledge
from tests.security.lab.parameters import PARAMETERS, Parameter, changed
from tests.tiers import sampled

ROOT = Path(__file__).resolve().parents[2]
MEASUREMENTS = {str(one.measure): one.measure for one in PARAMETERS}


@pytest.mark.parametrize("measure", MEASUREMENTS.values(), ids=lambda m: getattr(m, "func", m).__name__)
def test_messages_and_releases_meet_their_bounds(measure: Callable[[], None]) -> None:
    measure()


@pytest.mark.parametrize("one", sampled([p for p in PARAMETERS if p.weaker is not None], 2), ids=lambda p: p.name)
def test_a_weaker_constant_is_detected(one: Parameter) -> None:
    with changed(one.at, one.weaker), pytest.raises(Exception):  # noqa: B017, PT011 - what stops is noticed
        one.measure()


def test_a_changed_constant_leaves_no_cached_values() -> None:
    """A comb for short answers, kept under its key, would fail whatever is tested next in this process."""
    key = generate_private_key(128, test_key=True).public_key
    with changed("protocol.proofs.challenge.HIDING_BITS", 1):
        knowledge.base_power(key, mpz(1))
    longest = mpz(1) << (knowledge.answer_bits(key) + 90)
    expected = gmpy2.powmod(knowledge.base_power(key, mpz(1)), longest, key.ciphertext_modulus)
    assert knowledge.base_power(key, longest) == expected
