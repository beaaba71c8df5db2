"""`psephos` as a command on the path whose processes are forked from one that has imported everything.

A process of its own for every command, as when it is typed, without the two seconds in which each would import
scikit-learn. What starting it means is tested in tests/psephos/cli.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as there:
    there.connect({address!r})
    told = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(there, [len(told).to_bytes(4, "big")], [0, 1, 2])
    there.sendall(told)
    sys.exit((there.recv(1) or b"\\1")[0])  # a process that was killed says nothing
"""


@contextlib.contextmanager
def forked_psephos(folder: Path) -> Iterator[Path]:
    """The command, in `folder`, while the block runs."""
    address = folder / "psephos.socket"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # what forks has one thread
    command = [sys.executable, "-m", "tests.forked", address]
    server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    client = folder / "psephos"
    client.write_text(_CLIENT.format(python=sys.executable, address=str(address)))
    client.chmod(0o755)
    try:
        yield client
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def _serve(address: str) -> None:
    commands = [f"psephos.cli.{name}" for name in ("files", "member", "run", "study", "verify")]
    studies = [f"psephos.study.{name}" for name in ("builder", "runner", "verify")]
    for module in (*commands, *studies, "pydantic", "rich.progress", "sklearn.linear_model"):
        import_module(module)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        print("ready", flush=True)
        while True:
            there, _ = listening.accept()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if not os.fork():
                _play(there)
            there.close()


def _play(there: socket.socket) -> None:
    from psephos.cli.main import main

    size, streams, _, _ = socket.recv_fds(there, 4, 3)
    with there.makefile("rb") as request:
        words, here, environment = json.loads(request.read(int.from_bytes(size, "big")))
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115 - as at a start
    os.chdir(here)
    os.environ.clear()
    os.environ.update(environment)
    status = 1
    try:
        sys.argv = ["psephos", *words]
        main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        there.send(bytes([status]))
        os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1])
