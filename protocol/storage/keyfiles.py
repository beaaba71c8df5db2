"""The JSON file of a signing key: only its owner can read it, and it is never overwritten."""

from __future__ import annotations

import json
import os
import secrets
import stat
from functools import partial
from pathlib import Path

from psephos.protocol.errors import KeyFileError, PsephosError
from psephos.protocol.signing import SigningKey

FilePath = str | os.PathLike[str]


_KIND = "psephos signing key"


def write_signing_key(path: FilePath, key: SigningKey) -> None:
    """Write a new file, which is either complete and on disk, including its name, or does not exist.

    Raises KeyFileError where it cannot be written, or exists.
    """
    path, document = Path(path), {"kty": _KIND, "seed": key.seed().hex()}
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


def read_signing_key(path: FilePath) -> SigningKey:
    """Read a file of `write_signing_key`; raises KeyFileError, also where others can read or write it."""
    try:
        with Path(path).open(encoding="ascii") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise KeyFileError(
                    f"others than its owner can read or write {path} (mode {mode:03o}): run 'chmod 600 {path}', and "
                    "consider replacing the key, which others may have read"
                )
            document = json.load(file)
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise KeyFileError(f"{path} is not a key file: it is not JSON") from None
    try:
        if document["kty"] != _KIND:
            raise KeyError("kty")
        return SigningKey(bytes.fromhex(document["seed"]))
    except (KeyError, TypeError, ValueError, PsephosError) as error:
        # The error's own text is left out: it may quote a part of the secret.
        raise KeyFileError(f"{path} contains no valid signing key ({type(error).__name__})") from None
