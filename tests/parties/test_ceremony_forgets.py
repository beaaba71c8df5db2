"""A holder's files hold nothing that its ceremony has forgotten: after every step, and after every kill -9."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from psephos.parties.ceremony import CeremonyHolder
from psephos.protocol.agent import Agent
from psephos.protocol.board.client import BoardMembers
from psephos.protocol.board.file import BoardFile
from psephos.protocol.ceremony.terms import CeremonyTerms
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import Store
from psephos.protocol.storage.values import encode

TERMS = CeremonyTerms(128, 3, 2, bytes(32), test_key=True)
KEYS = {name: SigningKey(bytes([place]) * 32) for place, name in enumerate(TERMS.names, 1)}
MEMBERS = BoardMembers(bytes(32), {name: key.verification_key for name, key in KEYS.items()})

ROOT = Path(__file__).parents[2]

PIECE_BYTES = 32
"""A state is known again by any piece of it this long: its first difference from all later states."""


def agent(folder: Path, name: str) -> Agent:
    role = CeremonyHolder(TERMS, TERMS.names.index(name) + 1)
    path = folder / name.replace(" ", "-") / "store.sqlite"
    return Agent(role, MEMBERS, KEYS[name], BoardFile(folder / "board.sqlite"), Store(path, {"role": name}))


def secrets_of(state: object) -> set[bytes]:
    """All byte strings and large integers in the secret fields of a holder's state, as they are written down."""
    secrets: set[bytes] = set()

    def look(value: object) -> None:
        if isinstance(value, bytes) and len(value) >= 16:
            secrets.add(value[:PIECE_BYTES])
        elif isinstance(value, tuple):
            for part in value:
                look(part)
        elif isinstance(value, int) and value.bit_length() > 128:
            value = value if value >= 0 else -1 - value  # as CBOR has it
            secrets.add(value.to_bytes((value.bit_length() + 7) // 8, "big"))

    def walk(value: object) -> None:
        for name in ("material", "search", "evidence", "state"):
            if hasattr(value, name):
                walk(getattr(value, name))
        for name in ("secrets", "contributions", "seeds", "polynomial", "share"):
            look(getattr(value, name, ()))

    walk(state)
    return secrets


def standing(folder: Path, name: str, secrets: set[bytes]) -> set[bytes]:
    """Which of them stand in any file of the holder's store."""
    files = [file.read_bytes() for file in (folder / name.replace(" ", "-")).iterdir()]
    return {secret for secret in secrets if any(secret in data for data in files)}


def test_the_secrets_of_a_state_are_found(tmp_path: Path) -> None:
    """Or nothing below would be shown by their absence."""
    holder = agent(tmp_path, "holder 1")
    secrets = secrets_of(holder.state)
    assert len(secrets) == 4  # keys for two others, contributions to two sets
    assert all(secret in encode(holder.state) for secret in secrets)


def test_no_file_holds_what_was_forgotten_after_each_step(tmp_path: Path) -> None:
    """Neither what was forgotten nor, since it is encrypted, what is known still."""
    agents = {name: agent(tmp_path, name) for name in TERMS.names}
    seen: dict[str, set[bytes]] = {name: set() for name in TERMS.names}
    sealing = {name: holder._store.get("seat", b"sealing") or b"" for name, holder in agents.items()}
    moved = True
    while moved:
        moved = False
        for name, holder in agents.items():
            moved |= holder.step()
            seen[name] |= secrets_of(holder.state)
            assert not standing(tmp_path, name, seen[name] | {sealing[name]})
    assert all(holder.result is not None for holder in agents.values())
    assert all(len(secrets) > 8 for secrets in seen.values())


_HOLDER = """
import json, signal, sys
from pathlib import Path
from tests.parties.test_ceremony_forgets import agent, secrets_of
folder, name = Path(sys.argv[1]), sys.argv[2]
def key(holder):
    return holder._store._run("SELECT key FROM secret")[0][0].hex()
holder = agent(folder, name)
keep = holder._commit
def told(step):
    keep(step)
    found = secrets_of(step.state) | {holder._store.get("seat", b"sealing") or b"none"}
    print(json.dumps(["secrets", [secret.hex() for secret in found], key(holder)]), flush=True)
holder._commit = told
found = secrets_of(holder.state) | {holder._store.get("seat", b"sealing") or b"none"}
print(json.dumps(["secrets", [secret.hex() for secret in found], key(holder)]), flush=True)
while holder.result is None:
    holder.step()
print(json.dumps(["done", [], key(holder)]), flush=True)
signal.pause()
"""


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_no_file_holds_what_was_forgotten_after_each_kill(tmp_path: Path, schedule: int) -> None:
    """Holder 1 is killed with SIGKILL as soon as it has said that it is keeping its k-th state, within the transaction
    or just after it; its files are searched before it is started again.
    """
    others = [agent(tmp_path, name) for name in TERMS.names[1:]]
    seen: set[bytes] = set()
    keys: set[bytes] = set()
    kills, done, most = 0, False, 8 if schedule else 4
    command = [sys.executable, "-c", _HOLDER, str(tmp_path), "holder 1"]
    while not done:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, cwd=ROOT)
        assert process.stdout is not None
        heard, limit = b"", 2 + (schedule + kills) % 4 if kills < most else 1_000_000  # then to the end
        while heard.count(b"\n") < limit and b"done" not in heard:
            for other in others:
                other.step()
            if select.select([process.stdout], [], [], 0.001)[0]:
                piece = os.read(process.stdout.fileno(), 1 << 20)
                assert piece, "the holder ended by itself"
                heard += piece
        process.send_signal(signal.SIGKILL)
        process.wait()
        heard += process.stdout.read()
        process.stdout.close()
        for line in heard.splitlines()[: heard.count(b"\n")]:
            word, content, key = json.loads(line)
            keys.add(bytes.fromhex(key))
            done |= word == "done"
            seen |= set(map(bytes.fromhex, content)) if word == "secrets" else set()
        kills += 1
        assert not standing(tmp_path, "holder 1", seen - {b"none"})
        # Of a transaction that was cut short, the key before it and its own; opened again, one of them.
        assert len(standing(tmp_path, "holder 1", keys)) <= 2
        with Store(tmp_path / "holder-1" / "store.sqlite", {"role": "holder 1"}) as store:
            current = {key for (key,) in store._run("SELECT key FROM secret")}
        assert standing(tmp_path, "holder 1", keys | current) == current
    assert kills > 2
