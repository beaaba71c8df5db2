"""Run the section "A server" of docs/study-operations.md on four machines: network namespaces of this one.

    python -m tests.docs.three_machines [--key-bits 2048]

One has the server and the laboratory, the others a hospital each, with files of their own; nothing reaches a hospital,
and nothing in one listens. The page's commands are run as printed, with other names. Needs Linux, root (`ip netns`),
nats-server, and nothing else that uses 10.77.0.0/24. What comes of it is printed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/study-operations.md").read_text(encoding="utf-8")
HOSPITALS = {"north": "tree", "south": "knn", "east": "logistic"}
BRIDGE, NAMES = "psephos0", ("lab", *HOSPITALS)


def typed(beginning: str) -> str:
    """The command of the page that begins so, whole."""
    page = PAGE.replace(" \\\n    ", " ")
    commands: list[str] = re.findall(rf"^\$ ({re.escape(beginning)}.*)$", page, re.M)
    assert commands, beginning
    return commands[0]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def machines(folder: Path) -> Iterator[None]:
    """One namespace each, on one bridge; `board.example.org` is the laboratory's, as all of them know."""
    made: list[tuple[str, ...]] = []
    try:
        ip("link", "add", BRIDGE, "type", "bridge")
        made.append(("link", "delete", BRIDGE))
        ip("link", "set", BRIDGE, "up")
        for number, name in enumerate(NAMES, 1):
            space = f"psephos-{name}"
            ip("netns", "add", space)
            made.append(("netns", "delete", space))
            ip("link", "add", f"ps-{name}", "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", f"ps-{name}", "master", BRIDGE, "up")
            ip("-n", space, "address", "add", f"10.77.0.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", space, "link", "set", device, "up")
            hosts = Path("/etc/netns") / space / "hosts"
            hosts.parent.mkdir(parents=True)
            hosts.write_text("127.0.0.1 localhost\n10.77.0.1 board.example.org\n")
            (folder / name).mkdir()
        yield
    finally:
        for words in reversed(made):
            ip(*words)
        for name in NAMES:
            shutil.rmtree(Path("/etc/netns") / f"psephos-{name}", ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key-bits", type=int, default=2048)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="psephos-machines-"))
    (folder / "psephos").write_text(f'#!/bin/sh\nexec {sys.executable} -m psephos "$@"\n')
    (folder / "psephos").chmod(0o755)

    def at(name: str, command: str, **more: object) -> subprocess.Popen[str]:
        inside = f"PATH={folder}:/usr/sbin:$PATH OMP_NUM_THREADS=1 PYTHONPATH={ROOT}; export PATH PYTHONPATH; {command}"
        words = ["ip", "netns", "exec", f"psephos-{name}", "/bin/sh", "-c", inside]
        return subprocess.Popen(words, cwd=folder / name, text=True, **more)  # type: ignore[call-overload,no-any-return]

    def say(name: str, command: str) -> str:
        done = at(name, command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        output: str = done.communicate()[0]
        assert done.returncode == 0, (name, command)
        return output

    def send(what: str, sender: str, *receivers: str) -> None:
        """By mail, say."""
        for name in receivers:
            shutil.copy(folder / sender / what, folder / name / Path(what).name)

    running: list[subprocess.Popen[str]] = []
    began = time.monotonic()
    with machines(folder):
        try:
            table = (ROOT / "docs/examples/patients.csv").read_text().splitlines()
            rows = [line.split(",") for line in table[1:]]
            for number, name in enumerate(HOSPITALS):
                own = [",".join(row[1:]) for row in rows if int(row[0]) % 3 == number and int(row[0]) < 10]
                lines = [",".join(table[0].split(",")[1:]), *own]
                (folder / name / f"{name}.csv").write_text("\n".join(lines) + "\n")
            public = [",".join(row[1:3]) for row in rows if int(row[0]) >= 10]
            (folder / "lab/public.csv").write_text("\n".join([",".join(table[0].split(",")[1:3]), *public]) + "\n")
            for name in NAMES:
                say(name, f'psephos study identity "The {name}" --output {name} --budget 10')
                shutil.copy(folder / name / name / "card.toml", folder / "lab" / f"{name}.toml")
            cards = " ".join(f"{name}.toml" for name in HOSPITALS)
            say(
                "lab",
                f"psephos study new study.toml {cards} --curator lab.toml --public public.csv --label outcome "
                f"--classes well,ill --epsilon 5 --key-bits {chosen.key_bits} --trial",
            )
            reading = say("lab", typed("psephos board init")).strip()
            running.append(at("lab", f"exec {typed('nats-server')} 2> nats.log"))
            time.sleep(2)
            shutil.copy(folder / "lab/server/ca.pem", folder / "lab/ca.pem")
            for what in ("study.toml", "public.csv", "ca.pem"):
                send(what, "lab", *HOSPITALS)
            for name in NAMES:
                join = typed("psephos join").replace("north", name) + " --yes"
                join = join.replace("--data lab.csv", "") if name == "lab" else f"{join} --learner {HOSPITALS[name]}"
                say(name, join)
            agents = [at(name, f"exec {typed('psephos agent')} 2> log".replace("north", name)) for name in NAMES]
            running += agents
            time.sleep(5)
            for name in HOSPITALS:
                assert not say(name, "ss -Htuln").strip(), f"something listens in the {name}"
            for agent in agents:
                assert agent.wait() == 0
            shutil.copy(folder / "lab/server/reader.password", folder / "south/reader.password")
            (folder / "south/reading-address").write_text(reading.replace("server/", ""))
            print(say("south", typed("psephos status")))
            print(say("south", 'psephos verify study.toml --public public.csv --board "$(cat reading-address)"'))
            models = {path.read_bytes() for path in folder.glob("*/*/*/released/model.json")}
            assert len(models) == 1
            assert len(list(folder.glob("*/*/*/released/card.md"))) == len(NAMES)
        finally:
            for process in running:
                process.kill()
                process.wait()
    shutil.rmtree(folder)
    print(f"{len(NAMES)} machines, one model, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
