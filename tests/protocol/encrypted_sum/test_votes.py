"""Votes as vectors: K - 1 entries per sample, without class 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.errors import DataError, InvalidParameter, WrongPartialDecryptionError


@given(st.data(), st.integers(1, 12), st.integers(2, 6), st.integers(1, 8))
def test_sums_of_votes_are_counts(data: st.DataObject, samples: int, classes: int, parties: int) -> None:
    layout = VoteLayout(samples, classes)
    row = st.lists(st.integers(0, classes - 1), min_size=samples, max_size=samples)
    votes = np.array(data.draw(st.lists(row, min_size=parties, max_size=parties)))
    sums = np.sum([layout.encode(v).astype(int) for v in votes], axis=0)
    counts = layout.decode(sums.tolist(), parties)
    assert counts.shape == (samples, classes)
    assert (counts == [[(votes[:, i] == k).sum() for k in range(classes)] for i in range(samples)]).all()


@pytest.mark.parametrize(
    "votes",
    [[0, 1], [[0, 1, 2]], [0.0, 1.0, 2.0], [True, False, True], [0, 1, 3], [0, 1, -1], ["0", "1", "2"], []],
)
def test_invalid_votes_are_rejected(votes: Any) -> None:
    with pytest.raises(DataError):
        VoteLayout(3, 3).encode(np.array(votes))


@pytest.mark.parametrize("sums", [[-1, 0, 0, 0], [3, 3, 0, 0], [6, 0, 0, 0]])
def test_impossible_counts_are_rejected(sums: list[int]) -> None:
    with pytest.raises(WrongPartialDecryptionError):
        VoteLayout(2, 3).decode(sums, 5)


def test_the_digest_of_an_auxiliary_set_covers_content_and_shape() -> None:
    X = np.arange(12.0).reshape(4, 3)
    digest = AuxiliarySet(X).digest
    assert digest == AuxiliarySet(np.asfortranarray(X)).digest == AuxiliarySet(X.tolist()).digest
    changed = X.copy()
    changed[3, 2] = np.nextafter(changed[3, 2], 99)
    others = [X.reshape(3, 4), X.reshape(2, 6), X[::-1], X[:, ::-1], X[:3], changed]
    assert len({digest, *(AuxiliarySet(other).digest for other in others)}) == 7
    assert len(digest) == 32


@pytest.mark.parametrize(
    "bad", [[], [[]], [1.0], np.zeros((0, 3)), [[np.nan]], [[np.inf, 0.0]], "abc", [["a"]], [[1], [1, 2]], None]
)
def test_empty_and_non_numeric_auxiliary_sets_are_rejected(bad) -> None:
    with pytest.raises(DataError):
        AuxiliarySet(bad)


def test_the_context_covers_the_order_of_the_classes() -> None:
    public = AuxiliarySet([[1.0]])
    contexts = [public.context(c) for c in (("neg", "pos"), ("pos", "neg"), ("neg", "pos", "x"), ("n", "egpos"))]
    assert len(set(contexts)) == 4
    assert public.context(range(2)) == public.context([0, 1])


def test_a_salted_context_does_not_confirm_a_guess_of_the_samples() -> None:
    """The public context of a round does not confirm a guess of protected samples without the salt."""
    secret, guess = AuxiliarySet(np.eye(3), b"s" * 32), AuxiliarySet(np.eye(3))
    assert secret.context(range(2)) != guess.context(range(2))
    assert secret.context(range(2)) != AuxiliarySet(np.eye(3), b"t" * 32).context(range(2))
    assert secret.context(range(2)) == AuxiliarySet(np.eye(3), b"s" * 32).context(range(2))
    assert secret.digest == guess.digest  # a party recognises samples it has voted on under any salt
    assert secret.digest.hex()[:12] not in repr(secret)
    for length in (1, 5, 31, 33):
        with pytest.raises(InvalidParameter):
            AuxiliarySet(np.eye(3), bytes(length))


def test_equal_auxiliary_sets_have_the_same_digest() -> None:
    """The digest is what a party remembers having voted on."""
    one, other = np.array([[0.0, 1.0]]), np.array([[-0.0, 1.0]])
    assert np.array_equal(one, other)
    assert AuxiliarySet(one).digest == AuxiliarySet(other).digest
    assert AuxiliarySet(one).digest != AuxiliarySet([[1.0, 0.0]]).digest
