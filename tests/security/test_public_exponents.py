"""Powers that take as long as the bits of the exponent say are computed of public exponents only.

`gmpy2.powmod` and the built-in `pow` branch on the bits of the exponent, `gmpy2.powmod_sec` and the kernel do not.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]

PUBLIC = {
    "protocol/ceremony/exponent.py::committed_share": "the number of a holder",
    "protocol/ceremony/exponent.py::test_ciphertexts": "n^s",
    "protocol/ceremony/exponent.py::threshold_key": "2 Delta",
    "protocol/paillier/encryption.py::fixed_base": "n^s",
    "protocol/paillier/kernel.py::__init__": "a number of bits",
    "protocol/paillier/kernel.py::products": "a number of rows",
    "protocol/paillier/threshold.py::combine": "Lagrange coefficients",
    "protocol/pathak/comparison.py::_blinded": "3",
    "protocol/pathak/dgk.py::encrypt": "0 or 1, the bits of what is compared",
    "protocol/proofs/bounded.py::balance": "-1",
    "protocol/proofs/codewords.py::powers_modulo": "a place",
    "protocol/proofs/field.py::_inverse_tables": "constants of the field",
    "protocol/proofs/field.py::_root": "constants of the field",
    "protocol/proofs/field.py::_tables": "a place",
    "protocol/proofs/field.py::powers": "a place",
    "protocol/proofs/knowledge.py::_hold_together": "n^s",
}
"""Function and exponent of each call that may take a variable time; add one only when its exponent is public."""


def calls(path: Path) -> dict[str, list[int]]:
    """Return the lines of the calls in a file, by function."""
    lines: dict[str, list[int]] = {}
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and (
                ast.unparse(node.func) in ("gmpy2.powmod", "powmod")
                or (ast.unparse(node.func) == "pow" and len(node.args) + len(node.keywords) == 3)
            ):
                name = f"{path.relative_to(ROOT).as_posix()}::{function.name}"
                lines.setdefault(name, []).append(node.lineno)
    return lines


def test_powers_of_variable_time_have_public_exponents() -> None:
    names = {}
    for package in ("protocol", "parties", "curator", "psephos/specs", "psephos/study"):
        for path in sorted((ROOT / package).rglob("*.py")):
            names |= calls(path)
    assert names.keys() == PUBLIC.keys(), {name: names[name] for name in names.keys() - PUBLIC.keys()}
