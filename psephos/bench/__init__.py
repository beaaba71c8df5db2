"""Speed and size on this machine, beside the libraries that are installed (`psephos bench`, `make bench`)."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from psephos.bench.comparisons import comparison
from psephos.bench.core import addition, encryption
from psephos.bench.peers import peers
from psephos.protocol.errors import InvalidParameter

__all__ = ["LIBRARIES", "PHASES", "SHAPES", "measure"]

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

SHAPES = ((1352, 6, 1000, "HAR"), (43_000, 2, 20_000, "KDD-99"))
"""Ballots to count: auxiliary samples, classes, parties, and the data set that has them."""

PHASES = 4
"""How often `measure` tells its progress, for each key size."""


def measure(
    bits: Sequence[int], repetitions: int = 7, progress: Callable[[int], object] = lambda done: None
) -> dict[str, Any]:
    """Encryption, counting, the peers and comparisons at each key size: medians on one core, ratios within this run.

    Args:
        bits: key sizes. repetitions: interleaved repetitions of each measurement. progress: called with 1 after each
            of the `PHASES` measurements of each key size.

    Raises InvalidParameter for no key size or no repetition.
    """
    if not bits or repetitions < 1:
        raise InvalidParameter("a benchmark needs at least one key size and one repetition")
    results: dict[str, Any] = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "encryption": [],
        "addition": [],
        "peers": [],
        "comparison": [],
    }
    for size in bits:
        results["encryption"].append(encryption(size, repetitions))
        progress(1)
        for samples, classes, parties, name in SHAPES:
            results["addition"].append({"like": name, **addition(size, samples, classes, parties, repetitions)})
        progress(1)
        results["peers"].append(peers(size, repetitions))
        progress(1)
        results["comparison"].append(comparison(size, repetitions))
        progress(1)
    return results


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
