"""Record what leaves a party, and what is written for the public, when a command runs on a table.

A pipeline is a function of a table and of a directory for its files. It calls what the command calls: `Job` for
`psephos run`, the `simulate_*` functions for `psephos simulate`, and the members' roles for a study. Keys are short,
and the noise comes from a fixed seed, so that it is equal for two tables and drops out of their difference.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.audit.neighbours import SCHEMA, PartyTable
from psephos.curator.evaluation import evaluation_sensitivity
from psephos.curator.statistic import grid_sensitivity
from psephos.data.own import OwnTable
from psephos.data.partition import load_split
from psephos.data.splits import Split
from psephos.model import MODEL_FILE
from psephos.parties.noise import Shares
from psephos.progress import silent
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import PsephosError
from psephos.protocol.transcript import Transcript
from psephos.results.runs import SumResult
from psephos.simulation.job import Job, JobOptions
from psephos.simulation.sum_options import SumOptions
from psephos.simulation.sums import populate
from psephos.specs.average import OwnDataSpec
from psephos.specs.base import SumSpec
from psephos.specs.evaluation import EvaluationSpec
from psephos.specs.record import RecordSpec
from psephos.specs.rehearsed import RehearsedSpec
from psephos.specs.statistic import StatisticSpec
from psephos.specs.tally import TallySpec

__all__ = [
    "SETTINGS",
    "Bound",
    "Pipeline",
    "RunRecord",
    "add_files",
    "digest_of",
    "has_onnx",
    "messages_of",
    "public_files",
    "record_sum",
    "run_by_schema",
    "run_job",
    "run_sums",
    "table_options",
]

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


@dataclass(frozen=True)
class Bound:
    """A plan's claim of how much one party, or one record, can change a vector, in units of the vector."""

    l1: float = np.inf
    l2: float = np.inf
    votes: int = 0

    def ratio(self, change: NDArray[Any]) -> float:
        """Return the largest ratio of a change to its bound; `change`: the difference of two vectors, (D,)."""
        if self.votes:
            changed = np.any(change.reshape(-1, self.votes) != 0, axis=1)
            return float(changed.mean())
        lengths = change.astype(np.float64)
        return float(max(np.abs(lengths).sum() / self.l1, np.linalg.norm(lengths) / self.l2))


@dataclass
class RunRecord:
    """What is recorded of one run, public or private. It contains secrets."""

    roster: tuple[str, ...] = ()
    local: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    vectors: dict[str, dict[str, Vector]] = field(default_factory=dict, repr=False)
    bounds: dict[str, Bound] = field(default_factory=dict)
    released: dict[str, tuple[NDArray[np.float64], float]] = field(default_factory=dict, repr=False)
    terms: dict[str, Any] = field(default_factory=dict, repr=False)
    files: dict[str, Any] = field(default_factory=dict, repr=False)
    whole: dict[str, str] = field(default_factory=dict, repr=False)
    messages: list[tuple[str, str, str, int]] = field(default_factory=list, repr=False)
    shares: dict[str, tuple[float, float]] = field(default_factory=dict)
    error: PsephosError | None = None


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
        """Return the table with the label that the command predicts."""
        return replace(table, label=self.label) if self.label else table

    def select(self, table: PartyTable) -> PartyTable:
        """Return the table with the rows and the label that the command gets."""
        table = self.labelled(table)
        return table.private if self.without_public else table

    def record(self, table: PartyTable, directory: Path) -> RunRecord:
        """Run the command and record the run, or the error with which it was refused."""
        directory.mkdir(parents=True)
        try:
            return self.run(self.select(table), directory)
        except PsephosError as error:
            return RunRecord(error=error)


def table_options(table: PartyTable, directory: Path) -> dict[str, Any]:
    """Write the table to the directory; return the options with which a command reads it."""
    path = table.write(directory / "table.csv")
    return {"data": str(path), "label": table.label, "party": table.party, "public": table.public or None}


# -- encrypted sums


def run_job(table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run `psephos run` and record its files as well. `chosen`: fields of `JobOptions`."""
    options = JobOptions(**{**SETTINGS, "workers": 1, **table_options(table, directory), **chosen})
    job, transcript = Job(options), Transcript(secrets=True)
    result = job.run(transcript=transcript)
    job.write(result, directory, onnx=has_onnx())
    record = _of_sums(job.options, job.split, transcript, result)
    add_files(record, directory)
    return record


def add_files(record: RunRecord, directory: Path) -> None:
    """Record the public files of a run."""
    record.files = _written(directory)
    for name in PUBLIC_FILES:
        if (path := directory / name).exists():
            record.whole[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def run_by_schema(table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run `psephos run` on the synthetic table with a schema in place of public rows."""
    schema = directory / "schema.toml"
    schema.write_text(SCHEMA, encoding="utf-8")
    return run_job(table, directory, schema=str(schema), **chosen)


def run_sums(simulate: Any, kind: type[SumOptions], table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run `psephos simulate tally` or `average`: the function `simulate` with options of the class `kind`."""
    settings = {**SETTINGS, "workers": 1, "draws": 1, **table_options(table, directory), **chosen}
    options, split = load_split(kind(**settings))
    transcript = Transcript(secrets=True)
    return _of_sums(options, split, transcript, simulate(options, data=split, transcript=transcript))


def _of_sums(options: SumOptions, split: Split, transcript: Transcript, result: SumResult) -> RunRecord:
    """Record a run of encrypted sums."""
    names = OwnTable(options).owners
    population = populate(options, split, silent)
    record = RunRecord(roster=names, messages=messages_of(transcript))
    for number, (name, (X, y)) in enumerate(zip(names, population.rows(), strict=True)):
        record.local[name] = {"rows": digest_of(X, y), "parameters": digest_of(population.parameters[number])}
    unknown = options.parties - getattr(options, "dropouts", 0) - (options.opening_threshold - 1)
    for phase, round_, contribution, vectors in result.evaluation.contributions:
        record_sum(
            record, phase, round_, contribution.spec, {names[n]: vector for n, vector in vectors.items()}, unknown
        )
    joint = {phase.split()[-1] for phase in record.shares}
    for one in result.evaluation.scores:
        release = result.privacy.get(one.method)
        if one.epsilon is None or one.w is None or release is None or one.method in joint:
            continue
        if one.method in ("vote", "soft", "avg"):  # the noise is in the classifier
            record.released[one.method] = one.w, float(release.sensitivity or 0.0)
    return record


def record_sum(
    record: RunRecord, name: str, round_: Round, spec: SumSpec, vectors: Mapping[str, Vector], unknown: int
) -> None:
    """Record one sum: its terms, every party's vector, and the bounds that the specification claims."""
    shares = spec.shares if isinstance(spec, StatisticSpec | RecordSpec | RehearsedSpec | EvaluationSpec) else None
    plan = round_.plan
    public = (plan.length, plan.minimum, plan.maximum, plan.addends, round_.minimum_ballots, round_.proofs)
    record.terms[name] = (round_.kind, round_.context.hex(), *public, shares)
    record.vectors[name] = dict(vectors)
    if isinstance(spec, TallySpec):
        record.bounds[name] = Bound(votes=spec.classes - 1)
    elif isinstance(spec, EvaluationSpec):
        record.bounds[name] = Bound(evaluation_sensitivity(spec.release_plan.grid).value)
    elif isinstance(spec, RecordSpec | RehearsedSpec):
        record.bounds[name] = Bound(spec.release_plan.l1.value, spec.release_plan.l2.value)
    elif isinstance(spec, StatisticSpec | OwnDataSpec):
        l1, l2 = grid_sensitivity(spec.release_plan.grid)
        record.bounds[name] = Bound(l1.value, l2.value)
    else:
        # The vector lies in a ball whose radius is the largest entry that the plan allows.
        record.bounds[name] = Bound(l2=2.0 * plan.maximum)
    if isinstance(shares, Shares):
        record.shares[name] = unknown, shares.contributors


def messages_of(transcript: Transcript) -> list[tuple[str, str, str, int]]:
    """Return the sender, receiver, kind and length of every message."""
    return [(message.sender, message.receiver, message.kind, message.size) for message in transcript.messages]


def digest_of(*arrays: NDArray[Any]) -> str:
    """Return a digest of the shapes, types and bytes of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr((array.shape, array.dtype)).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


# -- public files


def has_onnx() -> bool:
    """Return whether models can be written as ONNX."""
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
