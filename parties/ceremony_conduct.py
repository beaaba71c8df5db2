"""The messages that holder j of the ceremony must send, and the values that it must receive.

Holder j computes them for itself. When its seeds are opened, or its secrets in a complaint, everybody recomputes them
and compares, which identifies cheaters (docs/protocols/ceremony.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.parties.ceremony_states import (
    AGAIN,
    FIRST,
    AwaitingExponentCommitments,
    ModulusSearch,
    SeedMaterial,
    WinnerEvidence,
)
from psephos.protocol.ceremony import pairs
from psephos.protocol.ceremony.exponent import committed_share, share_bound, verification_base
from psephos.protocol.ceremony.form import form_tests, form_weights
from psephos.protocol.ceremony.messages import (
    MessagesBySender,
    byte_length,
    opened,
    pack_integers,
    pack_residues,
    unpack_integers,
    written,
)
from psephos.protocol.ceremony.replicated import SEED_BYTES, commitment, derive, home
from psephos.protocol.ceremony.search import (
    CONFIRMATIONS,
    FORM_MASKS,
    Batch,
    Flat,
    Numbers,
    as_array,
    bases,
    choose,
    form_modulus,
    is_good,
    sieved_modulus,
)
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import CheatingError, InvalidParameter, MessageError
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.proofs import opening
from psephos.protocol.wire import Kind, Reader

__all__ = ["HolderComputation", "digest_of", "flat"]


class HolderComputation:
    """Computes the messages of the holders under `terms`, as far as holder `number` can."""

    def __init__(self, terms: CeremonyTerms, number: int) -> None:
        if not 1 <= number <= terms.holders:
            raise InvalidParameter(f"number must be 1 to {terms.holders}, not {number}")
        self.terms, self.number = terms, number
        self._sets = tuple(self._sets_of(number))

    # -- values that holder j received, recomputed by itself, or by everybody after its complaint

    def _seeds(
        self, material: SeedMaterial, j: int, secrets: Sequence[bytes], own: Sequence[bytes]
    ) -> tuple[dict[int, bytes], set[int]]:
        """Return the seeds of holder j's sets, and the holders whose contribution differs from their commitment."""
        known, liars = {(s, j): c for s, c in zip(self._sets_of(j), own, strict=True)}, set()
        for k, secret in zip(self._others(j), secrets, strict=True):
            try:
                data = self._unsealed(material, Kind.SEED_CONTRIBUTIONS, k, j, secret, material.sealed[k - 1])
            except MessageError:
                data = bytes(self._contribution_bytes())  # differs from the commitment, so that the sender is named
            for at, s in enumerate(self._common_sets(j, k)):
                known[s, k] = data[SEED_BYTES * at : SEED_BYTES * (at + 1)]
                place = SEED_BYTES * self._sets_of(k).index(s)
                if commitment(known[s, k], k, s) != material.seed_commitments[k - 1][place : place + SEED_BYTES]:
                    liars.add(k)
        return {s: derive("seed", *(known[s, k] for k in self.terms.subsets[s])) for s in self._sets_of(j)}, liars

    def _wrong_commitments(self, state: ModulusSearch, seeds: Mapping[int, bytes]) -> set[int]:
        """Return the holders whose commitment to a seed of this batch does not fit `seeds`, which has them by set."""
        return {
            k
            for s, seed in seeds.items()
            for k, value in zip(self.terms.subsets[s], state.commitments[s], strict=True)
            if value != commitment(seed, state.batch, s)
        }

    def _wrong_openings(self, state: ModulusSearch, numbers: Numbers) -> set[int]:
        """Return the holders that opened pieces of rejected candidates other than `numbers`, which has them by set."""
        right = {s: self._shown(state, both) for s, both in numbers.items()}
        return {home(self.terms, s) for s, digest in right.items() if digest != state.opened_digests[s]}

    def _shown(self, state: ModulusSearch, both: tuple[Any, Any]) -> bytes:
        assert state.winner is not None
        parts = (pack_integers(np.delete(one, state.winner), self._piece_bound()) for one in both)
        return digest_of(b"".join(parts))

    def _shares(self, evidence: WinnerEvidence, j: int, secrets: Sequence[bytes]) -> tuple[list[int], set[int]]:
        """Return the others' shares of d for holder j, and the holders whose share differs from its commitment."""
        search, bound, shares, liars = evidence.search, share_bound(self.terms), [], set()
        assert search.winner is not None
        n = search.moduli[search.winner]
        base, modulus = verification_base(self.terms, n), self.terms.ciphertext_modulus(n)
        for k, secret in zip(self._others(j), secrets, strict=True):
            try:
                data = self._unsealed(search.material, Kind.EXPONENT_SHARES, k, j, secret, evidence.sealed[k - 1])
            except MessageError:
                data = b""
            share = mpz.from_bytes(data, "little")
            # powmod_sec does not accept 0, which only a cheater sends.
            if not 0 < share < bound or gmpy2.powmod_sec(base, share, modulus) != committed_share(
                evidence.committed[k - 1], j, modulus
            ):
                liars.add(k)
            shares.append(int(share))
        return shares, liars

    def _looks_right(self, state: ModulusSearch, batch: Batch) -> bool:
        """Return whether the values opened in a batch follow from its seeds, and no good candidate was rejected."""
        chosen = self._chosen(state)
        for was, is_ in zip((state.products, state.differences), batch.opened(), strict=True):
            if not np.array_equal(flat(was), is_):
                return False
        p, q = batch.factors(chosen)
        return all(p * q == as_array(state.moduli)) and not any(is_good(self.terms, p[k], q[k]) for k in state.tested)

    def _liars(self, state: ModulusSearch, batch: Batch) -> list[str]:
        """Return the holders whose messages in this batch do not follow from its seeds."""
        numbers = batch.numbers(self._chosen(state))
        digests = {(h.kind, h.stage, h.sender): h.digest for h in state.digests}
        liars = []
        for j, name in enumerate(self.terms.names, 1):
            right = [
                (Kind.RESIDUE_PRODUCTS, FIRST, self._products_message(state, batch, j)),
                (Kind.RESIDUE_DIFFERENCES, FIRST, self._differences_message(state, batch, j)),
                (Kind.MODULUS_SHARES, FIRST, self._moduli_message(state, batch, j, numbers)),
                (Kind.TEST_VALUES, FIRST, self._values_message(replace(state, stage=FIRST), batch, j, numbers)),
            ]
            if state.stage == AGAIN:
                right.append((Kind.TEST_VALUES, AGAIN, self._values_message(state, batch, j, numbers)))
            if any(digests[kind, stage, name] != digest_of(data) for kind, stage, data in right):
                liars.append(name)
        return liars

    # -- the messages of holder j in a batch

    def _products_message(self, state: ModulusSearch, batch: Batch, j: int) -> bytes:
        commitments = [batch.commitment(s, state.batch) for s in self._sets_of(j)]
        share = pack_residues(self.terms, batch.product_share(j))
        return self._encode(Kind.RESIDUE_PRODUCTS, state, *commitments, share)

    def _differences_message(self, state: ModulusSearch, batch: Batch, j: int) -> bytes:
        share = batch.difference_share(j, flat(state.products))
        return self._encode(Kind.RESIDUE_DIFFERENCES, state, pack_residues(self.terms, share))

    def _moduli_message(self, state: ModulusSearch, batch: Batch, j: int, numbers: Numbers) -> bytes:
        bound = mpz(1) << self.terms.rest_bits
        return self._encode(Kind.MODULUS_SHARES, state, pack_integers(batch.modulus_share(j, numbers), bound))

    def _values_message(self, state: ModulusSearch, batch: Batch, j: int, numbers: Numbers) -> bytes:
        parts = []
        for place in state.tested if state.stage == FIRST else state.passed:
            n = state.moduli[place]
            # The first stage uses the first base, the second all others.
            chosen = bases(self.terms, n, 1) if state.stage == FIRST else bases(self.terms, n, 1 + CONFIRMATIONS)[1:]
            parts.append(pack_integers(batch.test_values(j, numbers, place, n, chosen), n))
            if state.stage == AGAIN:
                shares = batch.form_share(j, numbers, place, n)
                parts.append(pack_integers(shares, form_modulus(self.terms, n)))
        return self._encode(Kind.TEST_VALUES, state, *parts)

    def _form_proof(self, state: ModulusSearch, batch: Batch, j: int, numbers: Numbers) -> tuple[mpz, ...] | None:
        """Return holder j's part of the proof of form; None if there are no weights."""
        assert state.winner is not None
        n = state.moduli[state.winner]
        weights = form_weights(self.terms, n, state.form_sums)
        if weights is None:
            return None
        sieved, larger = form_tests(self.terms, n)
        multiple = batch.sieved_multiple(j, numbers, state.winner, n, self._chosen(state)[state.winner])
        quotient, rest = gmpy2.f_divmod(multiple, sieved.modulus)
        exponent = batch.form_exponent(j, numbers, state.winner, n, weights)
        return (rest, *sieved.roots(quotient), *larger.roots(exponent))

    def _has_form(self, evidence: WinnerEvidence) -> bool:
        """Return whether all holders' parts together prove the form of the modulus."""
        search = evidence.search
        assert search.winner is not None
        n = search.moduli[search.winner]
        sieved, larger = form_tests(self.terms, n)
        weights, count = form_weights(self.terms, n, search.form_sums), len(sieved.bases)
        total = mpz(sum(rest for rest, *_ in evidence.form))
        return (
            weights is not None
            and gmpy2.gcd(total, sieved.modulus) == 1
            and sieved.accepts(total, [roots[:count] for _, *roots in evidence.form])
            and larger.accepts(
                mpz(sum(w * x for w, x in zip(weights, search.form_sums, strict=True))),
                [roots[count:] for _, *roots in evidence.form],
            )
        )

    def _commitment_message(self, state: ModulusSearch, name: str, values: bytes) -> bytes:
        """Return a commitment to values; it includes the name, so that no holder can copy another's commitment."""
        return self._encode(Kind.COMMITMENT, state, hashlib.sha256(name.encode() + b"\0" + values).digest())

    def _check_commitments(self, state: ModulusSearch, messages: MessagesBySender) -> None:
        """Raise CheatingError if a message differs from its sender's commitment in this stage."""
        committed_digests = {
            h.sender: h.digest for h in state.digests if (h.kind, h.stage) == (Kind.COMMITMENT, state.stage)
        }
        for name, data in messages.items():
            if digest_of(self._commitment_message(state, name, data)) != committed_digests[name]:
                raise CheatingError(f"{name} opens other values than it committed to")

    def _encode(self, kind: Kind, state: ModulusSearch, *parts: bytes) -> bytes:
        stage = state.stage if kind in (Kind.COMMITMENT, Kind.TEST_VALUES) else FIRST
        return written(self.terms, kind, state.batch, stage, *parts)

    def _read_values(self, state: ModulusSearch, name: str, data: bytes) -> tuple[list[list[mpz]], list[list[mpz]]]:
        """Decode a holder's test values and, in the second stage, its shares of multiples of phi(n)."""
        places, count = (state.tested, 1) if state.stage == FIRST else (state.passed, CONFIRMATIONS)
        moduli_ = [state.moduli[k] for k in places]
        bounds = [form_modulus(self.terms, n) for n in moduli_] if state.stage == AGAIN else []
        length = count * sum(map(byte_length, moduli_)) + FORM_MASKS * sum(map(byte_length, bounds))
        reader = self._read(Kind.TEST_VALUES, state.batch, state.stage, name, data, length)
        tests, forms = [], []
        for at, n in enumerate(moduli_):
            tests.append(unpack_integers(reader, count, n, name))
            if any(gmpy2.gcd(value, n) != 1 for value in tests[-1]):
                raise CheatingError(f"{name} opens a test value that shares a factor with n")
            if state.stage == AGAIN:
                forms.append(unpack_integers(reader, FORM_MASKS, bounds[at], name))
        return tests, forms

    def _read_exponents(self, search: ModulusSearch, messages: MessagesBySender) -> WinnerEvidence:
        """Decode the holders' commitments to the exponent, and their parts of the proof of form."""
        assert search.winner is not None
        n, t = search.moduli[search.winner], self.terms.threshold
        order, modulus, sieved = n**self.terms.degree, self.terms.ciphertext_modulus(n), sieved_modulus(self.terms)
        roots = sum(len(test.bases) for test in form_tests(self.terms, n))
        length = byte_length(order) + t * byte_length(modulus) + byte_length(sieved) + roots * byte_length(n)
        thetas, commitments, forms = [], [], []
        for name, data in messages.items():
            reader = self._read(Kind.EXPONENT_COMMITMENTS, search.batch, AGAIN, name, data, length)
            thetas += unpack_integers(reader, 1, order, name)
            commitments.append(tuple(unpack_integers(reader, t, modulus, name)))
            rest = unpack_integers(reader, 1, sieved, name)
            forms.append((*rest, *unpack_integers(reader, roots, n, name)))
            if any(gmpy2.gcd(value, n) != 1 for value in (*commitments[-1], *forms[-1][1:])):
                raise CheatingError(f"{name} committed to a number that shares a factor with n")
        return WinnerEvidence(search, tuple(thetas), tuple(commitments), form=tuple(forms))

    def _opening_message(self, state: ModulusSearch) -> bytes:
        """Return the message with the seeds of the sets that this holder opens, or with all pieces but the winner's."""
        if state.winner is None:
            seeds = self._batch_seeds(state)
            return self._encode(Kind.OPENED_CANDIDATES, state, *(seeds[s] for s in self._opened_sets()))
        numbers = self._numbers(state)
        parts = [
            pack_integers(np.delete(both, state.winner), self._piece_bound())
            for s in self._opened_sets()
            for both in numbers[s]
        ]
        return self._encode(Kind.OPENED_CANDIDATES, state, *parts)

    def _opened_seeds(self, state: ModulusSearch, kind: Kind, messages: MessagesBySender) -> dict[int, bytes]:
        """Decode the opened seeds of all sets; raises CheatingError for a seed that differs from its commitment."""
        seeds = {}
        for j, (name, data) in enumerate(messages.items(), 1):
            stage = AGAIN if kind is Kind.OPENED_SEEDS else FIRST
            opened_sets = self._opened_sets(j)
            reader = self._read(kind, state.batch, stage, name, data, SEED_BYTES * len(opened_sets))
            for s in opened_sets:
                seeds[s] = reader.take(SEED_BYTES)
                if commitment(seeds[s], state.batch, s) != state.commitments[s][0]:
                    raise CheatingError(f"{name} opens another seed than the one it committed to")
        return seeds

    def _opened_pieces(self, state: ModulusSearch, messages: MessagesBySender) -> tuple[ModulusSearch, Numbers]:
        """Decode the opened pieces of the rejected candidates in the winner's batch, and store their digests.

        The holders of a set can check its pieces.
        """
        bound, count = self._piece_bound(), len(state.moduli) - 1
        size = count * byte_length(bound)
        pieces: Numbers = {}
        opened_digests: dict[int, bytes] = {}
        for j, (name, data) in enumerate(messages.items(), 1):
            opened_sets = self._opened_sets(j)
            reader = self._read(Kind.OPENED_CANDIDATES, state.batch, FIRST, name, data, 2 * size * len(opened_sets))
            for s in opened_sets:
                both = unpack_integers(reader, 2 * count, bound, name)
                pieces[s] = (both[:count], both[count:])
                opened_digests[s] = digest_of(pack_integers(both, bound))
        return replace(state, opened_digests=tuple(opened_digests[s] for s in range(len(opened_digests)))), pieces

    # -- helpers

    def _batch_seeds(self, state: ModulusSearch) -> dict[int, bytes]:
        number = state.batch.to_bytes(8, "big")
        return {s: derive("batch", number, seed) for s, seed in zip(self._sets, state.seeds, strict=True)}

    def _batch(self, state: ModulusSearch) -> Batch:
        return Batch(self.terms, self._batch_seeds(state))

    def _numbers(self, state: ModulusSearch) -> Numbers:
        return {s: (as_array(p), as_array(q)) for s, (p, q) in zip(self._sets, state.pieces, strict=True)}

    def _chosen(self, state: ModulusSearch) -> NDArray[np.int64]:
        return choose(self.terms, flat(state.products), flat(state.differences))

    def _piece_bound(self) -> mpz:
        return self.terms.step << self.terms.top_bits

    def _sets_of(self, holder: int) -> list[int]:
        """Return the sets that a holder is in."""
        return [s for s, members in enumerate(self.terms.subsets) if holder in members]

    def _common_sets(self, one: int, other: int) -> list[int]:
        """Return the sets that both holders are in."""
        return [s for s in self._sets_of(one) if other in self.terms.subsets[s]]

    def _contribution_bytes(self) -> int:
        """Return the length of the contributions that a holder sends another; all pairs have equally many sets."""
        return SEED_BYTES * len(self._common_sets(1, 2))

    def _opened_sets(self, holder: int | None = None) -> list[int]:
        """Return the sets that a holder opens."""
        return [s for s in range(len(self.terms.subsets)) if home(self.terms, s) == (holder or self.number)]

    def _others(self, holder: int | None = None) -> list[int]:
        return [j for j in range(1, self.terms.holders + 1) if j != (holder or self.number)]

    def _seed_commitments(self, holder: int, secrets: Sequence[bytes], contributions: Sequence[bytes]) -> bytes:
        """Return commitments to the contributions to a holder's sets, and its public keys for the others."""
        commitments = (commitment(c, holder, s) for s, c in zip(self._sets_of(holder), contributions, strict=True))
        return b"".join((*commitments, *map(pairs.public, secrets)))

    def _public_key(self, material: SeedMaterial, owner: int, other: int) -> bytes:
        """Return the public key of the owner for the other holder."""
        place = SEED_BYTES * (len(self._sets_of(owner)) + self._others(owner).index(other))
        return material.seed_commitments[owner - 1][place : place + SEED_BYTES]

    def _sealed(self, material: SeedMaterial, kind: Kind, parts: Mapping[int, bytes]) -> list[bytes]:
        """Seal one part for each of the other holders."""
        return [
            pairs.seal(secret, self._public_key(material, k, self.number), self._about(kind, self.number, k), parts[k])
            for k, secret in zip(self._others(), material.secrets, strict=True)
        ]

    def _unsealed(
        self, material: SeedMaterial, kind: Kind, sender: int, receiver: int, secret: bytes, sealed: bytes
    ) -> bytes:
        """Return the receiver's part of what a holder sealed for all. Raises MessageError for an invalid part."""
        size, place = len(sealed) // len(self._others()), self._others(sender).index(receiver)
        part = sealed[size * place : size * (place + 1)]
        return pairs.unseal(
            secret, self._public_key(material, sender, receiver), self._about(kind, sender, receiver), part
        )

    def _about(self, kind: Kind, sender: int, receiver: int) -> bytes:
        return self.terms.digest + bytes([kind, sender, receiver])

    def _statement(self, holder: int) -> bytes:
        return self.terms.digest + bytes([Kind.TEST_DECRYPTION, holder])

    def _powers(self, key: ThresholdKey) -> opening.VerificationBase:
        return opening.VerificationBase(key.key, key.verification_base, key.exponent_bits)

    def _evidence(self, state: Any) -> WinnerEvidence:
        """Return the evidence in a state that has a batch."""
        if isinstance(state, ModulusSearch):
            return WinnerEvidence(state)
        return WinnerEvidence(state.search) if isinstance(state, AwaitingExponentCommitments) else state.evidence

    def _read(self, kind: Kind, batch: int, stage: int, sender: str, data: bytes, length: int) -> Reader:
        return opened(self.terms, kind, batch, stage, sender, data, length)


def digest_of(data: bytes) -> bytes:
    """Return the SHA-256 digest."""
    return hashlib.sha256(data).digest()


def flat(data: bytes) -> Flat:
    """Return the int64 array that a state stores as bytes."""
    return np.frombuffer(data, np.int64)
