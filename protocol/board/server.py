"""What a NATS server needs to carry the board of a study: its configuration, and certificates for a trial.

Every role may publish under its own subjects, read everything, and nothing else; nobody can delete over the network.
No paper behind it.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from psephos.protocol.board.client import BoardMembers
from psephos.protocol.board.nats import inbox, nkey, stream_of, subject_of
from psephos.protocol.errors import BoardError

__all__ = ["NATS_SERVER", "start_server", "trial_certificates", "write_server"]

NATS_SERVER = shutil.which("nats-server")
"""The program; None where it is not installed (Debian: `apt install nats-server`)."""

_FIRST_THAT_SYNCS = (2, 10)
"""The version of nats-server that knows `sync_interval: always`."""


def write_server(
    folder: str | os.PathLike[str], members: BoardMembers, hosts: Sequence[str], port: int = 4222, gigabytes: int = 20
) -> str:
    """Write `nats.conf`, `ca.pem`, `server.pem` and `server.key` into a new folder.

    Args:
        folder: made here, for its owner only.
        members: who takes part.
        hosts: names and addresses by which the server is reached.
        port: where it listens.
        gigabytes: the most that it keeps on disk.

    Returns the address of the board for whoever only reads it. Raises BoardError when it cannot be written.
    """
    place = Path(folder)
    password = secrets.token_urlsafe(16)
    try:
        place.mkdir(mode=0o700, parents=True)
        for name, content in trial_certificates(hosts).items():
            (place / name).write_bytes(content)
        (place / "server.key").chmod(0o600)
        (place / "nats.conf").write_text(
            _configuration(place.resolve(), members, port, gigabytes, password), encoding="utf-8"
        )
        (place / "nats.conf").chmod(0o600)
    except OSError as error:
        raise BoardError(f"{place} cannot be written: {error.strerror}; name a new folder") from None
    return f"tls://reader:{password}@{hosts[0]}:{port}?ca={place / 'ca.pem'}"


def _configuration(place: Path, members: BoardMembers, port: int, gigabytes: int, password: str) -> str:
    def at(name: str) -> str:
        return json.dumps(str(place / name))  # JSON is a part of NATS' own format

    stream = stream_of(members.session)
    reads = [f"$JS.API.STREAM.INFO.{stream}", f"$JS.API.DIRECT.GET.{stream}"]
    begins = [f"$JS.API.STREAM.CREATE.{stream}"]
    owned: dict[str, list[str]] = {}
    for name, key in members.keys.items():
        owned.setdefault(nkey(key), []).append(f"{subject_of(members.session, name)}.*")
    users = [_user({"nkey": user}, [*own, *reads, *begins], user) for user, own in owned.items()]
    users.append(_user({"user": "reader", "password": password}, reads, "reader"))
    syncs = "" if _server_version() >= _FIRST_THAT_SYNCS else "# from nats-server 2.10 on: "
    return f"""# The board of study {members.session.hex()}. Start it:  nats-server -c nats.conf
# Entries are acknowledged when they are with the operating system: a server that is killed loses nothing. Before a loss
# of power they are safe once written through to the disk, which `sync_interval` says; replicas help too.
server_name: "{stream}"
port: {port}
max_connections: {4 * len(users) + 64}
write_deadline: "30s"
tls {{
  cert_file: {at("server.pem")}
  key_file: {at("server.key")}
  timeout: 5
}}
jetstream {{
  store_dir: {at("jetstream")}
  max_memory_store: 64MB
  max_file_store: {gigabytes}GB
  {syncs}sync_interval: always
}}
authorization {{
  timeout: 10
  users: [
{chr(10).join(users)}
  ]
}}
"""


def _user(who: Mapping[str, str], publish: Sequence[str], name: str) -> str:
    user = {**who, "permissions": {"publish": {"allow": publish}, "subscribe": {"allow": [f"{inbox(name)}.>"]}}}
    return f"    {json.dumps(user)}"


def _server_version() -> tuple[int, ...]:
    """Of the server that is installed here; where there is none, of one that knows everything used here."""
    if NATS_SERVER is None:
        return _FIRST_THAT_SYNCS
    said = subprocess.run([NATS_SERVER, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    found = re.search(r"(\d+)\.(\d+)", said)
    return _FIRST_THAT_SYNCS if found is None else (int(found[1]), int(found[2]))


def start_server(folder: str | os.PathLike[str], patience: float = 20.0) -> subprocess.Popen[bytes]:
    """Run the server of a folder that `write_server` has written, on this machine's loopback, until it is ready.

    Raises BoardError where the program is missing or the server ends; its log is `nats.log` in the folder.
    """
    if NATS_SERVER is None:
        raise BoardError("nats-server is not installed here (Debian: apt install nats-server)")
    command = [NATS_SERVER, "-c", str(Path(folder) / "nats.conf"), "-a", "127.0.0.1"]
    log = Path(folder) / "nats.log"
    with log.open("ab") as said:
        begun = said.tell()
        server = subprocess.Popen(command, stdout=said, stderr=said)  # noqa: S603
    until = time.monotonic() + patience
    while b"Server is ready" not in log.read_bytes()[begun:]:
        if server.poll() is not None or time.monotonic() > until:
            server.kill()
            server.wait()
            raise BoardError(f"nats-server does not start; {log} says why")
        time.sleep(0.02)
    return server


def trial_certificates(hosts: Sequence[str], days: int = 90) -> dict[str, bytes]:
    """`ca.pem`, and `server.pem` with `server.key`, for a server of these names; the authority's own key is forgotten.

    For a trial: a real study has its server's certificate from wherever its people trust.
    """
    begun, ended = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(days=days)
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "psephos trial authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])

    def begin(name: x509.Name, key: ec.EllipticCurvePrivateKey, signs: bool) -> x509.CertificateBuilder:
        public = key.public_key()
        builder = x509.CertificateBuilder(issuer, name, public, x509.random_serial_number(), begun, ended)
        constraints = x509.BasicConstraints(ca=signs, path_length=0 if signs else None)
        builder = builder.add_extension(constraints, critical=True)
        usage = x509.KeyUsage(not signs, False, False, False, False, signs, signs, False, False)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        known = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
        return builder.add_extension(known, critical=False)

    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    serves = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    root = begin(issuer, authority, True).sign(authority, hashes.SHA256())
    leaf = begin(subject, server, False).add_extension(names, critical=False).add_extension(serves, critical=False)
    pem = serialization.Encoding.PEM
    return {
        "ca.pem": root.public_bytes(pem),
        "server.pem": leaf.sign(authority, hashes.SHA256()).public_bytes(pem),
        "server.key": server.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    }


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
