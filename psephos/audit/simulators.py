"""The simulator of encrypted sums: it makes a coalition's view from the coalition's inputs and ideal outputs alone.

It casts ballots of zeros for the honest parties, and computes partial decryptions for the honest holders such that the
product of *those* ballots opens to the given sum. With t - 1 shares f(i), i in S (the coalition's, completed by shares
of 0) and c the product, Lagrange interpolation at 0 and S gives, in integers,

    Delta f(j) = sum_i (Delta l_i(j)) f(i) + (Delta l_0(j)) f(0),       c^(2 f(0)) = c^(2 Delta s) = 1 + 2 Delta m n,

so holder j's part that opens c to m is  prod_i c^(2 f(i) Delta l_i(j)) (1 + 2 Delta m n)^(Delta l_0(j)). The simulated
view differs from the real one by DCR (and factoring for `half`), and by a statistical distance of 2^-128.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import gmpy2
import numpy as np
from gmpy2 import mpz

from psephos.audit.matrix import Members
from psephos.audit.settings import AuditSetting, SumRun
from psephos.protocol.encrypted_sum.messages import Ballot, Close, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.generator import generator_power
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.sharing import deal_integer
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.randomness import Randomness
from psephos.protocol.roles import BOARD
from psephos.protocol.transcript import Transcript


def packed_sum(plan: PackingPlan, sums: Sequence[int], addends: int) -> list[mpz]:
    """Return the plaintexts of a sum of `addends` vectors whose entries are `sums`."""
    slots = [entry - addends * plan.minimum for entry in sums]
    # One vector of entries as large as a whole sum has the same radix, hence the same places.
    return PackingPlan(plan.length, 1, 0, plan.radix - 1, plan.key_bits, plan.degree).pack(slots)


def simulate_partial(key: ThresholdKey, shares: Mapping[int, int], holder: int, ciphertext: mpz, plaintext: mpz) -> mpz:
    """Return the partial decryption with which a ciphertext opens to a given plaintext."""
    modulus, delta = key.key.ciphertext_modulus, key.delta
    points = [0, *shares]

    def weight(i: int) -> int:
        value = Fraction(delta)
        for k in points:
            if k != i:
                value *= Fraction(holder - k, i - k)
        assert value.denominator == 1
        return int(value)

    result = gmpy2.powmod(generator_power(key.key, mpz(2 * delta * key.theta * plaintext)), weight(0), modulus)
    for i, share in shares.items():
        result = result * gmpy2.powmod(ciphertext, 2 * share * weight(i), modulus) % modulus
    return result


def simulate_sum_view(
    setting: AuditSetting,
    round_: Round,
    members: Members,
    *,
    own: Mapping[int, Ballot],
    sums: Sequence[int],
    coins: Callable[[str], Randomness],
    transcript: Transcript | None = None,
    public: bool = False,
) -> SumRun:
    transcript = Transcript(secrets=True) if transcript is None else transcript
    key, threshold_key, plan = round_.key, round_.threshold_key, round_.plan
    ballots = dict(own)
    for party in range(len(round_.roster)):
        name = f"party {party}"
        if party not in own:
            encryptor = Encryptor(key, randomness=coins(f"simulated {name}"), expected=8)
            zero = EncryptedVector.encrypt(encryptor, plan, [max(0, plan.minimum)] * plan.length)
            ballots[party] = Ballot.sign(round_, party, zero, setting.ceremony.signing_keys[party])
        transcript.record(f"{round_.kind}: cast", name, BOARD, "ballot", ballots[party].encode())
    product, _ = BallotProduct(round_).add_all(ballots[party].encode() for party in sorted(ballots))
    shares = {h: setting.ceremony.shares[h - 1].share() for h in members.holders}
    sizes = {"holders": threshold_key.holders, "threshold": threshold_key.threshold}
    for holder, fake in enumerate(
        deal_integer(0, int(key.ciphertext_modulus), **sizes, randomness=coins("simulated shares")), 1
    ):
        if len(shares) < threshold_key.threshold - 1:
            shares.setdefault(holder, fake)
    phase, opening = f"{round_.kind}: open", range(1, threshold_key.threshold + 1)
    request = TallyRequest(round_.digest, product.members, product.digest)
    transcript.record(phase, "curator", BOARD, "close", Close(round_.digest).encode())
    for holder in opening:
        transcript.record(phase, "curator", f"holder {holder}", "tally request", request.encode(round_))
    columns = list(zip(product.columns, packed_sum(plan, sums, len(round_.roster)), strict=True))
    for holder in opening:
        if holder in shares:
            exponent = 2 * threshold_key.delta * shares[holder]
            values = tuple(gmpy2.powmod(c, exponent, key.ciphertext_modulus) for c, _ in columns)
        else:
            values = tuple(simulate_partial(threshold_key, shares, holder, c, m) for c, m in columns)
        part = PartialDecryption(round_.digest, holder, product.digest, values)
        receiver = BOARD if public else "curator"
        transcript.record(phase, f"holder {holder}", receiver, "partial decryption", part.encode(round_))
    return SumRun(round_, transcript, OpenedSum(tuple(sums), product.parties))


# -- what a functionality computes and draws


def ideal_sum(*vectors: Sequence[int]) -> list[int]:
    """Return the sum of vectors of the same length, which is the output of the other functionalities."""
    return [sum(column) for column in zip(*vectors, strict=True)]


def joint_noise(
    scale: Fraction, dimension: int, shares: int, contributors: int, generator: np.random.Generator
) -> list[int]:
    """Return the sum of some parties' shares of discrete Laplace noise, `dimension` integers."""
    chance, shape = -math.expm1(-1 / float(scale)), shares / contributors
    first, second = (generator.negative_binomial(shape, chance, dimension) for _ in range(2))
    return [int(a) - int(b) for a, b in zip(first, second, strict=True)]


def joint_gaussian(
    variance: Fraction | float, dimension: int, shares: int, contributors: int, generator: np.random.Generator
) -> list[int]:
    """Return the sum of some parties' shares of discrete Gaussian noise: normal variables, rounded."""
    deviation = float(variance * shares / contributors) ** 0.5
    return [int(e) for e in np.rint(generator.normal(scale=deviation, size=dimension))]


def spherical_noise(scale: Fraction, dimension: int, generator: np.random.Generator) -> list[int]:
    """Return a rounded vector whose density is proportional to exp(-||eta||/scale)."""
    direction = generator.normal(size=dimension)
    norm = float(scale) * generator.gamma(dimension)
    return [int(e) for e in np.rint(direction * (norm / np.linalg.norm(direction)))]
