"""Change the code at random, and see whether the tests notice: `python -m tests.mutation run`, or `make mutants`."""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from fnmatch import fnmatch
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.mutation import changes as changes_module
from tests.mutation.changes import Change, changes
from tests.mutation.selection import Selection, files_about, record_missing, test_files
from tests.mutation.workers import Copy, try_all

_ROOT = Path.cwd()
_FOLDER = _ROOT / "build" / "mutants"
_CONFIGURATION = Path(__file__).with_name("mutation.toml")


def _sources() -> list[str]:
    """The files that are mutated, as mutation.toml lists them."""
    content = tomllib.loads(_CONFIGURATION.read_text())
    named = {str(path.relative_to(_ROOT)) for pattern in content["mutated"] for path in _ROOT.glob(pattern)}
    return sorted(named - set(content["left_out"]))


def _changes(path: str) -> list[Change]:
    """Of a file, made once for each text of it: all of them take a minute."""
    source = (_ROOT / path).read_text()
    made = Path(changes_module.__file__).read_text()
    file = _FOLDER / "changes" / f"{sha256((path + source + made).encode()).hexdigest()[:16]}.json"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps([asdict(change) for change in changes(path, source)]))
    return [Change(**fields) for fields in json.loads(file.read_text())]


def _population(workers: int) -> list[Change]:
    with ProcessPoolExecutor(workers) as pool:
        return [change for changes_ in pool.map(_changes, _sources(), chunksize=4) for change in changes_]


def _kept(file: Path) -> dict[str, dict[str, Any]]:
    lines = file.read_text().splitlines() if file.exists() else ()
    return {verdict["name"]: verdict for verdict in map(json.loads, lines)}


def run(sample: int | None, seed: int, only: str, workers: int, again: bool) -> None:
    """Try all mutants, or a sample; those whose verdict is kept, for the same text of the file, are not tried again."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    kept_in = _FOLDER / "verdicts.jsonl"
    known = _kept(kept_in)
    population = [change for change in _population(workers) if fnmatch(change.path, only)]
    order = {change: sha256(f"{seed} {change.name}".encode()).digest() for change in population}
    chosen = population if sample is None else sorted(population, key=order.__getitem__)[:sample]
    scope = "all" if sample is None else f"a sample of {sample}, seed {seed}"
    survived = {name for name, verdict in known.items() if _survived(verdict)} if again else set[str]()
    todo = [change for change in chosen if change.name in survived or change.name not in known]
    print(
        f"{len(population)} mutants of {len(_sources())} modules; {scope}; {len(chosen) - len(todo)} known", flush=True
    )
    recorded = record_missing(files_about({change.path for change in todo}, _ROOT), _ROOT, workers)
    print(f"{recorded} files of tests were recorded; all others had been", flush=True)
    with kept_in.open("a") as file:
        for verdict in try_all(todo, _ROOT, _FOLDER, workers, survived):
            known[verdict["name"]] = verdict
            file.write(json.dumps(verdict) + "\n")
            file.flush()
            if _survived(verdict):
                print(f"survived: {_words(verdict)}", flush=True)
        copy = Copy(_ROOT, _FOLDER / "copy-last", Selection(_ROOT).files())
        for change in (change for change in chosen if _survived(known[change.name])):
            if not copy.types(change):
                known[change.name] |= {"verdict": "types"}
                file.write(json.dumps(known[change.name]) + "\n")
                print(f"killed by types: {_words(known[change.name])}", flush=True)
        failing = _fail_by_themselves(copy, {known[change.name]["test"] for change in chosen} - {""})
        copy.close()
    verdicts = [known[change.name] for change in chosen]
    counts = Counter(verdict["verdict"] for verdict in verdicts)
    killed = len(verdicts) - counts["survived"]
    print(f"{killed} of {len(verdicts)} killed ({100 * killed / len(verdicts):.1f} %): {dict(counts)}; {scope}")
    for test in failing:
        print(f"{test} fails without any mutant, so that what it killed says nothing")


def _fail_by_themselves(copy: Copy, tests: Iterable[str]) -> list[str]:
    left, failing = dict.fromkeys(sorted(tests), 60.0), []
    while left:
        status, failed, _ = copy.fork(left) or (0, "", 0.0)
        if not status:
            break
        failing.append(failed)
        left.pop(failed, None)
    return failing


def _survived(verdict: dict[str, Any]) -> bool:
    return bool(verdict["verdict"] == "survived")


def _words(verdict: dict[str, Any]) -> str:
    place = f"{verdict['path']}:{verdict['line']} {verdict['function']}"
    return f"{place}: {verdict['old']!r} became {verdict['new']!r} ({verdict['tests']} tests)"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    trying = commands.add_parser("run", help="try all mutants, or a sample; stopped, it goes on where it was")
    trying.add_argument("--sample", type=int, help="how many, at random; all by default")
    trying.add_argument(
        "--seed", type=int, default=int.from_bytes(os.urandom(4)), help="of the sample; a fresh one by default"
    )
    trying.add_argument("--only", default="*", metavar="PATTERN", help="mutants of these modules, parties/* say")
    trying.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many at a time")
    trying.add_argument("--again", action="store_true", help="try what survived before once more")
    mapping = commands.add_parser(
        "record", help="record which test runs what, for all tests, as `run` does for its own"
    )
    mapping.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="how many processes")
    arguments = parser.parse_args()
    if arguments.command == "record":
        record_missing(test_files(_ROOT), _ROOT, arguments.workers)
    else:
        run(arguments.sample, arguments.seed, arguments.only, arguments.workers, arguments.again)


if __name__ == "__main__":
    main()
