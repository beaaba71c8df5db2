"""A board on a NATS server (JetStream): for machines that reach one server, behind whatever firewalls.

One stream holds all entries of a study, in the order in which the server stored them. A role publishes only under
subjects of its own, as its server's configuration says (`configuration`), and signs in with its key of the study:

    psephos.STUDY.ROLE.entry    one entry
    psephos.STUDY.ROLE.part     a piece of a longer one; in the log it is an empty place
    psephos.STUDY.ROLE.parts    such an entry: its SHA-256, and the numbers of its pieces, all of which came before

An entry's number is its place in the stream, so nothing need be remembered to read on. Pieces are named by the message
that completes them, so that what was sent by half, or by somebody else, holds up nobody. The server is trusted no more
than any board (docs/protocols/board.md). No paper behind it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import re
import ssl
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import fields
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import nats.errors
from nats.aio.client import Client
from nats.js import errors as js_errors
from nats.js.api import DiscardPolicy, RawStreamMsg, RetentionPolicy, StorageType, StreamConfig

from psephos.protocol.board import MOST_BYTES, check_size
from psephos.protocol.errors import BoardError, InvalidParameter
from psephos.protocol.signing import SigningKey, VerificationKey
from psephos.protocol.wire import DIGEST_BYTES

__all__ = ["NatsBoard", "inbox", "nkey", "stream_of", "subject_of"]

_PART = 1_000_000
"""Bytes of a piece: a server takes messages of 1 MiB unless it is told otherwise."""
_WINDOW = 32
"""Messages that are asked for at once."""
_OPERATORS = ("description", "num_replicas", "placement", "compression", "metadata")
"""Fields of a stream that its operator may choose: they change no entry, and nothing that is kept."""
_DUPLICATES = 3600.0
"""Seconds for which the server drops what it has stored already."""

# nats-py upgrades a connection to TLS in a way at whose end asyncio wonders.
logging.getLogger("asyncio").addFilter(lambda record: "eof_received" not in record.getMessage())

T = TypeVar("T")


def nkey(key: VerificationKey) -> str:
    """A role's key as NATS writes public keys of users: base 32 of a type byte, the key, and a CRC-16."""
    data = bytes([20 << 3]) + key.raw
    return base64.b32encode(data + binascii.crc_hqx(data, 0).to_bytes(2, "little")).decode().rstrip("=")


def stream_of(session: bytes) -> str:
    """The name of a study's stream."""
    return f"psephos-{session.hex()[:16]}"


def subject_of(session: bytes, name: str) -> str:
    """Below which a role publishes."""
    return f"psephos.{session.hex()[:16]}.{name.replace(' ', '-')}"


def inbox(user: str) -> str:
    """Below which the server answers a user."""
    return f"_INBOX.{user}"


class _Client(Client):
    """A connection that says who it is over TLS only, where TLS was asked for.

    nats-py sends a name and a password in plain text to a server that does not announce TLS, whatever the URL says.
    """

    def __init__(self, where: str, secure: bool) -> None:
        super().__init__()
        self._where, self._secure = where, secure

    def _connect_command(self) -> bytes:
        """The first thing that is sent; raises BoardError instead of building it for a plain connection."""
        writer = getattr(self._transport, "_io_writer", None)
        if self._secure and (writer is None or writer.get_extra_info("ssl_object") is None):
            raise BoardError(f"the server at {self._where} does not speak TLS, and tls:// was asked for")
        return super()._connect_command()


class NatsBoard:
    """A study's board on a server, as one role or as somebody who only reads. Reconnects by itself."""

    def __init__(
        self, url: str, session: bytes, name: str = "", key: SigningKey | None = None, *, patience: float = 10.0
    ) -> None:
        """
        Args:
            url: `tls://HOST:PORT?ca=FILE`, where FILE has the certificates to trust (without it: the system's);
                `nats://HOST:PORT` without TLS; with `USER:PASSWORD@` for whoever only reads.
            session: the digest of the study, 32 bytes.
            name: the role; empty for whoever only reads.
            key: the role's signing key.
            patience: seconds to wait for the server, each time.

        Raises BoardError: no server there, a certificate that is not trusted, an identity that the server does not
        know, or a stream that does not keep everything. InvalidParameter for another URL.
        """
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        replicas = options.get("replicas", "1")
        try:
            port = 4222 if parts.port is None else parts.port
        except ValueError:
            port = 0
        known = options.keys() <= {"ca", "replicas"} and replicas.isdecimal()
        if parts.scheme not in ("nats", "tls") or not parts.hostname or not port or not known:
            # Not repeated here: it may hold a password.
            raise InvalidParameter("this is no address of a board; one is like tls://host:4222?ca=ca.pem")
        self._where = f"{parts.hostname}:{port}"
        self._session, self._stream, self._patience = session, stream_of(session), patience
        self._subject, self._key = subject_of(session, name), key
        self._secure = parts.scheme == "tls"
        self._replicas = int(replicas)
        self._address = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        self._user = nkey(key.verification_key) if key is not None else parts.username or "anybody"
        self._trusted: ssl.SSLContext | None = None
        if self._secure:
            try:
                self._trusted = ssl.create_default_context(cafile=options.get("ca"))
            except OSError as error:
                raise BoardError(f"the certificates {options.get('ca')} cannot be read: {error}") from None
        self._client, self._connecting = _Client(self._where, self._secure), asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        self._trouble: asyncio.Future[str] = self._loop.create_future()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"board at {self._where}", daemon=True)
        self._thread.start()
        try:
            self._do(self._open())
        except BaseException:
            self.close()
            raise

    async def _connect(self) -> None:
        """A new connection, unless there is one. (nats-py could reconnect, but hangs when that fails within TLS.)"""
        if self._client.is_connected:
            return
        await self._end()
        self._client = _Client(self._where, self._secure)
        settings: dict[str, Any] = {} if self._trusted is None else {"tls": self._trusted}
        if self._key is not None:
            # nats-py would take the seed, and sign whatever a server asks for.
            self._client._public_nkey = self._user
            settings["signature_cb"] = self._sign
        try:
            await self._client.connect(
                self._address,
                name=self._subject,
                inbox_prefix=inbox(self._user),
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=max(1, round(self._patience)),
                ping_interval=20,
                error_cb=self._note,
                closed_cb=self._hung_up,
                **settings,
            )
        except BaseException:
            await self._end()
            raise

    async def _end(self) -> None:
        """Nothing of a connection is left, though it was never whole, or the server ended it."""
        if self._client.is_connected:
            await self._client.close()
        if transport := self._client._transport:
            # Not closed: within TLS the other side would have to agree.
            transport._bare_io_writer.transport.abort()  # type: ignore[attr-defined]
            await asyncio.sleep(0)  # the loop closes the socket in its next round

    def _sign(self, nonce: str) -> bytes:
        """The answer to a server's challenge: never a signature over anything that could mean something elsewhere."""
        assert self._key is not None
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", nonce):
            raise BoardError(f"the server at {self._where} wants something signed that is no challenge")
        return base64.urlsafe_b64encode(self._key.sign(nonce.encode())).rstrip(b"=")

    async def _note(self, error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            self._tell(f"the server at {self._where} does not allow this role that: {error}")

    async def _hung_up(self) -> None:
        self._tell(f"no answer from the board at {self._where}: the connection ended")

    def _tell(self, trouble: str) -> None:
        """Something has happened to whatever is being done."""
        if not self._trouble.done():
            self._trouble.set_result(trouble)

    async def _open(self) -> None:
        """Make the stream where there is none yet and this role may; check that it keeps everything for ever."""
        js = self._client.jetstream(timeout=self._patience)
        wanted = StreamConfig(
            name=self._stream,
            subjects=[f"psephos.{self._session.hex()[:16]}.>"],
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.NEW,
            storage=StorageType.FILE,
            num_replicas=self._replicas,
            max_msgs=-1,
            max_bytes=-1,
            max_age=0,
            deny_delete=True,
            deny_purge=True,
            allow_direct=True,
            duplicate_window=_DUPLICATES,
        )
        try:
            found = (await js.stream_info(self._stream)).config
        except js_errors.NotFoundError:
            if self._key is None:
                raise BoardError(f"nobody has begun the board {self._stream} at {self._where}") from None
            found = (await js.add_stream(wanted)).config
        for field in fields(StreamConfig):
            there, agreed = getattr(found, field.name), getattr(wanted, field.name)
            if field.name not in _OPERATORS and there not in _same(field.name, agreed):
                raise BoardError(
                    f"the stream {self._stream} at {self._where} is not as agreed: {field.name} is {there!r}, and must "
                    f"be {agreed!r}. Whoever connected first made it; have the server's operator delete it"
                )

    def post(self, data: bytes) -> None:
        """Append an entry; the server has acknowledged it when this returns. Raises BoardError, MessageError."""
        check_size(data)
        if len(data) <= _PART:
            self._do(self._publish("entry", data))
        else:
            self._do(self._post_parts(data))

    async def _post_parts(self, data: bytes) -> None:
        numbers = [
            (await self._publish("part", data[at : at + _PART])).to_bytes(8, "big") for at in range(0, len(data), _PART)
        ]
        await self._publish("parts", hashlib.sha256(data).digest() + b"".join(numbers))

    async def _publish(self, what: str, data: bytes) -> int:
        """The number that it has been given. Whoever knew its name could have it dropped as something stored already;
        it is a signature, so nobody does."""
        if self._key is None:
            raise BoardError("only a role of the study posts")
        name = hashlib.sha256(self._key.sign(b"psephos nats\0" + hashlib.sha256(data).digest())).hexdigest()
        js = self._client.jetstream(timeout=self._patience)
        headers = {"Nats-Msg-Id": name}
        return (await js.publish(f"{self._subject}.{what}", data, stream=self._stream, headers=headers)).seq

    def read(self, after: int) -> Iterator[tuple[int, bytes]]:
        """Entries with a larger number, in order, as far as they are there; empty ones are parts of later ones.

        Raises BoardError when the server does not answer, has dropped something, or has fewer entries than `after`.
        """
        last = self._do(self._last(after))
        if last == after:
            return
        windows = [range(first, min(first + _WINDOW, last + 1)) for first in range(after + 1, last + 1, _WINDOW)]
        coming = self._begin(self._get(windows[0]))
        for place, window in enumerate(windows):
            messages = coming.result()
            if place + 1 < len(windows):
                coming = self._begin(self._get(windows[place + 1]))
            # Long ones one by one: of a member's longest, a window would hold 2 GB.
            for number, message in zip(window, messages, strict=True):
                if _what(message) == "parts":
                    yield number, self._do(self._whole(message))
                else:
                    yield number, b"" if _what(message) == "part" else message.data or b""

    async def _last(self, after: int) -> int:
        state = (await self._client.jetstream(timeout=self._patience).stream_info(self._stream)).state
        if state.last_seq < after:
            raise BoardError(
                f"the board at {self._where} has {state.last_seq} entries, and {after} were read from it: it was set "
                "back, or lost what it had acknowledged"
            )
        if state.first_seq > 1 or state.deleted or state.num_deleted:
            raise BoardError(f"the board at {self._where} has dropped entries")
        return state.last_seq

    async def _get(self, numbers: Sequence[int]) -> list[RawStreamMsg]:
        return await asyncio.gather(*map(self._message, numbers))

    async def _message(self, number: int) -> RawStreamMsg:
        js = self._client.jetstream(timeout=self._patience)
        try:
            message = await js.get_msg(self._stream, number, direct=True)
        except js_errors.NotFoundError:
            # Not yet, at a replica; never because it is gone, or all would not read the same.
            raise BoardError(f"the board at {self._where} does not have entry {number} at hand") from None
        if message.seq != number:
            raise BoardError(f"the board at {self._where} was asked for entry {number} and gave {message.seq}")
        return message

    async def _whole(self, message: RawStreamMsg) -> bytes:
        """An entry of several pieces, or its listing where these are none: the same whoever looks, whenever."""
        data, subject = message.data or b"", (message.subject or "").rpartition(".")[0]
        digest, listed = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
        numbers = [int.from_bytes(listed[at : at + 8], "big") for at in range(0, len(listed), 8)]
        if len(numbers) > -(-MOST_BYTES // _PART) or not all(0 < number < (message.seq or 0) for number in numbers):
            return data
        parts = [await self._message(number) for number in numbers]
        whole = b"".join([part.data or b"" for part in parts])
        # A server may take longer pieces than ours: what no board takes as one entry is none here.
        sound = len(whole) <= MOST_BYTES and all(part.subject == f"{subject}.part" for part in parts)
        return whole if sound and hashlib.sha256(whole).digest() == digest else data

    def close(self) -> None:
        """Hang up."""
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # -- from the thread of whoever calls into that of the connection, and back

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._begin(work).result()

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(self._watched(work), self._loop)

    async def _watched(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of it, or a named error. That something is not allowed comes as a message of its own."""
        try:
            try:
                async with self._connecting:
                    await self._connect()
            except BaseException:
                work.close()
                raise
            if self._trouble.done():
                self._trouble = self._loop.create_future()
            task = asyncio.ensure_future(work)
            either: set[asyncio.Future[Any]] = {task, self._trouble}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                raise BoardError(self._trouble.result())
            return task.result()
        except (TimeoutError, nats.errors.Error, OSError) as error:
            raise self._named(error) from None

    def _named(self, error: Exception) -> BoardError:
        if isinstance(error, ssl.SSLError):
            why = str(getattr(error, "verify_message", error)).rstrip(".")
            return BoardError(
                f"the server at {self._where} shows a certificate that is not trusted here: {why}. It is another "
                "server, or `ca` names other certificates"
            )
        if "authorization" in str(error).lower():
            return BoardError(f"the server at {self._where} does not know this identity")
        if isinstance(error, js_errors.NoStreamResponseError):
            return BoardError(f"the server at {self._where} keeps no board {self._stream}")
        if isinstance(error, js_errors.APIError):
            return BoardError(f"the server at {self._where} refuses: {error.description or error}")
        why = "nobody listens there" if isinstance(error, nats.errors.NoServersError) else str(error)
        return BoardError(f"no answer from the board at {self._where}: {why}")

    def __repr__(self) -> str:
        return f"<NatsBoard {self._stream} at {self._where}>"


def _same(name: str, agreed: object) -> tuple[object, ...]:
    """What a server may say of a field that is as agreed; what was left to it, it may leave out or say that it is off.

    -1 is no limit. Zero stands for off only in numbers that limit nothing when they are absent.
    """
    if name in ("max_consumers", "max_msgs_per_subject", "max_msg_size"):
        return (agreed, None, -1)
    return (None, False, 0, {}, []) if agreed is None or agreed is False else (agreed,)


def _what(message: RawStreamMsg) -> str:
    """The last word of its subject."""
    return (message.subject or "").rpartition(".")[2]
