"""What holder j says in the ceremony and what it is told, as the protocol has it (docs/protocols/ceremony.md).

Holder j computes it for itself. When its seeds are opened, or its secrets in a complaint, everybody computes it too and
compares: that is how a liar is named.
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

from psephos.parties.ceremony_states import AGAIN, FIRST, AwaitingExponentCommitments, Evidence, Searching, SeedMaterial
from psephos.protocol.ceremony import pairs
from psephos.protocol.ceremony.exponent import committed_share, share_bound, verification_base
from psephos.protocol.ceremony.messages import (
    Said,
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
)
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.errors import CheatingError, InvalidParameter, MessageError
from psephos.protocol.paillier.threshold import ThresholdKey
from psephos.protocol.proofs import opening
from psephos.protocol.wire import Kind, Reader

__all__ = ["HolderComputation", "digest_of", "flat"]


class HolderComputation:
    """Of the holders under `terms`, as holder `number` sees it.

    Raises InvalidParameter when there is no such holder.
    """

    def __init__(self, terms: CeremonyTerms, number: int) -> None:
        if not 1 <= number <= terms.holders:
            raise InvalidParameter(f"holders are numbered 1 to {terms.holders}, there is no {number}")
        self.terms, self.number = terms, number
        self._sets = tuple(self._of(number))

    # -- what holder j was told, as it sees it or everybody when it complains

    def _seeds(
        self, told: SeedMaterial, j: int, secrets: Sequence[bytes], own: Sequence[bytes]
    ) -> tuple[dict[int, bytes], set[int]]:
        """The seeds of its sets; who told it another contribution than the one it committed to."""
        known, liars = {(s, j): c for s, c in zip(self._of(j), own, strict=True)}, set()
        for k, secret in zip(self._others(j), secrets, strict=True):
            try:
                data = self._unsealed(told, Kind.SEED_CONTRIBUTIONS, k, j, secret, told.sealed[k - 1])
            except MessageError:
                data = bytes(self._contribution_bytes())
            for at, s in enumerate(self._common(j, k)):
                known[s, k] = data[SEED_BYTES * at : SEED_BYTES * (at + 1)]
                place = SEED_BYTES * self._of(k).index(s)
                if commitment(known[s, k], k, s) != told.promised[k - 1][place : place + SEED_BYTES]:
                    liars.add(k)
        return {s: derive("seed", *(known[s, k] for k in self.terms.subsets[s])) for s in self._of(j)}, liars

    def _committed_otherwise(self, state: Searching, seeds: Mapping[int, bytes]) -> set[int]:
        """Who committed to another seed of this batch than these of its sets."""
        return {
            k
            for s, seed in seeds.items()
            for k, said in zip(self.terms.subsets[s], state.commitments[s], strict=True)
            if said != commitment(seed, state.batch, s)
        }

    def _opened_otherwise(self, state: Searching, numbers: Numbers) -> set[int]:
        """Who opened other pieces of rejected candidates than these of its sets."""
        right = {s: self._shown(state, both) for s, both in numbers.items()}
        return {home(self.terms, s) for s, digest in right.items() if digest != state.shown[s]}

    def _shown(self, state: Searching, both: tuple[Any, Any]) -> bytes:
        assert state.winner is not None
        parts = (pack_integers(np.delete(one, state.winner), self._piece_bound()) for one in both)
        return digest_of(b"".join(parts))

    def _shares(self, evidence: Evidence, j: int, secrets: Sequence[bytes]) -> tuple[list[int], set[int]]:
        """The others' shares of d for it; who gave it another than the one it committed to."""
        search, bound, shares, liars = evidence.search, share_bound(self.terms), [], set()
        assert search.winner is not None
        n = search.moduli[search.winner]
        base, modulus = verification_base(self.terms, n), self.terms.ciphertext_modulus(n)
        for k, secret in zip(self._others(j), secrets, strict=True):
            try:
                data = self._unsealed(search.told, Kind.EXPONENT_SHARES, k, j, secret, evidence.sealed[k - 1])
            except MessageError:
                data = b""
            share = mpz.from_bytes(data, "little")
            # powmod_sec takes no 0, which only a liar sends.
            if not 0 < share < bound or gmpy2.powmod_sec(base, share, modulus) != committed_share(
                evidence.committed[k - 1], j, modulus
            ):
                liars.add(k)
            shares.append(int(share))
        return shares, liars

    def _looks_right(self, state: Searching, batch: Batch) -> bool:
        """Whether an opened batch was opened right before, and no good candidate was rejected."""
        chosen = self._chosen(state)
        for was, is_ in zip((state.products, state.differences), batch.opened(), strict=True):
            if not np.array_equal(flat(was), is_):
                return False
        p, q = batch.factors(chosen)
        return all(p * q == as_array(state.moduli)) and not any(is_good(self.terms, p[k], q[k]) for k in state.tested)

    def _liars(self, state: Searching, batch: Batch) -> list[str]:
        """Who said something else in this batch than follows from its seeds."""
        numbers = batch.numbers(self._chosen(state))
        heard = {(h.kind, h.stage, h.sender): h.digest for h in state.heard}
        liars = []
        for j, name in enumerate(self.terms.names, 1):
            right = [
                (Kind.RESIDUE_PRODUCTS, FIRST, self._say_products(state, batch, j)),
                (Kind.RESIDUE_DIFFERENCES, FIRST, self._say_differences(state, batch, j)),
                (Kind.MODULUS_SHARES, FIRST, self._say_moduli(state, batch, j, numbers)),
                (Kind.TEST_VALUES, FIRST, self._say_values(replace(state, stage=FIRST), batch, j, numbers)),
            ]
            if state.stage == AGAIN:
                right.append((Kind.TEST_VALUES, AGAIN, self._say_values(state, batch, j, numbers)))
            if any(heard[kind, stage, name] != digest_of(data) for kind, stage, data in right):
                liars.append(name)
        return liars

    # -- what holder j says of a batch: of its own sets, or of all when they are opened

    def _say_products(self, state: Searching, batch: Batch, j: int) -> bytes:
        said = [batch.commitment(s, state.batch) for s in self._of(j)]
        return self._say(Kind.RESIDUE_PRODUCTS, state, *said, pack_residues(self.terms, batch.product_share(j)))

    def _say_differences(self, state: Searching, batch: Batch, j: int) -> bytes:
        share = batch.difference_share(j, flat(state.products))
        return self._say(Kind.RESIDUE_DIFFERENCES, state, pack_residues(self.terms, share))

    def _say_moduli(self, state: Searching, batch: Batch, j: int, numbers: Numbers) -> bytes:
        bound = mpz(1) << self.terms.rest_bits
        return self._say(Kind.MODULUS_SHARES, state, pack_integers(batch.modulus_share(j, numbers), bound))

    def _say_values(self, state: Searching, batch: Batch, j: int, numbers: Numbers) -> bytes:
        parts = []
        for place in state.tested if state.stage == FIRST else state.passed:
            n = state.moduli[place]
            chosen = bases(self.terms, n, 1 if state.stage == FIRST else 1 + CONFIRMATIONS)[state.stage :]
            parts.append(pack_integers(batch.test_values(j, numbers, place, n, chosen), n))
            if state.stage == AGAIN:
                shares = batch.form_share(j, numbers, place, n)
                parts.append(pack_integers(shares, form_modulus(self.terms, n)))
        return self._say(Kind.TEST_VALUES, state, *parts)

    def _say_commitment(self, state: Searching, name: str, values: bytes) -> bytes:
        """With the name, so that nobody commits to what another said."""
        return self._say(Kind.COMMITMENT, state, hashlib.sha256(name.encode() + b"\0" + values).digest())

    def _check_promises(self, state: Searching, said: Said) -> None:
        promised = {h.sender: h.digest for h in state.heard if (h.kind, h.stage) == (Kind.COMMITMENT, state.stage)}
        for name, data in said.items():
            if digest_of(self._say_commitment(state, name, data)) != promised[name]:
                raise CheatingError(f"{name} shows something else than it committed to")

    def _say(self, kind: Kind, state: Searching, *parts: bytes) -> bytes:
        stage = state.stage if kind in (Kind.COMMITMENT, Kind.TEST_VALUES) else FIRST
        return written(self.terms, kind, state.batch, stage, *parts)

    def _read_values(self, state: Searching, name: str, data: bytes) -> tuple[list[list[mpz]], list[list[mpz]]]:
        """Of every candidate under test its values, and in the second stage its multiples of phi.

        A value that is no unit is refused: two of 0 would make any n pass.
        """
        places, count = (state.tested, 1) if state.stage == FIRST else (state.passed, CONFIRMATIONS)
        moduli_ = [state.moduli[k] for k in places]
        bounds = [form_modulus(self.terms, n) for n in moduli_] if state.stage == AGAIN else []
        length = count * sum(map(byte_length, moduli_)) + FORM_MASKS * sum(map(byte_length, bounds))
        reader = self._read(Kind.TEST_VALUES, state.batch, state.stage, name, data, length)
        tests, forms = [], []
        for at, n in enumerate(moduli_):
            tests.append(unpack_integers(reader, count, n, name))
            if any(gmpy2.gcd(value, n) != 1 for value in tests[-1]):
                raise CheatingError(f"{name} shows a test value that is no unit")
            if state.stage == AGAIN:
                forms.append(unpack_integers(reader, FORM_MASKS, bounds[at], name))
        return tests, forms

    def _say_opening(self, state: Searching) -> bytes:
        """The seeds of the sets this holder speaks for; the pieces of all but the winner when there is one."""
        if state.winner is None:
            seeds = self._batch_seeds(state)
            return self._say(Kind.OPENED_CANDIDATES, state, *(seeds[s] for s in self._spoken_for()))
        numbers = self._numbers(state)
        parts = [
            pack_integers(np.delete(both, state.winner), self._piece_bound())
            for s in self._spoken_for()
            for both in numbers[s]
        ]
        return self._say(Kind.OPENED_CANDIDATES, state, *parts)

    def _opened_seeds(self, state: Searching, kind: Kind, said: Said) -> dict[int, bytes]:
        """Raises CheatingError for a seed that was not committed to."""
        seeds = {}
        for j, (name, data) in enumerate(said.items(), 1):
            stage = AGAIN if kind is Kind.OPENED_SEEDS else FIRST
            spoken_for = self._spoken_for(j)
            reader = self._read(kind, state.batch, stage, name, data, SEED_BYTES * len(spoken_for))
            for s in spoken_for:
                seeds[s] = reader.take(SEED_BYTES)
                if commitment(seeds[s], state.batch, s) != state.commitments[s][0]:
                    raise CheatingError(f"{name} opens another seed than the one it committed to")
        return seeds

    def _opened_pieces(self, state: Searching, said: Said) -> tuple[Searching, Numbers]:
        """Of the rejected candidates of the winner's batch; whoever is in a set sees whether its pieces are right."""
        bound, count = self._piece_bound(), len(state.moduli) - 1
        size = count * byte_length(bound)
        pieces: Numbers = {}
        shown: dict[int, bytes] = {}
        for j, (name, data) in enumerate(said.items(), 1):
            spoken_for = self._spoken_for(j)
            reader = self._read(Kind.OPENED_CANDIDATES, state.batch, FIRST, name, data, 2 * size * len(spoken_for))
            for s in spoken_for:
                both = unpack_integers(reader, 2 * count, bound, name)
                pieces[s] = (both[:count], both[count:])
                shown[s] = digest_of(pack_integers(both, bound))
        return replace(state, shown=tuple(shown[s] for s in range(len(shown)))), pieces

    # -- small things

    def _batch_seeds(self, state: Searching) -> dict[int, bytes]:
        number = state.batch.to_bytes(8, "big")
        return {s: derive("batch", number, seed) for s, seed in zip(self._sets, state.seeds, strict=True)}

    def _batch(self, state: Searching) -> Batch:
        return Batch(self.terms, self._batch_seeds(state))

    def _numbers(self, state: Searching) -> Numbers:
        return {s: (as_array(p), as_array(q)) for s, (p, q) in zip(self._sets, state.pieces, strict=True)}

    def _chosen(self, state: Searching) -> NDArray[np.int64]:
        return choose(self.terms, flat(state.products), flat(state.differences))

    def _piece_bound(self) -> mpz:
        return self.terms.step << self.terms.top_bits

    def _of(self, holder: int) -> list[int]:
        """The sets it is in."""
        return [s for s, members in enumerate(self.terms.subsets) if holder in members]

    def _common(self, one: int, other: int) -> list[int]:
        """The sets that both are in."""
        return [s for s in self._of(one) if other in self.terms.subsets[s]]

    def _contribution_bytes(self) -> int:
        """Of the contributions that one holder tells another: any two have as many sets in common."""
        return SEED_BYTES * len(self._common(1, 2))

    def _spoken_for(self, holder: int | None = None) -> list[int]:
        """The sets a holder opens."""
        return [s for s in range(len(self.terms.subsets)) if home(self.terms, s) == (holder or self.number)]

    def _others(self, holder: int | None = None) -> list[int]:
        return [j for j in range(1, self.terms.holders + 1) if j != (holder or self.number)]

    def _promise(self, holder: int, secrets: Sequence[bytes], contributions: Sequence[bytes]) -> bytes:
        """What it commits to: contributions, to the sets it is in, and keys, for the others."""
        said = (commitment(c, holder, s) for s, c in zip(self._of(holder), contributions, strict=True))
        return b"".join((*said, *map(pairs.public, secrets)))

    def _public_key(self, told: SeedMaterial, owner: int, other: int) -> bytes:
        """The owner's, for the other."""
        place = SEED_BYTES * (len(self._of(owner)) + self._others(owner).index(other))
        return told.promised[owner - 1][place : place + SEED_BYTES]

    def _sealed(self, told: SeedMaterial, kind: Kind, parts: Mapping[int, bytes]) -> list[bytes]:
        """One part for each of the others."""
        return [
            pairs.seal(secret, self._public_key(told, k, self.number), self._about(kind, self.number, k), parts[k])
            for k, secret in zip(self._others(), told.secrets, strict=True)
        ]

    def _unsealed(
        self, told: SeedMaterial, kind: Kind, sender: int, reader: int, secret: bytes, sealed: bytes
    ) -> bytes:
        """The reader's part of what a holder sealed for all others; raises MessageError when it does not open."""
        size, place = len(sealed) // len(self._others()), self._others(sender).index(reader)
        part = sealed[size * place : size * (place + 1)]
        return pairs.unseal(secret, self._public_key(told, sender, reader), self._about(kind, sender, reader), part)

    def _about(self, kind: Kind, sender: int, reader: int) -> bytes:
        return self.terms.digest + bytes([kind, sender, reader])

    def _statement(self, holder: int) -> bytes:
        return self.terms.digest + bytes([Kind.TEST_DECRYPTION, holder])

    def _powers(self, key: ThresholdKey) -> opening.Powers:
        return opening.Powers(key.key, key.verification_base, key.exponent_bits)

    def _evidence(self, state: Any) -> Evidence:
        """What is known in a state that has a batch."""
        if isinstance(state, Searching):
            return Evidence(state)
        return Evidence(state.search) if isinstance(state, AwaitingExponentCommitments) else state.evidence

    def _read(self, kind: Kind, batch: int, stage: int, sender: str, data: bytes, length: int) -> Reader:
        return opened(self.terms, kind, batch, stage, sender, data, length)


def digest_of(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def flat(data: bytes) -> Flat:
    """As a state keeps it."""
    return np.frombuffer(data, np.int64)
