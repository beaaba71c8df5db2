"""The messages of Pathak, Rane and Raj (2010), section 3: one class per message, each with one encoding.

`decode` raises MessageError for malformed bytes, WrongRoundError for a message of another run, CiphertextError or
ShareRangeError for a number out of range, AgreementError for another key than the agreed one, and InvalidParameter or
WeakKeyError for terms or keys that are not allowed. docs/protocols/pathak.md lists who sends what to whom, and names
the keys (xi of the parties, zeta of the curator) and the permutations as the paper does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from gmpy2 import mpz

from psephos.protocol.errors import AgreementError, InvalidParameter, MessageError, ShareRangeError, WrongRoundError
from psephos.protocol.paillier.ciphertexts import encode_ciphertexts, received_ciphertexts
from psephos.protocol.paillier.keys import PublicKey, check_strength
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.pathak.comparison import Answer, Question
from psephos.protocol.pathak.dgk import DgkPublicKey
from psephos.protocol.pathak.noise import modulus_bits
from psephos.protocol.pathak.terms import HIDING_BITS, SIZE_BITS, PathakTerms
from psephos.protocol.roles import Post
from psephos.protocol.wire import Kind, Reader, frame, session_of

TIE_BITS = 64
"""Random bits appended to a size, which break ties."""

KEYED_SIZE_BITS = SIZE_BITS + TIE_BITS
"""Length of N_j = n_j 2^64 + random."""

SHARE_BITS = KEYED_SIZE_BITS + HIDING_BITS
"""Length of the share a_j that hides N_j (Stage 1, step 1)."""

MASK_BITS = SHARE_BITS + HIDING_BITS
"""Length of the mask r_j that hides the share (Stage 1, step 4): uniform in [-2^(MASK_BITS - 1), 2^(MASK_BITS - 1))."""

LENT_BITS = KEYED_SIZE_BITS + 1
"""Number of low bits of a masked share that a comparison uses."""


class _Message(ABC):
    kind: Kind

    @abstractmethod
    def _content(self) -> bytes:
        """Encode the content, without the header."""

    def encode(self, session: bytes) -> bytes:
        """Encode the message; `session` is the digest of the terms."""
        return frame(self.kind, session, self._content())


STAGES = ("agreement", "stage 1", "stage 2", "stage 3", "publication")
"""The three stages of the paper's section 3, with agreement before and publication after them."""

_LAST = (Kind.GROUP_KEY, Kind.ANSWERS, Kind.NOISE_FACTOR, Kind.RESHARE, Kind.PUBLISHED_SHARE)


def post(terms: PathakTerms, receiver: str, message: _Message) -> Post:
    """Return a message addressed to a role or to the board; kinds are numbered in the order of the stages."""
    stage = next(stage for stage, last in zip(STAGES, _LAST, strict=True) if message.kind <= last)
    return Post(receiver, message.encode(terms.digest), stage)


# -- agreement


def _encode_modulus(key: PublicKey) -> bytes:
    size = (key.bits + 7) // 8
    return size.to_bytes(2, "big") + bytes([key.form == "psephos"]) + int(key.n).to_bytes(size, "big")


def _take_modulus(reader: Reader, test_key: bool) -> PublicKey:
    size, form = reader.integer(2), reader.integer(1)
    digits = reader.take(size)
    if form > 1 or size > 2048 or not size or not digits[0]:
        raise MessageError("the bytes are not an encoded modulus")
    key = PublicKey(int.from_bytes(digits, "big"), form="psephos" if form else "foreign")
    check_strength(key.bits, test_key)
    return key


@dataclass(frozen=True)
class Proposal(_Message):
    """Curator to each party: the terms and, for stages 1 and 2, the public keys of zeta and of the comparisons."""

    kind = Kind.PROPOSAL
    terms: PathakTerms
    keys: tuple[PublicKey, DgkPublicKey] | None

    def _content(self) -> bytes:
        terms = self.terms.encode()
        keys = b"" if self.keys is None else _encode_modulus(self.keys[0]) + self.keys[1].encode()
        return len(terms).to_bytes(4, "big") + terms + keys

    @classmethod
    def decode(cls, data: bytes, *, test_key: bool) -> Self:
        reader = Reader(data, cls.kind, None)
        terms = PathakTerms.decode(reader.take(reader.integer(4)))
        if session_of(data) != terms.digest:
            raise WrongRoundError("the session of the proposal is not that of the terms in it")
        keys = None
        if terms.finds_smallest:
            keys = _take_modulus(reader, test_key), DgkPublicKey.decode(reader.rest(), test_key=test_key)
        reader.end()
        return cls(terms, keys)


@dataclass(frozen=True)
class GroupSecret(_Message):
    """Party 0 to each other party: pi_1 and the private key of xi, which the curator does not have."""

    kind = Kind.GROUP_SECRET
    permutation: tuple[int, ...] = field(repr=False)
    private_key: PrivateKey = field(repr=False)

    def _content(self) -> bytes:
        p, q = self.private_key.factors()
        size = (q.bit_length() + 7) // 8
        factors = size.to_bytes(2, "big") + p.to_bytes(size, "big") + q.to_bytes(size, "big")
        return b"".join(place.to_bytes(2, "big") for place in self.permutation) + factors

    @classmethod
    def decode(cls, data: bytes, terms: PathakTerms, *, test_key: bool) -> Self:
        reader = Reader(data, cls.kind, terms.digest)
        permutation = tuple([reader.integer(2) for _ in range(terms.parties)])
        if sorted(permutation) != list(range(terms.parties)):
            raise InvalidParameter(f"the places in a group secret are no permutation of 0 to {terms.parties - 1}")
        size = reader.integer(2)
        if size > 1024:
            raise MessageError("the factors in a group secret are too long")
        p, q = reader.integer(size), reader.integer(size)
        reader.end()
        if not p < q or size != (q.bit_length() + 7) // 8:
            raise MessageError("the factors in a group secret are not in their canonical encoding")
        private_key = PrivateKey(p, q)
        check_strength(private_key.public_key.bits, test_key)
        return cls(permutation, private_key)


@dataclass(frozen=True)
class GroupKey(_Message):
    """Party 0 to the curator: the public key of xi."""

    kind = Kind.GROUP_KEY
    key: PublicKey

    def _content(self) -> bytes:
        return _encode_modulus(self.key)

    @classmethod
    def decode(cls, data: bytes, terms: PathakTerms, *, test_key: bool) -> Self:
        reader = Reader(data, cls.kind, terms.digest)
        key = _take_modulus(reader, test_key)
        reader.end()
        return cls(key)


# -- stage 1


@dataclass(frozen=True)
class SizeShare(_Message):
    """P_j to P_{pi_1(j)}: a_j, uniform in [0, 2^SHARE_BITS), and the sealed b_j = N_j - a_j + 2^SHARE_BITS > 0."""

    kind = Kind.SIZE_SHARE
    share: int = field(repr=False)
    sealed: mpz = field(repr=False)
    curator_key: PublicKey

    def _content(self) -> bytes:
        return self.share.to_bytes(SHARE_BITS // 8, "big") + encode_ciphertexts(self.curator_key, (self.sealed,))

    @classmethod
    def decode(cls, data: bytes, terms: PathakTerms, curator_key: PublicKey) -> Self:
        width = SHARE_BITS // 8
        reader = Reader(data, cls.kind, terms.digest, length=width + curator_key.ciphertext_bytes)
        return cls(reader.integer(width), received_ciphertexts(curator_key, reader.rest(), 1)[0], curator_key)


@dataclass(frozen=True)
class IndexedShare(_Message):
    """P_i to the curator: xi(a) and the sealed b at index i, with the identifier of xi."""

    kind = Kind.INDEXED_SHARE
    encrypted: mpz = field(repr=False)
    sealed: mpz = field(repr=False)
    group_key: PublicKey
    curator_key: PublicKey

    def _content(self) -> bytes:
        encrypted = encode_ciphertexts(self.group_key, (self.encrypted,))
        return self.group_key.identifier + encrypted + encode_ciphertexts(self.curator_key, (self.sealed,))

    @classmethod
    def decode(cls, data: bytes, terms: PathakTerms, group_key: PublicKey, curator_key: PublicKey, sender: str) -> Self:
        reader = Reader(data, cls.kind, terms.digest)
        if reader.take(32) != group_key.identifier:
            raise AgreementError(f"{sender} encrypts under a group key other than that announced by party 0")
        encrypted = received_ciphertexts(group_key, reader.take(group_key.ciphertext_bytes), 1)[0]
        return cls(encrypted, received_ciphertexts(curator_key, reader.rest(), 1)[0], group_key, curator_key)


def _encode_opponents(turn: int, opponents: Sequence[int]) -> bytes:
    numbers = b"".join(number.to_bytes(2, "big") for number in opponents)
    return bytes([turn]) + len(opponents).to_bytes(2, "big") + numbers


def _take_opponents(reader: Reader, terms: PathakTerms, owner: int) -> tuple[int, tuple[int, ...]]:
    turn = reader.integer(1)
    if turn >= terms.turns:
        raise MessageError(f"the message is for turn {turn + 1} of the comparisons; this run has {terms.turns} turns")
    opponents = tuple(reader.integer(2) for _ in range(reader.integer(2)))
    if not opponents or list(opponents) != sorted(set(opponents)) or owner in opponents:
        raise MessageError("the list of opponents is empty, not in order, or contains the receiver")
    if not all(number < terms.parties for number in opponents):
        raise MessageError("the list of opponents names a party that does not exist")
    return turn, opponents


@dataclass(frozen=True)
class Opponents(_Message):
    """Curator to P_j: the parties to which it sends its masked share in this turn."""

    kind = Kind.OPPONENTS
    turn: int
    opponents: tuple[int, ...]

    def _content(self) -> bytes:
        return _encode_opponents(self.turn, self.opponents)

    @classmethod
    def decode(cls, data: bytes, terms: PathakTerms, owner: int) -> Self:
        reader = Reader(data, cls.kind, terms.digest)
        message = cls(*_take_opponents(reader, terms, owner))
        reader.end()
        return message


@dataclass(frozen=True)
class Questions(_Message):
    """Curator to P_i: the parties to compare with in this turn, and the encrypted bits of the curator's shares."""

    kind = Kind.QUESTIONS
    turn: int
    opponents: tuple[int, ...]
    questions: tuple[Question, ...] = field(repr=False)
    comparison_key: DgkPublicKey

    def _content(self) -> bytes:
        bits = b"".join(encode_ciphertexts(self.comparison_key, question) for question in self.questions)
        return _encode_opponents(self.turn, self.opponents) + bits

    @classmethod
    def decode(cls, data: bytes, terms: PathakTerms, owner: int, comparison_key: DgkPublicKey) -> Self:
        reader = Reader(data, cls.kind, terms.digest)
        turn, opponents = _take_opponents(reader, terms, owner)
        flat = received_ciphertexts(comparison_key, reader.rest(), len(opponents) * KEYED_SIZE_BITS)
        questions = tuple(flat[at : at + KEYED_SIZE_BITS] for at in range(0, len(flat), KEYED_SIZE_BITS))
        return cls(turn, opponents, questions, comparison_key)


@dataclass(frozen=True)
class LentShare(_Message):
    """P_j to P_i: the low bits of P_j's masked share that the comparison uses."""

    kind = Kind.LENT_SHARE
    turn: int
    value: int = field(repr=False)

    def _content(self) -> bytes:
        return bytes([self.turn]) + self.value.to_bytes((LENT_BITS + 7) // 8, "big")

    @classmethod
    def decode(cls, data: bytes, terms: PathakTerms, turn: int) -> Self:
        reader = Reader(data, cls.kind, terms.digest, length=1 + (LENT_BITS + 7) // 8)
        _check_turn(reader, turn)
        value = int.from_bytes(reader.rest(), "big")
        if value >> LENT_BITS:
            raise ShareRangeError(f"a lent share lies outside [0, 2^{LENT_BITS})")
        return cls(turn, value)


def _check_turn(reader: Reader, turn: int) -> None:
    if reader.integer(1) != turn:
        raise MessageError("the message is for another turn of the comparisons")


@dataclass(frozen=True)
class Answers(_Message):
    """P_i to the curator: the answers to its questions."""

    kind = Kind.ANSWERS
    turn: int
    answers: tuple[Answer, ...] = field(repr=False)
    comparison_key: DgkPublicKey

    def _content(self) -> bytes:
        return bytes([self.turn]) + b"".join(answer.encode(self.comparison_key) for answer in self.answers)

    @classmethod
    def decode(cls, data: bytes, terms: PathakTerms, turn: int, comparison_key: DgkPublicKey, count: int) -> Self:
        size = Answer.encoded_length(comparison_key, KEYED_SIZE_BITS)
        reader = Reader(data, cls.kind, terms.digest, length=1 + count * size)
        _check_turn(reader, turn)
        answers = [Answer.decode(reader.take(size), comparison_key, KEYED_SIZE_BITS) for _ in range(count)]
        return cls(turn, tuple(answers), comparison_key)


# -- lists of ciphertexts and shares, in stages 1 to 3


@dataclass(frozen=True)
class Ciphertexts(_Message):
    """A list of Paillier ciphertexts, all re-randomised: a masked share, a selection, a vote for a bucket, psi."""

    kind: Kind
    key: PublicKey
    ciphertexts: tuple[mpz, ...] = field(repr=False)

    def _content(self) -> bytes:
        return self.key.identifier + encode_ciphertexts(self.key, self.ciphertexts)

    @classmethod
    def decode(cls, data: bytes, kind: Kind, terms: PathakTerms, key: PublicKey, count: int) -> Self:
        reader = Reader(data, kind, terms.digest, length=32 + count * key.ciphertext_bytes)
        if reader.take(32) != key.identifier:
            raise AgreementError(f"a {kind.title} is encrypted under a key other than the agreed one")
        return cls(kind, key, received_ciphertexts(key, reader.rest(), count))


@dataclass(frozen=True)
class Share(_Message):
    """d integers modulo 2^m: a share of a participant's vector for another one, or its published share of K w_s."""

    kind: Kind
    values: tuple[int, ...] = field(repr=False)
    bits: int

    def _content(self) -> bytes:
        return b"".join(value.to_bytes(self.bits // 8 + 1, "big") for value in self.values)

    @classmethod
    def decode(cls, data: bytes, kind: Kind, terms: PathakTerms) -> Self:
        bits = modulus_bits(terms)
        width = bits // 8 + 1
        reader = Reader(data, kind, terms.digest, length=width * terms.features)
        values = tuple([reader.integer(width) for _ in range(terms.features)])
        if any(value >> bits for value in values):
            raise ShareRangeError(f"an entry of a share lies outside [0, 2^{bits})")
        return cls(kind, values, bits)


# -- decrypted values


def centred(plaintext: int, key: PublicKey, bound_bits: int) -> int:
    """Convert a plaintext to a signed value; raise ShareRangeError unless |value| < 2^bound_bits."""
    value = plaintext - key.n if plaintext > key.n // 2 else plaintext
    if abs(value) >> bound_bits:
        raise ShareRangeError(f"a decrypted share lies outside (-2^{bound_bits}, 2^{bound_bits})")
    return value


def check_room(key: PublicKey) -> None:
    """Raise InvalidParameter if a key is too short for the masked shares of Stage 1."""
    if key.bits < MASK_BITS + 4:
        raise InvalidParameter(f"the masked shares take {MASK_BITS + 4} bits and the key has {key.bits}")
