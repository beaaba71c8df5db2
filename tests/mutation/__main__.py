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
    kept = _FOLDER / "changes" / f"{sha256((path + source + made).encode()).hexdigest()[:16]}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps([asdict(change) for change in changes(path, source)]))
    return [Change(**fields) for fields in json.loads(kept.read_text())]


def _population(workers: int) -> list[Change]:
    with ProcessPoolExecutor(workers) as pool:
        return [change for found in pool.map(_changes, _sources(), chunksize=4) for change in found]


def _kept(file: Path) -> dict[str, dict[str, Any]]:
    lines = file.read_text().splitlines() if file.exists() else ()
    return {found["name"]: found for found in map(json.loads, lines)}


def run(sample: int | None, seed: int, only: str, workers: int, again: bool) -> None:
    """Try all mutants, or a sample; those whose verdict is kept, for the same text of the file, are not tried again."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    kept_in = _FOLDER / "verdicts.jsonl"
    kept = _kept(kept_in)
    population = [change for change in _population(workers) if fnmatch(change.path, only)]
    order = {change: sha256(f"{seed} {change.name}".encode()).digest() for change in population}
    chosen = population if sample is None else sorted(population, key=order.__getitem__)[:sample]
    said = "all" if sample is None else f"a sample of {sample}, seed {seed}"
    survived = {name for name, found in kept.items() if _survived(found)} if again else set[str]()
    todo = [change for change in chosen if change.name in survived or change.name not in kept]
    print(
        f"{len(population)} mutants of {len(_sources())} modules; {said}; {len(chosen) - len(todo)} known", flush=True
    )
    recorded = record_missing(files_about({change.path for change in todo}, _ROOT), _ROOT, workers)
    print(f"{recorded} files of tests were recorded; all others had been", flush=True)
    with kept_in.open("a") as file:
        for found in try_all(todo, _ROOT, _FOLDER, workers, survived):
            kept[found["name"]] = found
            file.write(json.dumps(found) + "\n")
            file.flush()
            if _survived(found):
                print(f"survived: {_words(found)}", flush=True)
        copy = Copy(_ROOT, _FOLDER / "copy-last", Selection(_ROOT).files())
        for change in (change for change in chosen if _survived(kept[change.name])):
            if not copy.types(change):
                kept[change.name] |= {"verdict": "types"}
                file.write(json.dumps(kept[change.name]) + "\n")
                print(f"killed by types: {_words(kept[change.name])}", flush=True)
        failing = _fail_by_themselves(copy, {kept[change.name]["test"] for change in chosen} - {""})
        copy.close()
    verdicts = [kept[change.name] for change in chosen]
    counts = Counter(found["verdict"] for found in verdicts)
    killed = len(verdicts) - counts["survived"]
    print(f"{killed} of {len(verdicts)} killed ({100 * killed / len(verdicts):.1f} %): {dict(counts)}; {said}")
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


def _survived(found: dict[str, Any]) -> bool:
    return bool(found["verdict"] == "survived")


def _words(found: dict[str, Any]) -> str:
    place = f"{found['path']}:{found['line']} {found['function']}"
    return f"{place}: {found['old']!r} became {found['new']!r} ({found['tests']} tests)"


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
