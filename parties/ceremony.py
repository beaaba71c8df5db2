"""A holder in the ceremony that makes a key without a dealer (docs/protocols/ceremony.md).

Read from the first method to the last, this is the protocol. What a holder says while a modulus is searched for follows
from seeds that every set of n - tau holders has in common, so that whoever has all seeds of a batch can say what each
holder should have said: the seeds of a batch without a winner are opened, and everybody checks it. Whoever was told
something wrong in private complains: it opens all that it was told, and everybody sees who lied, or that nobody did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz

from psephos.parties.ceremony_conduct import HolderComputation, digest_of, flat
from psephos.parties.ceremony_states import (
    AGAIN,
    FIRST,
    AwaitingExponentCommitments,
    AwaitingExponentShares,
    AwaitingOpenedSeeds,
    AwaitingSeedCommitments,
    AwaitingSeedContributions,
    AwaitingTestDecryptions,
    Done,
    Evidence,
    Failed,
    MessageDigest,
    Searching,
    SeedMaterial,
)
from psephos.protocol.ceremony import pairs
from psephos.protocol.ceremony.exponent import (
    committed,
    opens,
    share_bound,
    test_ciphertexts,
    threshold_key,
    verification_base,
)
from psephos.protocol.ceremony.messages import (
    Said,
    byte_length,
    failure,
    pack_integers,
    packed_bytes,
    unpack_integers,
    unpack_residues,
    written,
)
from psephos.protocol.ceremony.replicated import SEED_BYTES, derive
from psephos.protocol.ceremony.search import (
    Batch,
    as_array,
    exponent_share_bits,
    flat_primes,
    good_form,
    is_good,
    moduli,
    passes,
    survivors,
)
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import (
    AgreementError,
    CheatingError,
    CiphertextError,
    MessageError,
    ProofError,
    PsephosError,
    UnexpectedMessageError,
)
from psephos.protocol.paillier.ciphertexts import check_ciphertexts
from psephos.protocol.paillier.sharing import evaluate, integer_polynomial
from psephos.protocol.paillier.threshold import KeyShare
from psephos.protocol.proofs import opening
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Entry, Machine, Post, Refusal, Rule, Step, gathers, takes
from psephos.protocol.wire import Kind, kind_of

__all__ = ["CeremonyHolder"]

CEREMONY_KINDS = frozenset(kind for kind in Kind if Kind.SEED_COMMITMENTS <= kind <= Kind.COMPLAINT)


class CeremonyHolder(HolderComputation, Machine):
    """Holder j of n: "holder J". Its outcome is its `KeyShare`."""

    reads = CEREMONY_KINDS

    def __init__(self, terms: CeremonyTerms, number: int, *, randomness: Randomness = SYSTEM) -> None:
        """`number`: j, from 1; raises InvalidParameter when there is no such holder."""
        super().__init__(terms, number)
        self.name, self._randomness = f"holder {number}", randomness

    def due_kind(self, state: object) -> Kind | None:
        """In a batch, what it said last; nothing is due to who has complained."""
        if isinstance(state, AwaitingExponentShares) and state.evidence.search.due == Kind.COMPLAINT:
            return Kind.COMPLAINT
        return Kind(state.due) if isinstance(state, Searching) else None

    def is_over(self, state: object) -> bool:
        """Whatever comes after an error."""
        return isinstance(state, Failed)

    def _find_rule(self, held: Any, entry: Entry) -> Rule | None:
        """Nothing of anybody else is kept, either."""
        if entry.sender not in self.terms.names:
            raise UnexpectedMessageError(f"{self.name}: {entry.sender} is no holder, and has nothing to say here")
        return super()._find_rule(held, entry)

    def _apply(self, rule: Rule, held: Any, run: list[Entry]) -> Step:
        """Any error ends the ceremony, but for a message that was never due; it is told to those who hold nothing."""
        try:
            return super()._apply(rule, held, run)
        except UnexpectedMessageError:
            raise
        except PsephosError as error:
            after = replace(held, state=Failed(str(error)), arrived=())
            post = self._post(failure(self.terms, str(error)))
            return Step(after, (post,), (Refusal(run[-1], error),))

    # -- seeds that are nobody's choice

    def _start(self) -> Step:
        """Commit to a contribution to the seed of every set this holder is in; publish a key for each other holder."""
        secrets, contributions = (
            tuple(self._randomness.draw(SEED_BYTES) for _ in each) for each in (self._others(), self._sets)
        )
        promise = self._promise(self.number, secrets, contributions)
        return Step(
            AwaitingSeedCommitments(SeedMaterial(secrets, contributions)),
            (self._public(Kind.SEED_COMMITMENTS, 0, FIRST, promise),),
        )

    @gathers(AwaitingSeedCommitments, Kind.SEED_COMMITMENTS, lambda self, state: self.terms.names)
    def contribute(self, state: AwaitingSeedCommitments, said: Said) -> Step:
        """When all have committed: tell every other holder the contributions to the sets that both are in."""
        promised = []
        for j, (name, data) in enumerate(said.items(), 1):
            length = SEED_BYTES * (len(self._of(j)) + len(self._others()))
            promised.append(self._read(Kind.SEED_COMMITMENTS, 0, FIRST, name, data, length).rest())
        told = replace(state.told, promised=tuple(promised))
        for j in range(1, self.terms.holders + 1):
            for other in self._others(j):
                try:
                    pairs.seal(told.secrets[0], self._public_key(told, j, other), b"", b"")
                except MessageError:
                    raise CheatingError(f"holder {j} published a key that is none") from None
        own = dict(zip(self._sets, told.contributions, strict=True))
        parts = {k: b"".join(own[s] for s in self._common(self.number, k)) for k in self._others()}
        sealed = self._sealed(told, Kind.SEED_CONTRIBUTIONS, parts)
        return Step(AwaitingSeedContributions(told), (self._public(Kind.SEED_CONTRIBUTIONS, 0, FIRST, *sealed),))

    @gathers(AwaitingSeedContributions, Kind.SEED_CONTRIBUTIONS, lambda self, state: self.terms.names)
    def agree(self, state: AwaitingSeedContributions, said: Said) -> Step:
        """The seed of a set is a hash of all its holders' contributions."""
        length = (self._contribution_bytes() + pairs.TAG_BYTES) * len(self._others())
        sealed = (self._read(Kind.SEED_CONTRIBUTIONS, 0, FIRST, *each, length).rest() for each in said.items())
        told = replace(state.told, sealed=tuple(sealed))
        seeds, liars = self._seeds(told, self.number, told.secrets, told.contributions)
        search = Searching(told, tuple(seeds.values()))
        return self._complain(search) if liars else self._draw(search)

    # -- a batch of candidates

    def _draw(self, state: Searching) -> Step:
        """Commit to the batch's seeds, and open the products of its residues."""
        return self._next(state, self._say_products(state, self._batch(state), self.number))

    @gathers(Searching, Kind.RESIDUE_PRODUCTS, lambda self, state: self.terms.names)
    def subtract(self, state: Searching, said: Said) -> Step:
        """Open a random multiple of (a - 1)(b - 1) for every pair of residues."""
        commitments: dict[int, list[bytes]] = {}
        total = np.zeros_like(flat_primes(self.terms))
        for j, (name, data) in enumerate(said.items(), 1):
            length = SEED_BYTES * len(self._of(j)) + packed_bytes(self.terms)
            reader = self._read(Kind.RESIDUE_PRODUCTS, state.batch, FIRST, name, data, length)
            for s in self._of(j):
                commitments.setdefault(s, []).append(reader.take(SEED_BYTES))
            total += unpack_residues(self.terms, reader.rest(), name)
        products = (total % flat_primes(self.terms)).tobytes()
        state = replace(
            state,
            commitments=tuple(tuple(commitments[s]) for s in range(len(self.terms.subsets))),
            products=products,
            heard=_hear(state.heard, Kind.RESIDUE_PRODUCTS, FIRST, said),
        )
        if self._committed_otherwise(state, self._batch_seeds(state)):
            return self._complain(state)
        return self._next(state, self._say_differences(state, self._batch(state), self.number))

    @gathers(Searching, Kind.RESIDUE_DIFFERENCES, lambda self, state: self.terms.names)
    def multiply(self, state: Searching, said: Said) -> Step:
        """Put candidates together from the residues that were found good, and commit to the shares of their products.

        Who chose its share of n after it saw the others' could make n what it likes: a number whose factors it knows.
        """
        total = np.zeros_like(flat_primes(self.terms))
        for name, data in said.items():
            reader = self._read(Kind.RESIDUE_DIFFERENCES, state.batch, FIRST, name, data, packed_bytes(self.terms))
            total += unpack_residues(self.terms, reader.rest(), name)
        state = replace(
            state,
            differences=(total % flat_primes(self.terms)).tobytes(),
            heard=_hear(state.heard, Kind.RESIDUE_DIFFERENCES, FIRST, said),
        )
        batch = self._batch(state)
        numbers = batch.numbers(self._chosen(state))
        pieces = tuple((tuple(numbers[s][0]), tuple(numbers[s][1])) for s in self._sets)
        values = self._say_moduli(state, batch, self.number, numbers)
        return self._commit(replace(state, pieces=pieces), values)

    @gathers(Searching, Kind.COMMITMENT, lambda self, state: self.terms.names)
    def show(self, state: Searching, said: Said) -> Step:
        """When all have committed, show the shares of n, or the values."""
        for name, data in said.items():
            self._read(Kind.COMMITMENT, state.batch, state.stage, name, data, SEED_BYTES)
        heard = _hear(state.heard, Kind.COMMITMENT, state.stage, said)
        return self._next(replace(state, heard=heard), state.values)

    @gathers(Searching, Kind.MODULUS_SHARES, lambda self, state: self.terms.names)
    def test(self, state: Searching, said: Said) -> Step:
        """Test what has no small factor, and commit to the values."""
        chosen, bound = self._chosen(state), mpz(1) << self.terms.rest_bits
        rests = as_array([mpz(0)] * len(chosen))
        for name, data in said.items():
            reader = self._read(Kind.MODULUS_SHARES, state.batch, FIRST, name, data, len(chosen) * byte_length(bound))
            rests = rests + as_array(unpack_integers(reader, len(chosen), bound, name))
        self._check_promises(state, said)
        found = moduli(self.terms, flat(state.products), chosen, list(rests % bound))
        state = replace(
            state,
            moduli=found,
            tested=survivors(self.terms, found),
            stage=FIRST,
            heard=_hear(state.heard, Kind.MODULUS_SHARES, FIRST, said),
        )
        return self._try(state)

    def _try(self, state: Searching) -> Step:
        return self._commit(state, self._say_values(state, self._batch(state), self.number, self._numbers(state)))

    def _commit(self, state: Searching, values: bytes) -> Step:
        return self._next(replace(state, values=values), self._say_commitment(state, self.name, values))

    @gathers(Searching, Kind.TEST_VALUES, lambda self, state: self.terms.names)
    def judge(self, state: Searching, said: Said) -> Step:
        """Confirm who passed; open the batch when nobody is left, and all of it but the winner when somebody is."""
        places = state.tested if state.stage == FIRST else state.passed
        values = [self._read_values(state, name, data) for name, data in said.items()]
        self._check_promises(state, said)
        passed = []
        for at, place in enumerate(places):
            n = state.moduli[place]
            if passes(self.terms, place, n, [tests[at] for tests, _ in values]) and (
                state.stage == FIRST or good_form(self.terms, n, [forms[at] for _, forms in values])
            ):
                passed.append(place)
        state = replace(state, values=b"", heard=_hear(state.heard, Kind.TEST_VALUES, state.stage, said))
        if state.stage == FIRST and passed:
            return self._try(replace(state, passed=tuple(passed), stage=AGAIN))
        state = replace(state, winner=passed[0] if passed else None)
        return self._next(state, self._say_opening(state))

    @gathers(Searching, Kind.OPENED_CANDIDATES, lambda self, state: self.terms.names)
    def check(self, state: Searching, said: Said) -> Step:
        """Check every rejected candidate, and go on: with the next batch, or with the winner."""
        if (winner := state.winner) is None:
            batch = Batch(self.terms, self._opened_seeds(state, Kind.OPENED_CANDIDATES, said))
            if not self._looks_right(state, batch) and (liars := self._liars(state, batch)):
                raise CheatingError(_lied(liars))
            return self._draw(Searching(state.told, state.seeds, state.batch + 1))
        state, pieces = self._opened_pieces(state, said)
        if self._opened_otherwise(state, self._numbers(state)):
            return self._complain(state)
        rejected = [k for k in range(len(state.moduli)) if k != winner]
        for at, k in enumerate(rejected):
            p, q = (self.terms.offset + sum(both[i][at] for both in pieces.values()) for i in (0, 1))
            spare = k in state.passed and k > winner
            lost = k in state.tested and not spare and is_good(self.terms, p, q)
            if p * q != state.moduli[k] or gmpy2.gcd((p - 1) * (q - 1), self.terms.step) != 4 or lost:
                return self._accuse(Evidence(state))
        return self._deal(state)

    # -- the key

    def _deal(self, state: Searching) -> Step:
        """Commit to the polynomial that gives the own share of d on, t of n."""
        assert state.winner is not None
        n = state.moduli[state.winner]
        share = self._batch(state).exponent_share(self.number, self._numbers(state), state.winner, n)
        polynomial = integer_polynomial(
            share,
            1 << exponent_share_bits(self.terms),
            holders=self.terms.holders,
            threshold=self.terms.threshold,
            randomness=self._randomness,
        )
        order, modulus = n**self.terms.degree, self.terms.ciphertext_modulus(n)
        said = committed(verification_base(self.terms, n), polynomial, modulus)
        parts = (pack_integers([share % order], order), pack_integers(said, modulus))
        post = self._public(Kind.EXPONENT_COMMITMENTS, state.batch, AGAIN, *parts)
        return Step(AwaitingExponentCommitments(state, tuple(polynomial)), (post,))

    @gathers(AwaitingExponentCommitments, Kind.EXPONENT_COMMITMENTS, lambda self, state: self.terms.names)
    def derive(self, state: AwaitingExponentCommitments, said: Said) -> Step:
        """theta and the verification values; a d that is no multiple of the order is seen here. Then give shares on."""
        assert state.search.winner is not None
        n, t = state.search.moduli[state.search.winner], self.terms.threshold
        order, modulus = n**self.terms.degree, self.terms.ciphertext_modulus(n)
        length = byte_length(order) + t * byte_length(modulus)
        thetas, commitments = [], []
        for name, data in said.items():
            reader = self._read(Kind.EXPONENT_COMMITMENTS, state.search.batch, AGAIN, name, data, length)
            thetas += unpack_integers(reader, 1, order, name)
            commitments.append(tuple(unpack_integers(reader, t, modulus, name)))
            if any(gmpy2.gcd(value, n) != 1 for value in commitments[-1]):
                raise CheatingError(f"{name} committed to a number that is no unit")
        total = mpz(1)
        for values in commitments:
            total = total * values[0] % n
        theta = sum(thetas) % order
        evidence = Evidence(state.search, tuple(thetas), tuple(commitments))
        if total != 1 or gmpy2.gcd(theta, n) != 1:
            return self._accuse(evidence)
        key = threshold_key(self.terms, n, theta, commitments)
        bound = share_bound(self.terms)
        parts = {k: pack_integers([evaluate(state.polynomial, k)], bound) for k in self._others()}
        sealed = self._sealed(state.search.told, Kind.EXPONENT_SHARES, parts)
        post = self._public(Kind.EXPONENT_SHARES, state.search.batch, AGAIN, *sealed)
        return Step(AwaitingExponentShares(evidence, state.polynomial, key), (post,))

    @gathers(AwaitingExponentShares, Kind.EXPONENT_SHARES, lambda self, state: self.terms.names)
    def receive_shares(self, state: AwaitingExponentShares, said: Said) -> Step:
        """Check every share against its sender's commitments; the sum is this holder's. Open something with it."""
        search, length = state.evidence.search, byte_length(share_bound(self.terms)) + pairs.TAG_BYTES
        sealed = tuple(
            self._read(Kind.EXPONENT_SHARES, search.batch, AGAIN, *each, length * len(self._others())).rest()
            for each in said.items()
        )
        evidence = replace(state.evidence, sealed=sealed)
        told, liars = self._shares(evidence, self.number, search.told.secrets)
        if liars:
            return self._complain(replace(state, evidence=evidence))
        share = KeyShare(state.key, self.number, evaluate(state.polynomial, self.number) + sum(told))
        ciphertexts, _ = test_ciphertexts(self.terms, state.key.key.modulus)
        parts = share.partially_decrypt(ciphertexts)
        proof = opening.prove(
            self._statement(self.number),
            self._powers(state.key),
            ciphertexts,
            parts,
            share.exponent,
            randomness=self._randomness,
        )
        opens_as = pack_integers(parts, state.key.key.ciphertext_modulus)
        proved = proof.encode(state.key.key, state.key.exponent_bits)
        post = self._public(Kind.TEST_DECRYPTION, search.batch, AGAIN, opens_as, proved)
        return Step(AwaitingTestDecryptions(evidence, state.key, share.share()), (post,))

    @gathers(AwaitingTestDecryptions, Kind.TEST_DECRYPTION, lambda self, state: self.terms.names)
    def finish(self, state: AwaitingTestDecryptions, said: Said) -> Step:
        """Every partial decryption must be proved, and every t of them open the public ciphertexts as they should."""
        key = state.key.key
        ciphertexts, plaintexts = test_ciphertexts(self.terms, key.modulus)
        parts, wrong = {}, []
        for j, (name, data) in enumerate(said.items(), 1):
            proof_bytes = opening.OpeningProof.encoded_length(key, state.key.exponent_bits)
            length = len(ciphertexts) * byte_length(key.ciphertext_modulus) + proof_bytes
            reader = self._read(Kind.TEST_DECRYPTION, state.evidence.search.batch, AGAIN, name, data, length)
            parts[j] = unpack_integers(reader, len(ciphertexts), key.ciphertext_modulus, name)
            try:
                check_ciphertexts(key, parts[j])
                proof = opening.OpeningProof.decode(reader.rest(), key, state.key.exponent_bits)
                value = state.key.verification_values[j - 1]
                opening.verify(self._statement(j), self._powers(state.key), value, ciphertexts, parts[j], proof)
            except (CiphertextError, ProofError):
                wrong.append(name)
        if wrong:
            raise CheatingError(f"{', '.join(wrong)} opened the test ciphertexts with something else than its share")
        return (
            Step(Done(state.key, state.share)) if opens(state.key, parts, plaintexts) else self._accuse(state.evidence)
        )

    def _result(self, state: object) -> KeyShare | None:
        """This holder's share, once the ceremony is over."""
        return KeyShare(state.key, self.number, state.share) if isinstance(state, Done) else None

    # -- who lied

    def _accuse(self, evidence: Evidence) -> Step:
        """Open the winner's batch as well: there will be no key."""
        seeds = self._batch_seeds(evidence.search)
        post = self._public(Kind.OPENED_SEEDS, evidence.search.batch, AGAIN, *(seeds[s] for s in self._spoken_for()))
        return Step(AwaitingOpenedSeeds(evidence), (post,))

    @gathers(AwaitingOpenedSeeds, Kind.OPENED_SEEDS, lambda self, state: self.terms.names)
    def blame(self, state: AwaitingOpenedSeeds, said: Said) -> Step:
        """Compare what everybody said with what they should have said; raises the error that names who lied."""
        evidence, search = state.evidence, state.evidence.search
        batch = Batch(self.terms, self._opened_seeds(search, Kind.OPENED_SEEDS, said))
        liars = self._liars(search, batch)
        if not liars and search.winner is not None:
            n = search.moduli[search.winner]
            order, modulus = n**self.terms.degree, self.terms.ciphertext_modulus(n)
            numbers, base = batch.numbers(self._chosen(search)), verification_base(self.terms, n)
            # Empty when the accusation is about a rejected candidate.
            for j, (theta, values) in enumerate(zip(evidence.thetas, evidence.committed, strict=True), 1):
                share = batch.exponent_share(j, numbers, search.winner, n)
                if (theta, values[:1]) != (
                    share % order,
                    committed(base, [share * math.factorial(self.terms.holders)], modulus),
                ):
                    liars.append(f"holder {j}")
        if liars:
            raise CheatingError(_lied(liars))
        raise AgreementError("the ceremony came to no key, and nobody is found to have lied: start another one")

    def _complain(self, state: Searching | AwaitingExponentShares) -> Step:
        """Open all that this holder was told, for everybody; everybody, itself among them, reads it and judges."""
        evidence = self._evidence(state)
        search, told = replace(evidence.search, due=Kind.COMPLAINT.value), evidence.search.told
        after = search if isinstance(state, Searching) else replace(state, evidence=replace(evidence, search=search))
        return Step(after, (self._public(Kind.COMPLAINT, search.batch, FIRST, *told.secrets, *told.contributions),))

    @takes(Searching, Kind.COMPLAINT)
    @takes(AwaitingExponentCommitments, Kind.COMPLAINT)
    @takes(AwaitingExponentShares, Kind.COMPLAINT)
    @takes(AwaitingTestDecryptions, Kind.COMPLAINT)
    @takes(AwaitingOpenedSeeds, Kind.COMPLAINT)
    def judge_complaint(self, state: object, entry: Entry) -> Step:
        """See with the complainer's eyes; raises CheatingError, which names who lied to it, or itself."""
        name, evidence = entry.sender, self._evidence(state)
        search, j = evidence.search, self.terms.names.index(name) + 1
        others, sets = self._others(j), self._of(j)
        reader = self._read(
            Kind.COMPLAINT, search.batch, FIRST, name, entry.data, SEED_BYTES * (len(others) + len(sets))
        )
        secrets, contributions = (tuple(reader.take(SEED_BYTES) for _ in each) for each in (others, sets))
        if self._promise(j, secrets, contributions) != search.told.promised[j - 1]:
            raise CheatingError(f"{name} complains, and opens something else than it committed to")
        seeds, liars = self._seeds(search.told, j, secrets, contributions)
        if not liars and search.commitments:
            of_batch = {s: derive("batch", search.batch.to_bytes(8, "big"), seed) for s, seed in seeds.items()}
            liars = self._committed_otherwise(search, of_batch)
            if not liars and search.shown:
                liars = self._opened_otherwise(search, Batch(self.terms, of_batch).numbers(self._chosen(search)))
        if not liars and evidence.sealed:
            _, liars = self._shares(evidence, j, secrets)
        if liars:
            names = ", ".join(f"holder {k}" for k in sorted(liars))
            raise CheatingError(f"{names} told {name} something else than it committed to: there is no key")
        raise CheatingError(f"{name} complains, and was told nothing wrong: there is no key")

    # -- small things

    def _next(self, state: Searching, said: bytes) -> Step:
        return Step(replace(state, due=kind_of(said).value), (self._post(said),))

    def _post(self, data: bytes) -> Post:
        return Post(BOARD, data, _PHASES[kind_of(data)])

    def _public(self, kind: Kind, batch: int, stage: int, *parts: bytes) -> Post:
        return self._post(written(self.terms, kind, batch, stage, *parts))


_PHASES = {
    kind: "seeds" if kind <= Kind.SEED_CONTRIBUTIONS else "search" if kind <= Kind.OPENED_CANDIDATES else "key"
    for kind in (*CEREMONY_KINDS, Kind.FAILED_CEREMONY)
}


def _hear(heard: tuple[MessageDigest, ...], kind: Kind, stage: int, said: Said) -> tuple[MessageDigest, ...]:
    return (*heard, *(MessageDigest(int(kind), stage, name, digest_of(data)) for name, data in said.items()))


def _lied(liars: Sequence[str]) -> str:
    return f"{', '.join(liars)} said something else than follows from the seeds: there is no key; start again without"
