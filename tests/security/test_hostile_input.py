"""Hostile input to every decoder and every round function: a named error or the right answer, never anything else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import example, given, settings
from hypothesis import strategies as st

from psephos.audit import case_psgd
from psephos.audit.adversary import tampering
from psephos.audit.case_pathak import keys_of, records_of
from psephos.audit.model import AnalysisContext
from psephos.audit.settings import FixedVoter, make_setting
from psephos.parties.holder import KeyHolder
from psephos.protocol.encrypted_sum.messages import Ballot, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.opened import open_product
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.errors import PartyVanishedError, PsephosError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts
from psephos.protocol.pathak.comparison import Answer, answer, conclude
from psephos.protocol.pathak.dgk import generate_dgk_key
from psephos.protocol.pathak.terms import participants
from psephos.protocol.psgd.series import Announcement
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import BOARD, Entry, Post, Step
from psephos.protocol.transcript import Transcript
from psephos.protocol.wire import HEADER_BYTES, Kind, kind_of
from psephos.simulation.pathak import make_terms, run_protocol
from tests.security.lab.fuzzing import DECODERS, AcceptedError, Decoder, attempt, decoders, mutate, run_tally_round

seeds = st.integers(0, 2**64 - 1)


def test_every_kind_of_message_is_decoded() -> None:
    assert sorted(decoders()) == DECODERS


@pytest.mark.parametrize("name", DECODERS)
def test_valid_messages_are_accepted(name: str) -> None:
    decoder = decoders()[name]
    assert decoder.samples
    for sample in decoder.samples[:3]:
        # The last of the opened seeds, and a complaint, show who lied, and that is their error.
        assert attempt(decoder, sample) is not (name in ("opened seeds", "complaint"))


@pytest.mark.parametrize("name", DECODERS)
@given(seed=seeds)
def test_decoders_with_changed_messages(name: str, seed: int) -> None:
    decoder = decoders()[name]
    chance = random.Random(seed)
    attempt(decoder, mutate(chance.choice(decoder.samples), decoder.samples, chance))


@pytest.mark.parametrize("byte", [b"\0", b"\xff"])
@pytest.mark.parametrize("name", DECODERS)
def test_decoders_with_a_body_of_one_byte(name: str, byte: bytes) -> None:
    """From the session on, and from some way into the body on."""
    decoder = decoders()[name]
    for sample in decoder.samples[:2]:
        for length in (HEADER_BYTES, HEADER_BYTES + 5, len(sample) // 2):
            attempt(decoder, sample[:length] + byte * (len(sample) - length))


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=30)
@given(data=st.binary(max_size=400))
@example(b"")
@example(b"\0")
@example(b"PSEPHOS\x01")
def test_decoders_with_random_bytes(name: str, data: bytes) -> None:
    attempt(decoders()[name], data)


def test_second_encodings_are_detected() -> None:
    with pytest.raises(AcceptedError):
        attempt(Decoder("sloppy", (b"a",), lambda data: data.strip(b"\0")), b"a\0")


# -- round functions: the tally


@cache
def setting() -> SimpleNamespace:
    context = AnalysisContext(seed=99, views=1)
    made = make_setting(context.coins("hostile"))
    auxiliary = np.random.default_rng(99).normal(size=(25, 2))
    voters = [FixedVoter((np.arange(25) + p) % 3) for p in range(5)]
    run = run_tally_round(context, made, auxiliary, 3, voters, "hostile")
    messages = {kind: [m.data for m in run.transcript.messages if m.kind == kind] for kind in ("ballot",)}
    parts = [m.data for m in run.transcript.messages if m.kind == "partial decryption"]
    return SimpleNamespace(make_setting=made, run=run, round=run.round, ballots=messages["ballot"], parts=parts)


def say(holder: KeyHolder, state: Any, *messages: bytes) -> Step:
    return holder.receive(state, [Entry(n, "somebody", "board", data) for n, data in enumerate(messages, start=1)])


@given(seed=seeds)
def test_a_changed_ballot_does_not_change_the_tally(seed: int) -> None:
    w, chance = setting(), random.Random(seed)
    changed = mutate(w.ballots[0], w.ballots, chance)
    holder = KeyHolder(w.make_setting.ceremony.shares[0], w.round)
    before = say(holder, holder.start().state, *w.ballots[1:]).state
    after = say(holder, before, changed)
    if changed != w.ballots[0]:
        # Signatures bind every byte that counts; Ed25519 has one valid signature here for each.
        assert len(after.refused) == 1
        assert after.state == before


@given(
    members=st.integers(0, 2**7 - 1),
    digest=st.one_of(st.binary(min_size=32, max_size=32), st.just(None)),
    round_digest=st.one_of(st.binary(min_size=32, max_size=32), st.just(None)),
)
def test_holders_open_their_own_product_or_nothing(
    members: int, digest: bytes | None, round_digest: bytes | None
) -> None:
    w = setting()
    holder = KeyHolder(w.make_setting.ceremony.shares[0], w.round)
    state = say(holder, holder.start().state, *w.ballots).state
    product, _ = BallotProduct(w.round).add_all(w.ballots)
    request = TallyRequest(round_digest or w.round.digest, members, digest or product.digest).encode(w.round)
    step = say(holder, state, request)
    if step.refused:
        assert not step.posts
        return
    assert members == 2**5 - 1
    part = PartialDecryption.decode(step.posts[0].data, w.round)
    assert part.values == w.make_setting.ceremony.shares[0].partially_decrypt(product.vector().ciphertexts)


@given(seed=seeds)
def test_a_changed_partial_decryption_never_opens_to_something_else(seed: int) -> None:
    w, chance = setting(), random.Random(seed)
    product, _ = BallotProduct(w.round).add_all(w.ballots)
    encoded = [*w.parts]
    place = chance.randrange(len(encoded))
    encoded[place] = mutate(encoded[place], w.parts, chance)
    try:
        opened = open_product(product, [PartialDecryption.decode(data, w.round) for data in encoded])
    except PsephosError:
        return
    assert opened.sums == w.run.opened.sums


# -- round functions: gradient descent


@cache
def descent() -> AnalysisContext:
    """Whose keys are made once."""
    return AnalysisContext(seed=98, views=1)


@given(seed=seeds)
def test_a_party_answers_its_own_step_or_refuses(seed: int) -> None:
    chance = random.Random(seed)
    context = descent()
    agreement = case_psgd.agreement_of(context, "hostile")
    party = case_psgd.party_of(context, agreement, 0, SimulationRandomness(1))
    terms = case_psgd.terms_of(context, agreement)
    sample = Announcement.create(terms, 1, (0.0, 0.0), SimulationRandomness(2)).encode()
    heard = mutate(sample, [sample], chance)
    step = party.receive(party.start().state, [Entry(1, "curator", BOARD, heard)])
    assert len(step.posts) + len(step.refused) == 1
    for post in step.posts:
        ballot = Ballot.decode(post.data, terms.round(Announcement.decode(heard, terms)))
        assert ballot.encode() == post.data


# -- round functions: the comparison


@settings(max_examples=60)
@given(
    questions=st.lists(st.integers(1, 2**128), min_size=2, max_size=4),
    share=st.integers(-(2**20), 2**20),
    bit=st.integers(0, 1),
)
def test_comparisons_end_in_a_bit_or_a_named_error(questions: list[int], share: int, bit: int) -> None:
    key = tiny_key()
    public = key.public_key
    question = tuple(mpz(q) % public.n for q in questions)
    try:
        check_ciphertexts(public, question)
        given_answers = answer(public, [share], [question], bits=2, randomness=SimulationRandomness(share))
    except PsephosError:
        return
    try:
        concluded = conclude(key, [1], [Answer(given_answers[0].ciphertexts, bit)], bits=2)
    except PsephosError:
        return
    assert concluded in ([True], [False])


@cache
def tiny_key():  # type: ignore[no-untyped-def]
    return generate_dgk_key(128, comparison_bits=2, test_key=True, randomness=SimulationRandomness(5))


# -- Pathak: every role, every stage


@pytest.mark.slow
@given(seed=seeds, variant=st.sampled_from(["public-bound", "printed", "repaired"]))
def test_a_changed_message_stops_a_run_by_name_or_changes_nothing_but_numbers(seed: int, variant: str) -> None:
    chance = random.Random(seed)
    context = AnalysisContext(seed=97, views=1)
    terms = make_terms(
        parties=4,
        features=2,
        lam=0.1,
        epsilon=1.0,
        tolerance=1e-6,
        variant=variant,  # type: ignore[arg-type]
        smallest_size=16,
        largest_size=32,
    )
    target, others = chance.randrange(60), list[bytes]()
    count = iter(range(10_000))

    def change(post: Post, seen: Sequence[Entry]) -> list[Post]:
        others.append(post.data)
        if next(count) != target:
            return [post]
        kind = chance.randrange(4)
        if kind < 2:
            return [post] * 2 * kind
        return [replace(post, data=mutate(post.data, others, chance))]

    try:
        outcome = run_protocol(
            records_of(context, "honest"),
            terms,
            keys_of(context) if terms.finds_smallest else None,
            test_key=True,
            roles=tampering(change, *participants(terms)),
        )
    except PsephosError:
        return
    assert np.isfinite(outcome.parameters).all()


def test_secrets_of_a_stopped_run_are_not_in_its_error() -> None:
    """The error names two roles and a message; the transcript of a redacted run keeps no bytes."""
    context = AnalysisContext(seed=96, views=1)
    options: dict[str, Any] = {"lam": 0.1, "epsilon": 1.0, "smallest_size": 16, "largest_size": 32}
    terms = make_terms(parties=4, features=2, variant="repaired", tolerance=1e-6, **options)
    transcript = Transcript()

    def drop(post: Post, seen: Sequence[Entry]) -> list[Post]:
        return [] if kind_of(post.data) is Kind.NOISE_FACTOR else [post]

    with pytest.raises(PartyVanishedError, match="party 0 waits for the noise factor of party 1,") as caught:
        run_protocol(
            records_of(context, "honest"),
            terms,
            keys_of(context),
            test_key=True,
            transcript=transcript,
            roles=tampering(drop, "party 1"),
        )
    assert not any(character.isdigit() and character not in "01" for character in str(caught.value))
    assert all(message.data is None for message in transcript.messages)
    assert replace(transcript.messages[0]).data is None
