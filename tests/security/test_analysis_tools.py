"""The instruments of the analysis: they see what they should, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from gmpy2 import mpz

from psephos.audit.compare import two_sample
from psephos.audit.model import AnalysisContext
from psephos.audit.settings import FixedVoter, cast_ballot, make_setting
from psephos.audit.simulators import packed_sum, simulate_partial
from psephos.audit.view_checks import ViewCiphertext, jacobi, related_randomness
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.paillier.encryption import Encryptor, fixed_base
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.threshold import deal
from psephos.protocol.randomness import Randomness, SimulationRandomness
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.specs.exact import TallySpec
from tests.security.lab.fuzzing import run_tally_round

# -- two samples


@pytest.mark.slow
def test_two_samples_of_one_law_are_not_told_apart() -> None:
    """60 comparisons at a rate of 0.02: 1.2 alarms expected, 8 or more with probability below 4e-5. Seeds are fixed."""
    alarms = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        sides = [np.column_stack([generator.normal(size=40), generator.integers(0, 2, size=40)]) for _ in range(2)]
        alarms += two_sample(sides[0], sides[1], rate=0.02, names=["a", "b"], seed=seed).differ
    assert alarms < 8


@pytest.mark.parametrize(
    "leak",
    [
        lambda g: g.normal(3, size=(60, 1)),
        lambda g: g.normal(scale=6, size=(60, 1)),
        lambda g: np.zeros((60, 1)),
        lambda g: g.integers(0, 2, size=(60, 1)).astype(float),
    ],
    ids=["shifted", "wider", "constant", "discrete"],
)
def test_leaks_are_seen(leak: Callable[[np.random.Generator], np.ndarray]) -> None:
    generator = np.random.default_rng(1)
    noise = generator.normal(size=(2, 60, 5))
    left, right = np.hstack([noise[0], generator.normal(size=(60, 1))]), np.hstack([noise[1], leak(generator)])
    comparison = two_sample(left, right, rate=1e-4, names=list("abcdef"), seed=1)
    assert comparison.differ
    assert comparison.column == "f"


def test_a_relation_between_features_is_seen_by_the_classifier() -> None:
    """Each feature alone has the same law on both sides; only their sign's product differs."""
    generator = np.random.default_rng(2)
    left = generator.normal(size=(300, 2))
    right = generator.normal(size=(300, 2))
    right[:, 1] = np.abs(right[:, 1]) * np.sign(right[:, 0])
    comparison = two_sample(left, right, rate=1e-4, names=["a", "b"], seed=2)
    assert comparison.differ
    assert comparison.accuracy > 0.65


# -- freshness


@pytest.fixture(scope="module")
def ciphertexts(private_key: PrivateKey) -> tuple[PrivateKey, list[mpz]]:
    encryptor = Encryptor(private_key.public_key, randomness=SimulationRandomness(1, "fresh"), expected=8)
    return private_key, list(encryptor.encrypt([mpz(m) for m in (0, 1, 5, 5)]))


RELATIONS: dict[str, Callable[[list[mpz], mpz, mpz], mpz]] = {
    "no randomness": lambda c, n, h: 1 + 7 * n,
    "the same": lambda c, n, h: c[0],
    "the same randomness, another plaintext": lambda c, n, h: c[0] * (1 + 3 * n),
    "the product of two": lambda c, n, h: c[0] * c[1],
    "the quotient of two": lambda c, n, h: c[0] * pow(c[1], -1, n * n),
    "the inverse": lambda c, n, h: pow(c[2], -1, n * n),
    "a small power": lambda c, n, h: pow(c[1], 5, n * n),
    "a small power of the fixed base": lambda c, n, h: pow(h, 200, n * n) * (1 + n),
}


@pytest.mark.parametrize("relation", RELATIONS)
def test_stale_ciphertexts_are_seen(ciphertexts: tuple[PrivateKey, list[mpz]], relation: str) -> None:
    private_key, fresh = ciphertexts
    key = private_key.public_key
    made = RELATIONS[relation](fresh, key.modulus, fixed_base(key)) % key.ciphertext_modulus
    sealed = [ViewCiphertext(f"c{i}", c) for i, c in enumerate(fresh)]
    assert related_randomness(key, sealed) is None
    assert related_randomness(key, [*sealed, ViewCiphertext("made", made)]) is not None
    # Relations to the coalition's own ciphertexts count as well.
    assert related_randomness(key, [ViewCiphertext("made", made)], own=sealed) is not None


def test_jacobi_symbols_survive_half_randomisation_and_not_full(private_key: PrivateKey) -> None:
    key = private_key.public_key
    half = Encryptor(key, "half", randomness=SimulationRandomness(2), expected=64).encrypt([mpz(1)] * 64)
    full = Encryptor(key, "full", randomness=SimulationRandomness(3)).encrypt([mpz(1)] * 64)
    assert {jacobi(key, c) for c in half} == {1}
    assert {jacobi(key, c) for c in full} == {1, -1}


# -- the simulator


@pytest.mark.parametrize(("holders", "threshold"), [(2, 1), (3, 2), (5, 3), (5, 5)])
def test_a_partial_decryption_simulated_from_the_truth_is_the_real_one(
    private_key: PrivateKey, holders: int, threshold: int
) -> None:
    """With real shares and the real plaintext the formula must give c^(2 Delta f(j)) itself."""
    key = private_key.public_key
    threshold_key, shares = deal(private_key, holders=holders, threshold=threshold, randomness=SimulationRandomness(4))
    plaintext = mpz(123456789)
    c = Encryptor(key, randomness=SimulationRandomness(5), expected=1).encrypt([plaintext])[0]
    known = {share.holder: share.share() for share in shares[: threshold - 1]}
    for share in shares[threshold - 1 :]:
        assert simulate_partial(threshold_key, known, share.holder, c, plaintext) == share.partially_decrypt([c])[0]


def test_packed_sums_unpack(private_key: PrivateKey) -> None:
    from psephos.protocol.paillier.packing import PackingPlan

    plan = PackingPlan.for_key(private_key.public_key, length=70, addends=4, minimum=-3, maximum=9)
    sums = [(7 * i) % 49 - 12 for i in range(70)]
    assert plan.unpack(packed_sum(plan, sums, 4), 4) == sums


def test_a_role_is_replayed_from_its_view() -> None:
    """A view is complete: with its inputs and its tape a party makes the very ballot it sent."""
    from psephos.protocol.randomness import ReplayedRandomness

    context = AnalysisContext(seed=7, views=1)
    setting = make_setting(context.coins("replay"))
    auxiliary = np.random.default_rng(7).normal(size=(9, 2))
    voters = [FixedVoter(np.arange(9) % 3) for _ in range(5)]
    run = run_tally_round(context, setting, auxiliary, 3, voters, "replay")
    factory = PartyFactory(TallySpec(AuxiliarySet.of(auxiliary), 3), voters)
    for number in range(5):
        coins: Randomness = ReplayedRandomness(run.transcript.view(f"party {number}").tape)
        ballot, _ = cast_ballot(setting, run.round, factory, number, coins)
        assert ballot.encode() == run.transcript.messages[number].data
