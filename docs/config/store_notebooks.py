"""Run the notebooks of docs/examples cell by cell and store what they print.

python docs/config/store_notebooks.py
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def main() -> None:
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        shared = {"__name__": "notebook"}
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for number, cell in enumerate(notebook["cells"]):
                if cell["cell_type"] != "code":
                    continue
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), shared)  # noqa: S102
                text = printed.getvalue().splitlines(keepends=True)
                cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": text}] if text else []
                cell["execution_count"] = None
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + os.linesep, encoding="utf-8")


if __name__ == "__main__":
    main()
