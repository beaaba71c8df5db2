"""Powers of 1 + n modulo n^(s+1), where plaintexts are, and their logarithms (Damgard and Jurik 2001).

1 + n has order n^s, and the binomial series ends after n^s. With log(1 + x) = x - x^2/2 + x^3/3 - ..., which modulo
n^(s+1) ends as well where n divides x, m is log((1 + n)^m) / log(1 + n): both are n times something modulo n^s. No
factor of n is as small as s, so all of 2 .. s can be inverted.
"""

from __future__ import annotations

import gmpy2
from gmpy2 import mpz

from psephos.protocol.paillier.keys import PublicKey

__all__ = ["generator_power", "logarithm"]


def generator_power(key: PublicKey, exponent: mpz) -> mpz:
    """(1 + n)^m modulo n^(s+1); the exponent is any integer."""
    n, power, modulus = key.modulus, mpz(1), mpz(1)
    for k in range(key.degree, 0, -1):  # 1 + n m (1 + n (m - 1)/2 (1 + n (m - 2)/3 ...)), the last known modulo n
        modulus *= n
        term = exponent - (k - 1)
        if k < key.degree:
            term = term * power
        if k > 1:
            term = term * gmpy2.invert(k, modulus)
        power = 1 + n * (term % modulus)
    return power


def logarithm(value: mpz, base: mpz, degree: int) -> mpz:
    """log(value)/base modulo base^degree, of a value that is 1 modulo base; base is n or a prime factor of it."""
    modulus = base**degree
    x = (value - 1) // base % modulus
    total, power = mpz(0), mpz(1)
    for k in range(1, degree + 1):
        power = power * x % modulus  # x^k, which base^(k - 1) multiplies
        term = power * base ** (k - 1) * gmpy2.invert(k, modulus)
        total += term if k % 2 else -term
    return total % modulus
