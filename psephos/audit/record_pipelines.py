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
from psephos.data.splits import Split
from psephos.model import Model, RegressionModel, ReleasedClassifier, ReleasedRegressor
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


def _fixed_model(options: EvaluationOptions, split: Split) -> ReleasedClassifier | ReleasedRegressor:
    """Return a model of a table, from its encoding and public rows."""
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
    if not options.numeric_label:
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
    settings = {**SETTINGS, "workers": 1, "epsilon": 1.0, **table_options(table, directory), **chosen}
    evaluated = _fixed_model(*load_split(EvaluationOptions(**settings)))
    run, transcript = EvaluationRun(EvaluationOptions(**settings), evaluated), Transcript(secrets=True)
    done = run.sum(transcript=transcript)
    names = OwnTable(run.options).owners
    record = RunRecord(roster=names, messages=messages_of(transcript))
    for number, name in enumerate(names):
        record.local[name] = {"rows": digest_of(*run.rows_of(number)[:2])}
    vectors = {names[number]: vector for number, vector in done.vectors.items()}
    unknown = run.options.parties - run.options.dropouts - (run.options.opening_threshold - 1)
    record_sum(record, "errors" if run.options.numeric_label else "histogram", done.round, run.spec, vectors, unknown)
    record.files = {f"cautions: {place}": text for place, text in enumerate(run.cautions)}
    return record
