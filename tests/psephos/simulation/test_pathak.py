"""Pathak's protocol, all roles: the published shares are exactly right, and what goes wrong is named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import gmpy2
import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from psephos.audit.adversary import Change, Tampering, tampering
from psephos.audit.case_pathak import ZeroContributionParty
from psephos.parties.pathak import PathakParty
from psephos.protocol.errors import (
    AgreementError,
    CiphertextError,
    InvalidParameter,
    PartyVanishedError,
    ShareRangeError,
    UnexpectedMessageError,
    WeakKeyError,
)
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.pathak.dgk import generate_dgk_key
from psephos.protocol.pathak.messages import KEYED_SIZE_BITS, MASK_BITS, STAGES, GroupSecret
from psephos.protocol.pathak.noise import record_sensitivity
from psephos.protocol.pathak.terms import PathakTerms, participants, party_name
from psephos.protocol.roles import Entry, Post, Role
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import HEADER_BYTES, Kind, kind_of
from psephos.results.runs import PathakResult
from psephos.simulation.pathak import PathakKeys, PathakOptions, PathakRun, make_terms, run_protocol, simulate_pathak

KEYS = PathakKeys(
    generate_private_key(448, test_key=True),
    generate_dgk_key(256, comparison_bits=KEYED_SIZE_BITS, test_key=True),
    generate_private_key(384, test_key=True),
)
VARIANTS = ["public-bound", "printed", "repaired"]
PATHAK = [kind for kind in Kind if Kind.PROPOSAL <= kind <= Kind.PUBLISHED_SHARE]


def records(sizes: Sequence[int], features: int = 2, seed: int = 0) -> list[tuple[Any, Any]]:
    generator = np.random.default_rng(seed)
    data = []
    for n in sizes:
        X = generator.normal(size=(n, features))
        data.append((X / (1.01 * np.linalg.norm(X, axis=1).max()), np.arange(n) % 2))
    return data


def terms_for(sizes: Sequence[int], features: int = 2, **changes: Any) -> PathakTerms:
    options: dict[str, Any] = {
        "parties": len(sizes),
        "features": features,
        "lam": 0.1,
        "epsilon": 1.0,
        "smallest_size": 4,
        "largest_size": 40,
        "variant": "repaired",
    }
    return make_terms(**(options | changes))


def play(sizes: Sequence[int], *, features: int = 2, seed: int = 0, **given_: Any) -> PathakRun:
    """Run the protocol under test keys; `change` applies to every message, `everybody` replaces every role."""
    passed = {name: given_.pop(name) for name in ("roles", "transcript", "progress") if name in given_}
    data, keys = given_.pop("data", None) or records(sizes, features, seed), given_.pop("keys", KEYS)
    change: Change | None = given_.pop("change", None)
    everybody: Callable[[Role], Role] | None = given_.pop("everybody", None)
    terms = terms_for(sizes, features, **given_)
    if change is not None:
        everybody = partial(Tampering, change=change)
    if everybody is not None:
        passed["roles"] = dict.fromkeys(participants(terms), everybody)
    return run_protocol(data, terms, keys if terms.finds_smallest else None, test_key=True, **passed)


def noise_of(run: PathakRun) -> list[int]:
    """The opened sum less the parameters."""
    clear = run.contributions.values()
    return [t - sum(w) for t, *w in zip(run.total, *(c.parameters for c in clear), strict=True)]


# -- the sum


@pytest.mark.parametrize("variant", VARIANTS)
def test_published_shares_are_k_times_average_plus_noise(variant: str) -> None:
    @settings(max_examples=12, deadline=None)
    @given(
        sizes=st.lists(st.sampled_from([1, 4, 5, 6, 7, 12, 13, 40, 50]), min_size=3, max_size=6),
        comparisons=st.sampled_from(["tournament", "all-pairs"]),
        seed=st.integers(0, 9),
    )
    def check(sizes: list[int], comparisons: str, seed: int) -> None:
        run = play(sizes, seed=seed, variant=variant, comparisons=comparisons)
        # Computed here again, from the parties themselves.
        clear, counted = list(run.contributions.values()), [min(max(n, 4), 40) for n in sizes]
        assert [c.size for c in clear] == counted
        if variant == "printed":
            expected = [list(c.noise[0]) for c in clear if c.size == min(counted)]
        else:
            bucket = max(i for i, least in enumerate(run.terms.buckets) if least <= min(counted))
            place = bucket if variant == "repaired" else 0
            expected = [[sum(column) for column in zip(*(c.noise[place] for c in clear), strict=True)]]
        assert noise_of(run) in expected
        assert run.shares_equal_reference
        np.testing.assert_allclose(
            run.parameters, np.array(run.total, float) * run.terms.pitch / len(sizes), rtol=1e-15
        )

    check()


def test_the_reference_detects_a_changed_contribution() -> None:
    run = play([4, 5, 6], variant="public-bound")
    first = run.contributions["party 0"]
    other = replace(first, parameters=(first.parameters[0] + 1, *first.parameters[1:]))
    assert not replace(run, contributions={**run.contributions, "party 0": other}).shares_equal_reference
    assert not replace(run, contributions={"party 0": first}).shares_equal_reference


# -- no party's data decide whether it takes part (issue 17, claim 1)


@pytest.mark.parametrize("variant", VARIANTS)
def test_runs_with_unusual_records_have_messages_of_equal_length(variant: str) -> None:
    """One class, no record at all, fewer than the bound or more: it runs, and everything that travels is as long."""
    data = records([5, 6, 7])
    (X, y), lengths = data[0], []
    for first in ((X, y), (X, np.zeros(5, int)), (X[:0], y[:0]), (X[:1], y[:1]), (np.tile(X, (20, 1)), np.tile(y, 20))):
        transcript = Transcript()
        run = play([5, 6, 7], data=[first, *data[1:]], variant=variant, transcript=transcript)
        assert run.shares_equal_reference
        lengths.append({(m.kind, m.size) for m in transcript.messages if m.kind not in ("size share", "proposal")})
    if variant == "public-bound":
        assert all(run_lengths == lengths[0] for run_lengths in lengths)


def test_one_record_moves_the_parameters_by_at_most_the_sensitivity() -> None:
    """With the bound's size in the objective, records may come and go below it, and above."""
    terms, generator = terms_for([5, 5, 5], variant="public-bound", lam=0.05, smallest_size=6), np.random.default_rng(1)
    bound, worst = record_sensitivity(terms, 6) / terms.pitch + np.sqrt(2), 0.0
    X = generator.normal(size=(9, 2))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = generator.integers(0, 2, 9)

    def parameters(rows: Any, labels: Any) -> Any:
        party = PathakParty(2, rows, labels, terms)
        return np.array(party._parameters, float)

    for n in range(9):
        before = parameters(X[:n], y[:n])
        moves = [
            parameters(X[: n + 1], y[: n + 1]),
            *(parameters(X[:n], np.r_[1 - y[:1], y[1:n]]) for _ in range(n > 0)),
        ]
        worst = max(worst, *(float(np.linalg.norm(after - before)) for after in moves))
    assert 0.2 * bound < worst <= bound


# -- what travels


def by_kind(transcript: Transcript, kind: str) -> list[Any]:
    return [m for m in transcript.messages if m.kind == kind]


def test_the_channel_hides_the_permutation_from_charlie() -> None:
    """Every party sends Charlie one message from its own place, and none is one that another party made
    (docs/security/index.md, finding 5)."""
    transcript = Transcript(secrets=True)
    play([4, 5, 6, 7, 8], variant="printed", transcript=transcript)
    width = KEYS.curator.public_key.ciphertext_bytes
    sealed = {m.data[-width:] for m in by_kind(transcript, "size share")}
    indexed = by_kind(transcript, "indexed share")
    assert sorted(m.sender for m in indexed) == [party_name(n) for n in range(5)]
    assert [m.receiver for m in indexed] == ["curator"] * 5
    assert not sealed & {m.data[-width:] for m in indexed}, "a sealed share travelled on as it came"


def test_votes_for_buckets_have_equal_form() -> None:
    """Zeros that kept the Jacobi symbol 1 would show the bucket of the party (docs/design.md, section 3)."""
    transcript = Transcript(secrets=True)
    symbols: Counter[int] = Counter()
    for _ in range(6):
        run = play([4, 5, 6], variant="repaired", transcript=transcript)
    buckets, key = len(run.terms.buckets), KEYS.curator.public_key
    for message in by_kind(transcript, "bucket vote"):
        payload = message.data[-buckets * key.ciphertext_bytes :]
        for at in range(0, len(payload), key.ciphertext_bytes):
            symbols[gmpy2.jacobi(mpz.from_bytes(payload[at : at + key.ciphertext_bytes], "little"), key.modulus)] += 1
    # 72 fair coins: fewer than 9 of either kind has probability below 1e-11.
    assert symbols.total() == 12 * buckets
    assert min(symbols[1], symbols[-1]) >= 9


# -- what goes wrong on the way


def dropping(kind: Kind) -> Change:
    return lambda post, seen: [] if kind_of(post.data) is kind else [post]


DROPPED = [
    ("repaired", Kind.PROPOSAL, "curator"),
    ("repaired", Kind.GROUP_SECRET, "party 0"),
    ("repaired", Kind.MASKED_SHARE, "curator"),
    ("repaired", Kind.BUCKET_VOTE, "party 1"),
    ("repaired", Kind.NOISE_FACTOR, "party 3"),
    *(
        ("public-bound", kind, sender)
        for kind in (Kind.RESHARE, Kind.PUBLISHED_SHARE)
        for sender in ("party 1", "curator")
    ),
]


@pytest.mark.parametrize(("variant", "kind", "sender"), DROPPED)
def test_a_vanished_party_and_its_message_are_named(variant: str, kind: Kind, sender: str) -> None:
    transcript = Transcript()
    with pytest.raises(PartyVanishedError, match=sender):
        play([4, 5, 6, 7], roles=tampering(dropping(kind), sender), transcript=transcript, variant=variant)
    if kind is not Kind.PUBLISHED_SHARE:
        # The share of who vanished, by itself, is uniform.
        assert {m.sender for m in by_kind(transcript, "published share")} <= {sender}, "something was published"


# A lent share that nobody asked for is kept until it is due, which a second one never is.
@pytest.mark.parametrize("kind", [kind for kind in PATHAK if kind is not Kind.LENT_SHARE])
def test_a_replayed_message_is_refused(kind: Kind) -> None:
    def twice(post: Post, seen: Sequence[Entry]) -> list[Post]:
        return [post] * (2 if kind_of(post.data) is kind else 1)

    def often() -> None:
        for _ in range(6):  # pi_1 may leave no size share to travel
            play([4, 5, 6, 7], change=twice)

    with pytest.raises(UnexpectedMessageError, match=r"twice|replay|out of order"):
        often()


def rewriting(kind: Kind, change: Callable[[bytes], bytes]) -> Change:
    def changed(post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        return [replace(post, data=change(post.data)) if kind_of(post.data) is kind else post]

    return changed


def byte(value: int, at: int = 0) -> Callable[[bytes], bytes]:
    place = HEADER_BYTES + at
    return lambda data: data[:place] + bytes([value]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("kind", "change"),
    [(Kind.RESHARE, byte(1)), (Kind.PUBLISHED_SHARE, byte(1)), (Kind.LENT_SHARE, byte(255, at=1))],
)
def test_a_share_out_of_range_is_named(kind: Kind, change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ShareRangeError):
        play([4, 5, 6], change=rewriting(kind, change))


@pytest.mark.parametrize(
    ("kind", "key", "bits"),
    [
        (Kind.MASKED_SHARE, KEYS.group.public_key, MASK_BITS + 1),
        (Kind.INDEXED_SHARE, KEYS.curator.public_key, 200),
    ],
)
def test_a_sealed_value_out_of_range_is_named(kind: Kind, key: PublicKey, bits: int) -> None:
    def huge(data: bytes) -> bytes:
        c = Encryptor(key, "full").encrypt((mpz(1) << bits,))[0]
        return data[: -key.ciphertext_bytes] + c.to_bytes(key.ciphertext_bytes, "little")

    with pytest.raises(ShareRangeError):
        play([4, 5, 6], change=rewriting(kind, huge))


@pytest.mark.parametrize("kind", [Kind.SELECTION, Kind.BUCKET_VOTE, Kind.NOISE_FACTOR, Kind.MASKED_NOISE])
def test_an_invalid_ciphertext_is_named(kind: Kind) -> None:
    width = KEYS.curator.public_key.ciphertext_bytes
    with pytest.raises(CiphertextError):
        play([4, 5, 6], change=rewriting(kind, lambda data: data[:-width] + bytes(width)))


# -- bad input


@pytest.mark.parametrize(("change", "word"), [({"lam": 0.2}, "lam"), ({"variant": "public-bound"}, "variant")])
def test_parties_that_disagree_are_named(change: dict[str, Any], word: str) -> None:
    other = replace(terms_for([4, 5, 6]), **change)
    X, y = records([5], other.features)[0]
    with pytest.raises(AgreementError, match=rf"party 1.*{word}"):
        play([4, 5, 6], roles={"party 1": lambda honest: PathakParty(1, X, y, other, test_key=True)})


def test_a_party_under_another_group_key_is_named() -> None:
    """Party 0 hands party 2 another key than everybody else."""
    other, terms = generate_private_key(384, test_key=True), terms_for([4, 5, 6])

    def swap(post: Post, seen: Sequence[Entry]) -> list[Post]:
        if kind_of(post.data) is not Kind.GROUP_SECRET or post.receiver != "party 2":
            return [post]
        secret = GroupSecret.decode(post.data, terms, test_key=True)
        return [replace(post, data=replace(secret, private_key=other).encode(terms.digest))]

    with pytest.raises(AgreementError, match=r"party 2 .* group key"):
        run_protocol(records([4, 5, 6]), terms, KEYS, test_key=True, roles=tampering(swap, "party 0"))


def test_weak_and_unsuitable_keys_are_refused() -> None:
    with pytest.raises(WeakKeyError):
        run_protocol(records([4, 5, 6]), terms_for([4, 5, 6]), KEYS)
    with pytest.raises(WeakKeyError):
        PathakKeys.generate(1024)
    short = generate_private_key(256, test_key=True)
    small = generate_dgk_key(256, comparison_bits=32, test_key=True)
    for keys in (replace(KEYS, curator=short), replace(KEYS, group=short), replace(KEYS, comparison=small), None):
        with pytest.raises(InvalidParameter):
            play([4, 5, 6], keys=keys)
    with pytest.raises(InvalidParameter):
        run_protocol(records([4, 5, 6]), terms_for([4, 5, 6], variant="public-bound"), KEYS, test_key=True)


# -- the job


@pytest.mark.parametrize("variant", VARIANTS)
def test_simulation_on_breast_cancer(variant: Any) -> None:
    options = PathakOptions(
        parties=3,
        variant=variant,
        epsilon=8.0,
        lam=0.01,
        largest_size=400,
        key_bits=512,
        test_key=True,
        simulate_noise=True,
    )
    result = simulate_pathak(options)
    assert PathakResult.from_json(result.as_json()) == result
    assert result.protocol == f"pathak-{variant}"
    assert result.exact is True
    assert set(result.phases) - {"keygen"} == set(
        STAGES if variant != "public-bound" else ("agreement", "stage 3", "publication")
    )
    assert result.noise_source == "simulation"
    nonprivate = result.accuracy["pathak"].nonprivate
    assert nonprivate is not None
    assert nonprivate > 0.85
    # What one dishonest role can do stands first; there is no key to warn of with a public size.
    assert ("public-bound" in result.page().texts("warning")[0]) == (variant != "public-bound")
    assert any("test key" in warning for warning in result.page().texts("warning")) == (variant != "public-bound")
    assert simulate_pathak(options).accuracy == result.accuracy, "simulated noise repeats, ties included"


def test_the_default_variant_withstands_a_liar() -> None:
    assert PathakOptions().variant == "public-bound"
    assert simulate_pathak(PathakOptions()).cautions == []


# -- liars (issue 14, item 6)


def test_a_liar_removes_only_its_own_noise() -> None:
    """With noise for a public size: what is published is covered by every honest party's whole share."""
    run = play(
        [20, 30, 25, 22],
        variant="public-bound",
        roles={"party 1": ZeroContributionParty},
    )
    honest = [c for name, c in run.contributions.items() if name != "party 1"]
    columns = zip(*(c.parameters for c in honest), *(c.noise[0] for c in honest), strict=True)
    assert list(run.total) == [sum(column) for column in columns]
    assert any(sum(column) for column in zip(*(c.noise[0] for c in honest), strict=True))
