"""`psephos.simulate`: an experiment with any of the protocols, on one's own arrays, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.curator.hamm.estimators import LinearClassifier
from psephos.data.datasets import Dataset
from psephos.progress import Progress, silent
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.transcript import Transcript
from psephos.results import RunResult
from psephos.results.evaluation import Evaluation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PROTOCOLS", "Simulation", "simulate"]

PROTOCOLS = ("tally", "average", "pathak", "psgd")
"""What can be simulated; the options of each are `psephos.simulation.PROTOCOL.PROTOCOLOptions`."""

REPEATED = ("pathak", "psgd")
"""Protocols that end in one release: each epsilon and draw is a run of its own."""


@dataclass(frozen=True)
class Simulation:
    """What an experiment gave. It holds every party's secrets, since it played everybody.

    Attributes:
        results: of each run, as the commands print them: `accuracy`, `privacy`, `weights`, `as_json()`, ...
        transcript: every message; with `Transcript(secrets=True)` every role's view, too.
        evaluation: every classifier that was measured, and what the curator opened.
        classes: the K labels.
    """

    results: list[RunResult] = field(repr=False)
    transcript: Transcript
    evaluation: Evaluation = field(repr=False)
    classes: tuple[Any, ...]

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row per method, epsilon and draw, as released; and one per method without noise, whose epsilon is NaN.

        Columns: method, epsilon, draw, accuracy and balanced_accuracy on the test rows, and for each class "recall of
        CLASS".
        """
        import pandas as pd

        rows = [
            {
                "method": one.method,
                "epsilon": np.nan if one.epsilon is None else one.epsilon,
                "draw": pd.NA if one.draw is None else one.draw,
                "accuracy": one.accuracy,
                "balanced_accuracy": one.balanced,
                **{f"recall of {name}": share for name, share in zip(self.classes, one.recall, strict=True)},
            }
            for one in self.evaluation.scores
        ]
        return pd.DataFrame(rows).astype({"draw": "Int64"})

    @cached_property
    def models(self) -> dict[tuple[str, float | None], list[LinearClassifier]]:
        """(method, epsilon) -> for each draw a classifier of rows as they were handed in; epsilon None: bare."""
        found: dict[tuple[str, float | None], list[LinearClassifier]] = {}
        for one in self.evaluation.scores:
            if one.w is not None:
                coefficients, intercepts = self.evaluation.scaler.fold(np.atleast_2d(one.w))
                model = LinearClassifier.of(coefficients, self.classes, intercepts)
                found.setdefault((one.method, one.epsilon), []).append(model)
        return found

    @property
    def sums(self) -> dict[str, list[Any]]:
        """What the curator opened, by what was summed, an entry for each time: `OpenedSum`, integers, or steps."""
        return self.evaluation.sums

    @property
    def counts(self) -> NDArray[np.int64] | None:
        """Votes per auxiliary sample and class, (N, K), where the curator is given them."""
        return self.evaluation.counts

    def plot(self, axes: Any = None) -> Any:
        """Accuracy against epsilon, mean and standard deviation over the draws; returns the matplotlib axes.

        References without noise are lines across. Needs matplotlib (the extra `report`).
        """
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.subplots()[1]
        private = self.table.dropna(subset="epsilon").groupby(["method", "epsilon"])["accuracy"]
        for name, found in private.agg(["mean", "std"]).groupby("method"):
            level = found.droplevel("method")
            axes.errorbar(level.index, level["mean"], level["std"].fillna(0.0), capsize=3, marker="o", label=name)
        for style, name in zip(("-", "--", ":"), ("batch", "indiv", "majority"), strict=True):
            for value in self.table.loc[self.table["method"] == name, "accuracy"]:
                axes.axhline(value, color="grey", linestyle=style, linewidth=1, label=name)
        axes.set(xscale="log", xlabel="epsilon (more private to the left)", ylabel="accuracy")
        axes.legend()
        return axes


def simulate(  # wide: an experiment's terms, each with its default
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    protocol: Literal["tally", "average", "pathak", "psgd"] = "tally",
    parties: int | None = None,
    sizes: Literal["equal", "dirichlet", "shards"] | Sequence[int] | NDArray[np.integer] = "equal",
    absent: float = 0.0,
    learners: Sequence[Any] | None = None,
    epsilons: Sequence[float] = (1.0,),
    methods: Sequence[str] = (),
    draws: int | None = None,
    seed: int = 0,
    transcript: Transcript | None = None,
    progress: Progress = silent,
    roles: Any = None,
    **options: Any,
) -> Simulation:
    """Deal rows to simulated parties, run a protocol among them with real cryptography, and measure what is released.

    Args:
        X, y: features (n, d), numbers, and labels (n,) of any kind. 30 % are held out to measure on, a tenth of the
            rest is taken to be public, and so are the classes. Without them `dataset="digits"`, or `data="table.csv",
            label="outcome", public="open.csv"`, as the command.
        protocol: one of `PROTOCOLS`. pathak and psgd are for two classes.
        parties: M.
        sizes: how rows are dealt (`psephos.data.splits.split_dataset`), or how many each party has.
        absent: share of the parties that stay away; they send nothing.
        learners: names of `psephos.parties.learners.LEARNERS` or scikit-learn classifiers, for the parties in turn.
        epsilons: at each of which everything is released, `draws` times: 20 where the curator adds the noise, and once
            where a release is a run of its own (pathak, psgd, and reveal="statistic").
        methods: to release and compare; all that there are by default.
        seed: of splits and training, never of keys, encryption or noise.
        transcript: notes every message.
        progress: called with (what, done, total).
        roles: what replaces honest roles, by name (`psephos.audit.Tampering`).
        options: every other option of the protocol, such as `auxiliary`, `mechanism`, `reveal`, `key_bits=512,
            test_key=True` for test keys. The defaults are real keys.

    Raises InvalidParameter for an option that the protocol does not have or that cannot be, DataError for data that are
    no numbers, and the named errors of a run.
    """
    if protocol not in PROTOCOLS:
        raise InvalidParameter(f"the protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    module = import_module(f"psephos.simulation.{protocol}")
    kind, run = getattr(module, f"{protocol.capitalize()}Options"), getattr(module, f"simulate_{protocol}")
    asked = {"sizes": sizes if isinstance(sizes, str) else ",".join(map(str, sizes)), "absent": absent, "seed": seed}
    asked |= {"parties": parties} if parties is not None else {}
    asked |= {"learners": tuple(learners)} if learners is not None else {}
    asked |= {"methods": tuple(methods)} if methods else {}
    known = [one.name for one in fields(kind) if one.name not in ("epsilon", "draws")]
    if unknown := [name for name in (*asked, *options) if name not in known]:
        raise InvalidParameter(f"{protocol} has no option {', '.join(unknown)}; it has {', '.join(known)}")
    data = None if X is None else _dataset(X, y)
    if data is not None and (named := {"dataset", "data", "journal"} & options.keys()):
        raise InvalidParameter(f"with rows of one's own there is no {', '.join(sorted(named))}")
    base = kind(**asked, **options)
    if (protocol == "psgd" or getattr(base, "joint", False)) and "dropouts" not in options:
        base = replace(base, dropouts=len(base.away))
    transcript = Transcript() if transcript is None else transcript
    context: dict[str, Any] = {"data": data, "transcript": transcript, "progress": progress, "roles": roles}
    if protocol in REPEATED:
        context["evaluation"] = Evaluation()  # one for all runs: references are trained once
        if base.simulate_noise and draws not in (None, 1):
            raise InvalidParameter("noise from the seed is the same in every run: simulate one draw")
        runs = [replace(base, epsilon=epsilon) for epsilon in epsilons for _ in range(1 if draws is None else draws)]
    else:
        runs = [replace(base, epsilon=tuple(epsilons), draws=draws)]
    results: list[RunResult] = [run(one, **context) for one in runs]
    evaluation = results[-1].evaluation
    assert evaluation.split is not None
    classes = evaluation.split.dataset.classes if y is None else tuple(np.unique(np.asarray(y)).tolist())
    return Simulation(results, transcript, evaluation, classes)


def _dataset(X: ArrayLike, y: ArrayLike | None) -> Dataset:
    """One's own rows; the labels may be of any kind."""
    try:
        rows = np.array(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            "X holds something that is no number: encode it first, or write a file and give data=FILE and label=COLUMN"
        ) from None
    labels = np.asarray(y)
    if rows.ndim != 2 or labels.shape != (len(rows),):
        raise DataError(f"X of shape {rows.shape} and y of shape {labels.shape} are not n rows and their n labels")
    if not np.isfinite(rows).all():
        raise DataError("X holds NaN or infinite numbers: fill the gaps first")
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError("y holds one class only")
    return Dataset("X, y", rows, codes.astype(np.int64), None, None, tuple(map(str, classes)), "rows of one's own")
