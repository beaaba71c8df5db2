"""Processor time: what else the machine does meanwhile does not count."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def clock(work: Callable[[], object]) -> float:
    """CPU seconds of one call, of this process and all its threads: several cores gain a library nothing here."""
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started


def cpu_seconds(work: Callable[[], object], least: float = 0.03) -> float:
    """CPU seconds per call, over as many calls as take `least` seconds together."""
    times = 0
    started = time.process_time()
    while time.process_time() - started < least:
        work()
        times += 1
    return (time.process_time() - started) / times


def interleaved(measures: Mapping[Name, Callable[[], float]], repetitions: int) -> dict[Name, list[float]]:
    """What each of these measures, in turns: what slows the machine down slows all of them."""
    samples: dict[Name, list[float]] = {name: [] for name in measures}
    for _ in range(repetitions):
        for name, measure in measures.items():
            samples[name].append(measure())
    return samples


def ratio(slower: list[float], faster: list[float]) -> float:
    """The median of the ratios within a turn."""
    return statistics.median(s / f for s, f in zip(slower, faster, strict=True))


def milliseconds(samples: Mapping[Name, list[float]]) -> dict[Name, float]:
    """The medians."""
    return {name: 1e3 * statistics.median(taken) for name, taken in samples.items()}
