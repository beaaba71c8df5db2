"""Sums and classifiers without noise, with which a simulation compares a release. Only a simulation has all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psephos.curator.statistic import fit_statistic, release_sum
from psephos.parties.party import labels_of
from psephos.parties.statistic import own_vector
from psephos.specs.noisy import NoisySumSpec
from psephos.specs.statistic import StatisticSpec, plan_of
from psephos.specs.terms import PrivacyTerms, PublicTerms


def exact_sum(spec: NoisySumSpec, data: Sequence[Any]) -> list[int]:
    """Return the sum of some parties' exact vectors, each computed from its `data` as `Spec.prepare` returns it."""
    grid = spec.grid
    if spec.takes_classifier:
        assert spec.auxiliary is not None
        labels = (labels_of(voter, spec.auxiliary.samples, grid.classes) for voter in data)
        vectors = [grid.contribution(each) for each in labels]
    else:
        vectors = [own_vector(grid, *rows) for rows in data]
    return [sum(column) for column in zip(*vectors, strict=True)]


def statistic_without_noise(public: PublicTerms, data: Sequence[Any]) -> NDArray[np.float64]:
    """Fit a statistic of these parties without noise, in all public coordinates: (d,) for two classes, else (K, d)."""
    terms = replace(public, parties=len(data))
    plan = plan_of(terms, PrivacyTerms(epsilon=None), "spherical-laplace", joint=False)
    return fit_statistic(release_sum(exact_sum(StatisticSpec(plan, None, public.auxiliary), data), plan))
