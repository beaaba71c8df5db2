"""The proof that a jointly generated modulus n = p q has form "psephos".

The form: p = q = 3 modulo 4, gcd(p - 1, q - 1) = 2, and (p - 1)/2 and (q - 1)/2 have no prime factor below a bound. A
prime is forbidden if it may not divide phi(n). A holder that lies about phi(n) cannot hide its forbidden factors.

The holders share multiples D = c phi(n) over the integers. For a public R and public squares v_i modulo n, every holder
j with share D_j publishes

    x_j = D_j mod R,     T_ij = v_i^((D_j - x_j) / R) modulo n

and everybody checks that x = sum_j x_j has no forbidden prime factor, and that

    v_i^x (prod_j T_ij)^R = 1 modulo n                                                                   (*)

Whatever the holders publish, an odd prime r that divides R and not x does not divide phi(n), except with probability
r^-k for k bases: by (*), v_i^x is an r-th power modulo every prime factor of n (docs/security/proofs.md).

Two tests cover all forbidden primes. `sieved` tests 3 and the primes l_i of the sieve, modulo each of which D is known
and not 0; the smallest of them, 3, needs many bases, and R is short. `larger` tests the primes between them and the
bound, and those of the odd part of n - 1; D is a weighted sum of the `FORM_MASKS` multiples of phi(n) whose shares were
opened modulo R before, with the first weights for which x has no forbidden factor.

Proving that a modulus has roots is an idea of Goldberg, Reyzin, Sagga and Baldimtsi, "Efficient noninteractive
certification of RSA moduli and beyond" (2019), section 3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import gmpy2
from gmpy2 import mpz

from psephos.protocol.ceremony.search import FORM_MASKS, form_modulus, is_clean
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.paillier.kernel import ring
from psephos.protocol.paillier.sharing import STATISTICAL_BITS

FORM_BITS = 96
"""A prime factor of phi(n) stays hidden with probability 2^-96; phi(n) has fewer of them than n has bits."""

_WEIGHT_LIMIT = 16
"""The weights after the first are in [0, 16). For keys of 1024 bits or more, more than half of all choices serve, since
a prime r rules out about one in r."""


@dataclass(frozen=True)
class FormTest:
    """The public values of a test of the form of n: `modulus` is R, which the tested primes divide, `bases` the v_i."""

    n: mpz
    modulus: mpz
    bases: tuple[mpz, ...]

    def roots(self, exponent: mpz) -> tuple[mpz, ...]:
        """Return a holder's T_ij: every base to the power of (D_j - x_j) / R, which may be negative, modulo n."""
        return self._powers(self.bases, exponent)

    def accepts(self, total: mpz, roots: Sequence[Sequence[mpz]]) -> bool:
        products = [mpz(1)] * len(self.bases)
        for of_holder in roots:
            products = [product * root % self.n for product, root in zip(products, of_holder, strict=True)]
        left, right = self._powers(self.bases, total), self._powers(products, self.modulus)
        return all(one * other % self.n == 1 for one, other in zip(left, right, strict=True))

    def _powers(self, bases: Sequence[mpz], exponent: mpz) -> tuple[mpz, ...]:
        if exponent == 0:
            return (mpz(1),) * len(bases)
        powers = ring(self.n).power(list(bases), abs(exponent))
        return tuple(gmpy2.invert(power, self.n) if exponent < 0 else power for power in powers)


@lru_cache(maxsize=2)
def form_tests(terms: CeremonyTerms, n: mpz) -> tuple[FormTest, FormTest]:
    """Return the tests `sieved` and `larger` of a modulus."""
    smallest = gmpy2.next_prime(terms.primes[-1])
    return (
        FormTest(n, terms.sieved, _bases(terms, n, "sieved", 3)),
        FormTest(n, form_modulus(terms, n), _bases(terms, n, "larger", smallest)),
    )


def form_weights(terms: CeremonyTerms, n: mpz, sums: Sequence[mpz]) -> tuple[int, ...] | None:
    """Return the first weights (by their sum) for which the weighted sum of the multiples has no forbidden factor."""
    choices = itertools.product(range(_WEIGHT_LIMIT), repeat=FORM_MASKS - 1)
    for others in sorted(choices, key=sum):
        weights = (1, *others)
        if is_clean(terms, n, sum((w * x for w, x in zip(weights, sums, strict=True)), mpz(0))):
            return weights
    return None


def _bases(terms: CeremonyTerms, n: mpz, label: str, smallest: int) -> tuple[mpz, ...]:
    """Return squares modulo n from a hash of the terms, n and label, as many as the smallest tested prime needs."""
    size, count = (n.bit_length() + STATISTICAL_BITS + 7) // 8, math.ceil(FORM_BITS / math.log2(smallest))
    data = terms.hashed(n, f"form {label}", size * count)
    return tuple(mpz.from_bytes(data[at : at + size], "big") ** 2 % n for at in range(0, len(data), size))
