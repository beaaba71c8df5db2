"""The callable by which every simulation, experiment and audit reports its progress."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "counted", "silent"]

Progress = Callable[[str, int, int], object]
"""Called with (the phase, the steps that are done, all steps of the phase)."""


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


def counted(progress: Progress, what: str, total: int) -> Callable[[int], None]:
    """Report the start of the phase `what`, and return a function that reports further steps.

    Returns:
        A function that takes the number of steps done since its last call.
    """
    done = 0
    progress(what, 0, total)

    def step(steps: int) -> None:
        nonlocal done
        done += steps
        progress(what, done, total)

    return step
