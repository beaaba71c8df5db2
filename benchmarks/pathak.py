"""Time and bytes of Pathak's protocol per stage against K, and of one secure comparison beside TNO's.

    python benchmarks/pathak.py --parties 5,10,25 --variant repaired --json out.json
    python benchmarks/pathak.py --comparison

All roles run one after the other in one process, so the seconds are everybody's work added up. d = 123, 3072-bit keys,
random data; sizes 16 to 2^20 agreed, so the ladder has 28 rungs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import statistics
import sys
import time
from typing import Any

import numpy as np

from protocol.comparison import Asker, answer, mask_encrypted_difference
from protocol.dgk import generate_dgk_key
from protocol.encryption import Encryptor
from protocol.private_key import generate_private_key
from psephos.pathak import PathakKeys, make_terms, run_protocol


def records(parties: int, features: int) -> list[tuple[Any, Any]]:
    generator = np.random.default_rng(0)
    data = []
    for n in generator.integers(100, 400, parties):
        X = generator.normal(size=(n, features))
        data.append((X / (1.01 * np.linalg.norm(X, axis=1).max()), np.arange(n) % 2))
    return data


def protocol(args: argparse.Namespace) -> list[dict[str, Any]]:
    keys = PathakKeys.generate(args.key_bits, test_key=args.key_bits < 2048)
    rows = []
    for parties in args.parties:
        terms = make_terms(
            parties=parties,
            features=args.features,
            lam=0.01,
            epsilon=1.0,
            variant=args.variant,
            noise=args.noise,
            comparisons=args.comparisons,
        )
        begun = time.perf_counter()
        outcome = run_protocol(records(parties, args.features), terms, keys=keys, test_key=args.key_bits < 2048)
        total = time.perf_counter() - begun
        assert outcome.shares_equal_reference
        rows.append(
            {
                "parties": parties,
                "variant": args.variant,
                "comparisons": args.comparisons,
                "key_bits": args.key_bits,
                "seconds": round(total, 2),
                "stages": outcome.stages,
            }
        )
        shown = ", ".join(
            f"{name} {entry['seconds']:.2f} s {entry['bytes'] / 1e6:.2f} MB {entry['messages']}"
            for name, entry in outcome.stages.items()
        )
        print(f"K = {parties}, {args.variant}, {args.comparisons}: {total:.1f} s; {shown}", file=sys.stderr)
    return rows


def comparison(repeats: int) -> dict[str, Any]:
    """A 64-bit comparison with 2048-bit keys: shared inputs, and Paillier-encrypted inputs as TNO's takes them."""
    key = generate_dgk_key(2048, comparison_bits=64)
    paillier = generate_private_key(2048)
    encryptor = Encryptor(paillier.public_key, expected=1)
    shared, encrypted = [], []
    for _ in range(repeats):
        a, b = secrets.randbits(64), secrets.randbits(64)
        begun = time.perf_counter()
        asker = Asker(key, bits=64)
        (result,) = asker.conclude(answer(key.public_key, [a], asker.ask([b]), bits=64))
        shared.append(time.perf_counter() - begun)
        assert result == (a >= b)
        left, right = encryptor.encrypt([_mpz(a), _mpz(b)])
        begun = time.perf_counter()
        masked, mask = mask_encrypted_difference(paillier.public_key, left, right, bits=64)
        asker = Asker(key, bits=64)
        questions = asker.ask([-paillier.raw_decrypt(masked)])
        (result,) = asker.conclude(answer(key.public_key, [-mask], questions, bits=64))
        encrypted.append(time.perf_counter() - begun)
        assert result == (a >= b)
    return {
        "shared_inputs_seconds": statistics.median(shared),
        "encrypted_inputs_seconds": statistics.median(encrypted),
        "first_with_tables_seconds": shared[0],
        "tno_seconds": tno(repeats),
    }


def _mpz(value: int) -> Any:
    from gmpy2 import mpz

    return mpz(value)


def tno(repeats: int) -> float | None:
    """TNO's `tno.mpc.protocols.secure_comparison`, 64 bits, 2048-bit keys of both kinds; None where it is missing."""
    try:
        from tno.mpc.encryption_schemes.dgk import DGK
        from tno.mpc.encryption_schemes.paillier import Paillier
        from tno.mpc.encryption_schemes.utils import next_prime
        from tno.mpc.protocols.secure_comparison import Initiator, KeyHolder
    except ImportError:
        return None
    bits = 64
    paillier = Paillier.from_security_parameter(key_length=2048)
    dgk = DGK.from_security_parameter(v_bits=160, n_bits=2048, u=next_prime(1 << (bits + 2)), full_decryption=False)
    taken = []

    async def once() -> float:
        class Pair:
            """An in-memory pool of two."""

            def __init__(self) -> None:
                self.queues: dict[str, asyncio.Queue[Any]] = {}

            def end(self, own: str) -> Any:
                pair = self

                class End:
                    async def send(self, party: str, message: Any, msg_id: str | None = None) -> None:
                        await pair.queues.setdefault(f"{own}>{party}>{msg_id}", asyncio.Queue()).put(message)

                    async def recv(self, party: str, msg_id: str | None = None) -> Any:
                        return await pair.queues.setdefault(f"{party}>{own}>{msg_id}", asyncio.Queue()).get()

                return End()

        pair = Pair()
        alice = Initiator(bits, communicator=pair.end("a"), other_party="b", scheme_paillier=paillier, scheme_dgk=dgk)
        bob = KeyHolder(bits, communicator=pair.end("b"), other_party="a", scheme_paillier=paillier, scheme_dgk=dgk)
        x, y = secrets.randbits(bits), secrets.randbits(bits)
        x_enc, y_enc = paillier.unsafe_encrypt(x), paillier.unsafe_encrypt(y)
        begun = time.perf_counter()
        result, _ = await asyncio.gather(alice.perform_secure_comparison(x_enc, y_enc), bob.perform_secure_comparison())
        seconds = time.perf_counter() - begun
        assert paillier.decrypt(result) == (x <= y)
        return seconds

    for _ in range(repeats):
        taken.append(asyncio.run(once()))
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parties", type=lambda text: [int(k) for k in text.split(",")], default=[5])
    parser.add_argument("--features", type=int, default=123)
    parser.add_argument("--key-bits", type=int, default=3072)
    parser.add_argument("--variant", default="repaired")
    parser.add_argument("--noise", default="laplace")
    parser.add_argument("--comparisons", default="tournament")
    parser.add_argument("--comparison", action="store_true", help="One comparison instead of the protocol.")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json")
    args = parser.parse_args()
    result: Any = comparison(args.repeats) if args.comparison else protocol(args)
    text = json.dumps(result, indent=1)
    if args.json:
        with open(args.json, "w") as file:
            file.write(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
