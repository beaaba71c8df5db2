"""A threshold key is computed from commitments to shares of d; compared with the shares themselves."""

from __future__ import annotations

from math import factorial

import gmpy2
import pytest
from gmpy2 import mpz

from psephos.audit.rounds import short_key
from psephos.protocol.ceremony.exponent import (
    TESTS,
    committed,
    committed_share,
    opens,
    threshold_key,
    verification_base,
)
from psephos.protocol.ceremony.exponent import (
    test_ciphertexts as ciphertexts_of,
)
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import CiphertextError, InvalidParameter
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.sharing import evaluate, integer_polynomial
from psephos.protocol.paillier.threshold import KeyShare

FACTORS = short_key(4, 256).factors()


@pytest.mark.parametrize("degree", [1, 2])
def test_a_key_computed_from_commitments_decrypts(degree: int) -> None:
    private = PrivateKey(*FACTORS, degree=degree)
    terms = CeremonyTerms(256, 4, 2, bytes(32), True, degree)
    n, modulus = private.public_key.modulus, private.public_key.ciphertext_modulus
    base = verification_base(terms, n)
    assert gmpy2.jacobi(base, n) == 1
    # d is the sum of four parts; the first is negative.
    d = private.decryption_exponent() * 7
    parts = [-(1 << 200), 12345, 0]
    parts.append(d - sum(parts))
    polynomials = [integer_polynomial(part, d << 300, holders=4, threshold=2) for part in parts]
    commitments = [committed(base, f, modulus) for f in polynomials]
    for f, own in zip(polynomials, commitments, strict=True):
        for holder in range(1, 5):
            assert committed_share(own, holder, modulus) == gmpy2.powmod(base, evaluate(f, holder), modulus)
    key = threshold_key(terms, n, mpz(7), commitments)
    assert (key.key, key.holders, key.threshold, key.theta) == (private.public_key, 4, 2, 7)
    assert (key.verification_base, len(key.ceremony)) == (base, 16)
    shares = [sum(evaluate(f, holder) for f in polynomials) for holder in range(1, 5)]
    assert key.verification_values == tuple(gmpy2.powmod(base, 2 * factorial(4) * share, modulus) for share in shares)
    ciphertexts, plaintexts = ciphertexts_of(terms, n)
    assert len(set(ciphertexts)) == len(set(plaintexts)) == TESTS == 2
    assert [private.raw_decrypt(c) for c in ciphertexts] == plaintexts
    opened = {j: KeyShare(key, j, share).partially_decrypt(ciphertexts) for j, share in enumerate(shares, 1)}
    assert opens(key, opened, plaintexts)
    assert not opens(key, opened, plaintexts[::-1])
    for cheater in range(1, 5):
        changed = {**opened, cheater: (opened[cheater][0], opened[cheater][1] * 4 % modulus)}
        assert not opens(key, changed, plaintexts)
        assert not opens(key, {**opened, cheater: opened[cheater][:1]}, plaintexts)


def test_theta_and_verification_values_must_be_units() -> None:
    terms, n = CeremonyTerms(256, 3, 2, bytes(32), True), mpz(FACTORS[0] * FACTORS[1])
    one = [(mpz(1), mpz(1))] * 3
    assert threshold_key(terms, n, mpz(1), one).verification_values == (1, 1, 1)
    for theta in (0, n, FACTORS[0]):
        with pytest.raises(InvalidParameter):
            threshold_key(terms, n, mpz(theta), one)
    with pytest.raises(CiphertextError):
        threshold_key(terms, n, mpz(1), [*one[:2], (mpz(FACTORS[0]), mpz(1))])
