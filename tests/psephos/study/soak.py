"""Studies under kill -9: a process for every role, over a file or a NATS server, killed and lied to at random moments.

    python -m tests.psephos.study.soak psgd --schedules 200 --seed 1 --server

A schedule is drawn from its seed: who is killed when, what a vandal puts on the board, which role's disk is full for a
while or set back to an old copy, who comes late or never again. What must come of it, whatever that was:

* a release, the same for everybody; what is in it is exactly what the parties that it says were counted have put in
  (`Cast.judge`);
* or, when too few holders are left, an error that says which; or, for a role set back, an error that says so.

A schedule that runs longer than it may is a failure, and says what every role was waiting for.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import resource
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psephos.protocol.agent import Agent
from psephos.protocol.board import MOST_BYTES, Board, MemoryBoard
from psephos.protocol.board.address import open_board
from psephos.protocol.board.nats import NatsBoard
from psephos.protocol.board.server import start_server, write_server
from psephos.protocol.encrypted_sum.rounds import safe_confirmations
from psephos.protocol.errors import BoardError, EquivocationError, JournalError, PsephosError
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import Store
from tests.psephos.study.cast import ALL, Cast

SLOW = float(os.environ.get("SOAK_SLOW", "1"))
"""By how much a machine that does much else stretches the times below."""
LONGEST = 180.0 * SLOW
"""Seconds that a schedule may take."""
PATIENCE = 2.0 * SLOW
"""Seconds of quiet after which the curator goes on without who is missing."""
STILL = 8.0 * SLOW
"""Seconds without any role's word after which a study that has lost a role has stopped."""

DONE, SET_BACK, FULL, GONE = 0, 4, 5, 6
"""How a role's process ends: with the result; noticing that its store is an old copy; on a full disk; for ever."""

fork = multiprocessing.get_context("fork")


class Unsteady:
    """A board that posts twice, later, or in another order, and shows less than there is: all that one may do."""

    def __init__(self, board: Board, chance: float) -> None:
        self._board, self._chance, self._held = board, chance, list[bytes]()

    def post(self, data: bytes) -> None:
        if random.random() < self._chance:
            self._held.insert(0, data)
            return
        self._board.post(data)
        if random.random() < self._chance:
            self._board.post(data)

    def read(self, after: int) -> Iterable[tuple[int, bytes]]:
        while self._held:
            self._board.post(self._held.pop())
        if random.random() < self._chance / 4:
            raise BoardError("not now")
        for numbered in self._board.read(after):
            if random.random() < self._chance / 4:
                return
            yield numbered

    def close(self) -> None:
        self._board.close()


@dataclass
class House:
    """One schedule's study, and where everything of it lies."""

    folder: Path
    seed: int
    parties: int
    confirmations: int
    server: bool
    what: str = "tally"

    def __post_init__(self) -> None:
        self.cast = Cast(self.what, self.parties, seed=self.seed, confirmations=self.confirmations)
        made = self.cast.made
        self.keys, self.terms, self.names, self.role = made.keys, self.cast.terms, self.cast.names, self.cast.role
        self.address = str(self.folder / "board")
        self._running: subprocess.Popen[bytes] | None = None
        if self.server:
            with socket.create_server(("127.0.0.1", 0)) as probe:
                port = probe.getsockname()[1]
            write_server(self.folder / "server", made.study.members, ["127.0.0.1"], port)
            self.address = f"tls://127.0.0.1:{port}?ca={self.folder / 'server' / 'ca.pem'}"
            self._running = start_server(self.folder / "server")

    def stop_server(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()

    def restart_server(self) -> None:
        self.stop_server()
        self._running = start_server(self.folder / "server")

    def place(self, name: str) -> Path:
        return self.folder / name.replace(" ", "-")

    # -- in a process of its own

    def play(self, name: str, chance: float, small: int) -> None:
        """Until there is a result; `small`: bytes that a file may have, 0 for as many as it likes."""
        place = self.place(name)
        place.mkdir(mode=0o700, exist_ok=True)
        sys.stderr = (place / "log").open("a", buffering=1)  # type: ignore[assignment]
        random.seed()
        try:
            if small:
                resource.setrlimit(resource.RLIMIT_FSIZE, (small, small))
            with Store(place / "store") as store:
                os._exit(self._play(name, store, chance))
        except EquivocationError as error:
            print(f"{name}: {error}", file=sys.stderr)
            os._exit(SET_BACK)
        except (JournalError, BoardError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            os._exit(FULL)
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            os._exit(1)

    def _board(self, name: str, chance: float) -> Board:
        until = time.monotonic() + LONGEST
        while True:
            try:
                return Unsteady(open_board(self.address, self.terms.study.digest, name, self.keys[name]), chance)
            except BoardError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def _play(self, name: str, store: Store, chance: float) -> int:
        board = self._board(name, chance)
        # What was not read back is posted again after 30 seconds: here of a clock that runs eight times as fast, for a
        # study in which nobody says anything for STILL seconds is taken for one that has stopped.
        agent = Agent(
            self.role(name, store), self.terms.study.members, self.keys[name], board, store,
            clock=lambda: 8 * time.monotonic(),
        )  # fmt: skip
        quiet, trouble, pause = time.monotonic(), "", 0.05
        while agent.result is None or agent.unconfirmed:
            try:
                if agent.step():
                    quiet, trouble, pause = time.monotonic(), "", 0.05
                    continue
                waited = time.monotonic() - quiet
                if agent.result is None and (agent.role.is_ready(agent.state) or waited > PATIENCE):
                    agent.on_idle()
                    quiet = time.monotonic()
            except BoardError as error:
                if any(word in str(error) for word in ("set back", "room", "full")):
                    raise
                time.sleep(0.1)
            except (EquivocationError, JournalError):
                raise
            except PsephosError as error:  # named, and waited for further, as an agent does
                quiet, trouble = time.monotonic(), f"{type(error).__name__}: {error}"
            self._say(name, trouble or f"at {agent.head}, waits for {agent.role.awaits(agent.state)}")
            time.sleep(pause := min(0.2, 1.5 * pause))
        temporary = self.place(name) / "result.part"
        temporary.write_bytes(agent.result.content)
        temporary.rename(self.place(name) / "result")
        return DONE

    def _say(self, name: str, text: str) -> None:
        """Anew only when it changes: how old it is says for how long nothing has happened."""
        path = self.place(name) / "waits"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)

    def vandalise(self, deeds: list[tuple[float, str]]) -> None:
        """What somebody does who can write to the board: a stranger, or over NATS party 0."""
        begun = time.monotonic()
        stranger = SigningKey.generate()
        for moment, deed in deeds:
            time.sleep(max(0.0, begun + moment - time.monotonic()))
            with contextlib.suppress(BoardError, sqlite3.Error):
                board = open_board(self.address, self.terms.study.digest, "party 0", self.keys["party 0"])
                entries = [data for _, data in board.read(0) if data] or [b"x"]
                some = random.choice(entries)
                data = {
                    "replay": some,
                    "garbage": secrets.token_bytes(random.randrange(1, 3000)),
                    "altered": some[:-1] + bytes([some[-1] ^ 1]),
                    "stranger": some[:-64] + stranger.sign(some[:-64]),
                    "100 MB": bytes(100_000_000),
                }[deed]
                self._force(board, data)
                board.close()
        os._exit(0)

    def _force(self, board: Board, data: bytes) -> None:
        """Past all that our own code checks."""
        if isinstance(board, NatsBoard):
            if (
                len(data) > MOST_BYTES
            ):  # no server takes it; what it does take is a list of more parts than there may be
                part = board._run(board._publish("part", data[:1_000_000]))
                parts = b"".join(part.to_bytes(8, "big") for _ in range(100))
                board._run(board._publish("parts", secrets.token_bytes(32) + parts))
                return
            js = board._client.jetstream()
            board._run(js.publish(f"{board._subject}.entry", data))  # type: ignore[arg-type]
            return
        with contextlib.closing(sqlite3.connect(self.address, timeout=30)) as raw, raw:
            raw.execute("INSERT INTO entries (digest, data) VALUES (?, ?)", (secrets.token_bytes(32), data))


class Schedule:
    """What befalls a study, drawn from a seed; `run` plays it and says what happened."""

    def __init__(self, seed: int, server: bool, what: str = "tally") -> None:
        coins = self.coins = random.Random(f"schedule {seed}")
        self.seed, self.server, self.what = seed, server, what
        self.parties = coins.choice([4, 5])
        self.chance = coins.choice([0.0, 0.2])
        deeds = ["replay", "garbage", "altered", "stranger"]
        self.deeds = sorted((coins.uniform(0.1, 6), coins.choice(deeds)) for _ in range(coins.randrange(6)))
        if coins.random() < 0.04:
            self.deeds.append((self.deeds[-1][0] if self.deeds else 1.0, "100 MB"))
        self.kills = coins.randrange(1, 12)
        parties = [f"party {n}" for n in range(self.parties)]
        holders = parties if what == "pathak" else ["holder 1", "holder 2", "holder 3"]
        others = ["curator", *parties]
        self.late = f"party {coins.randrange(self.parties)}" if coins.random() < 0.3 else ""
        self.full = coins.choice(holders + others) if coins.random() < 0.2 else ""
        self.back = coins.choice(holders + others) if coins.random() < 0.15 else ""
        self.gone = coins.choice(holders) if coins.random() < 0.1 else ""
        self.gone_after = coins.uniform(1, 10)
        # A product is opened when all three holders have confirmed it, or already when two have.
        self.confirmations = coins.choice([2, 3]) if self.gone else safe_confirmations(3, 2)
        self.happened: Counter[str] = Counter(deed for _, deed in self.deeds)
        self._processes: dict[str, Any] = {}
        self._due: dict[str, float] = {}
        self._ended: dict[str, int] = {}

    def run(self) -> Counter[str]:
        """Raises AssertionError for anything that must not be; its files are kept then."""
        self.folder = Path(tempfile.mkdtemp(prefix="psephos-soak-"))
        self.house = House(self.folder, self.seed, self.parties, self.confirmations, self.server, self.what)
        vandal = fork.Process(target=self.house.vandalise, args=(self.deeds,))
        self._begun = time.monotonic()
        try:
            vandal.start()
            self._play()
            self._judge()
        finally:
            for process in (vandal, *self._processes.values()):
                process.kill()
                process.join()
            self.house.stop_server()
        shutil.rmtree(self.folder)
        return self.happened

    def _start(self, name: str, small: int = 0) -> None:
        self._due.pop(name, None)
        self._processes[name] = fork.Process(target=self.house.play, args=(name, self.chance, small))
        self._processes[name].start()

    def _play(self) -> None:
        for name in self.house.names:
            if name == self.late:
                self._due[name] = self._begun + self.coins.uniform(1, 15)
                self.happened["late"] += 1
            else:
                self._start(name, self.coins.randrange(20_000, 120_000) if name == self.full else 0)
        next_kill = self._begun + self.coins.expovariate(3)
        while not self._over():
            time.sleep(0.01)
            now = time.monotonic()
            for name in [name for name, due in self._due.items() if now >= due]:
                self._start(name)
            alive = self._reap()
            if self.gone in alive and now > self._begun + self.gone_after:
                self._kill(self.gone, "gone")
                self._ended[self.gone] = GONE
            elif self.kills and alive and now >= next_kill:
                self.kills -= 1
                next_kill = time.monotonic() + self.coins.expovariate(3)
                if self.server and self.coins.random() < 0.25:
                    self.house.restart_server()
                    self.happened["server killed"] += 1
                else:
                    often = [self.back] * len(alive) if self.back in alive else []
                    name = self.coins.choice(alive + often)
                    self._kill(name, "killed")
                    self._set_back(name)
                    self._due[name] = now + self.coins.uniform(0, 0.5)

    def _reap(self) -> list[str]:
        """Who is alive; whoever has ended has ended well, or is started again when its disk is not full any more."""
        alive = []
        for name, process in list(self._processes.items()):
            if process.is_alive():
                alive.append(name)
            elif name not in self._due and name not in self._ended:
                if process.exitcode == FULL and name == self.full:
                    self.happened["full disk"] += 1
                    self._start(name)
                    continue
                self._ended[name] = process.exitcode
                ok = process.exitcode == DONE or (process.exitcode == SET_BACK and name == self.back)
                assert ok, f"{self}: {name} ended with {process.exitcode}: {self._log(name)}"
        return [name for name in alive if name not in self._ended]

    def _kill(self, name: str, what: str) -> None:
        self._processes[name].kill()
        self._processes[name].join()
        self.happened[what] += 1

    def _set_back(self, name: str) -> None:
        """At its first kill a copy is made of everything that it has, and at its next one that is put back."""
        place, copy = self.house.place(name), self.folder / "old"
        if name != self.back or not (place / "store").exists() or self.happened["set back"]:
            return
        if copy.exists():
            shutil.rmtree(place)
            copy.rename(place)
            self.happened["set back"] += 1
        else:
            shutil.copytree(place, copy)

    def _over(self) -> bool:
        if len(self._ended) == len(self.house.names):
            return True
        if any(code != DONE for code in self._ended.values()) and not self._due:
            last_change = max((path.stat().st_mtime for path in self._waits()), default=time.time())
            if time.time() - last_change > STILL:
                return True
        if time.monotonic() - self._begun > LONGEST:
            raise AssertionError(f"{self} hangs: {self._waiting()}")
        return False

    def _waits(self) -> list[Path]:
        return [self.house.place(name) / "waits" for name in self.house.names if self._log(name, "waits")]

    def _log(self, name: str, file: str = "log") -> str:
        path = self.house.place(name) / file
        return path.read_text() if path.exists() else ""

    def _waiting(self) -> dict[str, str]:
        return {name: self._log(name, "waits") for name in self.house.names if self._ended.get(name) != DONE}

    def _judge(self) -> None:
        """What was released is what was voted; and who did not get it can say why."""
        lost = [name for name, code in self._ended.items() if code in (GONE, SET_BACK)]
        waiting = self._waiting()
        if not lost:
            assert not waiting, f"{self}: {waiting}"
        elif waiting.keys() - set(lost):
            reasons = " ".join(waiting[name] for name in waiting.keys() - set(lost))
            assert "Error: " in reasons or any(name in reasons for name in lost), f"{self}: nobody says why: {waiting}"
            self.happened["stopped, by name"] += 1
        for name in lost:
            self.happened["noticed that it was set back"] += self._ended[name] == SET_BACK
        results = {(self.house.place(name) / "result").read_bytes() for name, c in self._ended.items() if c == DONE}
        assert len(results) <= 1, f"{self}: two releases"
        if results:
            with contextlib.ExitStack() as stack:
                agents = {}
                for number in range(self.parties):
                    if self._ended[name := f"party {number}"] == DONE:
                        store = stack.enter_context(Store(self.house.place(name) / "store"))
                        agents[number] = self.house.cast.agent(name, MemoryBoard(), store)
                try:
                    counted = self.house.cast.judge(results.pop(), agents)
                except AssertionError as error:
                    raise AssertionError(f"{self}: what was released is not what was put in: {error}") from error
            self.happened["released"] += 1
            self.happened["released without everybody"] += len(counted) < self.parties

    def __str__(self) -> str:
        where = "server" if self.server else "file"
        return f"{self.what}, schedule {self.seed} ({where}, {self.folder}, {dict(self.happened)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=ALL, help="the protocol")
    parser.add_argument("--schedules", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the first; the next has the next number")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no schedule after so many")
    parser.add_argument("--server", action="store_true", help="every second one over a NATS server")
    chosen = parser.parse_args()
    total: Counter[str] = Counter()
    failed, played, begun = [], 0, time.monotonic()
    while played < chosen.schedules and time.monotonic() - begun < chosen.seconds:
        seed = chosen.seed + played
        try:
            total += Schedule(seed, chosen.server and seed % 2 == 0, chosen.what).run()
        except AssertionError as error:
            failed.append(seed)
            print(error, file=sys.stderr, flush=True)
        played += 1
        print(f"{seed}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    summary = {"protocol": chosen.what, "schedules": played, "failed": failed, "happened": dict(sorted(total.items()))}
    print(json.dumps(summary | {"seconds": round(time.monotonic() - begun)}, indent=1))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
