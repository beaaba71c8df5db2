"""A board on a NATS server (JetStream), for machines behind firewalls that can all connect to one server.

One stream contains all entries of a study, in the order in which the server stored them. A role authenticates with its
signing key and may publish under its own subjects only (`psephos.protocol.board.server`):

    psephos.STUDY.ROLE.entry    one entry
    psephos.STUDY.ROLE.part     a part of a longer entry; it is an empty entry of the log
    psephos.STUDY.ROLE.parts    a longer entry: its SHA-256 and the numbers of its parts, all of which came before

The number of an entry is its sequence number in the stream. The server is trusted no more than any other board
(docs/protocols/board.md).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import os
import re
import ssl
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js import errors as js_errors
from nats.js.api import DiscardPolicy, RawStreamMsg, RetentionPolicy, StorageType, StreamConfig

from psephos.protocol.board import MOST_BYTES, check_size
from psephos.protocol.errors import BoardError, InvalidParameter
from psephos.protocol.foreign import read_text
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.storage.database import check_private
from psephos.protocol.wire import DIGEST_BYTES

READER = "reader"
"""The server's user for reading only, who has a password."""
PASSWORD_VARIABLE = "PSEPHOS_READER_PASSWORD"  # noqa: S105 - a name
"""The variable of the environment with the reader's password, where the address names no file."""

READING = "psephos-reading"
"""Prefix of the subjects of JetStream's interface in the account of readers."""

_LONGEST_PASSWORD = 1_000
_PART = 1_000_000
"""Length of a part in bytes. A server accepts messages of up to 1 MiB by default."""
_WINDOW = 32
"""Number of messages that are requested at once."""
_OPERATORS = ("description", "num_replicas", "placement", "compression", "metadata")
"""Fields of a stream that its operator may choose, because they affect neither the entries nor what is kept."""
_DUPLICATES = 3600.0
"""Seconds during which the server drops messages that it has stored already."""

# asyncio logs a spurious `eof_received` warning after nats-py's TLS upgrade; drop it.
logging.getLogger("asyncio").addFilter(lambda record: "eof_received" not in record.getMessage())

T = TypeVar("T")


def nkey(key: VerificationKey) -> str:
    """Return a role's key as NATS encodes public keys of users: base 32 of a type byte, the key, and a CRC-16."""
    data = bytes([20 << 3]) + key.raw
    return base64.b32encode(data + binascii.crc_hqx(data, 0).to_bytes(2, "little")).decode().rstrip("=")


def stream_of(session: bytes) -> str:
    return f"psephos-{session.hex()[:16]}"


def subject_of(session: bytes, name: str) -> str:
    return f"psephos.{session.hex()[:16]}.{name.replace(' ', '-')}"


def inbox(user: str) -> str:
    return f"_INBOX.{user}"


def _password(file: str | None) -> str:
    """Return the reader's password from a file, or from the environment; "" if there is none; raises BoardError."""
    if file is None:
        return os.environ.get(PASSWORD_VARIABLE, "")
    try:
        check_private(Path(file), BoardError)
        return read_text(file, _LONGEST_PASSWORD).strip()
    except OSError as error:
        raise BoardError(f"the password in {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BoardError(f"{file} is not text, so it contains no password") from None


class _Client(Client):
    """A connection that sends credentials over TLS alone if the address requires TLS, which nats-py does not ensure."""

    def __init__(self, server: str, secure: bool) -> None:
        super().__init__()
        self._server, self._secure = server, secure

    def _connect_command(self) -> bytes:
        writer = getattr(self._transport, "_io_writer", None)
        if self._secure and (writer is None or writer.get_extra_info("ssl_object") is None):
            raise BoardError(f"the server at {self._server} does not use TLS, which tls:// requires")
        return super()._connect_command()


class NatsBoard:
    """A study's board on a server, for one role or for reading only. It reconnects when necessary."""

    def __init__(
        self, url: str, session: bytes, name: str = "", key: SigningKey | None = None, *, timeout: float = 10.0
    ) -> None:
        """Connect as a role or, without a key, for reading only; `timeout`: seconds to wait for each answer.

        The URL is `tls://HOST:PORT?ca=FILE`, FILE with the trusted certificates (by default the system's), or `nats://`
        without TLS. A reader's password is in the file `reader=FILE` or in the environment (`PASSWORD_VARIABLE`).
        Raises BoardError, or InvalidParameter for a malformed URL.
        """
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        replicas = options.get("replicas", "1")
        try:
            port = 4222 if parts.port is None else parts.port
        except ValueError:
            port = 0
        if "@" in parts.netloc:
            raise InvalidParameter(
                "everybody on this machine can see a password in an address: write it into a file that only you can "
                f"read and add reader=FILE to the address, or set {PASSWORD_VARIABLE}"
            )
        valid_options = options.keys() <= {"ca", "reader", "replicas"} and replicas.isdecimal()
        if parts.scheme not in ("nats", "tls") or not parts.hostname or not port or not valid_options:
            raise InvalidParameter("the address of a board must be like tls://host:4222?ca=ca.pem")
        self._where = f"{parts.hostname}:{port}"
        self._session, self._stream, self._timeout = session, stream_of(session), timeout
        self._subject, self._key = subject_of(session, name), key
        self._secure = parts.scheme == "tls"
        self._replicas = int(replicas)
        self._address = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        self._password = "" if key is not None else _password(options.get("reader"))
        self._user = nkey(key.verification_key) if key is not None else READER if self._password else "anybody"
        self._tls_context: ssl.SSLContext | None = None
        if self._secure:
            try:
                self._tls_context = ssl.create_default_context(cafile=options.get("ca"))
            except OSError as error:
                raise BoardError(f"the certificates in {options.get('ca')} cannot be read: {error}") from None
        self._client, self._connecting = _Client(self._where, self._secure), asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._interruption: asyncio.Future[str] = self._loop.create_future()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"board at {self._where}", daemon=True)
        self._thread.start()
        try:
            self._run(self._open_stream())
        except BaseException:
            self.close()
            raise

    async def _connect(self) -> None:
        """Connect, unless there is a connection: nats-py hangs if it fails to reconnect during the TLS handshake."""
        if self._client.is_connected:
            return
        await self._disconnect()
        self._client = _Client(self._where, self._secure)
        settings: dict[str, Any] = {} if self._tls_context is None else {"tls": self._tls_context}
        if self._key is not None:
            # nats-py expects the seed and signs whatever a server sends; `_sign` signs challenges only.
            self._client._public_nkey = self._user
            settings["signature_cb"] = self._sign
        elif self._password:
            settings |= {"user": self._user, "password": self._password}
        try:
            await self._client.connect(
                self._address,
                name=self._subject,
                inbox_prefix=inbox(self._user),
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=max(1, round(self._timeout)),
                ping_interval=20,
                error_cb=self._on_error,
                closed_cb=self._on_closed,
                **settings,
            )
        except BaseException:
            await self._disconnect()
            raise

    async def _disconnect(self) -> None:
        """Close the connection, even one that is incomplete or was ended by the server."""
        if self._client.is_connected:
            await self._client.close()
        if transport := self._client._transport:
            # Aborted instead of closed: closing a TLS connection would wait for the other side.
            transport._bare_io_writer.transport.abort()  # type: ignore[attr-defined]
            await asyncio.sleep(0)  # the event loop closes the socket in its next iteration

    async def _end(self) -> None:
        """Disconnect and cancel every other task of the event loop, so that none is pending when the loop stops."""
        await self._disconnect()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _sign(self, nonce: str) -> bytes:
        """Return the answer to a server's challenge; refuse to sign anything that could have another meaning."""
        assert self._key is not None
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", nonce):
            raise BoardError(f"the server at {self._where} requested a signature of something that is not a challenge")
        return base64.urlsafe_b64encode(self._key.sign(nonce.encode())).rstrip(b"=")

    async def _on_error(self, error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            self._interrupt(f"the server at {self._where} does not allow this role to do that: {error}")

    async def _on_closed(self) -> None:
        self._interrupt(f"no answer from the board at {self._where}: the connection ended")

    def _interrupt(self, reason: str) -> None:
        if not self._interruption.done():
            self._interruption.set_result(reason)

    def _jetstream(self) -> JetStreamContext:
        return self._client.jetstream(prefix=READING if self._key is None else "$JS.API", timeout=self._timeout)

    async def _open_stream(self) -> None:
        """Create the stream if there is none and this is a role; check that the stream keeps everything for ever."""
        js = self._jetstream()
        expected = StreamConfig(
            name=self._stream,
            subjects=[f"psephos.{self._session.hex()[:16]}.>"],
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.NEW,
            storage=StorageType.FILE,
            num_replicas=self._replicas,
            max_consumers=-1,
            max_msgs=-1,
            max_bytes=-1,
            max_age=0,
            deny_delete=True,
            deny_purge=True,
            allow_direct=True,
            duplicate_window=_DUPLICATES,
        )
        try:
            actual = (await js.stream_info(self._stream)).config
        except js_errors.NotFoundError:
            if self._key is None:
                raise BoardError(
                    f"there is no board {self._stream} at {self._where} yet; the first role that joins creates it"
                ) from None
            actual = (await js.add_stream(expected)).config
        for field in fields(StreamConfig):
            value, required = getattr(actual, field.name), getattr(expected, field.name)
            if field.name not in _OPERATORS and not _means(value, required):
                raise BoardError(
                    f"the stream {self._stream} at {self._where} has {field.name} {value!r}, and must have "
                    f"{required!r}. Ask the server's operator to delete it; the next role that connects creates it anew"
                )

    def post(self, data: bytes) -> None:
        """Append an entry; the server has acknowledged it when this returns; raises MessageError or BoardError."""
        check_size(data)
        if len(data) <= _PART:
            self._run(self._publish("entry", data))
        else:
            self._run(self._post_parts(data))

    async def _post_parts(self, data: bytes) -> None:
        digest, numbers = hashlib.sha256(data).digest(), []
        for at in range(0, len(data), _PART):
            # A part belongs to one entry and has one place in it, also where it is equal to another part.
            number = await self._publish("part", data[at : at + _PART], digest + at.to_bytes(8, "big"))
            numbers.append(number.to_bytes(8, "big"))
        await self._publish("parts", digest + b"".join(numbers))

    async def _publish(self, entry_type: str, data: bytes, context: bytes = b"") -> int:
        """Publish a message, unless the server has it already, and return its number; nobody else can know its id."""
        if self._key is None:
            raise BoardError("this board was opened for reading only; posting needs the key of a role")
        message_id = hashlib.sha256(
            self._key.sign(b"psephos nats\0" + hashlib.sha256(context + data).digest())
        ).hexdigest()
        js = self._jetstream()
        headers = {"Nats-Msg-Id": message_id}
        return (await js.publish(f"{self._subject}.{entry_type}", data, stream=self._stream, headers=headers)).seq

    def read(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Yield the entries with a number above `after`, in order. Empty entries are parts of longer ones."""
        last = self._run(self._last_number(after))
        if last == after:
            return
        windows = [range(first, min(first + _WINDOW, last + 1)) for first in range(after + 1, last + 1, _WINDOW)]
        pending = self._submit(self._fetch(windows[0]))
        for index, window in enumerate(windows):
            messages = pending.result()
            if index + 1 < len(windows):
                pending = self._submit(self._fetch(windows[index + 1]))
            # Longer entries are joined one by one: a window of the longest would take 2 GB.
            for number, message in zip(window, messages, strict=True):
                if _entry_type(message) == "parts":
                    yield number, self._run(self._join_parts(message))
                else:
                    yield number, b"" if _entry_type(message) == "part" else message.data or b""

    async def _last_number(self, after: int) -> int:
        state = (await self._jetstream().stream_info(self._stream)).state
        if state.last_seq < after:
            raise BoardError(
                f"the board at {self._where} has {state.last_seq} entries, but {after} were read from it before: the "
                "server lost entries, or an old copy was restored. Ask its operator"
            )
        if state.first_seq > 1 or state.deleted or state.num_deleted:
            raise BoardError(f"the board at {self._where} has dropped entries")
        return state.last_seq

    async def _fetch(self, numbers: Sequence[int]) -> list[RawStreamMsg]:
        return await asyncio.gather(*map(self._fetch_one, numbers))

    async def _fetch_one(self, number: int) -> RawStreamMsg:
        js = self._jetstream()
        try:
            message = await js.get_msg(self._stream, number, direct=True)
        except js_errors.NotFoundError:
            # A replica may not have it yet. Treating it as deleted would show readers different logs.
            raise BoardError(f"the board at {self._where} does not have entry {number} yet; try again") from None
        if message.seq != number:
            raise BoardError(f"the board at {self._where} returned entry {message.seq} instead of entry {number}")
        return message

    async def _join_parts(self, message: RawStreamMsg) -> bytes:
        """Return a longer entry, joined from its parts; the list of parts itself if they do not form an entry.

        The result depends on the log only. A list names parts in the order of the log, and is the first list of its
        author after the first of them: no part is in two lists, and nobody makes readers fetch twice what was posted.
        """
        data, subject = message.data or b"", (message.subject or "").rpartition(".")[0]
        digest, listed = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
        numbers = [int.from_bytes(listed[at : at + 8], "big") for at in range(0, len(listed), 8)]
        in_order = all(one < next_one for one, next_one in pairwise([0, *numbers, message.seq or 0]))
        if not numbers or len(numbers) > -(-MOST_BYTES // _PART) or not in_order:
            return data
        if await self._next_list(subject, numbers[0]) != message.seq:
            return data
        parts = [await self._fetch_one(number) for number in numbers]
        whole = b"".join([part.data or b"" for part in parts])
        # A server may accept longer parts than ours, so the total is limited as for any entry.
        valid = len(whole) <= MOST_BYTES and all(part.subject == f"{subject}.part" for part in parts)
        return whole if valid and hashlib.sha256(whole).digest() == digest else data

    async def _next_list(self, subject: str, number: int) -> int | None:
        js = self._jetstream()
        try:
            return (await js.get_msg(self._stream, number, f"{subject}.parts", direct=True, next=True)).seq
        except js_errors.NotFoundError:
            raise BoardError(f"the board at {self._where} does not have a list of parts yet; try again") from None

    def close(self) -> None:
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # -- the thread of the connection

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._submit(work).result()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(self._supervised(work), self._loop)

    async def _supervised(self, work: Coroutine[Any, Any, T]) -> T:
        """Connect if necessary and return the result of the work; raise a BoardError if it fails or is interrupted."""
        try:
            try:
                async with self._connecting:
                    await self._connect()
            except BaseException:
                work.close()
                raise
            if self._interruption.done():
                self._interruption = self._loop.create_future()
            task = asyncio.ensure_future(work)
            either: set[asyncio.Future[Any]] = {task, self._interruption}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                raise BoardError(self._interruption.result())
            return task.result()
        except (TimeoutError, nats.errors.Error, OSError) as error:
            raise self._named_error(error) from None

    def _refusal(self) -> str:
        if self._key is not None:
            return "it does not know this role's key. Its configuration must be made from this study"
        if self._password:
            return "the reader's password is wrong. Copy the file reader.password that `psephos board init` wrote"
        return "there is no reader's password. Use the reading address that `psephos board init` printed"

    def _named_error(self, error: Exception) -> BoardError:
        if isinstance(error, ssl.SSLError):
            why = str(getattr(error, "verify_message", error)).rstrip(".")
            return BoardError(
                f"the certificate of the server at {self._where} is not trusted: {why}. Check the address, and the "
                "certificates that `ca` names"
            )
        if "authorization" in str(error).lower():
            return BoardError(f"the server at {self._where} refused the connection: {self._refusal()}")
        if isinstance(error, js_errors.NoStreamResponseError):
            return BoardError(f"the server at {self._where} has no board {self._stream}")
        if isinstance(error, js_errors.APIError):
            return BoardError(f"the server at {self._where} refused the request: {error.description or error}")
        why = "no server is listening" if isinstance(error, nats.errors.NoServersError) else str(error)
        return BoardError(f"no answer from the board at {self._where}: {why}")

    def __repr__(self) -> str:
        return f"<NatsBoard {self._stream} at {self._where}>"


def _means(value: object, required: object) -> bool:
    """Return whether a field of a stream means what is required; servers of different versions write it differently."""
    if required == -1:  # no limit; one of 0 could be a real one
        return value in (-1, None)
    return value == required or (_is_off(value) and _is_off(required))


def _is_off(value: object) -> bool:
    """Return whether a field is not in use: absent, false, zero or empty, or an object of such fields."""
    if is_dataclass(value):
        return all(_is_off(getattr(value, field.name)) for field in fields(value))
    return not value


def _entry_type(message: RawStreamMsg) -> str:
    return (message.subject or "").rpartition(".")[2]
