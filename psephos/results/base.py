"""What every outcome has in common: its JSON, checked when it comes back, and what a page or a terminal shows of it.

An `Outcome` holds what a command found. Its fields are its JSON (docs/json.md), its `page` is what is shown: the report
and the terminal loop over that and know no kind of outcome by itself.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from psephos.curator.ledger import Release
from psephos.protocol.errors import ReportError, ReportVersionError

FORMAT = 2
"""Of every JSON that a command writes. A change that a reader would misunderstand gets another number."""

Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
"""A share of something, such as an accuracy or an error."""
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
Positive: TypeAlias = Annotated[float, Meta(gt=0)]

METHODS = {
    "batch": "all data in one place; what nobody may do",
    "indiv": "each party alone, on average",
    "ensemble": "the parties' majority vote on each test sample",
    "vote": "Hamm's Algorithm 1: majority labels",
    "soft": "Hamm's Algorithm 2: soft labels",
    "avg": "the average of the parties' parameters",
    "statistic": "the linear statistic of the votes",
    "own-data": "the statistic of the parties' own rows",
    "whitened": "the average of the parties' classifiers in public coordinates",
    "pate": "PATE: a student of the noisy answers",
    "pathak": "Pathak 2010: the average of the parties' parameters",
    "psgd": "Rajkumar's private gradient descent",
    "majority": "always the most frequent class",
    "nonprivate": "the same problem without noise",
    "gop": "Gaussian objective perturbation: one place holds all data",
    "la_printed": "local aggregation (Pathak 2010), with the noise as printed",
    "la_repaired": "local aggregation, with the factor 1/K and spherical noise",
    "psgd_transcript": "ours: private in everything that the curator sees",
    "gop_sigma_printed": "the paper's sigma as printed: NOT private",
    "pooled + noise": "all data in one place, with the noise of one party",
}
"""What is behind the name of a method or of a curve."""


# -- parts of outcomes


@dataclass(frozen=True)
class Accuracy:
    """Of one method on the test set; null where there is no such number.

    Attributes:
        nonprivate: without noise.
        private: as released; a mean over draws.
        private_std: standard deviation over draws.
        balanced: the mean recall of all classes: of what is released, otherwise without noise.
        recall: of each class, the share of its test samples that is recognised; null where there are none.
        balanced_std, recall_std: standard deviations over draws, as `private_std`.
    """

    nonprivate: Share | None = None
    private: Share | None = None
    private_std: Annotated[float, Meta(ge=0)] | None = None
    balanced: Share | None = None
    recall: list[Share | None] = field(default_factory=list)
    balanced_std: Annotated[float, Meta(ge=0)] | None = None
    recall_std: list[Annotated[float, Meta(ge=0)] | None] = field(default_factory=list)


@dataclass(frozen=True)
class Mean:
    """A mean over repetitions and its standard deviation; 0 where there was one repetition."""

    mean: Share
    std: Annotated[float, Meta(ge=0)] = 0.0


def useless_warning(releases: Mapping[str, Release]) -> list[str]:
    """What is said where releases are not expected to be of use: a function of the releases and of public values."""
    names = [name for name, release in releases.items() if release.signal is not None and release.signal.useless]
    if not names:
        return []
    return [
        f"The noise hides what was learned ({', '.join(names)}): the release is not expected to beat a classifier that "
        "always gives the most frequent class. More parties or a larger epsilon would help."
    ]


@dataclass(frozen=True)
class Phase:
    """Time and traffic of one part of a protocol."""

    seconds: Seconds | None
    messages: Count
    bytes: Count


AlphaNotice: TypeAlias = Literal["known to the curator, not private, not for release"]
ALPHA_NOTICE: AlphaNotice = "known to the curator, not private, not for release"
"""Stands wherever alpha is shown or saved."""


@dataclass(frozen=True)
class Alpha:
    """What is kept of the opened counts: no sample's alpha, only how they are distributed.

    Attributes:
        auxiliary, ballots: N and M.
        share_edges, samples_per_share: a histogram over [0, 1] of the winning class's share of the votes.
        mean_alpha: (K,), the mean share of each class.
        notice: `ALPHA_NOTICE`.
    """

    auxiliary: Count
    ballots: Count
    share_edges: list[float]
    samples_per_share: list[Count]
    mean_alpha: list[Share]
    notice: AlphaNotice = ALPHA_NOTICE

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Alpha:
        """Of the opened counts, integers (N, K), each row adding up to the number of ballots."""
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
    """One method's line: `x`, `mean` and, where it was measured, `std` have the same length."""

    algorithm: str
    x: list[float]
    mean: list[Share]
    std: list[float] | None = None

    def __post_init__(self) -> None:
        if not len(self.x) == len(self.mean) == len(self.mean if self.std is None else self.std) > 0:
            raise ValueError(f"the curve {self.algorithm} has points without a mean or a deviation, or no points")


# -- parts of pages

Fact: TypeAlias = tuple[Any, ...]
"""Words, then what is said of them: numbers, which are shown rounded, and text, as it is."""


@dataclass(frozen=True)
class Panel:
    """One picture. `log`: whether x is drawn on a logarithmic scale. `note`: what a reader must know about it.
    `levels`: what does not depend on x, by method."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log: bool = True
    note: str = ""
    levels: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Any other table; `about` says in words what it shows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    about: str = ""


@dataclass(frozen=True)
class Comparison:
    """A paper's number or sentence beside ours."""

    quantity: str
    paper: str
    ours: str
    verdict: str
    why: str = ""


@dataclass(frozen=True)
class Cell:
    """One verdict of the security analysis. `expected` is None where nothing was tested; `evidence` is a sentence."""

    verdict: str
    expected: str | None = None
    evidence: str = ""


@dataclass(frozen=True)
class Matrix:
    """Who learned what in one protocol: `rows` of (coalition, its members, a cell for each of `secrets`).

    `notes` are numbered from 1, and a cell's evidence names those that hold for it.
    """

    name: str
    secrets: Sequence[str]
    rows: Sequence[tuple[str, str, Sequence[Cell]]]
    tested: bool
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a terminal and a report show.

    Attributes:
        title: of the page.
        notice: why this may not be published; "" where it may. Stands first, on every screen and in every file.
        answer: what came of it, in a line; stands above everything but the warnings.
        lead: what a reader has before them, in a paragraph; a run needs no words for that.
        cost: what everything that is shown would cost together; stands above it.
        facts: what a reader wants first.
        warnings: what a reader must not miss: shown before everything else, on every screen.
        notes: what helps to understand the numbers.
        accuracies: by method.
        releases: what each release costs.
        panels: pictures of curves.
        comparison: beside the paper.
        tables: everything else that is a table.
        matrices: who learned what, as it was tested.
        case: the protocol whose security analysis says what this run's roles learn.
        histogram: how united the votes were.
        class_names: of the classes that `histogram` numbers.
        before, after: (role, what it does) without a message of the transcript, before the first and after the last.
        phases: traffic of each phase, where it was counted without a transcript.
        repeat: how the same numbers are got again.
    """

    title: str
    notice: str = ""
    answer: str = ""
    lead: str = ""
    cost: str = ""
    facts: Sequence[Fact] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    accuracies: Mapping[str, Accuracy] = field(default_factory=dict)
    releases: Mapping[str, Release] = field(default_factory=dict)
    panels: Sequence[Panel] = ()
    comparison: Sequence[Comparison] = ()
    tables: Sequence[Table] = ()
    matrices: Sequence[Matrix] = ()
    case: str | None = None
    histogram: Alpha | None = None
    class_names: Sequence[str] = ()
    before: Sequence[tuple[str, str]] = ()
    after: Sequence[tuple[str, str]] = ()
    phases: Mapping[str, Phase] = field(default_factory=dict)
    repeat: str = ""


# -- outcomes

KINDS: dict[str, type[Outcome]] = {}
"""Every type of outcome by the "kind" of its JSON."""


@dataclass(frozen=True, kw_only=True)
class Outcome(ABC):
    """What a command found. A subclass names its `kind` and its fields, and says what is shown of them.

    Attributes:
        seconds: of each phase, and "total" where only the whole was measured.
    """

    kind: ClassVar[str] = ""
    derived: ClassVar[tuple[str, ...]] = ()
    """Properties that follow from the fields and stand in the JSON for whoever reads it without this program."""
    repeated_parts: ClassVar[tuple[str, ...]] = ()
    """Entries of `seconds` that are the time of one repetition within a phase, and no phase themselves."""

    seconds: dict[str, Seconds | None]

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @property
    def notice(self) -> str:
        """Why this result may not be published; "" where nothing in it was computed on a user's own rows."""
        return ""

    # its JSON

    def as_json(self) -> dict[str, Any]:
        """One JSON object: `notice` where there is one, `format`, `kind`, the fields, and what is derived from them."""
        found = {name: plain(getattr(self, name)) for name in (*(f.name for f in fields(self)), *self.derived)}
        notice = {"notice": self.notice} if self.notice else {}
        return {**notice, "format": FORMAT, "kind": self.kind, **found}

    @classmethod
    def from_json(cls, document: Any) -> Self:
        """The outcome that `as_json` wrote.

        Raises ReportVersionError for another format; ReportError for no JSON object of this program, or one with a
        field that is missing, unknown, of another type or out of range: the message says where.
        """
        if not isinstance(document, Mapping):
            raise ReportError(f"a result is one JSON object, not a {type(document).__name__}")
        found = document.get("format")
        if found != FORMAT or isinstance(found, bool):
            raise ReportVersionError(
                f"this is a result in format {found!r}, and this psephos reads format {FORMAT}: use the version that "
                "wrote it, or run the command again"
            )
        kind = document.get("kind")
        chosen = KINDS.get(kind) if isinstance(kind, str) else None
        if chosen is None or not issubclass(chosen, cls):
            raise ReportError(f"this JSON is no result of psephos: its kind is {kind!r}, not {', '.join(KINDS)}")
        known = {f.name for f in fields(chosen)}
        given = {
            name: value for name, value in document.items() if name not in ("notice", "format", "kind", *chosen.derived)
        }
        if unknown := [str(name) for name in given if name not in known]:
            raise ReportError(f"a result of kind {kind} has no {', '.join(unknown)}")
        try:
            return msgspec.convert(given, chosen)
        except (msgspec.ValidationError, RecursionError) as error:
            raise ReportError(f"this is no whole result of kind {kind}: {error}") from error

    def known(self, phase: str) -> float:
        """Seconds of a phase that was measured; raises KeyError for another."""
        if (taken := self.seconds[phase]) is None:
            raise KeyError(phase)
        return taken

    @property
    def exact(self) -> bool | None:
        """Whether everything opened or judged is as it must be: False is exit status 1; None where nothing was."""
        return None

    @abstractmethod
    def page(self) -> Page:
        """What is shown of it."""


def plain(value: Any) -> Any:
    """`value` as JSON has it: dataclasses and mappings as objects, tuples and arrays as lists.

    Raises ReportError for what has no place in JSON: not a number, infinity, or an object of an unknown type.
    """
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
