"""What leaves a party, and what is written for the public, in whole runs of the shipping commands on a table.

Every pipeline is a function of a table and a directory to write in. It calls what the command calls: `Job` for
`psephos run`, the `simulate_*` functions for `psephos simulate`, and for a study what its members play. Keys are short
and the noise comes from a fixed seed, so that it is the same for two tables and drops out of their difference.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.audit.neighbours import SCHEMA, PartyTable
from psephos.curator.hamm.statistic import grid_sensitivity
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
from psephos.simulation.sums import SumOptions, populate
from psephos.specs.average import OwnDataSpec
from psephos.specs.base import SumSpec
from psephos.specs.statistic import StatisticSpec
from psephos.specs.tally import TallySpec

__all__ = [
    "SETTINGS",
    "Bound",
    "Pipeline",
    "Seen",
    "by_schema",
    "contributed",
    "digest_of",
    "main_job",
    "messages_of",
    "public_files",
    "read_by",
    "simulated_sums",
]

Vector = tuple[int, ...]

SETTINGS: Mapping[str, Any] = {"key_bits": 256, "test_key": True, "simulate_noise": True, "held_out": 0.2}
"""Keys that protect nothing, and noise from the seed: nothing that is compared depends on either."""

PUBLIC_FILES = (MODEL_FILE, "card.md", "model.onnx")
"""What `psephos run` writes for everybody."""

DERIVED_FIELDS = ("coefficients", "intercepts")
"""Fields of a model that are functions of the noisy result; so is `signal` in its release."""

DERIVED_TENSORS = ("weights", "intercepts")
"""The same in ONNX."""

DERIVED_LINES = re.compile(
    r"right on [\d.]+% of the public rows"
    r"|signal, from this release"
    r"|The noise hides what was learned"
)
"""Lines of a card, and warnings of a model, that are functions of the noisy result and public rows."""


@dataclass(frozen=True)
class Bound:
    """How far a plan says that one party, or one record, can move a vector, in the vector's units.

    Attributes:
        l1, l2: of the vector; infinite where the plan says nothing.
        votes: entries to a vote, where the vector holds votes: then only the number of changed votes counts.
    """

    l1: float = np.inf
    l2: float = np.inf
    votes: int = 0

    def ratio(self, moved: NDArray[Any]) -> float:
        """The largest of moved/claimed. `moved`: the difference of two vectors, (D,)."""
        if self.votes:
            changed = np.any(moved.reshape(-1, self.votes) != 0, axis=1)
            return float(changed.mean())
        lengths = moved.astype(np.float64)
        return float(max(np.abs(lengths).sum() / self.l1, np.linalg.norm(lengths) / self.l2))


@dataclass
class Seen:
    """What one run showed, to somebody or to nobody. Secrets.

    Attributes:
        roster: names of the parties, in order.
        local: by name, what each party computed and did not send: digests of its rows and of its parameters.
        vectors: by sum and by name, what each party encrypted.
        bounds: by sum, what one party may change.
        released: by method, the classifier with the curator's noise, and how far one party may move it in L2.
        terms: by sum, what is public about it.
        files: by place, what public files say that is no function of the noisy result.
        whole: by file, a digest of all that it says.
        messages: sender, receiver, kind and length of each.
        shares: by sum, how many shares of the noise t - 1 holders leave unknown, and how many make up the law.
        error: why the run was refused.
    """

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
    """One way in which a table is worked on.

    Attributes:
        name: the command.
        unit: what it protects: everything of a "party", or a "record".
        run: from a table and an empty directory.
        without_public: whether the table is handed over without its public rows.
        refuses: whether it must refuse every table.
    """

    name: str
    unit: str
    run: Callable[[PartyTable, Path], Seen]
    without_public: bool = False
    refuses: bool = False

    def given(self, table: PartyTable) -> PartyTable:
        """Those rows of the table that it works on."""
        return table.private if self.without_public else table

    def see(self, table: PartyTable, directory: Path) -> Seen:
        """Run it; what it refuses is noted."""
        directory.mkdir(parents=True)
        try:
            return self.run(self.given(table), directory)
        except PsephosError as error:
            return Seen(error=error)


def read_by(table: PartyTable, directory: Path) -> dict[str, Any]:
    """The options by which a command reads the table, which is written to the directory."""
    path = table.write(directory / "table.csv")
    return {"data": str(path), "label": table.label, "party": table.party, "public": table.public or None}


# -- encrypted sums


def main_job(table: PartyTable, directory: Path, **asked: Any) -> Seen:
    """`psephos run`, and the files that it writes. `asked`: options of `JobOptions`."""
    options = JobOptions(**{**SETTINGS, "workers": 1, **read_by(table, directory), **asked})
    job, transcript = Job(options), Transcript(secrets=True)
    result = job.run(transcript=transcript)
    job.write(result, directory, onnx=_has_onnx())
    seen = _of_sums(job.options, job.split, transcript, result)
    seen.files = _written(directory)
    for name in PUBLIC_FILES:
        if (path := directory / name).exists():
            seen.whole[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return seen


def by_schema(table: PartyTable, directory: Path, **asked: Any) -> Seen:
    """`psephos run` on the made-up table without public rows, with its schema in their place."""
    schema = directory / "schema.toml"
    schema.write_text(SCHEMA, encoding="utf-8")
    return main_job(table, directory, schema=str(schema), **asked)


def simulated_sums(simulate: Any, kind: type[SumOptions], table: PartyTable, directory: Path, **asked: Any) -> Seen:
    """`psephos simulate tally` or `average`: `simulate` with options of the class `kind`."""
    options, split = load_split(kind(**{**SETTINGS, "workers": 1, "draws": 1, **read_by(table, directory), **asked}))
    transcript = Transcript(secrets=True)
    return _of_sums(options, split, transcript, simulate(options, data=split, transcript=transcript))


def _of_sums(options: SumOptions, split: Split, transcript: Transcript, result: SumResult) -> Seen:
    names = OwnTable(options).owners
    population = populate(options, split, silent)
    seen = Seen(roster=names, messages=messages_of(transcript))
    for number, (name, (X, y)) in enumerate(zip(names, population.rows(), strict=True)):
        seen.local[name] = {"rows": digest_of(X, y), "parameters": digest_of(population.parameters[number])}
    unknown = options.parties - getattr(options, "dropouts", 0) - (options.opening_threshold - 1)
    for phase, round_, contribution, vectors in result.evaluation.contributions:
        contributed(
            seen, phase, round_, contribution.spec, {names[n]: vector for n, vector in vectors.items()}, unknown
        )
    joint = {phase.split()[-1] for phase in seen.shares}
    for one in result.evaluation.scores:
        release = result.privacy.get(one.method)
        if one.epsilon is None or one.w is None or release is None or one.method in joint:
            continue
        if one.method in ("vote", "soft", "avg"):  # to these the noise is added as they are
            seen.released[one.method] = one.w, float(release.sensitivity or 0.0)
    return seen


def contributed(
    seen: Seen, name: str, round_: Round, spec: SumSpec, vectors: Mapping[str, Vector], unknown: int
) -> None:
    """Record one sum: its terms, every party's vector, and what the specification claims of them.

    Args:
        name: of the sum.
        round_, spec: of the sum.
        vectors: what each party encrypted.
        unknown: shares of the noise that t - 1 key holders do not know.
    """
    shares = spec.shares if isinstance(spec, StatisticSpec) else None
    plan = round_.plan
    public = (plan.length, plan.minimum, plan.maximum, plan.addends, round_.minimum_ballots, round_.proofs)
    seen.terms[name] = (round_.kind, round_.context.hex(), *public, shares)
    seen.vectors[name] = dict(vectors)
    if isinstance(spec, TallySpec):
        seen.bounds[name] = Bound(votes=spec.classes - 1)
    elif isinstance(spec, StatisticSpec | OwnDataSpec):
        l1, l2 = grid_sensitivity(spec.plan.grid)
        seen.bounds[name] = Bound(l1.value, l2.value)
    else:
        # A vector in a ball: its radius is the largest entry that the plan allows.
        seen.bounds[name] = Bound(l2=2.0 * plan.maximum)
    if isinstance(shares, Shares):
        seen.shares[name] = unknown, shares.contributors


def messages_of(transcript: Transcript) -> list[tuple[str, str, str, int]]:
    """Sender, receiver, kind and length of every message."""
    return [(message.sender, message.receiver, message.kind, message.size) for message in transcript.messages]


def digest_of(*arrays: NDArray[Any]) -> str:
    """Of the shapes, types and bytes of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr((array.shape, array.dtype)).encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


# -- public files


def _has_onnx() -> bool:
    try:
        import onnx  # noqa: F401
    except ImportError:
        return False
    return True


def public_files(model: bytes | str, card: str) -> dict[str, Any]:
    """What a model and its card say, by file and place, without what is a function of the noisy result."""
    fields = {name: value for name, value in json.loads(model).items() if name not in DERIVED_FIELDS}
    fields["release"].pop("signal", None)
    fields["warnings"] = [text for text in fields["warnings"] if not DERIVED_LINES.search(text)]
    lines = [line for line in card.splitlines() if line and not DERIVED_LINES.search(line)]
    found = {f"{MODEL_FILE}: {name}": value for name, value in fields.items()}
    return found | {f"card.md: line {number}": line for number, line in enumerate(lines, 1)}


def _written(directory: Path) -> dict[str, Any]:
    """The same of the files that `psephos run` wrote, the ONNX model too."""
    found = public_files((directory / MODEL_FILE).read_bytes(), (directory / "card.md").read_text(encoding="utf-8"))
    if (path := directory / "model.onnx").exists():
        import onnx

        network = onnx.load(path)
        for constant in network.graph.initializer:
            if constant.name in DERIVED_TENSORS:
                constant.ClearField("raw_data")
        found["model.onnx"] = str(network)
    return found
