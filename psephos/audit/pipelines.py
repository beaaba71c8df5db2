"""Record what leaves a party, and what is written for the public, when a command runs on a table.

A pipeline calls what the command calls or, for a study, the members' roles under a dealt key. Keys are short, and the
noise comes from a fixed seed, so that it drops out of the difference of two tables.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.audit.adversary import Replacements, Tampering
from psephos.audit.neighbours import SCHEMA, PartyTable
from psephos.curator.ledger import Release
from psephos.curator.psgd.agreement import agree
from psephos.data.own import OwnTable
from psephos.data.partition import load_split
from psephos.data.splits import Split
from psephos.model import MODEL_FILE, Model, RegressionModel, ReleasedClassifier, ReleasedRegressor
from psephos.progress import silent
from psephos.protocol.encrypted_sum.opened import OpenedSum
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import PsephosError
from psephos.protocol.pathak.noise import record_sensitivity
from psephos.protocol.roles import Step
from psephos.protocol.storage.store import OnceLedger
from psephos.protocol.transcript import Transcript
from psephos.simulation.evaluation import EvaluationOptions, EvaluationRun
from psephos.simulation.job import Job
from psephos.simulation.key_setup import setup_keys
from psephos.simulation.options import JobOptions, SumOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.regression import RegressionRun
from psephos.simulation.sums import populate
from psephos.specs.base import SumSpec
from psephos.specs.registry import SPECS, participants_of, spec_of
from psephos.specs.study import StudyTerms
from psephos.study.builder import NewOptions, make_study
from psephos.study.card import card
from psephos.study.identity import Identity, fingerprint
from psephos.study.member import sign
from psephos.study.release import make_release, read_release

Vector = tuple[int, ...]

SETTINGS: Mapping[str, Any] = {"key_bits": 256, "test_key": True, "simulate_noise": True, "held_out": 0.2}
"""Options of all runs: short keys, and noise from the seed. Nothing that is compared depends on either."""

PUBLIC_FILES = (MODEL_FILE, "card.md", "model.onnx")
"""The public files of `psephos run`."""

DERIVED_FIELDS = ("coefficients", "intercepts", "intercept")
"""Fields of a model file that are functions of the noisy result, as is `signal` in its release."""

DERIVED_TENSORS = ("weights", "intercepts", "coefficients", "intercept")
"""Tensors of an ONNX model that are functions of the noisy result."""

DERIVED_LINES = re.compile(
    r"right on [\d.]+% of the public rows"
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
    """A command that is run on a table."""

    name: str
    unit: str
    run: Callable[[PartyTable, Path], RunRecord]
    without_public: bool = False
    refuses: bool = False
    private_sizes: bool = False
    persons: str = ""
    label: str = ""

    def labelled(self, table: PartyTable) -> PartyTable:
        return replace(table, label=self.label) if self.label else table

    def select(self, table: PartyTable) -> PartyTable:
        table = self.labelled(table)
        return table.private if self.without_public else table

    def record(self, table: PartyTable, directory: Path) -> RunRecord:
        """Run the command and record the run, or the error with which it was refused."""
        directory.mkdir(parents=True)
        try:
            return self.run(self.select(table), directory)
        except PsephosError as error:
            return RunRecord(error=error)


def _options(table: PartyTable, directory: Path, defaults: Mapping[str, Any], chosen: Mapping[str, Any]) -> Any:
    """Write the table to the directory; return the options with which a command reads it."""
    path = table.write(directory / "table.csv")
    named = {"data": str(path), "label": table.label, "party": table.party, "public": table.public or None}
    return {**SETTINGS, **defaults, **named, **chosen}


# -- encrypted sums


def run_job(table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run `psephos run` and record its files as well. `chosen`: fields of `JobOptions`."""
    options = JobOptions(**_options(table, directory, {"workers": 1}, chosen))
    if options.task == "regression":
        run = RegressionRun(options)
        done, record = _record_run(run, "regression")
        run.write(*run.release(done), directory, onnx=has_onnx())
    else:
        job, transcript = Job(options), Transcript(secrets=True)
        result = job.run(transcript=transcript)
        job.write(result, directory, onnx=has_onnx())
        record = _of_sums(job.options, job.split, transcript, result)
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
        record.own["parameters"][name] = digest_of(population.parameters[number])
    for phase, round_, contribution, vectors in result.evaluation.contributions:
        named = {names[n]: vector for n, vector in vectors.items()}
        record_sum(record, phase, round_, contribution.spec, named, _unknown(options))
    joint = {phase.split()[-1] for phase in record.shares}
    for one in result.evaluation.scores:
        release = result.privacy.get(one.method)
        if one.epsilon is None or one.w is None or release is None or one.method in joint:
            continue
        if one.method in ("vote", "soft", "avg"):  # the noise is in the classifier
            record.released[one.method] = one.w, float(release.sensitivity or 0.0)
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


def _fixed_model(options: EvaluationOptions, split: Split) -> ReleasedClassifier | ReleasedRegressor:
    assert split.encoding is not None
    classes, public = split.dataset.classes, np.asarray(split.X_auxiliary, dtype=np.float64)
    rows = len(classes) if len(classes) > 2 else 1
    weights = np.random.default_rng(0).normal(size=(rows, public.shape[1]))
    weights /= np.abs(public).max(axis=0) + 1.0
    common: dict[str, Any] = {
        "psephos_model": 1,
        "encoding": split.encoding,
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


def run_evaluation(table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run `psephos evaluate` on a model whose coefficients are fixed numbers."""
    options = EvaluationOptions(**_options(table, directory, {"workers": 1, "epsilon": 1.0}, chosen))
    run = EvaluationRun(options, _fixed_model(*load_split(options)))
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


def has_onnx() -> bool:
    try:
        import onnx  # noqa: F401
    except ImportError:
        return False
    return True


def public_files(model: bytes | str, card: str) -> dict[str, Any]:
    """Return place -> content of a model file and its card, without what is a function of the noisy result."""
    fields = {name: value for name, value in json.loads(model).items() if name not in DERIVED_FIELDS}
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
            if constant.name in DERIVED_TENSORS:
                constant.ClearField("raw_data")
        contents["model.onnx"] = str(network)
    return contents
