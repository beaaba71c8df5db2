"""Write benchmarks/performance.md and its plots from stored results alone.

A function that is named after a section returns its paragraphs and tables in Markdown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import Any

__all__ = ["write_page"]

RESULTS = Path(__file__).parent / "results"
MAIN_JOB = RESULTS / "main-job-summary.md"


def write_page(results: dict[str, Any], folder: Path) -> Path:
    """Write the page and the figures; needs matplotlib.

    Args:
        results: the contents of benchmarks/results/latest.json.
        folder: where performance.md and performance-peers.svg are written.

    Returns:
        The path of performance.md.
    """
    folder.mkdir(parents=True, exist_ok=True)
    searches = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("ceremony-search-*.json"))]
    cluster = json.loads((RESULTS / "cluster.json").read_text())
    _draw_peers(results, folder / "performance-peers.svg")
    page = folder / "performance.md"
    page.write_text(_summary(results, cluster, searches))
    return page


def _table(headings: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown, with a newline at its end."""
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _summary(results: dict[str, Any], cluster: dict[str, Any], searches: list[dict[str, Any]]) -> str:
    """Return the text of performance.md."""
    return "\n".join(
        [
            "# Performance\n",
            "Written by `make bench`; `python -m benchmarks.run --page` writes it again without measuring. "
            "Times are of one core where nothing else is said.\n",
            _setting(results),
            MAIN_JOB.read_text(),
            *_peers(results, key_bits=3072),
            *_votes(results, key_bits=3072, modes=("full", "half", "short", "half, degree 4", "phe")),
            *_bounded(results),
            *_growth(results),
            "## At the papers' size\n",
            f"{_largest(results)}.\n",
            "## A cluster\n",
            f"{_efficiency(cluster['scaling'])} {_killed(cluster['killed'])}.\n",
            *_searches(searches),
        ]
    )


def _setting(results: dict[str, Any]) -> str:
    """Return the paragraph about the machine and the versions of the libraries."""
    libraries = ", ".join(f"{name} {number}" for name, number in results["libraries"].items())
    return (
        f"Python {results['python']} on {results['machine']}, one core, multiplications by "
        f"{results.get('kernel', 'gmpy2')}, {libraries}. Absolute times differ between machines and, on a shared one, "
        "from minute to minute. Ratios are taken between interleaved repetitions of one run.\n"
    )


def _peers(results: dict[str, Any], key_bits: int | None = None) -> list[str]:
    """Return the section on encryption, addition and decryption of one ciphertext, by library.

    With `key_bits` it has the figure and this key length only.
    """
    parts = [
        "## Other libraries\n",
        "CPU milliseconds for one ciphertext. A ciphertext of Psephos carries a whole packed vector (next table).\n",
    ]
    if key_bits:
        parts.append("![Encryption beside other libraries](performance-peers.svg)\n")
    for entry in (one for one in results["peers"] if key_bits in (None, one["key_bits"])):
        rows = [
            [name, *(f"{work[op]:.4g}" if op in work else "-" for op in ("encrypt", "add", "decrypt"))]
            for name, work in entry["milliseconds"].items()
        ]
        rows += [[name, f"not measured: {why}", "", ""] for name, why in entry["not_measured"].items()]
        parts.append(_table([f"{entry['key_bits']} bits", "encrypt", "add", "decrypt"], rows))
    parts.append(
        "pypaillier draws short exponents: compare it with `short`; its decryption was not measured, since its keys "
        "need safe primes. phe and TNO's library compute r^n, as `full` does.\n"
    )
    return parts


def _votes(results: dict[str, Any], key_bits: int | None = None, modes: Sequence[str] | None = None) -> list[str]:
    """Return the section on encryption of votes; with `key_bits` or `modes`, of these only."""
    rows = [
        [
            str(entry["key_bits"]),
            mode,
            f"{milliseconds:.3f}",
            f"{entry['times_faster_than_phe_per_ciphertext'].get(mode, 1.0):.1f}",
            f"{entry['times_faster_than_phe_per_vote'].get(mode, 1.0):,.0f}",
            f"{entry['bytes_per_vote'][mode]:.2f}" if "bytes_per_vote" in entry else "-",
        ]
        for entry in results["encryption"]
        if key_bits in (None, entry["key_bits"])
        for mode, milliseconds in entry["milliseconds_per_ciphertext"].items()
        if modes is None or mode in modes
    ]
    words = "Speed relative to phe, which sends one ciphertext for a vote unless its caller packs (M = 20,000)."
    headings = ["bits", "mode", "ms per ciphertext", "x phe", "x phe per vote", "bytes per vote"]
    return ["## Votes\n", f"{words}\n", _table(headings, rows)]


def _bounded(results: dict[str, Any]) -> list[str]:
    """Return the section on proofs that the entries of a vector are in range."""
    rows = [
        [
            size,
            *(f"{cost['ms'][what] / 1e3:.3f}" for what in ("encrypt", "prove", "verify")),
            *(f"{cost[what]:,}" for what in ("ballot_bytes", "proof_bytes", "peak_memory_mb")),
        ]
        for size, cost in results["bounded"].items()
    ]
    about = (
        "CPU seconds, `half`, 3072 bits, slots for 1,000 parties: the `valid` proofs of votes (entries of 1 bit) and "
        "of bounded vectors. The last two are the sizes in ACORN's abstract: below 80 s a client on another machine, "
        "for a tenth more bytes. The memory is the peak of a process that does all three, 100 MB of it the libraries."
    )
    headings = ["entries, bits of each", "encrypt", "prove", "verify", "bytes of the ballot", "of the proof", "MB"]
    return ["## Proofs of range\n", f"{about}\n", _table(headings, rows)]


def _growth(results: dict[str, Any]) -> list[str]:
    """Return the section on the growth of the cost with each size."""
    growth = results["growth"]
    rows = [
        [
            name,
            str(one["values"][0]),
            str(one["values"][-1]),
            f"{one['exponent']:.3f}",
            f"{one['marginal_exponent']:.3f}" if one["marginal_exponent"] is not None else "",
        ]
        for name, one in growth["series"].items()
    ]
    about = (
        f"CPU seconds of casting and counting, `{growth['randomness']}`, {growth['key_bits']} bits where not the axis, "
        "slots for 20,000 parties, tables made before. The exponent is the slope of a line through the logarithms: 1 "
        "is linear."
    )
    marginal = (
        "The marginal cost is the cost less that of ballots of a single sample "
        f"({1e3 * growth['fixed_cpu_seconds'] / 4:.1f} ms a ballot, mostly one signature and six verifications)."
    )
    headings = ["in", "from", "to", "exponent", "of the marginal cost"]
    return ["## Growth\n", f"{about} {marginal}\n", _table(headings, rows)]


def _largest(results: dict[str, Any]) -> str:
    """Return sentences about the runs at the papers' size, without the last full stop."""
    runs = results["full_size"]
    times = "; ".join(
        f"{name}: {row['taken_seconds']:,.0f} s, {row['peak_memory_mb']:,.0f} MB" for name, row in runs.items()
    )
    exact = all(row["tally_equals_plaintext"] for row in runs.values())
    return (
        "Every vote encrypted with 3072 bits, five holders of whom three open, on two cores that other programs used "
        "as well. Counting (voting, encryption, all checks of the curator and five holders, opening) took, and the "
        f"process needed at most: {times}. The counts were {'exact' if exact else 'NOT all exact'}"
    )


def _efficiency(scaling: list[dict[str, Any]]) -> str:
    """Return a sentence about the efficiency of two workers relative to one."""
    efficient = ", ".join(f"{one['efficiency']:.2f} ({one['runs'][0]['parties']:,} parties)" for one in scaling)
    return (
        "A Dask cluster on two shared cores (`--engine dask --scheduler URL`): the efficiency of two workers relative "
        f"to one is {efficient}; the machine's speed changes by a third within minutes, so more than 1 is possible."
    )


def _killed(run: dict[str, Any]) -> str:
    """Return a sentence, without its full stop, about the run whose workers were killed."""
    return (
        f"With {run['parties']:,} parties on two workers, one of which was killed and replaced "
        f"{run['workers_killed']} times, counting took {run['counting_seconds']:,.0f} s, and the counts were "
        f"{'exact' if run['counts_exact'] else 'wrong'}"
    )


def _searches(searches: list[dict[str, Any]]) -> list[str]:
    """Return the section on the cost of a key without a dealer by the number of holders."""
    rows = [
        [
            str(one["bits"]),
            str(one["holders"]),
            str(comb(one["holders"], (one["holders"] - 1) // 2)),
            f"{one['cpu_seconds_per_1000_candidates']:.2f}",
            f"{one['expected_candidates']:,}",
            f"{one['expected_cpu_seconds']:.0f}",
            f"{one['expected_cpu_seconds'] / one['holders']:.0f}",
        ]
        for one in searches
    ]
    headings = ["bits", "n", "sets", "for 1,000 candidates", "expected candidates", "for these", "for these, a holder"]
    about = (
        "CPU seconds of the search for a modulus in the key generation, all holders in one process: "
        "`python -m benchmarks.ceremony --bits B --holders n --batches k`. The number of candidates is random, "
        "geometrically distributed. A number has a piece for each set of n - tau holders, tau = (n - 1) // 2: "
        "exponential in n."
    )
    return ["## Keys without a dealer\n", f"{about}\n", _table(headings, rows)]


def _figure(width: float) -> Any:
    """Return an empty figure, `width` inches wide, whose SVG is the same every time."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "psephos"
    return Figure(figsize=(width, 3.2), layout="constrained")


def _draw_peers(results: dict[str, Any], path: Path) -> None:
    """Draw the CPU milliseconds of one encryption by library, for each key length."""
    figure = _figure(4.6 * len(results["peers"]))
    for place, entry in enumerate(results["peers"]):
        axes = figure.add_subplot(1, len(results["peers"]), place + 1)
        names = list(entry["milliseconds"])
        milliseconds = [entry["milliseconds"][name]["encrypt"] for name in names]
        axes.barh(
            names, milliseconds, color=["tab:blue" if name.startswith("psephos") else "tab:gray" for name in names]
        )
        axes.set_xscale("log")
        axes.invert_yaxis()
        axes.set_xlabel("CPU ms per encryption")
        axes.set_title(f"{entry['key_bits']} bits", fontsize=9)
    figure.savefig(path, metadata={"Date": None})
