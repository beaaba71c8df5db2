"""Configuration of a NATS server for the board of a study, and certificates for a trial.

Every role may publish under its own subjects and read everything. Nobody can delete anything over the network. Readers
have an account of their own, with a limit, so that they cannot use up the connections of the members.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import secrets
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from psephos.protocol.board.client import BoardMembers
from psephos.protocol.board.nats import READER, READING, inbox, nkey, stream_of, subject_of
from psephos.protocol.errors import BoardError

NATS_SERVER = shutil.which("nats-server") or shutil.which("nats-server", path=sysconfig.get_path("scripts"))
"""The path of the program; None if it is not installed (Debian: `apt install nats-server`)."""

_READERS = 64
"""Greatest number of connections of readers, who all have one password; they take none away from the members."""

_FIRST_THAT_SYNCS = (2, 10)
"""The first version of nats-server with `sync_interval: always`."""


def write_server(
    folder: str | os.PathLike[str], members: BoardMembers, hosts: Sequence[str], port: int = 4222, gigabytes: int = 20
) -> str:
    """Write configuration, certificates and the reader's password into a new folder, and return the reading address.

    `hosts` are the names and addresses under which the server can be reached, `gigabytes` limits its storage. Raises
    BoardError if the folder exists or cannot be written.
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
        (place / "reader.password").touch(mode=0o600)
        (place / "reader.password").write_text(password + "\n", encoding="ascii")
    except OSError as error:
        raise BoardError(f"{place} cannot be written: {error.strerror}; name a new folder") from None
    return f"tls://{hosts[0]}:{port}?ca={place / 'ca.pem'}&reader={place / 'reader.password'}"


def _configuration(place: Path, members: BoardMembers, port: int, gigabytes: int, password: str) -> str:
    def at(name: str) -> str:
        return json.dumps(str(place / name))  # NATS' configuration format includes JSON

    stream = stream_of(members.session)
    asked = [f"STREAM.INFO.{stream}", f"DIRECT.GET.{stream}"]
    reads = [f"$JS.API.{subject}" for subject in asked]
    creates = [f"$JS.API.STREAM.CREATE.{stream}"]
    subjects: dict[str, list[str]] = {}
    for name, key in members.keys.items():
        subjects.setdefault(nkey(key), []).append(f"{subject_of(members.session, name)}.*")
    users = [_user({"nkey": user}, [*own, *reads, *creates], user) for user, own in subjects.items()]
    exports = json.dumps([{"service": subject} for subject in reads])
    imports = json.dumps(
        [{"service": {"account": "MEMBERS", "subject": f"$JS.API.{end}"}, "to": f"{READING}.{end}"} for end in asked]
    )
    reader = {"user": READER, "password": password}
    syncs = "" if _server_version() >= _FIRST_THAT_SYNCS else "# from nats-server 2.10 on: "
    return f"""# The board of study {members.session.hex()}. Start it:  nats-server -c nats.conf
# Entries are acknowledged when they are with the operating system: a server that is killed loses nothing. Before a loss
# of power they are safe once written through to the disk, which `sync_interval` says; replicas help too.
server_name: "{stream}"
port: {port}
max_connections: 65536
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
}}
accounts {{
  MEMBERS {{
    jetstream: enabled
    exports: {exports}
    users: [
{chr(10).join(users)}
    ]
  }}
  READERS {{
    limits {{
      max_connections: {_READERS}
    }}
    imports: {imports}
    users: [
{_user(reader, [f"{READING}.{end}" for end in asked], "reader")}
    ]
  }}
}}
"""


def _user(credentials: Mapping[str, str], publish: Sequence[str], name: str) -> str:
    user = {**credentials, "permissions": {"publish": {"allow": publish}, "subscribe": {"allow": [f"{inbox(name)}.>"]}}}
    return f"    {json.dumps(user)}"


def _server_version() -> tuple[int, ...]:
    """Return the version of the installed server; without one, the first version that supports the configuration."""
    if NATS_SERVER is None:
        return _FIRST_THAT_SYNCS
    output = subprocess.run([NATS_SERVER, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    match = re.search(r"(\d+)\.(\d+)", output)
    return _FIRST_THAT_SYNCS if match is None else (int(match[1]), int(match[2]))


def start_server(folder: str | os.PathLike[str], timeout: float = 20.0) -> subprocess.Popen[bytes]:
    """Start a server on the loopback interface and wait until it is ready; raises BoardError. It logs to `nats.log`."""
    if NATS_SERVER is None:
        raise BoardError("nats-server is not installed here (Debian: apt install nats-server)")
    command = [NATS_SERVER, "-c", str(Path(folder) / "nats.conf"), "-a", "127.0.0.1"]
    log = Path(folder) / "nats.log"
    with log.open("ab") as output:
        start = output.tell()
        server = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603
    deadline = time.monotonic() + timeout
    while b"Server is ready" not in log.read_bytes()[start:]:
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            server.wait()
            raise BoardError(f"nats-server did not start; see {log}")
        time.sleep(0.02)
    return server


def trial_certificates(hosts: Sequence[str], days: int = 90) -> dict[str, bytes]:
    """Return the contents of `ca.pem`, `server.pem`, `server.key` for a trial; the authority's own key is not kept."""
    not_before, not_after = datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC) + timedelta(days=days)
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "psephos trial authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])

    def certificate(name: x509.Name, key: ec.EllipticCurvePrivateKey, signs: bool) -> x509.CertificateBuilder:
        public = key.public_key()
        builder = x509.CertificateBuilder(issuer, name, public, x509.random_serial_number(), not_before, not_after)
        constraints = x509.BasicConstraints(ca=signs, path_length=0 if signs else None)
        builder = builder.add_extension(constraints, critical=True)
        usage = x509.KeyUsage(not signs, False, False, False, False, signs, signs, False, False)
        builder = builder.add_extension(usage, critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        authority_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
        return builder.add_extension(authority_key, critical=False)

    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    server_usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    root = certificate(issuer, authority, True).sign(authority, hashes.SHA256())
    leaf = certificate(subject, server, False)
    leaf = leaf.add_extension(names, critical=False).add_extension(server_usage, critical=False)
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
