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
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.verification import PolicyBuilder, Store

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


def test_certificates_of_a_trial() -> None:
    """OpenSSL accepts them for these hosts, and the authority's key is not kept; they are valid for 90 days."""
    made = trial_certificates(["h" * 70, "127.0.0.1", "::1"])
    assert set(made) == {"ca.pem", "server.pem", "server.key"}
    root, leaf = (x509.load_pem_x509_certificate(made[name]) for name in ("ca.pem", "server.pem"))
    key = load_pem_private_key(made["server.key"], None)
    assert key.public_key() == leaf.public_key() != root.public_key()
    leaf.verify_directly_issued_by(root)
    root.verify_directly_issued_by(root)
    verifier = PolicyBuilder().store(Store([root]))
    for host in (x509.DNSName("h" * 70), x509.IPAddress(ip_address("127.0.0.1")), x509.IPAddress(ip_address("::1"))):
        if isinstance(host, x509.IPAddress):
            verifier.build_server_verifier(host).verify(leaf, [])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["h" * 70]
    left = leaf.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=89) < left < timedelta(days=91)


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
        with pytest.raises(BoardError):
            start_server(tmp_path)
        assert _server_version() == (2, 10)
        return
    (tmp_path / "nats.conf").write_text("port: none\n")
    (tmp_path / "nats.log").write_text("Server is ready\n")  # of the time before
    with pytest.raises(BoardError):
        start_server(tmp_path)
    assert "Server is ready\n" in (tmp_path / "nats.log").read_text(), "its log goes on"
    assert len(_server_version()) == 2
    assert _server_version() >= (2, 0)
