"""Costs of a board: ballots stored, read and checked over a local NATS server, beside the cryptography alone.

    python -m benchmarks.board HAR KDD-99:2000

The command prints the contents of benchmarks/results/board.json; 2000 is a number of parties.

Eight processes post the ballots of a whole round over TLS. Meanwhile the curator, a process with its store on disk,
reads, checks and multiplies them. Then a key holder that joins late does the same from the beginning. All ballots have
the same ciphertexts, but each has a proof and two signatures of its own party, so that checking them costs as much as
if their ciphertexts differed. A dealer makes the key.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from psephos.curator.tally import Tally
from psephos.parties.holder import KeyHolder
from psephos.protocol.agent import Agent
from psephos.protocol.board import Board
from psephos.protocol.board.address import open_board
from psephos.protocol.board.client import BoardMembers
from psephos.protocol.board.entries import SignedEntry
from psephos.protocol.board.history import Head
from psephos.protocol.board.server import start_server, write_server
from psephos.protocol.encrypted_sum.messages import Ballot
from psephos.protocol.encrypted_sum.product import BallotProduct
from psephos.protocol.encrypted_sum.proofs import _statement
from psephos.protocol.encrypted_sum.rounds import Round
from psephos.protocol.encrypted_sum.votes import VoteLayout, vote_round
from psephos.protocol.paillier.encryption import Encryptor
from psephos.protocol.paillier.vectors import EncryptedVector
from psephos.protocol.proofs import knowledge
from psephos.protocol.roles import BOARD
from psephos.protocol.signing import SigningKey
from psephos.protocol.storage.store import Store
from psephos.simulation.key_setup import KeySetup, setup_keys

__all__ = ["load"]

SIZES = {"HAR": (1352, 6, 1000), "KDD-99": (43_000, 2, 20_000)}
"""Number of auxiliary samples, of classes and of parties of each size."""

_POSTING, _BATCH = 8, 256
"""Number of processes that post ballots; number of ballots that are checked together without a board."""

_fork = multiprocessing.get_context("fork")


def _ballots(round_: Round, ceremony: KeySetup, samples: int, classes: int) -> Iterator[bytes]:
    """Yield the encoded ballot of each party. All have the same ciphertexts, each with its party's proof."""
    votes = VoteLayout(samples, classes).encode(np.random.default_rng(0).integers(0, classes, samples))
    ciphertexts, witness = Encryptor(round_.key, "half").encrypt_with_witness(round_.plan.pack(votes))
    vector = EncryptedVector(round_.key, round_.plan, ciphertexts)
    for party, key in enumerate(ceremony.signing_keys):
        proof = knowledge.prove(_statement(round_, party), round_.key, ciphertexts, witness, "half").encode(round_.key)
        yield Ballot.sign(round_, party, vector, key, proof).encode()


def _measure(work: Callable[[], Any]) -> dict[str, float]:
    """Run `work` in a process of its own; return its seconds, CPU seconds, and peak memory in megabytes.

    The CPU time and memory of processes that `work` starts are not included.

    Raises:
        EOFError: the process failed.
    """
    here, there = _fork.Pipe()

    def run() -> None:
        """Do the work, send its costs through the pipe and end the process."""
        began, cpu = time.perf_counter(), time.process_time()
        work()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        there.send((time.perf_counter() - began, time.process_time() - cpu, peak))
        os._exit(0)

    process = _fork.Process(target=run)
    process.start()
    there.close()
    seconds, cpu, peak = here.recv()
    process.join()
    return {"seconds": seconds, "cpu_seconds": cpu, "peak_memory_mb": peak}


def _reader(role: Tally | KeyHolder, members: BoardMembers, key: SigningKey, board: Board, place: Path) -> None:
    """Let a role, with its store in `place`, read the board until it has counted the ballots of all parties."""
    with Store(place / "store") as store:
        agent = Agent(role, members, key, board, store)
        while len(role.product(agent.state.state)) < len(role.round.roster):
            if not agent.step():
                time.sleep(0.02)
        assert not agent.rejected, agent.rejected[0]


def load(name: str, *, parties: int = 0, key_bits: int = 3072) -> dict[str, Any]:
    """Measure a board with the ballots of one round.

    Args:
        name: a key of `SIZES`.
        parties: number of parties; 0 takes that of `SIZES`.
        key_bits: length of the Paillier modulus; a key under 2048 bits is a test key.

    Returns:
        The sizes, the server's peak memory and disk use in MB, and for each phase the seconds, the CPU seconds and the
        peak memory (MB) of the process that reads, and ballots per second.
    """
    samples, classes, usual = SIZES[name]
    count = parties or usual
    ceremony = setup_keys(count, key_bits=key_bits, test_key=key_bits < 2048)
    auxiliary = np.linspace(0, 1, samples)[:, None]
    round_ = vote_round(ceremony.threshold_key, ceremony.roster, auxiliary, classes, test_key=key_bits < 2048)
    keys = {f"party {n}": key for n, key in enumerate(ceremony.signing_keys)}
    keys |= {f"holder {n + 1}": ceremony.signing_keys[n] for n in range(5)} | {"curator": SigningKey.generate()}
    members = BoardMembers(secrets.token_bytes(32), {who: key.verification_key for who, key in keys.items()})
    folder = Path(tempfile.mkdtemp(prefix="psephos-board-"))
    ballot_bytes = []
    for number, ballot in enumerate(_ballots(round_, ceremony, samples, classes)):
        author = f"party {number}"
        entry = SignedEntry(members.session, author, BOARD, 0, Head(), "votes", False, ballot)
        (folder / f"{number}").write_bytes(entry.signed(keys[author]).encode())
        ballot_bytes.append(len(ballot))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    write_server(folder / "server", members, ["127.0.0.1"], port)
    server = start_server(folder / "server")

    def board(who: str) -> Board:
        """Connect a member to the board."""
        return open_board(f"tls://127.0.0.1:{port}?ca={folder / 'server' / 'ca.pem'}", members.session, who, keys[who])

    def post(first: int) -> None:
        """Post every eighth ballot from number `first` on, as party `first`, and end the process."""
        own = board(f"party {first}")
        for number in range(first, count, _POSTING):
            own.post((folder / f"{number}").read_bytes())
        os._exit(0)

    def curate() -> None:
        """Read and count all ballots as the curator, while other processes post them."""
        processes = [_fork.Process(target=post, args=(first,)) for first in range(_POSTING)]
        for process in processes:
            process.start()
        _reader(Tally(round_), members, keys["curator"], board("curator"), folder / "curator")

    def hold() -> None:
        """Read and count all ballots as the first key holder."""
        _reader(KeyHolder(ceremony.shares[0], round_), members, keys["holder 1"], board("holder 1"), folder / "holder")

    def store() -> None:
        """Post all ballots, which nobody reads."""
        processes = [_fork.Process(target=post, args=(first,)) for first in range(_POSTING)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()

    def bare() -> None:
        """Check and multiply all ballots from files, without a board."""
        product = BallotProduct(round_)
        for first in range(0, count, _BATCH):
            some = [(folder / f"{n}").read_bytes() for n in range(first, min(first + _BATCH, count))]
            product, rejected = product.add_all(SignedEntry.decode(data).body for data in some)
            assert not rejected
        assert len(product) == count

    try:
        board("curator").close()  # creates the stream
        phases = {"stored while read by the curator": _measure(curate), "read by a late holder": _measure(hold)}
        status = Path(f"/proc/{server.pid}/status").read_text()
        peak = next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
        stored_bytes = sum(
            path.stat().st_size for path in (folder / "server" / "jetstream").rglob("*") if path.is_file()
        )
        server.kill()
        server.wait()
        shutil.rmtree(folder / "server" / "jetstream")
        server = start_server(folder / "server")
        board("curator").close()
        phases |= {"stored alone": _measure(store), "checked and multiplied alone": _measure(bare)}
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)
    for each in phases.values():
        each |= {"ballots_per_second": count / each["seconds"], "ballots_per_cpu_second": count / each["cpu_seconds"]}
    return {
        "samples": samples,
        "classes": classes,
        "parties": count,
        "key_bits": key_bits,
        "proofs": round_.proofs,
        "bytes_per_ballot": ballot_bytes[0],
        "server": {"peak_memory_mb": round(peak, 1), "disk_mb": round(stored_bytes / 1e6, 1)},
        "load_average": os.getloadavg()[0],
        **{what: {k: round(v, 2) for k, v in each.items()} for what, each in phases.items()},
    }


def _named_size(word: str) -> str:
    """Return the word if it is a name of a size, alone or followed by a colon and a number of parties.

    Raises:
        ArgumentTypeError: it is not.
    """
    name, colon, parties = word.partition(":")
    if name not in SIZES or (colon and not (parties.isdecimal() and int(parties) > 0)):
        raise argparse.ArgumentTypeError(
            f"a size is {' or '.join(SIZES)}, or one with a number of parties, as in HAR:50"
        )
    return word


def main() -> None:
    """Print the costs of each size as JSON."""
    parser = argparse.ArgumentParser(description="What a board on a NATS server costs.")
    parser.add_argument(
        "sizes",
        nargs="*",
        type=_named_size,
        default=list(SIZES),
        metavar="SIZE",
        help="HAR, KDD-99, or one with a number of parties, as in HAR:50; both unless given",
    )
    costs = {}
    for size in parser.parse_args().sizes:
        name, _, parties = size.partition(":")
        costs[size] = load(name, parties=int(parties or 0))
    print(json.dumps(costs, indent=1))


if __name__ == "__main__":
    main()
