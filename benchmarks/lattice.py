"""Costs of a ballot in a lattice scheme: threshold BFV of OpenFHE beside Paillier in Psephos, one thread each.

    python -m benchmarks.lattice paillier
    OMP_NUM_THREADS=1 OTHER/bin/python benchmarks/lattice.py bfv    # OTHER: Python 3.10 with the package openfhe

The ballot is that of HAR: 8,112 counts, for up to 1,000 parties. BFV has a plaintext modulus of 65,537, 128 bits of
security according to the homomorphic encryption standard, and noise flooding, which partial decryptions need. All of
its three holders must take part. Times are medians of CPU milliseconds. Run the two commands alternately, since the
speed of a machine changes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

COUNTS = 8112
PARTIES = 1000
CIPHERTEXTS = 22
"""Number of Paillier ciphertexts of such a ballot under a 3072-bit key."""


def median(call: Callable[[], Any], repetitions: int = 15) -> tuple[float, Any]:
    """Call a function `repetitions` times; return the median CPU milliseconds and the last result."""
    times, result = [], None
    for _ in range(repetitions):
        start = time.process_time()
        result = call()
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times), result


def paillier() -> dict[str, float]:
    """Measure the encryption and one partial decryption of a ballot under a 3072-bit key from a dealer.

    Returns:
        CPU milliseconds of both, and the bytes of a ballot and of a holder's answer.
    """
    from gmpy2 import mpz

    from psephos.protocol.paillier.encryption import Encryptor
    from psephos.protocol.paillier.private_key import generate_private_key
    from psephos.protocol.paillier.threshold import deal

    threshold_key, shares = deal(generate_private_key(3072), holders=5, threshold=3)
    encryptor = Encryptor(threshold_key.key, "half")
    plaintexts = [mpz(1)] * CIPHERTEXTS
    encryptor.encrypt(plaintexts)  # makes the tables, which are not measured
    encrypt, ballot = median(lambda: encryptor.encrypt(plaintexts))
    partial, _ = median(lambda: shares[0].partially_decrypt(ballot), 3)
    size = threshold_key.key.ciphertext_bytes * CIPHERTEXTS
    return {"encrypt": encrypt, "partial": partial, "ballot bytes": size, "answer bytes": size}


def bfv() -> dict[str, float]:
    """Measure the encryption, addition and decryption of a ballot under a key of three holders.

    Returns:
        CPU milliseconds of encryption, of one addition, of one partial decryption and of the combination of three; the
        dimension of the ring; and the bytes of a ballot and of a holder's answer.

    Raises:
        SystemExit: the opened sum of `PARTIES` ballots is wrong.
    """
    import openfhe

    parameters = openfhe.CCParamsBFVRNS()
    parameters.SetPlaintextModulus(65537)
    parameters.SetMultiplicativeDepth(0)
    parameters.SetEvalAddCount(PARTIES)
    parameters.SetSecurityLevel(openfhe.SecurityLevel.HEStd_128_classic)
    parameters.SetMultipartyMode(openfhe.MultipartyMode.NOISE_FLOODING_MULTIPARTY)
    context = openfhe.GenCryptoContext(parameters)
    for feature in ("PKE", "KEYSWITCH", "LEVELEDSHE", "ADVANCEDSHE", "MULTIPARTY"):
        context.Enable(getattr(openfhe.PKESchemeFeature, feature))
    keys = [context.KeyGen()]
    for _ in range(2):
        keys.append(context.MultipartyKeyGen(keys[-1].publicKey))
    votes = [number % 2 for number in range(COUNTS)]
    encrypt, ballot = median(lambda: context.Encrypt(keys[-1].publicKey, context.MakePackedPlaintext(votes)))
    add, _ = median(lambda: context.EvalAdd(ballot, ballot))
    total = ballot
    for _ in range(PARTIES - 1):
        total = context.EvalAdd(total, ballot)
    lead = context.MultipartyDecryptLead([total], keys[0].secretKey)
    partial, second = median(lambda: context.MultipartyDecryptMain([total], keys[1].secretKey))
    third = context.MultipartyDecryptMain([total], keys[2].secretKey)
    fusion, plaintext = median(lambda: context.MultipartyDecryptFusion([lead[0], second[0], third[0]]))
    plaintext.SetLength(COUNTS)
    counts = [value % 65537 for value in plaintext.GetPackedValue()]
    if counts != [PARTIES * vote for vote in votes]:
        raise SystemExit("the sum was opened wrongly: the modulus is too small for so many parties")
    sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, value in (("ballot", ballot), ("answer", second[0])):
            path = os.path.join(folder, name)
            openfhe.SerializeToFile(path, value, openfhe.BINARY)
            sizes[f"{name} bytes"] = os.path.getsize(path)
    ring = context.GetRingDimension()
    return {"encrypt": encrypt, "add": add, "partial": partial, "fusion": fusion, "ring": ring, **sizes}


if __name__ == "__main__":
    schemes = {"paillier": paillier, "bfv": bfv}
    parser = argparse.ArgumentParser(description="What a ballot costs in Paillier's scheme, or in a lattice scheme.")
    parser.add_argument("scheme", choices=schemes)
    for name, value in schemes[parser.parse_args().scheme]().items():
        print(f"{name}: {value:g}")
