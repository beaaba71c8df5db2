"""Processor time: what else the machine does meanwhile does not count."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


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
