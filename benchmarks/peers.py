"""Operations on single ciphertexts, beside the other Paillier libraries for Python that are installed (extra `bench`).

All libraries are measured in one run on one core for each key size, interleaved; the result names those that are not
installed. pypaillier and ours use the same modulus; sf-heu generates its own key. TNO's library draws fresh randomness
for every encryption.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import phe
from gmpy2 import mpz

from benchmarks.clock import cpu_seconds, interleaved, milliseconds
from psephos.protocol.paillier.encryption import RANDOMNESS_MODES, Encryptor, RandomnessMode
from psephos.protocol.paillier.private_key import PrivateKey, generate_private_key

Operations = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class LibraryTimings:
    """CPU milliseconds of each library for "encrypt", "add" and "decrypt"; reasons why others were not measured."""

    key_bits: int
    milliseconds: dict[str, dict[str, float]]
    not_measured: dict[str, str]


def _ours(mode: RandomnessMode, private: PrivateKey) -> Operations:
    key = private.public_key
    encryptor = Encryptor(key, mode, expected=1 << 20)
    encryptor.randomizers(1)
    a, b = encryptor.encrypt([mpz(5), mpz(7)])
    modulus = key.ciphertext_modulus
    return {
        "encrypt": lambda: encryptor.encrypt([mpz(5)]),
        "add": lambda: a * b % modulus,
        "decrypt": lambda: private.raw_decrypt(a),
    }


def _phe(private: PrivateKey) -> Operations:
    p, q = private.factors()
    public = phe.PaillierPublicKey(private.public_key.n)
    secret = phe.PaillierPrivateKey(public, p, q)
    a, b = public.encrypt(5), public.encrypt(7)
    return {"encrypt": lambda: public.encrypt(5), "add": lambda: a + b, "decrypt": lambda: secret.decrypt(a)}


def _pypaillier(private: PrivateKey) -> Operations:
    os.environ.setdefault("RAYON_NUM_THREADS", "1")
    import paillier

    public = paillier.PublicKey.from_n(int(private.public_key.n).to_bytes(private.public_key.bits // 8, "big"))
    blobs = [bytes(b) for b in paillier.encrypt_integers(public, [5, 7])]
    # Decryption needs a secret key of pypaillier, whose safe primes take minutes to find.
    return {
        "encrypt": lambda: paillier.encrypt_integers(public, [5]),
        "add": lambda: paillier.add_many(public, blobs),
    }


def _heu(private: PrivateKey) -> Operations:
    from heu import phe as heu

    kit = heu.setup(heu.SchemaType.ZPaillier, private.public_key.bits)
    encryptor, evaluator, decryptor = kit.encryptor(), kit.evaluator(), kit.decryptor()
    a, b = encryptor.encrypt_raw(5), encryptor.encrypt_raw(7)
    return {
        "encrypt": lambda: encryptor.encrypt_raw(5),
        "add": lambda: evaluator.add(a, b),
        "decrypt": lambda: decryptor.decrypt_raw(a),
    }


def _lightphe(private: PrivateKey) -> Operations:
    from lightphe.cryptosystems.Paillier import Paillier

    n = int(private.public_key.n)
    p, q = (int(factor) for factor in private.factors())
    scheme = Paillier({"public_key": {"g": n + 1, "n": n}, "private_key": {"phi": (p - 1) * (q - 1)}})
    a, b = scheme.encrypt(5), scheme.encrypt(7)
    return {
        "encrypt": lambda: scheme.encrypt(5),
        "add": lambda: scheme.add(a, b),
        "decrypt": lambda: scheme.decrypt(a),
    }


def _tno(private: PrivateKey) -> Operations:
    warnings.simplefilter("ignore")
    from tno.mpc.encryption_schemes.paillier import Paillier, PaillierPublicKey, PaillierSecretKey

    n = private.public_key.n
    p, q = private.factors()
    lam = (p - 1) * (q - 1) // 2
    scheme = Paillier(PaillierPublicKey(n, n + 1), PaillierSecretKey(lam, pow(lam, -1, n), n))
    a, b = scheme.unsafe_encrypt(5), scheme.unsafe_encrypt(7)
    ready = scheme.encrypt(5)
    return {
        "encrypt": lambda: scheme.encrypt(5),
        "add": lambda: a + b,
        "decrypt": lambda: scheme.decrypt(ready),
    }


_MAKERS: dict[str, Callable[[PrivateKey], Operations]] = {
    **{f"psephos {mode}": partial(_ours, mode) for mode in RANDOMNESS_MODES},
    "phe": _phe,
    "pypaillier": _pypaillier,
    "sf-heu ZPaillier": _heu,
    "lightphe": _lightphe,
    "tno.mpc": _tno,
}


def peers(bits: int, repetitions: int = 5) -> LibraryTimings:
    """Measure the CPU milliseconds per encryption, addition and decryption, as medians over interleaved repetitions."""
    private = generate_private_key(bits, test_key=bits < 2048)
    libraries: dict[str, Operations] = {}
    missing: dict[str, str] = {}
    for name, make in _MAKERS.items():
        try:
            libraries[name] = make(private)
        except Exception as error:  # the failure of another library is reported in the result
            missing[name] = f"{type(error).__name__}: {error}"
    operations = {(name, operation): do for name, work in libraries.items() for operation, do in work.items()}
    samples = interleaved({place: partial(cpu_seconds, do) for place, do in operations.items()}, repetitions)
    medians: dict[str, dict[str, float]] = {name: {} for name in libraries}
    for (name, operation), duration in milliseconds(samples).items():
        medians[name][operation] = duration
    return LibraryTimings(bits, medians, missing)
