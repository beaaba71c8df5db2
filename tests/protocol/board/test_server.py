"""The configuration of a NATS server, and the certificates for a trial."""

from __future__ import annotations

import gc
import os
import stat
import warnings
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from psephos.protocol.board.client import BoardMembers
from psephos.protocol.board.server import NATS_SERVER, _server_version, start_server, trial_certificates, write_server
from psephos.protocol.errors import BoardError
from psephos.protocol.signing import SigningKey

KEYS = [SigningKey.generate() for _ in range(3)]
SESSION = bytes(range(32))
MEMBERS = BoardMembers(
    SESSION,
    {
        "curator": KEYS[0].verification_key,
        "party 0": KEYS[1].verification_key,
        "party 1": KEYS[2].verification_key,
        "holder 1": KEYS[1].verification_key,
    },
)


def test_secrets_of_a_server_are_its_owners_and_nothing_is_overwritten(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        address = write_server(tmp_path / "server", MEMBERS, ["board.example"])
    finally:
        os.umask(before)
    assert (tmp_path / "server" / "reader.password").read_text().strip() not in address
    for name in ("nats.conf", "server.key", "reader.password"):
        assert stat.S_IMODE((tmp_path / "server" / name).stat().st_mode) == 0o600
    with pytest.raises(BoardError):
        write_server(tmp_path / "server", MEMBERS, ["board.example"])


@pytest.mark.parametrize(("days", "chosen"), [(90, {}), (3, {"days": 3})])
def test_certificates_of_a_trial(days: int, chosen: dict[str, int]) -> None:
    host = "h" * 70
    made = trial_certificates([host, "127.0.0.1", "::1"], **chosen)
    assert set(made) == {"ca.pem", "server.pem", "server.key"}
    root, leaf = (x509.load_pem_x509_certificate(made[name]) for name in ("ca.pem", "server.pem"))
    key = load_pem_private_key(made["server.key"], None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert key.public_key() == leaf.public_key() != root.public_key()
    leaf.verify_directly_issued_by(root)
    root.verify_directly_issued_by(root)
    assert root.subject.rfc4514_string() == "CN=psephos trial authority"
    assert leaf.subject.rfc4514_string() == f"CN={'h' * 64}"
    now, slack = datetime.now(UTC), timedelta(minutes=5)
    for each in (root, leaf):
        assert isinstance(each.signature_hash_algorithm, SHA256)
        assert abs(each.not_valid_before_utc - (now - timedelta(hours=1))) < slack
        assert abs(each.not_valid_after_utc - (now + timedelta(days=days))) < slack
        usage = each.extensions.get_extension_for_class(x509.KeyUsage)
        signs = each is root
        usages = (usage.value.digital_signature, usage.value.key_cert_sign, usage.value.crl_sign, usage.critical)
        assert usages == (not signs, signs, signs, True)
        others = (usage.value.content_commitment, usage.value.key_encipherment, usage.value.data_encipherment)
        assert (*others, usage.value.key_agreement) == (False,) * 4
        limits = each.extensions.get_extension_for_class(x509.BasicConstraints)
        assert (limits.value, limits.critical) == (x509.BasicConstraints(signs, 0 if signs else None), True)
        mine = each.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        public = each.public_key()
        assert isinstance(public, ec.EllipticCurvePublicKey)
        assert (mine.value, mine.critical) == (x509.SubjectKeyIdentifier.from_public_key(public), False)
        issuer = each.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
        signed = root.public_key()
        assert isinstance(signed, ec.EllipticCurvePublicKey)
        assert issuer.value == x509.AuthorityKeyIdentifier.from_issuer_public_key(signed)
        assert not issuer.critical
    assert root.serial_number != leaf.serial_number
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert list(names.value) == [
        x509.DNSName(host),
        x509.IPAddress(ip_address("127.0.0.1")),
        x509.IPAddress(ip_address("::1")),
    ]
    serves = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(serves.value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not names.critical
    assert not serves.critical
    assert len(root.extensions) == 4


@pytest.mark.skipif(NATS_SERVER is None, reason="nats-server is not installed")
def test_a_server_that_is_not_ready_in_time_has_ended(tmp_path: Path) -> None:
    write_server(tmp_path / "server", MEMBERS, ["127.0.0.1"], -1)
    with warnings.catch_warnings(record=True) as all_warnings:
        warnings.simplefilter("always")
        with pytest.raises(BoardError):
            start_server(tmp_path / "server", timeout=0.0)
        gc.collect()
    running = [one for one in all_warnings if one.category is ResourceWarning and "still running" in str(one.message)]
    assert not running, "Python warns of a process that nobody has waited for"


def test_a_server_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    if NATS_SERVER is None:
        with pytest.raises(BoardError, match="not installed"):
            start_server(tmp_path)
        assert _server_version() == (2, 10)
        return
    (tmp_path / "nats.conf").write_text("port: none\n")
    (tmp_path / "nats.log").write_text("Server is ready\n")  # of the time before
    with pytest.raises(BoardError, match=r"nats\.log"):
        start_server(tmp_path)
    assert "Server is ready\n" in (tmp_path / "nats.log").read_text(), "its log goes on"
    assert len(_server_version()) == 2
    assert _server_version() >= (2, 0)
