"""Records studies for the second verifier: every role plays its part, as in a real study, under a toy key.

`python -m tests.verifier.recording` records the stored studies again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from msgspec.structs import asdict, replace

from psephos.audit.studies import Trial, trial
from psephos.curator.ledger import Release
from psephos.data.fit_features import fit_features
from psephos.protocol.agent import Agent
from psephos.protocol.board import MemoryBoard
from psephos.protocol.board.client import BoardClient
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.privacy.unit import PrivacyUnit
from psephos.protocol.roles import Post, Role
from psephos.protocol.storage.store import Store
from psephos.protocol.study.study import Study
from psephos.protocol.wire import Kind
from psephos.specs.registry import is_verifiable, spec_class
from psephos.specs.rows import encode_releases
from psephos.specs.terms import PrivacyTerms, PublicTerms, StudyTerms, encode_parameters
from psephos.study.release import make_release
from psephos.study.roles import curator_role, holder_role, party_role
from psephos.study.samples import PublicSamples
from psephos.study.verify import BoardEvidence, StudyCheck, examine
from tests.psephos.study.cast import FixedVotes, classifier, fields_of, given, shares_of, unit
from tests.verifier.board import Report
from tests.verifier.verifier import verify

PARTIES, LABELLED = 5, 60
TWO, THREE = ("a", "b"), ("a", "b", "c")
EARLIER = (
    Release("gaussian", 0.7, 1e-6, "record", chosen={"rank": 3}, protects=PrivacyUnit("record")),
    Release("gaussian", 0.1, 1e-7, "record", protects=PrivacyUnit("record")),
    Release("discrete Laplace in shares", 2.0, 0.0, "party", protects=PrivacyUnit("shard")),
    Release("discrete Laplace in shares", 4.0, 0.0, "party", protects=PrivacyUnit("party", "ward")),
    Release("none", 0.0, 0.0, "party"),
)
"""What an evaluated model has cost: for the unit of the evaluation three times, for a shard, and nothing."""


def _of(cast: str, *, proofs: str = "", absent: bool = False, **changed: Any) -> tuple[str, dict[str, Any]]:
    """A study of the cast with other terms; fields that a study does not have are parameters."""
    names = Study.__dataclass_fields__.keys()
    fields = {name: value for name, value in changed.items() if name in names}
    fields |= {"proofs": proofs} if proofs else {}
    parameters = {name: value for name, value in changed.items() if name not in names}
    parameters |= {"dropouts": 1} if absent else {}
    return cast, fields | {"parameters": parameters, "absent": ("party 4",) if absent else ()}


_VOTES, _OWN, _AVERAGE, _VALID = "statistic", "statistic, own data", "average, own data", "valid"
_WHITENED = {"method": "whitened", "delta": 1e-6}
_HOLDERS, _UNIT = {"noise_from": "holders"}, {"unit": "party", "dropouts": 1}
STUDIES: dict[str, tuple[str, dict[str, Any]]] = {
    "tally": _of("tally"),
    "tally, two classes": _of("tally", classes=TWO),
    "tally, degree 2": _of("tally", degree=2),
    "average": _of("average"),
    "average, two classes": _of("average", classes=TWO),
    "average, own data": _of(_AVERAGE),
    "statistic": _of(_VOTES, classes=TWO),
    "statistic, gaussian": _of(_VOTES, classes=TWO, delta=1e-6),
    "statistic, absent": _of(_VOTES, classes=TWO, absent=True),
    "own data": _of(_OWN, classes=TWO),
    "own data, gaussian": _of(_OWN, classes=TWO, delta=1e-6),
    "whitened": _of(_OWN, classes=TWO, method="whitened"),
    "directions": _of(_OWN, classes=TWO, method="vote-directions"),
    "statistic, three classes": _of(_VOTES, epsilon=20.0),
    "statistic, three classes, gaussian": _of(_VOTES, epsilon=20.0, delta=1e-6),
    "directions, three classes": _of(_OWN, method="vote-directions", epsilon=20.0),
    "own data, three classes": _of(_OWN, epsilon=20.0),
    "whitened, three classes": _of(_OWN, **_WHITENED),
    "holders": _of(_OWN, classes=TWO, **_HOLDERS),
    "holders, gaussian": _of(_VOTES, classes=TWO, delta=1e-6, **_HOLDERS),
    "holders, absent": _of(_VOTES, classes=TWO, absent=True, **_HOLDERS),
    "head": _of("head", proofs="knowledge", noise_from="parties", radius=1.75),
    "head, two classes": _of("head", classes=TWO, proofs="knowledge"),
    "record": _of("record"),
    "record, pure": _of("record", delta=0.0, labelled=0),
    "record, three colluders": _of("record", colluders=2),
    "record, three classes": _of("record, three classes"),
    "record, three classes, gaussian": _of("record, three classes", delta=1e-6),
    "record, persons": _of("record", record="who"),
    "record, absent": _of("record, three classes", absent=True),
    "evaluation": _of("evaluation"),
    "evaluation, calibrated": _of("evaluation", epsilon=60.0),
    "evaluation, persons": _of("evaluation", epsilon=60.0, record="who", bins=4),
    "evaluation, three classes": _of("evaluation", classes=THREE, classifier=classifier(3)),
    "evaluation, earlier releases": _of("evaluation", released=encode_releases(EARLIER)),
    "evaluation, parties": _of("evaluation", **_UNIT),
    "evaluation, number": _of("evaluation, number"),
    "evaluation, number, persons": _of("evaluation, number", record="who", largest_error=7.0, released=""),
    "evaluation, number, parties": _of("evaluation, number", **_UNIT),
    "regression": _of("regression"),
    "regression, pure": _of("regression", delta=0.0, record="who"),
    "regression, parties": _of("regression", delta=0.0, **_UNIT),
    "regression, parties, gaussian": _of("regression", unit="party"),
    "regression, absent": _of("regression", delta=0.0, unit="party", absent=True),
    "psgd": _of("psgd"),
    "psgd, halving": _of("psgd", delta=1e-9, variant="halving"),
    "psgd, dropouts": _of("psgd", dropouts=1),
    "psgd, stops": _of("psgd", stop_tolerance=0.5, stop_window=1, steps=4),
    "pathak": _of("pathak"),
    "pathak, excluded parties": _of("pathak", lam=0.05, excluded=2, tolerance=1e-8),
    "mapped record": _of("record, three classes", map="auto", epsilon=20.0),
    "mapped statistic": _of(_VOTES, map="forest landmarks products fourier", epsilon=20.0),
}
"""Studies in which everything is public that may be, by a name."""

BOUNDED: dict[str, tuple[str, dict[str, Any]]] = {
    "bounded": _of(_VOTES, classes=TWO, proofs=_VALID),
    "bounded, gaussian": _of(_VOTES, classes=TWO, delta=1e-6, proofs=_VALID),
    "bounded, three parts of an entry": _of(_VOTES, classes=TWO, epsilon=0.01, proofs=_VALID),
    "bounded, own data": _of(_OWN, classes=TWO, proofs=_VALID),
    "bounded, three classes": _of(_VOTES, degree=2, proofs=_VALID),
    "bounded, average": _of("average", proofs=_VALID),
    "bounded, average of own data": _of(_AVERAGE, proofs=_VALID),
    "bounded, psgd": _of("psgd", proofs=_VALID),
    "bounded, halving": _of("psgd", delta=1e-9, variant="halving", proofs=_VALID),
    "bounded, holders": _of(_VOTES, classes=TWO, colluders=0, proofs=_VALID, **_HOLDERS),
    "bounded, holders, gaussian": _of(_OWN, classes=TWO, delta=1e-6, proofs=_VALID, **_HOLDERS),
    "bounded, holders, three classes": _of(_VOTES, proofs=_VALID, **_HOLDERS),
    "bounded, head": _of("head"),
    "bounded, record": _of("record", proofs=_VALID),
    "bounded, evaluation": _of("evaluation", proofs=_VALID),
    "bounded, regression": _of("regression", proofs=_VALID),
    "bounded, regression, parties": _of("regression", delta=0.0, proofs=_VALID, **_UNIT),
}
"""Studies with proofs of bounds, which take seconds."""

REHEARSED: dict[str, tuple[str, dict[str, Any]]] = {
    "rehearsed": _of("rehearsed", dropouts=1),
    "rehearsed, two classes": _of("rehearsed", dropouts=1, classes=TWO),
    "rehearsed, gaussian": _of("rehearsed", dropouts=1, delta=1e-6),
    "rehearsed, absent": _of("rehearsed", absent=True, classes=TWO),
    "rehearsed, bounded": _of("rehearsed", dropouts=1, proofs=_VALID),
}
"""Studies whose rehearsal `psephos verify` repeats, which takes seconds."""

_ALL = STUDIES | BOUNDED | REHEARSED


def public_file(folder: Path, what: str = "public") -> Path:
    """Write the public samples of a study: numbers and text, or numbers with labels."""
    if what.startswith(("rehearsed", "regression", "bounded, regression", "mapped")):
        draw = np.random.default_rng(0)
        X = draw.normal(size=(LABELLED, 3))
        scores = X @ np.array([[1.2, -0.4, 0.0], [-1.0, 0.2, 0.9], [0.5, 0.8, -0.6]]) + draw.gumbel(size=X.shape)
        labels = [THREE[label] for label in scores.argmax(axis=1)]
        if what.startswith("mapped"):
            labels = [label if place % 9 else "" for place, label in enumerate(labels)]
        if "regression" in what:  # far from 0; some rows have none
            labels = [f"{1000 + 3 * row[0]:.3f}" if place % 7 else "" for place, row in enumerate(scores)]
        numbers = (X * [1.0, 20.0, 0.001]).tolist()
        lines = ["x,y,z,class", *(",".join([*map(repr, x), label]) for x, label in zip(numbers, labels, strict=True))]
    else:
        numbers = np.random.default_rng(2).normal(size=12).tolist()
        lines = ["x,z", *(f"{x!r},{'no' if place % 3 else 'yes'}" for place, x in enumerate(numbers))]
    path = folder / f"{what}.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@dataclass(frozen=True)
class Recording:
    """A study that was played to its end."""

    made: Trial
    public: Path
    entries: tuple[bytes, ...]

    def with_entries(self, entries: Sequence[bytes]) -> Recording:
        return Recording(self.made, self.public, tuple(entries))

    @cached_property
    def decoded(self) -> list[SignedEntry]:
        return [SignedEntry.decode(data) for data in self.entries]

    @cached_property
    def samples(self) -> PublicSamples:
        return PublicSamples.of(self.made.study, self.public)

    @cached_property
    def public_text(self) -> str:
        return self.public.read_text(encoding="utf-8")

    def evidence(self) -> BoardEvidence:
        """What `psephos verify` finds, with what it has computed."""
        return self._evidence

    @cached_property
    def _evidence(self) -> BoardEvidence:
        board = MemoryBoard()
        board.entries.extend(self.entries)
        return examine(self.made.study, self.samples, board)

    @property
    def opened(self) -> OpenedSum:
        """The sum that the holders have opened."""
        assert self.evidence().opened is not None
        return self.evidence().opened

    @cached_property
    def second(self) -> Report:
        """What the second verifier finds."""
        return verify(self.made.study.text(), self.public_text, list(self.entries))

    def posts(self) -> list[tuple[str, Post]]:
        """The messages of the board in the clear, with their authors; sealed ones are replaced by an empty text."""
        return [
            (one.author, Post(one.receiver, b"" if one.secret else one.body, one.phase, secret=one.secret))
            for one in self.decoded
        ]

    def signed_again(self, posts: Sequence[tuple[str, Post]]) -> Recording:
        """Return a board on which these messages stand, each signed by its author, who has read all before it."""
        clients: dict[str, BoardClient] = {}
        board: list[bytes] = []
        for author, post in posts:
            client = clients.setdefault(author, self.made.board_client(author))
            for number in range(client.head.size, len(board)):
                client.check(number + 1, board[number])
            board.append(client.sign(post))
        return self.with_entries(board)


def is_a(post: Post, kind: Kind) -> bool:
    """Whether a message of a kind stands in clear."""
    return not post.secret and len(post.data) > 8 and post.data[8] == kind


# -- playing


def _mapped(samples: PublicSamples, features: str, classes: Sequence[str]) -> PublicSamples:
    """The samples with the features of a map: that of `auto`, or of first trees, points and directions of blocks."""
    blocks: list[Any] = []
    for kind in features.split():
        fitted = fit_features(kind, samples.inputs, samples.labels(classes), len(classes)).map
        assert fitted is not None
        few = {name: value[:4] for name, value in asdict(fitted.blocks[0]).items() if isinstance(value, tuple)}
        blocks += fitted.blocks if kind == "auto" else [replace(fitted.blocks[0], **few)]
    return samples.mapped(replace(fitted, blocks=tuple(blocks)), classes)


def _planned(samples: PublicSamples, terms: Mapping[str, Any], unit: Any) -> dict[str, Any]:
    """What a plan for the public rows chooses."""
    classes = terms.get("classes", THREE)
    privacy = PrivacyTerms(epsilon=terms["epsilon"], delta=terms.get("delta", 0.0), colluders=1, dropouts=1, unit=unit)
    known: dict[str, Any] = {"auxiliary": samples.auxiliary, "labels": samples.labels(classes), "rows": 200}
    known |= {"log_odds": samples.log_odds, "method": terms["method"]}
    public = PublicTerms(classes=len(classes) or 1, parties=PARTIES, **known)
    return encode_parameters(spec_class(terms["protocol"]).plan(public, privacy).stated())


def record(what: str, public: Path, *, ceremony: bool = False, **fields: Any) -> Recording:
    """Play a study under a dealt key, or one that its holders make; `fields`: of the study, in place of its own."""
    cast, own = _ALL[what]
    terms = {name: value for name, value in fields_of(cast, PARTIES).items() if name != "samples"}
    changed = {name: value for name, value in (own | fields).items() if name not in ("absent", "parameters")}
    terms |= {"public": terms["protocol"] not in ("tally", "average", "psgd", "pathak")} | changed
    parameters = terms.get("parameters", {}) | own["parameters"]
    samples = PublicSamples.read(public, "class", predicts_number=not terms.get("classes", THREE))
    if "map" in own["parameters"]:
        samples = _mapped(samples, own["parameters"]["map"], terms.get("classes", THREE))
        assert samples.encoding.map is not None
        parameters = _planned(samples, terms, "record") | {"map": samples.encoding.map.encoded.decode()}
    elif terms["protocol"] in ("regression", "rehearsed"):
        terms["epsilon"] = 1.0 if terms["protocol"] == "regression" else 30.0
        parameters = _planned(samples, terms, own["parameters"].get("unit", "record")) | own["parameters"]
    terms["parameters"] = parameters | fields.get("parameters", {})
    if "minimum_ballots" in terms:
        terms["minimum_ballots"] = PARTIES - terms["parameters"].get("dropouts", 0)
    rows = len(samples.auxiliary.samples)
    made = trial(
        parties=PARTIES, **terms | {"public_table": samples.digest, "features": samples.features, "samples": rows}
    )
    return _play(made, public, samples, own["absent"], ceremony=ceremony)


def _play(made: Trial, public: Path, samples: PublicSamples, absent: Sequence[str], *, ceremony: bool) -> Recording:
    study, board, terms = made.study, MemoryBoard(), StudyTerms(made.study, samples)
    shares = shares_of(study) if study.uses_key and not ceremony else []

    def role(name: str) -> Role:
        kind, _, number = name.partition(" ")
        if kind == "curator":
            return curator_role(terms, lambda result: make_release(study, samples, result), Store())
        if kind == "holder":
            holder = holder_role(terms, int(number), Store())
            return given(holder, shares[int(number) - 1]) if shares else holder
        return party_role(terms, int(number), made.keys[name], _own(study, int(number)), Store())

    agents = {
        name: Agent(role(name), study.members, key, board, Store())
        for name, key in made.keys.items()
        if name not in absent and (study.uses_key or not name.startswith("holder"))
    }
    for _ in range(8):
        while any([agent.step() for agent in agents.values()]):  # noqa: C419 - all of them take a turn
            pass
        agents["curator"].on_idle()
    return Recording(made, public, tuple(board.entries))


def _own(study: Study, number: int) -> Any:
    """What a party brings: votes, or rows, their labels and, where the study names persons, whose they are."""
    generator, classes = np.random.default_rng([7, number]), len(study.classes)
    if study.method in ("soft", "statistic", "vote-directions"):
        return FixedVotes(generator.integers(0, classes, size=study.samples))
    if study.method == "mean":
        return FixedVotes(generator.integers(0, classes, size=classes * len(study.features)))
    X = unit(generator, 6 + number if study.protocol == "psgd" else 40 + number, len(study.features))
    persons = (np.arange(len(X)) // 2,) if study.parameters.get("record") else ()
    noise = generator.normal(size=len(X)) * np.where(np.arange(len(X)) % 9, 1.0, 50.0)
    if study.predicts_number:
        middle = 1000 if study.protocol == "regression" else 100
        return (X, middle + 2 * X[:, 0] / X[:, -1].clip(0.1) + noise, *persons)
    scores, edges = X[:, 0] - X[:, 1] + noise / 10, [0.0] if classes == 2 else [-0.3, 0.3]
    if study.method == "platt" and classes == 2:  # most predictions of the evaluated classifier are right
        weights = np.frombuffer(base64.b64decode(str(study.parameters["classifier"])), "<f4")
        scores = X / X[:, -1:] @ weights + noise
    return (X, np.digitize(scores, edges).astype(np.int64), *persons)


# -- studies that were recorded once

STORED = Path(__file__).parent / "recorded"
"""Every later version must accept these studies as long as the formats are the same."""

TO_STORE = {
    "tally": "tally",
    "statistic": "statistic",
    "statistic-own-data": "own data",
    "average": "average, two classes",
    "psgd": "psgd",
    "pathak": "pathak",
    "steps/head": "head",
    "steps/record": "record",
    "steps/record-three-classes": "record, three classes",
    "steps/evaluation-calibrated": "evaluation, calibrated",
    "steps/evaluation-three-classes": "evaluation, three classes",
    "steps/evaluation-number": "evaluation, number",
    "steps/rehearsed": "rehearsed",
    "steps/statistic-three-classes": "statistic, three classes",
    "steps/statistic-mapped": "mapped statistic",
    "steps/regression": "regression",
    "steps/regression-parties": "regression, parties",
}
"""The studies by their files. That of the tally has proofs of knowledge: one of validity is too long."""


def store() -> None:
    """Record the stored studies again: the study file, the public file, and the entries in hexadecimal."""
    with TemporaryDirectory() as folder:
        for name, what in TO_STORE.items():
            fields = {"proofs": "knowledge"} if what == "tally" else {}
            recording = record(what, public_file(Path(folder), what), **fields)
            entries = [data.hex() for data in recording.entries]
            content = {"study": recording.made.study.text(), "public": recording.public_text, "entries": entries}
            (STORED / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


# -- what both verifiers say


def accepted(checks: Sequence[StudyCheck], *, verifiable: bool) -> bool:
    """Whether `psephos verify` finds a whole study in which nothing fails."""
    verdicts = {check.what: check.verdict for check in checks}
    follows = verdicts.get("the result follows from the sum")
    agreed = next((v for what, v in verdicts.items() if what.startswith("the result: of the classes")), None)
    return "fails" not in verdicts.values() and agreed == "holds" and (follows == "holds" or not verifiable)


def check_accepted(recording: Recording) -> None:
    """Check that both verifiers accept a whole study, and its result where everybody can compute it."""
    follows = is_verifiable(recording.made.study)
    assert (recording.second.fails, recording.second.lacks) == ([], [])
    assert ("the result follows from the sum" in recording.second.holds) == follows
    assert accepted(recording.evidence().checks, verifiable=follows)


def check_refused(changed: Recording) -> None:
    """Check that both verifiers refuse a changed study."""
    assert not changed.second.accepted
    assert not accepted(changed.evidence().checks, verifiable=is_verifiable(changed.made.study))


if __name__ == "__main__":
    store()
