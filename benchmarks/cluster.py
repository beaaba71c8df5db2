"""A tally on a Dask cluster of this machine: one worker against two, and workers that are killed and join.

Run on its own: `python -m benchmarks.cluster` for both, `python -m benchmarks.cluster --scaling 10000 30000
--repetitions 3` or `--killed 200000` for one of them, the numbers being parties; prints what
benchmarks/results/cluster.json holds. Every worker has one thread. 100 auxiliary samples, 3072-bit keys, randomness
`short`: the shape of the run of a million parties.

A worker's death and the next one's arrival are bound to the parties counted, not to a clock: after each tenth of them
the oldest worker is killed (SIGKILL) and a new one is started.
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
    """A scheduler and its workers, each a process that dies with this context."""

    def __init__(self, workers: int) -> None:
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
        line = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *arguments]
        with (self._folder / "log").open("ab") as log:
            process = subprocess.Popen(line, stdout=log, stderr=log)  # noqa: S603
        self._with.callback(process.wait)
        self._with.callback(process.kill)
        return process

    def join(self) -> subprocess.Popen[bytes]:
        """One more worker."""
        options = ["--nthreads", "1", "--no-nanny", "--local-directory", str(self._folder)]
        return self._start("worker", self.address, *options)

    def replace_one(self) -> None:
        """The oldest worker is killed, and another joins."""
        oldest = self.workers.pop(0)
        oldest.kill()
        oldest.wait()
        self.killed += 1
        self.workers.append(self.join())

    def wait(self) -> None:
        """Until all workers are there."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(len(self.workers))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._with.close()


def _run(cluster: Cluster, parties: int, progress: Progress = silent) -> dict[str, Any]:
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
    outcome = simulate_tally(options, progress=progress).as_json()
    return {
        "parties": parties,
        "workers": len(cluster.workers),
        "counting_seconds": round(outcome["seconds"]["encrypt"] + outcome["seconds"]["aggregate"], 2),
        "counts_exact": outcome["tally_equals_plaintext"],
        "peak_memory_mb": round(outcome["peak_memory_mb"]),
    }


def scaling(parties: int, repetitions: int) -> dict[str, Any]:
    """One worker and two, in turn; efficiency: half of one worker's seconds over two workers', medians."""
    runs = []
    for _ in range(repetitions):
        for workers in (1, 2):
            with Cluster(workers) as cluster:
                runs.append(_run(cluster, parties))
    one, two = (median(run["counting_seconds"] for run in runs if run["workers"] == n) for n in (1, 2))
    return {"runs": runs, "efficiency": round(one / two / 2, 3), "load_average": os.getloadavg()[0]}


def killed(parties: int) -> dict[str, Any]:
    """Two workers, of which one is killed after each tenth of the parties, while another joins."""
    with Cluster(2) as cluster:

        def look(what: str, done: int, total: int) -> None:
            if "count" in what and total and done * 10 // total > cluster.killed and done < total:
                cluster.replace_one()

        return _run(cluster, parties, look) | {"workers_killed": cluster.killed, "workers_joined": cluster.killed}


def main() -> None:
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
