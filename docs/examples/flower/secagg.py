"""Flower's SecAgg+ on the heads of `heads.py`: bytes and seconds of each site, and how far a factor moves the mean.

    python docs/examples/flower/secagg.py 1000

The first site multiplies its head by the factor. Needs `psephos[flower]` and `flwr[simulation]`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.common import Context, Message, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.serde import recorddict_to_proto
from flwr.server import Grid, LegacyContext, ServerApp, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.simulation import run_simulation

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from heads import HOLDERS, SITES, heads

FACTOR, ROWS, FOLDER = float(sys.argv[1]), 60, Path(mkdtemp())
vectors = np.array([FACTOR * heads[0], *heads[1:]])


class Site(NumPyClient):
    """A site that sends its head, which counts for its number of rows."""

    def __init__(self, number: int) -> None:
        self.number = number

    def fit(self, parameters: object, config: object) -> tuple[list[np.ndarray], int, dict[str, float]]:
        return [vectors[self.number]], ROWS, {}


def measured(message: Message, context: Context, call: Callable[[Message, Context], Message]) -> Message:
    """Answer a message, and note how long that took and how many bytes the answer has."""
    started = time.perf_counter()
    reply = call(message, context)
    seconds, size = time.perf_counter() - started, recorddict_to_proto(reply.content).ByteSize()
    with (FOLDER / str(context.node_config["partition-id"])).open("a") as log:
        log.write(json.dumps([size, seconds]) + "\n")
    return reply


class Mean(FedAvg):
    """Federated averaging that prints how far the mean is from that of the heads."""

    def aggregate_fit(self, server_round: int, results: list, failures: list) -> object:
        aggregated = super().aggregate_fit(server_round, results, failures)
        mean = parameters_to_ndarrays(aggregated[0])[0]
        print(f"moved by {np.linalg.norm(mean - np.mean(heads, axis=0)):.4f}")
        return aggregated


client = ClientApp(
    client_fn=lambda context: Site(int(context.node_config["partition-id"])).to_client(),
    mods=[measured, secaggplus_mod],
)
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run one round."""
    everybody = {"min_fit_clients": SITES, "min_available_clients": SITES, "fraction_evaluate": 0.0}
    strategy = Mean(**everybody, initial_parameters=ndarrays_to_parameters([np.zeros(vectors.shape[1])]))
    legacy = LegacyContext(context=context, config=ServerConfig(num_rounds=1), strategy=strategy)
    DefaultWorkflow(fit_workflow=SecAggPlusWorkflow(HOLDERS, HOLDERS - 1))(grid, legacy)


run_simulation(server, client, SITES)
for path in sorted(FOLDER.iterdir()):
    sizes, seconds = zip(*map(json.loads, path.read_text().splitlines()), strict=True)
    print(f"site {path.name} sent {sum(sizes)} bytes in {len(sizes)} messages, {sum(seconds):.3f} s")
