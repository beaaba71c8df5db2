"""Attacks on noisy sums: a sound release stays below its claim, and every planted fault exceeds it.

Of the suite's faults, one is too small for this attack: "one's own share counted on", a sixteenth of the variance.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from psephos.audit.canaries import attack, audited_specs, shown_epsilon
from psephos.audit.privacy import AUDIT_DELTA, CONFIDENCE
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.grids.directions import FIXED_POINT, DirectionGrid
from psephos.protocol.randomness import SimulationRandomness
from psephos.results.security import AttackedRelease, PrivacyAuditResult
from psephos.results.trust import attack_success
from psephos.specs.noisy import NoisySumSpec
from tests.security.lab.faults import FAULTS

LAPLACE, GAUSSIAN, HOLDERS_LAPLACE, HOLDERS_GAUSSIAN = range(4)
Generator = np.random.Generator


def attacked(law: int, releases: int, label: str = "") -> AttackedRelease:
    """Attack the release of an epsilon of 1; `label`: of the coins."""
    name, spec = list(audited_specs(1.0, AUDIT_DELTA))[law]
    return attack(name, spec, releases, CONFIDENCE, SimulationRandomness(1, name, label))


# -- the bound, on mechanisms of a known epsilon


def randomised_response(generator: Generator, canaries: int) -> Any:
    """Guesses that are right with a probability of e/(1 + e), and equally certain."""
    return np.where(generator.random((200, canaries)) < np.e / (1 + np.e), 1.0, -1.0)


def gaussian(generator: Generator) -> Any:
    """Guesses under Gaussian noise that is (1, 0.01)-private: 1/0.5325 times the distance."""
    return generator.normal(0.5325 / 2, 1.0, (200, 16))


LAWS: dict[str, tuple[Callable[[Generator], Any], float]] = {
    "randomised response": (lambda generator: randomised_response(generator, 16), 0.0),
    "one coin for all canaries": (lambda generator: np.repeat(randomised_response(generator, 1), 16, axis=1), 0.0),
    "gaussian": (gaussian, 0.01),
}


@pytest.mark.parametrize("law", LAWS)
def test_a_true_claim_is_seldom_exceeded(law: str) -> None:
    """In at most 5 % of runs at a confidence of 95 %, also where all guesses of a release are alike."""
    draw, delta = LAWS[law]
    shown = np.array([shown_epsilon(draw(np.random.default_rng(seed)), delta, 0.95) for seed in range(100)])
    assert (shown > 1).mean() <= 0.05
    assert shown.mean() > 0.3, "an audit that sees nothing proves nothing"


def test_bound_of_guesses_that_say_nothing_or_everything() -> None:
    nothing = np.random.default_rng(1).choice([-1.0, 1.0], (400, 16))
    assert shown_epsilon(nothing, 0.0, 0.95) < 0.1
    assert shown_epsilon(np.ones((400, 16)), 0.0, 0.95) > 3
    assert shown_epsilon(np.ones((400, 16)), 1.0, 0.95) == 0.0
    assert shown_epsilon(np.zeros((400, 16)), 0.0, 0.95) == 0.0


def test_too_few_releases() -> None:
    with pytest.raises(InvalidParameter, match="at least 8"):
        attacked(LAPLACE, 7)


# -- releases


@pytest.mark.parametrize(
    ("law", "least"), [(LAPLACE, 0.5), (GAUSSIAN, 0.1), (HOLDERS_LAPLACE, 0.5), (HOLDERS_GAUSSIAN, 0.1)]
)
def test_a_sound_release_shows_most_of_its_claim(law: int, least: float) -> None:
    found = attacked(law, 300)
    assert found.passed
    assert found.lower_bound > least
    assert 0.55 < found.success < found.allowed == attack_success(1.0, found.delta)


PLANTED = {
    "noise that everybody knows": (LAPLACE, 60),
    "no noise": (GAUSSIAN, 60),
    "half a share": (LAPLACE, 250),
    "noise of half the scale": (HOLDERS_LAPLACE, 250),
    "noise sized for all parties, colluders included": (LAPLACE, 400),
    "noise of one sign": (LAPLACE, 1500),
    "shares clipped short": (LAPLACE, 60),
    "noise of half the scale (2)": (HOLDERS_GAUSSIAN, 600),
    "noise sized for all parties, colluders included (2)": (GAUSSIAN, 1500),
    "noise of one sign (2)": (GAUSSIAN, 900),
    "shares clipped short (2)": (GAUSSIAN, 60),
    "shares of noise sized for everybody": (LAPLACE, 300),
    "shares of noise sized without the colluders": (LAPLACE, 300),
}
"""Faults of `tests/security/lab/faults.toml`: the release that shows them, and how often it is attacked."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (PLANTED[name][1] > 300)) for name in PLANTED]
)
def test_a_fault_of_the_noise_is_detected(name: str) -> None:
    with FAULTS[name].planted():
        found = attacked(*PLANTED[name], name)
    assert not found.passed, found


def test_a_vector_that_is_not_clipped_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def unclipped(grid: DirectionGrid, contrasts: Any) -> list[int]:
        return [int(entry * 2.0**FIXED_POINT.fraction_bits) for entry in contrasts.ravel()]

    monkeypatch.setattr(DirectionGrid, "direction", unclipped)
    found = PrivacyAuditResult(mechanisms=[], attacked=[attacked(LAPLACE, 60)], phases={})
    assert not found.as_expected
    assert not PrivacyAuditResult.from_json(json.loads(json.dumps(found.as_json()))).attacked[0].passed
    assert "VIOLATED" in str(found.page())


@pytest.mark.parametrize("noise", ["none", "replayed"])
def test_holders_without_fresh_noise_are_detected(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def noise_of(spec: NoisySumSpec, holder: int, randomness: Any) -> list[int]:
        assert spec.shares is not None
        return [0] * 16 if noise == "none" else spec.shares.share(SimulationRandomness(holder))

    monkeypatch.setattr(NoisySumSpec, "noise_of", noise_of)
    assert not attacked(HOLDERS_GAUSSIAN, 60).passed
