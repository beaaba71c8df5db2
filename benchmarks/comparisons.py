"""Secure comparison beside TNO's (`tno.mpc.protocols.secure_comparison`), if that is installed.

Both compare two 64-bit integers that are encrypted under the Paillier key of the role that decrypts, by Veugen's
protocol over DGK ciphertexts with subgroups of the same size. Both roles run in one process, and nothing is serialised.
The results differ: with ours the owner of the keys learns the bit (Pathak's stage 1 needs no more); with TNO's the
other role gets it encrypted, which takes three more Paillier encryptions. TNO's needs version 3 of its Paillier package
and version 4 of its templates; with newer ones its import fails, and the result says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import gmpy2

from benchmarks.clock import cpu_seconds, interleaved, milliseconds, ratio
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.pathak.comparison import answer, ask, conclude, mask_encrypted_difference
from psephos.protocol.pathak.dgk import generate_dgk_key

COMPARED_BITS = 64
"""Number of bits of the compared integers."""

Prepare = Callable[[int, int], Callable[[], Any]]
"""Encrypts (a, b) once and returns the function that is timed."""

Read = Callable[[Any], bool]
"""Reads the bit [a >= b] from the result of the timed function."""


@dataclass(frozen=True)
class SecureComparison:
    """CPU milliseconds of one secure comparison of integers of `compared_bits` bits, by library."""

    key_bits: int
    compared_bits: int
    milliseconds: dict[str, float]
    times_faster_than_tno: float | None
    not_measured: dict[str, str]


def _ours(bits: int) -> tuple[Prepare, Read]:
    private = generate_private_key(bits, test_key=bits < 2048)
    comparing = generate_dgk_key(bits, comparison_bits=COMPARED_BITS, test_key=bits < 2048)
    paillier, dgk = private.public_key, comparing.public_key

    def prepare(a: int, b: int) -> Callable[[], bool]:
        left, right = Encryptor(paillier, "full").encrypt([a, b])

        def compare() -> bool:
            masked, mask = mask_encrypted_difference(paillier, left, right, bits=COMPARED_BITS)
            shares = [-private.raw_decrypt(masked)]
            answers = answer(dgk, [-mask], ask(dgk, shares, bits=COMPARED_BITS), bits=COMPARED_BITS)
            return conclude(comparing, shares, answers, bits=COMPARED_BITS)[0]

        return compare

    return prepare, bool


def _tno(bits: int) -> tuple[Prepare, Read]:
    warnings.simplefilter("ignore")  # TNO's library warns when it generates randomness on demand
    from tno.mpc.encryption_schemes.dgk import DGK, DGKPublicKey, DGKSecretKey
    from tno.mpc.encryption_schemes.paillier import Paillier
    from tno.mpc.protocols.secure_comparison import Initiator, KeyHolder

    size = COMPARED_BITS
    paillier = Paillier.from_security_parameter(key_length=bits)
    # TNO's own key takes minutes at 3072 bits, so it gets one of ours, with the u > 2^(l + 2) that its protocol
    # requires. Decryption tests for zero modulo p, where v_q is only a factor of the exponent, so any other prime of
    # its size can replace it.
    dgk_key = generate_dgk_key(bits, comparison_bits=1 << (size + 2), test_key=bits < 2048)
    key, p, v_p = dgk_key.public_key, dgk_key._p, dgk_key._v_p
    secret = DGKSecretKey(v_p, gmpy2.next_prime(v_p), p, key.n // p)
    dgk = DGK(DGKPublicKey(key.g, key.h, key.u, key.n, key.subgroup_bits), secret, full_decryption=False)

    def prepare(a: int, b: int) -> Callable[[], bool]:
        x, y = paillier.encrypt(b), paillier.encrypt(a)

        # The steps of Initiator.perform_secure_comparison and KeyHolder.perform_secure_comparison, in order.
        def compare() -> Any:
            z, r = Initiator.step_1(x, y, size, paillier)
            z.randomize()
            opened, beta = KeyHolder.step_2(z, size, paillier)
            d = KeyHolder.step_4a(opened, dgk, paillier, size)
            bits_of_beta = KeyHolder.step_4b(beta, size, dgk)
            for ciphertext in (d, *bits_of_beta):
                ciphertext.randomize()
            alpha = Initiator.step_3(r, size)
            d = Initiator.step_4c(d, r, dgk, paillier)
            differing = Initiator.step_4d(alpha, bits_of_beta)
            w, corrected = Initiator.step_4e(r, alpha, differing, d, paillier)
            sign, delta = Initiator.step_4g()
            c = Initiator.step_4h(sign, alpha, corrected, d, bits_of_beta, Initiator.step_4f(w), delta, dgk)
            c = Initiator.step_4i(c, dgk, do_shuffle=True)
            for ciphertext in c:
                ciphertext.randomize()
            zeta_1, zeta_2, holder_bit = KeyHolder.step_5(opened, size, KeyHolder.step_4j(c, dgk), paillier)
            for ciphertext in (zeta_1, zeta_2, holder_bit):
                ciphertext.randomize()
            smaller = Initiator.step_6(delta, holder_bit)
            return Initiator.step_7(zeta_1, zeta_2, r, size, smaller, paillier)

        return compare

    return prepare, lambda encrypted: bool(paillier.decrypt(encrypted))


Maker = Callable[[int], tuple[Prepare, Read]]
MAKERS: dict[str, Maker] = {"psephos": _ours, "tno.mpc": _tno}
"""For each library, a function from key bits to the functions that prepare a comparison and read its result."""


def comparison(bits: int, repetitions: int = 5, makers: Mapping[str, Maker] = MAKERS) -> SecureComparison:
    """Measure the CPU milliseconds per comparison under keys of `bits` bits, as medians over interleaved repetitions.

    `times_faster_than_tno` of the result is the median of the ratios; None if TNO's library was not measured.
    """
    compared: dict[str, Callable[[], Any]] = {}
    missing: dict[str, str] = {}
    for name, make in makers.items():
        try:
            prepare, read = make(bits)
            for a, b in ((5, 7), (7, 5), (6, 6), ((1 << COMPARED_BITS) - 1, 0), (0, (1 << COMPARED_BITS) - 1)):
                compared[name] = prepare(a, b)
                if read(compared[name]()) is not (a >= b):
                    raise AssertionError(f"{a} >= {b} was answered wrongly")
        except Exception as error:  # the failure of another library is reported in the result
            if name == "psephos":
                raise
            compared.pop(name, None)
            missing[name] = f"{type(error).__name__}: {error}"
    samples = interleaved({name: partial(cpu_seconds, compare) for name, compare in compared.items()}, repetitions)
    times = ratio(samples["tno.mpc"], samples["psephos"]) if "tno.mpc" in samples else None
    return SecureComparison(bits, COMPARED_BITS, milliseconds(samples), times, missing)
