"""A party and a key holder in private stochastic gradient descent (Rajkumar and Agarwal 2012, Procedure 3).

The party draws its fixed noise eta_k once, before the first step. At every announced step it computes the gradient of
its own loss at the public point, adds eta_k and a fresh rho_t, and posts the sum as one encrypted ballot. Nobody ever
opens a single ballot.

Privacy is spent when a ballot leaves. The party therefore counts the steps itself, answers each at most once, refuses
more than were agreed on, and keeps its latest ballot on disk *before* it sends it: after an interrupt it sends the very
same bytes again, since a second ballot with fresh noise at the same point would be one release more than was paid for.
A holder, likewise, may repeat the opening of one and the same product, which tells nothing new, and opens no other.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from psephos.parties.gradients import check_records, gradient_sum, margin_slope
from psephos.parties.noise import SkellamShares
from psephos.parties.old_holder import KeyHolder
from psephos.parties.old_party import Party
from psephos.protocol.encrypted_sum.fixed_point import project
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.series import Announcement, Series
from psephos.protocol.errors import (
    AlreadyCastError,
    BudgetExceededError,
    DataError,
    GradientBoundError,
    InvalidParameter,
    JournalError,
    WrongRoundError,
)
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.threshold import KeyShare
from psephos.protocol.privacy.mechanisms import RoundedGaussian, SphericalLaplace, snap
from psephos.protocol.randomness import SYSTEM, Randomness
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.durable import replace_file, sync_folder
from psephos.protocol.storage.ledger import OnceLedger

__all__ = ["GradientParty", "OnExcess", "OpeningRecord", "StepHolder", "fixed_share", "step_share"]

OnExcess = Literal["refuse", "clip"]
PathLike = str | os.PathLike[str]


# -- noise


def _within(draw: Callable[[], list[int]], bound: int) -> list[int]:
    """The first draw whose entries all lie within the public bound; the series charges for the rest of the law."""
    while True:
        values = draw()
        if max(values) <= bound and min(values) >= -bound:
            return values


def fixed_share(series: Series, party: int, randomness: Randomness = SYSTEM) -> list[int]:
    """eta_k in lattice units: normal, drawn once per series.

    Raises InvalidParameter or GridTooCoarseError for a deviation that the series' lattice cannot carry.
    """
    sigma = series.fixed_sigmas[party]
    if not sigma:
        return [0] * series.dimension
    law = RoundedGaussian(series.dimension, sigma, series.pitch)
    return _within(lambda: law.sample(randomness), series.fixed_bound())


def step_share(series: Series, step: int, randomness: Randomness = SYSTEM) -> list[int]:
    """rho_t in lattice units, fresh at every call.

    Raises InvalidParameter for a step outside the series; that or GridTooCoarseError for noise that its lattice cannot
    carry.
    """
    scale = series.scale_at(step)
    if series.step_law == "none":
        return [0] * series.dimension
    if series.step_law == "skellam":
        # One contributor: `scale` is this share's own variance already.
        shares = SkellamShares(series.dimension, series.parties, 1, Fraction(scale))
        return _within(lambda: shares.share(randomness), series.step_bound(step))
    law = SphericalLaplace(series.dimension, scale, series.pitch)
    return _within(lambda: law.sample(randomness), series.step_bound(step))


# -- the party


class GradientParty:
    """One data owner in one series."""

    def __init__(
        self,
        number: int,
        signing_key: SigningKey,
        X: ArrayLike,
        y: ArrayLike,
        *,
        series: Series,
        loss: str = "logistic",
        half_width: float = 0.5,
        on_excess: OnExcess = "refuse",
        state: PathLike | None = None,
        randomness: Randomness = SYSTEM,
    ) -> None:
        """
        Args:
            number: its place on the roster.
            signing_key: registered there.
            X, y: its records, float64 (n, d) with rows of norm at most 1, and labels -1 or +1.
            series: what was agreed on.
            loss, half_width: see `psephos.parties.gradients.margin_slope`.
            on_excess: what to do with a gradient longer than `series.bound`: refuse, or scale it down to the bound.
            state: a file for the fixed noise and the latest ballot, owner only. Without one the party lives as long as
                this object.
            randomness: source of the noise.

        Raises:
            DataError, NormError, InvalidParameter: records or arguments that cannot be used.
            JournalError: a state file that is damaged, belongs to another series or cannot be written.
            GridTooCoarseError: a lattice coarser than the fixed noise.
        """
        if not 0 <= number < series.parties:
            raise InvalidParameter(f"parties are numbered 0 to {series.parties - 1}, there is no party {number}")
        if on_excess not in ("refuse", "clip"):
            raise InvalidParameter(
                f"a gradient above the bound is refused ('refuse') or clipped ('clip'), not {on_excess!r}"
            )
        self._X, self._y = check_records(X, y)
        if self._X.shape[1] != series.dimension:
            raise DataError(f"the series is for {series.dimension} features and these records have {self._X.shape[1]}")
        self._slope = margin_slope(loss, half_width=half_width)
        self.number, self.series = number, series
        self.clipped = 0
        """How many gradients were scaled down. Depends on the data: for the party's own eyes."""
        self.latest_vector: list[int] | None = None
        """What the latest ballot of this object holds, in the clear: for a simulation that compares sums. A secret."""
        self._on_excess, self._randomness = on_excess, randomness
        self._party = Party(number, signing_key, classes=())
        self._state = None if state is None else Path(state)
        self._step, self._latest = 0, b""
        if self._state is not None and self._state.exists():
            self._fixed = self._read_state(self._state)
        else:
            self._fixed = fixed_share(series, number, randomness)
            self._write_state(0, b"")

    @property
    def steps_answered(self) -> int:
        """How many steps have cost this party something."""
        return self._step

    def vector(self, step: int, point: tuple[float, ...]) -> list[int]:
        """The noisy gradient in lattice units, with fresh noise. A sharp tool: every call is one release.

        Raises GradientBoundError for a gradient above the bound when clipping was not agreed on, and as `step_share`.
        """
        gradient = gradient_sum(self._X, self._y, np.array(point), self._slope)
        # The bound is compared with what the party would send; `project` returns a vector inside unchanged.
        inside = project(gradient, self.series.bound)
        if not np.array_equal(inside, gradient):
            if self._on_excess == "refuse":
                raise GradientBoundError(
                    f"the gradient of party {self.number} is above the agreed bound of {self.series.bound:g}; agree "
                    "on a larger bound or on clipping"
                )
            self.clipped += 1
        units = snap(inside, self.series.pitch)
        fresh = step_share(self.series, step, self._randomness)
        return [u + e + r for u, e, r in zip(units, self._fixed, fresh, strict=True)]

    def answer(self, announcement: Announcement, round_: Round, *, encryptor: Encryptor | None = None) -> Ballot:
        """This party's ballot in an announced step; the same ballot again when the same step is announced again.

        Args:
            announcement: as received.
            round_: the round the party built from it (`Announcement.round`).
            encryptor: the randomness mode and source to use.

        Raises:
            AlreadyCastError: this step, or a later one, was answered before, at another point or in another round.
            BudgetExceededError: more steps than were agreed on.
            WrongRoundError: announcement and round do not belong together.
            GradientBoundError, GridTooCoarseError, InvalidParameter: see `vector`.
            JournalError: the ballot could not be written down; it has not left and the step is not spent.
            PackingError, WrongKeyError: noise too wide for the key, or an encryptor for another key.
            UnknownPartyError: the roster has no such party.
        """
        if announcement.series_digest != self.series.digest:
            raise WrongRoundError("an announcement of another series")
        if announcement.step > self.series.steps:
            raise BudgetExceededError(f"{self.series.steps} steps were agreed on; party {self.number} answers no more")
        built = announcement.round(self.series, round_.threshold_key, round_.roster, test_key=round_.test_key)
        if built.digest != round_.digest:
            raise WrongRoundError("this round is not the one that the announcement describes")
        if announcement.step <= self._step:
            if announcement.step == self._step and self._latest_is_of(round_):
                return Ballot.decode(self._latest, round_)
            raise AlreadyCastError(
                f"party {self.number} has answered step {announcement.step} before; a second ballot would be a release "
                "that nobody accounted for"
            )
        values = self.vector(announcement.step, announcement.point)
        ballot = self._party.contribute(round_, "gradients", round_.context, values, encryptor=encryptor)
        self._write_state(announcement.step, ballot.encode())
        self.latest_vector = values
        return ballot

    def _latest_is_of(self, round_: Round) -> bool:
        try:
            Ballot.decode(self._latest, round_)
        except WrongRoundError:
            return False
        return True

    def _write_state(self, step: int, latest: bytes) -> None:
        """The new state: on disk first, so that what could not be written down has not happened."""
        if self._state is not None:
            document = {
                "series": self.series.digest.hex(),
                "party": self.number,
                "fixed": self._fixed,
                "step": step,
                "ballot": latest.hex(),
            }
            try:
                replace_file(self._state, json.dumps(document).encode("ascii"))
            except OSError as error:
                raise JournalError(f"{self._state} cannot be written: {error.strerror}; no ballot left") from None
        self._step, self._latest = step, latest

    def _read_state(self, path: Path) -> list[int]:
        try:
            document = json.loads(path.read_text(encoding="ascii"))
            series, party, fixed = document["series"], document["party"], document["fixed"]
            step, latest = document["step"], bytes.fromhex(document["ballot"])
            if not (isinstance(step, int) and all(isinstance(e, int) for e in fixed)):
                raise TypeError
        except (OSError, ValueError, KeyError, TypeError):
            # Starting afresh would draw a second eta and answer steps again.
            raise JournalError(
                f"the state of party {self.number} in {path} is damaged; this run cannot go on"
            ) from None
        if series != self.series.digest.hex() or party != self.number or len(fixed) != self.series.dimension:
            raise JournalError(f"the state in {path} belongs to another run or party; name another state folder")
        self._step, self._latest = step, latest
        return list(fixed)

    def __repr__(self) -> str:
        return f"<GradientParty {self.number}, {self._step} of {self.series.steps} steps answered>"


# -- the holder


class OpeningRecord:
    """Which product a holder has opened in which round: the first one, for ever. On disk when given a path."""

    def __init__(self, path: PathLike | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._memory: dict[str, str] = {}

    def first(self, round_digest: bytes, product_digest: bytes) -> bytes:
        """The product digest recorded for the round; this one, now recorded, when there was none.

        Raises JournalError when the file is damaged or cannot be opened.
        """
        name, product = round_digest.hex(), product_digest.hex()
        if self._path is None:
            return bytes.fromhex(self._memory.setdefault(name, product))
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(f"{self._path} cannot be opened: {error.strerror}; nothing was opened") from None
        with os.fdopen(descriptor, "r+", encoding="ascii", errors="replace") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            content = file.read()
            for line in content.splitlines():
                fields = line.split()
                if len(fields) != 2 or any(len(f) != 64 or set(f) - set("0123456789abcdef") for f in fields):
                    raise JournalError(f"the record of openings {self._path} is damaged; nothing was opened")
                if fields[0] == name:
                    return bytes.fromhex(fields[1])
            file.write(f"{name} {product}\n")
            file.flush()
            os.fsync(file.fileno())
            if not content:
                sync_folder(self._path.absolute().parent)
        return product_digest


class StepHolder(KeyHolder):
    """A key holder in one step, which after an interrupt may repeat its opening of the very same product."""

    def __init__(self, share: KeyShare, round_: Round, record: OpeningRecord) -> None:
        """Raises WrongKeyError when the share is of another key than the round's."""
        super().__init__(share, round_, openings=_SameProduct(self, record))

    def product_digest(self) -> bytes:
        """Of the ballots observed so far."""
        return self._seen.digest


class _SameProduct(OnceLedger):
    """Claims a round for the product the holder has just checked, or for none other than before."""

    def __init__(self, holder: StepHolder, record: OpeningRecord) -> None:
        super().__init__()
        self._holder, self._record = holder, record

    def claim(self, digest: bytes) -> bool:
        product = self._holder.product_digest()
        return self._record.first(digest, product) == product
