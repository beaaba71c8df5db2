"""What everybody who reads the public messages of a ceremony can check of them, with or without a share of the key.

The methods of `PublicChecks` are in the order of the protocol. A holder uses them beside the checks of what it was sent
(`psephos.parties.ceremony`). A reader of the board has nothing else: `CeremonyReader` computes the key that messages
make. docs/protocols/ceremony.md says what that proves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import gmpy2
import numpy as np
from gmpy2 import mpz

from psephos.parties.ceremony_conduct import HolderComputation, digest_of, flat
from psephos.parties.ceremony_states import (
    AGAIN,
    FIRST,
    MessageDigest,
    ModulusSearch,
    SeedMaterial,
    WinnerEvidence,
)
from psephos.protocol.ceremony import pairs
from psephos.protocol.ceremony.exponent import opens, share_bound, test_ciphertexts, threshold_key
from psephos.protocol.ceremony.messages import (
    MessagesBySender,
    byte_length,
    packed_bytes,
    unpack_integers,
    unpack_residues,
)
from psephos.protocol.ceremony.replicated import SEED_BYTES
from psephos.protocol.ceremony.search import (
    Batch,
    Flat,
    Numbers,
    as_array,
    flat_primes,
    good_form,
    is_good,
    moduli,
    passes,
    survivors,
)
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import AgreementError, CheatingError, CiphertextError, MessageError, ProofError
from psephos.protocol.paillier.ciphertexts import check_ciphertexts
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.proofs import opening
from psephos.protocol.roles import Entry
from psephos.protocol.wire import Kind

__all__ = ["CeremonyReader", "PublicChecks", "cheating_message"]


class PublicChecks(HolderComputation):
    """Reads the public messages of each round of a ceremony, and checks them."""

    def _check_pair_keys(self, material: SeedMaterial) -> None:
        """Raise CheatingError for a public key of a pair with which nothing can be sealed."""
        for j in range(1, self.terms.holders + 1):
            for other in self._others(j):
                try:
                    pairs.seal(bytes(31) + b"\1", self._public_key(material, j, other), b"", b"")
                except MessageError:
                    raise CheatingError(f"holder {j} published an invalid public key") from None

    def _with_products(self, state: ModulusSearch, messages: MessagesBySender) -> ModulusSearch:
        """Return the state with the commitments to the batch's seeds and the opened products of residues."""
        commitments: dict[int, list[bytes]] = {}
        total = np.zeros_like(flat_primes(self.terms))
        for j, (name, data) in enumerate(messages.items(), 1):
            length = SEED_BYTES * len(self._sets_of(j)) + packed_bytes(self.terms)
            reader = self._read(Kind.RESIDUE_PRODUCTS, state.batch, FIRST, name, data, length)
            for s in self._sets_of(j):
                commitments.setdefault(s, []).append(reader.take(SEED_BYTES))
            total += unpack_residues(self.terms, reader.rest(), name)
        return replace(
            state,
            commitments=tuple(tuple(commitments[s]) for s in range(len(self.terms.subsets))),
            products=self._reduced(total),
            digests=_with_digests(state.digests, Kind.RESIDUE_PRODUCTS, FIRST, messages),
        )

    def _with_differences(self, state: ModulusSearch, messages: MessagesBySender) -> ModulusSearch:
        """Return the state with the opened multiples of (a - 1)(b - 1)."""
        total = np.zeros_like(flat_primes(self.terms))
        for name, data in messages.items():
            reader = self._read(Kind.RESIDUE_DIFFERENCES, state.batch, FIRST, name, data, packed_bytes(self.terms))
            total += unpack_residues(self.terms, reader.rest(), name)
        digests = _with_digests(state.digests, Kind.RESIDUE_DIFFERENCES, FIRST, messages)
        return replace(state, differences=self._reduced(total), digests=digests)

    def _reduced(self, total: Flat) -> bytes:
        return (total % flat_primes(self.terms)).tobytes()

    def _with_commitments(self, state: ModulusSearch, messages: MessagesBySender) -> ModulusSearch:
        """Return the state with the commitments to the next messages."""
        for name, data in messages.items():
            self._read(Kind.COMMITMENT, state.batch, state.stage, name, data, SEED_BYTES)
        return replace(state, digests=_with_digests(state.digests, Kind.COMMITMENT, state.stage, messages))

    def _with_moduli(self, state: ModulusSearch, messages: MessagesBySender) -> ModulusSearch:
        """Return the state with the candidates, before their first test."""
        chosen, bound = self._chosen(state), mpz(1) << self.terms.rest_bits
        rests = as_array([mpz(0)] * len(chosen))
        for name, data in messages.items():
            reader = self._read(Kind.MODULUS_SHARES, state.batch, FIRST, name, data, len(chosen) * byte_length(bound))
            rests = rests + as_array(unpack_integers(reader, len(chosen), bound, name))
        self._check_commitments(state, messages)
        candidates = moduli(self.terms, flat(state.products), chosen, list(rests % bound))
        return replace(
            state,
            moduli=candidates,
            tested=survivors(self.terms, candidates),
            stage=FIRST,
            digests=_with_digests(state.digests, Kind.MODULUS_SHARES, FIRST, messages),
        )

    def _judged(self, state: ModulusSearch, messages: MessagesBySender) -> ModulusSearch:
        """Return the state after a test: in the next stage if a candidate passed the first, with a winner after it."""
        places = state.tested if state.stage == FIRST else state.passed
        values = [self._read_values(state, name, data) for name, data in messages.items()]
        self._check_commitments(state, messages)
        passed = []
        for at, place in enumerate(places):
            n = state.moduli[place]
            if passes(self.terms, place, n, [tests[at] for tests, _ in values]) and (
                state.stage == FIRST or good_form(self.terms, n, [forms[at] for _, forms in values])
            ):
                passed.append(place)
        state = replace(
            state, values=b"", digests=_with_digests(state.digests, Kind.TEST_VALUES, state.stage, messages)
        )
        if not passed:
            return state
        if state.stage == FIRST:
            return replace(state, passed=tuple(passed), stage=AGAIN)
        at = places.index(passed[0])
        sums = tuple(mpz(sum(each)) for each in zip(*(forms[at] for _, forms in values), strict=True))
        return replace(state, winner=passed[0], form_sums=sums)

    def _check_rejected_batch(self, state: ModulusSearch, messages: MessagesBySender) -> None:
        """Raise CheatingError unless the opened seeds of a batch without a winner give what was opened in it."""
        batch = Batch(self.terms, self._opened_seeds(state, Kind.OPENED_CANDIDATES, messages))
        if not self._looks_right(state, batch) and (liars := self._liars(state, batch)):
            raise CheatingError(cheating_message(liars))

    def _rejected_rightly(self, state: ModulusSearch, pieces: Numbers) -> bool:
        """Return whether the opened candidates are products of the right form, and none of them could be the key's."""
        winner = state.winner
        assert winner is not None
        for at, k in enumerate(k for k in range(len(state.moduli)) if k != winner):
            p, q = (self.terms.offset + sum(both[i][at] for both in pieces.values()) for i in (0, 1))
            spare = k in state.passed and k > winner
            lost = k in state.tested and not spare and is_good(self.terms, p, q)
            if p * q != state.moduli[k] or gmpy2.gcd((p - 1) * (q - 1), self.terms.step) != 4 or lost:
                return False
        return True

    def _key_of(self, evidence: WinnerEvidence) -> ThresholdKey | None:
        """Return the key that the holders have committed to; None for a wrong exponent or a modulus of another form."""
        search = evidence.search
        assert search.winner is not None
        n, total = search.moduli[search.winner], mpz(1)
        for values in evidence.committed:
            total = total * values[0] % n
        theta = sum(evidence.thetas) % n**self.terms.degree
        if total != 1 or gmpy2.gcd(theta, n) != 1 or not self._has_form(evidence):
            return None
        return threshold_key(self.terms, n, theta, evidence.committed)

    def _opens_tests(self, evidence: WinnerEvidence, key: ThresholdKey, messages: MessagesBySender) -> bool:
        """Return whether any t of the partial decryptions open the public ciphertexts."""
        ciphertexts, plaintexts = test_ciphertexts(self.terms, key.key.modulus)
        parts, wrong = {}, []
        for j, (name, data) in enumerate(messages.items(), 1):
            proof_bytes = opening.OpeningProof.encoded_length(key.key, key.exponent_bits)
            length = len(ciphertexts) * byte_length(key.key.ciphertext_modulus) + proof_bytes
            reader = self._read(Kind.TEST_DECRYPTION, evidence.search.batch, AGAIN, name, data, length)
            parts[j] = unpack_integers(reader, len(ciphertexts), key.key.ciphertext_modulus, name)
            try:
                check_ciphertexts(key.key, parts[j])
                proof = opening.OpeningProof.decode(reader.rest(), key.key, key.exponent_bits)
                value = key.verification_values[j - 1]
                opening.verify(self._statement(j), self._powers(key), value, ciphertexts, parts[j], proof)
            except (CiphertextError, ProofError):
                wrong.append(name)
        if wrong:
            raise CheatingError(f"{', '.join(wrong)} opened the test ciphertexts with something else than its share")
        return opens(key, parts, plaintexts)


class CeremonyReader(PublicChecks):
    """Computes the key that a ceremony has made from its public messages, and checks these."""

    def __init__(self, terms: CeremonyTerms, entries: Iterable[Entry]) -> None:
        super().__init__(terms, 1)
        self._entries = iter(entries)
        self._arrived: dict[Kind, dict[str, bytes]] = {}

    def key(self) -> ThresholdKey:
        """Return the key."""
        material = self._material()
        search = self._searched(ModulusSearch(material, ()))
        while search.winner is None:
            self._check_rejected_batch(search, self._next_of(Kind.OPENED_CANDIDATES))
            search = self._searched(ModulusSearch(material, (), search.batch + 1))
        search, pieces = self._opened_pieces(search, self._next_of(Kind.OPENED_CANDIDATES))
        if not self._rejected_rightly(search, pieces):
            raise AgreementError("a candidate for the modulus was rejected wrongly")
        evidence = self._read_exponents(search, self._next_of(Kind.EXPONENT_COMMITMENTS))
        key = self._key_of(evidence)
        if key is None:
            raise AgreementError("the exponent is wrong, or the modulus has another form")
        length = (byte_length(share_bound(self.terms)) + pairs.TAG_BYTES) * len(self._others())
        for name, data in self._next_of(Kind.EXPONENT_SHARES).items():
            self._read(Kind.EXPONENT_SHARES, search.batch, AGAIN, name, data, length)
        if not self._opens_tests(evidence, key, self._next_of(Kind.TEST_DECRYPTION)):
            raise AgreementError("the holders do not open the public ciphertexts")
        return key

    def _next_of(self, kind: Kind) -> MessagesBySender:
        """Return one message of a kind from each holder: the first that was not used."""
        arrived = self._arrived.pop(kind, {})
        while len(arrived) < self.terms.holders:
            entry = next(self._entries, None)
            if entry is None:
                raise AgreementError(f"the ceremony waits for the {kind.title} of a holder")
            if entry.sender not in self.terms.names:
                continue
            if entry.kind is Kind.COMPLAINT:
                raise AgreementError(f"{entry.sender} complains, and so the ceremony makes no key")
            of_kind = arrived if entry.kind is kind else self._arrived.setdefault(entry.kind, {})
            of_kind.setdefault(entry.sender, entry.data)
        return {name: arrived[name] for name in self.terms.names}

    def _material(self) -> SeedMaterial:
        """Read the messages about seeds, whose contents are sealed."""
        read: list[bytes] = []
        for j, (name, data) in enumerate(self._next_of(Kind.SEED_COMMITMENTS).items(), 1):
            length = SEED_BYTES * (len(self._sets_of(j)) + len(self._others()))
            read.append(self._read(Kind.SEED_COMMITMENTS, 0, FIRST, name, data, length).rest())
        material = SeedMaterial((), (), seed_commitments=tuple(read))
        self._check_pair_keys(material)
        length = (self._contribution_bytes() + pairs.TAG_BYTES) * len(self._others())
        for name, data in self._next_of(Kind.SEED_CONTRIBUTIONS).items():
            self._read(Kind.SEED_CONTRIBUTIONS, 0, FIRST, name, data, length)
        return material

    def _searched(self, state: ModulusSearch) -> ModulusSearch:
        """Return the state of a batch after its last test."""
        state = self._with_products(state, self._next_of(Kind.RESIDUE_PRODUCTS))
        if any(len(set(several)) != 1 for several in state.commitments):
            raise CheatingError("holders of one set have committed to different seeds of it")
        state = self._with_differences(state, self._next_of(Kind.RESIDUE_DIFFERENCES))
        state = self._with_commitments(state, self._next_of(Kind.COMMITMENT))
        state = self._with_moduli(state, self._next_of(Kind.MODULUS_SHARES))
        while True:
            before = state.stage
            state = self._with_commitments(state, self._next_of(Kind.COMMITMENT))
            state = self._judged(state, self._next_of(Kind.TEST_VALUES))
            if state.stage == before:
                return state


def _with_digests(
    digests: tuple[MessageDigest, ...], kind: Kind, stage: int, messages: MessagesBySender
) -> tuple[MessageDigest, ...]:
    return (*digests, *(MessageDigest(int(kind), stage, name, digest_of(data)) for name, data in messages.items()))


def cheating_message(liars: Sequence[str]) -> str:
    """Return what an error says about holders whose messages do not follow from their seeds."""
    return f"{', '.join(liars)} sent other messages than follow from the seeds; start another ceremony without it"
