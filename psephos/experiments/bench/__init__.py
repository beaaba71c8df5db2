"""Speed and size on this machine, beside the libraries that are installed (`psephos bench`, `make bench`)."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

from psephos.experiments.bench.comparisons import comparison
from psephos.experiments.bench.core import addition, encryption
from psephos.experiments.bench.peers import peers
from psephos.progress import Progress, counted, silent
from psephos.protocol.errors import InvalidParameter
from psephos.protocol.paillier.kernel import kernel
from psephos.protocol.paillier.keys import check_key_bits
from psephos.results import BenchResult
from psephos.results.base import timed

T = TypeVar("T")

LIBRARIES = (
    "gmpy2",
    "phe",
    "numpy",
    "cryptography",
    "pypaillier",
    "sf-heu",
    "tno.mpc.encryption_schemes.paillier",
    "tno.mpc.encryption_schemes.dgk",
    "tno.mpc.protocols.secure_comparison",
)
"""Libraries whose versions the result names."""

SHAPES = {"HAR": (1352, 6, 1000), "KDD-99": (43_000, 2, 20_000)}
"""Shapes of the ballots to count: auxiliary samples, classes and parties, by data set."""


def measure(bits: Sequence[int], repetitions: int = 7, progress: Progress = silent) -> BenchResult:
    """Measure encryption, counting, other libraries and secure comparison at each key size, on one core.

    Times are medians; ratios are taken within this run.

    Args:
        bits: key sizes.
        repetitions: interleaved repetitions of each measurement.
        progress: called at the start and after each measurement.

    Raises:
        InvalidParameter: there is no key size, no key has one of the sizes, or there is no repetition.
    """
    if not bits or repetitions < 1:
        raise InvalidParameter("a benchmark needs at least one key size and one repetition")
    for size in bits:
        check_key_bits(size, test_key=True)

    count_steps = counted(progress, "benchmarks", (3 + len(SHAPES)) * len(bits))

    def count_step(measurement: T) -> T:
        """Return a measurement after reporting it to `progress`."""
        count_steps(1)
        return measurement

    start = time.perf_counter()
    return BenchResult(
        machine=platform.machine(),
        python=platform.python_version(),
        kernel=kernel(),
        libraries={name: _version(name) for name in LIBRARIES},
        encryption=[count_step(encryption(size, repetitions)) for size in bits],
        addition=[
            count_step(addition(name, size, *shape, repetitions)) for size in bits for name, shape in SHAPES.items()
        ],
        peers=[count_step(peers(size, repetitions)) for size in bits],
        comparisons=[count_step(comparison(size, repetitions)) for size in bits],
        phases=timed({"total": round(time.perf_counter() - start, 1)}),
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
