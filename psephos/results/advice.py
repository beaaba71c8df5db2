"""What a result says of its releases beside what they compete with.

It is measured on held-out rows, which may be private: no model and no card has it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from psephos.results.base import METHODS, Accuracy, rare_class

WITHOUT_PARTIES = {
    "majority": "the parties' most frequent class",
    "public": "a model of the public rows alone",
    "public-forest": "a forest of the public rows alone",
}
"""What needs no release, by its name among the methods."""

NOT_LINEAR = ("trees", "ensemble")
"""What is not linear and needs all rows, or all parties' classifiers."""

FAR = 0.05
"""Smallest difference that is called far, if it is also `ERRORS` standard errors."""

ERRORS = 2.0

HELP = "More parties or a larger epsilon would help."

Measured = Mapping[str, Mapping[str, float]]
"""Measure ("accuracy", "balanced accuracy", "AUROC") -> method -> its value."""


def advice(
    accuracy: Mapping[str, Accuracy],
    asked: Collection[str],
    linear: Collection[str],
    hidden: Collection[str],
    shares: Sequence[float],
    test: int,
    at: str = "",
) -> list[str]:
    """Return sentences about a run's releases.

    `asked`: the methods for which parties were asked; `linear`: references that are linear classifiers as good as all
    rows give; `hidden`: the methods whose noise is expected to hide what was learned; `shares`: of the classes in the
    `test` samples; `at`: which of several releases is meant. Where a class is rare, balanced accuracy and AUROC are
    compared, and otherwise accuracy.
    """
    if not shares:
        return []
    exact, private = _measured(accuracy, rare_class(shares))
    released = [name for name in asked if all(name in values for values in private.values())]
    poor = [name for name in released if not _better(private, name, exact, WITHOUT_PARTIES)]
    helped = [
        name
        for name in poor
        if any(
            values.get(name, 0.0) > max(private[measure][name], _best(values, WITHOUT_PARTIES))
            for measure, values in exact.items()
        )
    ]
    rival = _rival(exact)
    lucky = [name for name in released if name in hidden and name not in poor]
    by = f"in {' and '.join(exact)} " if len(exact) > 1 else ""
    texts = [
        (helped, f"no better than {rival} as released, and better without noise. {HELP}"),
        ([name for name in poor if name not in helped], f"no better than {rival}, nor without noise."),
        (lucky, f"better than {rival} here, though the noise is expected to hide it: another draw may be worse."),
    ]
    return [
        *(f"{', '.join(names)}{at}: {by}{text}" for names, text in texts if names),
        *_not_linear(exact, linear, released, shares, test),
    ]


def _measured(accuracy: Mapping[str, Accuracy], rare: bool) -> tuple[Measured, Measured]:
    """Return each measure of the methods without noise, and of releases."""
    exact: dict[str, dict[str, float | None]] = {}
    private: dict[str, dict[str, float | None]] = {}
    for name, one in accuracy.items():
        both = {"accuracy": (one.nonprivate, one.private)}
        if rare:
            ranked = one.private is not None
            both = {
                "balanced accuracy": (one.nonprivate_balanced, one.balanced if ranked else None),
                "AUROC": (one.nonprivate_auroc, one.auroc if ranked else None),
            }
        for measure, (without, released) in both.items():
            exact.setdefault(measure, {})[name] = without
            private.setdefault(measure, {})[name] = released
    return _known(exact), _known(private)


def _known(values: Mapping[str, Mapping[str, float | None]]) -> Measured:
    return {
        measure: {name: value for name, value in each.items() if value is not None} for measure, each in values.items()
    }


def _best(values: Mapping[str, float], names: Collection[str]) -> float:
    return max((values[name] for name in names if name in values), default=0.0)


def _better(private: Measured, name: str, exact: Measured, rivals: Collection[str]) -> bool:
    """Return whether a release is better than all rivals by one of the measures."""
    return any(values[name] > _best(exact[measure], rivals) for measure, values in private.items())


def _rival(exact: Measured) -> str:
    """Return the best of what needs no release, or where there are several measures all of it."""
    values, *others = exact.values()
    if others:
        return "the most frequent class" + " or the public rows alone" * ("public" in values)
    best = max((name for name in WITHOUT_PARTIES if name in values), key=lambda name: values[name])
    return f"{WITHOUT_PARTIES[best]} ({values[best]:.1%})"


def _not_linear(
    exact: Measured, linear: Collection[str], released: Collection[str], shares: Sequence[float], test: int
) -> list[str]:
    """Return a sentence if trees, or the parties' vote, are far better than every linear classifier without noise."""
    measure = list(exact)[-1]
    values, rare = exact[measure], len(exact) > 1
    count = test * min(share for share in shares if share) if rare else test
    rivals = {name: values[name] for name in NOT_LINEAR if name in values}
    if not rivals or not any(name in values for name in linear):
        return []
    best, reached = max(rivals, key=lambda name: rivals[name]), _best(values, [*linear, *released])
    top = rivals[best]
    error = math.sqrt((top * (1 - top) + reached * (1 - reached)) / count)
    if top - reached <= max(FAR, ERRORS * error):
        return []
    return [
        "A classifier that is linear in the features of this run does not represent these rows: without noise the best "
        f"one measured has an {measure} of {reached:.3f}, and {best} ({METHODS[best]}) {top:.3f}."
    ]
