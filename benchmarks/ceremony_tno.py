"""Seconds of TNO's distributed key generation (tno.mpc.protocols.distributed_keygen), to compare with ceremony.py.

    python -m venv OTHER; OTHER/bin/pip install 'tno.mpc.protocols.distributed_keygen[gmpy]'
    OTHER/bin/python benchmarks/ceremony_tno.py --bits 1024 --holders 5

All parties run in one process, as in that library's example and in `benchmarks.ceremony`; t - 1 of them may be
corrupted. The script imports nothing of Psephos, because it runs in an environment of its own. It reports every batch
on standard error, so that a run that is stopped early shows how many candidates it had tried.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from typing import Any

from tno.mpc.communication import Pool
from tno.mpc.protocols.distributed_keygen import DistributedPaillier

BATCH = 100
"""Number of candidates in a batch, the library's default."""


class Counting(DistributedPaillier):  # type: ignore[misc]
    """TNO's key generation, which counts the batches of candidates that all parties draw.

    Attributes:
        batch_calls: number of batches, added up over the parties.
    """

    batch_calls = 0

    @classmethod
    async def _generate_pq(cls, *arguments: Any, **named: Any) -> Any:
        """Count the call and draw a batch of candidates. Every party calls this once per batch."""
        cls.batch_calls += 1
        print(f"{cls.batch_calls} calls, {time.process_time():.1f} CPU s", file=sys.stderr, flush=True)
        return await super()._generate_pq(*arguments, **named)


async def _generate(bits: int, holders: int, threshold: int) -> None:
    """Generate a key with all parties in this process, connected over local HTTP ports from 20300 on."""
    names, pools = [f"party{i}" for i in range(holders)], []
    for own in range(holders):
        pool = Pool()
        pool.add_http_server(port=20300 + own)
        for other, name in enumerate(names):
            if other != own:
                pool.add_http_client(name, "localhost", port=20300 + other)
        pools.append(pool)
    await asyncio.gather(
        *(
            Counting.from_security_parameter(
                pool, corruption_threshold=threshold - 1, key_length=bits, distributed=False, batch_size=BATCH
            )
            for pool in pools
        )
    )
    for pool in pools:
        await pool.shutdown()


def main() -> None:
    """Print one JSON object with the seconds, the candidates tried and their expected number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=1024)
    parser.add_argument("--holders", type=int, default=5)
    options = parser.parse_args()
    wall, processor = time.perf_counter(), time.process_time()
    asyncio.run(_generate(options.bits, options.holders, (options.holders + 1) // 2))
    candidates = Counting.batch_calls // options.holders * BATCH
    seconds = time.process_time() - processor
    # p and q are sums of one random number per party and 3 modulo 4, so each is prime with probability 2 / ln p.
    expected = round(((options.bits / 2 * math.log(2) + math.log(0.75 * options.holders)) / 2) ** 2)
    print(
        json.dumps(
            {
                "bits": options.bits,
                "holders": options.holders,
                "seconds": round(time.perf_counter() - wall, 2),
                "cpu_seconds": round(seconds, 2),
                "candidates": candidates,
                "expected_candidates": expected,
                "expected_cpu_seconds": round(seconds * expected / candidates, 1),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
