"""What `Database` promises for boards, budget files and stores alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from psephos.protocol.board.file import BoardFile
from psephos.protocol.errors import BoardError, BudgetFileError, JournalError, PsephosError
from psephos.protocol.storage.budget import BudgetFile
from psephos.protocol.storage.database import Database
from psephos.protocol.storage.store import Store

DATABASES: dict[str, tuple[Callable[[Path], Database], type[PsephosError]]] = {
    "board": (BoardFile, BoardError),
    "budget": (BudgetFile, BudgetFileError),
    "store": (lambda path: Store(path, {"role": "party 0"}), JournalError),
}


@pytest.mark.parametrize("offset", [0, 7, 13, 20])
@pytest.mark.parametrize("kind", DATABASES)
def test_a_schema_that_is_not_text_is_a_named_error(kind: str, offset: int, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    path = tmp_path / "file"
    make, error = DATABASES[kind]
    make(path).close()
    content: Any = bytearray(path.read_bytes())
    content[content.index(b"CREATE TABLE") + offset] = 0xCC
    path.write_bytes(content)
    with pytest.raises(error):
        make(path)
