"""The command `psephos`."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

import psephos
from protocol.encryption import RANDOMNESS_MODES
from protocol.errors import InvalidParameter, PsephosError
from psephos.datasets import NAMES
from psephos.run import RunOptions, Stage, run_tally

__all__ = ["app", "main"]

app = typer.Typer(
    name="psephos",
    help="Many parties' classifiers become one private classifier; the curator learns only what a round reveals.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_output = Console()
_notes = Console(stderr=True)

_BAD_USAGE = 2
_FAILED = 1


class _Bars(Stage):
    """Progress bars on standard error, and only where somebody looks at it."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars

    def phase(self, name: str, total: int) -> Callable[[int], object]:
        task = self._bars.add_task(name, total=total)
        return lambda done: self._bars.advance(task, done)


def _progress() -> Progress:
    columns = (
        TextColumn("{task.description:<22}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=_notes, disable=not sys.stderr.isatty())


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    libraries = ("phe", "gmpy2", "numpy", "scipy", "scikit-learn", "cryptography", "dp-accounting")
    _output.print(f"psephos {psephos.__version__}, Python {platform.python_version()}", highlight=False)
    _output.print(", ".join(f"{name} {version(name)}" for name in libraries), highlight=False)
    raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show versions and leave.")
    ] = False,
) -> None:
    pass


_DEFAULT = RunOptions()


@app.command(
    epilog="Examples:  psephos run   |   psephos run --dataset digits --parties 50 --learner logistic,tree,knn   |   "
    "psephos run --dataset har --parties 1000 --data-dir DIR --workers 2 --json"
)
def run(
    dataset: Annotated[str, typer.Option(help=f"One of {', '.join(NAMES)}.")] = _DEFAULT.dataset,
    parties: Annotated[int, typer.Option(help="Data owners, M.")] = _DEFAULT.parties,
    samples_per_party: Annotated[
        int | None, typer.Option(help="Samples of each party.", show_default="90 % of the training data, dealt evenly")
    ] = None,
    auxiliary: Annotated[int | None, typer.Option(help="Auxiliary samples.", show_default="the rest")] = None,
    scaling: Annotated[
        str | None,
        typer.Option(
            help="max-norm (divide by the largest auxiliary norm, as Hamm does) or unit-rows.",
            show_default="unit-rows; the papers' with --lam",
        ),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Party-level privacy of each release.")] = _DEFAULT.epsilon,
    delta: Annotated[float, typer.Option(help="For gaussian noise.")] = _DEFAULT.delta,
    lam: Annotated[
        float | None,
        typer.Option(help="Ridge lambda everywhere, as in the papers.", show_default="each method's public rule"),
    ] = None,
    reveal: Annotated[
        str,
        typer.Option(help="What the curator is given: alpha (the counts), or statistic (private before it sees it)."),
    ] = _DEFAULT.reveal,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="spherical-laplace, discrete-laplace or gaussian (Skellam with --reveal statistic).",
            show_default="spherical-laplace; discrete-laplace with --reveal statistic",
        ),
    ] = None,
    colluders: Annotated[int, typer.Option(help="Parties whose noise shares may be known (joint noise).")] = 0,
    dropouts: Annotated[int, typer.Option(help="Parties that may stay away (joint noise).")] = 0,
    loss: Annotated[str, typer.Option(help="logistic (softmax for several classes) or huber.")] = _DEFAULT.loss,
    learner: Annotated[
        str, typer.Option(help="Local classifiers, by name, dealt to the parties in turn: NAME[,NAME...].")
    ] = "logistic",
    key_bits: Annotated[int, typer.Option(help="Length of the Paillier modulus.")] = _DEFAULT.key_bits,
    test_key: Annotated[bool, typer.Option(help="Accept a key under 2048 bits: protects nothing.")] = False,
    holders: Annotated[int, typer.Option(help="Key holders, the first n parties.")] = _DEFAULT.holders,
    threshold: Annotated[int, typer.Option(help="How many holders open a sum.")] = _DEFAULT.threshold,
    min_ballots: Annotated[
        int | None, typer.Option(help="Holders open no sum of fewer ballots.", show_default="half of the parties")
    ] = None,
    randomness: Annotated[str, typer.Option(help=f"One of {', '.join(RANDOMNESS_MODES)}.")] = "half",
    workers: Annotated[int | None, typer.Option(help="Processes.", show_default="up to 2")] = None,
    bound: Annotated[
        str, typer.Option(help="Sensitivity: certified, or paper (the papers' own constants, for comparison).")
    ] = "certified",
    protect_auxiliary: Annotated[
        bool, typer.Option("--protect-auxiliary", help="One auxiliary sample is private too (Hamm 4.5).")
    ] = False,
    draws: Annotated[int, typer.Option(help="Average the private accuracies over so many noise draws.")] = 1,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where the data files lie.", show_default="$PSEPHOS_DATA, or the user's cache")
    ] = None,
    seed: Annotated[int, typer.Option(help="Drives splits and training; never keys or encryption.")] = 0,
    simulate_noise: Annotated[
        bool, typer.Option("--simulate-noise", help="Draw the noise from the seed: repeatable, not private.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """The main job: train locally, aggregate under encryption, release privately, compare."""
    given: dict[str, Any] = {
        "dataset": dataset,
        "parties": parties,
        "samples_per_party": samples_per_party,
        "auxiliary": auxiliary,
        "scaling": scaling,
        "epsilon": epsilon,
        "delta": delta,
        "lam": lam,
        "reveal": reveal,
        "mechanism": mechanism,
        "colluders": colluders,
        "dropouts": dropouts,
        "loss": loss,
        "learners": tuple(name.strip() for name in learner.split(",") if name.strip()),
        "key_bits": key_bits,
        "test_key": test_key,
        "holders": holders,
        "threshold": threshold,
        "min_ballots": min_ballots,
        "randomness": randomness,
        "bound": bound,
        "protect_auxiliary": protect_auxiliary,
        "draws": draws,
        "data_dir": None if data_dir is None else str(data_dir),
        "seed": seed,
        "simulate_noise": simulate_noise,
    }
    if workers is not None:
        given["workers"] = workers
    with _progress() as bars:
        result = run_tally(RunOptions(**given), stage=_Bars(bars))
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        _show_run(result)


_METHODS = {
    "statistic": "noisy linear sum",
    "avg": "clipped averaging",
    "pate": "noisy majorities",
    "soft": "Algorithm 2",
    "vote": "Algorithm 1",
}


def _show_run(result: dict[str, Any]) -> None:
    accuracy = result["accuracy"]
    title = (
        f"{result['dataset']}: {result['parties']} parties, {result['auxiliary']} auxiliary samples, "
        f"{result['classes']} classes, {result['features']} features"
    )
    table = Table(
        title=title, caption=f"accuracy on {result['test']} test samples, epsilon = {result['epsilon']:g} per party"
    )
    for heading in ("algorithm", "not private", "private", "sensitivity"):
        table.add_column(heading, justify="left" if heading == "algorithm" else "right")
    table.add_row("batch (all data in one place)", f"{accuracy['batch']:.3f}", "", "")
    table.add_row("ensemble (majority vote)", f"{accuracy['ensemble']:.3f}", "", "")
    for name, words in _METHODS.items():
        if name not in accuracy:
            continue
        row = accuracy[name]
        spread = f" ± {row['private_std']:.3f}" if "private_std" in row else ""
        table.add_row(
            f"{name} ({words})",
            f"{row['nonprivate']:.3f}",
            f"{row['private']:.3f}{spread}",
            f"{result['sensitivity'][name]:.3g}",
        )
    table.add_row("indiv (each party alone)", f"{accuracy['indiv']:.3f}", "", "")
    _output.print(table)
    exact = "equal the clear counts exactly" if result["tally_equals_plaintext"] else "DIFFER FROM THE CLEAR COUNTS"
    _output.print(
        f"{result['ballots']} ballots under {result['key_bits']} bits ({result['randomness']}), "
        f"{result['ciphertexts_per_ballot']} ciphertexts and {result['bytes_per_ballot']:,} bytes each; opened by "
        f"{result['threshold']} of {result['holders']} holders; the opened counts {exact}.",
        highlight=False,
    )
    seconds = ", ".join(f"{phase} {taken:.1f}" for phase, taken in result["seconds"].items())
    _output.print(f"seconds: {seconds}; peak memory {result['peak_memory_mb']:.0f} MB", highlight=False)


def main() -> None:
    """Run the command; the named errors become one line on standard error and exit status 1 or 2."""
    try:
        app(standalone_mode=True)
    except InvalidParameter as error:
        _notes.print(f"psephos: {error}", highlight=False, markup=False, soft_wrap=True)
        sys.exit(_BAD_USAGE)
    except PsephosError as error:
        _notes.print(f"psephos: {error}", highlight=False, markup=False, soft_wrap=True)
        sys.exit(_FAILED)
