"""Products of many powers with short public exponents: Pippenger's buckets (1976), for whoever checks proofs.

Each window of w bits sorts the bases into 2^w - 1 buckets; a running product over the buckets, from the last to the
first, gives the bucket of digit k its weight k. That is one multiplication per base and window, and twice the number of
buckets. Nothing here is secret, so time may depend on everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from gmpy2 import mpz

from psephos.protocol.errors import InvalidParameter

__all__ = ["public_power"]


def public_power(bases: Sequence[mpz], exponents: Sequence[mpz], modulus: mpz) -> mpz:
    """prod_i bases[i]^exponents[i] modulo `modulus`; raises InvalidParameter for a negative exponent."""
    if len(bases) != len(exponents) or min(exponents, default=0) < 0:
        raise InvalidParameter("every base needs one exponent, and none may be negative")
    bits = max((int(e).bit_length() for e in exponents), default=0)
    width = min(range(1, 17), key=lambda w: -(-bits // w) * (len(bases) + (2 << w)))
    mask = (1 << width) - 1
    result = mpz(1)
    for place in range(-(-bits // width) - 1, -1, -1):
        for _ in range(width):
            result = result * result % modulus
        buckets: dict[int, mpz] = {}
        shift = place * width
        for base, exponent in zip(bases, exponents, strict=True):
            if digit := int(exponent >> shift) & mask:
                buckets[digit] = buckets[digit] * base % modulus if digit in buckets else base
        running = total = None
        for digit in range(max(buckets, default=0), 0, -1):
            if digit in buckets:
                running = buckets[digit] if running is None else running * buckets[digit] % modulus
            total = running if total is None else total * running % modulus
        if total is not None:
            result = result * total % modulus
    return result
