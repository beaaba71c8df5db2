"""Bias of judging self-training on split releases: what docs/theory.md, "Self-training", says of it.

A release T = S + eta is split into T + g and T - g by public vectors g. The judgement u = <f(T + g), T - g> estimates
<f(T + g), S>; its bias is printed in standard deviations of the noise per entry, for one vector g and for those of
`public_splits`, with f the sign pattern of its argument at unit length.

    python -m benchmarks.splits
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from psephos.curator.hamm.statistic import public_splits

Array = NDArray[np.float64]
SHAPES = ((2, 3), (5, 5), (9, 8))
LAWS = ("gaussian", "discrete laplace", "spherical laplace")


def noise(law: str, generator: np.random.Generator, samples: int, dimension: int) -> Array:
    """Noise (samples, dimension) of variance 1 per entry; discrete Laplace on a lattice so fine that it is Laplace."""
    if law == "discrete laplace":
        return generator.laplace(scale=2**-0.5, size=(samples, dimension))
    eta = generator.normal(size=(samples, dimension))
    if law == "spherical laplace":
        eta *= generator.gamma(dimension, size=(samples, 1)) / np.linalg.norm(eta, axis=1, keepdims=True)
        eta /= (dimension + 1) ** 0.5
    return eta


def bias(vectors: Sequence[Array], law: str, dimension: int, *, samples: int = 20_000, seed: int = 1) -> float:
    """Mean over the noise of u - <f, S>, for a signal of a quarter of the noise's energy in a random direction."""
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
    """Print a line for each shape and law."""
    for shape in SHAPES:
        dimension = shape[0] * shape[1]
        one = np.random.default_rng(0).normal(size=(1, dimension))
        for law in LAWS:
            several = public_splits(shape, laplace=law == "discrete laplace").reshape(-1, dimension)
            single, averaged = (bias(list(vectors), law, dimension) for vectors in (one, several))
            print(
                f"{shape[0] + 1} classes, {shape[1]} coordinates, {law}: one vector {single:+.3f}, "
                f"{len(several)} vectors {averaged:+.3f}"
            )


if __name__ == "__main__":
    main()
