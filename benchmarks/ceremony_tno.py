"""Seconds of TNO's distributed key generation (tno.mpc.protocols.distributed_keygen), beside benchmarks/ceremony.py.

    python -m venv OTHER; OTHER/bin/pip install 'tno.mpc.protocols.distributed_keygen[gmpy]'
    OTHER/bin/python benchmarks/ceremony_tno.py --bits 1024 --holders 5

All parties in one process, as in that library's own example and in ours; t - 1 of them may be corrupted. It imports
nothing of Psephos, because it runs in an environment of its own. Each batch is written to standard error as it is
tried, so that a run that is stopped still tells what it had tried by then.
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
"""Candidates that the library draws at once, its default."""


class Counting(DistributedPaillier):  # type: ignore[misc]
    """Says how many candidates were drawn."""

    drawn = 0

    @classmethod
    async def _generate_pq(cls, *arguments: Any, **named: Any) -> Any:
        """As the library; every party calls it once for a batch."""
        cls.drawn += 1
        print(f"{cls.drawn} calls, {time.process_time():.1f} CPU s", file=sys.stderr, flush=True)
        return await super()._generate_pq(*arguments, **named)


async def _generate(bits: int, holders: int, threshold: int) -> None:
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
    """Prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=1024)
    parser.add_argument("--holders", type=int, default=5)
    given = parser.parse_args()
    wall, processor = time.perf_counter(), time.process_time()
    asyncio.run(_generate(given.bits, given.holders, (given.holders + 1) // 2))
    tried = Counting.drawn // given.holders * BATCH
    seconds = time.process_time() - processor
    # p and q are sums of a random number for each party, and 3 modulo 4: prime with chance 2 / ln p each.
    expected = round(((given.bits / 2 * math.log(2) + math.log(0.75 * given.holders)) / 2) ** 2)
    print(
        json.dumps(
            {
                "bits": given.bits,
                "holders": given.holders,
                "seconds": round(time.perf_counter() - wall, 2),
                "cpu_seconds": round(seconds, 2),
                "candidates": tried,
                "expected_candidates": expected,
                "expected_cpu_seconds": round(seconds * expected / tried, 1),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
