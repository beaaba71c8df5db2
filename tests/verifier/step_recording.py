"""Records studies of steps of all kinds, evaluations and three classes, as `tests.verifier.recording` does."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.audit.studies import Trial, trial
from psephos.curator.ledger import Release
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.specs.evaluation import encode_releases
from psephos.specs.record import RegressionSpec
from psephos.specs.rehearsed import RehearsedSpec
from psephos.specs.study import encode_coordinates, encode_parameters
from psephos.specs.terms import PrivacyTerms, PublicTerms
from psephos.study.samples import PublicSamples
from tests.psephos.study.cast import FixedVotes, classifier, fields_of, record_parameters, unit
from tests.verifier.recording import PARTIES, STORED, Recording, play, public_file, save, stored_at

Array = NDArray[np.float64]

LABELLED, CLASSES = 60, ("a", "b", "c")
"""Rows of the public file of rehearsed steps, which have labels."""


def labelled_file(folder: Path) -> Path:
    """Write public samples whose labels follow two columns of numbers."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(LABELLED, 3))
    scores = X @ np.array([[1.2, -0.4, 0.0], [-1.0, 0.2, 0.9], [0.5, 0.8, -0.6]]) + draw.gumbel(size=(LABELLED, 3))
    lines = [
        ",".join([*(f"{value:.4f}" for value in row), CLASSES[label]])
        for row, label in zip(X, scores.argmax(axis=1), strict=True)
    ]
    path = folder / "labelled.csv"
    path.write_text("\n".join(["x,y,z,class", *lines]) + "\n", encoding="utf-8")
    return path


def numbers_file(folder: Path) -> Path:
    """Write public samples whose labels are numbers far from 0; some have none."""
    draw = np.random.default_rng(1)
    X = draw.normal(size=(LABELLED, 3))
    labels = 1000 + X @ np.array([3.0, -1.0, 0.5]) + draw.normal(size=LABELLED) * 0.5
    rows = zip((X * [1.0, 20.0, 0.001]).tolist(), labels.tolist(), strict=True)
    lines = [
        ",".join([*(repr(value) for value in row), f"{label:.3f}" if place % 7 else ""])
        for place, (row, label) in enumerate(rows)
    ]
    path = folder / "numbers.csv"
    path.write_text("\n".join(["x,y,z,class", *lines]) + "\n", encoding="utf-8")
    return path


def regression_fields(path: Path, delta: float, unit: Any, **changed: Any) -> dict[str, Any]:
    """The terms of a regression of a public file; `changed`: its parameters."""
    dropouts = changed.get("dropouts", 0)
    privacy = PrivacyTerms(epsilon=1.0, delta=delta, unit=unit, colluders=1, dropouts=dropouts)
    samples = PublicSamples.read(path, "class", predicts_number=True)
    parameters = encode_parameters(RegressionSpec.plan(public_terms(samples), privacy).stated())
    return {
        "protocol": "regression",
        "method": "newton",
        "classes": (),
        "delta": delta,
        "parameters": parameters | ({"unit": unit} if unit == "party" else {}) | changed,
        "minimum_ballots": PARTIES - dropouts,
    }


@cache
def _rehearsed(path: Path, classes: int, delta: float) -> dict[str, Any]:
    """What a rehearsal on the public file chooses."""
    privacy = PrivacyTerms(epsilon=30.0, delta=delta, colluders=1, dropouts=1)
    public = public_terms(PublicSamples.read(path, "class"), CLASSES[:classes])
    return encode_parameters(RehearsedSpec.plan(public, privacy).stated())


def public_terms(samples: PublicSamples, classes: tuple[str, ...] = ()) -> PublicTerms:
    """What everybody knows of a study of a public file."""
    labels = samples.labels(classes)
    known: dict[str, Any] = {"auxiliary": samples.auxiliary, "labels": labels, "rows": 200}
    return PublicTerms(classes=len(classes) or 1, parties=PARTIES, **known)


def rehearsed_fields(path: Path, classes: int, *, delta: float = 0.0) -> dict[str, Any]:
    """The terms of a rehearsed study of a public file."""
    return {
        "protocol": "rehearsed",
        "method": "rehearsed",
        "epsilon": 30.0,
        "delta": delta,
        "classes": CLASSES[:classes],
        "parameters": _rehearsed(path, classes, delta) | {"dropouts": 1},
        "minimum_ballots": PARTIES - 1,
    }


def _records(classes: int, delta: float, **changed: Any) -> dict[str, Any]:
    return {
        "protocol": "record",
        "method": "newton",
        "classes": CLASSES[:classes],
        "delta": delta,
        "parameters": record_parameters(PARTIES, classes, "gaussian" if delta else "discrete-laplace") | changed,
        "minimum_ballots": PARTIES - changed.get("dropouts", 0),
    }


def _evaluation(classes: int, epsilon: float = 1.0, **changed: Any) -> dict[str, Any]:
    return {
        "protocol": "evaluation",
        "method": "platt",
        "epsilon": epsilon,
        "classes": CLASSES[:classes],
        "parameters": {"classifier": classifier(1 if classes == 2 else classes)} | changed,
        "minimum_ballots": PARTIES - changed.get("dropouts", 0),
    }


def _error_evaluation(**changed: Any) -> dict[str, Any]:
    terms = {"classifier": encode_coordinates(np.array([[2.0], [-1.0], [0.5], [0.3]])), "low": 996.0, "high": 1003.5}
    return _evaluation(0) | {
        "method": "unchanged",
        "parameters": terms | {"largest_error": 2.5} | changed,
        "minimum_ballots": PARTIES - changed.get("dropouts", 0),
    }


EARLIER = (
    Release("gaussian", 0.7, 1e-6, "record", chosen={"rank": 3}, protects=PrivacyUnit("record")),
    Release("gaussian", 0.1, 1e-7, "record", protects=PrivacyUnit("record")),
    Release("discrete Laplace in shares", 2.0, 0.0, "party", protects=PrivacyUnit("shard")),
    Release("discrete Laplace in shares", 4.0, 0.0, "party", protects=PrivacyUnit("party", "ward")),
    Release("none", 0.0, 0.0, "party"),
)
"""What an evaluated model has cost: for the unit of the evaluation three times, for a shard, and nothing."""


def _statistic(what: str, **changed: Any) -> dict[str, Any]:
    fields = fields_of(what, PARTIES)
    return {name: value for name, value in fields.items() if name != "samples"} | {"classes": CLASSES} | changed


STUDIES: dict[str, Any] = {
    "record": lambda: _records(2, 1e-6),
    "record, pure": lambda: _records(2, 0.0, labelled=0),
    "record, three colluders": lambda: _records(2, 1e-6, colluders=2),
    "record, three classes": lambda: _records(3, 0.0, dropouts=1),
    "record, three classes, gaussian": lambda: _records(3, 1e-6),
    "record, persons": lambda: _records(2, 1e-6, record="who"),
    "evaluation": lambda: _evaluation(2),
    "evaluation, calibrated": lambda: _evaluation(2, 60.0),
    "evaluation, persons": lambda: _evaluation(2, 60.0, record="who", bins=4),
    "evaluation, three classes": lambda: _evaluation(3),
    "evaluation, earlier releases": lambda: _evaluation(2, released=encode_releases(EARLIER)),
    "evaluation, parties": lambda: _evaluation(2, unit="party", dropouts=1),
    "statistic, three classes": lambda: _statistic("statistic", epsilon=20.0),
    "statistic, three classes, gaussian": lambda: _statistic("statistic, gaussian", epsilon=20.0),
    "directions, three classes": lambda: _statistic("statistic, own data", method="vote-directions", epsilon=20.0),
    "own data, three classes": lambda: _statistic("statistic, own data", epsilon=20.0),
    "whitened, three classes": lambda: _statistic("statistic, own data", method="whitened", delta=1e-6),
}
"""Terms of studies of the public file of `recording.public_file`, by a name."""

EVALUATIONS_OF_NUMBERS: dict[str, Any] = {
    "evaluation, number": lambda: _error_evaluation(),
    "evaluation, number, persons": lambda: _error_evaluation(record="who", largest_error=7.0),
    "evaluation, number, parties": lambda: _error_evaluation(unit="party", dropouts=1),
}
"""Terms of studies of the public file of `numbers_file`, by a name."""

REHEARSED: dict[str, dict[str, Any]] = {
    "rehearsed": {"classes": 3},
    "rehearsed, two classes": {"classes": 2},
    "rehearsed, gaussian": {"classes": 3, "delta": 1e-6},
}
"""Terms of studies of the public file of `labelled_file`, by a name: arguments of `rehearsed_fields`."""

REGRESSIONS: dict[str, dict[str, Any]] = {
    "regression": {"delta": 1e-6, "unit": "record"},
    "regression, pure": {"delta": 0.0, "unit": "record", "record": "who"},
    "regression, parties": {"delta": 0.0, "unit": "party", "dropouts": 1},
    "regression, parties, gaussian": {"delta": 1e-6, "unit": "party"},
}
"""Terms of studies of the public file of `numbers_file`, by a name: arguments of `regression_fields`."""


def record_step(what: str, public: Path, *, absent: Sequence[str] = (), **changed: Any) -> Recording:
    """Play a study under a dealt key."""
    samples = PublicSamples.read(public, "class", predicts_number=what in (*REGRESSIONS, *EVALUATIONS_OF_NUMBERS))
    if what in REGRESSIONS:
        fields = regression_fields(public, **REGRESSIONS[what])
    elif what in EVALUATIONS_OF_NUMBERS:
        fields = EVALUATIONS_OF_NUMBERS[what]()
    else:
        fields = STUDIES[what]() if what in STUDIES else rehearsed_fields(public, **REHEARSED[what])
    rows = len(samples.auxiliary.samples)
    own_terms = {"public_table": samples.digest, "features": samples.features, "samples": rows}
    made = trial(parties=PARTIES, **fields | {"public": True} | own_terms | changed)
    return play(made, public, samples, _own, absent=absent)


def replanned(public: Path, name: str) -> Recording:
    """Play a regression of parties, one of whose parameters differs as little as can be from the public file's."""
    fields = regression_fields(public, **REGRESSIONS["regression, parties"])
    parameters, value = fields["parameters"], fields["parameters"][name]
    parameters[name] = value + 1 if name == "labelled" else float(np.nextafter(value, np.inf))
    return record_step("regression, parties", public, parameters=parameters)


def _own(made: Trial, number: int) -> Any:
    """What a party brings: votes, or rows, their labels and, where the study names persons, whose they are."""
    study, generator = made.study, np.random.default_rng([7, number])
    classes = len(study.classes)
    if study.method in ("statistic", "vote-directions"):
        return FixedVotes(generator.integers(0, classes, size=study.samples))
    X = unit(generator, 40 + number)
    persons = (np.arange(len(X)) // 2,) if study.parameters.get("record") else ()
    if study.predicts_number:
        errors = generator.normal(size=len(X)) * np.where(np.arange(len(X)) % 9, 1.0, 50.0)
        return (X, 1000 + 2 * X[:, 0] / X[:, -1].clip(0.1) + errors, *persons)
    if study.method == "platt" and classes == 2:
        weights = np.frombuffer(base64.b64decode(str(study.parameters["classifier"])), "<f4").astype(np.float64)
        scores = X / X[:, -1:] @ weights
        labels = (scores + generator.logistic(size=len(X)) * np.abs(scores).mean() > 0).astype(np.int64)
        return (X, labels, *persons)
    labels = np.digitize(X[:, 0] - X[:, 1], [0.0] if classes == 2 else [-0.3, 0.3]).astype(np.int64)
    return (X, labels, *persons)


STORED_STEPS = STORED / "steps"
"""Studies that were recorded once, as in `tests.verifier.recording.STORED`."""

TO_STORE = (
    "record",
    "record, three classes",
    "evaluation, calibrated",
    "evaluation, three classes",
    "evaluation, number",
    "rehearsed",
    "statistic, three classes",
    "regression",
    "regression, parties",
)


def files_of(folder: Path) -> Callable[[str], Path]:
    """Write the public files; returns which one a study is of."""
    public, labelled, numbers = public_file(folder), labelled_file(folder), numbers_file(folder)
    numeric = (*REGRESSIONS, *EVALUATIONS_OF_NUMBERS)
    return lambda what: public if what in STUDIES else numbers if what in numeric else labelled


def store() -> None:
    """Record the stored studies again."""
    with TemporaryDirectory() as folder:
        files = files_of(Path(folder))
        for what in TO_STORE:
            save(record_step(what, files(what)), stored_at(STORED_STEPS, what))


if __name__ == "__main__":
    store()
