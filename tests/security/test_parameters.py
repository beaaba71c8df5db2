"""The numbers that security rests on are as wide and long as they must be, measured from what is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.proofs import knowledge
from tests.security.lab.parameters import MEASUREMENTS, WEAKER, changed
from tests.tiers import sampled


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_messages_and_releases_meet_their_bounds(name: str) -> None:
    MEASUREMENTS[name]()


@pytest.mark.parametrize("one", sampled(WEAKER, 2), ids=lambda one: one[0])
def test_a_weaker_constant_is_detected(one: tuple[str, Any, Callable[[], None]]) -> None:
    at, weaker, measure = one
    with changed(at, weaker), pytest.raises(Exception):  # noqa: B017, PT011 - what stops is noticed
        measure()


def test_a_changed_constant_leaves_no_cached_values() -> None:
    """A comb for short answers, kept under its key, would fail whatever is tested next in this process."""
    key = generate_private_key(128, test_key=True).public_key
    with changed("protocol.proofs.challenge.HIDING_BITS", 1):
        knowledge.base_power(key, mpz(1))
    longest = mpz(1) << (knowledge.answer_bits(key) + 90)
    expected = gmpy2.powmod(knowledge.base_power(key, mpz(1)), longest, key.ciphertext_modulus)
    assert knowledge.base_power(key, longest) == expected
