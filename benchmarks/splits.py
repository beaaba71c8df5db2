"""Bias of the validation of self-training on split releases, which docs/theory.md, "Self-training", states.

    python -m benchmarks.splits

A release T = S + eta is split into T + g and T - g by public vectors g. The score u = <f(T + g), T - g> estimates
<f(T + g), S>. Its bias is printed in standard deviations of an entry of the noise, for one vector g and for those of
`public_splits`. Here f(x) is the vector of the signs of x, at unit length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from psephos.curator.statistic import public_splits

Array = NDArray[np.float64]
SHAPES = ((2, 3), (5, 5), (9, 8))
LAWS = ("gaussian", "discrete laplace", "spherical laplace")


def noise(law: str, generator: np.random.Generator, samples: int, dimension: int) -> Array:
    """Draw noise of variance 1 per entry, float64 (samples, dimension).

    The lattice of discrete Laplace noise is so fine that continuous Laplace noise stands for it.
    """
    if law == "discrete laplace":
        return generator.laplace(scale=2**-0.5, size=(samples, dimension))
    eta = generator.normal(size=(samples, dimension))
    if law == "spherical laplace":
        eta *= generator.gamma(dimension, size=(samples, 1)) / np.linalg.norm(eta, axis=1, keepdims=True)
        eta /= (dimension + 1) ** 0.5
    return eta


def bias(vectors: Sequence[Array], law: str, dimension: int, *, samples: int = 20_000, seed: int = 1) -> float:
    """Return the mean of u - <f(T + g), S> over `samples` draws of the noise, over the vectors g and over -g.

    The signal S has a quarter of the noise's energy and a random direction.
    """
    generator = np.random.default_rng(seed)
    S = generator.normal(size=dimension)
    S *= 0.5 * dimension**0.5 / np.linalg.norm(S)
    eta = noise(law, generator, samples, dimension)
    errors = [
        (np.sign(S + eta + sign * g) * (eta - sign * g)).sum(axis=1) / dimension**0.5
        for g in vectors
        for sign in (1.0, -1.0)
    ]
    return float(np.mean(errors))


def main() -> None:
    """Print a line for each shape and each distribution of the noise."""
    for shape in SHAPES:
        dimension = shape[0] * shape[1]
        one = np.random.default_rng(0).normal(size=(1, dimension))
        for law in LAWS:
            several = public_splits(shape, laplace=law == "discrete laplace").reshape(-1, dimension)
            single, average = (bias(list(vectors), law, dimension) for vectors in (one, several))
            print(
                f"{shape[0] + 1} classes, {shape[1]} coordinates, {law}: one vector {single:+.3f}, "
                f"{len(several)} vectors {average:+.3f}"
            )


if __name__ == "__main__":
    main()
