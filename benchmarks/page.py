"""Write docs/performance.md, benchmarks/performance.md and their plots from stored results alone.

docs/performance.md has the main figures, and benchmarks/performance.md every row that was measured. A function that is
named after a section returns its paragraphs and tables in Markdown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import Any

__all__ = ["write_page"]

RESULTS = Path(__file__).parent / "results"
DETAILS = Path(__file__).with_name("performance.md")
MAIN_JOB = RESULTS / "main-job-summary.md"

_COMPARED = ("psephos", "tno.mpc")
"""Libraries whose secure comparisons are timed, in the order of the columns."""


def write_page(results: dict[str, Any], docs: Path, details: Path = DETAILS) -> Path:
    """Write both pages and the figures; needs matplotlib.

    Args:
        results: the contents of benchmarks/results/latest.json.
        docs: the folder of performance.md and figures/performance-*.svg.
        details: the file of the page with all rows.

    Returns:
        The path of performance.md in `docs`.
    """
    figures = docs / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    searches = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("ceremony-search-*.json"))]
    cluster = json.loads((RESULTS / "cluster.json").read_text())
    _draw_growth(results, figures / "performance-growth.svg")
    _draw_peers(results, figures / "performance-peers.svg")
    _draw_searches(searches, figures / "performance-ceremony.svg")
    page = docs / "performance.md"
    page.write_text(_summary(results, cluster, searches))
    details.write_text(_details(results, cluster, searches))
    return page


def _table(headings: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown, with a newline at its end."""
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _summary(results: dict[str, Any], cluster: dict[str, Any], searches: list[dict[str, Any]]) -> str:
    """Return the text of docs/performance.md."""
    return "\n".join(
        [
            "# Performance\n",
            "Written by `make bench`; `python -m benchmarks.run --page` writes it again without measuring. "
            "[benchmarks/performance.md](../benchmarks/performance.md) has the machine, the versions and all rows, "
            "also of counting, bytes and memory. Times are of one core where nothing else is said.\n",
            MAIN_JOB.read_text(),
            *_peers(results, key_bits=3072),
            *_votes(results, key_bits=3072, modes=("full", "half", "short", "half, degree 4", "phe")),
            *_comparison(results),
            *_growth(results, table=False),
            "## At the papers' size\n",
            f"{_largest(results)} ([table](../benchmarks/performance.md#at-the-papers-size)).\n",
            "## A cluster\n",
            f"{_efficiency(cluster['scaling'])} {_killed(cluster['killed'])} "
            "([table](../benchmarks/performance.md#a-cluster)).\n",
            *_searches(searches, table=False),
        ]
    )


def _details(results: dict[str, Any], cluster: dict[str, Any], searches: list[dict[str, Any]]) -> str:
    """Return the text of benchmarks/performance.md, which has all rows of the tables."""
    return "\n".join(
        [
            "# Performance: all rows\n",
            "Written by `make bench`, or `python -m benchmarks.run --page`, with "
            "[docs/performance.md](../docs/performance.md), which explains the columns.\n",
            _setting(results),
            *_peers(results),
            *_votes(results),
            *_counting(results),
            *_growth(results),
            *_wire(results),
            *_full_size(results),
            *_memory(results),
            *_holder(results["holder"]),
            *_cluster(cluster),
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
        parts.append("![Encryption beside other libraries](figures/performance-peers.svg)\n")
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
    if modes is None:
        words += " `online` takes its randomness from a pool that was filled before."
    headings = ["bits", "mode", "ms per ciphertext", "x phe", "x phe per vote", "bytes per vote"]
    return ["## Votes\n", f"{words}\n", _table(headings, rows)]


def _counting(results: dict[str, Any]) -> list[str]:
    """Return the section on the time that an observer needs to check and multiply one ballot."""
    rows = [
        [
            str(m["key_bits"]),
            m["like"],
            str(m["ciphertexts_per_ballot"]),
            f"{m['bytes_per_ballot']:,}",
            f"{m['milliseconds_per_ballot']:.2f}",
            f"{m['over_bare_multiplications']:.2f}",
        ]
        for m in results["addition"]
    ]
    return [
        "## Counting a ballot\n",
        "Decoding, checks, signature and multiplication, relative to the modular multiplications alone.\n",
        _table(["bits", "like", "ciphertexts", "bytes", "ms", "over bare"], rows),
    ]


def _comparison(results: dict[str, Any]) -> list[str]:
    """Return the section on secure comparison, beside TNO's library."""
    rows = [
        [
            str(entry["key_bits"]),
            *(f"{entry['milliseconds'][name]:.1f}" if name in entry["milliseconds"] else "-" for name in _COMPARED),
            f"{entry['times_faster_than_tno']:.1f}" if entry["times_faster_than_tno"] else "-",
            "; ".join(f"{name} not measured: {why}" for name, why in entry["not_measured"].items()),
        ]
        for entry in results["comparisons"]
    ]
    return [
        "## Secure comparison\n",
        "Two encrypted integers of 64 bits, Veugen's protocol on DGK ciphertexts, both roles in one process. In TNO's "
        "library the bit ends encrypted at the other side, for three more Paillier encryptions.\n",
        _table(["bits", "psephos, CPU ms", "TNO, CPU ms", "ratio", ""], rows),
    ]


def _growth(results: dict[str, Any], *, table: bool = True) -> list[str]:
    """Return the section on the growth of the cost with each size, with its table or with its figure."""
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
    if not table:
        return ["## Growth\n", f"{about}\n", "![Growth of the cost](figures/performance-growth.svg)\n"]
    marginal = (
        "The marginal cost is the cost less that of ballots of a single sample "
        f"({1e3 * growth['fixed_cpu_seconds'] / 4:.1f} ms a ballot, mostly one signature and six verifications)."
    )
    headings = ["in", "from", "to", "exponent", "of the marginal cost"]
    return ["## Growth\n", f"{about} {marginal}\n", _table(headings, rows)]


def _wire(results: dict[str, Any]) -> list[str]:
    """Return the section on the bytes of ballots."""
    rows = [
        [
            row["like"],
            f"{row['parties']:,}",
            str(row.get("degree", 1)),
            f"{row['counts']:,}",
            f"{row['bytes_per_ballot']:,}",
            f"{row['bits_per_count']:.2f}",
            str(row["floor_bits"]),
            f"{row['over_floor']:.3f}",
        ]
        for row in results["wire"]
    ]
    return [
        "## Bytes\n",
        "Bits on the wire per count, signature and header included, at 3072 bits; the floor is ceil(log2(M + 1)). A "
        "ciphertext of degree s is 1 + 1/s times as long as its plaintext.\n",
        _table(["like", "M", "degree", "counts", "bytes per ballot", "bits per count", "floor", "over floor"], rows),
    ]


def _full_size(results: dict[str, Any]) -> list[str]:
    """Return the section on runs at the papers' size; the note of a row says what else the machine did."""
    rows = [
        [
            name,
            f"{row['auxiliary']:,}",
            "yes" if row["tally_equals_plaintext"] else "NO",
            f"{row['train_seconds']:.1f}",
            f"{row['taken_seconds']:,.0f}",
            f"{row['total_seconds']:,.0f}",
            f"{row['peak_memory_mb']:,.0f}",
            row["note"],
        ]
        for name, row in results.get("full_size", {}).items()
    ]
    headings = ["run", "N", "counts exact", "training s", "counting s", "all s", "peak MB", "note"]
    return [
        "## At the papers' size\n",
        "Every vote encrypted with 3072 bits, on 2 cores that other programs used as well, five holders of whom three "
        "open: `psephos simulate tally --dataset kdd99 --parties 20000 --randomness MODE --epsilon 0.1 --draws 1 "
        "--methods vote,soft,avg,statistic,pate --journal DIR --json` (`knowledge`: with `--proofs knowledge`; the "
        "million: `--dataset synthetic --parties 1000000 --auxiliary 100 --randomness short --methods soft`). Counting "
        "includes voting, encryption, all checks of the curator and five holders, and opening. Other programs slowed "
        "most runs.\n",
        _table(headings, rows),
    ]


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


def _memory(results: dict[str, Any]) -> list[str]:
    """Return the section on the peak memory of a round."""
    peaks = ", ".join(f"{row['peak_mb']:.0f} MB for {row['parties']} parties" for row in results["memory"])
    return ["## Memory\n", f"Peak of a whole round in one process with 20,000 auxiliary samples: {peaks}.\n"]


def _holder(ballot: dict[str, Any]) -> list[str]:
    """Return the section on a key holder's machine, extrapolated to many parties from the cost of one ballot."""
    rows = []
    for power in (4, 6, 8):
        parties = 10**power
        hours = parties * ballot["milliseconds_per_ballot"] / 3.6e6
        time = f"{3600 * hours:.1f} s" if hours < 1 / 60 else f"{60 * hours:.0f} min" if hours < 1 else f"{hours:.1f} h"
        size, roster = parties * ballot["bytes_per_ballot"] / 1e9, parties * (ballot["key_bytes"] + 1 / 8) / 1e6
        rows.append([f"10^{power}", f"{size:.3g} GB", time, f"{roster:,.1f} MB"])
    return [
        "## The machine of one key holder\n",
        f"Everybody who observes a tally checks every ballot once: with 100 samples and 3072-bit keys, "
        f"{ballot['bytes_per_ballot']:,} bytes and {ballot['milliseconds_per_ballot']:.2f} ms a ballot, without "
        f"proofs, and stores {ballot['key_bytes']} bytes and a bit for each party. The time of opening does not "
        "depend on the number of parties. Extrapolated (10^8 parties were not run):\n",
        _table(["parties", "read", "one core", "roster in memory"], rows),
        "Products of parts of the roster combine, so a holder can divide the work among machines of its own.\n",
    ]


def _efficiency(scaling: list[dict[str, Any]]) -> str:
    """Return a sentence about the efficiency of two workers relative to one."""
    efficient = ", ".join(f"{one['efficiency']:.2f} ({one['runs'][0]['parties']:,} parties)" for one in scaling)
    return (
        "`python -m benchmarks.cluster`, a Dask cluster on two shared cores: the efficiency of two workers relative "
        f"to one is {efficient}; the machine's speed changes by a third within minutes, so more than 1 is possible."
    )


def _killed(run: dict[str, Any]) -> str:
    """Return a sentence, without its full stop, about the run whose workers were killed."""
    return (
        f"With {run['parties']:,} parties on two workers, one of which was killed and replaced "
        f"{run['workers_killed']} times, counting took {run['counting_seconds']:,.0f} s, and the counts were "
        f"{'exact' if run['counts_exact'] else 'wrong'}"
    )


def _cluster(cluster: dict[str, Any]) -> list[str]:
    """Return the section on runs on a Dask cluster, and on the run whose workers were killed."""
    rows = [
        [str(run["workers"]), f"{run['parties']:,}", f"{run['counting_seconds']:.1f}", "yes" * run["counts_exact"]]
        for one in cluster["scaling"]
        for run in one["runs"]
    ]
    return [
        "## A cluster\n",
        f"{_efficiency(cluster['scaling'])} A worker's first batch includes all imports.\n",
        _table(["workers", "M", "counting s", "counts exact"], rows),
        f"{_killed(cluster['killed'])}.\n",
    ]


def _searches(searches: list[dict[str, Any]], *, table: bool = True) -> list[str]:
    """Return the section on the cost of a key without a dealer by the number of holders, with table or figure."""
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
    if table:
        return ["## Keys without a dealer\n", f"{about}\n", _table(headings, rows)]
    link = "[All rows](../benchmarks/performance.md#keys-without-a-dealer)."
    return [
        "## Keys without a dealer\n",
        f"{about} {link}\n",
        "![Growth with the holders](figures/performance-ceremony.svg)\n",
    ]


def _figure(width: float) -> Any:
    """Return an empty figure, `width` inches wide, whose SVG is the same every time."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "psephos"
    return Figure(figsize=(width, 3.2), layout="constrained")


def _draw_growth(results: dict[str, Any], path: Path) -> None:
    """Draw CPU seconds against each size on logarithmic axes."""
    series = results["growth"]["series"]
    figure = _figure(3.2 * len(series))
    for place, (name, one) in enumerate(series.items()):
        axes = figure.add_subplot(1, len(series), place + 1)
        axes.loglog(one["values"], one["cpu_seconds"], "o-")
        axes.set_xlabel(name)
        axes.set_ylabel("CPU seconds")
        axes.set_title(f"exponent {one['exponent']:.2f}", fontsize=9)
    figure.savefig(path, metadata={"Date": None})


def _draw_searches(searches: list[dict[str, Any]], path: Path) -> None:
    """Draw the expected CPU seconds of a search for a modulus against the number of holders."""
    figure = _figure(6.4)
    for place, title in enumerate(("all holders", "each holder")):
        axes = figure.add_subplot(1, 2, place + 1)
        for bits in sorted({one["bits"] for one in searches}):
            mine = sorted((one["holders"], one["expected_cpu_seconds"]) for one in searches if one["bits"] == bits)
            axes.semilogy([n for n, _ in mine], [s / (n if place else 1) for n, s in mine], "o-", label=f"{bits} bits")
        axes.set_xlabel("holders")
        axes.set_ylabel("expected CPU seconds")
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})


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
