"""Running a member's roles until there is a result, as `psephos agent` does, and single steps of them.

Roles have no clock; the runner calls `on_idle` when a wait is over. The curator's vote ends when everybody has voted,
at the study's closing time, or when the curator's operators close it. Any later wait ends after the study's patience,
counted from the last message that the role sent, also across restarts.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from psephos.curator.psgd.curator import GradientCurator
from psephos.curator.tally import AwaitingDecryptions
from psephos.parties.ceremony import CeremonyHolder
from psephos.parties.ceremony_states import CeremonyFailed, ModulusSearch
from psephos.parties.holder import HolderAnswered
from psephos.parties.psgd import GradientParty, SeriesHolder
from psephos.protocol.agent import Agent
from psephos.protocol.board import Board
from psephos.protocol.board.address import open_board
from psephos.protocol.encrypted_sum.product import Observer, VoteClosed, VoteOpen
from psephos.protocol.errors import BoardError, JournalError, PsephosError, StudyError
from psephos.protocol.roles import Role
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import JoinStage, KeyStage, NoKey, PublishStage, ResultWatcher, StagedRole
from psephos.protocol.study.study import CURATOR
from psephos.study.identity import fingerprint
from psephos.study.member import Membership

_log = logging.getLogger("psephos.study")

_SHORTEST, _LONGEST = 0.05, 2.0
"""Seconds between two reads of the board: after a change, and when nothing has changed for a while."""


def _now(agent: Agent) -> tuple[Role, Any]:
    """Return the role of an agent's stage and its own state, without the wrappers of the study."""
    assert isinstance(agent.role, StagedRole)
    role, state = agent.role.stage(agent.state), agent.state.state
    if isinstance(role, ResultWatcher):
        role, state = role.inner, state.state
    return role, getattr(state, "state", state)


def failed(agent: Agent) -> bool:
    """Return whether the study ended without a key: its ceremony failed, or holders published different keys."""
    return isinstance(_now(agent)[1], CeremonyFailed | NoKey)


def status(agent: Agent) -> str:
    """Describe what a role waits for, or what it has done."""
    if agent.result is not None:
        return "done: the result is published"
    role, state = _now(agent)
    missing = agent.role.awaits(agent.state)
    others = [sender for sender in missing.senders if sender != role.name] if missing else []
    waits = f"; waits for {missing}" if missing else ""
    if isinstance(role, JoinStage):
        return f"has joined; waits for others to join: {', '.join(others)}" if others else "has joined"
    if isinstance(state, CeremonyFailed | NoKey):
        return f"there is no key, and this study is over: {state.why}"
    if isinstance(role, CeremonyHolder):
        if isinstance(state, ModulusSearch):
            candidates, expected = state.batch * role.terms.batch, round(1 / role.terms.success)
            return f"makes the key with the other holders: {candidates:,} candidates tried, about {expected:,} in all"
        return f"makes the key with the other holders{waits}" if missing else "makes the key"
    if isinstance(role, KeyStage):
        failure = (
            f"; {state.describe_failure()}; it takes {role.study.threshold} holders to be believed"
            if state.failed
            else ""
        )
        return f"waits for the key, from {', '.join(others)}{failure}" if others else f"waits for the key{failure}"
    if isinstance(role, Observer) and isinstance(state, VoteOpen):
        counted, parties, minimum = len(role.product(state)), len(role.round.roster), role.round.minimum_ballots
        closing = "; the vote is being closed" if state.closing else ""
        return f"has counted {counted} ballots of {parties}, of which {minimum} are needed{closing}"
    if isinstance(role, Observer) and isinstance(state, VoteClosed):
        confirmed = len(state.agreeing(role.product(state).digest))
        return f"the vote is closed; {confirmed} of {role.round.confirmations} holders have confirmed what is opened"
    if isinstance(role, GradientCurator | GradientParty | SeriesHolder):
        return f"has {state.progress.steps} of at most {role.terms.series.steps} sums{waits}"
    if isinstance(state, AwaitingDecryptions):
        return f"has {len(state.parts)} partial decryptions of the {len(state.asked)} that it asked for"
    if isinstance(state, HolderAnswered):
        return "has opened the sum; waits for the result"
    if isinstance(role, PublishStage):
        return "publishes the result"
    return f"waits for {missing}" if missing else "has given its part; waits for the result"


@dataclass
class RunningRole:
    """One role with its store and board, and what was last reported of it."""

    agent: Agent
    store: Store
    board: Board
    status: str = ""
    rejected: int = 0


class _MemberBoard:
    """A member's board, which is opened when it is first used; where that fails, the next use tries again."""

    def __init__(self, member: Membership, name: str) -> None:
        self._member, self._name = member, name

    @cached_property
    def _board(self) -> Board:
        member = self._member
        return open_board(member.settings.board, member.study.digest, self._name, member.identity.key)

    def post(self, data: bytes) -> None:
        self._board.post(data)

    def read(self, after: int) -> Iterable[tuple[int, bytes]]:
        return self._board.read(after)

    def close(self) -> None:
        if "_board" in vars(self):
            self._board.close()


class MemberRunner:
    """Runs some or all roles of a member over a board. A context manager, which closes their stores and boards."""

    def __init__(
        self,
        member: Membership,
        names: Sequence[str],
        *,
        say: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`say`: called with a line of text for each event, which is logged as well. `clock`: seconds since 1970.

        Raises what `Membership.agent` does, and `Voter.check`. The board is opened by the first step.
        """
        self.member, self.study, self._say, self._clock = member, member.study, say, clock
        self.roles: list[RunningRole] = []
        self.released: Path | None = None
        """The directory with the model and its card, once they are written."""
        self.failure = ""
        """Why the board does not answer; empty where it does."""
        try:
            for name in names:
                board = _MemberBoard(member, name)
                agent, store = member.agent(name, board)
                self.roles.append(RunningRole(agent, store, board))
                if name.startswith("party") and isinstance(_now(agent)[0], JoinStage | KeyStage):  # it has not voted
                    member.voter.check()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> MemberRunner:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the roles' stores and boards."""
        for running in self.roles:
            running.store.close()
            running.board.close()

    @property
    def done(self) -> bool:
        """Whether every role has the result, and everything that it signed was read back from the board."""
        return all(running.agent.result is not None and not running.agent.unconfirmed for running in self.roles)

    def statuses(self) -> list[tuple[str, str]]:
        """Return each role's name with its status."""
        return [(running.agent.role.name, status(running.agent)) for running in self.roles]

    def run_due_steps(self) -> None:
        """Take every step that is due now. Raises what a role raises, and BoardError."""
        while self.step():
            pass

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Take every step when it is due, until all roles are done or `until` returns true.

        A board that fails is tried again; a wait that ends in an error is reported and continues. Raises what a role
        raises that cannot continue, and StudyError when the ceremony has failed.
        """
        pause = _SHORTEST
        while not (self.done or until()):
            ended = [running.agent for running in self.roles if failed(running.agent)]
            if ended and not any(running.agent.unconfirmed for running in self.roles):
                raise StudyError(f"{ended[0].role.name}: {status(ended[0])}")
            try:
                changed, self.failure = self.step(patient=True), ""
            except BoardError as error:
                if str(error) != self.failure:
                    self._notify("", f"the board fails, and is tried again: {error}", "board")
                self.failure = str(error)
                changed, pause = False, _LONGEST
            pause = _SHORTEST if changed else min(_LONGEST, pause * 1.5)
            if not changed:
                time.sleep(pause)

    def step(self, *, patient: bool = False) -> bool:
        """Take one step of each role, `patient` of waits that end in an error; return whether anything changed."""
        changed = False
        for running in self.roles:
            changed = running.agent.step() or changed
            if running.agent.result is None and self._due(running):
                try:
                    changed = running.agent.on_idle() or changed
                except PsephosError as error:
                    if not patient or isinstance(error, JournalError):
                        raise
                    self._notify(running.agent.role.name, f"cannot go on yet: {error}", type(error).__name__)
                self._wait(running, restart=True)
            self._report(running)
        if self.released is None:
            self._write_release()
        return changed

    # -- the end of a wait

    def _due(self, running: RunningRole) -> bool:
        """Return whether the role's wait is over."""
        agent = running.agent
        began, tried = self._wait(running)
        waited = self._clock() - began
        role, state = _now(agent)
        if agent.role.is_ready(agent.state):
            return True
        if role.name == CURATOR and isinstance(state, VoteOpen) and not state.closing:
            closing = self.member.closing().exists() or (
                bool(self.study.closes) and self._clock() >= datetime.fromisoformat(self.study.closes).timestamp()
            )
            # A vote that could not be closed, for too few ballots, is tried again after a while.
            return closing and (waited >= self.study.patience or not tried)
        return waited >= self.study.patience

    def _wait(self, running: RunningRole, *, restart: bool = False) -> tuple[float, bool]:
        """Return when the wait began, in seconds since 1970, and whether its end was tried before.

        Both are in the role's store and survive a restart. A new wait begins when the role signs an entry.
        """
        agent = running.agent
        key = [agent.state.stage, type(_now(agent)[1]).__name__, agent.signed_entries]
        wait = json.loads(running.store.get("play", b"since") or b"[]")
        if restart or not wait or wait[0] != key or wait[1] > self._clock():
            wait = [key, self._clock(), restart]
            running.store.put("play", b"since", json.dumps(wait).encode())
        return float(wait[1]), bool(wait[2])

    # -- reports

    def _report(self, running: RunningRole) -> None:
        agent = running.agent
        if (text := status(agent)) != running.status:
            running.status = text
            self._notify(agent.role.name, text, "standing")
        for rejected in agent.rejected[running.rejected :]:
            self._notify(
                agent.role.name,
                f"refused entry {rejected.number} of {rejected.author or 'a stranger'}: {rejected.error}",
                "refused",
            )
        running.rejected = len(agent.rejected)

    def _notify(self, role: str, text: str, what: str) -> None:
        _log.info(what, extra={"about": {"study": fingerprint(self.study.digest), "role": role, "said": text}})
        self._say(f"{role}: {text}" if role else text)

    def _write_release(self) -> None:
        for running in self.roles:
            if (published := running.agent.result) is not None:
                self.released = self.member.write_release(published.content, running.board)
                self._notify("", f"the model and its card are in {self.released}", "released")
                return
