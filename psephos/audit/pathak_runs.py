"""Runs of Pathak's protocol for its analysis: four parties, of which party 2 has the smallest data set.

Keys are of test size, data are synthetic, and all randomness comes from the context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from psephos.audit.adversary import Replacements, Tampering
from psephos.audit.matrix import HONEST, Members
from psephos.audit.model import AnalysisContext
from psephos.audit.settings import RecordedTranscript
from psephos.parties.pathak import Contribution
from psephos.protocol.errors import MessageError
from psephos.protocol.paillier.private_key import generate_private_key
from psephos.protocol.pathak.comparison import Answer
from psephos.protocol.pathak.dgk import DgkPrivateKey, generate_dgk_key
from psephos.protocol.pathak.messages import (
    KEYED_SIZE_BITS,
    Answers,
    Ciphertexts,
    GroupKey,
    GroupSecret,
    IndexedShare,
    LentShare,
    Opponents,
    Proposal,
    Questions,
    Share,
    SizeShare,
)
from psephos.protocol.pathak.noise import noise_plan
from psephos.protocol.pathak.terms import CURATOR, PathakTerms, party_name
from psephos.protocol.roles import Entry, Post, Step
from psephos.protocol.transcript import SentMessage, Transcript
from psephos.protocol.wire import HEADER_BYTES, Kind, kind_of
from psephos.simulation.pathak import PathakKeys, run_protocol
from psephos.specs.pathak import make_terms

PARTIES, FEATURES = 4, 2
SIZES = (24, 30, 17, 20)
"""Number of records of parties 0 to 3."""
SMALLEST = 2
"""Number of the party with the fewest records."""
LAMBDA, EPSILON = 0.1, 1.0

PathakKind = Literal["public-bound", "repaired", "all-pairs", "printed"]
KINDS: dict[PathakKind, dict[str, Any]] = {
    "public-bound": {"variant": "public-bound"},
    "repaired": {"variant": "repaired"},
    "all-pairs": {"variant": "repaired", "comparisons": "all-pairs"},
    "printed": {"variant": "printed", "comparisons": "all-pairs"},
}
"""What differs between the terms of the cases: the variant and the comparisons."""

Records = tuple[NDArray[np.float64], NDArray[np.int64]]
"""A party's samples, float64 (n, d), and class numbers, int64 (n,)."""


def add_to_share(data: bytes, terms: PathakTerms, by: Sequence[int]) -> bytes:
    """Return a message with a share to which a vector has been added modulo 2^m."""
    share = Share.decode(data, kind_of(data), terms)
    values = tuple((v + b) % (1 << share.bits) for v, b in zip(share.values, by, strict=True))
    return replace(share, values=values).encode(terms.digest)


class ZeroContributionParty(Tampering):
    """A party that subtracts its parameters and its noise from the first share it sends."""

    def observe(self, step: Step) -> None:
        self._latest = step.state

    def send(self, post: Post, seen: Sequence[Entry]) -> Iterable[Post]:
        if kind_of(post.data) is not Kind.RESHARE or post.receiver != CURATOR:
            return [post]
        own = self.honest.result(self._latest)
        change = [-w - e for w, e in zip(own.parameters, own.noise[0], strict=True)]
        return [replace(post, data=add_to_share(post.data, self.honest.terms, change))]  # type: ignore[attr-defined]


@dataclass(frozen=True)
class ObservedRun:
    terms: PathakTerms
    keys: PathakKeys = field(repr=False)
    transcript: Transcript
    contributions: dict[int, Contribution] = field(repr=False)
    total: tuple[int, ...] = field(repr=False)
    _opened: dict[int, Any] = field(default_factory=dict, repr=False)

    def messages(self, *kinds: Kind) -> list[tuple[SentMessage, Any]]:
        titles = {kind.title for kind in kinds}
        return [(m, self.opened(m)) for m in self.transcript.messages if m.kind in titles]

    def opened(self, message: SentMessage) -> Any:
        if id(message) not in self._opened:
            self._opened[id(message)] = decoded(self.terms, self.keys, message)
        return self._opened[id(message)]

    @property
    def order(self) -> tuple[int, ...]:
        """The permutation pi_1, which every party knows."""
        secret: GroupSecret = self.messages(Kind.GROUP_SECRET)[0][1]
        return secret.permutation

    def bases(self, number: int) -> Sequence[mpz]:
        """Return the ciphertexts that a party raises to the powers of its noise."""
        if self.terms.joint:
            return self.messages(Kind.BUCKET_SELECTION)[0][1].ciphertexts  # type: ignore[no-any-return]
        return [self.messages(Kind.SELECTION)[0][1].ciphertexts[self.order[number]]]

    def with_total(self, total: Sequence[int], number: int) -> ObservedRun:
        """Return the run in which a party published the share with which the total is another one."""
        change = [new - old for new, old in zip(total, self.total, strict=True)]
        messages = self.transcript.messages
        published = (Kind.PUBLISHED_SHARE.title, party_name(number))
        for place, message in enumerate(messages):
            if (message.kind, message.sender) == published and message.data is not None:
                messages[place] = replace(message, data=add_to_share(message.data, self.terms, change))
        return replace(self, total=tuple(total), _opened={})


def decoded(terms: PathakTerms, keys: PathakKeys, message: SentMessage) -> Any:
    """Return the content of a message as its receiver decodes it. Raises MessageError, and what the decoders raise."""
    data = message.data
    assert data is not None
    kind, turn = kind_of(data), int.from_bytes(data[HEADER_BYTES:][:1], "big")
    zeta, xi, dgk = keys.curator.public_key, keys.group.public_key, keys.comparison.public_key
    owner = int(message.receiver.split()[-1]) if message.receiver.startswith("party") else -1
    places = noise_plan(terms, zeta).ciphertexts
    counts = {
        Kind.SELECTION: terms.parties,
        Kind.BUCKET_VOTE: len(terms.buckets),
        Kind.BUCKET_SELECTION: len(terms.buckets),
        Kind.NOISE_FACTOR: places,
        Kind.MASKED_NOISE: places,
    }
    answers = (len(data) - HEADER_BYTES) // Answer.encoded_length(dgk, KEYED_SIZE_BITS)
    readers: dict[Kind, Callable[[], Any]] = {
        Kind.PROPOSAL: lambda: Proposal.decode(data, test_key=True),
        Kind.GROUP_SECRET: lambda: GroupSecret.decode(data, terms, test_key=True),
        Kind.GROUP_KEY: lambda: GroupKey.decode(data, terms, test_key=True),
        Kind.SIZE_SHARE: lambda: SizeShare.decode(data, terms, zeta),
        Kind.INDEXED_SHARE: lambda: IndexedShare.decode(data, terms, xi, zeta, message.sender),
        Kind.MASKED_SHARE: lambda: Ciphertexts.decode(data, kind, terms, xi, 1),
        Kind.QUESTIONS: lambda: Questions.decode(data, terms, owner, dgk),
        Kind.OPPONENTS: lambda: Opponents.decode(data, terms, owner),
        Kind.LENT_SHARE: lambda: LentShare.decode(data, terms, turn),
        Kind.ANSWERS: lambda: Answers.decode(data, terms, turn, dgk, answers),
        Kind.RESHARE: lambda: Share.decode(data, kind, terms),
        Kind.PUBLISHED_SHARE: lambda: Share.decode(data, kind, terms),
        **dict.fromkeys(counts, lambda: Ciphertexts.decode(data, kind, terms, zeta, counts[kind])),
    }
    if kind not in readers:
        raise MessageError(f"Pathak's protocol has no message of the kind {kind.title!r}")
    return readers[kind]()


def keys_of(context: AnalysisContext) -> PathakKeys:
    def make() -> PathakKeys:
        zeta, comparison, xi = (context.coins(name) for name in ("zeta", "comparison key", "xi"))
        return PathakKeys(
            generate_private_key(384, test_key=True, randomness=zeta),
            generate_dgk_key(256, comparison_bits=KEYED_SIZE_BITS, test_key=True, randomness=comparison),
            generate_private_key(384, test_key=True, randomness=xi),
        )

    return context.cached("pathak keys", make)


def plain_table(key: DgkPrivateKey) -> dict[mpz, int]:
    """Return c^(v_p) mod p -> plaintext, for each plaintext: with this table the owner of the key decrypts."""
    p, v, public = key._p, key._v_p, key.public_key
    base = gmpy2.powmod(public.g, v, p)
    table, power = {}, mpz(1)
    for m in range(public.u):
        table[power] = m
        power = power * base % p
    return table


def plain_answer(key: DgkPrivateKey, reply: Answer, table: Mapping[mpz, int]) -> list[int]:
    """Return the plaintexts of an answer; `table`: as `plain_table` returns it."""
    return [table[gmpy2.powmod(c, key._v_p, key._p)] for c in reply.ciphertexts]


def made_up_records(generator: np.random.Generator, size: int, turn: float) -> Records:
    X = generator.normal(size=(size, FEATURES))
    X /= np.linalg.norm(X, axis=1).max() * (1 + 1e-9)
    y = (X @ np.array([np.cos(turn), np.sin(turn)]) > 0).astype(np.int64)
    y[:2] = (0, 1)
    return X, y


def records_of(context: AnalysisContext, inputs: str) -> list[Records]:
    """Return every party's records; with `inputs` "exchanged" parties 1 and 2 have exchanged theirs."""
    records = [made_up_records(np.random.default_rng([context.seed, j]), n, j) for j, n in enumerate(SIZES)]
    return [records[j] for j in (0, 2, 1, 3)] if inputs == "exchanged" else records


def terms_of(context: AnalysisContext, kind: PathakKind, label: str) -> PathakTerms:
    """Return the terms of the runs of one kind; `label` names the coins of the nonce."""
    return make_terms(
        parties=PARTIES,
        features=FEATURES,
        lam=LAMBDA,
        epsilon=EPSILON,
        tolerance=1e-6,
        smallest_size=16,
        largest_size=32,
        **KINDS[kind],
        randomness=context.coins(label, "terms"),
    )


def run_observed(
    context: AnalysisContext, kind: PathakKind, records: Sequence[Records], label: str, roles: Replacements
) -> ObservedRun:
    transcript, terms = RecordedTranscript(partial(context.coins, label)), terms_of(context, kind, label)
    keys = keys_of(context)
    needed = keys if terms.finds_smallest else None
    run = run_protocol(records, terms, needed, test_key=True, transcript=transcript, roles=roles)
    contributions = {int(name.split()[1]): own for name, own in run.contributions.items()}
    return ObservedRun(terms, keys, transcript, contributions, run.total)


def deviating_roles(members: Members) -> Replacements:
    return {party_name(number): ZeroContributionParty for number in members.parties} if members.lying else {}


def real_runs(
    context: AnalysisContext, kind: PathakKind, inputs: str = "honest", members: Members = HONEST
) -> list[ObservedRun]:
    """Return as many runs of the real protocol as the context has views; `members` act as in that coalition."""
    roles = deviating_roles(members)
    label = f"pathak {kind} {inputs} {sorted(roles)}"

    def make() -> list[ObservedRun]:
        records = records_of(context, inputs)
        return [run_observed(context, kind, records, f"{label} {i}", roles) for i in range(context.views)]

    return context.cached(label, make)
