"""The job of `psephos run`: read a table, release one private classifier, and write it with its card and its result.

It is a tally (`psephos.simulation.tally`) with one release by one method, which opens only what that method needs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np

from psephos.curator.hamm.release import OutputNoise
from psephos.curator.hamm.rules import (
    RidgeRule,
    average_noise_share,
    suggest_method,
)
from psephos.curator.losses import loss_named
from psephos.data.partition import load_split
from psephos.data.schema import WIDEST
from psephos.data.tables import Column, Encoding
from psephos.files import write_atomically
from psephos.model import MODEL_FILE, Model, RegressionModel, ReleasedClassifier, write_onnx, written_model
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.protocol.errors import InvalidParameter, ModelError
from psephos.results import Result, TallyResult
from psephos.results.card import model_card
from psephos.simulation.options import LABELLED_METHODS, RECORD_METHODS, JobOptions
from psephos.simulation.run import RunContext
from psephos.simulation.tally import simulate_tally
from psephos.specs.statistic import plan_of
from psephos.specs.tally import LABELS
from psephos.specs.terms import PublicTerms


class Job:
    """One run of the main job; `options` have the chosen `method`, learners and value of `reveal`."""

    def __init__(self, options: JobOptions, *, beside: Sequence[str] = ()) -> None:
        """Read the data, assign rows to parties, and choose the method from public values."""
        if options.task == "regression":
            raise InvalidParameter("a regression is a RegressionRun (psephos.simulation.regression)")
        options, self.split = load_split(options)
        options = options.for_labels(self.split.labelled)
        self.method = options.chosen_method
        self.options = replace(
            options,
            methods=(self.method, *beside),
            learners=options.local_learners,
            reveal="statistic" if options.joint else None if self.method == "avg" else "alpha",
        )

    @property
    def warnings_about_data(self) -> list[str]:
        """The warnings about how the table was read; `data_summary` ends with them."""
        return [] if self.split.encoding is None else [*self.split.cautions, *self.split.private_remarks]

    @property
    def data_summary(self) -> list[str]:
        """Describe how the table was read, in lines that a user reads before anything is computed."""
        split = self.split
        if split.encoding is None:
            return []
        public = "samples drawn from the schema" if split.schema == "samples" else "public rows"
        units = "parties" if self.options.party is not None else "shards dealt at random"
        counts = f"{len(split.parties)} {units}, {len(split.auxiliary)} {public}, {split.sizes.sum()} private rows"
        tested = f" and {len(split.test)} held out to measure on"
        lines = [f"{split.dataset.name}: {counts}{tested}; classes {', '.join(split.dataset.classes)}"]
        lines += [f"  {name}: {words}" for name, words in split.encoding.summary]
        warnings = [f"WARNING: {text}" for text in self.warnings_about_data]
        return [*lines, *warnings]

    def run(self, **context: Unpack[RunContext]) -> TallyResult:
        context["data"] = self.split
        result = simulate_tally(self.options, **context)
        return replace(result, cautions=[*self.split.cautions, *self.split.private_remarks])

    def advice(self, result: TallyResult) -> str:
        """Return a line that recommends another method, chosen from public values only, or "" if none is better."""
        release, scaler = result.privacy[self.method], result.evaluation.scaler
        public, classes = scaler.transform(self.split.X_auxiliary), len(self.split.dataset.classes)
        noise_share = 0.0
        if self.method == "statistic":
            terms = PublicTerms(auxiliary=AuxiliarySet(public), classes=classes, parties=result.parties)
            privacy = self.options.privacy(result.epsilon)
            plan = plan_of(terms, privacy, self.options.noise, joint=self.options.joint)
            noise_share = math.sqrt(plan.noise)
        elif self.method in LABELS:
            loss = loss_named(self.options.loss, classes)
            noise: OutputNoise = "gaussian" if self.options.noise == "gaussian" else "spherical-laplace"
            noise_share = RidgeRule.of(public, classes, loss, private=self.options.protect_auxiliary).noise_share(
                float(release.chosen["lam"]), release.sensitivity or 0.0, result.epsilon, noise, self.options.delta
            )
        may_step = self.options.unit == "party" and self.options.noise_from == "parties"
        labelled = self.split.labelled if may_step else 0
        averaged = math.inf  # averaging opens the exact sum: no advice for runs that open none
        if classes == 2 and not self.options.joint and self.options.noise != "gaussian":
            averaged = average_noise_share(public.shape[1], classes, result.parties, result.epsilon)
        learners = self.options.local_learners
        suggestion = suggest_method(self.method, learners, result.parties, noise_share, labelled, averaged)
        return (
            "" if suggestion is None else f"--method {suggestion[0]} would suit these parties better: {suggestion[1]}."
        )

    def model(self, result: TallyResult) -> Model:
        if self.split.dataset.features > WIDEST:
            raise InvalidParameter(
                f"a model file has at most {WIDEST:,} features, and these data have more: leave columns out"
            )
        coefficients, intercepts = result.evaluation.scaler.fold(np.atleast_2d(result.weights[self.method]))
        released = result.privacy[self.method]  # warnings about other methods' releases are not this model's
        return Model(
            psephos_model=1,
            classes=self.split.dataset.classes,
            encoding=self._encoding(),
            coefficients=tuple(map(tuple, coefficients.tolist())),
            intercepts=tuple(intercepts.tolist()),
            method=self.method,
            parties=result.parties if result.asked else 0,
            release=released,
            warnings=tuple(replace(result, cautions=[], privacy={self.method: released}).page().warnings),
        )

    def write(self, result: TallyResult, directory: Path, *, onnx: bool = False) -> list[Path]:
        """Write a result of `run` into a directory that exists; see `write_release`."""
        model = self.model(result)
        card = model_card(model, result, self.split, self._right_in_public(model))
        return write_release(directory, model, card, result, onnx=onnx)

    def _encoding(self) -> Encoding:
        """Return how a table with these features is encoded; all features of a published data set are numbers."""
        if self.split.encoding is not None:
            return self.split.encoding
        data = self.split.dataset
        names = data.feature_names or [f"x{place + 1}" for place in range(data.features)]
        fills = np.median(self.split.X_auxiliary, axis=0).tolist()
        return Encoding(tuple(Column(name, "number", fill=fill) for name, fill in zip(names, fills, strict=True)))

    def _right_in_public(self, model: Model) -> float | None:
        rows = self.split.auxiliary[self.split.dataset.y_train[self.split.auxiliary] >= 0]
        fitted = self.method in (*LABELLED_METHODS, *RECORD_METHODS)
        if self.options.public is None or not len(rows) or fitted:
            return None
        data = self.split.dataset
        names = np.array(data.classes)[data.y_train[rows]]
        return float(ReleasedClassifier(model).score(data.X_train[rows], names))


def write_release(
    directory: Path, model: Model | RegressionModel, card: str, result: Result, *, onnx: bool
) -> list[Path]:
    """Write a model, its card and the result's JSON into a directory that exists, and return their paths.

    Raises ModelError where a file cannot be written, and InvalidParameter where the package onnx is missing.
    """
    try:
        write_atomically(directory / MODEL_FILE, written_model(model))
        write_atomically(directory / "card.md", card.encode())
        document = json.dumps(result.as_json(), indent=1) + "\n"
        write_atomically(directory / "result.json", document.encode(), mode=0o600)  # depends on private rows
        if onnx:
            write_onnx(model, directory / "model.onnx")
    except OSError as error:
        raise ModelError(
            f"{directory}: {error.strerror}; files that are missing there cannot be made again: another run "
            "would spend epsilon again"
        ) from None
    return [directory / name for name in (MODEL_FILE, "card.md", "result.json", *(["model.onnx"] * onnx))]
