"""Engines run the batches of a simulation: in this process, in processes of this machine, or on a Dask or Ray cluster.

An engine's `run` calls one function for every batch, with `shared`, which each worker receives once, and the batch.
Results come in any order, each exactly once. `count_workers` is how many batches run at the same time. Batches
contain the secrets of simulated parties: a cluster should be your own, its connections with TLS.
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import joblib
from joblib import Parallel, delayed, parallel_config

import psephos
from psephos.protocol.errors import EngineError, InvalidParameter

ENGINES = ("local", "dask", "ray")
"""Names of the engines (`make_engine`)."""

Task = TypeVar("Task")
Output = TypeVar("Output")

FEWEST_BATCHES = 4
"""Least number of batches for which processes are started; starting them takes longer than fewer batches usually do."""

_ANSWER = 10.0
"""Seconds in which a cluster is to answer."""

_RETRIES = 3  # times in a row that workers may die before a batch is finished


@dataclass(frozen=True)
class LocalEngine:
    """Runs batches in processes of this machine (joblib's loky), which are replaced when they die.

    They run in this process if there is one worker, or there are fewer batches than `fewest`.
    """

    workers: int = 1
    fewest: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InvalidParameter(f"an engine has at least one worker, not {self.workers}")

    def count_workers(self) -> int:
        return self.workers

    def run(
        self, function: Callable[[Any, Task], Output], shared: Any, tasks: Sequence[Callable[[], Task]]
    ) -> Iterator[Output]:
        if self.workers == 1 or len(tasks) < self.fewest:
            for task in tasks:
                yield function(shared, task())
            return
        with tempfile.TemporaryDirectory(prefix="psephos-") as folder:
            path = str(Path(folder) / f"shared-{uuid.uuid4().hex}")
            try:
                joblib.dump(shared, path)
            except OSError as error:
                raise EngineError(
                    f"the input of the workers cannot be written to {tempfile.gettempdir()} ({error.strerror}); free "
                    "space there, or set TMPDIR to another directory"
                ) from error
            remaining = dict(enumerate(tasks))
            deaths = 0
            while remaining:
                try:
                    with _closed_quietly(self._parallel(function, path, remaining)) as results:
                        for place, result in results:
                            del remaining[place]
                            deaths = 0
                            yield result
                except BrokenProcessPool as error:
                    deaths += 1
                    if deaths == _RETRIES:
                        raise EngineError(
                            f"worker processes died {deaths} times without finishing a batch (killed, or out of "
                            "memory): use fewer workers; a run with a journal can be continued"
                        ) from error

    def _parallel(
        self, function: Callable[[Any, Task], Output], path: str, remaining: dict[int, Callable[[], Task]]
    ) -> Iterator[tuple[int, Output]]:
        # A copy, since finished tasks are removed from `remaining` while others are still handed out.
        calls = (delayed(_with_file)(function, path, place, task()) for place, task in list(remaining.items()))
        results: Iterator[tuple[int, Output]] = Parallel(n_jobs=self.workers, return_as="generator_unordered")(calls)
        return results


@contextmanager
def _closed_quietly(results: Any) -> Iterator[Any]:
    """Close joblib's generator without its warning about unused results when a run is interrupted."""
    try:
        yield results
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?s).*You could benefit from adjusting", category=UserWarning)
            results.close()


_loaded: tuple[str, Any] | None = None


def _with_file(function: Callable[[Any, Task], Output], path: str, place: int, task: Task) -> tuple[int, Output]:
    global _loaded
    if _loaded is None or _loaded[0] != path:
        _loaded = path, joblib.load(path, mmap_mode="r")
    return place, function(_loaded[1], task)


@dataclass(frozen=True)
class DaskEngine:
    """Runs batches on a Dask cluster, through joblib's backend, which repeats those of workers that died.

    Attributes:
        address: of the scheduler: host:port, tcp:// or tls://.
        timeout: seconds to wait for the scheduler and for its first worker.
    """

    address: str
    timeout: float = _ANSWER

    def count_workers(self) -> int:
        """Ask the scheduler for the number of threads of its workers."""
        client = self._client()
        try:
            return max(1, int(sum(client.ncores().values())))
        finally:
            client.close()

    def run(
        self, function: Callable[[Any, Task], Output], shared: Any, tasks: Sequence[Callable[[], Task]]
    ) -> Iterator[Output]:
        client = self._client()
        # After _client, whose error message says what to install.
        from distributed import CancelledError, KilledWorker
        from joblib._dask import DaskDistributedBackend

        class Backend(DaskDistributedBackend):  # type: ignore[misc]
            """Uses the cluster even if it has one thread; joblib would run the batches in this process."""

            def effective_n_jobs(self, n_jobs: int) -> int:
                return max(2, int(super().effective_n_jobs(n_jobs)))

        try:
            try:
                client.wait_for_workers(1, timeout=self.timeout)
            except TimeoutError as error:
                raise EngineError(
                    f"the Dask scheduler at {self.address} has no workers; start some (dask worker {self.address})"
                ) from error
            calls = (delayed(_with_version)(psephos.__version__, function, shared, task()) for task in tasks)
            with (
                parallel_config(backend=Backend(client=client, scatter=[shared]), n_jobs=-1),
                _closed_quietly(Parallel(return_as="generator_unordered")(calls)) as results,
            ):
                yield from results
        except (KilledWorker, CancelledError) as error:
            raise EngineError(
                f"the cluster at {self.address} lost a batch: its scheduler stopped, or several workers died of it; "
                "see their logs. A run with a journal can be continued"
            ) from error
        finally:
            client.close()

    def _client(self) -> Any:
        try:
            from distributed import Client
        except ImportError as error:
            raise EngineError("the engine 'dask' needs Dask; in a clone: pip install -e '.[dask]'") from error
        try:
            connect: Any = Client
            return connect(self.address, timeout=self.timeout, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise EngineError(
                f"no Dask scheduler answers at {self.address!r}: start one (dask scheduler), or check --scheduler"
            ) from error
        except TypeError as error:  # raised by distributed if no certificates are configured
            raise EngineError(
                f"the connection to {self.address} cannot be secured: Dask's configuration names no certificates for "
                "it (distributed.comm.tls)"
            ) from error


def _with_version(version: str, function: Callable[[Any, Task], Output], shared: Any, task: Task) -> Output:
    if psephos.__version__ != version:
        raise EngineError(
            f"a worker with psephos {psephos.__version__} has joined a run of psephos {version}, and its results could "
            "differ: install the same version everywhere; a run with a journal can be continued"
        )
    return function(shared, task)


@dataclass(frozen=True)
class RayEngine:
    """Runs batches as tasks of a Ray cluster, which repeats those of workers that died.

    Attributes:
        address: of the cluster: host:port, ray://host:port, or "local" for one of this machine.
    """

    address: str

    def count_workers(self) -> int:
        """Ask the cluster for the number of its CPUs."""
        return max(1, int(self._ray().cluster_resources().get("CPU", 1)))

    def run(
        self, function: Callable[[Any, Task], Output], shared: Any, tasks: Sequence[Callable[[], Task]]
    ) -> Iterator[Output]:
        ray, most = self._ray(), 2 * self.count_workers()
        compute, data = ray.remote(max_retries=_RETRIES)(_with_version), ray.put(shared)
        running: list[Any] = []
        try:
            for task in tasks:
                running.append(compute.remote(psephos.__version__, function, data, task()))
                if len(running) == most:
                    (done,), running = ray.wait(running)
                    yield ray.get(done)
            while running:
                (done,), running = ray.wait(running)
                yield ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise EngineError(
                f"the cluster at {self.address} lost a batch: it stopped, or several workers died of it; see their "
                "logs. A run with a journal can be continued"
            ) from error
        finally:
            for one in running:
                ray.cancel(one)

    def _ray(self) -> Any:
        try:
            import ray
        except ImportError as error:
            raise EngineError("the engine 'ray' needs Ray; in a clone: pip install -e '.[ray]'") from error
        host, _, port = self.address.removeprefix("ray://").rpartition(":")
        try:
            if host:  # Ray itself would wait for minutes
                socket.create_connection((host, int(port)), timeout=_ANSWER).close()
            ray.init(self.address, ignore_reinit_error=True, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, OSError, ValueError, RuntimeError) as error:
            raise EngineError(f"no Ray cluster answers at {self.address!r}: start one, or check --scheduler") from error
        return ray


Engine: TypeAlias = LocalEngine | DaskEngine | RayEngine


def make_engine(
    name: Literal["local", "dask", "ray"] | str = "local", *, workers: int | None = None, scheduler: str | None = None
) -> Engine:
    if name not in ENGINES:
        raise InvalidParameter(f"there is no engine {name!r}: --engine is one of {', '.join(ENGINES)}")
    if name == "local" and scheduler is None:
        return LocalEngine(workers if workers is not None else os.cpu_count() or 1, FEWEST_BATCHES)
    if name == "dask" and scheduler is not None:
        return DaskEngine(scheduler)
    if name == "ray" and scheduler is not None:
        return RayEngine(scheduler)
    raise InvalidParameter("--engine dask and ray need an address, --scheduler HOST:PORT, and no other does")
