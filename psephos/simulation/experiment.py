"""`psephos.simulate`: run an experiment with any of the protocols on arrays, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psephos.curator.estimators import LinearClassifier
from psephos.data.datasets import Dataset
from psephos.data.own import FEWEST_PUBLIC, TableOptions
from psephos.data.partition import load_split
from psephos.data.splits import AUXILIARY_SHARE, TEST_SHARE, skewed
from psephos.options import OneOrMore, converted, respelled, respelling
from psephos.progress import Progress, silent
from psephos.protocol.errors import DataError, InvalidParameter
from psephos.protocol.transcript import Transcript
from psephos.results.base import METHODS, Curve, Panel
from psephos.results.evaluation import Evaluation
from psephos.results.runs import AXIS
from psephos.results.scores import PREDICTORS, EvaluationResult, RegressionResult
from psephos.simulation.arrays import frame_of, in_memory
from psephos.simulation.job import EvaluationOptions, EvaluationRun, RegressionRun
from psephos.simulation.options import LABELLED_METHODS, AverageOptions, HeadOptions, JobOptions, TallyOptions
from psephos.simulation.pathak import PathakOptions, simulate_pathak
from psephos.simulation.psgd import PsgdOptions, simulate_psgd
from psephos.simulation.tally import simulate_average, simulate_tally

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from psephos.released import ReleasedClassifier, ReleasedRegressor


@dataclass(frozen=True)
class SimulatedProtocol:
    """How a protocol is simulated.

    Attributes:
        fixed: options whose values make a run one of this protocol.
        own: whether rows are always a table of one's own. Such a result measures itself: it has no `evaluation`.
    """

    options: type[Any]
    run: Callable[..., Any]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    own: bool = False


def _run_own(kind: Any, options: Any, data: Any, model: Any = None, **context: Any) -> Any:
    return kind(options, *([] if model is None else [model]), data).run(**context)


_JOINT = {"reveal": "statistic"}
PROTOCOLS: Mapping[str, SimulatedProtocol] = {
    "tally": SimulatedProtocol(TallyOptions, simulate_tally),
    "statistic": SimulatedProtocol(TallyOptions, simulate_tally, _JOINT),
    "rehearsed": SimulatedProtocol(TallyOptions, simulate_tally, {**_JOINT, "methods": LABELLED_METHODS}),
    "record": SimulatedProtocol(TallyOptions, simulate_tally, {"unit": "record"}),
    "average": SimulatedProtocol(AverageOptions, simulate_average),
    "head": SimulatedProtocol(
        HeadOptions,
        simulate_tally,
        {**_JOINT, "methods": ("mean",), "mechanism": "gaussian", "learners": ("logistic",)},
    ),
    "pathak": SimulatedProtocol(PathakOptions, simulate_pathak),
    "psgd": SimulatedProtocol(PsgdOptions, simulate_psgd),
    "regression": SimulatedProtocol(
        JobOptions, partial(_run_own, RegressionRun), {"task": "regression", "unit": "record", "anyway": True}, own=True
    ),
    "evaluation": SimulatedProtocol(
        EvaluationOptions, partial(_run_own, EvaluationRun), {"rows": "all", "anyway": True}, own=True
    ),
}
_NAMED = {"dataset", "data", "label", "party", "public", "schema", "classes", "journal"}
"""Options that X and y replace, or that belong to a table in a file."""

MEASURES = {"accuracy": "accuracy", "r2": "R²", "mae": "mean absolute error"}
"""What `Simulation.measure` may be, and its name; the first that there is."""

LEVELS = ("batch", "ensemble", "public", "least squares")
"""Methods that `Simulation.plot` draws as lines."""


@dataclass(frozen=True)
class Simulation:
    """Result of an experiment. It contains the secrets of all simulated parties; `print` shows its scores.

    Attributes:
        results: of each run, with `accuracy`, `privacy`, `weights`, `as_json()` and so on.
        transcript: every message; with `Transcript(secrets=True)` also every role's view.
        evaluation: all evaluated classifiers, and opened sums; empty where results measure themselves.
        classes: the K labels; none of a number.
        splits: the same on each further split; only `table`, `summary`, `print` and `plot` are about all splits.
    """

    results: list[Any] = field(repr=False)
    transcript: Transcript
    evaluation: Evaluation = field(repr=False)
    classes: tuple[Any, ...]
    splits: tuple[Simulation, ...] = field(default=(), repr=False)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The scores: one row per split, method, epsilon and draw, and one per method without noise (epsilon is NaN).

        The columns are split, method, epsilon, draw, accuracy, balanced_accuracy and auroc (NaN where no class is rare)
        on the test rows, and "recall of CLASS" for each class. A regression has r2, rmse and mae in place of the
        latter, and an evaluation what it estimates.
        """
        import pandas as pd

        rows = [
            {
                "method": score.method,
                "epsilon": score.epsilon,
                "draw": score.draw,
                "accuracy": score.accuracy,
                "balanced_accuracy": score.balanced,
                "auroc": score.auroc,
                **{f"recall of {name}": share for name, share in zip(self.classes, score.recall, strict=True)},
            }
            for score in self.evaluation.scores
        ]
        table = pd.DataFrame(rows or [row for result in self.results for row in _measured(result)])
        if not rows:
            noisy = table["epsilon"].notna()
            table["draw"] = table.groupby(["method", "epsilon"]).cumcount().where(noisy)
            table = table[noisy | ~table.duplicated("method")]  # without noise it is the same in each result
        table = table.astype({"epsilon": "float64", "draw": "Int64"})
        table.insert(0, "split", 0)
        others = [other.table.assign(split=number) for number, other in enumerate(self.splits, 1)]
        return pd.concat([table, *others], ignore_index=True)

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

    @property
    def measure(self) -> str:
        """The column of `table` that `print` and `plot` show."""
        return next(name for name in MEASURES if name in self.table)

    def summary(self) -> pd.DataFrame:
        """Return the mean and standard deviation of `measure` by method and epsilon (NaN without noise).

        The deviation is that of the splits' means, or on one split of the draws; NaN where there is one.
        """
        by, scores = ["method", "epsilon"], self.table
        if self.splits:
            scores = scores.groupby([*by, "split"], dropna=False)[[self.measure]].mean().reset_index()
        return scores.groupby(by, dropna=False)[self.measure].agg(["mean", "std"])

    @property
    def _about(self) -> str:
        release = next(iter(self.results[0].releases.values()))
        unit = release.unit if release.protects.kind == "unknown" else release.protects.kind
        name, number = ("split", len(self.splits)) if self.splits else ("draw", self.table["draw"].max())
        over = f": mean and standard deviation over {number + 1} {name}s" if number else ""
        return f"{self.results[0].parties} parties, epsilon per {unit}{over}"

    def __str__(self) -> str:
        rows = self.summary().reset_index().fillna({"epsilon": np.inf})
        spread = rows["std"].map(" ± {:.3f}".format).where(rows["std"].notna(), "")
        rows["cell"] = rows["mean"].map("{:.3f}".format) + spread
        means, cells = (rows.pivot(index="method", columns="epsilon", values=name) for name in ("mean", "cell"))
        epsilons: list[Any] = means.columns.tolist()
        best_first = means.sort_values(epsilons, ascending=False).index
        cells = cells.loc[best_first].rename_axis(index=None, columns=None)
        cells.columns = [f"epsilon {value:g}" if value < np.inf else "without noise" for value in epsilons]
        about = METHODS | PREDICTORS
        cells[""] = [about.get(name, "").ljust(max(map(len, about.values()))) for name in cells.index]
        lines = map(str.rstrip, cells.to_string(na_rep="").splitlines())
        cautions = [f"WARNING: {respelled(text, str)}" for text in getattr(self.results[0], "cautions", ())]
        return "\n".join([f"{MEASURES[self.measure]} of {self._about}", *lines, *cautions])

    def plot(self) -> Figure:
        """Draw `summary` against epsilon as a figure, with `LEVELS` as lines. Needs the extra `report`."""
        from psephos.results.charts import figure_of  # imported here because matplotlib takes half a second

        summary = self.summary().reset_index()
        noisy = summary.dropna(subset="epsilon").sort_values("epsilon", kind="stable").fillna(0.0)
        curves = [
            Curve(str(name), *(points[column].tolist() for column in ("epsilon", "mean", "std")))
            for name, points in noisy.groupby("method", sort=False)
        ]
        exact = summary[summary["epsilon"].isna()].set_index("method")["mean"]
        levels = {name: float(exact[name]) for name in LEVELS if name in exact}
        panel = Panel(self._about, AXIS, MEASURES[self.measure], curves, levels=levels)
        return figure_of(panel, METHODS | PREDICTORS)


@respelling(str)
def simulate(  # wide: an experiment's terms, each with its default
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    protocol: str = "tally",
    groups: ArrayLike | None = None,
    parties: int | None = None,
    sizes: Literal["equal", "dirichlet", "shards"] | Sequence[int] | NDArray[np.integer] = "equal",
    skew: str = "",
    absent: float = 0.0,
    learners: Sequence[Any] | None = None,
    epsilons: Sequence[float] = (1.0,),
    methods: Sequence[str] = (),
    draws: int | None = None,
    splits: int = 1,
    seed: int = 0,
    transcript: Transcript | None = None,
    progress: Progress = silent,
    roles: Any = None,
    model: ReleasedClassifier | ReleasedRegressor | None = None,
    **options: Any,
) -> Simulation:
    """Assign rows to simulated parties, run a protocol with cryptography, and evaluate the released classifiers.

    Args:
        X: features, numbers, shape (n, d). 30 % of the rows are held out as test rows, and a tenth of the others is
            public. Omit X and y to name data in `options` as on the command line: `dataset="digits"`, or
            `data="table.csv", label="outcome", public="open.csv"`.
        y: labels of any type, shape (n,). Their set, the classes, is public. Numbers in a regression.
        protocol: one of `PROTOCOLS`. pathak and psgd are for two classes. An evaluation is that of a `model`.
        groups: whose each row is, shape (n,). X and y are then a table of one's own, as in regressions and evaluations,
            and with options about tables such as `features`: X may be a data frame, a tenth of the rows is public with
            its labels, and 30 % of each party's are held out.
        parties: number of parties, M, where there are no groups.
        sizes: how rows are assigned (`psephos.data.splits.split_dataset`), or the number of rows of each party.
        skew: "dirichlet(0.5)" skews the labels of parties of these sizes, the more the smaller the number
            (`psephos.data.splits.skewed`).
        absent: share of the parties that are absent; they send nothing.
        learners: names of `psephos.parties.learners.LEARNERS` or scikit-learn classifiers, for the parties in turn.
        epsilons: privacy parameters, at each of which every method is released.
        methods: methods to release and compare; all by default.
        draws: number of releases of each method at each epsilon. By default 20 where the curator adds the noise, and 1
            where each release needs a run (all others).
        splits: number of splits, of the seeds `seed`, `seed` + 1 and so on.
        seed: seed of splits and training, never of keys, encryption or noise.
        transcript: records every message.
        progress: called with (what, done, total).
        roles: name of a role -> function that returns its replacement (`psephos.audit.Tampering`).
        model: what is evaluated, of `psephos.load_model` or `PrivateFederatedClassifier.release_`.
        options: all other options of the protocol, such as `auxiliary`, `mechanism`, `reveal`, or `key_bits=512,
            test_key=True` for test keys. By default keys are secure.

    Raises:
        InvalidParameter: the protocol does not have an option, or its value is invalid.
        DataError: the data are not numbers.
        PsephosError: an error that ended a run.
    """
    if protocol not in PROTOCOLS:
        raise InvalidParameter(f"the protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    chosen, splits = PROTOCOLS[protocol], converted("splits", splits, OneOrMore)
    methods, skew = converted("methods", methods, tuple[str, ...]), converted("skew", skew, str)
    values: dict[str, Any] = {"sizes": sizes if isinstance(sizes, str) else ",".join(map(str, sizes)), "absent": absent}
    values |= {"parties": parties} if parties is not None else {}
    if learners is not None:
        values["learners"] = (learners,) if isinstance(learners, str) else tuple(learners)
    values |= {"methods": methods} if methods else {}
    known = [one.name for one in fields(chosen.options) if one.name not in ("epsilon", "draws", *chosen.fixed)]
    if unknown := [name for name in (*values, *options) if name not in known]:
        raise InvalidParameter(f"{protocol} has no option {', '.join(unknown)}; it has {', '.join(known)}")
    if (model is None) == (protocol == "evaluation"):
        raise InvalidParameter("an evaluation, and nothing else, takes a model=", option="model")
    context = {"transcript": Transcript() if transcript is None else transcript, "progress": progress, "roles": roles}
    context |= {} if model is None else {"model": model}
    epsilons, draws = converted("epsilons", epsilons, tuple[float, ...]), converted("draws", draws, OneOrMore | None)
    simulated = []
    for number in range(splits):
        base, data, classes = _assigned(chosen, X, y, groups, skew, {**values, **options, "seed": seed + number})
        context["data"] = data
        if hasattr(base, "dropouts") and getattr(base, "joint", True) and "dropouts" not in options:
            base = replace(base, dropouts=len(base.absent_parties))
        if isinstance(base.epsilon, tuple) and not chosen.own:
            runs = [replace(base, epsilon=epsilons, draws=draws)]
        else:  # one release per run, so that each epsilon and draw needs a run
            if base.simulate_noise and draws not in (None, 1):
                raise InvalidParameter("with simulate_noise every draw has the same noise: set draws to 1")
            runs = [replace(base, epsilon=epsilon) for epsilon in epsilons for _ in range(draws or 1)]
            context |= {} if chosen.own else {"evaluation": Evaluation()}  # so that references are trained once
        for run_options in runs:
            run_options.check()
        results = [chosen.run(run_options, **context) for run_options in runs]
        evaluation: Evaluation = Evaluation() if chosen.own else results[-1].evaluation
        if classes is None:
            classes = () if evaluation.split is None else evaluation.split.dataset.classes
        simulated.append(Simulation(results, context["transcript"], evaluation, classes))
    return replace(simulated[0], splits=tuple(simulated[1:]))


def _measured(result: RegressionResult | EvaluationResult) -> list[dict[str, Any]]:
    """Return the rows of `Simulation.table` of a result that measures itself, without draws."""
    if isinstance(result, RegressionResult):
        found = {name: vars(errors) for name, errors in result.errors.items()}
    else:
        estimate = result.estimate.errors or result.estimate
        known = {name: getattr(estimate, name, None) for name in ("accuracy", "auroc", "r2", "rmse", "mae")}
        found = {"evaluation": {name: one.value for name, one in known.items() if one is not None}}
    costs = dict.fromkeys(result.releases, result.epsilon)
    return [{"method": name, "epsilon": costs.get(name), **measures} for name, measures in found.items()]


def _assigned(  # wide: what `simulate` is given about the data
    chosen: SimulatedProtocol, X: Any, y: Any, groups: Any, skew: str, values: dict[str, Any]
) -> tuple[Any, Any, tuple[Any, ...] | None]:
    """Return the options, the data in place of what they name, and the classes; None for what they name themselves."""
    if X is not None and (wrong := sorted(_NAMED & values.keys())):
        raise InvalidParameter(f"X and y are given: leave {', '.join(wrong)} out")
    if groups is not None and (X is None or values["sizes"] != "equal" or "parties" in values):
        raise InvalidParameter("groups says whose each row of X is: leave parties, sizes and other data out")
    data: Any = None
    classes = None if X is None or chosen.own else tuple(np.unique(_labels(y)).tolist())
    table = {one.name for one in fields(TableOptions)} & values.keys()
    if X is not None and (groups is not None or chosen.own or table):
        public = values.pop("auxiliary", None) or max(FEWEST_PUBLIC, round(AUXILIARY_SHARE * len(_labels(y))))
        named, data = in_memory(frame_of(X), _labels(y), groups, public, values["seed"])
        named |= {} if classes is None else {"classes": [*map(str, classes)]}
        values = {"held_out": TEST_SHARE, **values, **named}
    elif X is not None:
        data = _dataset(X, y)
    base = chosen.options(**values, **chosen.fixed)
    if skew and base.data is not None:
        raise InvalidParameter("skew deals rows: leave it out where they have owners, or a table is one's own")
    if skew:
        base, split = load_split(base, data)
        data = skewed(split, skew)
    return base, data, classes


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
