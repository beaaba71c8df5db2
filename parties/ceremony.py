"""A key holder in the ceremony that generates a key without a dealer (docs/protocols/ceremony.md).

The methods are in the order of the protocol. All messages of the search for a modulus are functions of seeds that every
set of n - tau holders has in common; those of a batch without a winner are opened, and everybody checks its messages. A
holder that gets a wrong value in a sealed message opens its own secrets, and everybody sees who cheated.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from psephos.parties.ceremony_checks import PublicChecks, cheated
from psephos.parties.ceremony_states import (
    CeremonyDone,
    CeremonyFailed,
    ExponentSharing,
    ModulusSearch,
    SeedMaterial,
)
from psephos.protocol.ceremony.exponent import (
    committed,
    share_bound,
    test_ciphertexts,
    verification_base,
)
from psephos.protocol.ceremony.messages import MessagesBySender, failure, pack_integers
from psephos.protocol.ceremony.replicated import SEED_BYTES
from psephos.protocol.ceremony.search import Batch, exponent_share_bits
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import (
    AgreementError,
    CheatingError,
    PsephosError,
    UnexpectedMessageError,
)
from psephos.protocol.paillier.sharing import evaluate, integer_polynomial
from psephos.protocol.paillier.threshold import KeyShare
from psephos.protocol.proofs import opening
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.roles import BOARD, Entry, Machine, Post, Refusal, Rule, Step, gathers, takes
from psephos.protocol.wire import Kind, kind_of

CEREMONY_KINDS = frozenset(kind for kind in Kind if Kind.SEED_COMMITMENTS <= kind <= Kind.COMPLAINT)


def _from_all(state: type, kind: Kind) -> Callable[[Any], Any]:
    return gathers(state, kind, lambda holder, state: holder.terms.names)


class CeremonyHolder(PublicChecks, Machine):
    """The role of holder j of n, "holder J". Its result is its `KeyShare`."""

    reads = CEREMONY_KINDS
    longest_early = sys.maxsize  # only holders send here, and to readers a complaint of any length ends the ceremony

    def __init__(self, terms: CeremonyTerms, number: int, *, randomness: Randomness = SYSTEM) -> None:
        super().__init__(terms, number)
        self.name, self._randomness = f"holder {number}", randomness

    def due_kind(self, state: Any) -> Kind | None:
        return None if isinstance(state, CeremonyDone | CeremonyFailed) else Kind(state.due)

    def is_over(self, state: object) -> bool:
        return isinstance(state, CeremonyFailed)

    def _find_rule(self, held: Any, entry: Entry) -> Rule | None:
        if entry.sender not in self.terms.names:
            raise UnexpectedMessageError(f"{self.name}: {entry.sender} is not a holder of this ceremony")
        return super()._find_rule(held, entry)

    def _apply(self, rule: Rule, held: Any, run: list[Entry]) -> Step:
        """Apply a rule. Every error except an unexpected message ends the ceremony, and its text is posted for all."""
        try:
            return super()._apply(rule, held, run)
        except UnexpectedMessageError:
            raise
        except PsephosError as error:
            after = replace(held, state=CeremonyFailed(str(error)), arrived=())
            post = self._post(failure(self.terms, str(error)))
            return Step(after, (post,), (Refusal(run[-1], error),))

    # -- seeds that no holder can choose

    def _start(self) -> Step:
        """Commit to a contribution to the seed of each of its sets; publish a public key for each other holder."""
        secrets, contributions = (
            tuple(self._randomness.draw(SEED_BYTES) for _ in each) for each in (self._others(), self._sets)
        )
        promise = self._seed_commitments(self.number, secrets, contributions)
        post = self._post(self._encode(Kind.SEED_COMMITMENTS, None, promise))
        return Step(SeedMaterial(secrets, contributions), (post,))

    @_from_all(SeedMaterial, Kind.SEED_COMMITMENTS)
    def contribute(self, state: SeedMaterial, messages: MessagesBySender) -> Step:
        """Send every other holder, sealed, the contributions to the sets that both are in, once all have committed."""
        material = self._with_seed_commitments(state, messages)
        own = dict(zip(self._sets, material.contributions, strict=True))
        parts = {k: b"".join(own[s] for s in self._common_sets(self.number, k)) for k in self._others()}
        sealed = self._sealed(material, Kind.SEED_CONTRIBUTIONS, parts)
        return Step(material, (self._post(self._encode(Kind.SEED_CONTRIBUTIONS, None, *sealed)),))

    @_from_all(SeedMaterial, Kind.SEED_CONTRIBUTIONS)
    def agree(self, state: SeedMaterial, messages: MessagesBySender) -> Step:
        """Compute the seed of each set, a hash of all its holders' contributions, and start the first batch."""
        material = replace(state, sealed=self._read_sealed(Kind.SEED_CONTRIBUTIONS, None, messages))
        seeds, liars = self._seeds(material, self.number, material.secrets, material.contributions)
        search = ModulusSearch(material, tuple(seeds.values()))
        return self._complain(search) if liars else self._draw(search)

    # -- a batch of candidates

    def _draw(self, state: ModulusSearch) -> Step:
        return self._next(state, self._products_message(state, self._batch(state), self.number))

    @_from_all(ModulusSearch, Kind.RESIDUE_PRODUCTS)
    def subtract(self, state: ModulusSearch, messages: MessagesBySender) -> Step:
        """Open a random multiple of (a - 1)(b - 1) for every pair of residues."""
        state = self._with_products(state, messages)
        if self._wrong_commitments(state, self._batch_seeds(state)):
            return self._complain(state)
        return self._next(state, self._differences_message(state, self._batch(state), self.number))

    @_from_all(ModulusSearch, Kind.RESIDUE_DIFFERENCES)
    def multiply(self, state: ModulusSearch, messages: MessagesBySender) -> Step:
        """Combine the accepted residues to candidates, and commit to the shares of their products."""
        # A holder that chose its share of n after it saw the others' could determine n, and know its factors.
        state = self._with_differences(state, messages)
        batch = self._batch(state)
        numbers = batch.numbers(self._chosen(state))
        pieces = tuple((tuple(numbers[s][0]), tuple(numbers[s][1])) for s in self._sets)
        values = self._moduli_message(state, batch, self.number, numbers)
        return self._commit(replace(state, pieces=pieces), values)

    @_from_all(ModulusSearch, Kind.COMMITMENT)
    def show(self, state: ModulusSearch, messages: MessagesBySender) -> Step:
        """Open the shares of n, or the test values, once all have committed to theirs."""
        return self._next(self._with_commitments(state, messages), state.values)

    @_from_all(ModulusSearch, Kind.MODULUS_SHARES)
    def test(self, state: ModulusSearch, messages: MessagesBySender) -> Step:
        """Compute the moduli, discard those with small factors, and commit to the test values of the others."""
        return self._try(self._with_moduli(state, messages))

    def _try(self, state: ModulusSearch) -> Step:
        return self._commit(state, self._values_message(state, self._batch(state), self.number, self._numbers(state)))

    def _commit(self, state: ModulusSearch, values: bytes) -> Step:
        return self._next(replace(state, values=values), self._commitment_message(state, self.name, values))

    @_from_all(ModulusSearch, Kind.TEST_VALUES)
    def judge(self, state: ModulusSearch, messages: MessagesBySender) -> Step:
        """Test the candidates that passed again; then open the batch, except for the winner where there is one."""
        before, state = state.stage, self._with_values(state, messages)
        if before != state.stage:
            return self._try(state)
        return self._next(state, self._opening_message(state))

    @_from_all(ModulusSearch, Kind.OPENED_CANDIDATES)
    def check(self, state: ModulusSearch, messages: MessagesBySender) -> Step:
        if state.winner is None:
            self._check_rejected_batch(state, messages)
            return self._draw(ModulusSearch(state.material, state.seeds, state.batch + 1))
        state, pieces = self._with_opened_pieces(state, messages)
        if self._wrong_openings(state, self._numbers(state)):
            return self._complain(state)
        if not self._rejected_rightly(state, pieces):
            return self._accuse(ExponentSharing(state))
        return self._deal(state)

    # -- the key

    def _deal(self, state: ModulusSearch) -> Step:
        """Commit to the polynomial that shares this holder's part of d, t of n; prove the form of the modulus."""
        n, batch, numbers = state.modulus, self._batch(state), self._numbers(state)
        form = self._form_proof(state, batch, self.number, numbers)
        if form is None:
            return self._accuse(ExponentSharing(state))
        share = batch.exponent_share(self.number, numbers, state.place, n)
        polynomial = integer_polynomial(
            share,
            1 << exponent_share_bits(self.terms),
            holders=self.terms.holders,
            threshold=self.terms.threshold,
            randomness=self._randomness,
        )
        order, modulus = n**self.terms.degree, self.terms.ciphertext_modulus(n)
        commitments = committed(verification_base(self.terms, n), polynomial, modulus)
        message = self._encode(
            Kind.EXPONENT_COMMITMENTS,
            state,
            pack_integers([share % order], order),
            pack_integers(commitments, modulus),
            pack_integers(form[:1], self.terms.sieved),
            pack_integers(form[1:], n),
        )
        return self._next(ExponentSharing(state, tuple(polynomial)), message)

    @_from_all(ExponentSharing, Kind.EXPONENT_COMMITMENTS)
    def derive(self, state: ExponentSharing, messages: MessagesBySender) -> Step:
        """Compute theta and the verification values, and send the shares of d, sealed."""
        state = self._with_exponents(state, messages)
        if state.key is None:
            return self._accuse(state)
        bound = share_bound(self.terms)
        parts = {k: pack_integers([evaluate(state.polynomial, k)], bound) for k in self._others()}
        sealed = self._sealed(state.search.material, Kind.EXPONENT_SHARES, parts)
        return self._next(state, self._encode(Kind.EXPONENT_SHARES, state.search, *sealed))

    @_from_all(ExponentSharing, Kind.EXPONENT_SHARES)
    def receive_shares(self, state: ExponentSharing, messages: MessagesBySender) -> Step:
        """Check every share, sum them to this holder's share, and partially decrypt public ciphertexts with it."""
        assert state.key is not None
        search, key = state.search, state.key
        state = replace(state, sealed=self._read_sealed(Kind.EXPONENT_SHARES, search, messages))
        others, liars = self._shares(state, self.number, search.material.secrets)
        if liars:
            return self._complain(state)
        share = KeyShare(key, self.number, evaluate(state.polynomial, self.number) + sum(others))
        ciphertexts, _ = test_ciphertexts(self.terms, key.key.modulus)
        parts = share.partially_decrypt(ciphertexts)
        proof = opening.prove(
            self._statement(self.number),
            key,
            ciphertexts,
            parts,
            share.exponent,
            randomness=self._randomness,
        )
        opens_as = pack_integers(parts, key.key.ciphertext_modulus)
        message = self._encode(Kind.TEST_DECRYPTION, search, opens_as, proof.encode(key))
        return self._next(replace(state, polynomial=(), share=share.share()), message)

    @_from_all(ExponentSharing, Kind.TEST_DECRYPTION)
    def finish(self, state: ExponentSharing, messages: MessagesBySender) -> Step:
        """Check that every partial decryption is proved, and that any t of them open the public ciphertexts."""
        assert state.key is not None
        if self._opens_tests(state.search, state.key, messages):
            return Step(CeremonyDone(state.key, state.share))
        return self._accuse(state)

    def _result(self, state: object) -> KeyShare | None:
        return KeyShare(state.key, self.number, state.share) if isinstance(state, CeremonyDone) else None

    # -- finding cheaters

    def _accuse(self, state: ExponentSharing) -> Step:
        """Open the seeds of the winner's batch as well; the ceremony ends without a key."""
        return self._next(
            replace(state, polynomial=(), share=0), self._opening_message(state.search, Kind.OPENED_SEEDS)
        )

    @_from_all(ExponentSharing, Kind.OPENED_SEEDS)
    def blame(self, state: ExponentSharing, messages: MessagesBySender) -> Step:
        search, n = state.search, state.search.modulus
        batch = Batch(self.terms, self._opened_seeds(search, Kind.OPENED_SEEDS, messages))
        liars = self._liars(search, batch)
        if not liars:
            order, modulus = n**self.terms.degree, self.terms.ciphertext_modulus(n)
            numbers, base = batch.numbers(self._chosen(search)), verification_base(self.terms, n)
            # Empty when the accusation is about a rejected candidate.
            claims = zip(state.thetas, state.committed, state.form, strict=True)
            for j, (theta, values, form) in enumerate(claims, 1):
                share = batch.exponent_share(j, numbers, search.place, n)
                if (theta, values[:1], form) != (
                    share % order,
                    committed(base, [share * math.factorial(self.terms.holders)], modulus),
                    self._form_proof(search, batch, j, numbers),
                ):
                    liars.append(f"holder {j}")
        if liars:
            raise cheated(liars)
        raise AgreementError("the ceremony ended without a key, and no holder cheated; start another one")

    def _complain(self, state: ModulusSearch | ExponentSharing) -> Step:
        """Post this holder's secrets, so that everybody, itself included, can decide who cheated."""
        search = _evidence(state).search
        opened = (*search.material.secrets, *search.material.contributions)
        return self._next(state, self._encode(Kind.COMPLAINT, search, *opened))

    @takes(ModulusSearch, Kind.COMPLAINT)
    @takes(ExponentSharing, Kind.COMPLAINT)
    def judge_complaint(self, state: ModulusSearch | ExponentSharing, entry: Entry) -> Step:
        name, evidence = entry.sender, _evidence(state)
        search, j = evidence.search, self.terms.names.index(name) + 1
        others, sets = self._others(j), self._sets_of(j)
        reader = self._read(Kind.COMPLAINT, search, name, entry.data, SEED_BYTES * (len(others) + len(sets)))
        secrets, contributions = (tuple(reader.take(SEED_BYTES) for _ in each) for each in (others, sets))
        if self._seed_commitments(j, secrets, contributions) != search.material.seed_commitments[j - 1]:
            raise CheatingError(f"{name} complains, and opens something else than it committed to")
        seeds, liars = self._seeds(search.material, j, secrets, contributions)
        if not liars and search.commitments:
            of_batch = self._seeds_of_batch(search, seeds)
            liars = self._wrong_commitments(search, of_batch)
            if not liars and search.opened_digests:
                liars = self._wrong_openings(search, Batch(self.terms, of_batch).numbers(self._chosen(search)))
        if not liars and evidence.sealed:
            _, liars = self._shares(evidence, j, secrets)
        if liars:
            names = ", ".join(f"holder {k}" for k in sorted(liars))
            raise CheatingError(
                f"{names} told {name} another value than it committed to; start another ceremony without it"
            )
        raise CheatingError(
            f"{name} complains without cause: it was told nothing wrong; start another ceremony without it"
        )

    # -- helpers

    def _next(self, state: ModulusSearch | ExponentSharing, message: bytes) -> Step:
        return Step(replace(state, due=kind_of(message).value), (self._post(message),))

    def _post(self, data: bytes) -> Post:
        return Post(BOARD, data, _PHASES[kind_of(data)])


def _evidence(state: ModulusSearch | ExponentSharing) -> ExponentSharing:
    return ExponentSharing(state) if isinstance(state, ModulusSearch) else state


_PHASES = {
    kind: "seeds" if kind <= Kind.SEED_CONTRIBUTIONS else "search" if kind <= Kind.OPENED_CANDIDATES else "key"
    for kind in (*CEREMONY_KINDS, Kind.FAILED_CEREMONY)
}
