"""Speed and size on this machine, beside the libraries that are installed (`make bench`)."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks.core import addition, encryption
from benchmarks.peers import peers
from psephos.protocol.paillier.kernel import kernel

LIBRARIES = (
    "gmpy2",
    "phe",
    "numpy",
    "cryptography",
    "pypaillier",
    "sf-heu",
    "lightphe",
    "tno.mpc.encryption_schemes.paillier",
)
"""Libraries whose versions the result names."""

SHAPES = {"HAR": (1352, 6, 1000), "KDD-99": (43_000, 2, 20_000)}
"""Shapes of the ballots to count: auxiliary samples, classes and parties, by data set."""


def measure(bits: Sequence[int], repetitions: int = 7) -> dict[str, Any]:
    """Measure encryption, counting and other libraries at each key size, on one core.

    Times are medians; ratios are taken within this run.

    Args:
        bits: key sizes.
        repetitions: interleaved repetitions of each measurement.

    Returns:
        `machine` (the processor's architecture), `python` and `libraries`: versions; `kernel`: "ifma" (AVX-512) or
        "gmpy2"; `encryption`, `addition`, `peers`: one entry per key size, two for addition.
    """
    counting = [addition(name, size, *shape, repetitions) for size in bits for name, shape in SHAPES.items()]
    return {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "kernel": kernel(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "encryption": [asdict(encryption(size, repetitions)) for size in bits],
        "addition": [asdict(one) for one in counting],
        "peers": [asdict(peers(size, repetitions)) for size in bits],
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
