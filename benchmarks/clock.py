"""Processor time, which does not include the work of other programs."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def clock(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call in all threads of this process, so that several cores do not shorten it."""
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started


def cpu_seconds(work: Callable[[], object], least: float = 0.03) -> float:
    """Return the CPU seconds per call, over calls that are repeated until they take `least` seconds together."""
    times = 0
    started = time.process_time()
    while time.process_time() - started < least:
        work()
        times += 1
    return (time.process_time() - started) / times


def interleaved(measures: Mapping[Name, Callable[[], float]], repetitions: int) -> dict[Name, list[float]]:
    """Return the samples of each measure, taken in turns, so that a slower machine affects all measures alike."""
    samples: dict[Name, list[float]] = {name: [] for name in measures}
    for _ in range(repetitions):
        for name, measure in measures.items():
            samples[name].append(measure())
    return samples


def ratio(slower: list[float], faster: list[float]) -> float:
    """Return the median over the turns of the ratio of two samples of one turn."""
    return statistics.median(s / f for s, f in zip(slower, faster, strict=True))


def milliseconds(samples: Mapping[Name, list[float]]) -> dict[Name, float]:
    """Return the median of each list of seconds, in milliseconds."""
    return {name: 1e3 * statistics.median(seconds) for name, seconds in samples.items()}
