"""A party in PSGD: one eta, fresh rho, one ballot a step, and nothing above the agreed bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from psephos.parties.gradients import LocalLoss, margin_slope
from psephos.parties.psgd import GradientParty, GradientPartyState, SeriesHolder, _within, fixed_share, step_share
from psephos.protocol.encrypted_sum.messages import Close, PartialDecryption, TallyRequest
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.errors import (
    AlreadyCastError,
    DataError,
    GradientBoundError,
    MessageError,
    NormError,
    UnexpectedMessageError,
    WrongPartialDecryptionError,
)
from psephos.protocol.psgd.descent import StoppingRule
from psephos.protocol.psgd.series import Announcement, Series, SeriesTerms
from psephos.protocol.psgd.state import DescentState, PublishedSum
from psephos.protocol.randomness import SimulationRandomness
from psephos.protocol.roles import BOARD, Entry, Role, Step
from psephos.simulation.key_setup import KeySetup, setup_keys
from tests.protocol.psgd.test_series import DESCENT, SERIES
from tests.statistical import FALSE_ALARM

ORIGIN = (0.0, 0.0)
X = np.array([[0.6, 0.8], [1.0, 0.0], [0.0, -0.5]])
Y = np.array([1, -1, 1])


@pytest.fixture(scope="module")
def ceremony() -> KeySetup:
    return setup_keys(
        3, key_bits=512, holders=3, threshold=2, test_key=True, randomness=SimulationRandomness(9, "psgd party")
    )


def terms_of(ceremony: KeySetup, series: Series = SERIES, proofs: Any = "none") -> SeriesTerms:
    return SeriesTerms(series, DESCENT, ceremony.threshold_key, ceremony.roster, test_key=True, proofs=proofs)


def party_of(ceremony: KeySetup, number: int = 0, series: Series = SERIES, **options: Any) -> GradientParty:
    key = ceremony.signing_keys[number]
    return GradientParty(number, key, LocalLoss(X, Y), terms_of(ceremony, series), **options)


def announced(terms: SeriesTerms, step: int, point: tuple[float, ...] = ORIGIN) -> Announcement:
    return Announcement.create(terms, step, point)


def published(terms: SeriesTerms, step: int, sums: tuple[int, ...], *holders: int) -> list[Entry]:
    messages = {holder: PublishedSum(step, holder, sums).encode(terms) for holder in holders}
    return [Entry(100 * step + holder, f"holder {holder}", BOARD, data) for holder, data in messages.items()]


def after_step(terms: SeriesTerms, point: tuple[float, ...], sums: tuple[int, ...], step: int) -> tuple[float, ...]:
    noisy = np.array(sums, dtype=float) * terms.series.pitch
    return tuple(terms.descent.step(np.array(point), noisy, step - 1).tolist())


def entries_of(*messages: bytes | Announcement, sender: str = "curator") -> list[Entry]:
    encoded = [m.encode() if isinstance(m, Announcement) else m for m in messages]
    return [Entry(number, sender, BOARD, data) for number, data in enumerate(encoded)]


def hears(role: Role, state: Any, entries: Sequence[Entry]) -> Step:
    """What a role does; raises why it refused."""
    step = role.receive(state, entries)
    for refusal in step.refused:
        raise refusal.error
    return step


def answers(party: GradientParty, announcement: Announcement, state: Any = None) -> bytes:
    (post,) = hears(party, party.start().state if state is None else state, entries_of(announcement)).posts
    return post.data


def vector_of(party: GradientParty, step: int, point: tuple[float, ...] = (0.0, 0.0)) -> list[int]:
    """A noisy gradient, with an eta that is drawn now."""
    return party.vector(party._start().state, announced(party.terms, step, point))[0]


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_gradient_is_the_derivative_of_the_loss(loss: str) -> None:
    local = LocalLoss(X, Y, loss)

    def value(w: np.ndarray) -> float:
        t = Y * (X @ w)
        if loss == "logistic":
            return float(np.logaddexp(0, -t).sum())
        return float(np.where(t > 1.5, 0, np.where(t < 0.5, 1 - t, (1.5 - t) ** 2 / 2)).sum())

    for w in np.random.default_rng(0).normal(size=(20, 2)) * 2:
        numeric = [(value(w + h) - value(w - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
        assert local.gradient(w) == pytest.approx(numeric, abs=1e-5)


def test_proposition_3_1() -> None:
    """No replaced record moves the sum by more than 2; some moves it by nearly as much."""
    generator = np.random.default_rng(1)
    worst = 0.0
    for _ in range(500):
        rows = generator.normal(size=(2, 3))
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        w = 20 * generator.normal(size=3)
        first, second = (LocalLoss(r[None], np.ones(1)).gradient(w) for r in rows)
        worst = max(worst, float(np.linalg.norm(first - second)))
    assert 1.9 < worst <= 2


@pytest.mark.parametrize(
    ("rows", "labels", "error"),
    [
        *((np.zeros(shape), np.ones(shape[:1]), DataError) for shape in ((0, 2), (3,), (2, 0), (1, 1, 1))),
        *((X, labels, DataError) for labels in (np.array([0, 1, 1]), np.ones(2), np.ones((3, 1)))),
        (np.full((2, 2), np.nan), np.ones(2), DataError),
        *((rows, np.ones(1), NormError) for rows in (np.ones((1, 2)), np.array([[1 + 2.0**-40 + 2.0**-50]]))),
    ],
)
def test_invalid_records_of_psgd_are_refused(rows: np.ndarray, labels: np.ndarray, error: type[Exception]) -> None:
    with pytest.raises(error):
        LocalLoss(rows, labels)


def test_the_approximate_hinge_has_a_half_width_of_one_half() -> None:
    """Its slope is -1 up to 1/2, 0 from 3/2, and straight between; another loss than the logistic one."""
    margins = np.array([0.0, 0.5, 0.75, 1.0, 1.5, 2.0])
    assert margin_slope("huber")(margins).tolist() == [-1, -1, -0.75, -0.5, 0, 0]
    assert margin_slope()(margins) == pytest.approx(-1 / (1 + np.exp(margins)))


# -- the shares of noise


def test_fixed_noise_is_drawn_once_and_step_noise_afresh(ceremony: KeySetup) -> None:
    """With rho off two vectors at one point are equal and hold eta; with it on they differ."""
    quiet = replace(SERIES, step_law="none", step_scale=0.0)
    party = party_of(ceremony, series=quiet)
    assert vector_of(party, 1) == vector_of(party, 2)
    bare = vector_of(party_of(ceremony, series=replace(quiet, fixed_sigmas=(0.0,) * 3)), 1)
    assert vector_of(party, 3) != bare
    loud = party_of(ceremony)
    assert vector_of(loud, 1) != vector_of(loud, 1)
    assert party_of(ceremony)._start().state.eta != party_of(ceremony)._start().state.eta


def test_shares_have_their_laws() -> None:
    """Goodness of fit with fixed seeds; see `tests.statistical` for the false-alarm rate over seeds."""
    noise = SimulationRandomness(1, "shares")
    fixed = np.array([fixed_share(SERIES, 2, noise) for _ in range(3600)]) * SERIES.pitch
    assert kstest((fixed**2).sum(axis=1) / 9, chi2(2).cdf).pvalue > FALSE_ALARM
    fresh = np.array([step_share(SERIES, 1, noise) for _ in range(3600)]) * SERIES.pitch
    # The norm is Gamma(2, 1.5): twice it over the scale is chi-square with 4 degrees of freedom.
    assert kstest(2 * np.linalg.norm(fresh, axis=1) / 1.5, chi2(4).cdf).pvalue > FALSE_ALARM
    gaussian = replace(SERIES, step_law="discrete-gaussian", step_scale=5000.0)
    counts = np.array([step_share(gaussian, 1, noise) for _ in range(3600)]).ravel()
    assert kstest(counts / np.sqrt(5000), "norm").pvalue > FALSE_ALARM
    assert abs(counts.var() / 5000 - 1) < 0.15


def test_draws_beyond_the_bound_are_repeated(ceremony: KeySetup) -> None:
    tight = replace(SERIES, step_scale=1e-2)
    object.__setattr__(tight, "step_bound", lambda step: 20)
    assert max(abs(e) for _ in range(200) for e in step_share(tight, 1)) <= 20
    draws = [[3, -4], [4, 0], [-3, 3]]
    assert _within(lambda: draws.pop(0), 3) == [-3, 3]
    assert not draws


# -- one ballot a step


def test_a_step_is_answered_once(ceremony: KeySetup) -> None:
    party, terms = party_of(ceremony), terms_of(ceremony)
    first, start = announced(terms, 1), party.start().state
    after = hears(party, start, entries_of(first))
    (post,) = after.posts
    assert post.receiver == BOARD
    assert answers(party, first, start) == post.data, "it lost its state, but not its ledger"
    other = announced(terms, 1)  # another nonce
    with pytest.raises(AlreadyCastError):
        hears(party, start, entries_of(other))
    for again in (first, other):
        with pytest.raises(UnexpectedMessageError):
            hears(party, after.state, entries_of(again))


def test_only_the_points_of_the_descent_are_answered(ceremony: KeySetup) -> None:
    """The origin first; then what follows from a sum that t = 2 holders publish."""
    party, terms = party_of(ceremony), terms_of(ceremony)
    state, point = party.start().state, ORIGIN
    for step, sums in enumerate(((100, -2000), (7, 7), (0, 0), (-1, 1)), start=1):
        for wrong in ((9.0, 9.0), (point[0] + 1e-300, point[1] - 2.0**-40)):
            with pytest.raises(UnexpectedMessageError):
                hears(party, state, entries_of(announced(terms, step, wrong)))
        heard = hears(party, state, entries_of(announced(terms, step, point)))
        assert len(heard.posts) == 1
        state = hears(party, heard.state, published(terms, step, sums, 3, 1, 2)).state
        point = after_step(terms, point, sums, step)
        assert party.result(state).progress.point == point
    with pytest.raises(UnexpectedMessageError):
        hears(party, state, entries_of(announced(terms, 4, point)))


def test_the_next_step_is_answered_and_no_other(ceremony: KeySetup) -> None:
    """An announcement of the last step first does not cost a party the honest first one."""
    party, terms = party_of(ceremony), terms_of(ceremony)
    start = party.start().state
    for step in (2, 4):
        with pytest.raises(UnexpectedMessageError):
            hears(party, start, entries_of(announced(terms, step)))
    with pytest.raises(UnexpectedMessageError):
        hears(party, start, entries_of(announced(terms, 1), sender="party 2"))
    with pytest.raises(MessageError):
        hears(party, start, entries_of(Announcement(terms.digest, 5, bytes(16), ORIGIN)))
    both = party.receive(start, entries_of(announced(terms, 4), announced(terms, 1)))
    assert (len(both.posts), len(both.refused)) == (1, 1)
    assert party.result(both.state).answered == 1


def test_the_stopping_rule_ends_every_party(ceremony: KeySetup) -> None:
    terms = replace(terms_of(ceremony), descent=replace(DESCENT, stopping=StoppingRule(0.7, 1)))
    progress = DescentState.start(terms)
    for step in (1, 2):
        assert not progress.over(terms)
        (entry,) = entries_of(announced(terms, step, progress.point))
        progress = progress.announced(terms, entry, "party 0")
        for heard in published(terms, step, (-100, -100) if step == 1 else (0, 0), 1, 2):
            progress = progress.published(terms, heard)
    assert progress.over(terms)
    assert progress.steps == 2


def test_gradients_above_the_bound_are_refused_or_clipped(ceremony: KeySetup) -> None:
    tight = replace(SERIES, bound=0.25, step_law="none", step_scale=0.0, fixed_sigmas=(0.0,) * 3)
    party = party_of(ceremony, series=tight)
    start = party.start().state
    step = party.receive(start, entries_of(announced(party.terms, 1)))
    assert isinstance(step.refused[0].error, GradientBoundError)
    assert (step.posts, party.result(step.state).vector) == ((), ())
    late = party.receive(step.state, published(party.terms, 1, (0, 0), 1, 2))
    assert (late.posts, late.refused, party.result(late.state).progress.steps) == ((), (), 1), (
        "it follows without answering"
    )
    clipping = party_of(ceremony, series=tight, clip=True)
    after = hears(clipping, clipping.start().state, entries_of(announced(clipping.terms, 1, (0.0, 0.0))))
    account: GradientPartyState = clipping.result(after.state)
    assert account.clipped == 1
    assert account.vector == tuple(clipping.vector(account, announced(clipping.terms, 2))[0]), "no noise at all here"
    full = LocalLoss(X, Y).gradient((0.0, 0.0))
    assert np.array(account.vector) * tight.pitch == pytest.approx(full * 0.25 / np.linalg.norm(full), abs=tight.pitch)
    inside = party_of(ceremony, series=replace(tight, bound=5.0), clip=True)
    assert inside.vector(inside._start().state, announced(inside.terms, 1))[1] is False


# -- holders


@pytest.mark.parametrize("proofs", ["none", "knowledge"])
def test_a_holder_publishes_what_t_holders_open(ceremony: KeySetup, proofs: Any) -> None:
    """Also one that was not asked; with proofs, one that lies is named and changes nothing."""
    terms = terms_of(ceremony, proofs=proofs)
    announcement = announced(terms, 1)
    parties = [GradientParty(n, ceremony.signing_keys[n], LocalLoss(X, Y), terms) for n in range(3)]
    cast, vectors = [], []
    for party in parties:
        step = hears(party, party.start().state, entries_of(announcement))
        cast.append(Entry(1, party.name, BOARD, step.posts[0].data))
        vectors.append(party.result(step.state).vector)
    product, _ = BallotProduct(terms.round(announcement)).add_all(entry.data for entry in cast)
    close = Entry(2, "curator", BOARD, Close(product.round.digest).encode())
    request = TallyRequest(product.round.digest, product.members, product.digest).encode(product.round)
    holders = [SeriesHolder(share, terms) for share in ceremony.shares]
    states = [hears(h, h.start().state, [*entries_of(announcement), *cast, close]).state for h in holders]
    parts = []
    for place in (0, 1):
        step = hears(holders[place], states[place], [Entry(3, "curator", f"holder {place + 1}", request)])
        states[place] = step.state
        (post,) = step.posts
        assert post.receiver == BOARD, "with it everybody has the sum, as everybody has the points"
        parts.append(Entry(4, f"holder {place + 1}", BOARD, post.data))
    expected = tuple(sum(column) for column in zip(*vectors, strict=True))
    late = hears(holders[2], states[2], [Entry(3, "curator", "holder 3", request)])
    for holder, state in zip(holders, states, strict=True):
        step = hears(holder, state, parts)
        (post,) = step.posts
        assert PublishedSum.decode(post.data, terms) == PublishedSum(1, holder.number, expected)
        after = hears(holder, step.state, [Entry(5, "holder 3", BOARD, late.posts[0].data)])
        assert (after.posts, after.state) == ((), step.state), "one more than were needed"
        assert not holder.listens(state)
    first = PartialDecryption.decode(parts[0].data, product.round)
    values = tuple(v * v % terms.threshold_key.key.ciphertext_modulus for v in first.values)
    lie = replace(parts[0], data=replace(first, values=values).encode(product.round))
    step = holders[2].receive(states[2], [lie, parts[1]])
    assert step.posts == ()
    assert [type(r.error) for r in step.refused] == ([WrongPartialDecryptionError] if proofs == "knowledge" else [])
