"""Record what leaves a party in gradient descent, in Pathak's averaging, in regression, and in private evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from psephos.audit.adversary import Replacements, Tampering
from psephos.audit.neighbours import PartyTable
from psephos.audit.pipelines import (
    SETTINGS,
    Bound,
    RunRecord,
    add_files,
    digest_of,
    has_onnx,
    messages_of,
    record_sum,
    table_options,
)
from psephos.curator.ledger import Release
from psephos.curator.psgd.agreement import agree
from psephos.data.own import OwnTable
from psephos.data.partition import load_split
from psephos.model import Model, ReleasedClassifier
from psephos.protocol.pathak.noise import record_sensitivity
from psephos.protocol.roles import Step
from psephos.protocol.transcript import Transcript
from psephos.simulation.evaluation import EvaluationOptions, EvaluationRun
from psephos.simulation.job import JobOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.regression import RegressionRun

__all__ = ["run_evaluation", "run_pathak", "run_psgd", "run_regression"]


def _observing(names: Sequence[str]) -> tuple[dict[str, Any], Replacements]:
    """Return a mapping that a run fills, name -> role and its latest result, and the replacements that fill it."""
    results: dict[str, Any] = {}

    class Observed(Tampering):
        def observe(self, step: Step) -> None:
            results[self.name] = self.honest, self.honest.result(step.state)

    return results, dict.fromkeys(names, Observed)


def run_psgd(table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run the first step of `psephos simulate psgd`; later steps start from a public point."""
    settings = {**SETTINGS, "lam": 0.1, "epsilon": 1.0, "steps": 1, **table_options(table, directory), **chosen}
    options, split = load_split(PsgdOptions(**settings))
    names, transcript = OwnTable(options).owners, Transcript(secrets=True)
    results, roles = _observing([f"party {number}" for number in range(options.parties)])
    result = simulate_psgd(options, data=split, roles=roles, transcript=transcript)
    record, phase = RunRecord(roster=names, messages=messages_of(transcript)), "gradients"
    for number, name in enumerate(names):
        party, account = results[f"party {number}"]
        record.vectors.setdefault(phase, {})[name] = account.vector
        record.local[name] = {"rows": digest_of(*split.party(number))}
    series = party.terms.series
    record.bounds[phase] = Bound(l2=result.gradient_sensitivity / series.pitch)
    record.terms[phase] = replace(series, nonce=bytes(16)), tuple(result.party_sizes)
    # Every party knows its own share; the variant "gaussian" does not count it already.
    colluders = max(0, options.opening_threshold - 1 - (options.variant == "gaussian"))
    needed = agree(replace(options, colluders=colluders), result.party_sizes, result.features, bytes(16)).series
    record.shares["fresh noise of a share"] = series.step_scale, needed.step_scale
    record.shares["fixed noise of a share"] = min(series.fixed_sigmas), min(needed.fixed_sigmas)
    return record


def run_pathak(table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run `psephos simulate pathak` with noise for a public number of rows."""
    settings = {**SETTINGS, "lam": 0.1, "epsilon": 1.0, **table_options(table, directory), **chosen}
    options, split = load_split(PathakOptions(**settings))
    names, transcript = OwnTable(options).owners, Transcript(secrets=True)
    results, roles = _observing([f"party {number}" for number in range(options.parties)])
    simulate_pathak(options, data=split, roles=roles, transcript=transcript)
    record, phase = RunRecord(roster=names, messages=messages_of(transcript)), "parameters"
    for number, name in enumerate(names):
        party, contribution = results[f"party {number}"]
        sent = [w + e for w, e in zip(contribution.parameters, contribution.noise[0], strict=True)]
        record.vectors.setdefault(phase, {})[name] = tuple(sent)
        record.local[name] = {"rows": digest_of(*split.party(number))}
    terms = party.terms
    root = float(np.sqrt(terms.features))
    sensitivity = record_sensitivity(terms, terms.smallest_size) / terms.pitch
    # Both vectors are rounded to the grid, which moves each entry by up to half a unit.
    record.bounds[phase] = Bound(root * sensitivity + terms.features, sensitivity + root)
    record.terms[phase] = replace(terms, nonce="0" * 32)
    return record


def run_regression(table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run `psephos run --task regression` and record its files as well. `chosen`: fields of `JobOptions`."""
    settings = {**SETTINGS, "workers": 1, "task": "regression", **table_options(table, directory), **chosen}
    run, transcript = RegressionRun(JobOptions(**settings)), Transcript(secrets=True)
    names, options = OwnTable(run.options).owners, run.options
    done = run.sum(transcript=transcript)
    run.write(*run.release(done), directory, onnx=has_onnx())
    record = RunRecord(roster=names, messages=messages_of(transcript))
    for number, name in enumerate(names):
        record.local[name] = {"rows": digest_of(*run.rows_of(number))}
    unknown = options.parties - options.dropouts - (options.opening_threshold - 1)
    vectors = {names[number]: vector for number, vector in done.vectors.items()}
    record_sum(record, "regression", done.round, run.spec, vectors, unknown)
    add_files(record, directory)
    return record


def run_evaluation(table: PartyTable, directory: Path, **chosen: Any) -> RunRecord:
    """Run `psephos evaluate` on a classifier whose coefficients are fixed numbers."""
    settings = {**SETTINGS, "workers": 1, "epsilon": 1.0, **table_options(table, directory), **chosen}
    options, split = load_split(EvaluationOptions(**settings))
    assert split.encoding is not None
    width, classes = len(split.encoding.features), split.dataset.classes
    weights = np.random.default_rng(0).normal(size=(1 if len(classes) == 2 else len(classes), width))
    weights /= np.abs(split.X_auxiliary).max(axis=0) + 1.0
    model = Model(
        psephos_model=1,
        classes=classes,
        encoding=split.encoding,
        coefficients=tuple(map(tuple, weights.tolist())),
        intercepts=(0.0,) * len(weights),
        method="fixed",
        parties=options.parties,
        release=Release("discrete-laplace", 1.0, 0.0, options.unit),
    )
    run, transcript = EvaluationRun(EvaluationOptions(**settings), ReleasedClassifier(model)), Transcript(secrets=True)
    done = run.sum(transcript=transcript)
    names = OwnTable(run.options).owners
    record = RunRecord(roster=names, messages=messages_of(transcript))
    for number, name in enumerate(names):
        record.local[name] = {"rows": digest_of(*run.rows_of(number)[:2])}
    vectors = {names[number]: vector for number, vector in done.vectors.items()}
    unknown = run.options.parties - run.options.dropouts - (run.options.opening_threshold - 1)
    record_sum(record, "histogram", done.round, run.spec, vectors, unknown)
    record.files = {f"cautions: {place}": text for place, text in enumerate(run.cautions)}
    return record
