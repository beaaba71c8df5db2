"""`NatsBoard` without a server: a stream in this process instead of JetStream."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from nats.js import errors as js_errors
from nats.js.api import RawStreamMsg

from psephos.protocol.board.nats import NatsBoard
from psephos.protocol.signing import SigningKey

SESSION = bytes(range(32))
STUDY = "0001020304050607"


class Stream:
    """Stores messages under numbers, one of each id, and records what is asked for."""

    def __init__(self) -> None:
        self.messages: dict[int, RawStreamMsg] = {}
        self.numbers: dict[str, int] = {}
        self.state = SimpleNamespace(last_seq=0, first_seq=1, deleted=None, num_deleted=None)
        self.config: Any = None
        self.added: Any = None
        self.asked: list[int] = []

    async def stream_info(self, name: str) -> Any:
        assert name == f"psephos-{STUDY}"
        if self.config is None and self.added is None:
            raise js_errors.NotFoundError
        return SimpleNamespace(config=self.config or self.added, state=self.state)

    async def add_stream(self, config: Any) -> Any:
        self.added = config
        return SimpleNamespace(config=replace(config))

    async def publish(self, subject: str, data: bytes, *, stream: str, headers: Any) -> Any:
        assert (stream, list(headers)) == (f"psephos-{STUDY}", ["Nats-Msg-Id"])
        number = self.numbers.setdefault(headers["Nats-Msg-Id"], self.state.last_seq + 1)
        if number > self.state.last_seq:
            self.messages[number] = RawStreamMsg(subject=subject, seq=number, data=data)
            self.state.last_seq = number
        return SimpleNamespace(seq=number)

    async def get_msg(
        self, stream: str, number: int, subject: str | None = None, *, direct: bool, next: bool = False
    ) -> RawStreamMsg:
        assert (stream, direct) == (f"psephos-{STUDY}", True)
        if next:
            later = [n for n, message in sorted(self.messages.items()) if n >= number and message.subject == subject]
            return self.messages[later[0]]
        self.asked.append(number)
        if number not in self.messages:
            raise js_errors.NotFoundError
        return self.messages[number]


class Offline(NatsBoard):
    """A board whose server is a `Stream`."""

    def __init__(self, url: str, stream: Stream, name: str = "", key: SigningKey | None = None, **more: Any) -> None:
        self.stream, self.timeouts = stream, set[float]()
        super().__init__(url, SESSION, name, key, **more)

    async def _connect(self) -> None:
        def jetstream(prefix: str, timeout: float) -> Stream:
            assert (prefix == "$JS.API") == (self._key is not None)
            self.timeouts.add(timeout)
            return self.stream

        self._client = SimpleNamespace(jetstream=jetstream, is_connected=False, _transport=None)  # type: ignore[assignment]
