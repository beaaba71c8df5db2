"""Flower's two apps: `server` is the curator's machine, `client` runs a member's roles on a SuperNode.

Settings, as Flower has them: `identity` (run configuration: the curator's directory; node configuration: the member's,
or else the environment variable PSEPHOS_IDENTITY, since NVIDIA FLARE writes that configuration itself), `study` (first
digits of the study's fingerprint, if the curator is in several), `lost` (seconds until a message is sent again to a
node that has not answered).
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from psephos.flower.relay import Relay, answer
from psephos.protocol.board.address import open_board
from psephos.protocol.board.file import BoardFile
from psephos.protocol.errors import BoardError, PsephosError, StudyError
from psephos.study.identity import Identity
from psephos.study.member import Membership
from psephos.study.runner import MemberRunner

_log = logging.getLogger("psephos.flower")

_RECORD = "psephos"
_IDLE = 30.0
"""Seconds after which a node is asked again that failed, or has nothing new to read: waits of its roles may be over."""
_GATHER = 3.0
"""Seconds for which new entries wait for answers that are on their way: Flower starts a process for each message."""


def exchange(message: Message, context: Context) -> Message:
    """Answer the curator's message. The reply to what cannot be answered is empty; the reason stays in this log."""
    try:
        record = cast(ConfigRecord, message.content[_RECORD])
        study, after, entries = cast(
            "tuple[bytes, int, list[bytes]]", tuple(record[k] for k in ("study", "after", "entries"))
        )
        folder = context.node_config.get("identity") or os.environ["PSEPHOS_IDENTITY"]
        identity = Identity.read(Path(str(folder)))
        size, own = answer(identity, study, after, entries)
    except Exception as error:
        _log.error("%s: %s", type(error).__name__, error)
        return Message(RecordDict({_RECORD: ConfigRecord({})}), reply_to=message)
    return Message(RecordDict({_RECORD: ConfigRecord({"size": size, "entries": own})}), reply_to=message)


@dataclass
class _Asked:
    """The last message to a node: its identifier, empty once it is answered; when it was sent or answered; and whether
    the answer was none."""

    message: str = ""
    at: float = float("-inf")
    failed: bool = False


class _Nodes:
    """The messages that are on their way; at most one to each node."""

    def __init__(self, grid: Grid, study: bytes, relay: Relay, lost: float) -> None:
        self._grid, self._study, self._relay, self._lost = grid, study, relay, lost
        self._asked: dict[int, _Asked] = {}
        self._news = float("-inf")

    def send(self, *, idle: bool) -> None:
        """Send to every node that has something to receive; `idle`: and from time to time to the others."""
        now = time.monotonic()
        if now - self._news < _GATHER and any(asked.message for asked in self._asked.values()):
            return
        for node in self._grid.get_node_ids():
            asked = self._asked.setdefault(node, _Asked())
            done = self._relay.up_to_date(node)
            pause = self._lost if asked.message else _IDLE if asked.failed or done else 0.0
            if now - asked.at < pause or (done and not idle):
                continue
            after, entries = self._relay.next(node)
            record = ConfigRecord({"study": self._study, "after": after, "entries": entries})
            message = Message(RecordDict({_RECORD: record}), dst_node_id=node, message_type="query")
            (asked.message,), asked.at = self._grid.push_messages([message]), now

    def receive(self) -> None:
        """Take the replies that have come."""
        for reply in self._grid.pull_messages([asked.message for asked in self._asked.values() if asked.message]):
            node = reply.metadata.src_node_id
            if node not in self._asked or reply.metadata.reply_to_message_id != self._asked[node].message:
                continue
            self._asked[node] = _Asked("", time.monotonic(), failed=True)
            if reply.has_error():
                _log.warning("node %d did not answer: %s", node, reply.error.reason)
                continue
            record = reply.content.config_records.get(_RECORD, ConfigRecord({}))
            size, entries = record.get("size"), record.get("entries")
            if not isinstance(size, int) or not isinstance(entries, list):
                _log.warning("node %d has not joined this study, or fails: its log has the reason", node)
                continue
            try:
                took = self._relay.receive(node, size, [data for data in entries if isinstance(data, bytes)])
                self._asked[node].failed = not took
                self._news = time.monotonic() if entries else self._news
            except BoardError as error:
                _log.warning("%s", error)

    def settled(self) -> bool:
        """Return whether every node that is there has the whole board."""
        return all(self._relay.up_to_date(node) for node in self._grid.get_node_ids())


def curate(grid: Grid, context: Context) -> None:
    """Run the curator's role and relay the board until the result is published and every node that is there has it.

    Raises StudyError if the curator has not joined with a file as its board, and what its role raises.
    """
    config = context.run_config
    member = Membership.find(Identity.read(Path(str(config["identity"]))), str(config.get("study", "")))
    lost = float(config.get("lost", 600.0))
    board = open_board(member.settings.board, member.study.digest)
    try:
        if not isinstance(board, BoardFile) or board.copy:
            raise StudyError(f"{member.folder} has another board: the curator joins with a file, which is the board")
        nodes = _Nodes(grid, member.study.digest, Relay(board, member.study.members), lost)
        with MemberRunner(member, member.names, say=_log.info) as runner:
            ends = float("inf")
            while not (runner.done and (nodes.settled() or time.monotonic() > ends)):
                nodes.receive()
                runner.step(patient=True)
                if runner.done:
                    ends = min(ends, time.monotonic() + lost)
                nodes.send(idle=not runner.done)
                time.sleep(0.2)
    except PsephosError as error:
        _log.error("%s", error)
        raise
    finally:
        board.close()


server, client = ServerApp(), ClientApp()
server.main()(curate)
client.query()(exchange)
