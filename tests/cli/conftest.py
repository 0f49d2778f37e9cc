"""The command line as a function: what it returns and prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import jitopt
from jitopt.cli import main

DIGITS = Path(jitopt.__file__).parent / "data" / "digits.onnx"


@dataclass(frozen=True)
class Outcome:
    """One run of the command line."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def failed_plainly(self, status: int, *words: str) -> None:
        """It failed with this status and one line on standard error, which holds the words."""
        assert self.status == status, (self.out, self.err)
        assert "Traceback" not in self.err
        assert len(self.err.strip().splitlines()) == 1, self.err
        assert all(word in self.err for word in words), self.err


Command = Callable[..., Outcome]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Calls `jitopt` with the given words."""

    def call(*words: object) -> Outcome:
        capsys.readouterr()
        status = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call


@pytest.fixture
def digits() -> Path:
    """The bundled model: `image` float32 [batch, 1, 8, 8] to `probability` [batch, 10]."""
    return DIGITS
