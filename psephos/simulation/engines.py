"""Where the batches of a simulation are worked on: this process, processes of this machine, or a Dask cluster.

An engine is given one function, what every batch needs (`shared`) and the batches themselves. `shared` reaches each
worker once, however many batches it works on: processes of this machine map one file, a cluster is sent it by Dask's
scatter. Both go through joblib. Results come back in any order, each exactly once.

What is sent holds the secrets of simulated parties. The file lies in a private temporary folder; a cluster should be
one's own, its scheduler addressed by tls://.
"""

from __future__ import annotations

import os
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import joblib
from joblib import Parallel, delayed, parallel_config

import psephos
from psephos.protocol.errors import EngineError, InvalidParameter, SchedulerMissingError, WorkersLostError

__all__ = ["ENGINES", "DaskEngine", "Engine", "LocalEngine", "make_engine"]

ENGINES = ("local", "dask")
"""What `make_engine` takes."""

Task = TypeVar("Task")
Output = TypeVar("Output")

_RETRIES = 3  # times that workers may die in a row without finishing anything


class Engine(Protocol):
    """Runs batches."""

    def count_workers(self) -> int:
        """Count the batches that are worked on at a time; of a cluster, by asking its scheduler."""

    def run(
        self, function: Callable[[Any, Task], Output], shared: Any, tasks: Sequence[Callable[[], Task]]
    ) -> Iterator[Output]:
        """`function(shared, task())` of every task, each once, in any order.

        tasks: made when a worker is about to take them, so that they need not all be in memory.
        Raises EngineError or a subclass; what `function` raises is passed on.
        """


@dataclass(frozen=True)
class LocalEngine:
    """This machine: `workers` processes (joblib's loky), or this process itself when that is 1.

    Workers that die (out of memory, killed) are replaced, and the batches that died with them are worked on again;
    WorkersLostError when that happens three times without a batch being finished. InvalidParameter for less than one
    worker.
    """

    workers: int = 1

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InvalidParameter(f"an engine has at least one worker, not {self.workers}")

    def count_workers(self) -> int:
        return self.workers

    def run(
        self, function: Callable[[Any, Task], Output], shared: Any, tasks: Sequence[Callable[[], Task]]
    ) -> Iterator[Output]:
        if self.workers == 1:
            for task in tasks:
                yield function(shared, task())
            return
        with tempfile.TemporaryDirectory(prefix="psephos-") as folder:
            path = str(Path(folder) / f"shared-{uuid.uuid4().hex}")
            try:
                joblib.dump(shared, path)
            except OSError as error:
                raise EngineError(
                    f"what the workers need cannot be written to {tempfile.gettempdir()} ({error.strerror}); make room "
                    "there, or name another folder by TMPDIR"
                ) from error
            left = dict(enumerate(tasks))
            deaths = 0
            while left:
                try:
                    with _closed_quietly(self._parallel(function, path, left)) as results:
                        for place, result in results:
                            del left[place]
                            deaths = 0
                            yield result
                except BrokenProcessPool as error:
                    deaths += 1
                    if deaths == _RETRIES:
                        raise WorkersLostError(
                            f"worker processes died {deaths} times without finishing a batch (killed, or out of "
                            "memory): use fewer workers; a run with a journal can be continued"
                        ) from error

    def _parallel(
        self, function: Callable[[Any, Task], Output], path: str, left: dict[int, Callable[[], Task]]
    ) -> Iterator[tuple[int, Output]]:
        # A list, since `left` shrinks while its tasks are still being handed out.
        todo = (delayed(_with_file)(function, path, place, task()) for place, task in list(left.items()))
        results: Iterator[tuple[int, Output]] = Parallel(n_jobs=self.workers, return_as="generator_unordered")(todo)
        return results


@contextmanager
def _closed_quietly(results: Any) -> Iterator[Any]:
    """joblib's generator, which warns of results that nobody took, or of tasks cancelled, when a run is interrupted."""
    try:
        yield results
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?s).*You could benefit from adjusting", category=UserWarning)
            results.close()


_loaded: tuple[str, Any] | None = None


def _with_file(function: Callable[[Any, Task], Output], path: str, place: int, task: Task) -> tuple[int, Output]:
    """In a worker: `shared` is mapped from the file at its first batch and kept for the others."""
    global _loaded
    if _loaded is None or _loaded[0] != path:
        _loaded = path, joblib.load(path, mmap_mode="r")
    return place, function(_loaded[1], task)


@dataclass(frozen=True)
class DaskEngine:
    """A Dask cluster, through joblib's own backend. Needs the extra `dask`.

    address: of its scheduler, host:port, tcp:// or tls://. timeout: seconds to wait for it and for its first worker.
    Raises SchedulerMissingError when nothing answers there, or the cluster has no worker; EngineError for workers that
    have another version of this program, or none, whenever they join. Dask itself works again on the batches of
    workers that died; WorkersLostError when one batch has cost it several workers.
    """

    address: str
    timeout: float = 10.0

    def count_workers(self) -> int:
        """Connect to the scheduler and count the threads of the cluster.

        Raises SchedulerMissingError when nothing answers there.
        """
        client = self._client()
        try:
            return max(1, int(sum(client.ncores().values())))
        finally:
            client.close()

    def run(
        self, function: Callable[[Any, Task], Output], shared: Any, tasks: Sequence[Callable[[], Task]]
    ) -> Iterator[Output]:
        client = self._client()
        # After _client, which says what to install.
        from distributed import CancelledError, KilledWorker
        from joblib._dask import DaskDistributedBackend

        class Backend(DaskDistributedBackend):  # type: ignore[misc]
            """joblib would do the work in this process where the cluster has one thread so far."""

            def effective_n_jobs(self, n_jobs: int) -> int:
                return max(2, int(super().effective_n_jobs(n_jobs)))

        try:
            try:
                client.wait_for_workers(1, timeout=self.timeout)
            except TimeoutError as error:
                raise SchedulerMissingError(
                    f"the Dask scheduler at {self.address} has no workers; start some (dask worker {self.address})"
                ) from error
            self._check_versions(client)
            todo = (delayed(_by_same_version)(psephos.__version__, function, shared, task()) for task in tasks)
            with (
                parallel_config(backend=Backend(client=client, scatter=[shared]), n_jobs=-1),
                _closed_quietly(Parallel(return_as="generator_unordered")(todo)) as results,
            ):
                yield from results
        except (KilledWorker, CancelledError) as error:
            raise WorkersLostError(
                f"the cluster at {self.address} lost a batch: its scheduler is gone, or several workers died of it; "
                "look at their logs. A run with a journal can be continued"
            ) from error
        finally:
            client.close()

    def _check_versions(self, client: Any) -> None:
        """Workers of another version may train or vote differently."""
        versions = client.get_versions(packages=["psephos"])
        ours = versions["client"]["packages"]["psephos"]
        theirs = {str(worker["packages"].get("psephos")) for worker in versions["workers"].values()}
        if theirs != {ours}:
            raise EngineError(
                f"this is psephos {ours}, and the workers of the cluster at {self.address} have "
                f"{', '.join(sorted(theirs))}: install the same version everywhere"
            )

    def _client(self) -> Any:
        try:
            from distributed import Client
        except ImportError as error:
            raise EngineError("the engine 'dask' needs Dask: install psephos[dask]") from error
        try:
            make: Any = Client
            return make(self.address, timeout=self.timeout, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise SchedulerMissingError(
                f"no Dask scheduler answers at {self.address!r}: start one (dask scheduler), or check --scheduler"
            ) from error
        except TypeError as error:  # what distributed makes of certificates that are not there
            raise EngineError(
                f"the connection to {self.address} cannot be secured: Dask's configuration names no certificates for "
                "it (distributed.comm.tls)"
            ) from error


def _by_same_version(version: str, function: Callable[[Any, Task], Output], shared: Any, task: Task) -> Output:
    """In a worker of a cluster, which may have joined when the run was under way."""
    if psephos.__version__ != version:
        raise EngineError(
            f"a worker with psephos {psephos.__version__} has joined a run of psephos {version}, and would cast and "
            "count in its own way: install the same version everywhere; a run with a journal can be continued"
        )
    return function(shared, task)


def make_engine(
    name: Literal["local", "dask"] | str = "local", *, workers: int | None = None, scheduler: str | None = None
) -> Engine:
    """The engine of that name.

    workers: processes of `local`; the number of cores unless given. scheduler: address, for `dask`.
    Raises InvalidParameter for an unknown name, a missing or a superfluous address.
    """
    if name == "local":
        if scheduler is not None:
            raise InvalidParameter("a scheduler belongs to the engine 'dask', and the engine is 'local'")
        return LocalEngine(workers if workers is not None else os.cpu_count() or 1)
    if name == "dask":
        if scheduler is None:
            raise InvalidParameter("the engine 'dask' needs the address of a scheduler: --scheduler HOST:PORT")
        return DaskEngine(scheduler)
    raise InvalidParameter(f"an engine is one of {', '.join(ENGINES)}, not {name!r}")
