"""Holders that choose after they have seen what the others sent, or copy it; and what is sealed between two holders.

The scripted holder waits until all others have sent their message of a kind, and answers with knowledge of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from psephos.parties.ceremony import CeremonyHolder
from psephos.parties.ceremony_states import AGAIN, FIRST
from psephos.protocol.ceremony import pairs
from psephos.protocol.ceremony.replicated import SEED_BYTES, commitment
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.driver import Driver
from psephos.protocol.errors import CheatingError
from psephos.protocol.roles import Entry, Post, Role, Step
from psephos.protocol.wire import HEADER_BYTES, Kind, kind_of

TERMS = CeremonyTerms(128, 3, 2, bytes(32), test_key=True)
BODY = HEADER_BYTES + 5

Change = Callable[["LastSender", Any, Post, dict[str, bytes]], tuple[Any, Post]]
"""Of a held message: the holder, its inner state, the post, and the messages of its kind by sender; returns both."""


class LastSender(Role):
    """A holder that sends some messages when it has those of all others, changed."""

    reads = CeremonyHolder.reads

    def __init__(self, changes: dict[tuple[Kind, int], Change], inner: CeremonyHolder | None = None) -> None:
        self.inner, self.changes = inner or CeremonyHolder(TERMS, 2), changes
        self.name = self.inner.name

    def start(self) -> Step:
        return self._release(self.inner.start(), (), ())

    def receive(self, state: Any, entries: Sequence[Entry]) -> Step:
        held, waiting, seen = state
        return self._release(self.inner.receive(held, entries), waiting, (*seen, *entries))

    def result(self, state: Any) -> Any:
        return self.inner.result(state[0])

    def _release(self, step: Step, waiting: tuple[Post, ...], seen: tuple[Entry, ...]) -> Step:
        inner, posts, later = step.state, [], []
        for post in (*waiting, *step.posts):
            change = self.changes.get((kind_of(post.data), post.data[BODY - 1]))
            others = {e.sender: e.data for e in seen if e.data[:BODY] == post.data[:BODY] and e.sender != self.name}
            if change is None:
                posts.append(post)
            elif len(others) < self.inner.terms.holders - 1:
                later.append(post)
            else:
                inner, changed = change(self, inner, post, others)
                posts.append(changed)
        return replace(step, state=(inner, tuple(later), seen), posts=tuple(posts))


def copy(role: LastSender, inner: Any, post: Post, others: dict[str, bytes]) -> tuple[Any, Post]:
    """Send what holder 1 sent."""
    return inner, replace(post, data=others["holder 1"])


def change_bit(role: LastSender, inner: Any, post: Post, others: dict[str, bytes]) -> tuple[Any, Post]:
    """Change the value that was committed to."""
    data = bytearray(post.data)
    if len(data) > BODY:
        data[BODY] ^= 1
    return inner, replace(post, data=bytes(data))


def copy_first_commitment(role: LastSender, inner: Any, post: Post, others: dict[str, bytes]) -> tuple[Any, Post]:
    """Copy holder 1's commitment to its contribution to set {1, 2}, the first set of both."""
    copied = others["holder 1"][BODY : BODY + SEED_BYTES]
    return inner, replace(post, data=post.data[:BODY] + copied + post.data[BODY + SEED_BYTES :])


def copy_first_contribution(role: LastSender, inner: Any, post: Post, others: dict[str, bytes]) -> tuple[Any, Post]:
    """Send holder 1 the contribution that it sent, and go on as if it were one's own."""
    holder, state = role.inner, inner.state
    sealed = others["holder 1"][BODY:]
    secret = state.secrets[0]
    (common,) = holder._common_sets(1, 2)
    assert holder._sets_of(1)[0] == holder._sets_of(2)[0] == common
    contribution = holder._unsealed(state, Kind.SEED_CONTRIBUTIONS, 1, 2, secret, sealed)
    own = (contribution, *state.contributions[1:])
    material = replace(state, contributions=own)
    parts = {k: b"".join(own[holder._sets.index(s)] for s in holder._common_sets(2, k)) for k in (1, 3)}
    data = post.data[:BODY] + b"".join(holder._sealed(material, Kind.SEED_CONTRIBUTIONS, parts))
    return replace(inner, state=material), replace(post, data=data)


CHANGES: dict[str, dict[tuple[Kind, int], Change]] = {
    "other shares of n than committed to": {(Kind.MODULUS_SHARES, FIRST): change_bit},
    "other test values": {(Kind.TEST_VALUES, FIRST): change_bit},
    "other test values of the second stage": {(Kind.TEST_VALUES, AGAIN): change_bit},
    "holder 1's commitment and shares of n": {(Kind.COMMITMENT, FIRST): copy, (Kind.MODULUS_SHARES, FIRST): copy},
    "holder 1's commitment and test values of the second stage": {
        (Kind.COMMITMENT, AGAIN): copy,
        (Kind.TEST_VALUES, AGAIN): copy,
    },
    "holder 1's contribution to a seed": {
        (Kind.SEED_COMMITMENTS, FIRST): copy_first_commitment,
        (Kind.SEED_CONTRIBUTIONS, FIRST): copy_first_contribution,
    },
}


@pytest.mark.parametrize("what", CHANGES)
def test_who_sends_what_it_saw_of_others_is_named_by_all(what: str) -> None:
    """By the commitment, before anything is computed with the value: a value that is chosen well shows nowhere else."""
    driver = Driver(
        [CeremonyHolder(TERMS, 1), LastSender(CHANGES[what]), CeremonyHolder(TERMS, 3)],
        strict=False,
    )
    assert driver.run() == {}
    errors = {name: refusal.error for name, refusal in driver.refused if name != "holder 2"}
    assert errors.keys() == {"holder 1", "holder 3"}
    for error in errors.values():
        assert isinstance(error, CheatingError)
        assert re.match(r"holder 2 (opens other values|told holder 1 another value) than it committed to", str(error))


def test_a_commitment_to_a_seed_is_for_one_holder_and_one_set() -> None:
    seed = bytes(SEED_BYTES)
    assert len({commitment(seed, holder, place) for holder, place in product(range(12), repeat=2)}) == 144


def test_no_key_and_nonce_encrypt_two_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every two holders seal two messages in either direction, each under a key of its own."""
    sealed: list[tuple[bytes, bytes]] = []

    class Recording:
        """Records what is encrypted under which key and nonce."""

        def __init__(self, key: bytes) -> None:
            self.key, self.cipher = key, ChaCha20Poly1305(key)

        def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
            if data:  # without data a public key is tried, and nothing is sent
                sealed.append((self.key, nonce))
            return self.cipher.encrypt(nonce, data, associated_data)

        def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
            return self.cipher.decrypt(nonce, data, associated_data)

    monkeypatch.setattr(pairs, "ChaCha20Poly1305", Recording)
    Driver([CeremonyHolder(TERMS, j) for j in (1, 2, 3)]).run()
    assert len(sealed) == len(set(sealed)) == 3 * 2 * 2  # holders, receivers, kinds
