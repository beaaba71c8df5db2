"""What travels in Pathak, Rane and Raj (2010), section 3, and what everyone agrees on before it does.

`Terms` are public and equal for all participants of a run; their digest names the run, and every message carries it.
Messages are typed: each has one step of the protocol, one strict encoding and one range for every number in it. The
order of the steps is the order of the protocol, and an `Inbox` holds everybody to it. docs/pathak.md lists the
messages with who sends what to whom.

Participants are numbered as in the paper: parties 1 .. K, and the curator (Charlie) 0.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import IntEnum
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal, Self, get_args

from gmpy2 import mpz

from psephos.protocol.errors import (
    AgreementError,
    DataError,
    InvalidParameter,
    MessageError,
    PartyVanishedError,
    ShareRangeError,
    UnexpectedMessageError,
)
from psephos.protocol.paillier.ciphertexts import check_ciphertexts, decode_ciphertexts, encode_ciphertexts
from psephos.protocol.paillier.keys import PublicKey, check_key_size
from psephos.protocol.paillier.packing import PackingPlan
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.pathak.comparison import Answer, Question
from psephos.protocol.pathak.dgk import DgkPublicKey
from psephos.protocol.pathak.resharing import check_shares
from psephos.protocol.permutation import check_permutation
from psephos.protocol.privacy.mechanisms import check_epsilon

__all__ = [
    "CONSUMERS",
    "CURATOR",
    "KEYED_SIZE_BITS",
    "MASK_BITS",
    "ROW_SLACK",
    "SHARE_BITS",
    "TIE_BITS",
    "Answers",
    "Comparisons",
    "GroupKey",
    "GroupSecret",
    "Inbox",
    "IndexedShare",
    "LentShare",
    "MaskedNoise",
    "MaskedShare",
    "Noise",
    "NoiseFactor",
    "Opponents",
    "Outgoing",
    "Proposal",
    "PublishedShare",
    "Questions",
    "Regulariser",
    "Reshare",
    "RungSelection",
    "RungVote",
    "Selection",
    "SizeShare",
    "Step",
    "Terms",
    "Variant",
    "centred",
    "check_room",
    "role",
]

Variant = Literal["printed", "repaired"]
Noise = Literal["laplace", "spherical"]
Comparisons = Literal["tournament", "all-pairs"]
Regulariser = Literal["lambda", "lambda/2"]

CURATOR = 0
"""Charlie's number."""

CONSUMERS = 0xFFFF
"""The receiver of what is published."""

SMALLEST_RUN = 3
LARGEST_RUN = 10_000

STATISTICAL_BITS = 80
"""Every mask is that many bits wider than what it hides."""

TIE_BITS = 64
"""Random bits below a size: two keyed sizes are equal with probability 2^-64 at most."""

SIZE_BITS = 32
KEYED_SIZE_BITS = SIZE_BITS + TIE_BITS
"""N_j = n_j 2^64 + random: comparing N_j compares n_j and breaks ties by a coin nobody sees."""

SHARE_BITS = KEYED_SIZE_BITS + STATISTICAL_BITS
"""Of the share a_j that hides N_j (Stage 1, step 1)."""

MASK_BITS = SHARE_BITS + STATISTICAL_BITS
"""Of the mask r_j that hides the share, its sign included (Stage 1, step 4)."""

_LENT_BYTES = (KEYED_SIZE_BITS + 1 + 7) // 8

LADDER_RATIO = Fraction(3, 2)

ROW_SLACK = 2.0**-40
"""How far beyond 1 the computed norm of a row may be: room for the rounding of a division by the norm."""

_TAIL_BITS = 161
"""Noise leaves its slot with probability 2^-161 at most; as in psephos.parties.noise."""


def role(number: int) -> str:
    """The name of a participant in transcripts and errors."""
    return "curator" if number == CURATOR else f"party {number}"


# -- terms


@dataclass(frozen=True)
class Terms:
    """What all participants must mean alike. Public.

    Attributes:
        variant: "printed" (the smallest party's own noise, as in the paper) or "repaired" (everyone's noise shares).
        noise: "laplace" (one Laplace variable per coordinate) or "spherical" (printed variant only).
        comparisons: how the smallest size is found: "tournament" (K - 1 comparisons) or "all-pairs" (as printed).
        regulariser: "lambda" for the paper's objective (2), lambda ||w||^2; "lambda/2" for (lambda/2) ||w||^2.
        classes: the two class names, label 0 and label 1.
        parties: K, at least 3.
        features: d.
        lam: lambda.
        epsilon: the privacy parameter in the noise's scale.
        tolerance: the largest gradient norm a local solver may stop with.
        smallest_size, largest_size: public bounds of every data set; they size the ladder, the grid and the slots.
        excluded: repaired variant: how many noise shares privacy must not depend on (colluders + dropouts + 1; every
            party knows its own, so at least 1).
        pitch_exponent: parameters and noise are integers times 2^pitch_exponent.
        nonce: 32 hexadecimal digits; makes every run another one.

    Raises InvalidParameter for a term out of range, or terms that do not go together.
    """

    variant: Variant
    noise: Noise
    comparisons: Comparisons
    regulariser: Regulariser
    classes: tuple[str, str]
    parties: int
    features: int
    lam: float
    epsilon: float
    tolerance: float
    smallest_size: int
    largest_size: int
    excluded: int
    pitch_exponent: int
    nonce: str

    def __post_init__(self) -> None:
        for name, choices in (
            ("variant", Variant),
            ("noise", Noise),
            ("comparisons", Comparisons),
            ("regulariser", Regulariser),
        ):
            if getattr(self, name) not in get_args(choices):
                raise InvalidParameter(f"{name} is one of {', '.join(get_args(choices))}, not {getattr(self, name)!r}")
        if self.variant == "repaired" and self.noise == "spherical":
            raise InvalidParameter(
                "spherical noise has no exact integer shares, so the repaired variant cannot draw it jointly; use "
                "noise='laplace', or variant='printed'"
            )
        for name in ("parties", "features", "smallest_size", "largest_size", "excluded", "pitch_exponent"):
            if type(getattr(self, name)) is not int:
                raise InvalidParameter(f"{name} must be an integer, not {type(getattr(self, name)).__name__}")
        for name in ("lam", "epsilon", "tolerance"):
            value = getattr(self, name)
            if type(value) is not float or not (math.isfinite(value) and value > 0):
                raise InvalidParameter(f"{name} must be a positive finite float, not {value!r}")
        check_epsilon(self.epsilon)
        if not SMALLEST_RUN <= self.parties <= LARGEST_RUN:
            raise InvalidParameter(
                f"the protocol needs at least {SMALLEST_RUN} parties (with two, each learns the other's parameters "
                f"from the sum) and takes at most {LARGEST_RUN}; got {self.parties}"
            )
        if not 1 <= self.features <= 1 << 20:
            raise InvalidParameter(f"the number of features must lie between 1 and 2^20, not {self.features}")
        if len(self.classes) != 2 or len(set(self.classes)) != 2:
            raise InvalidParameter("the protocol is for two classes with different names")
        if not 2 <= self.smallest_size <= self.largest_size < 1 << SIZE_BITS:
            raise InvalidParameter(
                f"data set sizes are bounded by 2 <= smallest <= largest < 2^{SIZE_BITS}, not {self.smallest_size} and "
                f"{self.largest_size}"
            )
        if not 1 <= self.excluded < self.parties:
            raise InvalidParameter(
                f"between 1 and {self.parties - 1} noise shares can be excluded, not {self.excluded}: a party knows "
                "its own, and somebody's must remain"
            )
        if not -200 <= self.pitch_exponent <= 0:
            raise InvalidParameter(f"the pitch is 2^-200 to 1, not 2^{self.pitch_exponent}")
        if len(self.nonce) != 32 or any(c not in "0123456789abcdef" for c in self.nonce):
            raise InvalidParameter("a nonce has 32 hexadecimal digits")

    # what follows from them

    @property
    def pitch(self) -> float:
        """g, a power of two."""
        return math.ldexp(1.0, self.pitch_exponent)

    @property
    def strong_convexity(self) -> float:
        """mu of the local objective: 2 lambda for objective (2), lambda in the other convention."""
        return 2 * self.lam if self.regulariser == "lambda" else self.lam

    @cached_property
    def ladder(self) -> tuple[Fraction, ...]:
        """The sizes that noise is drawn for in the repaired variant: ratio 3/2, from the smallest size up."""
        rungs = [Fraction(self.smallest_size)]
        while rungs[-1] * LADDER_RATIO <= self.largest_size:
            rungs.append(rungs[-1] * LADDER_RATIO)
        return tuple(rungs)

    def rung(self, size: int) -> int:
        """The place on the ladder of a data set: its size rounded down, so that noise is never too small.

        Raises DataError for a size outside the agreed bounds.
        """
        self.check_size(size)
        return max(place for place, least in enumerate(self.ladder) if least <= size)

    def check_size(self, size: int) -> None:
        """Raise DataError for a data set outside the agreed bounds; the size itself is a secret and not told."""
        if not self.smallest_size <= size <= self.largest_size:
            raise DataError(
                f"a data set must have {self.smallest_size} to {self.largest_size} samples in this run; agree on other "
                "bounds or leave this party out"
            )

    def record_sensitivity(self, size: Fraction | int) -> float:
        """L2 bound of how far one record moves one party's *computed* parameters: (2/n + 2 tau)/mu, for ||x|| <= 1
        up to the slack that rows are taken with.

        The minimiser of a mu-strongly convex objective moves by at most 2/(n mu) (Chaudhuri and Monteleoni 2008,
        corollary 2), and a solver's stop at gradient norm tau leaves either end tau/mu away.
        """
        moved = 2 * (1 + 2 * ROW_SLACK) / float(size) + 2 * self.tolerance
        return math.nextafter(moved / self.strong_convexity * (1 + 2.0**-50), math.inf)

    def scale(self, size: Fraction | int) -> Fraction:
        """The scale, in units of the grid, of the noise on the *sum* of the parameters; `size` is the smallest n.

        * printed, laplace: K 2/(n epsilon lambda), the paper's scale times K;
        * printed, spherical: the L2 sensitivity on the grid, S + g sqrt(d), over epsilon;
        * repaired: the L1 sensitivity on the grid, sqrt(d) S + g d, over epsilon.
        """
        root = math.nextafter(math.sqrt(self.features), math.inf)
        grid = Fraction(self.pitch)
        if self.variant == "printed" and self.noise == "laplace":
            exact = 2 * self.parties / (Fraction(size) * Fraction(self.epsilon) * Fraction(self.lam) * grid)
        elif self.noise == "spherical":
            exact = Fraction(self.record_sensitivity(size)) / grid + Fraction(root)
            exact /= Fraction(self.epsilon)
        else:
            exact = Fraction(root) * Fraction(self.record_sensitivity(size)) / grid + self.features
            exact /= Fraction(self.epsilon)
        return Fraction(math.ceil(exact * 2**20), 2**20)  # a short denominator keeps the exact samplers fast

    @property
    def noise_distance(self) -> float:
        """Bound of the total variation between all noise as drawn (clipped at `noise_bound`) and its law."""
        return 2.0**-159

    @property
    def noise_delta(self) -> float:
        """What that costs: (1 + e^epsilon) times it, below 2^-64."""
        return (1 + math.exp(self.epsilon)) * self.noise_distance

    @cached_property
    def noise_bound(self) -> int:
        """No entry of a party's noise is larger, in units of the grid.

        Laplace: P(|k| > B) <= 2 exp(-B/t) for one entry, and a Polya share is smaller than the whole in distribution.
        Spherical: the norm is Gamma(d, b), and P(norm > a d b) <= exp(-d (a - 1 - ln a)).
        """
        scale = self.scale(self.smallest_size)
        if self.noise == "laplace":
            draws = 2 * self.features * (self.parties if self.variant == "repaired" else 1)
            return math.ceil(scale * Fraction(math.log(2) * _TAIL_BITS + math.log(draws) + 1e-6)) + 1
        need, a = (math.log(2) * _TAIL_BITS + 1e-6) / self.features, 1.0
        while a - 1 - math.log(a) < need:
            a *= 1.01
        return math.ceil(scale * Fraction(a) * self.features) + 1

    @property
    def noise_addends(self) -> int:
        """How many parties' noise ends up in the sum."""
        return self.parties if self.variant == "repaired" else 1

    @cached_property
    def weight_bound(self) -> int:
        """No entry of anybody's parameters is larger, in units of the grid: (mu/2) ||w||^2 <= ln 2, plus tau/mu."""
        mu = self.strong_convexity
        return math.ceil((math.sqrt(2 * math.log(2) / mu) + self.tolerance / mu) * (1 + 1e-9) / self.pitch) + 1

    @cached_property
    def modulus_bits(self) -> int:
        """m: shares are integers modulo 2^m, which holds every possible sum; a multiple of 8."""
        largest = self.parties * self.weight_bound + self.noise_addends * self.noise_bound
        return 8 * -(-((2 * largest + 1).bit_length() + 1) // 8)

    @cached_property
    def mask_bits(self) -> int:
        """Length of P_1's mask s: 80 bits more than the noise's span."""
        return (2 * self.noise_addends * self.noise_bound).bit_length() + STATISTICAL_BITS

    def plan(self, key: PublicKey) -> PackingPlan:
        """How a noise vector is packed: slots that hold the noise, its offsets and the mask.

        Raises PackingError when the key has no room for one entry.
        """
        return PackingPlan.for_key(key, length=self.features, addends=1, maximum=(1 << (self.mask_bits + 1)) - 1)

    # as bytes

    def encode(self) -> bytes:
        """Canonical JSON."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Terms:
        """Received terms; raises MessageError or InvalidParameter."""
        try:
            found = json.loads(data)
            if not isinstance(found, dict) or set(found) != {f.name for f in fields(cls)}:
                raise MessageError("these bytes are no terms of a run")
            classes = found["classes"]
            if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
                raise MessageError("the terms name no classes")
            if not isinstance(found["nonce"], str):
                raise MessageError("the terms have no nonce")
            terms = cls(**{**found, "classes": tuple(classes)})
            canonical = terms.encode()
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            if isinstance(error, InvalidParameter):
                raise
            raise MessageError("these bytes are no terms of a run") from None
        if canonical != data:
            raise MessageError("the terms are not in their canonical form")
        return terms

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the terms: the name of the run."""
        return hashlib.sha256(b"psephos pathak terms\0" + self.encode()).digest()

    def check_agrees(self, proposal: Terms, who: str) -> None:
        """Raise AgreementError naming the first term, the nonce apart, in which a proposal differs from these."""
        for f in fields(self):
            own, proposed = getattr(self, f.name), getattr(proposal, f.name)
            if f.name != "nonce" and own != proposed:
                raise AgreementError(
                    f"{who} was set up for {f.name} = {own!r} and the proposal says {proposed!r}; all participants "
                    "must be given the same terms"
                )


# -- steps and envelopes


class Step(IntEnum):
    """The messages in the order of the protocol; also their type bytes."""

    PROPOSAL = 32
    GROUP_SECRET = 33
    GROUP_KEY = 34
    SIZE_SHARE = 35
    INDEXED_SHARE = 36
    MASKED_SHARE = 37
    QUESTIONS = 38
    OPPONENTS = 39
    LENT_SHARE = 40
    ANSWERS = 41
    SELECTION = 42
    RUNG_VOTE = 43
    RUNG_SELECTION = 44
    NOISE_FACTOR = 45
    MASKED_NOISE = 46
    RESHARE = 47
    PUBLISHED_SHARE = 48

    @property
    def stage(self) -> str:
        """The stage of the paper that it belongs to."""
        if self <= Step.GROUP_KEY:
            return "agreement"
        if self <= Step.ANSWERS:
            return "stage 1"
        if self <= Step.NOISE_FACTOR:
            return "stage 2"
        return "stage 3" if self <= Step.RESHARE else "publication"

    @property
    def kind(self) -> str:
        """The message's name in transcripts and errors."""
        return self.name.lower().replace("_", " ")


def _place(step: Step, turn: int) -> tuple[int, int, int]:
    """Where a message stands in the protocol: the comparisons' steps repeat with each turn of the tournament."""
    block = Step.QUESTIONS if Step.QUESTIONS <= step <= Step.ANSWERS else step
    return int(block), turn, int(step)


@dataclass(frozen=True)
class Outgoing:
    """A message on its way. `data` is what travels."""

    step: Step
    sender: int
    receiver: int
    data: bytes = field(repr=False)


_MAGIC = b"PSEPHOS\x01"
_HEADER = len(_MAGIC) + 1 + 32 + 6


class Inbox:
    """Everything one participant received, held to the order of the protocol.

    A sender's messages come in the order of the steps and each once; anything else is a replay, a reordering or a
    message of another run, and is refused by name before its content is looked at.
    """

    def __init__(self, owner: int, parties: int, session: bytes | None = None) -> None:
        self.owner, self.session = owner, session
        self._parties = parties
        self._bodies: dict[tuple[Step, int], dict[int, bytes]] = {}
        self._last: dict[int, tuple[int, int, int]] = {}
        self._taken: tuple[int, int, int] = (0, 0, 0)

    def accept(self, data: bytes) -> None:
        """Take a message in; raises MessageError or UnexpectedMessageError, and then nothing has changed."""
        if len(data) < _HEADER or data[: len(_MAGIC)] != _MAGIC:
            raise MessageError("these bytes are no message of this version")
        try:
            step = Step(data[len(_MAGIC)])
        except ValueError:
            raise MessageError("a message of an unknown type") from None
        session = data[len(_MAGIC) + 1 : len(_MAGIC) + 33]
        turn, sender, receiver = (
            int.from_bytes(data[_HEADER - 6 + 2 * i : _HEADER - 4 + 2 * i], "big") for i in range(3)
        )
        what = f"a {step.kind} message"
        if sender > self._parties or sender == self.owner:
            raise UnexpectedMessageError(f"{what} from somebody who takes no part")
        if receiver != self.owner:
            raise UnexpectedMessageError(f"{what} from {role(sender)} is addressed to somebody else")
        if self.session is None:
            if step is not Step.PROPOSAL or sender != CURATOR:
                raise UnexpectedMessageError(f"{what} from {role(sender)} before the curator proposed any terms")
        elif session != self.session:
            raise UnexpectedMessageError(f"{what} from {role(sender)} belongs to another run")
        place = _place(step, turn)
        if place == self._last.get(sender):
            raise UnexpectedMessageError(f"{what} from {role(sender)} came twice: a replay")
        if place < self._last.get(sender, (0, 0, 0)) or place <= self._taken:
            raise UnexpectedMessageError(f"{what} from {role(sender)} came out of order: that step is over")
        self._last[sender] = place
        self._bodies.setdefault((step, turn), {})[sender] = data[_HEADER:]

    def take(self, step: Step, senders: Iterable[int], turn: int = 0) -> dict[int, bytes]:
        """The bodies of one step, by sender, ascending.

        Raises PartyVanishedError naming the first sender that is missing and the stage, UnexpectedMessageError when
        somebody sent what nobody asked for.
        """
        arrived = self._bodies.pop((step, turn), {})
        wanted = sorted(senders)
        for sender in wanted:
            if sender not in arrived:
                raise PartyVanishedError(
                    f"{role(sender)} vanished in {step.stage}: its {step.kind} message never came. The run stops and "
                    "nothing is published; start another one without it"
                )
        for sender in arrived:
            if sender not in wanted:
                raise UnexpectedMessageError(f"a {step.kind} message from {role(sender)}, who has none to send")
        self._taken = max(self._taken, _place(step, turn))
        return {sender: arrived[sender] for sender in wanted}

    def has(self, step: Step, turn: int) -> bool:
        """Whether a message of that step and turn is waiting."""
        return (step, turn) in self._bodies

    def __repr__(self) -> str:
        return f"<Inbox of {role(self.owner)}, {sum(map(len, self._bodies.values()))} messages waiting>"


# -- bodies


@dataclass(frozen=True)
class _Body:
    """A message without its envelope."""

    STEP: ClassVar[Step]

    def _encode_body(self) -> bytes:
        raise NotImplementedError

    def send(self, session: bytes, sender: int, receiver: int, turn: int = 0) -> Outgoing:
        """The message in its envelope."""
        envelope = (
            _MAGIC + bytes([self.STEP]) + session + b"".join(x.to_bytes(2, "big") for x in (turn, sender, receiver))
        )
        return Outgoing(self.STEP, sender, receiver, envelope + self._encode_body())


def _fixed(body: bytes, length: int, step: Step) -> bytes:
    if len(body) != length:
        raise MessageError(f"a {step.kind} message of this run has {length} bytes of content, not {len(body)}")
    return body


def _encode_modulus(key: PublicKey) -> bytes:
    size = (key.bits + 7) // 8
    return size.to_bytes(2, "big") + bytes([key.form == "psephos"]) + int(key.n).to_bytes(size, "big")


def _decode_modulus(body: bytes, test_key: bool) -> tuple[PublicKey, bytes]:
    size = int.from_bytes(body[:2], "big")
    if len(body) < 3 + size or body[2:3] not in (b"\0", b"\1") or size > 2048 or (size and not body[3]):
        raise MessageError("these bytes start with no encoded modulus")
    key = PublicKey(int.from_bytes(body[3 : 3 + size], "big"), form="psephos" if body[2] else "foreign")
    check_key_size(key, test_key=test_key)
    return key, body[3 + size :]


@dataclass(frozen=True)
class Proposal(_Body):
    """Curator to each party: the terms, pk' of zeta, and the key of the comparisons."""

    STEP = Step.PROPOSAL
    terms: Terms
    curator_key: PublicKey
    comparison_key: DgkPublicKey

    def _encode_body(self) -> bytes:
        terms, comparison = self.terms.encode(), self.comparison_key.encode()
        return len(terms).to_bytes(4, "big") + terms + _encode_modulus(self.curator_key) + comparison

    @classmethod
    def decode(cls, body: bytes, *, test_key: bool) -> Self:
        """Raises MessageError, InvalidParameter, WeakKeyError."""
        length = int.from_bytes(body[:4], "big")
        terms = Terms.decode(body[4 : 4 + length])
        key, rest = _decode_modulus(body[4 + length :], test_key)
        return cls(terms, key, DgkPublicKey.decode(rest, test_key=test_key))


@dataclass(frozen=True)
class GroupSecret(_Body):
    """P_1 to each other party: pi_1 and the key that the parties share and Charlie does not have."""

    STEP = Step.GROUP_SECRET
    permutation: tuple[int, ...] = field(repr=False)
    private_key: PrivateKey = field(repr=False)

    def _encode_body(self) -> bytes:
        p, q = self.private_key.factors()
        size = (q.bit_length() + 7) // 8
        factors = size.to_bytes(2, "big") + p.to_bytes(size, "big") + q.to_bytes(size, "big")
        return b"".join(place.to_bytes(2, "big") for place in self.permutation) + factors

    @classmethod
    def decode(cls, body: bytes, terms: Terms, *, test_key: bool) -> Self:
        """Raises MessageError, InvalidParameter, WeakKeyError."""
        head = 2 * terms.parties
        size = int.from_bytes(body[head : head + 2], "big")
        _fixed(body, head + 2 + 2 * size, cls.STEP)
        if size > 1024:
            raise MessageError("the factors in a group secret message are too long")
        permutation = check_permutation([int.from_bytes(body[at : at + 2], "big") for at in range(0, head, 2)])
        p, q = (int.from_bytes(body[head + 2 + i * size : head + 2 + (i + 1) * size], "big") for i in range(2))
        private_key = PrivateKey(p, q)
        check_key_size(private_key.public_key, test_key=test_key)
        return cls(permutation, private_key)


@dataclass(frozen=True)
class GroupKey(_Body):
    """P_1 to Charlie: pk of xi."""

    STEP = Step.GROUP_KEY
    key: PublicKey

    def _encode_body(self) -> bytes:
        return _encode_modulus(self.key)

    @classmethod
    def decode(cls, body: bytes, *, test_key: bool) -> Self:
        """Raises MessageError, InvalidParameter, WeakKeyError."""
        key, rest = _decode_modulus(body, test_key)
        _fixed(rest, 0, cls.STEP)
        return cls(key)


def _one_ciphertext(key: PublicKey, data: bytes) -> mpz:
    ciphertexts = decode_ciphertexts(key, data, 1)
    check_ciphertexts(key, ciphertexts)
    return ciphertexts[0]


@dataclass(frozen=True)
class SizeShare(_Body):
    """P_j to P_{pi_1(j)}: a_j in the clear and b_j sealed for Charlie."""

    STEP = Step.SIZE_SHARE
    share: int = field(repr=False)
    sealed: mpz = field(repr=False)
    curator_key: PublicKey

    def _encode_body(self) -> bytes:
        return self.share.to_bytes(SHARE_BITS // 8, "big") + encode_ciphertexts(self.curator_key, (self.sealed,))

    @classmethod
    def decode(cls, body: bytes, curator_key: PublicKey) -> Self:
        """Raises MessageError, CiphertextError; any value of the share's bytes is in its range."""
        width = SHARE_BITS // 8
        _fixed(body, width + curator_key.ciphertext_bytes, cls.STEP)
        return cls(int.from_bytes(body[:width], "big"), _one_ciphertext(curator_key, body[width:]), curator_key)


@dataclass(frozen=True)
class IndexedShare(_Body):
    """P_i to Charlie: xi(a) and the sealed b at index i, and which key xi is."""

    STEP = Step.INDEXED_SHARE
    encrypted: mpz = field(repr=False)
    sealed: mpz = field(repr=False)
    group_key: PublicKey
    curator_key: PublicKey

    def _encode_body(self) -> bytes:
        encrypted = encode_ciphertexts(self.group_key, (self.encrypted,))
        return self.group_key.identifier + encrypted + encode_ciphertexts(self.curator_key, (self.sealed,))

    @classmethod
    def decode(cls, body: bytes, group_key: PublicKey, curator_key: PublicKey, sender: int) -> Self:
        """Raises AgreementError when the sender's group key is another one, MessageError, CiphertextError."""
        if body[:32] != group_key.identifier:
            raise AgreementError(f"{role(sender)} encrypts under another group key than party 1 announced")
        middle = 32 + group_key.ciphertext_bytes
        _fixed(body, middle + curator_key.ciphertext_bytes, cls.STEP)
        encrypted, sealed = _one_ciphertext(group_key, body[32:middle]), _one_ciphertext(curator_key, body[middle:])
        return cls(encrypted, sealed, group_key, curator_key)


@dataclass(frozen=True)
class _Ciphertexts(_Body):
    """A list of Paillier ciphertexts; `key` is what they are under."""

    key: PublicKey
    ciphertexts: tuple[mpz, ...] = field(repr=False)

    def _encode_body(self) -> bytes:
        return self.key.identifier + encode_ciphertexts(self.key, self.ciphertexts)

    @classmethod
    def decode(cls, body: bytes, key: PublicKey, count: int) -> Self:
        """Raises MessageError, AgreementError (another key), CiphertextError."""
        _fixed(body, 32 + count * key.ciphertext_bytes, cls.STEP)
        if body[:32] != key.identifier:
            raise AgreementError(f"a {cls.STEP.kind} message is encrypted under another key than was agreed")
        ciphertexts = decode_ciphertexts(key, body[32:], count)
        check_ciphertexts(key, ciphertexts)
        return cls(key, ciphertexts)


class MaskedShare(_Ciphertexts):
    """Charlie to the party at place p: xi(a + r), re-randomised."""

    STEP = Step.MASKED_SHARE


class Selection(_Ciphertexts):
    """Charlie to every party: zeta of the indicator in pi_1's order."""

    STEP = Step.SELECTION


class RungVote(_Ciphertexts):
    """P_j to P_1 (repaired): zeta(v_j) at P_j's rung, zeta(0) elsewhere, all re-randomised."""

    STEP = Step.RUNG_VOTE


class RungSelection(_Ciphertexts):
    """P_1 to every party (repaired): the product of the rung votes, zeta of the indicator of the rung."""

    STEP = Step.RUNG_SELECTION


class NoiseFactor(_Ciphertexts):
    """P_j to P_1: psi_j, re-randomised."""

    STEP = Step.NOISE_FACTOR


class MaskedNoise(_Ciphertexts):
    """P_1 to Charlie: psi zeta(s), re-randomised."""

    STEP = Step.MASKED_NOISE


def _encode_opponents(opponents: Sequence[int]) -> bytes:
    return len(opponents).to_bytes(2, "big") + b"".join(number.to_bytes(2, "big") for number in opponents)


def _decode_opponents(body: bytes, terms: Terms, owner: int, step: Step) -> tuple[tuple[int, ...], bytes]:
    count = int.from_bytes(body[:2], "big")
    if len(body) < 2 + 2 * count:
        raise MessageError(f"a {step.kind} message ends early")
    opponents = tuple(int.from_bytes(body[at : at + 2], "big") for at in range(2, 2 + 2 * count, 2))
    if not count or list(opponents) != sorted(set(opponents)) or owner in opponents:
        raise MessageError(f"a {step.kind} message names no proper list of opponents")
    if not all(1 <= number <= terms.parties for number in opponents):
        raise MessageError(f"a {step.kind} message names a party that takes no part")
    return opponents, body[2 + 2 * count :]


@dataclass(frozen=True)
class Questions(_Body):
    """Charlie to P_i: whom to compare with, and the encrypted bits of his shares."""

    STEP = Step.QUESTIONS
    opponents: tuple[int, ...]
    questions: tuple[Question, ...] = field(repr=False)
    comparison_key: DgkPublicKey

    def _encode_body(self) -> bytes:
        bits = b"".join(self.comparison_key.encode_ciphertexts(question) for question in self.questions)
        return _encode_opponents(self.opponents) + bits

    @classmethod
    def decode(cls, body: bytes, terms: Terms, owner: int, comparison_key: DgkPublicKey) -> Self:
        """Raises MessageError, CiphertextError."""
        opponents, rest = _decode_opponents(body, terms, owner, cls.STEP)
        flat = comparison_key.decode_ciphertexts(rest, len(opponents) * KEYED_SIZE_BITS)
        questions = tuple(flat[at : at + KEYED_SIZE_BITS] for at in range(0, len(flat), KEYED_SIZE_BITS))
        return cls(opponents, questions, comparison_key)


@dataclass(frozen=True)
class Opponents(_Body):
    """Charlie to P_j: to whom to lend its masked share in this turn."""

    STEP = Step.OPPONENTS
    opponents: tuple[int, ...]

    def _encode_body(self) -> bytes:
        return _encode_opponents(self.opponents)

    @classmethod
    def decode(cls, body: bytes, terms: Terms, owner: int) -> Self:
        """Raises MessageError."""
        opponents, rest = _decode_opponents(body, terms, owner, cls.STEP)
        _fixed(rest, 0, cls.STEP)
        return cls(opponents)


@dataclass(frozen=True)
class LentShare(_Body):
    """P_j to P_i: the low bits of P_j's masked share, as many as the comparison looks at."""

    STEP = Step.LENT_SHARE
    value: int = field(repr=False)

    def _encode_body(self) -> bytes:
        return self.value.to_bytes(_LENT_BYTES, "big")

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Raises MessageError, ShareRangeError."""
        value = int.from_bytes(_fixed(body, _LENT_BYTES, cls.STEP), "big")
        if value >> (KEYED_SIZE_BITS + 1):
            raise ShareRangeError(f"a lent share lies outside [0, 2^{KEYED_SIZE_BITS + 1})")
        return cls(value)


@dataclass(frozen=True)
class Answers(_Body):
    """P_i to Charlie: the answers to his questions."""

    STEP = Step.ANSWERS
    answers: tuple[Answer, ...] = field(repr=False)
    comparison_key: DgkPublicKey

    def _encode_body(self) -> bytes:
        return b"".join(given.encode(self.comparison_key) for given in self.answers)

    @classmethod
    def decode(cls, body: bytes, comparison_key: DgkPublicKey, count: int) -> Self:
        """Raises MessageError, CiphertextError."""
        size = Answer.encoded_length(comparison_key, KEYED_SIZE_BITS)
        _fixed(body, count * size, cls.STEP)
        answers = [
            Answer.decode(body[at : at + size], comparison_key, KEYED_SIZE_BITS) for at in range(0, len(body), size)
        ]
        return cls(tuple(answers), comparison_key)


@dataclass(frozen=True)
class _Share(_Body):
    """d integers modulo 2^m."""

    values: tuple[int, ...] = field(repr=False)
    modulus_bits: int

    def _encode_body(self) -> bytes:
        return b"".join(value.to_bytes(self.modulus_bits // 8 + 1, "big") for value in self.values)

    @classmethod
    def decode(cls, body: bytes, terms: Terms) -> Self:
        """Raises MessageError, ShareRangeError. One byte more than m bits need, so that range is a thing to check."""
        width = terms.modulus_bits // 8 + 1
        _fixed(body, width * terms.features, cls.STEP)
        values = tuple(int.from_bytes(body[at : at + width], "big") for at in range(0, len(body), width))
        check_shares(values, terms.features, terms.modulus_bits)
        return cls(values, terms.modulus_bits)


class Reshare(_Share):
    """One participant to another: a share of what it holds."""

    STEP = Step.RESHARE


class PublishedShare(_Share):
    """One participant to the consumers: its share of K w_s. Means nothing without all the others."""

    STEP = Step.PUBLISHED_SHARE


# -- values that were opened


def centred(plaintext: int, key: PublicKey, bound_bits: int) -> int:
    """A decrypted signed value with |value| < 2^bound_bits; raises ShareRangeError."""
    value = plaintext - key.n if plaintext > key.n // 2 else plaintext
    if abs(value) >> bound_bits:
        raise ShareRangeError(f"a decrypted share lies outside (-2^{bound_bits}, 2^{bound_bits})")
    return value


def check_room(key: PublicKey) -> None:
    """Raise InvalidParameter when a key is too short for the masked shares of Stage 1."""
    if key.bits < MASK_BITS + 4:
        raise InvalidParameter(f"the masked shares take {MASK_BITS + 4} bits and the key has {key.bits}")
