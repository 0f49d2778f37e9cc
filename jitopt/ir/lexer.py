"""Tokens of the IR's text forms, and a cursor over them whose errors carry line and column."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from jitopt.errors import ModelError

_PLAIN = r"[A-Za-z0-9_./-]+"
_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN = re.compile(
    rf"""(?P<space>(?:\s+|\#[^\n]*)+)
    |(?P<value>%(?:{_PLAIN}|{_QUOTED}))
    |(?P<node>@(?:{_PLAIN}|{_QUOTED}))
    |(?P<string>b?{_QUOTED})
    |(?P<number>0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)
    |(?P<name>[A-Za-z_?][A-Za-z0-9_.?]*)
    |(?P<punct>//|[][(){{}}=:,+*%-])""",
    re.VERBOSE,
)
_PLAIN_ONLY = re.compile(_PLAIN)
_NAME_ONLY = re.compile(r"[A-Za-z_?][A-Za-z0-9_.?]*")


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is value, node, string, number, name, punct or end; `text` is as written."""

    kind: str
    text: str
    at: int

    @property
    def label(self) -> str:
        """A value's or node's name without its mark and quotes."""
        body = self.text[1:]
        return str(json.loads(body)) if body.startswith('"') else body


def quote(text: str) -> str:
    """A string literal, ASCII only."""
    return json.dumps(text)


def marked(mark: str, name: str) -> str:
    """`%name` or `@name`, quoted where it has to be."""
    return mark + (name if _PLAIN_ONLY.fullmatch(name) else quote(name))


def bare(name: str) -> str:
    """An operator's, attribute's or symbol's name, quoted where it is no identifier."""
    return name if _NAME_ONLY.fullmatch(name) and name != "?" else quote(name)


class Cursor:
    """Reads tokens one after the other."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = list(self._split())
        self._next = 0

    def _split(self) -> list[Token]:
        tokens, at = [], 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                raise self.error(f"unexpected character {self.text[at]!r}", at)
            kind = match.lastgroup or ""
            if kind != "space":
                tokens.append(Token(kind, match.group(), at))
            at = match.end()
        return [*tokens, Token("end", "the end of the text", at)]

    @property
    def peek(self) -> Token:
        return self._tokens[self._next]

    def take(self) -> Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def at(self, *texts: str) -> bool:
        """Whether the next token is one of these, as a name or punctuation."""
        return self.peek.text in texts and self.peek.kind in ("name", "punct")

    def before(self, text: str) -> bool:
        """Whether this punctuation follows the next token, as it does a call's name."""
        after = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        return after.kind == "punct" and after.text == text

    def accept(self, text: str) -> bool:
        """Take the next token if it is this one."""
        if self.at(text):
            self.take()
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.at(text):
            raise self.error(f"expected '{text}', found {self.found()}")
        return self.take()

    def kind(self, kind: str, what: str) -> Token:
        """The next token, which must be of that kind."""
        if self.peek.kind != kind:
            raise self.error(f"expected {what}, found {self.found()}")
        return self.take()

    def string(self, what: str = "a string") -> str:
        token = self.kind("string", what)
        try:
            return str(json.loads(token.text))
        except ValueError:
            raise self.error(f"{token.text} is no valid string", token.at) from None

    def name(self, what: str) -> str:
        """A bare or a quoted name."""
        return self.string(what) if self.peek.kind == "string" else self.kind("name", what).text

    def label(self, kind: str, what: str) -> str:
        """The name a value or node token carries."""
        token = self.kind(kind, what)
        try:
            return token.label
        except ValueError:
            raise self.error(f"{token.text} is no valid name", token.at) from None

    def found(self) -> str:
        return self.peek.text if self.peek.kind == "end" else f"'{self.peek.text}'"

    def error(self, message: str, at: int | None = None) -> ModelError:
        """An error at a position, the next token's by default."""
        place = self.peek.at if at is None else at
        line = self.text.count("\n", 0, place) + 1
        column = place - self.text.rfind("\n", 0, place)
        return ModelError(f"line {line}, column {column}: {message}")
