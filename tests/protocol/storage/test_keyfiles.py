"""Key files: readable by their owner only, never overwritten; damaged files are refused."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gmpy2
import pytest

from psephos.protocol.errors import KeyFileError, KeyFilePermissionsError
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.threshold import KeyShare, deal
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.keyfiles import (
    read_key_share,
    read_signing_key,
    write_key_share,
    write_signing_key,
)

PRIME = int(gmpy2.next_prime(2**1024))


@pytest.fixture(scope="module")
def share(private_key: PrivateKey) -> KeyShare:
    return deal(private_key, holders=3, threshold=2)[1][1]


@pytest.fixture(params=["key share", "signing key"])
def secret_file(
    request: pytest.FixtureRequest, share: KeyShare, tmp_path: Path
) -> tuple[Path, Callable[[Path], None], Callable[[Path], object]]:
    """A file with a secret, and the functions that write and read it."""
    path = tmp_path / "secret.json"
    signing_key = SigningKey.generate()
    write: Callable[[Path], None]
    read: Callable[[Path], object]
    if request.param == "key share":
        write, read = lambda p: write_key_share(p, share), read_key_share
    else:
        write, read = lambda p: write_signing_key(p, signing_key), read_signing_key
    write(path)
    return path, write, read


SecretFile = tuple[Path, Callable[[Path], None], Callable[[Path], object]]


def test_only_the_owner_can_read_a_secret_file(secret_file: SecretFile) -> None:
    path, _, _ = secret_file
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_signing_key(tmp_path / "open.json", SigningKey.generate())
        os.umask(0o777)
        write_signing_key(tmp_path / "shut.json", SigningKey.generate())
    finally:
        os.umask(before)
    for name in ("open.json", "shut.json"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o602, 0o610])
def test_a_secret_file_that_others_can_access_is_refused(secret_file: SecretFile, mode: int) -> None:
    path, _, read = secret_file
    path.chmod(mode)
    with pytest.raises(KeyFilePermissionsError, match="chmod 600"):
        read(path)
    path.chmod(0o600)
    read(path)


def test_files_are_never_overwritten(secret_file: SecretFile) -> None:
    path, write, _ = secret_file
    before = path.read_bytes()
    with pytest.raises(KeyFileError, match="exists"):
        write(path)
    assert path.read_bytes() == before


_LIMITED = """
import resource, signal, sys
from psephos.protocol.errors import KeyFileError
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.keyfiles import read_signing_key, write_signing_key
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
try:
    write_signing_key(sys.argv[1], SigningKey.generate())
except KeyFileError as error:
    assert "cannot be written" in str(error), error
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    write_signing_key(sys.argv[1], SigningKey.generate())
    read_signing_key(sys.argv[1])
    sys.exit(0)
sys.exit(1)
"""


def test_a_file_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    """On a full disk nothing is left: an incomplete file could never be replaced, since none is overwritten."""
    subprocess.run([sys.executable, "-c", _LIMITED, str(tmp_path / "key.json")], check=True)
    assert [file.name for file in tmp_path.iterdir()] == ["key.json"]


def test_a_written_file_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both its content and its name in the folder are synchronised."""
    synced, fsync = dict[int, int](), os.fsync

    def noted(descriptor: int) -> None:
        synced[os.fstat(descriptor).st_ino] = os.fstat(descriptor).st_size
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    write_signing_key(tmp_path / "key", SigningKey.generate())
    assert synced.keys() == {(tmp_path / "key").stat().st_ino, tmp_path.stat().st_ino}
    assert synced[(tmp_path / "key").stat().st_ino] == (tmp_path / "key").stat().st_size, "all of it"


def test_a_missing_file_and_a_missing_folder(secret_file: SecretFile, tmp_path: Path) -> None:
    _, write, read = secret_file
    with pytest.raises(KeyFileError, match="cannot be read"):
        read(tmp_path / "nowhere.json")
    with pytest.raises(KeyFileError, match="cannot be written"):
        write(tmp_path / "no folder" / "x.json")


def test_every_truncation_is_refused(secret_file: SecretFile) -> None:
    path, _, read = secret_file
    content = path.read_bytes().rstrip()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(KeyFileError):
            read(path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"null", b"[1]", b"3", b'"text"', b"{}", b"[" * 100_000])
def test_other_files_are_refused(secret_file: SecretFile, content: bytes) -> None:
    path, _, read = secret_file
    path.write_bytes(content)
    with pytest.raises(KeyFileError):
        read(path)


@pytest.mark.parametrize("wrong", [None, 5, 5.0, True, "", "!", "x", [], {}, "AA", -1])
def test_fields_of_another_type_are_refused_and_not_quoted(secret_file: SecretFile, wrong: Any) -> None:
    path, _, read = secret_file
    original = json.loads(path.read_text())
    secrets = [str(original[name]) for name in ("share", "seed") if name in original]
    for name in original:
        if name in ("holder", "threshold", "holders") and type(wrong) is int and wrong > 0:
            continue
        if name == "share" and wrong in ("x", "AA"):
            continue
        path.write_text(json.dumps({**original, name: wrong}))
        with pytest.raises(KeyFileError) as caught:
            read(path)
        assert not any(secret in str(caught.value) for secret in secrets)
    for name in original:
        path.write_text(json.dumps({key: value for key, value in original.items() if key != name}))
        with pytest.raises(KeyFileError):
            read(path)


def test_files_of_another_kind_are_refused(share: KeyShare, tmp_path: Path) -> None:
    write_key_share(tmp_path / "share.json", share)
    write_signing_key(tmp_path / "signing.json", SigningKey.generate())
    readers: dict[str, tuple[str, Callable[[Path], object]]] = {
        "share.json": ("key share", read_key_share),
        "signing.json": ("signing key", read_signing_key),
    }
    for name in readers:
        for other, (what, read) in readers.items():
            if name != other:
                with pytest.raises(KeyFileError, match=rf"{name} contains no valid {what} \(KeyError\)"):
                    read(tmp_path / name)


def test_round_trips(share: KeyShare, tmp_path: Path) -> None:
    signing_key = SigningKey.generate()
    write_key_share(tmp_path / "share.json", share)
    write_signing_key(tmp_path / "signing.json", signing_key)
    again = read_key_share(tmp_path / "share.json")
    assert again.threshold_key == share.threshold_key
    assert (again.holder, again.share()) == (share.holder, share.share())
    assert read_signing_key(tmp_path / "signing.json").seed() == signing_key.seed()


def based(number: int) -> str:
    """Encode an integer as RFC 7518, section 6.3.1: big-endian, without padding."""
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def test_the_fields_of_the_files(share: KeyShare, tmp_path: Path) -> None:
    """They are part of the format, which existing files have."""
    signing_key, threshold_key = SigningKey(bytes(range(32))), share.threshold_key
    public = {
        "kty": "DAJ",
        "alg": "PAI-GN1",
        "key_ops": ["encrypt"],
        "n": based(int(threshold_key.key.n)),
        "kid": "Paillier public key written by psephos",
        "psephos_form": "psephos",
    }
    written: dict[str, tuple[Callable[[Path], None], dict[str, Any]]] = {
        "share": (
            lambda path: write_key_share(path, share),
            {
                "kty": "psephos key share",
                "holder": 2,
                "holders": 3,
                "threshold": 2,
                "ceremony": threshold_key.ceremony.hex(),
                "verification_base": based(int(threshold_key.verification_base)),
                "verification_values": [based(int(value)) for value in threshold_key.verification_values],
                "theta": based(threshold_key.theta),
                "pub": public,
                "share": based(share.share()),
            },
        ),
        "signing": (
            lambda path: write_signing_key(path, signing_key),
            {"kty": "psephos signing key", "seed": bytes(range(32)).hex()},
        ),
    }
    before = os.umask(0)
    try:
        for name, (write, document) in written.items():
            write(tmp_path / name)
            assert (tmp_path / name).read_text() == json.dumps(document, indent=1) + "\n"
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    finally:
        os.umask(before)


def with_public_part(path: Path, share: KeyShare, **fields: Any) -> None:
    """Write a share's file with other fields of its public key."""
    write_key_share(path, share)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"pub": document["pub"] | fields}))


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_shares_of_higher_degree(private_key: PrivateKey, tmp_path: Path, degree: int) -> None:
    """Their algorithm has another name; higher degrees than the largest are refused."""
    share = deal(PrivateKey(*private_key.factors(), degree), holders=3, threshold=2)[1][1]
    write_key_share(tmp_path / "share", share)
    assert read_key_share(tmp_path / "share").threshold_key == share.threshold_key
    for unknown in ("DAJ-GN1-S0", "DAJ-GN1-S1", "DAJ-GN1-S5", "PAI-GN2"):
        path = tmp_path / unknown
        with_public_part(path, share, alg=unknown)
        with pytest.raises(KeyFileError, match="key share"):
            read_key_share(path)


@pytest.mark.parametrize("n", [PRIME, PRIME**2, 3 * 65521 * PRIME], ids=["prime", "square", "small factors"])
def test_a_modulus_that_anybody_can_factor_is_refused(share: KeyShare, tmp_path: Path, n: int) -> None:
    with_public_part(tmp_path / "share", share, n=based(n))
    with pytest.raises(KeyFileError, match="key share"):
        read_key_share(tmp_path / "share")
