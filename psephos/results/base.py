"""Base class of results: its fields are the JSON, its `page` is what the report and the terminal show."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from psephos.curator.ledger import Release
from psephos.protocol.errors import ReportError

FORMAT = 4
"""Format number in the JSON of every result. It changes when older readers would misunderstand the JSON."""

Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
Positive: TypeAlias = Annotated[float, Meta(gt=0)]

METHODS = {
    "batch": "pooled: all data in one place",
    "trees": "pooled: boosted trees",
    "indiv": "one party alone, on average",
    "ensemble": "majority vote of all parties",
    "vote": "Hamm's weighted ERM, majority labels",
    "soft": "Hamm's weighted ERM, soft labels",
    "avg": "average of the parties' parameters",
    "mean": "mean of the parties' own linear classifiers, each clipped",
    "statistic": "linear statistic of the votes",
    "vote-directions": "directions of the parties' votes, each of norm 1",
    "own-data": "statistic of the parties' own rows",
    "whitened": "average of the parties' parameters in public coordinates",
    "public": "a model of the labelled public rows alone",
    "public-forest": "a forest of the labelled public rows alone",
    "rehearsed": "a step from a public model, rehearsed on public rows",
    "newton": "a Newton step over all rows, from a public score (record-level)",
    "unchanged": "an evaluated prediction of a number, as it was",
    "pate": "PATE: a student of the noisy answers",
    "pathak": "Pathak 2010: the average of the parties' parameters",
    "psgd": "Rajkumar's private gradient descent",
    "majority": "the parties' most frequent class",
    "nonprivate": "the same problem without noise",
    "gop": "Gaussian objective perturbation: one place holds all data",
    "la_printed": "local aggregation (Pathak 2010), with the noise as printed",
    "la_repaired": "local aggregation, with the factor 1/K and spherical noise",
    "psgd_transcript": "ours: private in everything that the curator sees",
    "gop_sigma_printed": "the paper's sigma as printed: NOT private",
    "pooled + noise": "all data in one place, with the noise of one party",
}
"""Description of each method or curve by its name."""


# -- parts of results


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of one method on the test set; a number that does not exist is None (null in JSON).

    Attributes:
        private: mean over releases, of which the fields with `_std` are the standard deviations.
        recall: of each class, (K,); None for a class without test samples. Of the releases if there are any.
        balanced: mean of `recall`.
        auroc: area under the ROC curve, of each class against the others, on average; None where no class is rare
            (`rare_class`). Of the releases if there are any.
        nonprivate, nonprivate_balanced, nonprivate_auroc: without noise.
    """

    nonprivate: Share | None = None
    private: Share | None = None
    private_std: Annotated[float, Meta(ge=0)] | None = None
    balanced: Share | None = None
    recall: list[Share | None] = field(default_factory=list)
    balanced_std: Annotated[float, Meta(ge=0)] | None = None
    recall_std: list[Annotated[float, Meta(ge=0)] | None] = field(default_factory=list)
    auroc: Share | None = None
    nonprivate_balanced: Share | None = None
    nonprivate_auroc: Share | None = None


RARE = 0.2
"""Share of a class below which accuracy says little; of many classes half of an equal share, if that is smaller."""


def rare_class(shares: Sequence[float]) -> bool:
    """Return whether a class with one of these shares of the test samples, (K,), is rare."""
    return any(0 < share < min(RARE, 1 / (2 * len(shares))) for share in shares)


@dataclass(frozen=True)
class Phase:
    """Wall-clock time and traffic of all roles in one phase of a run; null for what was not measured."""

    seconds: Seconds | None
    messages: Count | None = None
    bytes: Count | None = None


def timed(seconds: Mapping[str, float | None]) -> dict[str, Phase]:
    """Return phases of which only the time was measured."""
    return {name: Phase(elapsed) for name, elapsed in seconds.items()}


AlphaNotice: TypeAlias = Literal["alpha is exact: publishing it is not differentially private"]
ALPHA_NOTICE: AlphaNotice = "alpha is exact: publishing it is not differentially private"
"""Notice that accompanies alpha wherever it is shown or saved."""


@dataclass(frozen=True)
class Alpha:
    """Distribution of the opened counts; it does not contain the alpha of any sample.

    `share_edges` and `samples_per_share` are a histogram of the winning class's share of the votes; `mean_alpha` is
    (K,).
    """

    auxiliary: Count
    ballots: Count
    share_edges: list[float]
    samples_per_share: list[Count]
    mean_alpha: list[Share]
    notice: AlphaNotice = ALPHA_NOTICE

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Alpha:
        """Return the distribution of opened counts, int64 (N, K), whose rows each sum to the number of ballots."""
        ballots = int(counts[0].sum())
        samples, edges = np.histogram(counts.max(axis=1) / ballots, bins=20, range=(0.0, 1.0))
        return cls(
            len(counts),
            ballots,
            [round(float(edge), 2) for edge in edges],
            samples.tolist(),
            (counts / ballots).mean(axis=0).tolist(),
        )


@dataclass(frozen=True)
class Curve:
    """The curve of one method; `x`, `mean` and `std` (None if not measured) have the same length."""

    algorithm: str
    x: list[float]
    mean: list[Share]
    std: list[float] | None = None

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.mean) == len(self.mean if self.std is None else self.std) > 0:
            raise ValueError(f"the curve {self.algorithm} has points without a mean or a deviation, or no points")


# -- parts of pages


class Fact(NamedTuple):
    """One statement about a run or a study: every text, page and card is a view of these rows.

    A view selects rows by topic. The label is "" for a sentence of its own; `note` follows the value directly.
    """

    topic: str
    label: str
    value: Any
    note: str = ""

    @property
    def text(self) -> str:
        """The row as one line."""
        return f"{self.label}: {shown(self.value)}{self.note}" if self.label else f"{self.value}{self.note}"


def sentences(topic: str, *texts: str) -> list[Fact]:
    """Return a row for each text that is not empty."""
    return [Fact(topic, "", text) for text in texts if text]


def shown(value: Any) -> str:
    """Return a value as people read it: numbers are rounded."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def with_deviation(mean: float | None, deviation: float | None = None) -> str | None:
    """Return a mean as text, with its standard deviation if there is one; None without a mean."""
    return None if mean is None else f"{mean:.3f}" + ("" if deviation is None else f" ± {deviation:.3f}")


@dataclass(frozen=True)
class Panel:
    """A figure of curves; `levels` are drawn as horizontal lines, `note` is its explanation."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log: bool = True
    note: str = ""
    levels: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A table; `about` describes its contents. A terminal shows a `detail` on request only."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    about: str = ""
    detail: bool = False


@dataclass(frozen=True)
class AuditedCell:
    """A verdict, the expected one (None if nothing was tested), and the tests behind it, joined by semicolons."""

    verdict: str
    expected: str | None = None
    evidence: str = ""


@dataclass(frozen=True)
class Matrix:
    """The secrets that each coalition learns in one protocol, as verdicts of tests or as expectations.

    `rows` are tuples (coalition, its members, a cell for each secret). Evidence refers to `notes` by number, from 1.
    """

    name: str
    secrets: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[AuditedCell]]]
    tested: bool
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """Contents of the report and of the terminal output.

    The topics of `facts`: "notice" (why the result may not be published; first everywhere), "warning", "answer" (the
    result in one line), "lead" (an introduction), "advice" (what follows from accuracies, so that no model and no card
    has it), "cost" (of publishing everything on the page), "condition" (what the privacy statement depends on),
    "deviation" (of the role `label` from the protocol), "fact", "note" (explains numbers), "repeat" (how to reproduce
    them), and "before" and "after": what a role (`label`) does without a message, before the first and after the last
    one.
    `case` is the protocol whose security analysis applies.
    """

    title: str
    facts: Sequence[Fact] = ()
    accuracies: Mapping[str, Accuracy] = field(default_factory=dict)
    releases: Mapping[str, Release] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    several_releases: bool = False
    tables: Sequence[Table] = ()
    matrices: Sequence[Matrix] = ()
    case: str | None = None
    histogram: Alpha | None = None
    class_names: Sequence[str] = ()

    def about(self, *topics: str) -> list[Fact]:
        return [fact for topic in topics for fact in self.facts if fact.topic == topic]

    def texts(self, topic: str) -> list[str]:
        return [fact.text for fact in self.about(topic)]

    def text(self, topic: str) -> str:
        """Return all texts of a topic as one; "" if there are none."""
        return " ".join(self.texts(topic))

    @property
    def cost(self) -> str:
        return self.text("cost")


# -- results

KINDS: dict[str, type[Result]] = {}
"""Every type of result, by the "kind" in its JSON."""

IN_MEMORY = {"json": False}
"""Metadata of a field that is not written to the JSON; it has its default in a result that was read back."""


@dataclass(frozen=True, kw_only=True)
class Result(ABC):
    """Result of a command. A subclass defines its `kind`, its fields and its `page`."""

    kind: ClassVar[str] = ""
    derived: ClassVar[tuple[str, ...]] = ("seconds",)
    """Properties that are written to the JSON for other programs; they follow from the fields and are not read back."""

    phases: dict[str, Phase]

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @property
    def seconds(self) -> dict[str, float | None]:
        """Wall-clock time of each phase; None if it was not measured."""
        return {name: phase.seconds for name, phase in self.phases.items()}

    @property
    def notice(self) -> str:
        """Reason why this result may not be published; "" if nothing in it was computed on a user's own rows."""
        return ""

    @classmethod
    def json_fields(cls) -> tuple[str, ...]:
        return tuple(f.name for f in fields(cls) if f.metadata != IN_MEMORY)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object: `notice` if there is one, `format`, `kind`, the fields and `derived` properties."""
        values = {name: plain(getattr(self, name)) for name in (*self.json_fields(), *self.derived)}
        notice = {"notice": self.notice} if self.notice else {}
        return {**notice, "format": FORMAT, "kind": self.kind, **values}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """Read a result from the JSON object that `as_json` returned.

        Raises ReportError, which names the field, for everything that is no result of this class and format.
        """
        if not isinstance(document, Mapping):
            raise ReportError(f"a result is one JSON object, not a {type(document).__name__}")
        version = document.get("format")
        if version != FORMAT or isinstance(version, bool):
            raise ReportError(
                f"this is a result in format {version!r}, and this psephos reads format {FORMAT}: use the version that "
                "wrote it, or run the command again"
            )
        kind = document.get("kind")
        result_type = KINDS.get(kind) if isinstance(kind, str) else None
        if result_type is None or not issubclass(result_type, cls):
            raise ReportError(f"this JSON is no result of psephos: its kind is {kind!r}, not {', '.join(KINDS)}")
        values = {
            name: value
            for name, value in document.items()
            if name not in ("notice", "format", "kind", *result_type.derived)
        }
        if unknown := [str(name) for name in values if name not in result_type.json_fields()]:
            raise ReportError(f"a result of kind {kind} has no {', '.join(unknown)}")
        try:
            return msgspec.convert(values, result_type)
        except (msgspec.ValidationError, RecursionError) as error:
            raise ReportError(f"this is no whole result of kind {kind}: {error}") from error

    @property
    def exact(self) -> bool | None:
        """Whether all opened values are correct (False makes the exit status 1); None if nothing was checked."""
        return None

    @abstractmethod
    def page(self) -> Page:
        """Return the contents of the report and of the terminal output."""


def plain(value: Any) -> Any:
    """Convert a value to JSON types; raises ReportError for NaN, an infinity or an object of another type."""
    try:
        return _finite(msgspec.to_builtins(value, enc_hook=_number))
    except TypeError as error:
        raise ReportError(f"the result cannot be written as JSON: {error}") from error


def _number(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} has no place in a result")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError(f"{value} is no finite number")
    return value
