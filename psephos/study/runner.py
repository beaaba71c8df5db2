"""A member's roles, step by step, until there is a result: what `psephos agent` does, and each single step of it.

Roles know no clock. They are told here when nothing more is on its way: the curator's vote is over when everybody has
voted, when the study says so, or when its people say so; any later wait is over after the study's patience, from when
the role last said something, also across restarts.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from psephos.curator.psgd.curator import GradientCurator
from psephos.curator.tally import AwaitingDecryptions
from psephos.parties.ceremony import CeremonyHolder
from psephos.parties.ceremony_states import Failed, Searching
from psephos.parties.holder import Answered
from psephos.parties.psgd import GradientParty, SeriesHolder
from psephos.protocol.agent import Agent
from psephos.protocol.board import Board
from psephos.protocol.board.address import open_board
from psephos.protocol.encrypted_sum.product import Closed, Observer, Watching
from psephos.protocol.errors import BoardError, JournalError, PsephosError, StudyError
from psephos.protocol.roles import Missing, Role
from psephos.protocol.storage.store import Store
from psephos.protocol.study.stages import JoinStage, KeyStage, NoKey, PublishStage, ResultWatcher, StagedRole
from psephos.protocol.study.study import CURATOR
from psephos.study.member import Membership

__all__ = ["MemberRunner", "failed", "standing"]

_log = logging.getLogger("psephos.study")

_SHORTEST, _LONGEST = 0.05, 2.0
"""Seconds between two looks at the board: after something happened, and when nothing has for a while."""


def _now(agent: Agent) -> tuple[Role, Any]:
    """The role of an agent's stage and its own state, taken out of what is around them."""
    assert isinstance(agent.role, StagedRole)
    role, state = agent.role.stage(agent.state), agent.state.state
    if isinstance(role, ResultWatcher):
        role, state = role.inner, state.state
    return role, getattr(state, "state", state)


def failed(agent: Agent) -> bool:
    """Whether the study ended without a key: its ceremony failed, or holders published different ones."""
    return isinstance(_now(agent)[1], Failed | NoKey)


def standing(agent: Agent) -> str:
    """Where a role stands, in words."""
    if agent.result is not None:
        return "done: the result is published"
    role, state = _now(agent)
    left = agent.role.awaits(agent.state)
    if isinstance(role, JoinStage):
        return f"waits until these have joined: {', '.join(left.senders)}" if left else "has joined"
    if isinstance(state, Failed | NoKey):
        return f"there is no key, and this study is over: {state.why}"
    if isinstance(role, CeremonyHolder):
        if isinstance(state, Searching):
            tried, expected = state.batch * role.terms.batch, round(1 / role.terms.success)
            return f"makes the key with the other holders: {tried:,} candidates tried, about {expected:,} in all"
        return f"makes the key with the other holders; waits for {left}" if left else "makes the key"
    if isinstance(role, KeyStage):
        told = (
            f"; {state.describe_failure()}; it takes {role.study.threshold} holders to be believed"
            if state.failed
            else ""
        )
        return f"waits for the key, from {', '.join(left.senders)}{told}" if left else "waits for the key"
    if isinstance(role, Observer) and isinstance(state, Watching):
        here, all_, least = len(role.product(state)), len(role.round.roster), role.round.minimum_ballots
        over = "; the vote is being closed" if state.closing else ""
        return f"has counted {here} ballots of {all_}, of which {least} are needed{over}"
    if isinstance(role, Observer) and isinstance(state, Closed):
        said = len(state.agreeing(role.product(state).digest))
        return f"the vote is closed; {said} of {role.round.confirmations} holders have confirmed what is opened"
    if isinstance(role, GradientCurator | GradientParty | SeriesHolder):
        known = f"has {state.progress.steps} of at most {role.terms.series.steps} sums"
        return f"{known}; waits for {left}" if left else known
    if isinstance(state, AwaitingDecryptions):
        return f"has {len(state.parts)} partial decryptions of the {len(state.asked)} that it asked for"
    if isinstance(state, Answered):
        return "has opened the sum; waits for the result"
    if isinstance(role, PublishStage):
        return "publishes the result"
    return f"waits for {left}" if left else "has given its part; waits for the result"


@dataclass
class Seated:
    """One role, and what was last seen of it."""

    agent: Agent
    store: Store
    board: Board
    told: str = ""
    refused: int = 0
    moved: float = 0.0
    done: bool = False
    awaits: Missing | None = None


class MemberRunner:
    """Some or all roles of a member over a board. A context manager, which lets go of their stores."""

    def __init__(
        self,
        member: Membership,
        names: Sequence[str],
        *,
        say: Callable[[str], None] = lambda text: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            member: whose roles.
            names: which of them.
            say: is told in words what happens; the log is told, too.
            clock: seconds since 1970, for the end of the vote and for patience.

        Raises BoardError when the board cannot be reached, what `Membership.agent` does, and `Voter.check`.
        """
        self.member, self.study, self._say, self._clock = member, member.study, say, clock
        self.seats: list[Seated] = []
        self.released: Path | None = None
        """Where model and card were written."""
        self.failure = ""
        """Why the board does not answer."""
        try:
            for name in names:
                board = open_board(member.settings.board, self.study.digest, name, member.identity.key)
                try:
                    agent, store = member.agent(name, board)
                except BaseException:
                    board.close()
                    raise
                self.seats.append(Seated(agent, store, board))
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
        """Let go of the roles' stores and boards."""
        for seat in self.seats:
            seat.store.close()
            seat.board.close()

    @property
    def done(self) -> bool:
        """Whether every role has come to the result, and everything that it said stands on the board."""
        return all(seat.agent.result is not None and not seat.agent.unconfirmed for seat in self.seats)

    def standing(self) -> list[tuple[str, str]]:
        """Each role with where it stands."""
        return [(seat.agent.role.name, standing(seat.agent)) for seat in self.seats]

    def settle(self) -> None:
        """Take every step that is due now: raises what a role raises, and BoardError."""
        while self.turn():
            pass

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Take every step as it falls due, until all is done or `until` says so.

        A board that fails is tried again, and a wait that ends in an error is named and goes on. Raises what a role
        raises that cannot go on, StudyError when the ceremony has failed.
        """
        pause = _SHORTEST
        while not (self.done or until()):
            over = [seat.agent for seat in self.seats if failed(seat.agent)]
            if over and not any(seat.agent.unconfirmed for seat in self.seats):
                raise StudyError(f"{over[0].role.name}: {standing(over[0])}")
            try:
                moved, self.failure = self.turn(patient=True), ""
            except BoardError as error:
                self.failure = str(error)
                self._tell("", f"the board fails, and is tried again: {error}", "board")
                moved, pause = False, _LONGEST
            pause = _SHORTEST if moved else min(_LONGEST, pause * 1.5)
            if not moved:
                time.sleep(pause)

    def turn(self, *, patient: bool = False) -> bool:
        """One step of each role; whether anything moved. `patient`: name what a wait ends in, do not raise."""
        moved = False
        for seat in self.seats:
            moved = seat.agent.step() or moved
            if seat.agent.result is None and self._due(seat):
                try:
                    moved = seat.agent.on_idle() or moved
                except PsephosError as error:
                    if not patient or isinstance(error, JournalError):
                        raise
                    self._tell(seat.agent.role.name, f"cannot go on yet: {error}", type(error).__name__)
                self._since(seat, restart=True)
            self._report(seat)
        if self.released is None:
            self._write_release()
        return moved

    # -- when nothing more is on its way

    def _due(self, seat: Seated) -> bool:
        agent = seat.agent
        waited = self._clock() - self._since(seat)
        role, state = _now(agent)
        if agent.role.is_ready(agent.state):
            return True
        if role.name == CURATOR and isinstance(state, Watching) and not state.closing:
            told = self.member.closing().exists() or (
                bool(self.study.closes) and self._clock() >= datetime.fromisoformat(self.study.closes).timestamp()
            )
            # A vote that could not be closed, for too few ballots, is tried again after a while.
            return told and (waited >= self.study.patience or not self._tried(seat))
        return waited >= self.study.patience

    def _key(self, seat: Seated) -> list[Any]:
        """What a wait is known by: it begins anew when the role says something."""
        return [seat.agent.state.stage, type(_now(seat.agent)[1]).__name__, seat.agent.signed_entries]

    def _tried(self, seat: Seated) -> bool:
        kept = json.loads(seat.store.get("play", b"since") or b"[]")
        return bool(kept) and kept[0] == self._key(seat) and bool(kept[2])

    def _since(self, seat: Seated, *, restart: bool = False) -> float:
        """When the wait began, in seconds since 1970; in the role's store, so that a restart does not begin it anew."""
        key, kept = self._key(seat), json.loads(seat.store.get("play", b"since") or b"[]")
        if restart or not kept or kept[0] != key or kept[1] > self._clock():
            kept = [key, self._clock(), restart]
            seat.store.put("play", b"since", json.dumps(kept).encode())
        return float(kept[1])

    # -- what is said about it

    def _report(self, seat: Seated) -> None:
        agent = seat.agent
        seat.done, seat.awaits = agent.result is not None, agent.role.awaits(agent.state)
        if (text := standing(agent)) != seat.told:
            seat.told, seat.moved = text, self._clock()
            self._tell(agent.role.name, text, "standing")
        for told in agent.rejected[seat.refused :]:
            self._tell(
                agent.role.name,
                f"refused entry {told.number} of {told.author or 'a stranger'}: {told.error}",
                "refused",
            )
        seat.refused = len(agent.rejected)

    def _tell(self, role: str, text: str, what: str) -> None:
        _log.info(what, extra={"about": {"study": self.study.digest.hex()[:16], "role": role, "said": text}})
        self._say(f"{role}: {text}" if role else text)

    def _write_release(self) -> None:
        for seat in self.seats:
            if (published := seat.agent.result) is not None:
                self.released = self.member.write_release(published.content)
                self._tell("", f"the model and its card are in {self.released}", "released")
                return
