"""Time and bytes of Pathak's protocol per stage against K, and of one secure comparison beside TNO's.

    python benchmarks/pathak.py --parties 5,10,25 --variant repaired --json out.json
    python benchmarks/pathak.py --comparison

All roles run one after the other in one process, so the seconds are everybody's work added up. d = 123, 3072-bit keys,
random data; sizes 16 to 2^20 agreed, so the ladder has 28 rungs.
"""

from __future__ import annotations

import argparse
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
        begun, cpu = time.perf_counter(), time.process_time()
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
                "cpu_seconds": round(time.process_time() - cpu, 2),
                "stages": outcome.stages,
            }
        )
        shown = ", ".join(
            f"{name} {entry['seconds']:.2f} s {entry['bytes'] / 1e6:.2f} MB {entry['messages']}"
            for name, entry in outcome.stages.items()
        )
        head = f"K = {parties}, {args.variant}, {args.comparisons}: {total:.1f} s, cpu {rows[-1]['cpu_seconds']:.1f} s"
        print(f"{head}; {shown}", file=sys.stderr)
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
    for _ in range(repeats):
        x, y = secrets.randbits(bits), secrets.randbits(bits)
        x_enc, y_enc = paillier.unsafe_encrypt(x), paillier.unsafe_encrypt(y)
        begun = time.perf_counter()
        # The steps of both sides, as its `perform_secure_comparison` calls them, without a network between.
        z_enc, r = Initiator.step_1(x_enc, y_enc, bits, paillier)
        z_enc.randomize()
        z, beta = KeyHolder.step_2(z_enc, bits, paillier)
        d_enc = KeyHolder.step_4a(z, dgk, paillier, bits)
        beta_enc = KeyHolder.step_4b(beta, bits, dgk)
        for c in (d_enc, *beta_enc):
            c.randomize()
        alpha = Initiator.step_3(r, bits)
        d_enc = Initiator.step_4c(d_enc, r, dgk, paillier)
        xor = Initiator.step_4d(alpha, beta_enc)
        w, alpha_tilde = Initiator.step_4e(r, alpha, xor, d_enc, paillier)
        w = Initiator.step_4f(w)
        s, delta_a = Initiator.step_4g()
        blinded = Initiator.step_4h(s, alpha, alpha_tilde, d_enc, beta_enc, w, delta_a, dgk)
        blinded = Initiator.step_4i(blinded, dgk, do_shuffle=True)
        for c in blinded:
            c.randomize()
        delta_b = KeyHolder.step_4j(blinded, dgk)
        answers = KeyHolder.step_5(z, bits, delta_b, paillier)
        for c in answers:
            c.randomize()
        less = Initiator.step_6(delta_a, answers[2])
        result = Initiator.step_7(answers[0], answers[1], r, bits, less, paillier)
        taken.append(time.perf_counter() - begun)
        assert paillier.decrypt(result) == (x <= y)
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
