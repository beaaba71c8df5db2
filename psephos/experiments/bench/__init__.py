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
"""Whose versions a measurement names."""

SHAPES = {"HAR": (1352, 6, 1000), "KDD-99": (43_000, 2, 20_000)}
"""Ballots to count: auxiliary samples, classes and parties, by the data set that has them."""


def measure(bits: Sequence[int], repetitions: int = 7, progress: Progress = silent) -> BenchResult:
    """Encryption, counting, the peers and comparisons at each key size: medians on one core, ratios within this run.

    Args:
        bits: key sizes. repetitions: interleaved repetitions of each measurement. progress: called
            before and after each measurement.

    Raises InvalidParameter for no key size, one that no key has, or no repetition.
    """
    if not bits or repetitions < 1:
        raise InvalidParameter("a benchmark needs at least one key size and one repetition")
    for size in bits:
        check_key_bits(size, test_key=True)

    done = counted(progress, "benchmarks", (3 + len(SHAPES)) * len(bits))

    def told(measured: T) -> T:
        done(1)
        return measured

    begun = time.perf_counter()
    return BenchResult(
        machine=platform.machine(),
        python=platform.python_version(),
        kernel=kernel(),
        libraries={name: _version(name) for name in LIBRARIES},
        encryption=[told(encryption(size, repetitions)) for size in bits],
        addition=[told(addition(name, size, *shape, repetitions)) for size in bits for name, shape in SHAPES.items()],
        peers=[told(peers(size, repetitions)) for size in bits],
        comparisons=[told(comparison(size, repetitions)) for size in bits],
        phases=timed({"total": round(time.perf_counter() - begun, 1)}),
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
