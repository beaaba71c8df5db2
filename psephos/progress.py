"""How a long run says how far it is: one callable, which every simulation, experiment and analysis takes."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "counted", "silent"]

Progress = Callable[[str, int, int], object]
"""(what is being done, how much of it is, how much there is in all)."""


def silent(what: str, done: int, total: int) -> None:
    """Says nothing."""


def counted(progress: Progress, what: str, total: int) -> Callable[[int], None]:
    """Begins `what`; the result is called with the number of steps done since its last call."""
    done = 0
    progress(what, 0, total)

    def step(steps: int) -> None:
        nonlocal done
        done += steps
        progress(what, done, total)

    return step
