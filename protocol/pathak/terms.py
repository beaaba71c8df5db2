"""The terms of a run of Pathak, Rane and Raj (2010), section 3, on which all participants agree.

Parties are numbered 0 .. K - 1 (P_1 .. P_K in the paper); the curator is Charlie in the paper.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Literal, get_args

from psephos.protocol.errors import AgreementError, InvalidParameter, MessageError
from psephos.protocol.privacy.mechanisms import check_epsilon
from psephos.protocol.storage.values import storable

Variant = Literal["public-bound", "repaired", "printed"]
Comparisons = Literal["tournament", "all-pairs"]

CURATOR = "curator"
"""Charlie in the paper."""

LEADER = 0
"""Number of the party that draws what the parties share, P_1 in the paper."""

CONSUMERS = "consumers"
"""Whoever adds up the published shares."""

SMALLEST_RUN, LARGEST_RUN = 3, 10_000
"""Least and largest number of parties."""

_FIXED = {"noise": "laplace", "regulariser": "lambda"}
"""Encoded with the terms, which once had a choice of them."""

SIZE_BITS = 32
"""Bits of the size of a data set."""

HIDING_BITS = 80
"""How many bits longer a mask is than the value it hides, which it hides up to a statistical distance of 2^-80."""

BUCKET_RATIO = Fraction(3, 2)
"""Ratio of the smallest sizes of consecutive size buckets."""


def party_name(number: int) -> str:
    return f"party {number}"


def participants(terms: PathakTerms) -> list[str]:
    """Return the names of all K + 1 participants: the curator, then the parties."""
    return [CURATOR, *(party_name(number) for number in range(terms.parties))]


@storable
@dataclass(frozen=True)
class PathakTerms:
    """The public terms of a run, whose digest names it; InvalidParameter for terms out of range.

    Attributes:
        variant: who draws the noise, and for which size. "public-bound": all parties, in shares, for the public
            `smallest_size`; "repaired": all parties, in shares, for the bucket of the smallest data set; "printed": the
            party with the smallest data set, as in the paper.
        comparisons: how the smallest size is found: "tournament" (K - 1 comparisons) or "all-pairs" (as printed).
        classes: the two class names, label 0 and label 1.
        parties, features, lam: K, d, lambda.
        tolerance: largest gradient norm at which a local solver may stop.
        smallest_size, largest_size: public bounds; a data set is treated as if its size lay between them (`counted`).
        excluded: number of noise shares that privacy must not depend on: colluders + dropouts + 1.
        pitch_exponent: parameters and noise are integer multiples of 2^pitch_exponent.
        nonce: 32 hexadecimal digits that distinguish runs with otherwise equal terms.
    """

    variant: Variant
    comparisons: Comparisons
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
        for name, choices in (("variant", Variant), ("comparisons", Comparisons)):
            if getattr(self, name) not in get_args(choices):
                raise InvalidParameter(f"{name} must be one of {get_args(choices)}, not {getattr(self, name)!r}")
        for f in fields(self):
            value, kind = getattr(self, f.name), {"int": int, "float": float, "str": str}.get(str(f.type))
            if kind is not None and type(value) is not kind:
                raise InvalidParameter(f"{f.name} must be of type {f.type}, not {type(value).__name__}")
            if kind is float and not (math.isfinite(value) and value > 0):
                raise InvalidParameter(f"{f.name} must be positive and finite, not {value!r}")
        check_epsilon(self.epsilon)
        if not SMALLEST_RUN <= self.parties <= LARGEST_RUN:
            raise InvalidParameter(
                f"there must be at least {SMALLEST_RUN} parties, since of two each learns the other's parameters, and "
                f"{LARGEST_RUN} at most; got {self.parties}"
            )
        if not 1 <= self.features <= 1 << 20:
            raise InvalidParameter(f"the number of features must lie between 1 and 2^20, not {self.features}")
        if len(self.classes) != 2 or len(set(self.classes)) != 2 or not all(isinstance(c, str) for c in self.classes):
            raise InvalidParameter("classes must be two different names")
        if not 1 <= self.smallest_size <= self.largest_size < 1 << SIZE_BITS:
            raise InvalidParameter(f"smallest_size and largest_size must lie in order between 1 and 2^{SIZE_BITS}")
        if not 1 <= self.excluded < self.parties:
            raise InvalidParameter(f"excluded is {self.excluded}; it must lie between 1 and {self.parties - 1}")
        if not -200 <= self.pitch_exponent <= 0:
            raise InvalidParameter(f"pitch_exponent is {self.pitch_exponent}; it must lie between -200 and 0")
        if len(self.nonce) != 32 or any(c not in "0123456789abcdef" for c in self.nonce):
            raise InvalidParameter("a nonce must have 32 hexadecimal digits")

    # -- derived values

    @property
    def finds_smallest(self) -> bool:
        return self.variant != "public-bound"

    @property
    def joint(self) -> bool:
        """Whether the noise of all parties, rather than of one, is in the sum."""
        return self.variant != "printed"

    @property
    def turns(self) -> int:
        return 1 if self.comparisons == "all-pairs" else (self.parties - 1).bit_length()

    @property
    def pitch(self) -> float:
        return math.ldexp(1.0, self.pitch_exponent)

    @property
    def strong_convexity(self) -> float:
        """mu of the local objective: 2 lambda for the paper's objective (2), whose penalty is lambda ||w||^2."""
        return 2 * self.lam

    @cached_property
    def buckets(self) -> tuple[Fraction, ...]:
        """The sizes for which noise is drawn in the repaired variant, from the smallest size up."""
        buckets = [Fraction(self.smallest_size)]
        while buckets[-1] * BUCKET_RATIO <= self.largest_size:
            buckets.append(buckets[-1] * BUCKET_RATIO)
        return tuple(buckets)

    def counted(self, size: int) -> int:
        """Return the size that a data set is treated as having; rejecting a size outside the bounds would reveal it.

        A smaller data set divides its loss by the bound, so one record has no more influence than the bound allows; a
        larger one gets the noise of the bound, which is more than it needs.
        """
        return min(max(size, self.smallest_size), self.largest_size)

    def bucket(self, size: int) -> int:
        """Return the index of a data set's bucket, which is no larger, so that noise is never too small."""
        return max(place for place, least in enumerate(self.buckets) if least <= self.counted(size))

    # -- encoding

    def encode(self) -> bytes:
        return json.dumps(asdict(self) | _FIXED, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> PathakTerms:
        try:
            decoded = json.loads(data)
            for name, value in _FIXED.items():
                if (other := decoded.pop(name)) != value:
                    raise InvalidParameter(f"{name} is {other!r}; only version 0.2.0 has another than {value!r}")
            terms = cls(**{**decoded, "classes": tuple(decoded["classes"])})
            canonical = terms.encode()
        except InvalidParameter:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            raise MessageError("the bytes are not the terms of a run") from None
        if canonical != data:
            raise MessageError("the terms are not in their canonical form")
        return terms

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(b"psephos pathak terms\0" + self.encode()).digest()

    def check_agrees(self, proposal: PathakTerms, who: str) -> None:
        """Raise AgreementError, naming the first difference, unless a proposal has the same terms."""
        for f in fields(self):
            own, proposed = getattr(self, f.name), getattr(proposal, f.name)
            if own != proposed:
                raise AgreementError(f"{who} was set up for {f.name} = {own!r}, and the proposal says {proposed!r}")
