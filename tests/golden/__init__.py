"""Text forms kept in files: `pytest --update-golden` writes them anew, the diff is then read by a person."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent


def check_golden(name: str, text: str) -> None:
    """Compare `text` with the file of that name."""
    path = FOLDER / name
    if os.environ.get("JITOPT_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{name} does not exist; pytest --update-golden writes it"
    assert text == path.read_text(encoding="utf-8"), f"{name} differs; pytest --update-golden accepts the new text"
