"""Powers of 1 + n modulo n^(s+1) and their logarithms (Damgard and Jurik 2001).

Both series are finite modulo n^(s+1), and no factor of n is as small as s, so 2 .. s are invertible.
"""

from __future__ import annotations

import gmpy2
from gmpy2 import mpz

from psephos.protocol.paillier.keys import PublicKey


def generator_power(key: PublicKey, exponent: mpz) -> mpz:
    """Return (1 + n)^exponent modulo n^(s+1), for any integer exponent."""
    n, power, modulus = key.modulus, mpz(1), mpz(1)
    # Horner: 1 + n m (1 + n (m - 1)/2 (1 + n (m - 2)/3 ...)), the innermost factor modulo n.
    for k in range(key.degree, 0, -1):
        modulus *= n
        term = exponent - (k - 1)
        if k < key.degree:
            term = term * power
        if k > 1:
            term = term * gmpy2.invert(k, modulus)
        power = 1 + n * (term % modulus)
    return power


def logarithm(value: mpz, base: mpz, degree: int) -> mpz:
    """Return log(value)/base modulo base^degree, for value = 1 modulo base; base is n or a prime factor of n."""
    modulus = base**degree
    x = (value - 1) // base % modulus
    total, power = mpz(0), mpz(1)
    for k in range(1, degree + 1):
        power = power * x % modulus  # x^k
        term = power * base ** (k - 1) * gmpy2.invert(k, modulus)
        total += term if k % 2 else -term
    return total % modulus
