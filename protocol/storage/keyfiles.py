"""Keys and shares in files that only their owner can read.

A private or public key file is phe's own (`pheutil genpkey`, JSON after RFC 7517), so phe's command opens ours and we
open theirs; ours say `psephos_form` besides. Shares and signing keys are JSON of our own.
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
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.threshold import KeyShare, ThresholdKey
from psephos.protocol.signing import SigningKey

Path_ = str | os.PathLike[str]


def write_private_key(path: Path_, key: PrivateKey) -> None:
    """Write p and q to a new file, mode 0600; raises KeyFileError when the file exists."""
    p, q = key.factors()
    document = {
        "kty": "DAJ",
        "key_ops": ["decrypt"],
        "p": _to_base64(p),
        "q": _to_base64(q),
        "pub": _public_document(key.public_key),
        "kid": "Paillier private key written by psephos",
    }
    _write(path, document, secret=True)


def read_private_key(path: Path_) -> PrivateKey:
    """Read one of ours or of phe's; raises KeyFilePermissionsError or KeyFileError."""
    with _reading(path, "private key") as document:
        degree = _public_key(document["pub"]).degree
        key = PrivateKey(_from_base64(document["p"]), _from_base64(document["q"]), degree)
        if _from_base64(document["pub"]["n"]) != key.public_key.n:
            raise ValueError("n is not p q")
        return key


def write_public_key(path: Path_, key: PublicKey) -> None:
    """Write n to a new file; raises KeyFileError when the file exists."""
    _write(path, _public_document(key), secret=False)


def read_public_key(path: Path_) -> PublicKey:
    """Read one of ours or of phe's (which is of foreign form); raises KeyFileError."""
    with _reading(path, "public key", secret=False) as document:
        return _public_key(document)


def write_key_share(path: Path_, share: KeyShare) -> None:
    """Write one holder's share to a new file, mode 0600; raises KeyFileError when the file exists."""
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
    _write(path, document, secret=True)


def read_key_share(path: Path_) -> KeyShare:
    """Read a share; raises KeyFilePermissionsError or KeyFileError."""
    with _reading(path, "key share", kty="psephos key share") as document:
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


def write_signing_key(path: Path_, key: SigningKey) -> None:
    """Write a party's signing key to a new file, mode 0600; raises KeyFileError when the file exists."""
    _write(path, {"kty": "psephos signing key", "seed": key.seed().hex()}, secret=True)


def read_signing_key(path: Path_) -> SigningKey:
    """Read a signing key; raises KeyFilePermissionsError or KeyFileError."""
    with _reading(path, "signing key", kty="psephos signing key") as document:
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
    """phe's name for Paillier's scheme with the generator n + 1; one that phe refuses for a higher degree."""
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


def _write(path: Path_, document: dict[str, Any], *, secret: bool) -> None:
    """Whole and on disk, its name included, or not there; in the place of no other file."""
    path = Path(path)
    mode = 0o600 if secret else 0o644
    begun = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        try:
            with open(begun, "x", encoding="ascii", opener=partial(os.open, mode=mode)) as file:
                if secret:
                    os.fchmod(file.fileno(), mode)
                json.dump(document, file, indent=1)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
            os.link(begun, path)
        finally:
            begun.unlink(missing_ok=True)
        folder = os.open(path.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        raise KeyFileError(f"{path} exists already; keys are never overwritten") from None
    except OSError as error:
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from None


@contextmanager
def _reading(path: Path_, what: str, *, kty: str = "DAJ", secret: bool = True) -> Iterator[dict[str, Any]]:
    """A key file's JSON; whatever is wrong with it, found here or by who takes it apart, is a KeyFileError."""
    try:
        with Path(path).open(encoding="ascii") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if secret and mode & 0o077:
                raise KeyFilePermissionsError(
                    f"others than its owner can read or write {path} (mode {mode:03o}): make it private with "
                    f"'chmod 600 {path}', and consider the key as seen"
                )
            document = json.load(file)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise KeyFileError(f"{path} is no key file: it is not JSON") from None
    if not isinstance(document, dict):
        raise KeyFileError(f"{path} is no key file")
    try:
        if document["kty"] != kty:
            raise KeyError("kty")
        yield document
    except (KeyError, TypeError, ValueError, PsephosError) as error:
        # Never the error's own text: it may quote a piece of the secret.
        raise KeyFileError(f"{path} holds no valid {what} ({type(error).__name__})") from None
