"""JSON files of key shares and signing keys, which only their owner can read.

Files are never overwritten. All functions raise KeyFileError, also where others can read a secret key.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from gmpy2 import mpz

from psephos.protocol.errors import KeyFileError, KeyFilePermissionsError, PsephosError
from psephos.protocol.paillier.keys import LARGEST_DEGREE, KeyForm, PublicKey, check_modulus
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey
from psephos.protocol.signing import SigningKey

FilePath = str | os.PathLike[str]


def write_key_share(path: FilePath, share: KeyShare) -> None:
    threshold_key = share.threshold_key
    document = {
        "kty": "psephos key share",
        "holder": share.holder,
        "holders": threshold_key.holders,
        "threshold": threshold_key.threshold,
        "ceremony": threshold_key.ceremony.hex(),
        "verification_base": _to_base64(threshold_key.verification_base),
        "verification_values": [_to_base64(value) for value in threshold_key.verification_values],
        "theta": _to_base64(threshold_key.theta),
        "pub": _public_document(threshold_key.key),
        "share": _to_base64(share.share()),
    }
    _write(path, document)


def read_key_share(path: FilePath) -> KeyShare:
    with _reading(path, "key share", "psephos key share") as document:
        threshold_key = ThresholdKey(
            _public_key(document["pub"]),
            _integer(document["holders"]),
            _integer(document["threshold"]),
            bytes.fromhex(document["ceremony"]),
            mpz(_from_base64(document["verification_base"])),
            tuple(mpz(_from_base64(value)) for value in document["verification_values"]),
            _from_base64(document["theta"]),
        )
        return KeyShare(threshold_key, _integer(document["holder"]), _from_base64(document["share"]))


def write_signing_key(path: FilePath, key: SigningKey) -> None:
    _write(path, {"kty": "psephos signing key", "seed": key.seed().hex()})


def read_signing_key(path: FilePath) -> SigningKey:
    with _reading(path, "signing key", "psephos signing key") as document:
        return SigningKey(bytes.fromhex(document["seed"]))


def _public_document(key: PublicKey) -> dict[str, Any]:
    return {
        "kty": "DAJ",
        "alg": _algorithm(key.degree),
        "key_ops": ["encrypt"],
        "n": _to_base64(key.n),
        "kid": "Paillier public key written by psephos",
        "psephos_form": key.form,
    }


def _public_key(document: dict[str, Any]) -> PublicKey:
    degree = next((s for s in range(1, LARGEST_DEGREE + 1) if document["alg"] == _algorithm(s)), 0)
    if document["kty"] != "DAJ" or not degree:
        raise KeyError("alg")
    form: KeyForm = "psephos" if document.get("psephos_form") == "psephos" else "foreign"
    n = _from_base64(document["n"])
    check_modulus(n)
    return PublicKey(n, form=form, degree=degree)


def _algorithm(degree: int) -> str:
    """Return phe's name for Paillier's scheme with generator n + 1, and one of our own for a higher degree."""
    return "PAI-GN1" if degree == 1 else f"DAJ-GN1-S{degree}"


def _to_base64(value: int | mpz) -> str:
    raw = int(value).to_bytes((value.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def _from_base64(text: str) -> int:
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    return int.from_bytes(raw, "big")


def _integer(value: object) -> int:
    if type(value) is not int:
        raise TypeError
    return value


def _write(path: FilePath, document: dict[str, Any]) -> None:
    """Write a new file so that it is either complete and on disk, including its name, or does not exist."""
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        try:
            with open(temporary, "x", encoding="ascii", opener=partial(os.open, mode=0o600)) as file:
                os.fchmod(file.fileno(), 0o600)
                json.dump(document, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        folder = os.open(path.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        raise KeyFileError(f"{path} exists already and keys are never overwritten; name another file") from None
    except OSError as error:
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def _reading(path: FilePath, what: str, kty: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON document of a key file; turn errors, also those of the code that uses it, into KeyFileError."""
    try:
        with Path(path).open(encoding="ascii") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise KeyFilePermissionsError(
                    f"others than its owner can read or write {path} (mode {mode:03o}): run 'chmod 600 {path}', and "
                    "consider replacing the key, which others may have read"
                )
            document = json.load(file)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise KeyFileError(f"{path} is not a key file: it is not JSON") from None
    if not isinstance(document, dict):
        raise KeyFileError(f"{path} is not a key file")
    try:
        if document["kty"] != kty:
            raise KeyError("kty")
        yield document
    except (KeyError, TypeError, ValueError, PsephosError) as error:
        # The error's own text is left out: it may quote a part of the secret.
        raise KeyFileError(f"{path} contains no valid {what} ({type(error).__name__})") from None
