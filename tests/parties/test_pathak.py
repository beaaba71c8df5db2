"""A party in Pathak's protocol by itself: what it takes part with, what it agrees to, and each turn answered once.

Whole runs, and what goes wrong on the way, are in tests/psephos/simulation/test_pathak.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from psephos.parties.pathak import (
    AwaitingGroupSecret,
    AwaitingLentShares,
    ComparingSizes,
    PathakAgreement,
    PathakParty,
)
from psephos.protocol.errors import (
    AgreementError,
    DataError,
    InvalidParameter,
    MessageError,
    NormError,
    PackingError,
    UnexpectedMessageError,
    WeakKeyError,
)
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.pathak.dgk import generate_dgk_key
from psephos.protocol.pathak.messages import (
    KEYED_SIZE_BITS,
    LENT_BITS,
    GroupSecret,
    LentShare,
    Opponents,
    Proposal,
    Questions,
)
from psephos.protocol.pathak.noise import ROW_SLACK, weight_bound
from psephos.protocol.pathak.terms import PathakTerms
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import Entry, MachineState, Step
from psephos.protocol.wire import Kind, kind_of
from psephos.simulation.pathak import PathakKeys, make_terms

KEYS = PathakKeys(
    *(
        generate_private_key(448, test_key=True, randomness=SimulationRandomness(1, "curator")),
        generate_dgk_key(
            256, comparison_bits=KEYED_SIZE_BITS, test_key=True, randomness=SimulationRandomness(1, "dgk")
        ),
        generate_private_key(384, test_key=True, randomness=SimulationRandomness(1, "group")),
    )
)
X, Y = np.array([[0.6, 0.8], [0.0, 1.0], [-0.5, 0.0], [0.1, 0.1]]), np.array([0, 1, 1, 0])


def terms(**changes: Any) -> PathakTerms:
    agreed: dict[str, Any] = {"parties": 4, "features": 2, "lam": 0.1, "epsilon": 1.0, "variant": "repaired"}
    return make_terms(**(agreed | {"smallest_size": 4, "largest_size": 40} | changes))


TERMS = terms()


def party(number: int = 1, rows: Any = X, labels: Any = Y, agreed: PathakTerms = TERMS, **options: Any) -> PathakParty:
    return PathakParty(number, rows, labels, agreed, **({"test_key": True} | options))


def hears(role: PathakParty, state: Any, sender: str, data: bytes) -> Step:
    """What it does with one message; raises why it refused."""
    held = state if isinstance(state, MachineState) else MachineState(state)
    step = role.receive(held, [Entry(1, sender, role.name, data)])
    for refusal in step.refused:
        assert (step.state, step.posts) == (held, ())
        raise refusal.error
    return step


def proposed(agreed: PathakTerms, keys: PathakKeys = KEYS) -> bytes:
    public = (keys.curator.public_key, keys.comparison.public_key) if agreed.finds_smallest else None
    return Proposal(agreed, public).encode(agreed.digest)


# -- who takes part, and with what


@pytest.mark.parametrize("variant", ["printed", "repaired", "public-bound"])
def test_party_0_has_the_group_key(variant: str) -> None:
    agreed = terms(variant=variant)
    for number in (0, 1):
        for key in (KEYS.group, None):
            if (key is not None) == (number == 0 and variant != "public-bound"):
                party(number, agreed=agreed, group_key=key)
                continue
            with pytest.raises(InvalidParameter):
                party(number, agreed=agreed, group_key=key)


@pytest.mark.parametrize(
    ("rows", "labels", "error"),
    [
        *((X, labels, DataError) for labels in (Y.astype(float), Y == 1, Y + 1, Y[:, None], Y[:3])),
        *((rows, Y[: len(rows)], DataError) for rows in (X[0], X[None], np.where(X == 1, np.inf, X))),
        (X[:, :1], Y, AgreementError),
        (np.array([[1 + ROW_SLACK + 2.0**-50, 0.0]]), Y[:1], NormError),
    ],
)
def test_invalid_records_are_refused(rows: Any, labels: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        party(1, rows, labels)


def test_a_smaller_data_set_counts_as_one_of_the_smallest_size() -> None:
    """As with rows of zeros up to that size, which add a constant to the objective: no record has more influence."""
    agreed = terms(smallest_size=8)
    filled = party(rows=np.vstack([X, np.zeros((4, 2))]), labels=np.concatenate([Y, Y]), agreed=agreed)
    distance = np.abs(np.subtract(party(agreed=agreed)._parameters, filled._parameters)).max()
    assert distance <= 2 + 2 * agreed.tolerance / agreed.strong_convexity / agreed.pitch


def test_parameters_stay_in_their_slot() -> None:
    """Whatever a solver comes to: the modulus of the shares has room for no more."""

    class Far(PathakParty):
        def _train(self, samples: Any, targets: Any) -> Any:
            return np.array([1e6, -1e6])

    bound = weight_bound(TERMS)
    assert Far(1, X, Y, TERMS)._parameters == (bound, -bound)


# -- what it agrees to


def agrees(role: PathakParty, agreed: PathakTerms, keys: PathakKeys = KEYS) -> Step:
    return hears(role, role.start().state, "curator", proposed(agreed, keys))


def test_a_party_accepts_its_own_terms_only() -> None:
    role = party()
    step = agrees(role, TERMS)
    assert (step.posts, role.result(step.state)) == ((), None)
    assert isinstance(step.state.state, AwaitingGroupSecret)
    for other in (terms(), terms(epsilon=2.0), terms(variant="printed")):
        with pytest.raises(AgreementError):
            agrees(role, other)
    with pytest.raises(WeakKeyError):
        agrees(party(test_key=False), TERMS)


SHORT = generate_private_key(256, test_key=True)


def test_keys_without_room_are_refused_before_anything_is_sent() -> None:
    """For the masked shares 260 bits; for noise on a fine grid more."""
    fine = replace(terms(), pitch_exponent=-200)
    narrow = generate_private_key(260, test_key=True)
    nothing = (X[:0], Y[:0], fine)  # parameters would leave their 2^62 steps of such a grid
    for role, group in ((party(1, *nothing), None), (party(0, *nothing, group_key=KEYS.group), KEYS.group)):
        with pytest.raises(PackingError):
            agrees(role, fine, PathakKeys(narrow, KEYS.comparison, KEYS.group))
        with pytest.raises(InvalidParameter):
            agrees(role, fine, PathakKeys(SHORT, KEYS.comparison, KEYS.group))
        assert len(agrees(role, fine).posts) == (4 if group else 0) + (group is not None)
    with pytest.raises(InvalidParameter):
        agrees(party(0, group_key=SHORT), TERMS)
    role = party(2)
    state = agrees(role, TERMS).state
    with pytest.raises(InvalidParameter):
        hears(role, state, "party 0", GroupSecret((0, 1, 2, 3), SHORT).encode(TERMS.digest))
    with pytest.raises(UnexpectedMessageError):
        hears(role, state, "party 1", GroupSecret((0, 1, 2, 3), KEYS.group).encode(TERMS.digest))
    assert len(hears(role, state, "party 0", GroupSecret((0, 1, 2, 3), KEYS.group).encode(TERMS.digest)).posts) == 1


# -- the comparisons


MASKED = (5 << LENT_BITS) + 12345


def standing(role: PathakParty) -> ComparingSizes:
    agreed = PathakAgreement(TERMS, KEYS.curator.public_key, KEYS.comparison.public_key, (0, 1, 2, 3), KEYS.group)
    return ComparingSizes(agreed, MASKED)


def test_a_share_is_sent_once_per_round_with_low_bits_only() -> None:
    role = party()
    state: Any = standing(role)
    for turn, opponents in ((0, (0, 3)), (1, (2,))):
        step = hears(role, state, "curator", Opponents(turn, opponents).encode(TERMS.digest))
        assert [post.receiver for post in step.posts] == [f"party {number}" for number in opponents]
        assert {LentShare.decode(post.data, TERMS, turn).value for post in step.posts} == {12345}
        state = step.state
        for again in range(turn + 1):
            with pytest.raises(UnexpectedMessageError):
                hears(role, state, "curator", Opponents(again, (2,)).encode(TERMS.digest))
    with pytest.raises(MessageError):
        hears(role, standing(role), "curator", Opponents(0, (1, 2)).encode(TERMS.digest))


def questions(turn: int, *opponents: int) -> bytes:
    key = KEYS.comparison.public_key
    bits = tuple(key.encrypt([0] * KEYED_SIZE_BITS) for _ in opponents)
    return Questions(turn, opponents, bits, key).encode(TERMS.digest)


def test_comparisons_are_answered_once_per_round() -> None:
    role = party()
    waiting = hears(role, standing(role), "curator", questions(0, 0, 2))
    assert isinstance(waiting.state.state, AwaitingLentShares)
    assert waiting.posts == ()
    lent = LentShare(0, 7).encode(TERMS.digest)
    one = hears(role, waiting.state, "party 2", lent)
    with pytest.raises(UnexpectedMessageError):
        hears(role, one.state, "party 3", lent)
    step = hears(role, one.state, "party 0", lent)
    (post,) = step.posts
    assert (post.receiver, kind_of(post.data), step.state.state.answering_turn) == ("curator", Kind.ANSWERS, 0)
    with pytest.raises(UnexpectedMessageError):
        hears(role, step.state, "curator", questions(0, 0))
    late: Sequence[Any] = hears(role, step.state, "curator", questions(1, 0)).state.state.questions.opponents
    assert late == (0,)
