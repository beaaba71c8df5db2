"""Seconds of a tally on a local Dask cluster: one worker and two, and two of which one is killed and replaced.

`python -m benchmarks.cluster` measures both and prints the contents of benchmarks/results/cluster.json; `python -m
benchmarks.cluster --scaling 10000 30000 --repetitions 3` or `--killed 200000` measures one of them. The numbers are
numbers of parties. Every worker has one thread. There are 100 auxiliary samples, 3072-bit keys and the randomness
`short`, as in the run of a million parties.

When a worker is killed depends on the number of parties counted, not on a clock: after each tenth of them the oldest
worker is killed (SIGKILL) and a new one is started.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import Any

from psephos.progress import Progress, silent
from psephos.simulation.tally import TallyOptions, simulate_tally


class Cluster:
    """A Dask scheduler and its workers, processes that are killed when the context ends.

    Attributes:
        address: of the scheduler.
        workers: the processes of the workers, the oldest first.
        killed: number of workers that were killed so far.
    """

    def __init__(self, workers: int) -> None:
        """Start the scheduler and `workers` workers. Raises RuntimeError if the scheduler ends."""
        with ExitStack() as self._with:
            self._folder = Path(self._with.enter_context(tempfile.TemporaryDirectory(prefix="psephos-cluster-")))
            file = self._folder / "scheduler.json"
            scheduler = self._start("scheduler", "--scheduler-file", str(file), "--host", "127.0.0.1", "--port", "0")
            self.address = ""
            while not self.address:
                time.sleep(0.1)
                if scheduler.poll() is not None:
                    raise RuntimeError(f"the scheduler ended: {(self._folder / 'log').read_text()}")
                with suppress(OSError, ValueError):
                    self.address = json.loads(file.read_text())["address"]
            self.workers = [self.join() for _ in range(workers)]
            self.killed = 0
            self._with = self._with.pop_all()

    def _start(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start Dask's program for a "scheduler" or a "worker"; its output goes to the file log."""
        line = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *arguments]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(line, stdout=log, stderr=log)  # noqa: S603
        self._with.callback(process.wait)
        self._with.callback(process.kill)
        return process

    def join(self) -> subprocess.Popen[bytes]:
        """Start a worker of one thread and return its process."""
        options = ["--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder)]
        return self._start("worker", self.address, *options)

    def replace_one(self) -> None:
        """Kill the oldest worker and start a new one."""
        oldest = self.workers.pop(0)
        oldest.kill()
        oldest.wait()
        self.killed += 1
        self.workers.append(self.join())

    def wait(self) -> None:
        """Wait until all workers are connected to the scheduler."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(len(self.workers))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._with.close()


def _run(cluster: Cluster, parties: int, progress: Progress = silent) -> dict[str, Any]:
    """Simulate a tally on the cluster; return the seconds of counting, its correctness and the peak memory (MB)."""
    cluster.wait()
    options = TallyOptions(
        dataset="synthetic",
        parties=parties,
        auxiliary=100,
        randomness="short",
        methods=("soft",),
        draws=1,
        engine="dask",
        scheduler=cluster.address,
    )
    result = simulate_tally(options, progress=progress).as_json()
    return {
        "parties": parties,
        "workers": len(cluster.workers),
        "counting_seconds": round(result["seconds"]["encrypt"] + result["seconds"]["aggregate"], 2),
        "counts_exact": result["tally_equals_plaintext"],
        "peak_memory_mb": round(result["peak_memory_mb"]),
    }


def scaling(parties: int, repetitions: int) -> dict[str, Any]:
    """Measure one worker and two, in turns.

    Returns:
        The runs; the efficiency, which is half of the median seconds with one worker divided by the median seconds with
        two; and the load average at the end.
    """
    runs = []
    for _ in range(repetitions):
        for workers in (1, 2):
            with Cluster(workers) as cluster:
                runs.append(_run(cluster, parties))
    one, two = (median(run["counting_seconds"] for run in runs if run["workers"] == n) for n in (1, 2))
    return {"runs": runs, "efficiency": round(one / two / 2, 3), "load_average": os.getloadavg()[0]}


def killed(parties: int) -> dict[str, Any]:
    """Measure two workers, of which the oldest is killed and replaced after each tenth of the parties."""
    with Cluster(2) as cluster:

        def look(what: str, done: int, total: int) -> None:
            """Replace a worker if another tenth of the parties is counted."""
            if "count" in what and total and done * 10 // total > cluster.killed and done < total:
                cluster.replace_one()

        return _run(cluster, parties, look) | {"workers_killed": cluster.killed, "workers_joined": cluster.killed}


def main() -> None:
    """Measure scaling, killed workers, or both, and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--scaling", type=int, nargs="+", metavar="PARTIES")
    parser.add_argument("--killed", type=int, metavar="PARTIES")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    both = options.scaling is None and options.killed is None
    results: dict[str, Any] = {}
    if both or options.scaling:
        results["scaling"] = [scaling(parties, options.repetitions) for parties in options.scaling or (10_000, 30_000)]
    if both or options.killed:
        results["killed"] = killed(options.killed or 200_000)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
