"""Key files: readable by their owner only, never overwritten, compatible with phe; damaged files are refused."""

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
import phe
import phe.util
import pytest

from psephos.protocol.errors import KeyFileError, KeyFilePermissionsError
from psephos.protocol.paillier.keys import PublicKey
from psephos.protocol.paillier.private_key import PrivateKey
from psephos.protocol.paillier.threshold import KeyShare, deal
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.keyfiles import (
    read_key_share,
    read_private_key,
    read_public_key,
    read_signing_key,
    write_key_share,
    write_private_key,
    write_public_key,
    write_signing_key,
)

PRIME = int(gmpy2.next_prime(2**1024))


@pytest.fixture(scope="module")
def share(private_key: PrivateKey) -> KeyShare:
    return deal(private_key, holders=3, threshold=2)[1][1]


@pytest.fixture(params=["private key", "key share", "signing key"])
def secret_file(
    request: pytest.FixtureRequest, private_key: PrivateKey, share: KeyShare, tmp_path: Path
) -> tuple[Path, Callable[[Path], None], Callable[[Path], object]]:
    """A file with a secret, and the functions that write and read it."""
    path = tmp_path / "secret.json"
    signing_key = SigningKey.generate()
    write: Callable[[Path], None]
    read: Callable[[Path], object]
    if request.param == "private key":
        write, read = lambda p: write_private_key(p, private_key), read_private_key
    elif request.param == "key share":
        write, read = lambda p: write_key_share(p, share), read_key_share
    else:
        write, read = lambda p: write_signing_key(p, signing_key), read_signing_key
    write(path)
    return path, write, read


SecretFile = tuple[Path, Callable[[Path], None], Callable[[Path], object]]


def test_only_the_owner_can_read_a_secret_file(secret_file: SecretFile) -> None:
    path, _, _ = secret_file
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_mode_does_not_depend_on_the_umask(private_key: PrivateKey, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private_key(tmp_path / "open.json", private_key)
        os.umask(0o777)
        write_private_key(tmp_path / "shut.json", private_key)
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


def test_a_written_file_is_on_disk(private_key: PrivateKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both its content and its name in the folder are synchronised."""
    synced, fsync = dict[int, int](), os.fsync

    def noted(descriptor: int) -> None:
        synced[os.fstat(descriptor).st_ino] = os.fstat(descriptor).st_size
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    write_private_key(tmp_path / "key", private_key)
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
    secrets = [str(original[name]) for name in ("p", "q", "share", "seed") if name in original]
    for name in set(original) - {"kid", "key_ops"}:
        if name == "kty" and "p" in original:
            continue  # phe's own field; p, q and n are checked against each other instead
        if name in ("holder", "threshold", "holders") and type(wrong) is int and wrong > 0:
            continue
        if name == "share" and wrong in ("x", "AA"):
            continue
        path.write_text(json.dumps({**original, name: wrong}))
        with pytest.raises(KeyFileError) as caught:
            read(path)
        assert not any(secret in str(caught.value) for secret in secrets)
    for name in set(original) - {"kid", "key_ops", "kty"}:
        path.write_text(json.dumps({key: value for key, value in original.items() if key != name}))
        with pytest.raises(KeyFileError):
            read(path)


def test_factors_that_do_not_make_n_are_refused(
    private_key: PrivateKey, other_private_key: PrivateKey, tmp_path: Path
) -> None:
    write_private_key(tmp_path / "a.json", private_key)
    write_private_key(tmp_path / "b.json", other_private_key)
    a, b = (json.loads((tmp_path / name).read_text()) for name in ("a.json", "b.json"))
    for name in ("p", "q", "pub"):
        path = tmp_path / "mixed.json"
        path.write_text(json.dumps({**a, name: b[name]}))
        path.chmod(0o600)
        with pytest.raises(KeyFileError):
            read_private_key(path)


def test_files_of_another_kind_are_refused(private_key: PrivateKey, share: KeyShare, tmp_path: Path) -> None:
    write_private_key(tmp_path / "private.json", private_key)
    write_key_share(tmp_path / "share.json", share)
    write_signing_key(tmp_path / "signing.json", SigningKey.generate())
    readers: dict[str, tuple[str, Callable[[Path], object]]] = {
        "private.json": ("private key", read_private_key),
        "share.json": ("key share", read_key_share),
        "signing.json": ("signing key", read_signing_key),
        "public": ("public key", read_public_key),
    }
    for name in list(readers)[:3]:
        for other, (what, read) in readers.items():
            if name != other:
                with pytest.raises(KeyFileError, match=rf"{name} contains no valid {what} \(KeyError\)"):
                    read(tmp_path / name)


def test_round_trips(private_key: PrivateKey, share: KeyShare, tmp_path: Path) -> None:
    signing_key = SigningKey.generate()
    write_private_key(tmp_path / "private.json", private_key)
    write_public_key(tmp_path / "public.json", private_key.public_key)
    write_key_share(tmp_path / "share.json", share)
    write_signing_key(tmp_path / "signing.json", signing_key)
    assert read_private_key(tmp_path / "private.json").factors() == private_key.factors()
    assert read_public_key(tmp_path / "public.json") == private_key.public_key
    again = read_key_share(tmp_path / "share.json")
    assert again.threshold_key == share.threshold_key
    assert (again.holder, again.share()) == (share.holder, share.share())
    assert read_signing_key(tmp_path / "signing.json").seed() == signing_key.seed()


def based(number: int) -> str:
    """Encode an integer as RFC 7518, section 6.3.1: big-endian, without padding."""
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def test_the_fields_of_the_files(private_key: PrivateKey, share: KeyShare, tmp_path: Path) -> None:
    """They are part of the format, which existing files have."""
    signing_key, key, threshold_key = SigningKey(bytes(range(32))), private_key.public_key, share.threshold_key
    public = {
        "kty": "DAJ",
        "alg": "PAI-GN1",
        "key_ops": ["encrypt"],
        "n": based(int(key.n)),
        "kid": "Paillier public key written by psephos",
        "psephos_form": "psephos",
    }
    p, q = private_key.factors()
    private = {"kty": "DAJ", "key_ops": ["decrypt"], "p": based(p), "q": based(q), "pub": public}
    written: dict[str, tuple[Callable[[Path], None], dict[str, Any]]] = {
        "public": (lambda path: write_public_key(path, key), public),
        "private": (
            lambda path: write_private_key(path, private_key),
            private | {"kid": "Paillier private key written by psephos"},
        ),
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
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == (0o644 if name == "public" else 0o600)
    finally:
        os.umask(before)


@pytest.mark.parametrize("degree", [2, 3, 4])
def test_keys_of_higher_degree(private_key: PrivateKey, tmp_path: Path, degree: int) -> None:
    """Their algorithm has another name, which phe refuses; higher degrees than the largest are refused."""
    key = PrivateKey(*private_key.factors(), degree)
    write_private_key(tmp_path / "private", key)
    write_public_key(tmp_path / "public", key.public_key)
    assert read_private_key(tmp_path / "private").public_key == read_public_key(tmp_path / "public") == key.public_key
    content = (tmp_path / "public").read_text()
    assert json.loads(content)["alg"] == f"DAJ-GN1-S{degree}"
    for unknown in ("DAJ-GN1-S0", "DAJ-GN1-S1", "DAJ-GN1-S5", "PAI-GN2"):
        (tmp_path / "public").write_text(content.replace(f"DAJ-GN1-S{degree}", unknown))
        with pytest.raises(KeyFileError, match="public key"):
            read_public_key(tmp_path / "public")


def test_everybody_can_read_a_public_key_file(private_key: PrivateKey, tmp_path: Path) -> None:
    path = tmp_path / "public.json"
    write_public_key(path, private_key.public_key)
    path.chmod(0o644)
    assert read_public_key(path) == private_key.public_key
    text = path.read_text()
    for factor in private_key.factors():
        assert phe.util.int_to_base64(factor) not in text


# -- phe's files. pheutil needs a command line package that phe does not install, so what it writes and what it checks
#    when it reads (phe 1.5.0, command_line.py: generate_keypair, load_public_key, decrypt) are repeated here.


def pheutil_genpkey(path: Path, bits: int) -> phe.PaillierPrivateKey:
    pub, priv = phe.generate_paillier_keypair(n_length=bits)
    jwk_public = {
        "kty": "DAJ",
        "alg": "PAI-GN1",
        "key_ops": ["encrypt"],
        "n": phe.util.int_to_base64(pub.n),
        "kid": "Paillier public key generated by pheutil on 2026-01-01 00:00:00",
    }
    jwk_private = {
        "kty": "DAJ",
        "key_ops": ["decrypt"],
        "p": phe.util.int_to_base64(priv.p),
        "q": phe.util.int_to_base64(priv.q),
        "pub": jwk_public,
        "kid": "Paillier private key generated by pheutil on 2026-01-01 00:00:00",
    }
    path.write_text(json.dumps(jwk_private) + "\n")
    return priv


def pheutil_load_public_key(data: dict[str, Any]) -> phe.PaillierPublicKey:
    assert data["alg"] == "PAI-GN1"
    assert data["kty"] == "DAJ"
    return phe.PaillierPublicKey(phe.util.base64_to_int(data["n"]))


def pheutil_load_private_key(path: Path) -> phe.PaillierPrivateKey:
    data = json.loads(path.read_text())
    assert "decrypt" in data["key_ops"]
    assert data["kty"] == "DAJ"
    public = pheutil_load_public_key(data["pub"])
    return phe.PaillierPrivateKey(public, phe.util.base64_to_int(data["p"]), phe.util.base64_to_int(data["q"]))


def test_key_files_of_phe_are_read(tmp_path: Path) -> None:
    path = tmp_path / "phe.json"
    theirs = pheutil_genpkey(path, 256)
    path.chmod(0o600)
    ours = read_private_key(path)
    assert ours.public_key.n == theirs.public_key.n
    assert ours.raw_decrypt(theirs.public_key.raw_encrypt(12345)) == 12345
    public_path = tmp_path / "public.json"
    public_path.write_text(json.dumps(json.loads(path.read_text())["pub"]))
    public = read_public_key(public_path)
    assert (public.n, public.form) == (theirs.public_key.n, "foreign")


def test_a_private_key_file_of_phe_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "phe.json"
    pheutil_genpkey(path, 256)
    path.chmod(0o644)  # what pheutil leaves under the usual umask
    with pytest.raises(KeyFilePermissionsError):
        read_private_key(path)


def test_phe_reads_our_key_files(private_key: PrivateKey, tmp_path: Path) -> None:
    path, public_path = tmp_path / "ours.json", tmp_path / "public.json"
    write_private_key(path, private_key)
    write_public_key(public_path, private_key.public_key)
    theirs = pheutil_load_private_key(path)
    public = pheutil_load_public_key(json.loads(public_path.read_text()))
    assert theirs.decrypt(public.encrypt(-2.5)) == -2.5
    assert public.n == private_key.public_key.n


@pytest.mark.parametrize("n", [PRIME, PRIME**2, 3 * 65521 * PRIME], ids=["prime", "square", "small factors"])
def test_a_modulus_that_anybody_can_factor_is_refused(tmp_path: Path, n: int) -> None:
    path = tmp_path / "public.json"
    write_public_key(path, PublicKey(n))
    with pytest.raises(KeyFileError, match="public key"):
        read_public_key(path)
