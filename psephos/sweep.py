"""The sweep: every method at every epsilon, released several times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from psephos.progress import Progress, counted, silent

Array = NDArray[np.float64]
Sampler = Callable[[], Array]
"""Draws one release, weights (d,) or (K, d); every call is a release of its own."""


@dataclass(frozen=True)
class SweepRelease:
    """Release `number` of a method at an epsilon: weights float64 (d,) or (K, d)."""

    method: str
    epsilon: float
    number: int
    weights: Array = field(repr=False)


def sweep(
    samplers_at: Callable[[float], Mapping[str, Sampler]],
    epsilons: Iterable[float],
    draws: int,
    progress: Progress = silent,
) -> Iterator[SweepRelease]:
    """Draw releases by epsilon, then by method, then by number."""
    for epsilon in epsilons:
        samplers = samplers_at(epsilon)
        report = counted(progress, "release", draws * len(samplers))
        for method, sampler in samplers.items():
            for number in range(draws):
                yield SweepRelease(method, epsilon, number, sampler())
                report(1)
