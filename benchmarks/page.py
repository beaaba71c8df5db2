"""docs/performance.md and its plots, from the JSON of a benchmark run, and of ceremonies, and nothing else."""

from __future__ import annotations

import json
from math import comb
from pathlib import Path
from typing import Any

__all__ = ["write_page"]

RESULTS = Path(__file__).parent / "results"

_COMPARED = ("psephos", "tno.mpc")
"""The libraries whose comparisons are timed."""


def write_page(results: dict[str, Any], docs: Path) -> Path:
    """Write performance.md and figures/performance-*.svg into `docs`; returns the page. The plots need matplotlib."""
    figures = docs / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    _draw_growth(results, figures / "performance-growth.svg")
    _draw_peers(results, figures / "performance-peers.svg")
    page = docs / "performance.md"
    searches = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("ceremony-search-*.json"))]
    _draw_searches(searches, figures / "performance-ceremony.svg")
    cluster = json.loads((RESULTS / "cluster.json").read_text())
    page.write_text("\n".join([_text(results), _cluster(**cluster), _searches(searches)]))
    return page


def _table(headings: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|" + " --- |" * len(headings)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _text(results: dict[str, Any]) -> str:
    libraries = ", ".join(f"{name} {number}" for name, number in results["libraries"].items())
    parts = [
        "# Performance\n",
        "This page is written by `make bench` from `benchmarks/results/latest.json`; "
        "`python -m benchmarks.run --page` draws it again without measuring. "
        f"Python {results['python']} on {results['machine']}, one core, multiplications by "
        f"{results.get('kernel', 'gmpy2')}, {libraries}.\n",
        "Absolute times differ from machine to machine and, on a shared one, from minute to minute. Ratios are taken "
        "between interleaved repetitions of one run.\n",
        "## Beside other libraries\n",
        "CPU milliseconds of one core for one ciphertext. A ciphertext of ours carries a whole packed vector; that is "
        "the next table.\n",
        "![Encryption beside other libraries](figures/performance-peers.svg)\n",
    ]
    for measured in results["peers"]:
        rows = [
            [name, *(f"{work[op]:.4g}" if op in work else "-" for op in ("encrypt", "add", "decrypt"))]
            for name, work in measured["milliseconds"].items()
        ]
        rows += [[name, f"not measured: {why}", "", ""] for name, why in measured["not_measured"].items()]
        parts.append(_table([f"{measured['key_bits']} bits", "encrypt", "add", "decrypt"], rows))
    parts.append(
        "pypaillier draws short exponents (its `encrypt` is to be compared with `short`) and its secret keys need safe "
        "primes, which take minutes, so its decryption is left out. sf-heu's and pypaillier's calls release work to "
        "native code; phe and TNO's library compute r^n as our `full` does.\n"
    )
    parts.append("## Votes\n")
    rows = []
    for measured in results["encryption"]:
        for mode, taken in measured["milliseconds_per_ciphertext"].items():
            rows.append(
                [
                    str(measured["key_bits"]),
                    mode,
                    f"{taken:.3f}",
                    f"{measured['times_faster_than_phe_per_ciphertext'].get(mode, 1.0):.1f}",
                    f"{measured['times_faster_than_phe_per_vote'].get(mode, 1.0):,.0f}",
                    f"{measured['bytes_per_vote'][mode]:.2f}" if "bytes_per_vote" in measured else "-",
                ]
            )
    parts.append(
        _table(["bits", "mode", "ms per ciphertext", "x phe", "x phe per vote, M = 20,000", "bytes per vote"], rows)
    )
    parts.append(
        "`online` takes its randomness from a pool that was filled before. phe, and pypaillier, sf-heu and TNO's "
        "library alike, send a ciphertext, twice as long as the modulus, for a vote unless their caller packs.\n"
    )
    parts.append("## Counting a ballot\n")
    parts.append("Decoding, range, signature, hash, gcd and multiplication, over the bare modular multiplications.\n")
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
    parts.append(_table(["bits", "like", "ciphertexts", "bytes", "ms", "over bare"], rows))
    parts.append(
        "A ballot of a few ciphertexts costs relatively more because it carries one Ed25519 signature like any other.\n"
    )
    parts.append("## Secure comparison\n")
    parts.append(
        "Two encrypted integers of 64 bits, Veugen's protocol on DGK ciphertexts, both roles in one process. Ours ends "
        "with the bit at the owner of the keys, which is what Pathak's stage 1 needs; TNO's with the bit encrypted at "
        "the other side, for three more Paillier encryptions.\n"
    )
    rows = [
        [
            str(measured["key_bits"]),
            *(
                f"{measured['milliseconds'][name]:.1f}" if name in measured["milliseconds"] else "-"
                for name in _COMPARED
            ),
            f"{measured['times_faster_than_tno']:.1f}" if measured["times_faster_than_tno"] else "-",
            "; ".join(f"{name} not measured: {why}" for name, why in measured["not_measured"].items()),
        ]
        for measured in results["comparisons"]
    ]
    parts.append(_table(["bits", "psephos, CPU ms", "TNO, CPU ms", "ratio", ""], rows))
    growth = results["growth"]
    parts += [
        "## Growth\n",
        f"CPU seconds of casting and counting, `{growth['randomness']}`, {growth['key_bits']} bits where not the axis, "
        "slots for 20,000 parties, tables made before. The exponent is the slope of a straight line through the "
        "logarithms: 1 is linear.\n",
        "![Growth of the cost](figures/performance-growth.svg)\n",
        _table(
            ["in", "from", "to", "exponent", "of the marginal cost"],
            [
                [
                    name,
                    str(one["values"][0]),
                    str(one["values"][-1]),
                    f"{one['exponent']:.3f}",
                    f"{one['marginal_exponent']:.3f}" if one["marginal_exponent"] is not None else "",
                ]
                for name, one in growth["series"].items()
            ],
        ),
        "The marginal cost is what a sample or class adds: the cost less that of ballots of a single sample "
        f"({1e3 * growth['fixed_cpu_seconds'] / 4:.1f} ms a ballot, mostly one signature and six verifications).\n",
        "## Bytes\n",
        "Bits on the wire per count, signature and header included, at 3072 bits; the floor is ceil(log2(M + 1)). "
        "A Paillier ciphertext, of degree 1, is twice as long as its plaintext; of degree s, 1 + 1/s times.\n",
        _table(
            ["like", "M", "degree", "counts", "bytes per ballot", "bits per count", "floor", "over floor"],
            [
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
            ],
        ),
        "## At the papers' size\n",
        "Every vote encrypted, on 2 cores, with five holders of whom three open: "
        "`psephos simulate tally --dataset kdd99 --parties 20000 --randomness MODE --epsilon 0.1 "
        "--draws 1 --methods vote,soft,avg,statistic,pate --journal DIR --json "
        "> FILE`, then `python -m benchmarks.run --full-size FILE`; `knowledge` is with `--proofs knowledge`. The "
        "million: "
        "`psephos simulate tally --dataset synthetic --parties 1000000 --auxiliary 100 --randomness short --draws 1 "
        "--methods soft --journal DIR --json > FILE`. "
        "Counting is voting, encrypting, signing, the checks of the curator and of all five holders, and opening; "
        "`foreseen` is what `psephos plan` says of that. MB is the peak of the whole run, data set, training and fits "
        "included.\n",
        _table(
            [
                "run",
                "M",
                "N",
                "bits",
                "counts exact",
                "training s",
                "counting s",
                "foreseen s",
                "ratio",
                "all s",
                "MB",
                "",
            ],
            [
                [
                    name,
                    f"{row['parties']:,}",
                    f"{row['auxiliary']:,}",
                    str(row["key_bits"]),
                    "yes" if row["tally_equals_plaintext"] else "NO",
                    f"{row['train_seconds']:.1f}",
                    f"{row['taken_seconds']:,.0f}",
                    f"{row['predicted_seconds']:,.0f}",
                    f"{row['predicted_seconds'] / row['taken_seconds']:.2f}",
                    f"{row['total_seconds']:,.0f}",
                    f"{row['peak_memory_mb']:,.0f}",
                    row["note"],
                ]
                for name, row in results.get("full_size", {}).items()
            ],
        ),
        "## Memory\n",
        "Peak of a whole round in one process, 20,000 auxiliary samples.\n",
        _table(["M", "MB"], [[str(row["parties"]), f"{row['peak_mb']:.0f}"] for row in results["memory"]]),
        *_holder(results["holder"]),
        "## The plan\n",
        "What `psephos plan` said and what the run that followed it took, on the clock, key generation apart: "
        f"{sum(0.8 <= row['ratio'] <= 1.2 for row in results['plan'])} of {len(results['plan'])} within 20 %, "
        f"{sum(row['at_least'] <= row['taken_seconds'] <= row['at_most'] for row in results['plan'])} within the "
        "interval that it gave. Cores: that the rehearsal got of two; the others did something else.\n",
        _table(
            ["run", "foreseen s", "interval", "taken s", "ratio", "cores", "foreseen MB", "taken MB", "load average"],
            [
                [
                    _planned(row),
                    f"{row['predicted_seconds']:.1f}",
                    f"{row['at_least']:.1f} to {row['at_most']:.1f}",
                    f"{row['taken_seconds']:.1f}",
                    f"{row['ratio']:.2f}",
                    f"{row['cores']:.2f}",
                    f"{row['predicted_mb']:.0f}",
                    "" if row["taken_mb"] is None else f"{row['taken_mb']:.0f}",
                    f"{row['load_average']:.1f}",
                ]
                for row in results["plan"]
            ],
        ),
    ]
    return "\n".join(parts)


def _holder(ballot: dict[str, Any]) -> list[str]:
    """What an observer's machine does for so many parties, from what it does for one ballot."""
    rows = []
    for power in (4, 6, 8):
        parties = 10**power
        hours = parties * ballot["milliseconds_per_ballot"] / 3.6e6
        time = f"{3600 * hours:.1f} s" if hours < 1 / 60 else f"{60 * hours:.0f} min" if hours < 1 else f"{hours:.1f} h"
        size, roster = parties * ballot["bytes_per_ballot"] / 1e9, parties * (ballot["key_bytes"] + 1 / 8) / 1e6
        rows.append([f"10^{power}", f"{size:.3g} GB", time, f"{roster:,.1f} MB"])
    return [
        "## What one holder's machine does\n",
        f"Everybody who observes a tally checks every ballot once: of 100 samples, with 3072-bit keys, that is "
        f"{ballot['bytes_per_ballot']:,} bytes and {ballot['milliseconds_per_ballot']:.2f} ms of one core a ballot "
        f"(decoding, signature, range, unit, multiplication; without proofs). It keeps a key of each party, "
        f"{ballot['key_bytes']} bytes, and a bit. Opening takes as long for a hundred as for a "
        "million. For more parties than were run (the last row is on paper):\n",
        _table(["parties", "read", "one core", "roster in memory"], rows),
        "The product of many ballots is a product of partial products, of any parts of the roster, and each is as long "
        "as one ballot: a hundred machines of one holder take a hundredth of the time, a part of the roster each, and "
        "send it a ballot's length and a bit map each, as the worker processes of a simulation do. What cannot be "
        "divided between holders is the trust: each has all ballots checked by machines of its own.\n",
    ]


def _planned(row: dict[str, Any]) -> str:
    """A run in words."""
    size = {"tally": f"N = {row['auxiliary']:,}, ", "psgd": f"T = {row['steps']}, "}.get(row["protocol"], "")
    proofs = "" if row["proofs"] == "none" else f", {row['proofs']}"
    return (
        f"{row['protocol']}: M = {row['parties']:,}, {size}K = {row['classes']}, d = {row['features']}, "
        f"{row['key_bits']} bits, {row['randomness']}{proofs}"
    )


def _cluster(scaling: list[dict[str, Any]], killed: dict[str, Any]) -> str:
    """A Dask cluster, whose workers may die."""
    rows = [
        [str(run["workers"]), f"{run['parties']:,}", f"{run['counting_seconds']:.1f}", "yes" * run["counts_exact"]]
        for one in scaling
        for run in one["runs"]
    ]
    efficient = ", ".join(f"{one['efficiency']:.2f} ({one['runs'][0]['parties']:,} parties)" for one in scaling)
    return "\n".join(
        [
            "## A cluster\n",
            "`python -m benchmarks.cluster`: a tally in the shape of the million's on a Dask cluster of this machine, "
            "whose two cores the scheduler and the main process share with the workers. The efficiency from one worker "
            f"to two, of medians: {efficient}. A worker's first batch has all imports in it, and this machine's speed "
            "changes by a third within minutes, so that more than 1 can come out.\n",
            _table(["workers", "M", "counting s", "counts exact"], rows),
            f"{killed['parties']:,} parties on two workers, of which one was killed and another joined "
            f"{killed['workers_killed']} times: {killed['counting_seconds']:,.0f} s, counts "
            f"{'exact' if killed['counts_exact'] else 'wrong'}.\n",
        ]
    )


def _searches(measured: list[dict[str, Any]]) -> str:
    """What a key without a dealer costs, by the number of its holders."""
    rows = [
        [
            str(one["bits"]),
            str(one["holders"]),
            str(comb(one["holders"], (one["holders"] - 1) // 2)),
            f"{one['runs'][0]['candidates']:,}",
            f"{one['cpu_seconds_per_1000_candidates']:.2f}",
            f"{one['expected_candidates']:,}",
            f"{one['expected_cpu_seconds']:.0f}",
            f"{one['expected_cpu_seconds'] / one['holders']:.0f}",
        ]
        for one in measured
    ]
    headings = [
        "bits",
        "n",
        "sets",
        "candidates",
        "for 1,000",
        "expected candidates",
        "for these",
        "for these, a holder",
    ]
    return "\n".join(
        [
            "## Keys without a dealer\n",
            "CPU seconds of the search for a modulus in [the ceremony](protocols/ceremony.md), all holders in "
            "one process, commitments and checks included: `python -m benchmarks.ceremony --bits B --holders n "
            "--batches k`. How many candidates it takes is luck, a geometric law around the expected number. A "
            "number is shared in a piece for each set of n - tau holders, tau = (n - 1) // 2. These are 3, 10 "
            "and 126 with 3, 5 and 9 holders: exponential in n.\n",
            "![Growth with the holders](figures/performance-ceremony.svg)\n",
            _table(headings, rows),
        ]
    )


def _figure(width: float) -> Any:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "psephos"
    return Figure(figsize=(width, 3.2), layout="constrained")


def _draw_growth(results: dict[str, Any], path: Path) -> None:
    series = results["growth"]["series"]
    figure = _figure(3.2 * len(series))
    for place, (name, one) in enumerate(series.items()):
        axes = figure.add_subplot(1, len(series), place + 1)
        axes.loglog(one["values"], one["cpu_seconds"], "o-")
        axes.set_xlabel(name)
        axes.set_ylabel("CPU seconds")
        axes.set_title(f"exponent {one['exponent']:.2f}", fontsize=9)
    figure.savefig(path, metadata={"Date": None})


def _draw_searches(measured: list[dict[str, Any]], path: Path) -> None:
    figure = _figure(6.4)
    for place, title in enumerate(("all holders", "each holder")):
        axes = figure.add_subplot(1, 2, place + 1)
        for bits in sorted({one["bits"] for one in measured}):
            mine = sorted((one["holders"], one["expected_cpu_seconds"]) for one in measured if one["bits"] == bits)
            axes.semilogy([n for n, _ in mine], [s / (n if place else 1) for n, s in mine], "o-", label=f"{bits} bits")
        axes.set_xlabel("holders")
        axes.set_ylabel("expected CPU seconds")
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def _draw_peers(results: dict[str, Any], path: Path) -> None:
    figure = _figure(4.6 * len(results["peers"]))
    for place, measured in enumerate(results["peers"]):
        axes = figure.add_subplot(1, len(results["peers"]), place + 1)
        names = list(measured["milliseconds"])
        taken = [measured["milliseconds"][name]["encrypt"] for name in names]
        axes.barh(names, taken, color=["tab:blue" if name.startswith("psephos") else "tab:gray" for name in names])
        axes.set_xscale("log")
        axes.invert_yaxis()
        axes.set_xlabel("CPU ms per encryption")
        axes.set_title(f"{measured['key_bits']} bits", fontsize=9)
    figure.savefig(path, metadata={"Date": None})
