"""Every fault of `tests/security/lab/faults.toml` is noticed: by a check of the audit, a measurement, or a forgery.

`make test` plants one fault in each case, `pytest -m slow` more, `pytest -m mutants` all. The seed is fixed, so that a
fault that goes unnoticed is a change of the code and not of the coins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from psephos.audit.model import Check
from psephos.audit.run import CASES, PROTOCOLS
from tests.security.lab import canaries, parameters, published
from tests.security.lab.edits import edited
from tests.security.lab.faults import CHECKS, FAULTS, Fault, noticed
from tests.security.lab.forgeries import FORGERIES

SEED = 20261
SLOW = {"ceremony", "pathak-printed", "psgd", "psgd-gaussian", "statistic"}
"""Cases whose audit takes seconds."""

MEASURES: dict[str, Callable[[], Any]] = {
    "rho is zero after step 10": partial(published.law_of_steps, "paper", runs=1),
    "released noise is always the seed's": partial(published.law_of_alpha, "spherical-laplace", draws=8),
    "one noise vector for every draw": partial(published.law_of_alpha, "spherical-laplace", draws=8),
    "shares of the key with 40 bits of slack": parameters.key_shares,
    "f(0) = s": parameters.key_shares,
    "small coefficients": parameters.key_shares,
    "an error quotes the norm of a gradient": canaries.gradient_errors,
    "a product's digest over its first ciphertext": parameters.product_digests,
    "PSGD's noise is always the seed's": partial(published.law_of_steps, "paper", runs=2),
    "joint noise is always the seed's": partial(published.joint_law, "discrete-laplace", "statistic", draws=2),
    "the noise of a study's release is everybody's to know": partial(published.law_of_study, "soft", draws=4),
    "one stream of noise for every release of a run": partial(published.law_of_alpha, "spherical-laplace", draws=8),
    "noise of output perturbation for twice the epsilon": partial(published.law_of_alpha, "spherical-laplace"),
    "the statistic without noise in every other release": partial(
        published.law_of_alpha, "spherical-laplace", draws=16
    ),
    "PATE with a quarter of its noise": partial(published.law_of_pate, "spherical-laplace"),
    "shares of noise sized for everybody": partial(published.joint_law, "gaussian", "own-data", draws=80),
    "shares of noise sized without the colluders": partial(published.joint_law, "discrete-laplace", "statistic", 3, 0),
    "a sixteenth of Pathak's noise": partial(published.law_of_pathak, "public-bound"),
    "discrete Gaussian shares of PSGD for a single step": partial(published.law_of_steps, "gaussian", runs=1),
    "only one release of each method is paid for": partial(published.costs_add_up, "spherical-laplace"),
    "exponents of 128 bits": partial(parameters.exponents, "half"),
}
"""Name of a fault that no view has -> the measurement that fails while it lasts."""
LONG = ("shares of noise sized for everybody", "shares of noise sized without the colluders")

NOTICED = [(fault, case, check) for fault in FAULTS.values() for case in fault.noticed for check in fault.noticed[case]]
FIRST = {case: (fault.name, check) for fault, case, check in reversed(NOTICED)}


def audited() -> list[Any]:
    """Return the faults that the audit notices, each with its case and check: one of each case in `make test`."""
    parameters_ = []
    for fault, case, check in NOTICED:
        first = FIRST[case] == (fault.name, check)
        marks = [pytest.mark.slow] * (case in SLOW) if first else [pytest.mark.mutants]
        parameters_.append(pytest.param(fault, case, check, id=f"{case}: {fault.name}: {check}", marks=marks))
    return parameters_


def measured() -> list[Any]:
    return [
        pytest.param(name, marks=[pytest.mark.mutants] * (name in LONG) + [pytest.mark.slow] * (place % 3 > 0))
        for place, name in enumerate(MEASURES)
    ]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_an_edit_applies(fault: Fault) -> None:
    """Run it after a renaming: it takes seconds and names every edit whose place is gone."""
    with fault.planted():
        pass


@pytest.mark.parametrize(("fault", "case", "check"), audited())
def test_a_fault_is_noticed_by_the_audit(fault: Fault, case: str, check: str) -> None:
    changed, result = noticed(fault, case, check, SEED)
    assert changed, result


@pytest.mark.parametrize("name", measured())
def test_a_fault_is_noticed_by_a_measurement(name: str) -> None:
    parameters.prepare()
    with FAULTS[name].planted(), pytest.raises(AssertionError):
        MEASURES[name]()


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_stopped_by_one_line(name: str) -> None:
    assert not FORGERIES[name]()
    with FAULTS[name].planted():
        assert FORGERIES[name]()


def test_every_fault_has_something_that_notices_it() -> None:
    assert {fault.name for fault, _, _ in NOTICED} | MEASURES.keys() | FORGERIES.keys() == FAULTS.keys()
    assert {case for _, case, _ in NOTICED} == set(PROTOCOLS)


def test_every_kind_of_check_has_a_failing_example() -> None:
    """Checks of one kind have one function; attacks have their names."""

    def kind(case: str, check: Check) -> str:
        function: Any = check.run
        while isinstance(function, partial):
            function = function.func
        if "attack_case" in function.__qualname__:
            return f"{case}: {check.name.split(', ')[0]}"
        return f"{function.__qualname__}: {'votes' if 'same_output' in function.__qualname__ else ''}"

    every = {kind(name, check) for name, case in CASES.items() for check in case.checks}
    assert every == {kind(case, CHECKS[case, check]) for _, case, check in NOTICED}


# -- edits


def test_an_edit_ends_with_its_block() -> None:
    import psephos.protocol.paillier.sharing
    import psephos.protocol.paillier.threshold

    before = psephos.protocol.paillier.sharing.deal_integer
    with edited(psephos.protocol.paillier.sharing, "deal_integer", "range(1, $holders + 1)", "range($holders)"):
        during = psephos.protocol.paillier.threshold.deal_integer
        assert during is psephos.protocol.paillier.sharing.deal_integer is not before
    assert psephos.protocol.paillier.threshold.deal_integer is psephos.protocol.paillier.sharing.deal_integer is before
