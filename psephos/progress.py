"""The callable by which every simulation, experiment and audit reports its progress."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], object]
"""Called with (the phase, the steps that are done, all steps of the phase)."""


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


def counted(progress: Progress, what: str, total: int) -> Callable[[int], None]:
    """Report the start of the phase `what`; the function that is returned takes the steps done since its last call."""
    done = 0
    progress(what, 0, total)

    def step(steps: int) -> None:
        nonlocal done
        done += steps
        progress(what, done, total)

    return step
