"""What a long run keeps on disk, so that it can be interrupted and continued.

**A sum.** After every batch of parties the state of the sum replaces the one before: the curator's and each holder's
product so far with who is counted in it, and the clear sum. It is written to a temporary file, synced and renamed, so
that there is a whole state at every moment, and a checksum says so. Parties that are in it are not asked again; a batch
that was being worked on when the run ended leaves no trace and is worked on again. A product knows its parties, so
nothing can be counted twice. The size does not grow with the number of parties, but for the log of message digests.

**A walk of many steps** (PSGD) keeps a log of them, and every role its own state. **A sweep of many trials**
(`psephos reproduce`) keeps what each came to.

A continued run needs the same version of this program, and the same round, keys and shares. **A journal therefore holds
the secrets of everybody in the simulation**: the holders' shares and the parties' signing keys, in files of mode 0600
in a directory of mode 0700. Real roles never write such a thing. Delete it (`Journal.forget`) when the run is done.

    DIRECTORY/run.json                  what the run was asked for, of which version; another run is refused
    DIRECTORY/ceremony/                 share-J.json, signing-keys.json
    DIRECTORY/KIND/round.json           the round's nonce and digest
    DIRECTORY/KIND/state, messages      products, clear sum; one line per message
    DIRECTORY/KIND/partial-J            what holder J answered
    DIRECTORY/steps, party-*, holder-*  of a walk: the log, and each role's state
    DIRECTORY/NAME.result               what a finished trial came to
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import psephos
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.errors import JournalError, KeyFileError, PsephosError
from psephos.protocol.storage.durable import replace_file, sync_folder
from psephos.protocol.storage.keyfiles import read_key_share, read_signing_keys, write_key_share, write_signing_keys
from psephos.protocol.transcript import Message
from psephos.simulate.ceremony import Ceremony

__all__ = ["Journal", "StepLog", "SumJournal", "SumState", "disk_error"]

_FORMAT = 1
_MAGIC = b"psephos journal 1\n"


@dataclass
class SumState:
    """How far a sum is.

    products: the curator's, then each holder's. clear: integers (plan.length,), the sum of the same
    vectors in the clear.
    seconds: wall-clock seconds by phase so far. memory_mb: the largest peak so far.
    """

    products: list[BallotProduct]
    clear: NDArray[Any] = field(repr=False)
    seconds: dict[str, float]
    memory_mb: float = 0.0

    @property
    def parties(self) -> frozenset[int]:
        """Who is counted."""
        return frozenset(self.products[0].parties)


class Journal:
    """A directory that one run writes to at a time. A context manager; closing it lets go of the lock."""

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        """Begin a journal, or continue one.

        Args:
            path: a directory, new or empty or a journal.
            identity: what the run was asked for (JSON values): whatever changes its result. Not the engine or the
                number of workers. The version of this program is always part of it, since another one may deal, train
                or vote differently.

        Raises:
            JournalError: no journal and not empty, of another run, damaged, readable by others, in use, or the disk
                is full.
        """
        self.path = Path(path)
        wanted = json.loads(json.dumps({"format": _FORMAT, "version": psephos.__version__, **identity}, sort_keys=True))
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be made: {error.strerror}") from error
        if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            raise JournalError(
                f"others can look into {self.path}, and a journal holds the simulation's keys: chmod 700 {self.path}"
            )
        self._lock = self._take_lock()
        try:
            run = self.path / "run.json"
            if run.exists():
                self._check_identity(wanted, _read_json(run))
            elif any(entry.name not in ("lock", "run.json.new") for entry in self.path.iterdir()):
                raise JournalError(f"{self.path} is not empty and no journal; name another directory")
            else:
                _replace(run, json.dumps(wanted, indent=1).encode())
        except BaseException:
            self.close()
            raise

    def _take_lock(self) -> int:
        try:
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(f"the journal {self.path} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise JournalError(
                f"another run is writing to the journal {self.path}; wait for it, or name another directory"
            ) from None
        return descriptor

    def _check_identity(self, wanted: dict[str, Any], found: dict[str, Any]) -> None:
        differing = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        if differing:
            terms = "; ".join(f"{name}: {found.get(name)!r} there, {wanted.get(name)!r} here" for name in differing)
            raise JournalError(
                f"the journal {self.path} is of another run ({terms}); continue with the same options, or name another "
                "directory"
            )

    def ceremony(self, hold: Callable[[], Ceremony]) -> Ceremony:
        """The run's keys: those of the journal, or those that `hold` makes, which are kept first."""
        folder = self.path / "ceremony"
        try:
            if not folder.exists():
                made = hold()
                begun = self.path / "ceremony.begun"
                shutil.rmtree(begun, ignore_errors=True)
                begun.mkdir(mode=0o700)
                for share in made.shares:
                    write_key_share(begun / f"share-{share.holder}.json", share)
                write_signing_keys(begun / "signing-keys.json", made.signing_keys)
                begun.rename(folder)
                sync_folder(self.path)
                return made
            signing_keys = read_signing_keys(folder / "signing-keys.json")
            first = read_key_share(folder / "share-1.json")
            holders = range(2, first.threshold_key.holders + 1)
            shares = (first, *(read_key_share(folder / f"share-{j}.json") for j in holders))
        except KeyFileError as error:
            raise JournalError(f"the keys of the journal {self.path} cannot be used: {error}") from error
        except OSError as error:
            raise disk_error(folder, error) from error
        return Ceremony(first.threshold_key, tuple(k.verification_key for k in signing_keys), shares, signing_keys)

    def sum_of(self, round_: Round) -> SumJournal:
        """The part of the journal for the sum of this round's kind; begun if it is not there."""
        return SumJournal(self.path / round_.kind, round_)

    def steps(self) -> StepLog:
        """The log of a walk; begun if it is not there."""
        return StepLog(self.path / "steps")

    def result(self, name: str) -> Any:
        """What `keep_result` kept under this name; None when there is nothing."""
        file = self.path / f"{name}.result"
        if not file.exists():
            return None
        head, body = _unframed(file)
        if head != {"result": name}:
            raise _damaged(file)
        return json.loads(body)

    def keep_result(self, name: str, result: Any) -> None:
        """Keep a JSON value, what a finished part of the run came to."""
        _replace(self.path / f"{name}.result", _framed({"result": name}, json.dumps(result).encode()))

    def close(self) -> None:
        """Let go of the lock; the files stay."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def forget(self) -> None:
        """Delete the journal with all the secrets in it."""
        shutil.rmtree(self.path)
        self.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Journal {self.path}>"


class SumJournal:
    """One sum of a run. `round` is the journal's own: the given one with the nonce it was begun with."""

    def __init__(self, folder: Path, round_: Round) -> None:
        """Raises JournalError when the journal was begun with another round."""
        self._folder = folder
        file = folder / "round.json"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise disk_error(folder, error) from error
        if file.exists():
            kept = _read_json(file)
            try:
                round_ = replace(round_, nonce=bytes.fromhex(kept["nonce"]))
                matches = round_.digest.hex() == kept["digest"]
            except (KeyError, TypeError, ValueError):
                raise _damaged(file) from None
            if not matches:
                raise JournalError(
                    f"{folder} was begun with another round: the key, roster, auxiliary set, minimum or packing differs"
                )
        else:
            _replace(file, json.dumps({"nonce": round_.nonce.hex(), "digest": round_.digest.hex()}).encode())
        self.round = round_
        self._logged = 0
        self._log_hash = hashlib.sha256()

    def load(self, holders: int) -> tuple[SumState, list[Message]]:
        """How far the sum is, with the messages so far; a fresh state when nothing is committed.

        Raises JournalError when a file is damaged or belongs to another round.
        """
        file = self._folder / "state"
        if not file.exists():
            empty = np.zeros(self.round.plan.length, dtype=object)
            return SumState([BallotProduct(self.round) for _ in range(1 + holders)], empty, {}), []
        head, body = _unframed(file)
        try:
            if head["round"] != self.round.digest.hex():
                raise JournalError(f"{file} is the state of another round")
            sizes = head["sizes"]
            if len(sizes) != 2 + holders or sum(sizes) != len(body):
                raise _damaged(file)
            blobs, at = [], 0
            for size in sizes:
                blobs.append(body[at : at + size])
                at += size
            products = [BallotProduct.decode(blob, self.round) for blob in blobs[:-1]]
            values = json.loads(blobs[-1])
            clear = np.array(values, dtype=np.int64 if max(map(abs, values)) < 2**62 else object)
            if clear.shape != (self.round.plan.length,) or len({p.parties for p in products}) != 1:
                raise _damaged(file)
            messages = self._messages(head["log_bytes"], head["log_sha256"])
            return SumState(products, clear, dict(head["seconds"]), float(head["memory_mb"])), messages
        except JournalError:
            raise
        except (PsephosError, KeyError, TypeError, ValueError):
            raise _damaged(file) from None

    def _messages(self, size: int, digest: str) -> list[Message]:
        """The committed messages; what a run wrote behind them before it ended is dropped by the next commit."""
        file = self._folder / "messages"
        try:
            log = file.read_bytes()[:size] if size else b""
        except OSError:
            raise _damaged(file) from None
        self._log_hash = hashlib.sha256(log)
        if len(log) != size or self._log_hash.hexdigest() != digest:
            raise _damaged(file)
        self._logged = size
        return [Message(*json.loads(line)) for line in log.splitlines()]

    def commit(self, state: SumState, messages: Sequence[Message]) -> None:
        """Make `state` the one to continue from, `messages` being those since the last commit.

        Raises JournalError, the state before staying in force, when it cannot be written.
        """
        lines = "".join(
            json.dumps([m.phase, m.sender, m.receiver, m.kind, m.size, m.digest]) + "\n" for m in messages
        ).encode()
        log = self._folder / "messages"
        try:
            descriptor = os.open(log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "r+b") as file:
                file.truncate(self._logged)
                file.seek(self._logged)
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise disk_error(log, error) from error
        log_hash = self._log_hash.copy()
        log_hash.update(lines)
        blobs = [product.encode() for product in state.products]
        blobs.append(json.dumps([int(value) for value in state.clear.tolist()]).encode())
        head = {
            "round": self.round.digest.hex(),
            "sizes": [len(blob) for blob in blobs],
            "seconds": state.seconds,
            "memory_mb": state.memory_mb,
            "log_bytes": self._logged + len(lines),
            "log_sha256": log_hash.hexdigest(),
        }
        _replace(self._folder / "state", _framed(head, b"".join(blobs)))
        self._logged += len(lines)
        self._log_hash = log_hash

    def partial(self, holder: int) -> bytes | None:
        """What this holder answered, encoded; None when it was not asked yet."""
        file = self._folder / f"partial-{holder}"
        if not file.exists():
            return None
        head, body = _unframed(file)
        if head != {"round": self.round.digest.hex(), "holder": holder}:
            raise _damaged(file)
        return body

    def keep_partial(self, holder: int, answer: bytes) -> None:
        """Keep what a holder answered, so that it is not asked to open a second time."""
        _replace(
            self._folder / f"partial-{holder}", _framed({"round": self.round.digest.hex(), "holder": holder}, answer)
        )

    def __repr__(self) -> str:
        return f"<SumJournal {self._folder}>"


class StepLog:
    """An append-only log, one JSON object a line, each synced before anything follows from it.

    A last line without its end is what an interrupt leaves and is dropped; any other damage is a JournalError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries: list[dict[str, Any]] = []
        if not path.exists():
            return
        try:
            raw = path.read_bytes()
            whole = raw[: raw.rfind(b"\n") + 1]
            if len(whole) != len(raw):
                os.truncate(path, len(whole))
            self.entries = [json.loads(line) for line in whole.splitlines()]
        except OSError as error:
            raise disk_error(path, error) from error
        except ValueError:
            raise _damaged(path) from None
        if not all(isinstance(entry, dict) for entry in self.entries):
            raise _damaged(path)

    def append(self, entry: dict[str, Any]) -> None:
        """Write one entry and wait until it is on disk; raises JournalError when it cannot be written."""
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(entry).encode("ascii") + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise disk_error(self._path, error) from error
        self.entries.append(entry)


def _framed(head: dict[str, Any], body: bytes) -> bytes:
    content = _MAGIC + json.dumps(head).encode() + b"\n" + body
    return content + hashlib.sha256(content).digest()


def _unframed(file: Path) -> tuple[dict[str, Any], bytes]:
    try:
        data = file.read_bytes()
    except OSError:
        raise _damaged(file) from None
    content, checksum = data[:-32], data[-32:]
    if not content.startswith(_MAGIC) or hashlib.sha256(content).digest() != checksum:
        raise _damaged(file)
    end = content.index(b"\n", len(_MAGIC))
    head: dict[str, Any] = json.loads(content[len(_MAGIC) : end])
    return head, content[end + 1 :]


def _replace(file: Path, content: bytes) -> None:
    """`replace_file`, with the disk's errors named."""
    try:
        replace_file(file, content)
    except OSError as error:
        raise disk_error(file, error) from error


def _read_json(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError):
        raise _damaged(file) from None
    if not isinstance(document, dict):
        raise _damaged(file)
    return document


def _damaged(file: Path) -> JournalError:
    return JournalError(f"the journal file {file} is damaged; delete the journal and start again")


def disk_error(file: Path, error: OSError) -> JournalError:
    """What to tell the user of an `error` that writing `file` met."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return JournalError(
            f"no room to write {file} ({error.strerror}); what was committed before is kept: make room and run again"
        )
    return JournalError(f"{file} cannot be written: {error.strerror}")
