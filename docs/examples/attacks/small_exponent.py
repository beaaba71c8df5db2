"""Attack: searching the small exponent in Pathak's Stage 2 (docs/security/index.md, finding 4).

As printed, step 3 of Stage 2 lets party P_j compute psi_j = zeta(v_j)^(eta_j) and send it on. zeta(v_j) is known to all
parties, since Charlie sent it to them, and eta_j, a noise value on a grid, is a small number. Whoever sees psi_j, which
is any party in step 4, finds the exponent by baby steps and giant steps, without any key. Then it knows the noise, and
once the shares are published it takes the noise off.

`python docs/examples/attacks/small_exponent.py` plays it against the step as printed and as it is here.
"""

from __future__ import annotations

from gmpy2 import invert, mpz, powmod

from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.randomness import SimulationRandomness

NOISE_BOUND = 1 << 31
"""Noise of up to 2^31 grid steps either way: 2^32 exponents, 2^16 steps of each kind."""


def search(base: mpz, power: mpz, modulus: mpz, bound: int = NOISE_BOUND) -> int | None:
    """The e in [-bound, bound) with base^e = power, or None."""
    giant = 1 << ((2 * bound).bit_length() // 2)
    baby, value = {}, mpz(1)
    for step in range(giant):
        baby.setdefault(value, step)
        value = value * base % modulus
    stride = invert(value, modulus)
    target = power * powmod(base, bound, modulus) % modulus
    for step in range(2 * bound // giant + 1):
        if target in baby:
            return step * giant + baby[target] - bound
        target = target * stride % modulus
    return None


def attack(noise: int = -123_456_789) -> tuple[int | None, int | None]:
    """What the search finds in psi_j as printed, and as it is sent here."""
    coins = SimulationRandomness(1, "small exponent")
    key = generate_private_key(256, test_key=True, randomness=coins).public_key
    # Charlie's zeta(v_j); it does not matter whether v_j is 0 or 1.
    selected = Encryptor(key, "half", randomness=coins, expected=1).encrypt([mpz(1)])[0]
    printed = powmod(selected, noise, key.ciphertext_modulus)
    ours = Encryptor(key, "full", randomness=coins).rerandomize([printed])[0]
    return search(selected, printed, key.ciphertext_modulus), search(selected, ours, key.ciphertext_modulus)


if __name__ == "__main__":
    found, nothing = attack()
    print(f"as printed, the search finds the noise: {found}")
    print(f"re-randomised, as it is here, it finds {'nothing' if nothing is None else nothing}")
