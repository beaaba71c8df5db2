"""What epsilon really is against threshold - 1 key holders, who are parties and know their own shares of the noise.

For the shares that commands and studies build when nobody says how many collude. Discrete Laplace shares: the unknown
shares sum to a difference of two negative binomials, whose limit on a fine lattice is a difference of two gamma
variables; the largest privacy loss follows from its density. Gaussian shares: from their variance. Nothing
is sampled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from scipy.special import gammaln, kve

import psephos.specs.noisy as statistic_module
from psephos.audit.studies import trial
from psephos.curator.statistic import StatisticPlan
from psephos.parties.noise import DiscreteGaussianShares, PolyaShares, Shares, shares_of
from psephos.protocol.privacy.mechanisms import gaussian_delta
from psephos.simulation.options import TallyOptions
from psephos.simulation.tally import simulate_tally
from psephos.specs.registry import coalition_of, spec_of
from psephos.specs.terms import StudyTerms
from psephos.study.consent import describe_study
from tests.psephos.study.cast import AUXILIARY, fields_of

PARTIES = (4, 5, 11, 25)
STUDY_HOLDERS = ((3, 2), (4, 2))
Law = Literal["discrete-laplace", "gaussian"]


class _SeenError(Exception):
    """Raised to stop a run when its noise is planned."""


# -- what is left of epsilon


def log_density(x: np.ndarray, shape: float) -> np.ndarray:
    """Of the difference of two gamma variables of that shape and scale 1, at x > 0 (a symmetric variance-gamma law)."""
    order = shape - 0.5
    power = order * np.log(x / 2) - gammaln(shape) - 0.5 * np.log(np.pi)
    return np.log(kve(order, x)) - x + power


def true_epsilon(epsilon: float, shape: float, entries: int) -> float:
    """The largest loss found of shifts of L1 length epsilon, in scales, when shares of that shape in all are unknown.

    The shift is one entry's, or spread evenly: the worst of both is a lower bound of the true epsilon.
    """
    if shape <= 0.5:
        return np.inf  # the density has a pole at 0
    x = np.concatenate([np.logspace(-12, 2.3, 6000)])
    losses = []
    for across in (1, entries):
        shift = epsilon / across
        losses.append(across * float(np.max(log_density(x, shape) - log_density(x + shift, shape))))
    return max(losses)


def test_privacy_loss_of_complete_and_partial_noise() -> None:
    """One whole Laplace variable loses epsilon, more loses less, and less loses more: prototypes/privacy/04."""
    assert true_epsilon(1.0, 1.0, 20) == pytest.approx(1.0, abs=1e-9)
    assert true_epsilon(1.0, 1.5, 20) < 1.0
    assert true_epsilon(1.0, 9 / 10, 20) > 1.3
    assert true_epsilon(1.0, 23 / 24, 20) > 1.1
    assert true_epsilon(1.0, 0.5, 20) == np.inf


def check(plan: StatisticPlan, shares: Shares, parties: int, coalition: int) -> None:
    """That epsilon holds against that many parties together, and with any one further party that looks."""
    assert shares.parties == plan.parties == parties
    assert plan.epsilon is not None
    for known in (coalition, coalition + 1):
        unknown = parties - known
        if isinstance(shares, PolyaShares):
            reach = plan.l1.value / float(shares.scale_units)  # the largest shift, in scales
            assert true_epsilon(reach, unknown / shares.contributors, plan.dimension) <= plan.epsilon * (1 + 1e-9)
        else:
            assert isinstance(shares, DiscreteGaussianShares)
            variance = float(shares.variance * unknown / shares.contributors)
            assert gaussian_delta(plan.l2.value, plan.epsilon, variance**0.5) <= plan.delta


# -- what commands build


def table(path: Path, parties: int) -> dict[str, Any]:
    """Options for a table of that many parties, and public rows: the parties of a table choose the key holders."""
    generator = np.random.default_rng(parties)
    lines = ["party,x,y,class"]
    for party in range(parties + 1):
        for row in range(12):
            one, other = generator.normal(size=2)
            lines.append(f"{party},{one + row % 2:.3f},{other:.3f},{'ab'[row % 2]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"data": str(path), "label": "class", "party": "party", "public": str(parties)}


def planned(monkeypatch: pytest.MonkeyPatch, run: Any) -> tuple[StatisticPlan, Shares]:
    """What a run plans: its statistic, and the shares that its parties would draw from."""
    seen: list[tuple[StatisticPlan, Shares]] = []

    def shares(plan: StatisticPlan, **sized: int) -> Shares:
        seen.append((plan, shares_of(plan, **sized)))
        raise _SeenError

    with monkeypatch.context() as patched:
        patched.setattr(statistic_module, "shares_of", shares)
        with pytest.raises(_SeenError):
            run()
    return seen[0]


def least_holders(parties: int) -> tuple[int, int]:
    """Holders and threshold of a table's run by default: 3 of 5, or more than half of fewer parties."""
    return (5, 3) if parties >= 5 else (parties, parties // 2 + 1)


@pytest.mark.parametrize("parties", PARTIES)
@pytest.mark.parametrize("law", [None, "gaussian"])
@pytest.mark.parametrize("method", ["statistic", "own-data", "whitened"])
def test_simulate_tally(
    parties: int, law: Law | None, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = TallyOptions(
        **table(tmp_path / "t.csv", parties), mechanism=law, methods=(method,), reveal="statistic", workers=1
    )
    plan = planned(monkeypatch, lambda: simulate_tally(options))
    check(*plan, parties, least_holders(parties)[1] - 1)


@pytest.mark.parametrize("parties", PARTIES)
@pytest.mark.parametrize(("holders", "threshold"), STUDY_HOLDERS)
@pytest.mark.parametrize("what", ["statistic", "statistic, own data", "statistic, gaussian"])
def test_a_study(parties: int, holders: int, threshold: int, what: str) -> None:
    fields = fields_of(what, parties)
    fields["parameters"] = fields["parameters"] | {"dropouts": 0}
    made = trial(parties=parties, holders=holders, threshold=threshold, **fields | {"minimum_ballots": parties})
    spec: Any = spec_of(StudyTerms(made.study, AUXILIARY))
    assert coalition_of(made.study) == threshold - 1
    check(spec.release_plan, spec.shares, parties, threshold - 1)


# -- what is said, and what cannot be


@pytest.mark.parametrize(("colluders", "warned"), [(None, False), (0, True), (1, True)])
def test_who_signs_is_warned_of_more_key_holders_than_colluders(colluders: int | None, warned: bool) -> None:
    fields = fields_of("statistic", 5)
    if colluders is not None:
        fields["parameters"] = fields["parameters"] | {"colluders": colluders}
    study = trial(parties=5, holders=5, threshold=3, **fields).study
    assert coalition_of(study) == (2 if colluders is None else colluders)
    text = " ".join(describe_study(study).split())
    assert f"colluders {coalition_of(study)}: epsilon holds" in text
    assert ("WARNING: 2 key holders" in text) == warned
