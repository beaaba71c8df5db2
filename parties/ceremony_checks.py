"""What the holders of a ceremony send and receive, and what everybody can check of it.

Holder j computes its messages for itself; when its seeds are opened, or its secrets in a complaint, everybody does, and
sees who cheated. A reader of the board has the public messages alone: `CeremonyReader` computes the key that they make.
docs/protocols/ceremony.md says what that proves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.parties.ceremony_states import (
    AGAIN,
    FIRST,
    ExponentSharing,
    MessageDigest,
    ModulusSearch,
    SeedMaterial,
)
from psephos.protocol.ceremony import pairs
from psephos.protocol.ceremony.exponent import (
    committed_share,
    opens,
    share_bound,
    test_ciphertexts,
    threshold_key,
    verification_base,
)
from psephos.protocol.ceremony.form import form_tests, form_weights
from psephos.protocol.ceremony.messages import (
    MessagesBySender,
    byte_length,
    opened,
    pack_integers,
    pack_residues,
    packed_bytes,
    unpack_integers,
    unpack_residues,
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
    flat_primes,
    form_modulus,
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
    InvalidParameter,
    MessageError,
    ProofError,
)
from psephos.protocol.paillier.ciphertexts import check_ciphertexts
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.proofs import opening
from psephos.protocol.roles import Entry
from psephos.protocol.wire import Kind, Reader


class PublicChecks:
    """The messages of a ceremony, in the order of the protocol: as holder `number` must send them, and their checks.

    `_with_...` return the state after a round's messages, one from every holder.
    """

    def __init__(self, terms: CeremonyTerms, number: int) -> None:
        if not 1 <= number <= terms.holders:
            raise InvalidParameter(f"number must be 1 to {terms.holders}, not {number}")
        self.terms, self.number = terms, number
        self._sets = tuple(self._sets_of(number))

    # -- the frame of a message

    def _encode(self, kind: Kind, search: ModulusSearch | None, *parts: bytes) -> bytes:
        return written(self.terms, kind, search.batch if search else 0, self._stage(kind, search), *parts)

    def _read(self, kind: Kind, search: ModulusSearch | None, sender: str, data: bytes, length: int) -> Reader:
        return opened(self.terms, kind, search.batch if search else 0, self._stage(kind, search), sender, data, length)

    def _stage(self, kind: Kind, search: ModulusSearch | None) -> int:
        if search is not None and kind in (Kind.COMMITMENT, Kind.TEST_VALUES):
            return search.stage
        return AGAIN if Kind.EXPONENT_COMMITMENTS <= kind <= Kind.OPENED_SEEDS else FIRST

    def _noted(self, search: ModulusSearch, kind: Kind, messages: MessagesBySender, **changes: Any) -> ModulusSearch:
        stage = self._stage(kind, search)
        digests = (MessageDigest(int(kind), stage, name, digest_of(data)) for name, data in messages.items())
        return replace(search, digests=(*search.digests, *digests), **changes)

    # -- seeds, and other values that holder j receives sealed: by itself, or by everybody after its complaint

    def _seed_commitments(self, holder: int, secrets: Sequence[bytes], contributions: Sequence[bytes]) -> bytes:
        """Return commitments to the contributions to a holder's sets, and its public keys for the others."""
        commitments = (commitment(c, holder, s) for s, c in zip(self._sets_of(holder), contributions, strict=True))
        return b"".join((*commitments, *map(pairs.public, secrets)))

    def _with_seed_commitments(self, material: SeedMaterial, messages: MessagesBySender) -> SeedMaterial:
        """Raise CheatingError for a public key of a pair with which nothing can be sealed."""
        read = []
        for j, (name, data) in enumerate(messages.items(), 1):
            length = SEED_BYTES * (len(self._sets_of(j)) + len(self._others(j)))
            read.append(self._read(Kind.SEED_COMMITMENTS, None, name, data, length).rest())
        material = replace(material, seed_commitments=tuple(read))
        for j in range(1, self.terms.holders + 1):
            for other in self._others(j):
                try:
                    pairs.seal(bytes(31) + b"\1", self._public_key(material, j, other), b"", b"")
                except MessageError:
                    raise CheatingError(f"holder {j} published an invalid public key") from None
        return material

    def _public_key(self, material: SeedMaterial, owner: int, other: int) -> bytes:
        place = SEED_BYTES * (len(self._sets_of(owner)) + self._others(owner).index(other))
        return material.seed_commitments[owner - 1][place : place + SEED_BYTES]

    def _sealed(self, material: SeedMaterial, kind: Kind, parts: Mapping[int, bytes]) -> list[bytes]:
        return [
            pairs.seal(secret, self._public_key(material, k, self.number), self._about(kind, self.number, k), parts[k])
            for k, secret in zip(self._others(), material.secrets, strict=True)
        ]

    def _read_sealed(self, kind: Kind, search: ModulusSearch | None, messages: MessagesBySender) -> tuple[bytes, ...]:
        part = self._contribution_bytes() if search is None else byte_length(share_bound(self.terms))
        length = (part + pairs.TAG_BYTES) * len(self._others())
        return tuple(self._read(kind, search, name, data, length).rest() for name, data in messages.items())

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

    # -- a batch: residues, moduli and tests

    def _products_message(self, state: ModulusSearch, batch: Batch, j: int) -> bytes:
        commitments = [batch.commitment(s, state.batch) for s in self._sets_of(j)]
        share = pack_residues(self.terms, batch.product_share(j))
        return self._encode(Kind.RESIDUE_PRODUCTS, state, *commitments, share)

    def _with_products(self, state: ModulusSearch, messages: MessagesBySender) -> ModulusSearch:
        commitments: dict[int, list[bytes]] = {}
        total = np.zeros_like(flat_primes(self.terms))
        for j, (name, data) in enumerate(messages.items(), 1):
            length = SEED_BYTES * len(self._sets_of(j)) + packed_bytes(self.terms)
            reader = self._read(Kind.RESIDUE_PRODUCTS, state, name, data, length)
            for s in self._sets_of(j):
                commitments.setdefault(s, []).append(reader.take(SEED_BYTES))
            total += unpack_residues(self.terms, reader.rest(), name)
        of_sets = tuple(tuple(commitments[s]) for s in range(len(self.terms.subsets)))
        products = (total % flat_primes(self.terms)).tobytes()
        return self._noted(state, Kind.RESIDUE_PRODUCTS, messages, commitments=of_sets, products=products)

    def _wrong_commitments(self, state: ModulusSearch, seeds: Mapping[int, bytes]) -> set[int]:
        return {
            k
            for s, seed in seeds.items()
            for k, value in zip(self.terms.subsets[s], state.commitments[s], strict=True)
            if value != commitment(seed, state.batch, s)
        }

    def _differences_message(self, state: ModulusSearch, batch: Batch, j: int) -> bytes:
        share = batch.difference_share(j, flat(state.products))
        return self._encode(Kind.RESIDUE_DIFFERENCES, state, pack_residues(self.terms, share))

    def _with_differences(self, state: ModulusSearch, messages: MessagesBySender) -> ModulusSearch:
        total = np.zeros_like(flat_primes(self.terms))
        for name, data in messages.items():
            reader = self._read(Kind.RESIDUE_DIFFERENCES, state, name, data, packed_bytes(self.terms))
            total += unpack_residues(self.terms, reader.rest(), name)
        differences = (total % flat_primes(self.terms)).tobytes()
        return self._noted(state, Kind.RESIDUE_DIFFERENCES, messages, differences=differences)

    def _commitment_message(self, state: ModulusSearch, name: str, values: bytes) -> bytes:
        """Return a commitment to values; it includes the name, so that no holder can copy another's commitment."""
        return self._encode(Kind.COMMITMENT, state, hashlib.sha256(name.encode() + b"\0" + values).digest())

    def _with_commitments(self, state: ModulusSearch, messages: MessagesBySender) -> ModulusSearch:
        for name, data in messages.items():
            self._read(Kind.COMMITMENT, state, name, data, SEED_BYTES)
        return self._noted(state, Kind.COMMITMENT, messages)

    def _check_commitments(self, state: ModulusSearch, messages: MessagesBySender) -> None:
        """Raise CheatingError if a message differs from its sender's commitment in this stage."""
        committed_digests = {
            h.sender: h.digest for h in state.digests if (h.kind, h.stage) == (Kind.COMMITMENT, state.stage)
        }
        for name, data in messages.items():
            if digest_of(self._commitment_message(state, name, data)) != committed_digests[name]:
                raise CheatingError(f"{name} opens other values than it committed to")

    def _moduli_message(self, state: ModulusSearch, batch: Batch, j: int, numbers: Numbers) -> bytes:
        bound = mpz(1) << self.terms.rest_bits
        return self._encode(Kind.MODULUS_SHARES, state, pack_integers(batch.modulus_share(j, numbers), bound))

    def _with_moduli(self, state: ModulusSearch, messages: MessagesBySender) -> ModulusSearch:
        chosen, bound = self._chosen(state), mpz(1) << self.terms.rest_bits
        rests = as_array([mpz(0)] * len(chosen))
        for name, data in messages.items():
            reader = self._read(Kind.MODULUS_SHARES, state, name, data, len(chosen) * byte_length(bound))
            rests = rests + as_array(unpack_integers(reader, len(chosen), bound, name))
        self._check_commitments(state, messages)
        found = moduli(self.terms, flat(state.products), chosen, list(rests % bound))
        tested = survivors(self.terms, found)
        return self._noted(state, Kind.MODULUS_SHARES, messages, moduli=found, tested=tested, stage=FIRST)

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

    def _read_values(self, state: ModulusSearch, name: str, data: bytes) -> tuple[list[list[mpz]], list[list[mpz]]]:
        """Decode a holder's test values and, in the second stage, its shares of multiples of phi(n)."""
        places, count = (state.tested, 1) if state.stage == FIRST else (state.passed, CONFIRMATIONS)
        moduli_ = [state.moduli[k] for k in places]
        bounds = [form_modulus(self.terms, n) for n in moduli_] if state.stage == AGAIN else []
        length = count * sum(map(byte_length, moduli_)) + FORM_MASKS * sum(map(byte_length, bounds))
        reader = self._read(Kind.TEST_VALUES, state, name, data, length)
        tests, forms = [], []
        for at, n in enumerate(moduli_):
            tests.append(unpack_integers(reader, count, n, name))
            if any(gmpy2.gcd(value, n) != 1 for value in tests[-1]):
                raise CheatingError(f"{name} opens a test value that shares a factor with n")
            if state.stage == AGAIN:
                forms.append(unpack_integers(reader, FORM_MASKS, bounds[at], name))
        return tests, forms

    def _with_values(self, state: ModulusSearch, messages: MessagesBySender) -> ModulusSearch:
        """Judge a test: go on to the second with those that passed the first; the first to pass both is the winner."""
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
        state = self._noted(state, Kind.TEST_VALUES, messages, values=b"")
        if not passed:
            return state
        if state.stage == FIRST:
            return replace(state, passed=tuple(passed), stage=AGAIN)
        at = places.index(passed[0])
        sums = tuple(mpz(sum(each)) for each in zip(*(forms[at] for _, forms in values), strict=True))
        return replace(state, winner=passed[0], form_sums=sums)

    # -- what is opened of a batch

    def _opening_message(self, state: ModulusSearch, kind: Kind = Kind.OPENED_CANDIDATES) -> bytes:
        """Return the message with the seeds of the sets that this holder opens, or with all pieces but the winner's."""
        if state.winner is None or kind is Kind.OPENED_SEEDS:
            seeds = self._batch_seeds(state)
            return self._encode(kind, state, *(seeds[s] for s in self._opened_sets()))
        numbers, bound = self._numbers(state), self._piece_bound()
        shown = (np.delete(both, state.winner) for s in self._opened_sets() for both in numbers[s])
        return self._encode(kind, state, *(pack_integers(one, bound) for one in shown))

    def _opened_seeds(self, state: ModulusSearch, kind: Kind, messages: MessagesBySender) -> dict[int, bytes]:
        """Decode the opened seeds of all sets; raises CheatingError for a seed that differs from its commitment."""
        seeds = {}
        for j, (name, data) in enumerate(messages.items(), 1):
            opened_sets = self._opened_sets(j)
            reader = self._read(kind, state, name, data, SEED_BYTES * len(opened_sets))
            for s in opened_sets:
                seeds[s] = reader.take(SEED_BYTES)
                if commitment(seeds[s], state.batch, s) != state.commitments[s][0]:
                    raise CheatingError(f"{name} opens another seed than the one it committed to")
        return seeds

    def _check_rejected_batch(self, state: ModulusSearch, messages: MessagesBySender) -> None:
        """Raise CheatingError unless the opened seeds of a batch without a winner give what was opened in it."""
        batch = Batch(self.terms, self._opened_seeds(state, Kind.OPENED_CANDIDATES, messages))
        opened_before = zip((state.products, state.differences), batch.opened(), strict=True)
        right = all(np.array_equal(flat(was), is_) for was, is_ in opened_before)
        if right:
            p, q = batch.factors(self._chosen(state))
            lost = any(is_good(self.terms, p[k], q[k]) for k in state.tested)
            right = all(p * q == as_array(state.moduli)) and not lost
        if not right and (liars := self._liars(state, batch)):
            raise cheated(liars)

    def _liars(self, state: ModulusSearch, batch: Batch) -> list[str]:
        """Return the holders whose messages in this batch do not follow from its seeds."""
        numbers, first = batch.numbers(self._chosen(state)), replace(state, stage=FIRST)
        digests = {(h.kind, h.stage, h.sender): h.digest for h in state.digests}
        liars = []
        for j, name in enumerate(self.terms.names, 1):
            right = [
                (Kind.RESIDUE_PRODUCTS, FIRST, self._products_message(state, batch, j)),
                (Kind.RESIDUE_DIFFERENCES, FIRST, self._differences_message(state, batch, j)),
                (Kind.MODULUS_SHARES, FIRST, self._moduli_message(state, batch, j, numbers)),
                (Kind.TEST_VALUES, FIRST, self._values_message(first, batch, j, numbers)),
            ]
            if state.stage == AGAIN:
                right.append((Kind.TEST_VALUES, AGAIN, self._values_message(state, batch, j, numbers)))
            if any(digests[kind, stage, name] != digest_of(data) for kind, stage, data in right):
                liars.append(name)
        return liars

    def _with_opened_pieces(self, state: ModulusSearch, messages: MessagesBySender) -> tuple[ModulusSearch, Numbers]:
        """Decode the opened pieces of the rejected candidates in the winner's batch, and store their digests."""
        bound, count = self._piece_bound(), len(state.moduli) - 1
        size = count * byte_length(bound)
        pieces: Numbers = {}
        digests: dict[int, bytes] = {}
        for j, (name, data) in enumerate(messages.items(), 1):
            opened_sets = self._opened_sets(j)
            reader = self._read(Kind.OPENED_CANDIDATES, state, name, data, 2 * size * len(opened_sets))
            for s in opened_sets:
                both = unpack_integers(reader, 2 * count, bound, name)
                pieces[s] = (both[:count], both[count:])
                digests[s] = digest_of(pack_integers(both, bound))
        return replace(state, opened_digests=tuple(digests[s] for s in range(len(digests)))), pieces

    def _wrong_openings(self, state: ModulusSearch, numbers: Numbers) -> set[int]:
        """Return the holders that opened pieces of rejected candidates other than `numbers`, which has them by set."""
        wrong = set()
        for s, both in numbers.items():
            parts = (pack_integers(np.delete(one, state.place), self._piece_bound()) for one in both)
            if digest_of(b"".join(parts)) != state.opened_digests[s]:
                wrong.add(home(self.terms, s))
        return wrong

    def _rejected_rightly(self, state: ModulusSearch, pieces: Numbers) -> bool:
        """Return whether the opened candidates are products of the right form, and none of them could be the key's."""
        winner = state.place
        for at, k in enumerate(k for k in range(len(state.moduli)) if k != winner):
            p, q = (self.terms.offset + sum(both[i][at] for both in pieces.values()) for i in (0, 1))
            spare = k in state.passed and k > winner
            lost = k in state.tested and not spare and is_good(self.terms, p, q)
            if p * q != state.moduli[k] or gmpy2.gcd((p - 1) * (q - 1), self.terms.step) != 4 or lost:
                return False
        return True

    # -- the key

    def _form_proof(self, state: ModulusSearch, batch: Batch, j: int, numbers: Numbers) -> tuple[mpz, ...] | None:
        """Return holder j's part of the proof of form; None if there are no weights."""
        n, place = state.modulus, state.place
        weights = form_weights(self.terms, n, state.form_sums)
        if weights is None:
            return None
        sieved, larger = form_tests(self.terms, n)
        multiple = batch.sieved_multiple(j, numbers, place, n, self._chosen(state)[place])
        quotient, rest = gmpy2.f_divmod(multiple, sieved.modulus)
        exponent = batch.form_exponent(j, numbers, place, n, weights)
        return (rest, *sieved.roots(quotient), *larger.roots(exponent))

    def _with_exponents(self, state: ExponentSharing, messages: MessagesBySender) -> ExponentSharing:
        """Add the commitments to the exponent, the proof of form, and the key, unless exponent or form are wrong."""
        n, t = state.search.modulus, self.terms.threshold
        order, modulus, sieved = n**self.terms.degree, self.terms.ciphertext_modulus(n), self.terms.sieved
        roots = sum(len(test.bases) for test in form_tests(self.terms, n))
        length = byte_length(order) + t * byte_length(modulus) + byte_length(sieved) + roots * byte_length(n)
        thetas, commitments, forms = [], [], []
        for name, data in messages.items():
            reader = self._read(Kind.EXPONENT_COMMITMENTS, state.search, name, data, length)
            thetas += unpack_integers(reader, 1, order, name)
            commitments.append(tuple(unpack_integers(reader, t, modulus, name)))
            rest = unpack_integers(reader, 1, sieved, name)
            forms.append((*rest, *unpack_integers(reader, roots, n, name)))
            if any(gmpy2.gcd(value, n) != 1 for value in (*commitments[-1], *forms[-1][1:])):
                raise CheatingError(f"{name} committed to a number that shares a factor with n")
        state = replace(state, thetas=tuple(thetas), committed=tuple(commitments), form=tuple(forms))
        total, theta = mpz(1), sum(thetas) % order
        for values in commitments:
            total = total * values[0] % n
        if total != 1 or gmpy2.gcd(theta, n) != 1 or not self._has_form(state):
            return state
        return replace(state, key=threshold_key(self.terms, n, theta, commitments))

    def _has_form(self, state: ExponentSharing) -> bool:
        sums = state.search.form_sums
        sieved, larger = form_tests(self.terms, state.search.modulus)
        weights, count = form_weights(self.terms, state.search.modulus, sums), len(sieved.bases)
        total = mpz(sum(rest for rest, *_ in state.form))
        return (
            weights is not None
            and gmpy2.gcd(total, sieved.modulus) == 1
            and sieved.accepts(total, [roots[:count] for _, *roots in state.form])
            and larger.accepts(
                mpz(sum(w * x for w, x in zip(weights, sums, strict=True))),
                [roots[count:] for _, *roots in state.form],
            )
        )

    def _shares(self, state: ExponentSharing, j: int, secrets: Sequence[bytes]) -> tuple[list[int], set[int]]:
        """Return the others' shares of d for holder j, and the holders whose share differs from its commitment."""
        material, n, bound = state.search.material, state.search.modulus, share_bound(self.terms)
        base, modulus = verification_base(self.terms, n), self.terms.ciphertext_modulus(n)
        shares, liars = [], set()
        for k, secret in zip(self._others(j), secrets, strict=True):
            try:
                data = self._unsealed(material, Kind.EXPONENT_SHARES, k, j, secret, state.sealed[k - 1])
            except MessageError:
                data = b""
            share = mpz.from_bytes(data, "little")
            # powmod_sec does not accept 0, which only a cheater sends.
            if not 0 < share < bound or gmpy2.powmod_sec(base, share, modulus) != committed_share(
                state.committed[k - 1], j, modulus
            ):
                liars.add(k)
            shares.append(int(share))
        return shares, liars

    def _opens_tests(self, search: ModulusSearch, key: ThresholdKey, messages: MessagesBySender) -> bool:
        """Return whether any t of the partial decryptions open the public ciphertexts."""
        ciphertexts, plaintexts = test_ciphertexts(self.terms, key.key.modulus)
        proof_bytes = opening.OpeningProof.encoded_length(key)
        length = len(ciphertexts) * byte_length(key.key.ciphertext_modulus) + proof_bytes
        parts, wrong = {}, []
        for j, (name, data) in enumerate(messages.items(), 1):
            reader = self._read(Kind.TEST_DECRYPTION, search, name, data, length)
            parts[j] = unpack_integers(reader, len(ciphertexts), key.key.ciphertext_modulus, name)
            try:
                check_ciphertexts(key.key, parts[j])
                proof = opening.OpeningProof.decode(reader.rest(), key)
                opening.verify(self._statement(j), key, j, ciphertexts, parts[j], proof)
            except (CiphertextError, ProofError):
                wrong.append(name)
        if wrong:
            raise CheatingError(f"{', '.join(wrong)} opened the test ciphertexts with something else than its share")
        return opens(key, parts, plaintexts)

    def _statement(self, holder: int) -> bytes:
        return self.terms.digest + bytes([Kind.TEST_DECRYPTION, holder])

    # -- helpers

    def _batch_seeds(self, state: ModulusSearch) -> dict[int, bytes]:
        return self._seeds_of_batch(state, dict(zip(self._sets, state.seeds, strict=True)))

    def _seeds_of_batch(self, state: ModulusSearch, seeds: Mapping[int, bytes]) -> dict[int, bytes]:
        return {s: derive("batch", state.batch.to_bytes(8, "big"), seed) for s, seed in seeds.items()}

    def _batch(self, state: ModulusSearch) -> Batch:
        return Batch(self.terms, self._batch_seeds(state))

    def _numbers(self, state: ModulusSearch) -> Numbers:
        return {s: (as_array(p), as_array(q)) for s, (p, q) in zip(self._sets, state.pieces, strict=True)}

    def _chosen(self, state: ModulusSearch) -> NDArray[np.int64]:
        return choose(self.terms, flat(state.products), flat(state.differences))

    def _piece_bound(self) -> mpz:
        return self.terms.step << self.terms.top_bits

    def _sets_of(self, holder: int) -> list[int]:
        return [s for s, members in enumerate(self.terms.subsets) if holder in members]

    def _common_sets(self, one: int, other: int) -> list[int]:
        return [s for s in self._sets_of(one) if other in self.terms.subsets[s]]

    def _contribution_bytes(self) -> int:
        """Return the length of the contributions that a holder sends another; all pairs have equally many sets."""
        return SEED_BYTES * len(self._common_sets(1, 2))

    def _opened_sets(self, holder: int | None = None) -> list[int]:
        return [s for s in range(len(self.terms.subsets)) if home(self.terms, s) == (holder or self.number)]

    def _others(self, holder: int | None = None) -> list[int]:
        return [j for j in range(1, self.terms.holders + 1) if j != (holder or self.number)]


class CeremonyReader(PublicChecks):
    """Computes the key that a ceremony has made from its public messages, and checks these."""

    def __init__(self, terms: CeremonyTerms, entries: Iterable[Entry]) -> None:
        super().__init__(terms, 1)
        self._entries = iter(entries)
        self._arrived: dict[Kind, dict[str, bytes]] = {}

    def key(self) -> ThresholdKey:
        """Return the key; raises AgreementError or what a holder raises."""
        material = self._with_seed_commitments(SeedMaterial((), ()), self._next_of(Kind.SEED_COMMITMENTS))
        self._read_sealed(Kind.SEED_CONTRIBUTIONS, None, self._next_of(Kind.SEED_CONTRIBUTIONS))
        search = self._searched(ModulusSearch(material, ()))
        while search.winner is None:
            self._check_rejected_batch(search, self._next_of(Kind.OPENED_CANDIDATES))
            search = self._searched(ModulusSearch(material, (), search.batch + 1))
        search, pieces = self._with_opened_pieces(search, self._next_of(Kind.OPENED_CANDIDATES))
        if not self._rejected_rightly(search, pieces):
            raise AgreementError("a candidate for the modulus was rejected wrongly")
        key = self._with_exponents(ExponentSharing(search), self._next_of(Kind.EXPONENT_COMMITMENTS)).key
        if key is None:
            raise AgreementError("the exponent is wrong, or the modulus has another form")
        self._read_sealed(Kind.EXPONENT_SHARES, search, self._next_of(Kind.EXPONENT_SHARES))
        if not self._opens_tests(search, key, self._next_of(Kind.TEST_DECRYPTION)):
            raise AgreementError("the holders do not open the public ciphertexts")
        return key

    def _next_of(self, kind: Kind) -> MessagesBySender:
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

    def _searched(self, state: ModulusSearch) -> ModulusSearch:
        state = self._with_products(state, self._next_of(Kind.RESIDUE_PRODUCTS))
        if any(len(set(several)) != 1 for several in state.commitments):
            raise CheatingError("holders of one set have committed to different seeds of it")
        state = self._with_differences(state, self._next_of(Kind.RESIDUE_DIFFERENCES))
        state = self._with_commitments(state, self._next_of(Kind.COMMITMENT))
        state = self._with_moduli(state, self._next_of(Kind.MODULUS_SHARES))
        while True:
            before = state.stage
            state = self._with_commitments(state, self._next_of(Kind.COMMITMENT))
            state = self._with_values(state, self._next_of(Kind.TEST_VALUES))
            if state.stage == before:
                return state


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def flat(data: bytes) -> Flat:
    return np.frombuffer(data, np.int64)


def cheated(liars: Sequence[str]) -> CheatingError:
    return CheatingError(
        f"{', '.join(liars)} sent other messages than follow from the seeds; start another ceremony without it"
    )
