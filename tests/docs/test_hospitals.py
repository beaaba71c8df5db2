"""The script of the documentation's eight hospitals runs, with three of them, fewer rows and a test key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from psephos.released import load_model
from tests.forked import forked_psephos

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "examples" / "hospitals.sh"


@pytest.mark.soak
def test_hospitals_release_evaluate_and_verify(tmp_path: Path) -> None:
    """A release for records, its evaluation on later rows, and a receipt of each; all members get the same models."""
    folder = tmp_path / "hospitals"
    with forked_psephos(tmp_path) as command:
        search = os.pathsep.join((str(command.parent), str(Path(sys.executable).parent), os.environ["PATH"]))
        done = subprocess.run(
            [SCRIPT, folder, "--key-bits", "512", "--trial"],
            env={**os.environ, "PATH": search, "PYTHONPATH": str(ROOT), "ROWS": "300", "HOSPITALS": "north south east"},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    for study in ("release", "evaluation"):
        receipt = json.loads((folder / f"{study}-receipt.json").read_text())
        assert receipt["release"]["published"] is True
        assert receipt["release"]["follows"] == "holds"
        assert receipt["release"]["epsilon"] == {"release": 1.0, "evaluation": 0.5}[study]
        models = {path.read_bytes() for path in folder.glob(f"*/{study}/model.json")}
        assert len(list(folder.glob(f"*/{study}/model.json"))) == 4
        assert len(models) == 1
    assert load_model(folder / "lab" / "release").model.release.unit == "record"
    assert len(pd.read_csv(folder / "predicted.csv")) == 100
