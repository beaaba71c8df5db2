"""What the proofs of validity and of bounds share: fresh masks and salts, paths of one length, and the hash chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from psephos.audit.rounds import short_key
from psephos.protocol.errors import ProofError
from psephos.protocol.proofs import bounded, codewords, validity
from psephos.protocol.proofs.codewords import SALT_BYTES, ChallengeChain, CommittedMatrix, Verification
from psephos.protocol.proofs.knowledge import mask_bits
from psephos.protocol.proofs.merkle import HASH_BYTES, MerkleTree, opened_root
from psephos.protocol.randomness import SYSTEM
from tests.protocol.proofs import test_bounded, test_validity

MODULES = [validity, bounded]


def layout_of(module: ModuleType) -> validity.Layout | bounded.BoundedLayout:
    return test_validity.Ballot(short_key(), 2).layout if module is validity else test_bounded.layout_of(short_key())


def proof_of(module: ModuleType) -> tuple[Any, Callable[[bytes], None], bytes]:
    """Return the layout, the verification, and a proof of one ballot."""
    if module is validity:
        ballot = test_validity.Ballot(short_key(), 2)
        return ballot.layout, ballot.verify, ballot.prove()
    layout, here = test_bounded.layout_of(short_key()), test_bounded.HERE
    ciphertexts, witness = test_bounded.cast(layout, layout.plan.pack(test_bounded.ENTRIES))
    proof = codewords.prove(here, layout, test_bounded.ENTRIES, ciphertexts, witness)
    return layout, partial(codewords.verify, here, layout, ciphertexts), proof


@pytest.mark.parametrize("module", MODULES)
def test_the_answers_of_two_repetitions_have_masks_of_their_own(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As committed: in the opened columns of a proof."""
    layout, verify, proof = proof_of(module)
    opened: list[Any] = []

    def record(self: Verification, *arguments: Any) -> Any:
        opened.append(honest(self, *arguments))
        return opened[-1]

    honest = Verification._open
    monkeypatch.setattr(Verification, "_open", record)
    verify(proof)
    masks = opened[0][layout.sizes.first_rows :].reshape(3, codewords.REPEATS, -1)
    assert masks.all()
    assert not any(np.any(one == other) for part in masks for one, other in combinations(part, 2))


@pytest.mark.parametrize("module", MODULES)
def test_the_responses_are_masked_over_their_whole_range(module: ModuleType) -> None:
    """80 bits more than what they hide."""
    layout, _, _ = proof_of(module)
    begin = 2 * HASH_BYTES + layout.key.ciphertext_bytes
    sizes = layout.proof_parts[:2]
    longest = [0, 0]
    for _ in range(3):
        proof = proof_of(module)[2]
        z, w = proof[begin : begin + sizes[0]], proof[begin + sizes[0] : begin + sum(sizes)]
        longest = [
            max(most, int.from_bytes(part, "little").bit_length()) for most, part in zip(longest, (z, w), strict=True)
        ]
    assert longest[0] > layout.sizes.mask_bits - 40
    assert longest[1] > mask_bits(layout.key) - 40
    hidden = (
        layout.plan.ciphertexts
        * (1 << 128)
        * layout.plan.radix ** min(layout.plan.slots_per_plaintext, layout.plan.length)
    )
    assert layout.sizes.mask_bits - 1 >= int(hidden).bit_length() - 1 + 80


def test_every_column_has_a_salt_of_its_own() -> None:
    """Equal columns would have equal leaves, and a column of few possible values could be guessed from its leaf."""
    layout = layout_of(validity)
    nothing = np.zeros((3, layout.degree), dtype=np.uint64)
    places = list(range(layout.size))
    salts = set()
    for _ in range(2):
        leaves = CommittedMatrix(nothing, layout, SYSTEM).open(places)
        length = SALT_BYTES + 8 * 3
        salts |= {leaves[length * at : length * at + SALT_BYTES] for at in places}
    assert len(salts) == 2 * layout.size


@pytest.mark.parametrize("places", [[0], [5], [0, 1], [1, 2, 3, 12], list(range(16))], ids=str)
def test_a_path_has_one_length(places: list[int]) -> None:
    """With a longer path one proof would have many encodings; with a shorter one inner nodes could pass as leaves."""
    columns, salts = np.arange(32, dtype=np.uint64).reshape(2, 16), bytes(range(64)) * 8
    tree = MerkleTree(salts, columns)
    opened = b"".join(salts[SALT_BYTES * at : SALT_BYTES * (at + 1)] for at in places)
    path = tree.path(places)

    def root(path: Sequence[bytes], size: int = 16) -> bytes | None:
        return opened_root(places, opened, np.ascontiguousarray(columns[:, places]), size, path)

    assert root(path) == tree.root
    wrong = [[*path, bytes(HASH_BYTES)], [*path, tree.root], [bytes(HASH_BYTES), *path]]
    for changed in [*wrong, path[:-1], path[1:]] if path else wrong:
        assert root(changed) is None


@pytest.mark.parametrize("module", MODULES)
def test_every_message_decides_every_later_challenge(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Primes that are known before z, or combinations before the second matrix, let a sender prove anything."""
    layout, verify, proof = proof_of(module)
    drawn: list[tuple[str, str]] = []

    def recorded(name: str) -> None:
        honest = getattr(ChallengeChain, name)

        def record(self: ChallengeChain, *arguments: Any) -> Any:
            challenge = honest(self, *arguments)
            drawn.append((str(arguments[0]) if name == "elements" else name, str(challenge)))
            return challenge

        monkeypatch.setattr(ChallengeChain, name, record)

    for name in ("weights", "primes", "elements", "columns"):
        recorded(name)
    monkeypatch.setattr(Verification, "_check_opening", lambda *arguments: None)
    monkeypatch.setattr(Verification, "_open", lambda *arguments: (_ for _ in ()).throw(ProofError("enough")))

    def challenges(data: bytes) -> list[tuple[str, str]]:
        drawn.clear()
        with pytest.raises(ProofError):
            verify(data)
        return drawn.copy()

    honest = challenges(proof)
    order = [name for name, _ in honest]
    after = HASH_BYTES * 2 + layout.key.ciphertext_bytes
    z, w, _ = layout.proof_parts
    messages = {0: order[0], 2 * HASH_BYTES: order[0], after: "primes", after + z: "primes"}
    messages |= {HASH_BYTES: "rows", after + z + w: "columns"}
    for place, first in messages.items():
        changed = bytearray(proof)
        changed[place] ^= 1
        others = challenges(bytes(changed))
        same = [name for (name, was), (_, now) in zip(honest, others, strict=True) if was == now]
        assert same == order[: order.index(first)]


@pytest.mark.parametrize("module", MODULES)
def test_every_answer_decides_which_columns_are_opened(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prover that may change an answer after it knows the columns can prove anything (Fiat and Shamir 1986)."""
    layout, verify, proof = proof_of(module)
    head = 2 * HASH_BYTES + layout.key.ciphertext_bytes + sum(layout.proof_parts)
    openings: list[list[int]] = []

    def stop(self: ChallengeChain, size: int) -> list[int]:
        openings.append(honest(self, size))
        raise ProofError("the columns are known")

    honest = ChallengeChain.columns
    monkeypatch.setattr(ChallengeChain, "columns", stop)
    monkeypatch.setattr(Verification, "_check_opening", lambda *arguments: None)
    offsets = sorted({*range(0, head, 97), *range(0, head - layout.proof_parts[2], 16), head - 8})
    for offset in offsets:
        changed = bytearray(proof)
        changed[offset] ^= 1
        with pytest.raises(ProofError):  # that of 2^-32 of the words
            verify(bytes(changed))
    with pytest.raises(ProofError):
        verify(proof)
    assert len({tuple(places) for places in openings}) == len(openings) > len(offsets) // 2
