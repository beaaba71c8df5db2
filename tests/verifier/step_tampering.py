"""Changes of recorded studies of `tests.verifier.step_recording`: every message is signed by its author, one is wrong.

Most of them are results of a curator that computes by another rule than the agreed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.rehearsed import fit_rehearsed
from psephos.curator.statistic import StatisticRelease, wiener_filter
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.roles import Post
from psephos.protocol.wire import HEADER_BYTES, Kind
from psephos.specs.registry import spec_of
from psephos.specs.study import StudyTerms, encode_coordinates
from psephos.study.samples import PublicSamples
from tests.verifier.recording import Recording
from tests.verifier.tampering import Tampering, ballot, edited, flipped, model, places, published, without

Array = NDArray[np.float64]
Forged = Callable[[Any, OpenedSum], Array]
"""Computes a classifier of scaled rows from a specification and the opened sum."""


def forged(compute: Forged) -> Tampering:
    """The curator publishes another classifier, and states what the agreed one cost."""

    def tamper(recording: Recording) -> Recording:
        study = recording.made.study
        samples = PublicSamples.of(study, recording.public)
        opened = recording.opened
        w = np.atleast_2d(compute(StudyTerms(study, samples), opened))
        step = math.ldexp(1.0, math.frexp(float(np.abs(w).max()))[1] - 24)
        coefficients, intercepts = samples.scaler.fold(np.rint(w / step) * step + 0.0)
        published: dict[str, Any] = {"coefficients": coefficients.tolist(), "intercepts": intercepts.tolist()}
        if study.predicts_number:
            low, high = (float(study.parameters[name]) for name in ("low", "high"))
            middle = low + (high - low) / 2
            published = {"coefficients": coefficients[0].tolist(), "intercept": float(intercepts[0] + middle)}
        return model(lambda fields: fields.update(published))(recording)

    return tamper


def _by(terms: StudyTerms, opened: OpenedSum, **parameters: Any) -> Array:
    """The classifier of other parameters."""
    study = replace(terms.study, parameters={**terms.study.parameters, **parameters})
    return spec_of(replace(terms, study=study)).release(opened)[0]


def other(**parameters: Any) -> Tampering:
    """The curator computes by other parameters than the agreed ones."""
    return forged(lambda terms, opened: _by(terms, opened, **parameters))


def agreed(change: Callable[[Array], Array]) -> Tampering:
    """The curator changes the agreed classifier."""
    return forged(lambda terms, opened: change(_by(terms, opened)))


def stated(**changed: Any) -> Tampering:
    """The curator states another cost."""
    return model(lambda fields: fields["release"].update(changed))


def chosen(**changed: Any) -> Tampering:
    """The curator states other choices."""

    def change(fields: dict[str, Any]) -> None:
        choices = fields["release"]["chosen"] | changed
        fields["release"]["chosen"] = {name: value for name, value in choices.items() if value is not None}

    return model(change)


def _more_ballots(more: int) -> Forged:
    """The classifier of a sum whose noise is that of more ballots.

    The noise of one ballot more at times gives the same classifier, rounded: in 12 of 250 regressions.
    """

    def compute(terms: StudyTerms, opened: OpenedSum) -> Array:
        parties = (*opened.parties, *[len(terms.study.roster) - 1] * more)
        return spec_of(terms).release(OpenedSum(opened.sums, parties))[0]

    return compute


def _moved(row: int, place: int) -> Tampering:
    """One coefficient of the classifier of scaled rows moves by the least that a rounded one can."""

    def change(w: Array) -> Array:
        table = np.atleast_2d(w).copy()
        table[row, place] += math.ldexp(1.0, math.frexp(float(np.abs(table).max()))[1] - 24)
        return table

    return agreed(change)


def flooded(room: int) -> Tampering:
    """Party 4 posts junk before its ballot, so that so many bytes of its limit are left behind the ballot."""

    def tamper(recording: Recording) -> Recording:
        posts = recording.posts()
        at = next(place for place in places(posts, Kind.BALLOT) if posts[place][0] == "party 4")
        own = sum(len(entry.encode()) for entry in recording.decoded if entry.author == "party 4")
        limit = recording.made.study.members.limits["party 4"]
        junk = Post("board", b"", posts[at][1].phase)
        empty = recording.made.board_client("party 4").sign(junk)
        filled = replace(junk, data=bytes(limit - own - len(empty) - room))
        return recording.signed_again([*posts[:at], ("party 4", filled), *posts[at:]])

    return tamper


def _ballot_bit(data: bytes) -> bytes:
    return flipped(data, 0)


OF_SUMS: dict[str, Tampering] = {
    "a coefficient": _moved(0, 1),
    "the constant": _moved(0, -1),
    "a classifier of twice the length": agreed(lambda w: 2 * w),
    "the number of ballots": model(lambda fields: fields.update(parties=fields["parties"] - 1)),
    "the stated epsilon": stated(epsilon=0.5),
    "the stated delta": stated(delta=1e-3),
    "the stated sensitivity": stated(sensitivity=0.25),
    "the stated mechanism": stated(mechanism="discrete noise"),
    "the number of colluders": chosen(colluders=0),
    "a ciphertext": ballot(_ballot_bit),
    "a value of a partial decryption": edited(Kind.PARTIAL_DECRYPTION, lambda data: flipped(data, HEADER_BYTES + 33)),
    "the last holder's opening is missing": without(Kind.PARTIAL_DECRYPTION, 2),
}
"""Changes that every study of one noisy sum must survive."""


def _without_score(terms: StudyTerms, opened: OpenedSum) -> Array:
    blank = np.zeros((len(terms.study.features), max(1, len(terms.study.classes) - 1)))
    return _by(terms, opened, offset=encode_coordinates(blank))


def _everybody_honest(terms: StudyTerms, opened: OpenedSum) -> Array:
    """As if the noise were the shares of all parties."""
    spec: Any = spec_of(terms)
    return replace(spec, shares=replace(spec.shares, contributors=spec.shares.parties)).release(opened)[0]


OF_RECORDS: dict[str, tuple[str, Tampering]] = {
    "no public row had a label": ("record", other(labelled=0)),
    "a public row more had a label": ("record", other(labelled=13)),
    "a hundred times as many rows": ("record", other(rows=20_000)),
    "another constant": ("record", other(constant=1.5)),
    "no public score": ("record, three classes", forged(_without_score)),
    "noise of all parties": ("record", forged(_everybody_honest)),
    "noise of ballots more": ("record, absent", forged(_more_ballots(1000))),
    "the last class": ("record, three classes", _moved(2, 0)),
    "the last class, gaussian": ("record, three classes, gaussian", _moved(2, 2)),
    "the classes change places": ("record, three classes", agreed(lambda w: w[::-1])),
    "the same classifier is added to all classes": ("record, three classes", agreed(lambda w: w + w[0])),
    "the sensitivity of records added or removed": ("record, pure", stated(sensitivity=2.0)),
    "the norm": ("record, pure", stated(norm="l2")),
    "the unit": ("record", stated(unit="party")),
    "the rank": ("record", chosen(rank=9)),
    "the rows": ("record", chosen(rows=201)),
    "persons are not named": ("record, persons", chosen(persons=None)),
    "persons are named": ("record", chosen(persons="who")),
    "signal is stated": ("record", stated(said="private")),
}


def _without_centre(terms: StudyTerms, opened: OpenedSum) -> Array:
    """As if the parties' averages were sent as they are."""
    spec: Any = spec_of(terms)
    centre = spec.release_plan.grid.ball.centre.tolist()
    sums = tuple(v - opened.ballots * int(c) for v, c in zip(opened.sums, centre, strict=True))
    return spec.release(OpenedSum(sums, opened.parties))[0]


def _of_threshold(terms: StudyTerms, opened: OpenedSum) -> Array:
    return _by(terms, opened, threshold=2 * float(terms.study.parameters["threshold"]))


def _of_ball(terms: StudyTerms, opened: OpenedSum) -> Array:
    return _by(terms, opened, radius=float(terms.study.parameters["radius"]) / 2)


def _relative_intercept(fields: dict[str, Any]) -> None:
    low, high = fields["bounds"]
    fields["intercept"] -= low + (high - low) / 2


def _wider(name: str) -> Tampering:
    """The model states another end of a range or bound, by the last bit."""

    def change(fields: dict[str, Any]) -> None:
        ends = fields[name][0] if name == "ranges" else fields[name]
        ends[1] = float(np.nextafter(ends[1], np.inf))

    return model(change)


OF_REGRESSIONS: dict[str, tuple[str, Tampering]] = {
    "no public score": ("regression", forged(_without_score)),
    "no public row had a label": ("regression", other(labelled=0)),
    "a longer prediction": ("regression", agreed(lambda w: w * (1 + 2.0**-20))),
    "the steps of another threshold": ("regression, pure", forged(_of_threshold)),
    "noise of all parties": ("regression, parties", forged(_everybody_honest)),
    "noise of ballots more": ("regression, absent", forged(_more_ballots(1000))),
    "a smaller ball": ("regression, parties, gaussian", forged(_of_ball)),
    "no centre is added": ("regression, parties", forged(_without_centre)),
    "no centre is added, gaussian": ("regression, parties, gaussian", forged(_without_centre)),
    "the constant": ("regression, parties, gaussian", _moved(0, -1)),
    "a coefficient, pure": ("regression, pure", _moved(0, 2)),
    "the intercept is relative to the middle": ("regression", model(_relative_intercept)),
    "the ranges": ("regression", _wider("ranges")),
    "the bounds": ("regression", _wider("bounds")),
    "the label": ("regression", published(label="days")),
    "the task": ("regression", published(task="classification")),
    "a field of classes": ("regression", published(classes=[])),
    "the unit is a record": ("regression, parties", stated(unit="record")),
    "the unit is a party": ("regression", stated(unit="party")),
    "the sensitivity of records": ("regression, parties", stated(sensitivity=4.0)),
    "persons are not named": ("regression, pure", chosen(persons=None)),
}


def _uncalibrated(terms: StudyTerms, opened: OpenedSum) -> Array:
    weights: Array = spec_of(terms).release_plan.scores.weights  # type: ignore[attr-defined]
    return weights[:, 0]


def _slope_alone(terms: StudyTerms, opened: OpenedSum) -> Array:
    spec: Any = spec_of(terms)
    fit = spec.estimate(opened).calibration
    assert fit is not None
    return spec.release_plan.scores.weights[:, 0] * fit.slope


def _intercept_alone(terms: StudyTerms, opened: OpenedSum) -> Array:
    spec: Any = spec_of(terms)
    w: Array = spec.release_plan.scores.weights[:, 0].copy()
    w[-1] += spec.estimate(opened).calibration.intercept
    return w


def _unreconciled(terms: StudyTerms, opened: OpenedSum) -> Array:
    """Calibrated by another count of right and wrong."""
    sums = list(opened.sums)
    sums[0] += 40 << 17
    return _by(terms, OpenedSum(tuple(sums), opened.parties))


def _an_earlier_release_less(fields: dict[str, Any]) -> None:
    del fields["earlier"][1]
    fields["together"][0] |= {"releases": 3, "epsilon": 5.7, "delta": fields["release"]["delta"] + 1e-6}


def _costs_of_different_units_added(fields: dict[str, Any]) -> None:
    record, shard, party = fields["together"]
    record |= {name: record[name] + shard[name] for name in ("releases", "epsilon", "delta")}
    fields["together"] = [record, party]


def _a_cheaper_release(fields: dict[str, Any]) -> None:
    fields["earlier"][2]["epsilon"] = fields["together"][1]["epsilon"] = 1.0


def _a_shard_is_a_party(fields: dict[str, Any]) -> None:
    for unit in (fields["earlier"][2]["protects"], fields["together"][1]["unit"]):
        unit["kind"] = "party"
    fields["together"][0] |= {"releases": 5, "epsilon": fields["together"][0]["epsilon"] + 2.0}


OF_EVALUATIONS: dict[str, tuple[str, Tampering]] = {
    "an earlier release less": ("evaluation, earlier releases", model(_an_earlier_release_less)),
    "costs of different units are added": ("evaluation, earlier releases", model(_costs_of_different_units_added)),
    "a shard is said to be a party": ("evaluation, earlier releases", model(_a_shard_is_a_party)),
    "another unit is said to be protected": (
        "evaluation",
        model(lambda fields: fields["release"]["protects"].update(kind="party")),
    ),
    "an earlier release is cheaper": ("evaluation, earlier releases", model(_a_cheaper_release)),
    "no earlier releases": ("evaluation, earlier releases", published(earlier=[], together=[])),
    "earlier releases that the study does not state": ("evaluation", published(earlier=[], together=[])),
    "the classifier as it was": ("evaluation, calibrated", forged(_uncalibrated)),
    "the slope alone": ("evaluation, calibrated", forged(_slope_alone)),
    "the intercept alone": ("evaluation, calibrated", forged(_intercept_alone)),
    "the counts of right and wrong are others": ("evaluation, calibrated", forged(_unreconciled)),
    "a classifier that is calibrated where it may not be": ("evaluation", agreed(lambda w: w * 1.5)),
    "the calibration of persons": ("evaluation, persons", agreed(lambda w: w * (1 + 2.0**-20))),
    "the last class": ("evaluation, three classes", _moved(2, 0)),
    "the classes change places": ("evaluation, three classes", agreed(lambda w: w[::-1])),
    "a classifier where parties are protected": ("evaluation, parties", _moved(0, 2)),
    "the sensitivity of records added or removed": ("evaluation", stated(sensitivity=1.0)),
    "the sensitivity of parties": ("evaluation, parties", stated(sensitivity=2.0)),
    "the norm": ("evaluation", stated(norm="l2")),
    "the unit": ("evaluation", stated(unit="party")),
    "the unit is a record": ("evaluation, parties", stated(unit="record")),
    "the number of bins": ("evaluation", chosen(bins=9)),
    "persons are not named": ("evaluation, persons", chosen(persons=None)),
    "a prediction of twice the length": ("evaluation, number", agreed(lambda w: 2 * w)),
    "the intercept is relative to the middle": ("evaluation, number", model(_relative_intercept)),
    "the ranges": ("evaluation, number", _wider("ranges")),
    "the bounds": ("evaluation, number, parties", _wider("bounds")),
    "the label": ("evaluation, number", published(label="days")),
    "the sensitivity of a replaced row": ("evaluation, number", stated(sensitivity=2.0)),
    "the largest error": ("evaluation, number", chosen(largest_error=2.0)),
    "bins of a number": ("evaluation, number", chosen(bins=10)),
    "a field for the calibration": ("evaluation", model(lambda fields: fields.update(calibration=[1.0, 0.0]))),
}


def _unshrunken(terms: StudyTerms, opened: OpenedSum) -> Array:
    spec: Any = spec_of(terms)
    return fit_rehearsed(replace(spec.release_plan, mechanism=None), list(opened.sums), opened.ballots)


def _start(terms: StudyTerms, opened: OpenedSum) -> Array:
    return _by(terms, OpenedSum((0,) * len(opened.sums), opened.parties))


def _backwards(terms: StudyTerms, opened: OpenedSum) -> Array:
    return _by(terms, OpenedSum(tuple(-entry for entry in opened.sums), opened.parties))


OF_REHEARSED: dict[str, tuple[str, Tampering]] = {
    "the public model without a step": ("rehearsed, two classes", forged(_start)),
    "a step that is not shrunken": ("rehearsed", forged(_unshrunken)),
    "a step of another length": ("rehearsed", other(scale=1.0)),
    "a step of the mean of more ballots": ("rehearsed, absent", forged(_more_ballots(1))),
    "a step of the other sign": ("rehearsed", forged(_backwards)),
    "the last class": ("rehearsed", _moved(2, 1)),
    "the last class, gaussian": ("rehearsed, gaussian", _moved(2, 0)),
    "the classes change places": ("rehearsed", agreed(lambda w: w[::-1])),
    "the sensitivity of all parties": ("rehearsed, absent", stated(sensitivity=0.4)),
    "the norm": ("rehearsed", stated(norm="l3")),
    "the unit": ("rehearsed", stated(unit="record")),
    "the rank": ("rehearsed, two classes", chosen(rank=9)),
}


def _statistic(terms: StudyTerms, opened: OpenedSum) -> StatisticRelease:
    return spec_of(terms).statistic(opened)  # type: ignore[attr-defined]


def _filtered(release: StatisticRelease, noise: float) -> Array:
    return wiener_filter(release.T, noise) @ release.plan.transform.T


def _trained(release: StatisticRelease, noise: float) -> Array:
    return release.plan.self_training._train(release.T, release.plan.transform, noise)


def _contrary(terms: StudyTerms, opened: OpenedSum) -> Array:
    """Wiener's filter where self-training is accepted, and the other way round."""
    release, w = _statistic(terms, opened), _by(terms, opened)
    filtered, trained = (compute(release, release.plan.noise) for compute in (_filtered, _trained))
    return filtered if np.array_equal(w, trained) else trained


def _of_exact_sum(terms: StudyTerms, opened: OpenedSum) -> Array:
    """As if there were no noise, by whichever rule is agreed."""
    release, w = _statistic(terms, opened), _by(terms, opened)
    return (_trained if np.array_equal(w, _trained(release, release.plan.noise)) else _filtered)(release, 0.0)


def _of_all_ballots(terms: StudyTerms, opened: OpenedSum) -> Array:
    """Of a sum to which the votes of the first party are added once more."""
    return _by(terms, OpenedSum(tuple(2 * entry for entry in opened.sums[:1]) + tuple(opened.sums[1:]), opened.parties))


OF_CLASSES: dict[str, tuple[str, Tampering]] = {
    "the rule that validation rejects": ("statistic, three classes", forged(_contrary)),
    "the rule that validation rejects, gaussian": ("statistic, three classes, gaussian", forged(_contrary)),
    "the rule that validation rejects, directions": ("directions, three classes", forged(_contrary)),
    "the rule that validation rejects, own rows": ("own data, three classes", forged(_contrary)),
    "the rule that validation rejects, whitened": ("whitened, three classes", forged(_contrary)),
    "a sum without noise": ("statistic, three classes", forged(_of_exact_sum)),
    "another entry of the sum": ("own data, three classes", forged(_of_all_ballots)),
    "the last class": ("statistic, three classes", _moved(2, 0)),
    "the last constant": ("directions, three classes", _moved(2, -1)),
    "the classes change places": ("statistic, three classes", agreed(lambda w: w[::-1])),
    "the same classifier is added to all classes": ("own data, three classes", agreed(lambda w: w + w[0])),
    "a longer classifier": ("whitened, three classes", agreed(lambda w: w * (1 + 2.0**-22))),
    "a class is missing": ("statistic, three classes", model(lambda fields: fields["coefficients"].pop())),
    "an intercept is missing": ("statistic, three classes", model(lambda fields: fields["intercepts"].pop())),
    "the names of the classes": ("statistic, three classes", model(lambda fields: fields["classes"].reverse())),
    "the rank": ("statistic, three classes", chosen(rank=2)),
    "the sensitivity": ("own data, three classes", stated(sensitivity=0.3)),
}
