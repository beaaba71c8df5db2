"""Pathak's protocol, all roles: the published shares are exactly right, and what goes wrong is named."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

import psephos.simulate.pathak as stage
from psephos.parties.pathak import PathakParty
from psephos.protocol.errors import (
    AgreementError,
    CiphertextError,
    DataError,
    InvalidParameter,
    MessageError,
    NormError,
    PartyVanishedError,
    ShareRangeError,
    UnexpectedMessageError,
    WeakKeyError,
)
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.pathak.dgk import generate_dgk_key
from psephos.protocol.pathak.messages import CURATOR, KEYED_SIZE_BITS, MASK_BITS, Outgoing, Step, Terms, role
from psephos.protocol.transcript import Transcript
from psephos.simulate.pathak import PathakKeys, make_terms, run_pathak, run_protocol

KEYS = PathakKeys(
    generate_private_key(448, test_key=True),
    generate_dgk_key(256, comparison_bits=KEYED_SIZE_BITS, test_key=True),
    generate_private_key(384, test_key=True),
)
VARIANTS = [("printed", "laplace"), ("printed", "spherical"), ("repaired", "laplace")]


def records(sizes: Sequence[int], features: int = 2, seed: int = 0) -> list[tuple[Any, Any]]:
    generator = np.random.default_rng(seed)
    data = []
    for n in sizes:
        X = generator.normal(size=(n, features))
        data.append((X / (1.01 * np.linalg.norm(X, axis=1).max()), np.arange(n) % 2))
    return data


def terms_for(sizes: Sequence[int], features: int = 2, **changes: Any) -> Terms:
    options: dict[str, Any] = {
        "parties": len(sizes),
        "features": features,
        "lam": 0.1,
        "epsilon": 1.0,
        "smallest_size": 4,
        "largest_size": 40,
    }
    return make_terms(**(options | changes))


def play(sizes: Sequence[int], *, features: int = 2, seed: int = 0, **given_: Any) -> stage.PathakOutcome:
    passed = {
        name: given_.pop(name) for name in ("intercept", "transcript", "keys", "party_terms", "data") if name in given_
    }
    data = passed.pop("data", None) or records(sizes, features, seed)
    return run_protocol(data, terms_for(sizes, features, **given_), test_key=True, **({"keys": KEYS} | passed))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[PathakParty]:
    """The parties of every run of the test, to look into."""
    made: list[PathakParty] = []

    class Watched(PathakParty):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(stage, "PathakParty", Watched)
    return made


# -- the sum


@pytest.mark.parametrize(("variant", "noise"), VARIANTS)
def test_published_shares_are_k_times_average_plus_noise(variant: str, noise: str) -> None:
    @settings(max_examples=12, deadline=None)
    @given(
        sizes=st.lists(st.sampled_from([4, 5, 6, 7, 12, 13, 40]), min_size=3, max_size=6),
        comparisons=st.sampled_from(["tournament", "all-pairs"]),
        seed=st.integers(0, 9),
    )
    def check(sizes: list[int], comparisons: str, seed: int) -> None:
        made: list[PathakParty] = []

        class Watched(PathakParty):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                made.append(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stage, "PathakParty", Watched)
            outcome = play(sizes, seed=seed, variant=variant, noise=noise, comparisons=comparisons)
        # Computed here again, from the parties themselves.
        clear = [party.clear_values() for party in made]
        added = np.array(outcome.total, object) - sum(np.array(w, object) for _, w, _ in clear)
        if variant == "printed":
            expected = [n[0] for size, _, n in clear if size == min(sizes)]
        else:
            rung = max(i for i, least in enumerate(outcome.terms.ladder) if least <= min(sizes))
            expected = [[sum(column) for column in zip(*(n[rung] for _, _, n in clear), strict=True)]]
        assert list(added) in expected
        assert outcome.shares_equal_reference
        np.testing.assert_allclose(
            outcome.parameters,
            np.array(outcome.total, float) * outcome.terms.pitch / len(sizes),
            rtol=1e-15,
        )

    check()


def test_the_reference_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = PathakParty.clear_values

    def moved(party: PathakParty) -> Any:
        size, parameters, noise = genuine(party)
        return size, [parameters[0] + 1, *parameters[1:]], noise

    monkeypatch.setattr(PathakParty, "clear_values", moved)
    assert not play([4, 5, 6], variant="printed").shares_equal_reference


def test_the_average_is_the_parties_average_when_noise_is_small() -> None:
    sizes = [30, 35, 40]
    for variant, noise in VARIANTS:
        outcome = play(sizes, variant=variant, noise=noise, epsilon=60.0, lam=10.0)
        from psephos.parties.training import train_parties

        clear = [
            train_parties(X, y, [len(y)], classes=2, lam=20.0)[0] for X, y in records(sizes)
        ]  # objective (2): lambda ||w||^2
        scale = 2 / (30 * 60 * 10)
        np.testing.assert_allclose(outcome.parameters, np.mean(clear, axis=0), atol=60 * scale)


def test_ties_are_broken_evenly(played: list[PathakParty]) -> None:
    # Binomial(120, 1/3) is below 12 or above 80 with probability under 1e-8.
    chosen: Counter[int] = Counter()
    for _ in range(120):
        played.clear()
        outcome = play([5, 5, 5], features=1, variant="printed")
        base = sum(party.clear_values()[1][0] for party in played)
        noise = [party.clear_values()[2][0][0] for party in played]
        if len(set(noise)) == 3:
            chosen[noise.index(outcome.total[0] - base)] += 1
    assert sum(chosen.values()) > 110
    assert all(12 <= chosen[i] <= 80 for i in range(3)), chosen


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("comparisons", ["tournament", "all-pairs"])
def test_the_smallest_is_found_wherever_it_is(played: list[PathakParty], place: int, comparisons: str) -> None:
    sizes = [9, 9, 9, 9, 9]
    sizes[place] = 8
    outcome = play(sizes, variant="printed", comparisons=comparisons)
    base = sum(party.clear_values()[1][0] for party in played)
    assert outcome.total[0] - base == played[place].clear_values()[2][0][0]


# -- what travels


def by_kind(transcript: Transcript, kind: str) -> list[Any]:
    return [m for m in transcript.messages if m.kind == kind]


@pytest.mark.parametrize("variant", ["printed", "repaired"])
def test_every_message_is_in_the_transcript(variant: str) -> None:
    transcript = Transcript(secrets=True)
    outcome = play([4, 5, 6, 7], variant=variant, transcript=transcript)
    assert len(transcript.messages) == sum(entry["messages"] for entry in outcome.stages.values())
    assert sum(m.size for m in transcript.messages) == sum(entry["bytes"] for entry in outcome.stages.values())
    assert {m.phase for m in transcript.messages} == set(stage.STAGES)
    for number in range(5):
        view = transcript.view(role(number))
        assert view.received
        assert view.tape
    assert Transcript().redacted() == []
    play([4, 5, 6, 7], variant=variant, transcript=(redacted := Transcript()))
    assert all("data" not in m for m in redacted.redacted())


def test_the_channel_does_not_tell_charlie_the_permutation(played: list[PathakParty]) -> None:
    """DESIGN 5.5: every party sends Charlie one message from its own place, and none is one that another party made."""
    transcript = Transcript(secrets=True)
    play([4, 5, 6, 7, 8], variant="printed", transcript=transcript)
    width = KEYS.curator.public_key.ciphertext_bytes
    sealed = {m.data[-width:] for m in by_kind(transcript, "size share")}
    indexed = by_kind(transcript, "indexed share")
    assert [m.sender for m in indexed] == [role(n) for n in range(1, 6)]
    assert [m.receiver for m in indexed] == ["curator"] * 5
    assert not sealed & {m.data[-width:] for m in indexed}, "a sealed share travelled on as it came"
    senders = {m.sender: m.receiver for m in by_kind(transcript, "size share")}
    permutation = played[0]._permutation
    for number in range(1, 6):
        if permutation[number - 1] + 1 != number:
            assert senders[role(number)] == role(permutation[number - 1] + 1)


def test_masked_shares_are_new_ciphertexts_under_wide_masks(played: list[PathakParty]) -> None:
    transcript = Transcript(secrets=True)
    play([4, 5, 6], variant="printed", transcript=transcript)
    group = KEYS.group.public_key
    width = group.ciphertext_bytes
    out = [mpz.from_bytes(m.data[-width:], "little") for m in by_kind(transcript, "masked share")]
    came = [
        mpz.from_bytes(m.data[-width - KEYS.curator.public_key.ciphertext_bytes :][:width], "little")
        for m in by_kind(transcript, "indexed share")
    ]
    n, n2 = group.modulus, group.modulus_squared
    for c in out:
        for e in came:
            # A ratio with no randomness of its own is 1 + k n.
            assert c * gmpy2.invert(e, n2) % n2 % n != 1, "Charlie's answer is not re-randomised"
    values = [party._masked for party in played]
    assert max(abs(v) for v in values).bit_length() > MASK_BITS - 40


def test_every_party_votes_in_every_rung_alike(played: list[PathakParty]) -> None:
    """Zeros that kept the Jacobi symbol 1 would show the rung of the party (DESIGN section 3)."""
    transcript = Transcript(secrets=True)
    symbols: Counter[int] = Counter()
    for _ in range(6):
        outcome = play([4, 5, 6], variant="repaired", transcript=transcript)
    rungs, key = len(outcome.terms.ladder), KEYS.curator.public_key
    for message in by_kind(transcript, "rung vote"):
        payload = message.data[-rungs * key.ciphertext_bytes :]
        for at in range(0, len(payload), key.ciphertext_bytes):
            symbols[gmpy2.jacobi(mpz.from_bytes(payload[at : at + key.ciphertext_bytes], "little"), key.modulus)] += 1
    # 72 fair coins: fewer than 9 of either kind has probability below 1e-11.
    assert symbols.total() == 12 * rungs
    assert min(symbols[1], symbols[-1]) >= 9


@pytest.mark.parametrize("variant", ["printed", "repaired"])
def test_factors_are_not_powers_that_could_be_searched(played: list[PathakParty], variant: str) -> None:
    """DESIGN 5.4: with the exponent in hand, what a party sent is still no power of what it received."""
    transcript = Transcript(secrets=True)
    outcome = play([4, 5, 6], variant=variant, transcript=transcript)
    key = KEYS.curator.public_key
    plan = outcome.terms.plan(key)
    sent = by_kind(transcript, "noise factor")
    assert len(sent) == 2
    for party in played[1:]:
        noise = party.clear_values()[2]
        bases = (party._selected,) if variant == "printed" else party._rungs
        packed = [plan.pack([entry + outcome.terms.noise_bound for entry in row]) for row in noise]
        power = mpz(1)
        for base, row in zip(bases, packed, strict=True):
            power = power * gmpy2.powmod(base, row[0], key.modulus_squared) % key.modulus_squared
        payload = next(m.data for m in sent if m.sender == role(party.number))[
            -plan.ciphertexts * key.ciphertext_bytes :
        ]
        first = mpz.from_bytes(payload[: key.ciphertext_bytes], "little")
        assert first != power
        assert KEYS.curator.raw_decrypt(first) == KEYS.curator.raw_decrypt(power)


def test_charlie_decrypts_only_masked_noise(played: list[PathakParty], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    genuine = stage.PathakCurator.unmask

    def unmask(curator: Any) -> None:
        genuine(curator)
        seen.extend(curator._contribution)

    monkeypatch.setattr(stage.PathakCurator, "unmask", unmask)
    spread = []
    for _ in range(8):
        seen.clear()
        outcome = play([4, 5, 6], variant="printed", features=4)
        spread += [value.bit_length() for value in seen]
    # 32 masks of b bits: all below 2^(b - 8) with probability 2^-256; the noise alone is 80 bits narrower.
    assert max(spread) > outcome.terms.mask_bits - 8
    assert (2 * outcome.terms.noise_bound).bit_length() <= outcome.terms.mask_bits - 80


# -- what goes wrong on the way


def dropping(step: Step, sender: int) -> Callable[[Outgoing], list[bytes]]:
    return lambda message: [] if (message.step, message.sender) == (step, sender) else [message.data]


ONE_OF_EACH_STAGE = [
    (Step.PROPOSAL, CURATOR, "agreement"),
    (Step.GROUP_SECRET, 1, "agreement"),
    (Step.GROUP_KEY, 1, "agreement"),
    (Step.INDEXED_SHARE, 3, "stage 1"),
    (Step.MASKED_SHARE, CURATOR, "stage 1"),
    (Step.SELECTION, CURATOR, "stage 2"),
    (Step.RUNG_VOTE, 2, "stage 2"),
    (Step.RUNG_SELECTION, 1, "stage 2"),
    (Step.NOISE_FACTOR, 4, "stage 2"),
    (Step.MASKED_NOISE, 1, "stage 3"),
    (Step.RESHARE, 2, "stage 3"),
    (Step.RESHARE, CURATOR, "stage 3"),
    (Step.PUBLISHED_SHARE, 3, "publication"),
    (Step.PUBLISHED_SHARE, CURATOR, "publication"),
]


@pytest.mark.parametrize(("step", "sender", "name"), ONE_OF_EACH_STAGE)
def test_who_vanishes_is_named_with_the_stage(step: Step, sender: int, name: str) -> None:
    transcript = Transcript()
    with pytest.raises(PartyVanishedError, match=rf"^{role(sender)} vanished in {name}"):
        play([4, 5, 6, 7], intercept=dropping(step, sender), transcript=transcript)
    if name != "publication":
        assert not by_kind(transcript, "published share"), "something was published"


def test_who_vanishes_in_the_comparisons_is_named() -> None:
    def no_answers(message: Outgoing) -> list[bytes]:
        return [] if message.step in (Step.ANSWERS, Step.LENT_SHARE) else [message.data]

    with pytest.raises(PartyVanishedError, match=r"^party \d vanished in stage 1"):
        play([4, 5, 6, 7], intercept=no_answers)


@pytest.mark.parametrize("step", [s for s in Step if s is not Step.PROPOSAL])
def test_a_replayed_message_is_refused(step: Step) -> None:
    def twice(message: Outgoing) -> list[bytes]:
        return [message.data] * (2 if message.step is step else 1)

    def often() -> None:
        for _ in range(6):  # pi_1 may leave no size share to travel
            play([4, 5, 6, 7], intercept=twice)

    with pytest.raises(UnexpectedMessageError, match=r"replay|over"):
        often()


def test_a_message_of_an_earlier_step_is_refused() -> None:
    held: dict[tuple[int, int], bytes] = {}

    def repeat(message: Outgoing) -> list[bytes]:
        if message.step is Step.INDEXED_SHARE:
            held[message.sender, message.receiver] = message.data
        if message.step is Step.RESHARE and message.receiver == CURATOR:
            return [held[message.sender, CURATOR], message.data]
        return [message.data]

    with pytest.raises(UnexpectedMessageError, match="out of order"):
        play([4, 5, 6], intercept=repeat)


def test_reordered_messages_are_refused() -> None:
    held: list[bytes] = []

    def swap(message: Outgoing) -> list[bytes]:
        """P_1's group secret to P_2 arrives after its next message to P_2."""
        if message.sender == 1 and message.receiver == 2:
            if message.step is Step.GROUP_SECRET:
                held.append(message.data)
                return []
            return [message.data, *held]
        return [message.data]

    with pytest.raises((PartyVanishedError, UnexpectedMessageError)):
        play([4, 5, 6], intercept=swap)


def test_a_message_of_another_run_is_refused() -> None:
    kept: dict[tuple[Step, int, int], bytes] = {}

    def record(message: Outgoing) -> list[bytes]:
        kept.setdefault((message.step, message.sender, message.receiver), message.data)
        return [message.data]

    play([4, 5, 6], intercept=record, variant="printed")

    def replay(message: Outgoing) -> list[bytes]:
        if message.step is Step.NOISE_FACTOR:
            return [kept[message.step, message.sender, message.receiver]]
        return [message.data]

    with pytest.raises(UnexpectedMessageError, match="another run"):
        play([4, 5, 6], intercept=replay, variant="printed")


def test_a_misdelivered_message_is_refused() -> None:
    def swap(message: Outgoing) -> list[bytes]:
        data = message.data
        if message.step is Step.MASKED_SHARE:  # readdress 1 <-> 2 without touching the envelope
            return (
                [data] if message.receiver > 2 else [data[:45] + (3 - message.receiver).to_bytes(2, "big") + data[47:]]
            )
        return [data]

    with pytest.raises(UnexpectedMessageError, match="somebody else"):
        play([4, 5, 6], intercept=swap)


def tampering(step: Step, change: Callable[[bytes], bytes]) -> Callable[[Outgoing], list[bytes]]:
    return lambda message: [change(message.data) if message.step is step else message.data]


@pytest.mark.parametrize("step", [Step.RESHARE, Step.PUBLISHED_SHARE])
def test_a_share_out_of_range_is_named(step: Step) -> None:
    with pytest.raises(ShareRangeError):
        play([4, 5, 6], intercept=tampering(step, lambda data: data[:47] + b"\1" + data[48:]))


def test_a_lent_share_out_of_range_is_named() -> None:
    with pytest.raises(ShareRangeError):
        play([4, 5, 6], intercept=tampering(Step.LENT_SHARE, lambda data: data[:47] + b"\xff" + data[48:]))


def test_a_masked_share_out_of_range_is_named() -> None:
    def huge(data: bytes) -> bytes:
        key = KEYS.group.public_key
        c = Encryptor(key, "full").encrypt((mpz(1) << (MASK_BITS + 1),))[0]
        return data[: -key.ciphertext_bytes] + c.to_bytes(key.ciphertext_bytes, "little")

    with pytest.raises(ShareRangeError):
        play([4, 5, 6], intercept=tampering(Step.MASKED_SHARE, huge))


def test_a_sealed_share_out_of_range_is_named() -> None:
    def huge(data: bytes) -> bytes:
        key = KEYS.curator.public_key
        c = Encryptor(key, "full").encrypt((mpz(1) << 200,))[0]
        return data[: -key.ciphertext_bytes] + c.to_bytes(key.ciphertext_bytes, "little")

    with pytest.raises(ShareRangeError):
        play([4, 5, 6], intercept=tampering(Step.INDEXED_SHARE, huge))


@pytest.mark.parametrize("step", [Step.SELECTION, Step.RUNG_VOTE, Step.NOISE_FACTOR, Step.MASKED_NOISE])
def test_what_is_no_ciphertext_is_named(step: Step) -> None:
    width = KEYS.curator.public_key.ciphertext_bytes
    with pytest.raises(CiphertextError):
        play([4, 5, 6], intercept=tampering(step, lambda data: data[:-width] + bytes(width)))


@pytest.mark.parametrize("step", list(Step))
def test_a_truncated_message_is_named(step: Step) -> None:
    def often() -> None:
        for _ in range(6):  # pi_1 may leave no size share to travel
            play([4, 5, 6, 7], intercept=tampering(step, lambda data: data[:-1]))

    with pytest.raises((MessageError, CiphertextError, InvalidParameter)):
        often()


# -- bad input


def test_fewer_than_three_parties_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="at least 3"):
        terms_for([4, 5])


def test_a_party_without_usable_data_is_named() -> None:
    good = records([4, 5, 6])
    nothing = (np.zeros((0, 2)), np.zeros(0, int))
    with pytest.raises(DataError, match="party 2 has no data"):
        play([4, 5, 6], data=[good[0], nothing, good[2]])
    with pytest.raises(DataError, match="party 3 has samples of one class"):
        play([4, 5, 6], data=[good[0], good[1], (good[2][0], np.ones(6, int))])
    with pytest.raises(DataError, match="party 1"):
        play([4, 5, 6], data=[(good[0][0] * np.nan, good[0][1]), good[1], good[2]])
    with pytest.raises(DataError, match="labels"):
        play([4, 5, 6], data=[(good[0][0], good[0][1] * 2 - 1), good[1], good[2]])
    with pytest.raises(NormError, match="party 1"):
        play([4, 5, 6], data=[(good[0][0] * 3, good[0][1]), good[1], good[2]])
    with pytest.raises(DataError, match="4 to 40 samples"):
        play([3, 5, 6])


def test_parties_that_disagree_are_named() -> None:
    sizes = [4, 5, 6]
    agreed = terms_for(sizes)
    data = records(sizes)
    for change, word in (
        ({"lam": 0.2}, "lam"),
        ({"classes": ("no", "yes")}, "classes"),
        ({"features": 3}, "features"),
        ({"epsilon": 2.0}, "epsilon"),
        ({"variant": "printed"}, "variant"),
        ({"pitch_exponent": agreed.pitch_exponent - 1}, "pitch"),
    ):
        other = replace(agreed, **change)  # type: ignore[arg-type]
        brought = list(data)
        if "features" in change:
            brought[1] = records([5], 3)[0]
        with pytest.raises(AgreementError, match=rf"party 2.*{word}"):
            run_protocol(brought, agreed, party_terms=[agreed, other, agreed], keys=KEYS, test_key=True)
    with pytest.raises(AgreementError, match="party 2 has 3 features"):
        run_protocol([data[0], records([5], 3)[0], data[2]], agreed, keys=KEYS, test_key=True)


def test_a_party_under_another_group_key_is_named() -> None:
    """P_1 hands P_3 another key than everybody else."""
    other = generate_private_key(384, test_key=True)
    from psephos.protocol.pathak.messages import GroupSecret

    def swap(message: Outgoing) -> list[bytes]:
        if message.step is not Step.GROUP_SECRET or message.receiver != 3:
            return [message.data]
        places = [int.from_bytes(message.data[at : at + 2], "big") for at in range(47, 47 + 6, 2)]
        return [GroupSecret(tuple(places), other).send(message.data[9:41], 1, 3).data]

    with pytest.raises(AgreementError, match=r"party 3 .* group key"):
        play([4, 5, 6], intercept=swap)


def test_weak_and_short_keys_are_refused() -> None:
    with pytest.raises(WeakKeyError):
        run_protocol(records([4, 5, 6]), terms_for([4, 5, 6]), keys=KEYS)
    with pytest.raises(WeakKeyError):
        PathakKeys.generate(1024)
    short = generate_private_key(256, test_key=True)
    with pytest.raises(InvalidParameter):
        play([4, 5, 6], keys=replace(KEYS, curator=short))
    with pytest.raises(InvalidParameter):
        play([4, 5, 6], keys=replace(KEYS, group=short))
    small = generate_dgk_key(256, comparison_bits=32, test_key=True)
    with pytest.raises(InvalidParameter):
        play([4, 5, 6], keys=replace(KEYS, comparison=small))


def test_spherical_noise_is_for_the_printed_variant() -> None:
    with pytest.raises(InvalidParameter, match="spherical"):
        terms_for([4, 5, 6], variant="repaired", noise="spherical")


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    run_protocol(
        records([4, 5, 6]),
        terms_for([4, 5, 6]),
        keys=KEYS,
        test_key=True,
        progress=lambda name, done, steps: told.append((name, done, steps)),
    )
    assert list(dict.fromkeys(name for name, _, _ in told)) == list(stage.STAGES)
    assert all(1 <= done <= steps for _, done, steps in told)
    assert {name for name, done, steps in told if done == steps} == set(stage.STAGES)


# -- the job


@pytest.mark.parametrize(("variant", "noise"), VARIANTS)
def test_the_job_on_breast_cancer(variant: Any, noise: Any) -> None:
    def job() -> dict[str, Any]:
        return run_pathak(
            parties=3,
            variant=variant,
            noise=noise,
            epsilon=8.0,
            lam=0.01,
            smallest_size=100,
            largest_size=400,
            key_bits=512,
            test_key=True,
            simulate_noise=True,
        )

    result = job()
    assert json.loads(json.dumps(result)) == result
    assert result["protocol"] == f"pathak-{variant}"
    assert result["shares_equal_reference"] is True
    assert set(result["stages"]) == set(stage.STAGES)
    assert result["noise_source"] == "simulation"
    assert result["accuracy"]["average"] > 0.85
    assert job()["accuracy"] == result["accuracy"], "simulated noise repeats, ties included"


def test_the_job_refuses_more_classes() -> None:
    with pytest.raises(InvalidParameter, match="two classes"):
        run_pathak(dataset="digits")
