"""Both implementations compute the same plans and classifiers, also from sums that nobody has played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.specs.registry import spec_of
from psephos.specs.terms import StudyTerms
from tests.tiers import sampled
from tests.verifier import multiclass
from tests.verifier.board import Study
from tests.verifier.plans import plan_of
from tests.verifier.public import Public
from tests.verifier.recording import REHEARSED, STUDIES, Recording

Recordings = Callable[[str], Recording]
NOISY = [what for what in STUDIES | REHEARSED if not what.startswith(("tally", "average", "psgd", "pathak", "holders"))]


def both(recording: Recording) -> tuple[Any, Any]:
    """The plan of the second verifier, and Psephos's specification."""
    study = Study(recording.made.study.text())
    plan = plan_of(study, Public(study, recording.public_text))
    return plan, spec_of(StudyTerms(recording.made.study, recording.samples))


def check_same(plan: Any, spec: Any, sums: tuple[int, ...]) -> None:
    """Up to 2^-40 of the largest entry; docs/wire.md allows 2^-36."""
    expected = spec.release(OpenedSum(sums, (0, 1, 2, 3, 4)))[0]
    assert np.abs(plan.classifier(sums, 5) - expected).max() <= 2.0**-40 * np.abs(expected).max()


@pytest.mark.parametrize("what", sampled(NOISY, 3))
def test_both_implementations_compute_the_same_from_any_sum(recordings: Recordings, what: str) -> None:
    generator, (plan, spec) = np.random.default_rng(3), both(recordings(what))
    assert plan.context == spec.context
    assert (plan.length, *plan.entries) == tuple(spec.entries)
    assert (plan.squares or plan.length * max(map(abs, plan.entries)) ** 2) == spec.square_bound
    for size in 2.0 ** np.arange(8, 34, 2):  # up to 16 times what announced rows can sum to; ill-conditioned above
        check_same(plan, spec, tuple(int(entry) for entry in generator.normal(size=plan.length) * size))


def test_sums_of_both_rules_for_three_classes_are_among_them(recordings: Recordings) -> None:
    plan, _ = both(recordings("own data, three classes"))
    training = multiclass.SelfTraining(multiclass.unit_rows(plan.samples), plan.transform)
    generator, basis = np.random.default_rng(4), multiclass.helmert(3)
    sums = [basis.T @ generator.normal(size=(2, plan.rank)) for _ in range(60)]
    assert {training.accepted(T, 0.01, laplace=True) for T in sums} == {True, False}


def test_a_histogram_is_calibrated_alike(recordings: Recordings) -> None:
    """Counts of classes that are near, far apart, and separated; and those that were recorded."""
    recording, generator = recordings("evaluation, calibrated"), np.random.default_rng(5)
    plan, spec = both(recording)
    assert plan.calibration(recording.opened.sums, 5) is not None
    above = np.arange(plan.bins) > int(np.flatnonzero(plan.edges == 0.0)[0])
    for slope in (0.05, 0.5, 3.0, 20.0):
        for rows in (300, 30_000, 3_000_000):
            chances = 1 / (1 + np.exp(-slope * plan.centres))
            there = generator.multinomial(rows, np.ones(plan.bins) / plan.bins)
            hits = generator.binomial(there, chances)
            right = int(hits[above].sum() + (there - hits)[~above].sum())
            histogram = np.column_stack([there - hits, hits]).ravel().tolist()
            sums = (right << 17, (rows - right) << 17, *(3 * count << 16 for count in histogram))
            assert plan.calibration(sums, 5) is not None
            check_same(plan, spec, sums)
