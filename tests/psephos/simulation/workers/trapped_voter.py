"""A voter for tests that kill processes. Workers import it by name, so it lies in a folder on their path."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Fixed:
    """Votes what it was told to. `trap`: a file; whoever finds it removes it and kills its own process."""

    votes: NDArray[np.int64]
    trap: str | None = None
    immortal: int = 0

    def predict_votes(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        if self.trap is not None and os.getpid() != self.immortal and Path(self.trap).exists():
            if not self.trap.endswith("forever"):
                Path(self.trap).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.votes


def process(shared: None, task: int) -> int:
    """A task that says where it is done."""
    return os.getpid()


def die(shared: None, task: int) -> None:
    """A task that kills its process."""
    os.kill(os.getpid(), signal.SIGKILL)
