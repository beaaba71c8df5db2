"""Figures that `make bench` compares with the recorded results; they may not get worse by more than 10 %.

Every figure is a ratio, which hardly depends on the machine. Costs of cryptography are relative to another library or
to bare multiplications, measured in the same turns. The CPU time of a whole command is relative to that of a fixed
reference program that runs in the same turns. The wall-clock time of a command has a limit as well.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.clock import ratio

MOST = 1.10
"""Largest allowed ratio of a figure to the recorded one."""

REFERENCE = """
import gmpy2, hashlib
x = gmpy2.mpz(3)
for _ in range(30):
    x = gmpy2.powmod(x, gmpy2.mpz(2) ** 2048 - 1, gmpy2.mpz(2) ** 2048 - 1942289)
table = {}
for i in range(300_000):
    table[str(i)] = hash((i, len(table)))
hashlib.sha256(bytes(20_000_000)).digest()
"""
"""The reference program, whose time depends on big integers, dictionaries and strings, and memory."""

_CLI = ("-c", "from psephos.cli.main import main; raise SystemExit(main())")
_SKLEARN = "import sklearn.linear_model, sklearn.utils.validation"

_TABLE = """
from sklearn.datasets import make_classification
from psephos.curator.rehearsed import rehearsal_of
from psephos.data.preprocessing import default_scaler
columns, labels = make_classification(300, n_features=65, n_informative=5, n_redundant=0, random_state=7)
classes = 2
"""
_HAR = """
import sys
from pathlib import Path
from psephos.curator.rehearsed import rehearsal_of
from psephos.data.datasets import load
from psephos.data.preprocessing import default_scaler
har = load("har", Path(sys.argv[1]))
columns, labels, classes = har.X_train[::10], har.y_train[::10], 6
"""
_REHEARSE = """
rows = default_scaler("your own").set_params(scaling="unit-rows").fit_transform(columns)
rehearsal_of(rows, labels, classes, 100, rows=100, epsilon=1.0, mechanism="gaussian")
"""
"""A rehearsal, to follow `_TABLE` (300 public rows of 65 columns) or `_HAR` (a tenth of HAR's training rows)."""


@dataclass(frozen=True)
class Command:
    """A command that is measured.

    Attributes:
        arguments: arguments of the Python interpreter.
        limit: longest allowed wall-clock time, in seconds.
        beyond: arguments of the interpreter for another program, whose wall-clock time is subtracted; () for none.
        repetitions: number of runs, of which the median counts.
    """

    arguments: tuple[str, ...]
    limit: float
    beyond: tuple[str, ...] = ()
    repetitions: int = 5


def commands(data_dir: str | None) -> dict[str, Command]:
    """Return the commands that are measured, by name; those on HAR only if the folder of its files is given."""
    entries = {
        "psephos --version": Command((*_CLI, "--version"), 0.3, repetitions=9),
        "import psephos.curator": Command(
            ("-c", "from psephos.curator import StatisticClassifier"), 1.0, beyond=("-c", _SKLEARN)
        ),
        "psephos run": Command((*_CLI, "run"), 6.0, repetitions=3),
        "a rehearsal": Command(("-c", _TABLE + _REHEARSE), 10.0, beyond=("-c", _TABLE), repetitions=3),
    }
    if data_dir is not None:
        har = "simulate tally --dataset har --parties 1000 --lam 1e-4 --epsilon 10 --draws 1 --json"
        methods = ("--methods", "vote,soft,avg,statistic,pate", "--data-dir", data_dir)
        entries["a rehearsal on HAR"] = Command(
            ("-c", _HAR + _REHEARSE, data_dir), 30.0, beyond=("-c", _HAR, data_dir), repetitions=1
        )
        entries["HAR, 1,000 parties"] = Command((*_CLI, *har.split(), *methods), 30.0, repetitions=1)
    return entries


def measured_commands(data_dir: str | None) -> dict[str, dict[str, float]]:
    """Measure each command beside the reference program.

    Returns:
        By name: `over_reference`, its CPU time as a multiple of the reference program's; `seconds`, its wall-clock
        time; and `limit`.
    """
    costs = {}
    for name, command in commands(data_dir).items():
        programs = {"own": command.arguments, "reference": ("-c", REFERENCE)}
        if command.beyond:
            programs["beyond"] = command.beyond
        turns = [{each: _run(program) for each, program in programs.items()} for _ in range(command.repetitions)]
        costs[name] = summary(turns) | {"limit": command.limit}
    return costs


def summary(turns: Sequence[Mapping[str, tuple[float, float]]]) -> dict[str, float]:
    """Return the median ratio of CPU time to the reference program's, and the median wall-clock seconds.

    Args:
        turns: (CPU seconds, wall-clock seconds) of "own", "reference" and, optionally, "beyond", whose wall-clock time
            is subtracted from that of "own".
    """
    return {
        "over_reference": round(ratio([turn["own"][0] for turn in turns], [turn["reference"][0] for turn in turns]), 4),
        "seconds": round(statistics.median(turn["own"][1] - turn.get("beyond", (0.0, 0.0))[1] for turn in turns), 3),
    }


def _run(arguments: tuple[str, ...]) -> tuple[float, float]:
    """Run a program in a new folder; return the CPU seconds of it and its children, and its wall-clock seconds."""
    with tempfile.TemporaryDirectory() as folder:
        before, started = _children(), time.perf_counter()
        subprocess.run([sys.executable, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        return _children() - before, time.perf_counter() - started


def _children() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# -- the comparison


def costs(results: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the name and value of every figure that is compared. All are relative costs: smaller is better."""
    for row in results.get("encryption", ()):
        for way, faster in row["times_faster_than_phe_per_ciphertext"].items():
            yield f"encryption, {row['key_bits']} bits, {way}, over phe", 1 / faster
    for row in results.get("addition", ()):
        yield (
            f"counting like {row['like']}, {row['key_bits']} bits, over multiplications",
            row["over_bare_multiplications"],
        )
    for name, row in results.get("commands", {}).items():
        yield f"{name}, over the reference program", row["over_reference"]


def losses(recorded: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, str]:
    """Return the figures that are worse than recorded by more than 10 % or above their limit, each with a message.

    A figure that only one of the two has is not compared. Where another kernel than in the recorded results computes
    the multiplications, only the limits are checked.
    """
    messages = {}
    kernels = {results["kernel"] for results in (recorded, measured) if "kernel" in results}
    if len(kernels) < 2:
        before = dict(costs(recorded))
        for name, cost in costs(measured):
            if name in before and cost > MOST * before[name]:
                messages[name] = f"{cost:.4g}, recorded {before[name]:.4g} ({cost / before[name] - 1:+.0%})"
    for name, row in measured.get("commands", {}).items():
        if row["seconds"] > row["limit"]:
            messages[f"{name}, seconds"] = f"{row['seconds']:.2f} s, at most {row['limit']:g} s"
    return messages
