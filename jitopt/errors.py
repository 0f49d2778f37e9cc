"""The exceptions jitopt raises for what a user can cause; every other exception is a bug of ours."""

from __future__ import annotations


class JitoptError(Exception):
    """Base of all errors raised on purpose.

    `model`, `node` and `remedy` say where it happened and what to do; each may be None when it does not apply.
    """

    def __init__(
        self, message: str, *, model: str | None = None, node: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.model, self.node, self.remedy = message, model, node, remedy

    def __str__(self) -> str:
        where = "".join(f"{kind} {name!r}: " for kind, name in (("model", self.model), ("node", self.node)) if name)
        return f"{where}{self.message}" + (f" ({self.remedy})" if self.remedy else "")

    def at(self, *, model: str | None = None, node: str | None = None) -> JitoptError:
        """Fill in the model or node where a caller knows it and the raiser did not; returns self."""
        self.model, self.node = self.model or model, self.node or node
        return self


class ModelError(JitoptError):
    """The model is malformed: unreadable bytes, undefined values, bad attributes, types that do not fit."""


class UnsupportedOperator(JitoptError):
    """An operator (or one of its versions) has neither a kernel nor a reference here."""


class FeedError(JitoptError):
    """What was passed to `run` does not fit the model's inputs: name, dtype, missing or superfluous."""


class ShapeError(JitoptError):
    """Shapes do not fit together, in the model or for these feeds."""


class CompileError(JitoptError):
    """A kernel could not be compiled or loaded."""


class MemoryLimitError(JitoptError):
    """The model would need more memory than `max_memory` allows."""


class ExecutionError(JitoptError):
    """A kernel met data it cannot process, such as an index out of range."""


class RunCancelled(JitoptError):
    """A run was ended by `RunOptions.terminate`; the session stays usable."""
