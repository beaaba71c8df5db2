"""Run whole commands on neighbouring tables, and compare everything that leaves a party or is written for the public.

The contributions of other parties must not change at all, that of the changed party by no more than the sensitivity,
and of the public files only what is a function of the noisy result. A pipeline calls what the command calls or, for a
study, the members' roles under a dealt key. Keys are short, and the noise comes from a fixed seed, so that it drops out
of the difference of two tables.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from psephos.audit.adversary import Replacements, Tampering
from psephos.audit.neighbours import (
    EXTREME_LABEL,
    NEIGHBOURS,
    NO_CHANGE,
    RECORD,
    RECORDS,
    SCHEMA,
    Neighbour,
    PartyTable,
    is_own_error,
    of_persons,
    synthetic_table,
)
from psephos.curator.ledger import Release
from psephos.curator.psgd.agreement import agree
from psephos.data.fit_features import Features, fit_features
from psephos.data.own import OwnTable
from psephos.data.partition import load_split
from psephos.data.splits import Split
from psephos.model import MODEL_FILE, Model, RegressionModel
from psephos.progress import Progress, counted, silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import PsephosError
from psephos.protocol.pathak.noise import record_sensitivity
from psephos.protocol.roles import Step
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.transcript import Transcript
from psephos.released import ReleasedClassifier, ReleasedRegressor
from psephos.results.security import ComparedRun, Finding
from psephos.simulation.job import EvaluationOptions, EvaluationRun, Job, RegressionRun
from psephos.simulation.key_setup import setup_keys
from psephos.simulation.options import METHODS, AverageOptions, JobOptions, SumOptions, TallyOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.sums import populate
from psephos.simulation.tally import simulate_average, simulate_tally
from psephos.specs.base import SumSpec
from psephos.specs.registry import SPECS, participants_of, spec_of
from psephos.specs.terms import StudyTerms
from psephos.study.builder import NewOptions, make_study
from psephos.study.card import card
from psephos.study.identity import Identity, fingerprint
from psephos.study.member import sign
from psephos.study.release import make_release, read_release

Vector = tuple[int, ...]

SETTINGS: Mapping[str, Any] = {"key_bits": 256, "test_key": True, "simulate_noise": True, "held_out": 0.2}
"""Options of all runs: short keys, and noise from the seed. Nothing that is compared depends on either."""

ONNX = find_spec("onnx") is not None
PUBLIC_FILES = (MODEL_FILE, "card.md", "model.onnx")
"""The public files of `psephos run`."""

DERIVED = ("coefficients", "intercepts", "intercept", "weights")
"""Fields of a model file, and tensors of an ONNX model, that follow from the noisy result."""

DERIVED_LINES = re.compile(
    r"right on [\d.]+% of the public rows"
    r"|rows change class"
    r"|in the mean of \d+ rows"
    r"|is in the model file, of "
    r"|signal, from this release"
    r"|The noise hides what was learned"
)
"""Lines of a card, and warnings of a model, that are functions of the noisy result and public rows."""

PUBLIC = ("roster", "messages", "terms", "public files")
"""The checks that something public is the same whatever the private rows are."""


@dataclass(frozen=True)
class Bound:
    """A plan's claim of how much one party, or one record, can change a vector, in units of the vector."""

    l1: float = np.inf
    l2: float = np.inf

    def ratio(self, change: NDArray[Any]) -> float:
        """Return the largest ratio of a change to its bound; `change`: the difference of two vectors, (D,)."""
        lengths = change.astype(np.float64)
        return float(max(np.abs(lengths).sum() / self.l1, np.linalg.norm(lengths) / self.l2))


@dataclass
class RunRecord:
    """What is recorded of one run. It contains secrets.

    `public` is what no private row may change, by the check that says so; `derived` are digests of files that follow
    from the noisy sums and public values; `own` is what each party computed; `released` is what the curator adds noise
    to, with its sensitivity; `shares` is the noise that remains unknown to colluders, and that which is needed.
    """

    public: dict[str, dict[str, Any]] = field(default_factory=lambda: {check: {} for check in PUBLIC}, repr=False)
    derived: dict[str, str] = field(default_factory=dict, repr=False)
    own: dict[str, dict[str, str]] = field(default_factory=lambda: {"rows": {}, "parameters": {}}, repr=False)
    vectors: dict[str, dict[str, Vector]] = field(default_factory=dict, repr=False)
    bounds: dict[str, Bound] = field(default_factory=dict)
    released: dict[str, tuple[NDArray[np.float64], float]] = field(default_factory=dict, repr=False)
    shares: dict[str, tuple[float, float]] = field(default_factory=dict)
    error: PsephosError | None = None

    @classmethod
    def of(cls, parties: Sequence[str], transcript: Transcript | None = None) -> RunRecord:
        """Return the record of a run of these parties, in order, with what is public about its messages."""
        record = cls()
        record.public["roster"]["the order of the parties"] = tuple(parties)
        if transcript is not None:
            sent = [(message.sender, message.receiver, message.kind, message.size) for message in transcript.messages]
            record.public["messages"]["their number, kinds or lengths"] = sent
        return record


@dataclass(frozen=True)
class Pipeline:
    """A command that is run on a table, and the neighbours of the table that it must protect."""

    name: str
    run: Callable[[PartyTable, Path], RunRecord]
    neighbours: Sequence[Neighbour] = (*NEIGHBOURS, NO_CHANGE)
    without_public: bool = False
    refuses: bool = False
    label: str = ""

    def select(self, table: PartyTable) -> PartyTable:
        return table.private if self.without_public else table

    def record(self, table: PartyTable) -> RunRecord:
        """Run the command and record the run, or the error with which it was refused."""
        with tempfile.TemporaryDirectory() as directory:
            try:
                return self.run(self.select(table), Path(directory))
            except PsephosError as error:
                return RunRecord(error=error)


def _options(table: PartyTable, directory: Path, defaults: Mapping[str, Any], chosen: Mapping[str, Any]) -> Any:
    """Write the table to the directory; return the options with which a command reads it."""
    path = table.write(directory / "table.csv")
    named = {"data": str(path), "label": table.label, "party": table.party, "public": table.public or None}
    return {**SETTINGS, **defaults, **named, **chosen}


# -- encrypted sums


def run_job(table: PartyTable, directory: Path, *, copies: int = 1, **chosen: Any) -> RunRecord:
    """Run `psephos run` and record its files as well. `chosen`: fields of `JobOptions`.

    Every public row of the table is there `copies` times, so that there are enough to grow a forest on.
    """
    places = [*range(len(table.cells)), *[*table.places(table.public)] * (copies - 1)]
    table = table.with_cells(table.cells.iloc[places]) if copies > 1 else table
    defaults: dict[str, Any] = {"workers": 1, "anyway": True}  # so that every method runs on so few rows
    if chosen.get("task") != "regression":
        defaults |= {"method": "newton" if chosen.get("unit") == "record" else "statistic"}
    options = JobOptions(**_options(table, directory, defaults, chosen))
    if options.task == "regression":
        run = RegressionRun(options)
        done, record = _record_run(run, "regression")
        run.write(run.release(done), directory, onnx=ONNX)
    else:
        job, transcript = Job(options), Transcript(secrets=True)
        result = job.run(transcript=transcript)
        job.write(result, directory, onnx=ONNX)
        record = _of_sums(job.options, job.split, transcript, result)
        record.public["terms"]["decision"] = job.forecast.reason if job.forecast else ""
    record.public["public files"] = _written(directory)
    for name in PUBLIC_FILES:
        if (path := directory / name).exists():
            record.derived[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return record


def run_by_schema(table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run `psephos run` on the synthetic table with a schema in place of public rows."""
    schema = directory / "schema.toml"
    schema.write_text(SCHEMA, encoding="utf-8")
    return run_job(table, directory, schema=str(schema), **chosen)


_run_stopped = partial(run_by_schema, method="auto", anyway=False, epsilon=(0.01,))
"""Run `psephos run` at an epsilon at which no gain is expected."""


def run_sums(simulate: Any, kind: type[SumOptions], table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run `psephos simulate tally` or `average`: the function `simulate` with options of the class `kind`."""
    options, split = load_split(kind(**_options(table, directory, {"workers": 1, "draws": 1}, chosen)))
    transcript = Transcript(secrets=True)
    return _of_sums(options, split, transcript, simulate(options, data=split, transcript=transcript))


def _of_sums(options: SumOptions, split: Split, transcript: Transcript, result: Any) -> RunRecord:
    names, population = OwnTable(options).owners, populate(options, split, silent)
    record = RunRecord.of(names, transcript)
    for number, (name, (X, y)) in enumerate(zip(names, population.rows(), strict=True)):
        record.own["rows"][name] = digest_of(X, y)
        record.own["parameters"][name] = digest_of(population.trained.parameters[number])
    for phase, round_, contribution, vectors in result.evaluation.contributions:
        named = {names[n]: vector for n, vector in vectors.items()}
        record_sum(record, phase, round_, contribution.spec, named, _unknown(options))
    joint = {phase.split()[-1] for phase in record.shares}
    for one in result.evaluation.scores:  # where the noise is in the classifier
        if one.method in {"vote", "soft", "avg"} - joint and one.epsilon is not None:
            record.released[one.method] = one.w, float(result.privacy[one.method].sensitivity)
    return record


def _record_run(run: RegressionRun | EvaluationRun, phase: str) -> tuple[Any, RunRecord]:
    transcript, names = Transcript(secrets=True), OwnTable(run.options).owners
    done = run.sum(transcript=transcript)
    record = RunRecord.of(names, transcript)
    record.own["rows"] = {name: digest_of(*run.rows_of(number)[:2]) for number, name in enumerate(names)}
    vectors = {names[number]: vector for number, vector in done.vectors.items()}
    record_sum(record, phase, done.round, run.spec, vectors, _unknown(run.options))
    return done, record


def _unknown(options: Any) -> int:
    """Return the least number of parties whose noise t - 1 colluding key holders do not know."""
    unknown: int = options.parties - getattr(options, "dropouts", 0) - (options.opening_threshold - 1)
    return unknown


def record_sum(
    record: RunRecord, name: str, round_: Round, spec: SumSpec, vectors: Mapping[str, Vector], unknown: int
) -> None:
    """Record one sum: its terms, every party's vector, and the bounds that the specification claims."""
    shares, plan = getattr(spec, "shares", None), round_.plan
    public = (plan.length, plan.minimum, plan.maximum, plan.addends, round_.minimum_ballots, round_.proofs)
    record.public["terms"][name] = (round_.kind, round_.context.hex(), *public, shares)
    record.vectors[name], record.bounds[name] = dict(vectors), Bound(*spec.sensitivities)
    if shares is not None:
        record.shares[name] = unknown, shares.contributors


def digest_of(*arrays: NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr((array.shape, array.dtype)).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


# -- protocols of their own, whose roles are observed


def _observed(
    simulate: Any, kind: Any, phase: str, vector: Any, table: PartyTable, directory: Path, chosen: Mapping[str, Any]
) -> tuple[RunRecord, Any, Any, Any]:
    """Run a simulation; return its record, options, result and one party's role."""
    options, split = load_split(kind(**_options(table, directory, {"lam": 0.1, "epsilon": 1.0}, chosen)))
    names, transcript = OwnTable(options).owners, Transcript(secrets=True)
    results: dict[str, Any] = {}

    class Observed(Tampering):
        def observe(self, step: Step) -> None:
            results[self.name] = self.honest, self.honest.result(step.state)

    roles: Replacements = dict.fromkeys((f"party {number}" for number in range(options.parties)), Observed)
    result = simulate(options, data=split, roles=roles, transcript=transcript)
    record = RunRecord.of(names, transcript)
    for number, name in enumerate(names):
        party, account = results[f"party {number}"]
        record.vectors.setdefault(phase, {})[name] = vector(account)
        record.own["rows"][name] = digest_of(*split.party(number))
    return record, options, result, party


def run_psgd(table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run the first step of `psephos simulate psgd`; later steps start from a public point."""
    run, phase = (simulate_psgd, PsgdOptions), "gradients"
    settings = {"steps": 1, **chosen}
    record, options, result, party = _observed(*run, phase, lambda state: state.vector, table, directory, settings)
    series = party.terms.series
    record.bounds[phase] = Bound(l2=result.gradient_sensitivity / series.pitch)
    record.public["terms"][phase] = replace(series, nonce=bytes(16)), tuple(result.party_sizes)
    # Every party knows its own share; the variant "gaussian" does not count it already.
    colluders = max(0, options.opening_threshold - 1 - (options.variant == "gaussian"))
    needed = agree(replace(options, colluders=colluders), result.party_sizes, result.features, bytes(16)).series
    record.shares["fresh noise of a share"] = series.step_scale, needed.step_scale
    record.shares["fixed noise of a share"] = min(series.fixed_sigmas), min(needed.fixed_sigmas)
    return record


def run_pathak(table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run `psephos simulate pathak` with noise for a public number of rows."""

    def sent(contribution: Any) -> Vector:
        return tuple(w + e for w, e in zip(contribution.parameters, contribution.noise[0], strict=True))

    run, phase = (simulate_pathak, PathakOptions), "parameters"
    record, _, _, party = _observed(*run, phase, sent, table, directory, chosen)
    terms = party.terms
    root = float(np.sqrt(terms.features))
    sensitivity = record_sensitivity(terms, terms.smallest_size) / terms.pitch
    # Both vectors are rounded to the grid, which moves each entry by up to half a unit.
    record.bounds[phase] = Bound(root * sensitivity + terms.features, sensitivity + root)
    record.public["terms"][phase] = replace(terms, nonce="0" * 32)
    return record


# -- evaluation


def _fixed_model(
    options: EvaluationOptions, split: Split, features: Features = "linear"
) -> ReleasedClassifier | ReleasedRegressor:
    assert split.encoding is not None
    assert split.inputs is not None
    classes = split.dataset.classes
    fitted = fit_features(features, split.inputs, split.public_labels, len(classes))
    public = fitted.rows
    rows = len(classes) if len(classes) > 2 else 1
    weights = np.random.default_rng(0).normal(size=(rows, public.shape[1]))
    weights /= np.abs(public).max(axis=0) + 1.0
    common: dict[str, Any] = {
        "psephos_model": 1,
        "encoding": msgspec.structs.replace(split.encoding, map=fitted.map),
        "method": "fixed",
        "parties": options.parties,
        "release": Release("discrete-laplace", 1.0, 0.0, options.unit),
    }
    if not options.predicts_number:
        coefficients = tuple(map(tuple, weights.tolist()))
        return ReleasedClassifier(Model(classes=classes, coefficients=coefficients, intercepts=(0.0,) * rows, **common))
    labels = split.public_labels[np.isfinite(split.public_labels)]
    low, high = np.quantile(labels, [0.35, 0.65]).tolist()  # so that labels at the bounds are frequent
    assert options.label is not None
    return ReleasedRegressor(
        RegressionModel(
            task="regression",
            label=options.label,
            ranges=tuple(zip(public.min(axis=0).tolist(), public.max(axis=0).tolist(), strict=True)),
            coefficients=tuple(weights[0].tolist()),
            intercept=float(labels.mean()),
            bounds=(low, high),
            **common,
        )
    )


def run_evaluation(table: PartyTable, directory: Path, *, features: Features = "linear", **chosen: Any) -> RunRecord:
    """Run `psephos evaluate` on a model whose coefficients are fixed numbers."""
    options = EvaluationOptions(**_options(table, directory, {"workers": 1, "epsilon": 1.0}, chosen))
    run = EvaluationRun(options, _fixed_model(*load_split(options), features))
    _, record = _record_run(run, "errors" if options.predicts_number else "histogram")
    record.public["public files"] = {f"cautions: {place}": text for place, text in enumerate(run.cautions)}
    return record


# -- studies

HOLDERS, THRESHOLD = 5, 3


def run_study(table: PartyTable, directory: Path, *, protocol: str, **chosen: Any) -> RunRecord:
    """Run every party of a study: each has a file of its own rows, and all have the public rows.

    `chosen`: fields of `NewOptions`, and parameters of the study. As many parties are absent as it has dropouts.
    """
    known = {each.name for each in fields(NewOptions)}
    stated = tuple(f"{name}={value}" for name, value in chosen.items() if name not in known)
    chosen = {name: value for name, value in chosen.items() if name in known}
    names = table.parties
    members = [Identity.create(name, directory / f"member {number}") for number, name in enumerate(names)]
    curator = Identity.create("curator", directory / "curator")
    public = _file(table, table.public, directory / "public.csv")
    kind = SPECS[protocol]
    options = NewOptions(
        curator=str(curator.directory / "card.toml"),
        public=str(public),
        label=table.label,
        classes=() if kind.numeric else tuple(table.classes),
        key_bits=256,
        holders=HOLDERS,
        threshold=THRESHOLD,
        trial=True,
        curator_noise=not kind.joint,
        protocol=protocol,
        parameters=stated,
        **chosen,
    )
    study, samples = make_study(options, [member.directory / "card.toml" for member in members])
    spec: Any = spec_of(StudyTerms(study, samples))
    if getattr(spec, "shares", None) is not None:
        spec = replace(spec, simulation_seed=1)
    record = RunRecord.of([member.name for member in study.parties])
    degree = spec.best_degree(study.key_bits, len(names))
    sizes: dict[str, Any] = {"degree": degree, "holders": HOLDERS, "threshold": THRESHOLD}
    keys = setup_keys(len(names), key_bits=study.key_bits, test_key=True, **sizes)
    round_, vectors = spec.terms(keys.threshold_key, participants_of(study)), {}
    dropouts = int(study.parameters.get("dropouts", 0))
    for number, (name, identity) in enumerate(zip(names, members, strict=True)):
        member = sign(study, identity)
        member.keep(public=str(public), data=str(_file(table, name, directory / f"{name}.csv")))
        record.own["rows"][name] = digest_of(*member.voter)
        if number >= len(names) - dropouts:
            continue
        role = spec.party(number, identity.key, spec.prepare(member.voter), round_, ledger=OnceLedger())
        vectors[name] = role.result(role.start().state)
    record_sum(record, study.protocol, round_, spec, vectors, len(names) - dropouts - (study.threshold - 1))
    record.public["terms"]["parameters"] = dict(study.parameters)
    record.public["terms"]["samples"] = study.public_table.hex(), study.classes, study.features, study.minimum_ballots
    total = tuple(sum(column) for column in zip(*vectors.values(), strict=True))
    content = make_release(study, samples, OpenedSum(total, tuple(range(len(vectors)))))
    text = card(study, read_release(study, samples, content))
    # The digest differs between any two studies, and does not depend on rows.
    record.public["public files"] = public_files(
        content, text.replace(study.digest.hex(), "").replace(fingerprint(study.digest), "")
    )
    return record


def _file(table: PartyTable, owner: str, path: Path) -> Path:
    """Write the rows of one owner to a file, without the column of the owners; return its path."""
    own = table.with_cells(table.cells[table.cells[table.party] == owner])
    replace(own, cells=own.cells.drop(columns=[table.party])).write(path)
    return path


# -- public files


def public_files(model: bytes | str, card: str) -> dict[str, Any]:
    """Return place -> content of a model file and its card, without what is a function of the noisy result."""
    fields = {name: value for name, value in json.loads(model).items() if name not in DERIVED}
    fields["release"].pop("signal", None)
    fields["warnings"] = [text for text in fields["warnings"] if not DERIVED_LINES.search(text)]
    lines = [line for line in card.splitlines() if line and not DERIVED_LINES.search(line)]
    contents = {f"{MODEL_FILE}: {name}": value for name, value in fields.items()}
    return contents | {f"card.md: line {number}": line for number, line in enumerate(lines, 1)}


def _written(directory: Path) -> dict[str, Any]:
    """Return the contents of the files that `psephos run` wrote, the ONNX model included, as `public_files`."""
    contents = public_files((directory / MODEL_FILE).read_bytes(), (directory / "card.md").read_text(encoding="utf-8"))
    if (path := directory / "model.onnx").exists():
        import onnx

        network = onnx.load(path)
        for constant in network.graph.initializer:
            if constant.name in DERIVED:
                constant.ClearField("raw_data")
        contents["model.onnx"] = str(network)
    return contents


# -- the comparison

COLLUDERS = "t - 1 key holders collude"
"""Stands for a neighbour where one run is compared with the claims about colluding parties."""


Measured = tuple[str, str, float | None]
"""A check, what it says, and the ratio of a change to its claimed bound: a finding if there is none, or one above 1."""


def judged(pipeline: str, neighbour: str, measured: Iterable[Measured]) -> ComparedRun:
    every = list(measured)
    findings = [Finding(check, said) for check, said, ratio in every if ratio is None or ratio > 1]
    ratios = [ratio for _, _, ratio in every if ratio is not None]
    return ComparedRun(pipeline, neighbour, findings, max(ratios, default=None))


def compare(
    before: RunRecord, after: RunRecord, party: str, neighbour: PartyTable, *, changes: bool = True
) -> Iterator[Measured]:
    """Compare two runs with the claims of the plan."""
    if before.error is not None or after.error is not None:
        yield from _compare_errors(before, after, party, neighbour)
        return
    for check, values in before.public.items():
        if changed := _unequal(values, after.public[check]):
            yield check, f"{len(changed)} entries depend on the private rows: {', '.join(changed[:4])}", None
    if before.vectors == after.vectors and (moved := _unequal(before.derived, after.derived)):
        # The noise is the same as well, so everything that follows from the noisy sums must be.
        yield "public files", f"the sums are the same, and what is derived from them is not: {', '.join(moved)}", None
    # What every other party computes and encrypts is equal bit for bit.
    computed = [(what, one, after.own[what]) for what, one in before.own.items()]
    sums = [("vectors", before.vectors[name], after.vectors[name]) for name in before.vectors.keys() & after.vectors]
    compared: list[tuple[str, Mapping[str, object], Mapping[str, object]]] = [*computed, *sums]
    for what, first, second in compared:
        if moved := [name for name in _unequal(first, second) if not changes or name != party]:
            yield f"others' {what}", f"the {what} of {len(moved)} other parties changed", None
    yield from _compare_sums(before, after, party)


def _compare_errors(before: RunRecord, after: RunRecord, party: str, neighbour: PartyTable) -> Iterator[Measured]:
    """Check that both tables are refused with the same error, or the neighbour for a reason in the party's own rows."""
    if after.error is not None and is_own_error(after.error, neighbour, party):
        return
    errors = before.error, after.error
    first, second = (f"{type(error).__name__}: {error}" if error else "no error" for error in errors)
    if first != second:
        yield "refusal", f"one table was refused and its neighbour was not, or otherwise: {first}; {second}", None


def _compare_sums(before: RunRecord, after: RunRecord, party: str) -> Iterator[Measured]:
    """Check that the party's vector, the sum and the release change by no more than is claimed."""
    says = "{} moved by {:.4g} times what is claimed".format
    for name in sorted(before.bounds.keys() & after.bounds.keys()):
        bound, first, second = before.bounds[name], before.vectors[name], after.vectors[name]
        lengths = {len(vector) for vector in (*first.values(), *second.values())}
        if first.keys() != second.keys() or len(lengths) > 1:
            yield "own vector", f"{name}: other parties, or vectors of another length", None
            continue
        # As integers of any size: float64 would round what is above 2^53.
        moved = {who: np.array(first[who], dtype=object) - np.array(second[who], dtype=object) for who in first}
        own, total = bound.ratio(moved[party]), bound.ratio(sum(moved.values()))
        yield "own vector", says(f"{name}: the vector of the party", own), own
        yield "sum", says(f"{name}: the sum", total), total
    for method in sorted(before.released.keys() & after.released.keys()):
        (w, claimed), (other, _) = before.released[method], after.released[method]
        if w.shape == other.shape:
            ratio = float(np.linalg.norm(w - other)) / claimed
            yield "release", says(f"{method}: what the curator adds noise to", ratio), ratio


def compare_colluders(record: RunRecord) -> Iterator[Measured]:
    """Check that enough noise remains unknown to t - 1 key holders, who know their own shares of it."""
    for name, (unknown, needed) in record.shares.items():
        evidence = f"{name}: t - 1 key holders leave {unknown:g} unknown, and the law takes {needed:g}"
        if needed:
            yield "colluders", evidence, needed / unknown if unknown > 0 else np.inf


def _unequal(first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


# -- the pipelines

_COMMANDS: dict[str, tuple[Callable[..., RunRecord], str]] = {
    "run": (run_job, "party"),
    "simulate tally": (partial(run_sums, simulate_tally, TallyOptions), "party"),
    "simulate average": (partial(run_sums, simulate_average, AverageOptions), "party"),
    "simulate psgd": (run_psgd, "record"),
    "simulate pathak": (run_pathak, "record"),
    "evaluate": (run_evaluation, "record"),
    **{f"study {name}": (partial(run_study, protocol=name), SPECS[name].unit) for name in SPECS},
}
"""How each command is run, and what its epsilon protects unless it is told."""


def command(words: str, **options: Any) -> Pipeline:
    """Return the pipeline of a command as it is typed, with the values of its options; `options`: further ones."""
    name, *given = words.split(" --")
    named: dict[str, Any] = {option.replace("-", "_"): value for option, value in map(str.split, given)}
    run, unit = _COMMANDS[name]
    unit, label = named.get("unit", unit), named.pop("label", "")
    for listed in {"learners", "text", "ignore"} & named.keys():
        named[listed] = tuple(named[listed].split(","))
    if name.startswith("study") and (unit == "record" or label):
        options["delta"] = 1e-6
    changes = NEIGHBOURS if unit == "party" else RECORDS
    if name in ("simulate psgd", "simulate pathak"):  # which state how many rows each party has
        changes = (RECORD,)
    if persons := named.get("record", ""):
        changes = (*of_persons(persons), *(neighbour for neighbour in RECORDS if neighbour.reorders))
    elif label:
        changes = (*changes, EXTREME_LABEL)
    return Pipeline(words, partial(run, **{**named, **options}), (*changes, NO_CHANGE), label=label)


OF_ANY_TABLE = (
    *(f"run --method {method}" for method in METHODS),
    "run --method statistic --reveal statistic",
    "run --method own-data --mechanism gaussian",
    "run --method vote-directions --mechanism gaussian",
    "run --method vote --learners tree,logistic",
    "simulate average",
    "evaluate",
    "evaluate --rows all",
    "evaluate --unit party",
)
OF_TWO_CLASSES = (
    "run --unit record",
    "run --unit record --mechanism discrete-laplace",
    "simulate psgd",
    "simulate psgd --variant gaussian",
    "simulate pathak",
)
OF_THE_SYNTHETIC_TABLE = (
    "simulate tally",
    "simulate tally --reveal statistic",
    "run --method own-data --other-labels drop",
    "run --method own-data --features products",
    "run --method vote --features landmarks --learners tree",
    "run --unit record --features fourier",
    "run --task regression --label score --features products",
    "evaluate --features products",
    "run --unit record --text code",
    "run --unit record --record ward",
    "run --unit record --record ward --mechanism discrete-laplace",
    "simulate tally --unit record --record ward",
    "evaluate --rows all --record ward",
    "run --task regression --label score",
    "run --task regression --unit record --label score",
    "evaluate --task regression --label score",
    "evaluate --task regression --rows all --label score",
    "evaluate --task regression --rows all --record ward --label score",
    "evaluate --task regression --unit party --label score",
    "study tally --method soft",
    "study statistic --method statistic",
    "study statistic --method own-data",
    "study statistic --method vote-directions",
    "study statistic --method whitened --dropouts 1",
    "study average --method avg",
    "study average --method whitened",
    "study average --method own-data --dropouts 1",
    "study average --method avg --dropouts 1",
    "study record --method newton",
    "study record --method newton --dropouts 1",
    "study record --method newton --rows 60 --record ward --ignore ward",
    "study regression --label score",
    "study regression --unit party --dropouts 1 --label score",
    "study regression --rows 60 --record ward --ignore ward --label score",
)


def pipelines(table: PartyTable, **options: Any) -> tuple[Pipeline, ...]:
    """Return the pipelines for any table with public rows or a schema; some need two classes."""
    words = (*OF_ANY_TABLE, *(OF_TWO_CLASSES if len(table.classes) == 2 else ()))
    return tuple(command(each, **({"held_out": 0.7} if each == "evaluate" else {}) | options) for each in words)


def default_pipelines() -> tuple[Pipeline, ...]:
    """Return the pipelines for the synthetic table: all of these, other options for tables, and studies of one sum."""
    return (
        *pipelines(synthetic_table()),
        *map(command, OF_THE_SYNTHETIC_TABLE),
        command("run --method own-data --features forest", copies=2),
        command("run --unit record --features auto", copies=2),
        command("run --method rehearsed", epsilon=(60.0,)),
        command("run --method rehearsed --mechanism gaussian", epsilon=(30.0,)),
        command("study rehearsed", epsilon=60.0),
        command("study head --radius 4 --dropouts 1", delta=1e-6),
        Pipeline("run, with nothing named as public", run_job, without_public=True, refuses=True),
        Pipeline("run --schema", run_by_schema, without_public=True),
        command("run --method auto", anyway=False, epsilon=(60.0,)),
        Pipeline("run --schema, stopped", _run_stopped, without_public=True, refuses=True),
    )


def audit_pipelines(
    table: PartyTable | None = None,
    chosen: Sequence[Pipeline] = (),
    *,
    seed: int = 0,
    progress: Progress = silent,
) -> Iterator[ComparedRun]:
    """Run each pipeline on a table and on each of its neighbours, and compare."""
    table = synthetic_table(seed) if table is None else table
    party = table.parties[seed % len(table.parties)]
    for pipeline in chosen or default_pipelines():
        step = counted(progress, pipeline.name, 1 + len(pipeline.neighbours))
        labelled = replace(table, label=pipeline.label or table.label)
        before = pipeline.record(labelled)
        step(1)
        if before.error is not None and not pipeline.refuses:
            raise before.error
        if pipeline.refuses and before.error is None:
            finding = Finding("refusal", "the table was not refused, though it names nothing that is public")
            yield ComparedRun(pipeline.name, "nothing", [finding])
        if before.shares:
            yield judged(pipeline.name, COLLUDERS, compare_colluders(before))
        for neighbour in pipeline.neighbours:
            step(1)
            other = neighbour.of(labelled, party, seed)
            if other is labelled:  # the change does not apply to this table
                continue
            after, changes = pipeline.record(other), neighbour is not NO_CHANGE
            measured = list(compare(before, after, party, pipeline.select(other), changes=changes))
            if neighbour.reorders and any(ratio for _, _, ratio in measured):
                measured.append(("order", "the sum over the party's rows depends on their order", None))
            yield judged(pipeline.name, neighbour.name, measured)
