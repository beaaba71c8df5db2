"""A party in PSGD: one eta, fresh rho, one ballot a step, and nothing above the agreed bound."""

from __future__ import annotations

import errno
import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, gamma, kstest, norm, poisson

from psephos.parties.gradients import check_records, gradient_sum, margin_slope
from psephos.parties.psgd import GradientParty, OpeningRecord, StepHolder, fixed_share, step_share
from psephos.protocol.encrypted_sum.messages import Ballot, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.series import Announcement, Series
from psephos.protocol.errors import (
    AlreadyCastError,
    AlreadyOpenedError,
    BudgetExceededError,
    DataError,
    GradientBoundError,
    InvalidParameter,
    JournalError,
    MessageError,
    NormError,
    PackingError,
    WrongRoundError,
)
from psephos.protocol.randomness import SimulationRandomness
from psephos.simulate.ceremony import Ceremony, hold_ceremony

SERIES = Series(
    parties=3,
    steps=4,
    dimension=2,
    bound=5.0,
    fraction_bits=10,
    fixed_sigmas=(2.0, 2.0, 3.0),
    step_law="spherical-laplace",
    step_scale=1.5,
    minimum_ballots=3,
    nonce=bytes(16),
)
X = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -0.5]])
Y = np.array([1, -1, 1])


@pytest.fixture(scope="module")
def ceremony() -> Ceremony:
    return hold_ceremony(
        3, key_bits=512, holders=3, threshold=2, test_key=True, randomness=SimulationRandomness(9, "psgd party")
    )


def party_of(ceremony: Ceremony, number: int = 0, **options: object) -> GradientParty:
    options = {"series": SERIES, **options}
    return GradientParty(number, ceremony.signing_keys[number], X, Y, **options)


def announced(
    ceremony: Ceremony, step: int, point: tuple[float, ...] = (0.1, -0.2), series: Series = SERIES
) -> tuple[Announcement, Round]:
    announcement = Announcement.create(series, step, point)
    return announcement, announcement.round(series, ceremony.threshold_key, ceremony.roster, test_key=True)


# -- gradients


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_gradient_is_the_derivative_of_the_loss(loss: str) -> None:
    slope = margin_slope(loss)

    def value(w: np.ndarray) -> float:
        t = Y * (X @ w)
        if loss == "logistic":
            return float(np.logaddexp(0, -t).sum())
        return float(np.where(t > 1.5, 0, np.where(t < 0.5, 1 - t, (1.5 - t) ** 2 / 2)).sum())

    for w in np.random.default_rng(0).normal(size=(20, 2)) * 2:
        numeric = [(value(w + h) - value(w - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
        assert gradient_sum(X, Y.astype(float), w, slope) == pytest.approx(numeric, abs=1e-5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_slopes_stay_within_the_lipschitz_constant(margins: list[float]) -> None:
    for loss in ("logistic", "huber"):
        slope = margin_slope(loss)(np.array(margins))
        assert (slope <= 0).all()
        assert (slope >= -1).all()


def test_proposition_3_1() -> None:
    """No replaced record moves the sum by more than 2; some moves it by nearly as much."""
    generator = np.random.default_rng(1)
    slope, worst = margin_slope("logistic"), 0.0
    for _ in range(500):
        rows = generator.normal(size=(2, 3))
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        w = 20 * generator.normal(size=3)
        first, second = (gradient_sum(r[None], np.ones(1), w, slope) for r in rows)
        worst = max(worst, float(np.linalg.norm(first - second)))
    assert 1.9 < worst <= 2


@pytest.mark.parametrize(
    ("rows", "labels", "error"),
    [
        (np.zeros((0, 2)), np.zeros(0), DataError),
        (np.zeros(3), np.ones(3), DataError),
        (np.ones((2, 2)), np.ones(2), NormError),
        (np.full((2, 2), np.nan), np.ones(2), DataError),
        (X, np.array([0, 1, 1]), DataError),
        (X, np.ones(2), DataError),
    ],
)
def test_bad_records(rows: np.ndarray, labels: np.ndarray, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_records(rows, labels)


# -- the shares of noise


def test_fixed_noise_is_drawn_once_and_step_noise_afresh(ceremony: Ceremony) -> None:
    """With rho off two vectors at one point are equal and hold eta; with it on they differ."""
    quiet = replace(SERIES, step_law="none", step_scale=0.0)
    party = party_of(ceremony, series=quiet)
    assert party.vector(1, (0.0, 0.0)) == party.vector(2, (0.0, 0.0))
    bare = party_of(ceremony, series=replace(quiet, fixed_sigmas=(0.0,) * 3)).vector(1, (0.0, 0.0))
    assert party.vector(3, (0.0, 0.0)) != bare
    loud = party_of(ceremony)
    assert loud.vector(1, (0.0, 0.0)) != loud.vector(1, (0.0, 0.0))
    assert party_of(ceremony)._fixed != party_of(ceremony)._fixed


def test_shares_have_their_laws() -> None:
    """Goodness of fit at a false-alarm rate of 1e-6; seeds make the outcome stable."""
    noise = SimulationRandomness(1, "shares")
    fixed = np.array([fixed_share(SERIES, 2, noise) for _ in range(2000)]) * SERIES.pitch
    assert kstest((fixed**2).sum(axis=1) / 9, chi2(2).cdf).pvalue > 1e-6
    fresh = np.array([step_share(SERIES, 1, noise) for _ in range(2000)]) * SERIES.pitch
    # The norm is Gamma(2, 1.5): twice it over the scale is chi-square with 4 degrees of freedom.
    assert kstest(2 * np.linalg.norm(fresh, axis=1) / 1.5, chi2(4).cdf).pvalue > 1e-6
    skellam = replace(SERIES, step_law="skellam", step_scale=5000.0)
    counts = np.array([step_share(skellam, 1, noise) for _ in range(2000)]).ravel()
    assert kstest(counts / np.sqrt(5000), "norm").pvalue > 1e-6
    assert abs(counts.var() / 5000 - 1) < 0.15


def test_halving_doubles_the_noise_at_every_step() -> None:
    series = replace(SERIES, step_law="spherical-laplace-halving")
    assert [series.scale_at(t) for t in (1, 2, 3)] == [3.0, 6.0, 12.0]
    assert series.step_bound(3) > 3.9 * series.step_bound(1)


@pytest.mark.parametrize(("law", "scale"), [("spherical-laplace", 1.5), ("skellam", 1e8)])
def test_bounds_leave_no_more_than_the_stated_tail(law: str, scale: float) -> None:
    """Against scipy's own tails; the union over parties, steps, entries and signs is within 2^-66."""
    series = replace(SERIES, step_law=law, step_scale=scale)
    units = series.step_bound(1)
    if law == "spherical-laplace":
        tail = float(gamma.sf(units * series.pitch / scale, SERIES.dimension))
    else:  # a Skellam variable is below a Poisson one less its mean, both of the same variance, in this far tail
        tail = max(2 * float(poisson.sf(units + scale, scale)), 2 * float(norm.sf(units / scale**0.5)))
    eta = 2 * float(norm.sf(series.fixed_bound() * series.pitch / 3.0))
    draws = SERIES.parties * SERIES.dimension
    assert (tail * SERIES.steps + eta) * draws <= 2.0**-66
    assert units < 12 * scale ** (0.5 if law == "skellam" else 1) / (1 if law == "skellam" else series.pitch / 6)


def test_draws_beyond_the_bound_are_repeated(ceremony: Ceremony) -> None:
    tight = replace(SERIES, step_scale=1e-2)
    object.__setattr__(tight, "step_bound", lambda step: 20)
    assert max(abs(e) for _ in range(200) for e in step_share(tight, 1)) <= 20


# -- one ballot a step


def test_a_step_is_answered_once(ceremony: Ceremony) -> None:
    party = party_of(ceremony)
    first, round_ = announced(ceremony, 1)
    ballot = party.answer(first, round_)
    assert party.answer(first, round_).encode() == ballot.encode()
    again, other = announced(ceremony, 1)  # another nonce: another round of the same step
    with pytest.raises(AlreadyCastError):
        party.answer(again, other)
    moved, elsewhere = announced(ceremony, 1, (5.0, 5.0))
    with pytest.raises(AlreadyCastError):
        party.answer(moved, elsewhere)
    second, later = announced(ceremony, 2)
    party.answer(second, later)
    with pytest.raises(AlreadyCastError):
        party.answer(first, round_)
    assert party.steps_answered == 2


def test_a_restarted_party_sends_the_same_ballot(ceremony: Ceremony, tmp_path: Path) -> None:
    state = tmp_path / "party"
    announcement, round_ = announced(ceremony, 1)
    before = party_of(ceremony, state=state)
    ballot = before.answer(announcement, round_)
    after = party_of(ceremony, state=state)
    assert after._fixed == before._fixed
    assert after.answer(announcement, round_).encode() == ballot.encode()
    with pytest.raises(AlreadyCastError):
        after.answer(*announced(ceremony, 1))
    assert stat.S_IMODE(state.stat().st_mode) == 0o600


def test_the_state_is_written_before_the_ballot_leaves(ceremony: Ceremony, tmp_path: Path) -> None:
    state = tmp_path / "party"
    party = party_of(ceremony, state=state)
    ballot = party.answer(*announced(ceremony, 3))
    document = json.loads(state.read_text())
    assert (document["step"], bytes.fromhex(document["ballot"])) == (3, ballot.encode())


def test_damaged_or_foreign_state(ceremony: Ceremony, tmp_path: Path) -> None:
    state = tmp_path / "party"
    party_of(ceremony, state=state)
    with pytest.raises(JournalError, match="another run or party"):
        party_of(ceremony, number=1, state=state)
    with pytest.raises(JournalError, match="another run or party"):
        party_of(ceremony, series=replace(SERIES, nonce=bytes(15) + b"x"), state=state)
    for damage in ("", "{", "[]", state.read_text().replace('"step": 0', '"step": null')):
        state.write_text(damage)
        with pytest.raises(JournalError, match="damaged"):
            party_of(ceremony, state=state)


def test_answers_only_what_was_agreed(ceremony: Ceremony) -> None:
    party = party_of(ceremony)
    other = replace(SERIES, step_scale=1e-3)  # less noise than agreed
    with pytest.raises(WrongRoundError):
        party.answer(*announced(ceremony, 1, series=other))
    announcement, _ = announced(ceremony, 1)
    with pytest.raises(WrongRoundError):
        party.answer(announcement, announced(ceremony, 1)[1])
    _, round_ = announced(ceremony, 1)
    with pytest.raises(BudgetExceededError):
        party.answer(Announcement(SERIES.digest, 5, bytes(16), (0.0, 0.0)), round_)
    assert party.steps_answered == 0


def test_gradients_above_the_bound(ceremony: Ceremony) -> None:
    tight = replace(SERIES, bound=0.25, step_law="none", step_scale=0.0, fixed_sigmas=(0.0,) * 3)
    party = party_of(ceremony, series=tight)
    with pytest.raises(GradientBoundError, match=r"0\.25"):
        party.answer(*announced(ceremony, 1, series=tight))
    assert party.steps_answered == 0
    clipping = party_of(ceremony, series=tight, on_excess="clip")
    clipped = np.array(clipping.vector(1, (0.0, 0.0))) * tight.pitch
    assert clipping.clipped == 1
    full = gradient_sum(X, Y.astype(float), np.zeros(2), margin_slope())
    assert clipped == pytest.approx(full * 0.25 / np.linalg.norm(full), abs=tight.pitch)
    inside = party_of(ceremony, series=replace(tight, bound=5.0), on_excess="clip")
    inside.vector(1, (0.0, 0.0))
    assert inside.clipped == 0


def test_repr_shows_no_secret(ceremony: Ceremony) -> None:
    party = party_of(ceremony)
    party.answer(*announced(ceremony, 1))
    assert repr(party) == "<GradientParty 0, 1 of 4 steps answered>"


# -- messages


def test_announcement_round_trip() -> None:
    announcement = Announcement.create(SERIES, 3, (0.1, -1e300))
    assert Announcement.decode(announcement.encode(), SERIES) == announcement


@given(st.integers(0, 75), st.integers(1, 255))
def test_changed_announcements_are_another_round_or_refused(place: int, change: int) -> None:
    data = bytearray(Announcement(SERIES.digest, 2, bytes(16), (1.0, 2.0)).encode())
    data[place] ^= change
    try:
        changed = Announcement.decode(bytes(data), SERIES)
    except (MessageError, WrongRoundError):
        return
    assert changed.encode() == bytes(data)


@pytest.mark.parametrize("point", [(1.0,), (1.0, float("nan")), (float("inf"), 0.0)])
def test_bad_points(point: tuple[float, ...]) -> None:
    with pytest.raises(MessageError):
        Announcement.create(SERIES, 1, point)


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 0},
        {"bound": 0.0},
        {"bound": float("inf")},
        {"fraction_bits": 60},
        {"fixed_sigmas": (1.0,)},
        {"fixed_sigmas": (1.0, -1.0, 1.0)},
        {"step_law": "gamma"},
        {"step_law": "none"},
        {"step_scale": 0.0},
        {"dimension": 0},
        {"nonce": b""},
        {"steps": 1.5},
        {"minimum_ballots": None},
        {"bound": "5"},
        {"parties": 0, "fixed_sigmas": ()},
    ],
)
def test_bad_series(change: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        replace(SERIES, **change)


def test_equal_series_have_equal_digests() -> None:
    """Whatever kind of number somebody wrote them with."""
    other = replace(
        SERIES, steps=np.int64(4), bound=5, fixed_sigmas=[2, np.float32(2.0), 3], step_scale=np.float64(1.5)
    )
    assert other == SERIES
    assert other.digest == SERIES.digest


def test_every_field_of_a_series_is_in_its_digest() -> None:
    changes: list[dict[str, object]] = [
        {"parties": 2, "fixed_sigmas": (2.0, 2.0)},
        {"steps": 5},
        {"dimension": 3},
        {"bound": 5.1},
        {"fraction_bits": 11},
        {"fixed_sigmas": (2.0, 2.0, 2.0)},
        {"step_law": "spherical-laplace-halving"},
        {"step_scale": 1.6},
        {"minimum_ballots": 2},
        {"nonce": bytes(15) + b"x"},
    ]
    assert len({SERIES.digest, *(replace(SERIES, **change).digest for change in changes)}) == len(changes) + 1


def test_noise_too_wide_for_the_key(ceremony: Ceremony) -> None:
    with pytest.raises(PackingError):
        replace(SERIES, step_scale=1e150).plan(ceremony.threshold_key.key, 1)


# -- holders


def test_a_holder_repeats_one_product_and_opens_no_other(ceremony: Ceremony, tmp_path: Path) -> None:
    announcement, round_ = announced(ceremony, 1)
    ballots = [party_of(ceremony, number).answer(announcement, round_) for number in range(3)]
    others = [party_of(ceremony, number).answer(announcement, round_) for number in range(3)]

    def holder(cast: list[Ballot]) -> tuple[StepHolder, TallyRequest]:
        made = StepHolder(ceremony.shares[0], round_, OpeningRecord(tmp_path / "opened"))
        product = BallotProduct(round_)
        for ballot in cast:
            made.observe(ballot)
            product, _ = product.add_all([ballot.encode()])
        return made, TallyRequest(round_.digest, product.members, product.digest)

    first, request = holder(ballots)
    part = first.partially_decrypt(request)
    restarted, same = holder(ballots)
    assert restarted.partially_decrypt(same).encode(round_) == part.encode(round_)
    changed, other = holder([*ballots[:2], others[2]])
    with pytest.raises(AlreadyOpenedError):
        changed.partially_decrypt(other)
    with pytest.raises(AlreadyOpenedError):  # asking twice does not help
        holder([*ballots[:2], others[2]])[0].partially_decrypt(other)
    (tmp_path / "opened").write_text("nonsense\n")
    with pytest.raises(JournalError):
        holder(ballots)[0].partially_decrypt(request)


# -- what must be on disk before anything leaves


def synced_folders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files and folders that were synced, in order."""
    synced: list[str] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        real(descriptor)
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr("os.fsync", noted)
    return synced


def test_the_name_of_a_state_file_survives_a_crash_too(
    ceremony: Ceremony, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = synced_folders(monkeypatch)
    party = party_of(ceremony, state=tmp_path / "party")
    synced.clear()
    party.answer(*announced(ceremony, 1))
    assert synced[-1] == str(tmp_path), "without it the old state, and a second ballot, can come back"
    OpeningRecord(tmp_path / "openings").first(b"r" * 32, b"p" * 32)
    assert synced[-1] == str(tmp_path)


def test_a_ballot_that_could_not_be_written_down_never_leaves(
    ceremony: Ceremony, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "party"
    party = party_of(ceremony, state=state)
    announcement, round_ = announced(ceremony, 1)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "replace", full)
        with pytest.raises(JournalError, match="No space left"):
            party.answer(announcement, round_)
    assert party.steps_answered == 0
    ballot = party.answer(announcement, round_)
    assert bytes.fromhex(json.loads(state.read_text())["ballot"]) == ballot.encode()
    assert party_of(ceremony, state=state).answer(announcement, round_).encode() == ballot.encode()


def test_a_record_of_openings_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="nothing was opened"):
        OpeningRecord(tmp_path / "missing" / "openings").first(b"r" * 32, b"p" * 32)
