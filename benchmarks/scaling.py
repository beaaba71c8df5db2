"""How the whole protocol grows: with parties, auxiliary samples, classes and key size; its bytes; the plan's accuracy.

Times are CPU seconds of one core (they do not depend on what else the machine does), of casting ballots and of
counting them by the curator and by every holder, tables made before: the marginal cost.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from psephos.experiments.plan import PlanOptions, plan
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import AuxiliarySet, VoteLayout
from psephos.protocol.paillier.packing import best_degree
from psephos.simulation import encrypted_sum
from psephos.simulation.encrypted_sum import PartyFactory
from psephos.simulation.key_setup import KeySetup, setup_keys
from psephos.simulation.linear import LinearVoter
from psephos.specs.tally import TallySpec

__all__ = ["full_size", "growth", "memory", "plan_accuracy", "wire"]

FEATURES = 20
ADDENDS = 20_000
SHAPES = (
    ("HAR", 1352, 6, 1000),
    ("KDD-99", 43_000, 2, 5000),
    ("KDD-99", 43_000, 2, 10_000),
    ("KDD-99", 43_000, 2, 20_000),
    ("URL", 16_000, 2, 20_000),
)


@cache
def _ceremony(bits: int, degree: int) -> KeySetup:
    return setup_keys(128, key_bits=bits, degree=degree, holders=5, threshold=3, test_key=bits < 2048)


def _cpu(parties: int, samples: int, classes: int, bits: int, repetitions: int) -> float:
    """CPU seconds of casting and counting the ballots of `parties` parties, slots wide enough for 20,000."""
    ceremony = _ceremony(bits, 1)
    generator = np.random.default_rng(0)
    auxiliary = AuxiliarySet(generator.normal(size=(samples, FEATURES)) / FEATURES)
    round_ = Round.create(
        "votes",
        ceremony.threshold_key,
        VoteLayout(samples, classes).plan(ceremony.threshold_key.key, ADDENDS),
        ceremony.roster,
        context=auxiliary.context(range(classes)),
        test_key=bits < 2048,
    )
    shape = (parties, FEATURES) if classes == 2 else (parties, classes, FEATURES)
    voters = [LinearVoter(w) for w in generator.normal(size=shape)]
    whole = PartyFactory(TallySpec(auxiliary, classes), voters)
    shared = encrypted_sum._BatchContext(round_, whole.with_data(()), "half", 1 << 20, 5, record_messages=False)
    batch, warm = (encrypted_sum._make_batch(whole, ceremony, range(m), range(m)) for m in (parties, 1))
    with threadpool_limits(limits=1):
        encrypted_sum._process_batch(shared, warm)
        seconds = []
        for _ in range(repetitions):
            started = time.process_time()
            encrypted_sum._process_batch(shared, batch)
            seconds.append(time.process_time() - started)
    return min(seconds)


def growth(bits: int = 2048, repetitions: int = 3) -> dict[str, Any]:
    """CPU seconds against M, N, K - 1 and key size, each with the exponent of a line through the logarithms.

    marginal_exponent: with what a ballot costs however short it is taken off.
    """
    series: dict[str, tuple[list[int], list[float]]] = {}
    values = [4, 8, 16, 32, 64]
    series["M"] = values, [_cpu(m, 4000, 2, bits, repetitions) for m in values]
    values = [2000, 4000, 8000, 16_000, 32_000]
    series["N"] = values, [_cpu(4, n, 2, bits, repetitions) for n in values]
    values = [1, 2, 4, 8, 16]
    series["K - 1"] = values, [_cpu(4, 4000, k + 1, bits, repetitions) for k in values]
    values = [1024, 2048, 3072, 4096]
    series["key bits"] = values, [_cpu(4, 4000, 2, size, repetitions) for size in values]
    # What four ballots cost however short they are (signatures, hashes): of one sample, one ciphertext each.
    fixed = _cpu(4, 1, 2, bits, repetitions)
    return {
        "key_bits": bits,
        "randomness": "half",
        "fixed_cpu_seconds": fixed,
        "series": {
            name: {
                "values": at,
                "cpu_seconds": taken,
                "exponent": _slope(at, taken),
                "marginal_exponent": _slope(at, [t - fixed for t in taken]) if name in ("N", "K - 1") else None,
            }
            for name, (at, taken) in series.items()
        },
    }


def _slope(at: list[int], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(at), np.log(seconds), 1)[0])


def wire() -> list[dict[str, Any]]:
    """Bits on the wire per count at the paper's sizes, 3072-bit keys; the floor is ceil(log2(M + 1)).

    Of degree 1, and of the degree that `best_degree` takes.
    """
    rows = []
    for (name, samples, classes, parties), best in product(SHAPES, (False, True)):
        votes = samples * (classes - 1)
        degree = best_degree(3072, length=votes, addends=parties) if best else 1
        key = _ceremony(3072, degree).threshold_key.key
        packing = VoteLayout(samples, classes).plan(key, parties)
        size = Ballot.OVERHEAD_BYTES + packing.ciphertexts * key.ciphertext_bytes
        floor = math.ceil(math.log2(parties + 1))
        rows.append(
            {
                "like": name,
                "parties": parties,
                "degree": degree,
                "counts": packing.length,
                "bytes_per_ballot": size,
                "bits_per_count": 8 * size / packing.length,
                "floor_bits": floor,
                "over_floor": 8 * size / packing.length / floor,
                "ballot_count_bits": packing.length * floor,
            }
        )
    return rows


_MEMORY = """
import numpy as np
from psephos.protocol.encrypted_sum.votes import AuxiliarySet
from psephos.simulation.key_setup import setup_keys
from psephos.simulation.encrypted_sum import PartyFactory, RunConfig, simulate_sum
from psephos.simulation.linear import LinearVoter
from psephos.specs.base import Participants
from psephos.specs.tally import TallySpec
M = {parties}
X = np.random.default_rng(0).normal(size=(20000, 20)) / 20
ceremony = setup_keys(M, key_bits=512, holders=5, threshold=3, test_key=True)
spec = TallySpec(AuxiliarySet(X), 2)
round_ = spec.terms(ceremony.threshold_key, Participants(ceremony.roster, test_key=True))
voters = [LinearVoter(w) for w in np.random.default_rng(1).normal(size=(M, 20))]
done = simulate_sum(round_, ceremony, PartyFactory(spec, voters), RunConfig("short"))
assert done.equals_plaintext
print(done.peak_memory_mb)
"""


def memory() -> list[dict[str, float]]:
    """Peak megabytes of a whole round in one process, at a test key, against the number of parties."""
    rows = []
    for parties in (64, 256, 1024):
        code = _MEMORY.format(parties=parties)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
        rows.append({"parties": parties, "peak_mb": round(float(done.stdout), 1)})
    return rows


PLANNED: tuple[dict[str, Any], ...] = (
    {"parties": 10_000, "samples": 500, "randomness": "short"},
    {"parties": 700, "samples": 20_000},
    {"parties": 8000, "samples": 1000, "key_bits": 2048},
    {"parties": 600, "samples": 1000, "randomness": "full"},
    {"parties": 1200, "samples": 5000, "proofs": "knowledge"},
    {"parties": 1000, "samples": 1000, "dataset": "har", "classes": 6, "features": 50},
    {"protocol": "average", "parties": 8000, "randomness": "short"},
    {"protocol": "average", "parties": 250, "dataset": "har", "classes": 6, "features": 50, "key_bits": 2048},
    {"protocol": "psgd", "parties": 15, "steps": 300, "holders": 3, "threshold": 2},
    {"protocol": "psgd", "parties": 200, "steps": 20, "key_bits": 2048, "proofs": "knowledge"},
)
"""Ten runs: what is asked of `psephos plan`, where its defaults are not meant, and the data set of the run."""


def plan_accuracy(data_dir: str | None) -> list[dict[str, Any]]:
    """What `psephos plan` says and what the run then takes, wall clock; both on the machine as it is at the moment.

    `data_dir`: where HAR is; without it the runs on HAR are left out.
    """
    return [_planned(case, data_dir) for case in PLANNED if data_dir is not None or "dataset" not in case]


def _command(*words: str, **options: Any) -> dict[str, Any]:
    """What `psephos ... --json` prints, in a process of its own."""
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    line = [sys.executable, "-m", "psephos", *words, *flags, "--json"]
    printed: dict[str, Any] = json.loads(subprocess.run(line, stdout=subprocess.PIPE, check=True).stdout)  # noqa: S603
    return printed


def _planned(case: Mapping[str, Any], data_dir: str | None) -> dict[str, Any]:
    options = {"features": FEATURES, **case}
    dataset = options.pop("dataset", "synthetic")
    foreseen = _command("plan", **options)
    same = ("parties", "key_bits", "randomness", "proofs", "holders", "threshold")
    how = {"dataset": dataset} | {name: foreseen[name] for name in same}
    if dataset != "synthetic":
        how["data_dir"] = data_dir
    protocol, phases = foreseen["protocol"], ["encrypt", "aggregate", "decrypt"]
    if protocol == "psgd":
        how, phases = how | {"steps": foreseen["steps"]}, ["steps"]
    elif protocol == "average":
        how |= {"methods": "avg", "draws": 1}
    else:
        how |= {"methods": "soft", "draws": 1, "auxiliary": foreseen["auxiliary"]}
    run = _command("simulate", protocol, **how)
    names = ("seconds", "seconds_at_least", "seconds_at_most")
    predicted, least, most = (sum(foreseen[name][phase] for phase in phases) for name in names)
    seconds = sum(run["seconds"][phase] for phase in phases)
    fields = ("protocol", "parties", "auxiliary", "classes", "steps", "key_bits", "randomness", "proofs", "cores")
    return {
        **{name: foreseen[name] for name in fields},
        "features": run["features"],
        "predicted_seconds": round(predicted, 2),
        "at_least": round(least, 2),
        "at_most": round(most, 2),
        "taken_seconds": round(seconds, 2),
        "ratio": round(predicted / seconds, 3),
        "predicted_mb": foreseen["memory_mb"],
        "taken_mb": run.get("peak_memory_mb"),
        "load_average": round(os.getloadavg()[0], 2),
    }


def full_size(run: dict[str, Any], note: str) -> dict[str, Any]:
    """One row about a finished `psephos run --json`, with what `psephos plan` foresees for it on this machine now."""
    shape = {
        n: run[n] for n in ("parties", "auxiliary", "classes", "features", "key_bits", "degree", "randomness", "proofs")
    }
    same = ("parties", "classes", "features", "key_bits", "degree", "randomness", "proofs", "holders", "threshold")
    options = {name: run[name] for name in same} | {"workers": run["options"]["workers"]}
    foreseen = plan(PlanOptions(samples=run["auxiliary"], **options))
    phases = ("encrypt", "aggregate", "decrypt")
    return {
        **shape,
        "dataset": run["dataset"],
        "workers": options["workers"],
        "tally_equals_plaintext": run["tally_equals_plaintext"],
        "ciphertexts_per_ballot": run["ciphertexts_per_ballot"],
        "bytes_per_ballot": run["bytes_per_ballot"],
        "train_seconds": run["seconds"]["train"],
        "total_seconds": sum(run["seconds"].values()),
        "predicted_seconds": round(sum(foreseen.known(phase) for phase in phases), 1),
        "taken_seconds": round(sum(run["seconds"][phase] for phase in phases), 1),
        "peak_memory_mb": run["peak_memory_mb"],
        "note": note,
    }
