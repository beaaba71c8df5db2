"""`psephos.simulate`: run an experiment with any of the protocols on arrays, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.curator.estimators import LinearClassifier
from psephos.data.datasets import Dataset
from psephos.options import converted
from psephos.progress import Progress, silent
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.transcript import Transcript
from psephos.results.evaluation import Evaluation
from psephos.results.runs import RunResult
from psephos.simulation.options import LABELLED_METHODS, AverageOptions, TallyOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_average, simulate_tally

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SimulatedProtocol:
    """How a protocol is simulated; `fixed`: options whose values make a run one of this protocol."""

    options: type[Any]
    run: Callable[..., RunResult]
    fixed: Mapping[str, Any] = field(default_factory=dict)


_JOINT = {"reveal": "statistic"}
PROTOCOLS: Mapping[str, SimulatedProtocol] = {
    "tally": SimulatedProtocol(TallyOptions, simulate_tally),
    "statistic": SimulatedProtocol(TallyOptions, simulate_tally, _JOINT),
    "rehearsed": SimulatedProtocol(TallyOptions, simulate_tally, {**_JOINT, "methods": LABELLED_METHODS}),
    "record": SimulatedProtocol(TallyOptions, simulate_tally, {"unit": "record"}),
    "average": SimulatedProtocol(AverageOptions, simulate_average),
    "pathak": SimulatedProtocol(PathakOptions, simulate_pathak),
    "psgd": SimulatedProtocol(PsgdOptions, simulate_psgd),
}


@dataclass(frozen=True)
class Simulation:
    """Result of an experiment. It contains the secrets of all simulated parties.

    Attributes:
        results: of each run, with `accuracy`, `privacy`, `weights`, `as_json()` and so on.
        transcript: every message; with `Transcript(secrets=True)` also every role's view.
        evaluation: all evaluated classifiers, and the sums that the curator opened.
        classes: the K labels.
    """

    results: list[RunResult] = field(repr=False)
    transcript: Transcript
    evaluation: Evaluation = field(repr=False)
    classes: tuple[Any, ...]

    @cached_property
    def table(self) -> pd.DataFrame:
        """The scores: one row per method, epsilon and draw, and one per method without noise, whose epsilon is NaN.

        The columns are method, epsilon, draw, accuracy, balanced_accuracy and auroc (NaN where no class is rare) on the
        test rows, and "recall of CLASS" for each class.
        """
        import pandas as pd

        rows = [
            {
                "method": score.method,
                "epsilon": np.nan if score.epsilon is None else score.epsilon,
                "draw": pd.NA if score.draw is None else score.draw,
                "accuracy": score.accuracy,
                "balanced_accuracy": score.balanced,
                "auroc": score.auroc,
                **{f"recall of {name}": share for name, share in zip(self.classes, score.recall, strict=True)},
            }
            for score in self.evaluation.scores
        ]
        return pd.DataFrame(rows).astype({"draw": "Int64"})

    @cached_property
    def models(self) -> dict[tuple[str, float | None], list[LinearClassifier]]:
        """(method, epsilon) -> the classifier of each draw, for unscaled rows (with a map, of its features); epsilon is
        None without noise.
        """
        models: dict[tuple[str, float | None], list[LinearClassifier]] = {}
        for score in self.evaluation.scores:
            if score.w is not None:
                coefficients, intercepts = self.evaluation.scaler.fold(np.atleast_2d(score.w))
                model = LinearClassifier.of(coefficients, self.classes, intercepts)
                models.setdefault((score.method, score.epsilon), []).append(model)
        return models

    @property
    def sums(self) -> dict[str, list[Any]]:
        """All opened sums, by what was summed: lists of `OpenedSum`, of integers (pathak), or of steps (psgd)."""
        return self.evaluation.sums

    @property
    def counts(self) -> NDArray[np.int64] | None:
        """Votes per auxiliary sample and class, int64 (N, K); None if the curator does not learn them."""
        return self.evaluation.counts

    def plot(self, axes: Any = None) -> Any:
        """Plot accuracy against epsilon, mean and standard deviation over the draws, on axes that are returned.

        Classifiers without noise are horizontal lines. Needs matplotlib (the extra `report`).
        """
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.subplots()[1]
        private = self.table.dropna(subset="epsilon").groupby(["method", "epsilon"])["accuracy"]
        for name, accuracies in private.agg(["mean", "std"]).groupby("method"):
            level = accuracies.droplevel("method")
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
    protocol: str = "tally",
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
    """Assign rows to simulated parties, run a protocol with cryptography, and evaluate the released classifiers.

    Args:
        X: features, numbers, shape (n, d). 30 % of the rows are held out as test rows, and a tenth of the others is
            public. Omit X and y to name data in `options` as on the command line: `dataset="digits"`, or
            `data="table.csv", label="outcome", public="open.csv"`.
        y: labels of any type, shape (n,). Their set, the classes, is public.
        protocol: one of `PROTOCOLS`. pathak and psgd are for two classes.
        parties: number of parties, M.
        sizes: how rows are assigned (`psephos.data.splits.split_dataset`), or the number of rows of each party.
        absent: share of the parties that are absent; they send nothing.
        learners: names of `psephos.parties.learners.LEARNERS` or scikit-learn classifiers, for the parties in turn.
        epsilons: privacy parameters, at each of which every method is released.
        methods: methods to release and compare; all by default.
        draws: number of releases of each method at each epsilon. By default 20 where the curator adds the noise, and 1
            where each release needs a run (pathak, psgd, and reveal="statistic").
        seed: seed of splits and training, never of keys, encryption or noise.
        transcript: records every message.
        progress: called with (what, done, total).
        roles: name of a role -> function that returns its replacement (`psephos.audit.Tampering`).
        options: all other options of the protocol, such as `auxiliary`, `mechanism`, `reveal`, or `key_bits=512,
            test_key=True` for test keys. By default keys are secure.

    Raises:
        InvalidParameter: the protocol does not have an option, or its value is invalid.
        DataError: the data are not numbers.
        PsephosError: an error that ended a run.
    """
    if protocol not in PROTOCOLS:
        raise InvalidParameter(f"the protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    chosen = PROTOCOLS[protocol]
    epsilons = converted("epsilons", epsilons, tuple[float, ...])
    draws = converted("draws", draws, int | None)
    methods = converted("methods", methods, tuple[str, ...])
    values: dict[str, Any] = {"sizes": sizes if isinstance(sizes, str) else ",".join(map(str, sizes)), "absent": absent}
    values |= {"seed": seed}
    values |= {"parties": parties} if parties is not None else {}
    if learners is not None:
        values["learners"] = (learners,) if isinstance(learners, str) else tuple(learners)
    values |= {"methods": methods} if methods else {}
    known = [one.name for one in fields(chosen.options) if one.name not in ("epsilon", "draws", *chosen.fixed)]
    if unknown := [name for name in (*values, *options) if name not in known]:
        raise InvalidParameter(f"{protocol} has no option {', '.join(unknown)}; it has {', '.join(known)}")
    data = None if X is None else _dataset(X, y)
    if data is not None and (named := {"dataset", "data", "journal"} & options.keys()):
        raise InvalidParameter(f"X and y are given: leave {', '.join(sorted(named))} out")
    base = chosen.options(**values, **options, **chosen.fixed)
    if hasattr(base, "dropouts") and getattr(base, "joint", True) and "dropouts" not in options:
        base = replace(base, dropouts=len(base.absent_parties))
    transcript = Transcript() if transcript is None else transcript
    context: dict[str, Any] = {"data": data, "transcript": transcript, "progress": progress, "roles": roles}
    if not isinstance(base.epsilon, tuple):  # one release per run, so that each epsilon and draw needs a run
        context["evaluation"] = Evaluation()  # shared by all runs, so that references are trained once
        if base.simulate_noise and draws not in (None, 1):
            raise InvalidParameter("with simulate_noise every draw has the same noise: set draws to 1")
        runs = [replace(base, epsilon=epsilon) for epsilon in epsilons for _ in range(1 if draws is None else draws)]
    else:
        runs = [replace(base, epsilon=epsilons, draws=draws)]
    for run_options in runs:
        run_options.check()
    results: list[RunResult] = [chosen.run(run_options, **context) for run_options in runs]
    evaluation = results[-1].evaluation
    assert evaluation.split is not None
    classes = evaluation.split.dataset.classes if y is None else tuple(np.unique(_labels(y)).tolist())
    return Simulation(results, transcript, evaluation, classes)


def _dataset(X: ArrayLike, y: ArrayLike | None) -> Dataset:
    if np.ma.is_masked(X) or np.ma.is_masked(y):
        raise DataError("X or y has masked entries: fill them, or leave their rows out")
    try:
        rows = np.array(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            "X has values that are not numbers: encode them first, or write a file and pass data=FILE and label=COLUMN"
        ) from None
    labels = _labels(y)
    if rows.ndim != 2 or not rows.shape[1] or labels.shape != (len(rows),):
        raise DataError(f"X must have shape (n, d), d > 0, and y shape (n,); they have {rows.shape} and {labels.shape}")
    if not np.isfinite(rows).all():
        raise DataError("X has NaN or infinite numbers: replace them first")
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise DataError("y has only one class: at least two are needed")
    return Dataset("X, y", rows, codes.astype(np.int64), None, None, tuple(map(str, classes)), "rows of one's own")


def _labels(y: ArrayLike | None) -> NDArray[Any]:
    """Return labels as an array; raises DataError for missing labels, and for numbers among texts."""
    import pandas as pd

    labels = np.asarray(y, dtype=object)  # not yet as texts, in which a missing label would be one more class
    if labels.ndim and pd.isna(labels).any():
        raise DataError("y has missing labels (NaN, None or NA): leave their rows out")
    texts = [isinstance(label, str) for label in labels.ravel()]
    try:
        if any(texts) and not all(texts):
            raise TypeError
        return np.asarray(labels.tolist())
    except (TypeError, ValueError):
        raise DataError("y has labels of several types: make all of them texts, or all numbers") from None
