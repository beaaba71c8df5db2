"""The second verifier on steps of all kinds, evaluations and three classes: what it accepts and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psephos.audit.studies import trial
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.specs.registry import spec_of
from psephos.specs.study import StudyTerms
from psephos.study.samples import PublicSamples
from tests.tiers import sampled
from tests.verifier import multiclass
from tests.verifier.board import Board, Refused, Study
from tests.verifier.evaluations import Evaluation
from tests.verifier.plans import plan_of
from tests.verifier.public import Public
from tests.verifier.recording import Recording, accepted, check_accepted, check_refused, stored_at
from tests.verifier.step_recording import (
    EVALUATIONS_OF_NUMBERS,
    REGRESSIONS,
    REHEARSED,
    STORED_STEPS,
    STUDIES,
    files_of,
    numbers_file,
    record_step,
    replanned,
)
from tests.verifier.step_tampering import (
    OF_CLASSES,
    OF_EVALUATIONS,
    OF_RECORDS,
    OF_REGRESSIONS,
    OF_REHEARSED,
    OF_SUMS,
    flooded,
)
from tests.verifier.tampering import ballot, messages, model
from tests.verifier.verifier import verify

Recordings = Callable[[str], Recording]

ABSENT = {
    "record, absent": "record, three classes",
    "rehearsed, absent": "rehearsed, two classes",
    "regression, absent": "regression, parties",
}
"""Studies in which the last party takes no part, and what they are."""

BROKEN = OF_RECORDS | {f"{name}, evaluation": change for name, change in OF_EVALUATIONS.items()}
BROKEN |= {f"{name}, classes": change for name, change in OF_CLASSES.items()}
BROKEN |= {f"{name}, regression": change for name, change in OF_REGRESSIONS.items()}
BROKEN |= {
    f"{name}, {what}": (what, tamper)
    for what in ("record", "evaluation", "statistic, three classes", "regression, parties")
    for name, tamper in OF_SUMS.items()
}
SLOW = OF_REHEARSED | {f"{name} of all": ("rehearsed, two classes", tamper) for name, tamper in OF_SUMS.items()}
"""Changes of studies whose rehearsal `psephos verify` repeats, which takes seconds."""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Recordings:
    """Plays a study when it is first asked for."""
    file = files_of(tmp_path_factory.mktemp("public"))

    @cache
    def play(what: str) -> Recording:
        name = ABSENT.get(what, what)
        return record_step(name, file(name), absent=("party 4",) if what in ABSENT else ())

    return play


@pytest.mark.parametrize(
    "what", [*STUDIES, *REGRESSIONS, *EVALUATIONS_OF_NUMBERS, "record, absent", "regression, absent"]
)
def test_recorded_studies_are_accepted(recordings: Recordings, what: str) -> None:
    check_accepted(recordings(what))


@pytest.mark.soak
@pytest.mark.parametrize("what", [*REHEARSED, "rehearsed, absent"])
def test_every_rehearsed_study_is_accepted(recordings: Recordings, what: str) -> None:
    check_accepted(recordings(what))


@pytest.mark.soak
@pytest.mark.parametrize(
    "what",
    [
        "record",
        "record, three classes",
        "evaluation",
        "evaluation, parties",
        "evaluation, number",
        "rehearsed",
        "regression",
        "regression, parties",
        "regression, parties, gaussian",
    ],
)
def test_studies_with_proofs_of_bounds_are_accepted(what: str, tmp_path: Path) -> None:
    check_accepted(record_step(what, files_of(tmp_path)(what), proofs="valid"))


def test_a_protocol_that_the_page_does_not_specify_is_refused_as_such() -> None:
    """An honest study that the verifier cannot check must not look like a false one."""
    stored = json.loads(stored_at(STORED_STEPS, "record").read_text(encoding="utf-8"))
    text = stored["study"].replace('protocol = "record"', 'protocol = "shuffle"')
    with pytest.raises(Refused):
        verify(text, stored["public"], [])


@pytest.mark.parametrize(
    "what",
    ["record", "evaluation, calibrated", "rehearsed, two classes", "statistic, three classes", "regression, parties"],
)
def test_boards_that_are_signed_again_without_a_change_are_accepted(recordings: Recordings, what: str) -> None:
    """So what is refused below is refused for its change."""
    unchanged = messages(lambda recording, posts: None), model(lambda fields: None), ballot(lambda payload: payload)
    for tamper in unchanged:
        assert tamper(recordings(what)).second().accepted


@pytest.mark.parametrize("change", sampled(BROKEN))
def test_changed_boards_are_refused(recordings: Recordings, change: str) -> None:
    _check_refused(recordings, *BROKEN[change])


@pytest.mark.parametrize("change", ["the public model without a step"])
def test_changed_rehearsed_steps_are_refused(recordings: Recordings, change: str) -> None:
    _check_refused(recordings, *SLOW[change])


@pytest.mark.soak
@pytest.mark.parametrize("change", SLOW)
def test_every_changed_rehearsed_step_is_refused(recordings: Recordings, change: str) -> None:
    _check_refused(recordings, *SLOW[change])


@pytest.mark.parametrize("name", ["low", "high", "labelled"])
def test_a_regression_of_another_plan_than_that_of_the_public_file_is_refused(name: str, tmp_path: Path) -> None:
    """The last bit of a bound; everything else follows from the plan that the study states."""
    changed = replanned(numbers_file(tmp_path), name)
    assert changed.second().fails == [f"the {name} of the plan differ from the public file's"]
    assert not accepted(changed.main(), verifiable=True)


def test_entries_beyond_what_a_member_may_post_do_not_count(recordings: Recordings) -> None:
    """A ballot behind as many bytes as leave room for it counts; with one byte more, nobody reads it."""
    for room, counts in ((0, True), (-1, False)):
        changed = flooded(room)(recordings("regression"))
        board = Board(Study(changed.made.study.text()), list(changed.entries))
        assert len(board.refused) == (0 if counts else 1)
        assert changed.second().accepted == counts
        assert accepted(changed.main(), verifiable=True) == counts


@pytest.mark.parametrize(
    "changed",
    [{}, {"key_bits": 4096}, {"protocol": "psgd", "parameters": {"sizes": "9 9"}}, {"parameters": {"steps": 30}}],
)
def test_both_implementations_leave_members_as_many_bytes(changed: dict[str, Any]) -> None:
    study = trial(**changed).study
    second = Study(study.text())
    assert {role: second.most_bytes(role) for role in second.keys} == study.members.limits


def _check_refused(recordings: Recordings, what: str, tamper: Any) -> None:
    check_refused(recordings(what), tamper(recordings(what)))


# -- both implementations, on sums that nobody has played


@pytest.mark.parametrize("what", sampled([*STUDIES, *REGRESSIONS, *EVALUATIONS_OF_NUMBERS], 3))
def test_both_implementations_compute_the_same_from_any_sum(recordings: Recordings, what: str) -> None:
    """Up to 2^-40 of the largest entry; docs/wire.md allows 2^-36."""
    recording, generator = recordings(what), np.random.default_rng(3)
    study = recording.made.study
    samples = PublicSamples.of(study, recording.public)
    spec: Any = spec_of(StudyTerms(study, samples))
    second = Study(study.text())
    public = Public(second, recording.public.read_text(encoding="utf-8"))
    plan = plan_of(second, public)
    assert plan.context == spec.context
    assert (plan.length, *plan.entries) == tuple(spec.entries)
    assert (plan.squares or plan.length * max(map(abs, plan.entries)) ** 2) == spec.square_bound
    for size in 2.0 ** np.arange(8, 40, 2):
        sums = tuple(int(entry) for entry in generator.normal(size=plan.length) * size)
        expected = spec.release(OpenedSum(sums, (0, 1, 2, 3, 4)))[0]
        w = plan.classifier(sums, 5)
        assert w is not None
        assert np.abs(w - expected).max() <= 2.0**-40 * np.abs(expected).max()


def test_sums_of_both_rules_for_three_classes_are_among_them(recordings: Recordings) -> None:
    study = Study(recordings("own data, three classes").made.study.text())
    public = recordings("own data, three classes").public.read_text(encoding="utf-8")
    plan = multiclass.Multiclass(study, Public(study, public))
    training = multiclass.SelfTraining(multiclass.unit_rows(plan.samples), plan.transform)
    generator, accepted_sums = np.random.default_rng(4), []
    basis = multiclass.helmert(3)
    for _ in range(60):
        T = basis.T @ generator.normal(size=(2, plan.rank))
        accepted_sums.append(training.accepted(T, 0.01, laplace=True))
    assert set(accepted_sums) == {True, False}


def test_a_histogram_is_calibrated_alike(recordings: Recordings) -> None:
    """Counts of classes that are near, far apart, and separated."""
    recording, generator = recordings("evaluation, calibrated"), np.random.default_rng(5)
    study = recording.made.study
    samples = PublicSamples.of(study, recording.public)
    spec: Any = spec_of(StudyTerms(study, samples))
    second = Study(study.text())
    plan = Evaluation(second, Public(second, recording.public.read_text(encoding="utf-8")))
    above = np.arange(plan.bins) > int(np.flatnonzero(plan.edges == 0.0)[0])
    for slope in (0.05, 0.5, 3.0, 20.0):
        for rows in (300, 30_000, 3_000_000):
            chances = 1 / (1 + np.exp(-slope * plan.centres))
            there = generator.multinomial(rows, np.ones(plan.bins) / plan.bins)
            hits = generator.binomial(there, chances)
            right = int(hits[above].sum() + (there - hits)[~above].sum())
            histogram = np.column_stack([there - hits, hits]).ravel().tolist()
            sums = (right << 17, (rows - right) << 17, *(3 * count << 16 for count in histogram))
            expected = spec.release(OpenedSum(sums, (0, 1, 2, 3, 4)))[0]
            assert plan.calibration(sums, 5) is not None
            assert np.abs(plan.classifier(sums, 5) - expected).max() <= 2.0**-40 * np.abs(expected).max()
