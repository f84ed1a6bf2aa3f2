"""An error or warning about the settings, with its place and a hint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or a warning.

    ``message``: what was found and what is allowed; never contains a secret. ``path``: the dotted key as written in the file.
    ``line``: 1-based, 0 if unknown. ``environment``: the file is valid but something outside it is missing (a variable, a
    secret's file), which does not prevent an edit of the file.
    """

    message: str
    path: str = ""
    file: str = ""
    line: int = 0
    hint: str = ""
    environment: bool = False

    @property
    def place(self) -> str:
        """``file:line``, as editors and terminals recognise it."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def as_json(self) -> dict[str, Any]:
        """Return the error as JSON values."""
        return {
            "path": self.path or None,
            "file": self.file or None,
            "line": self.line or None,
            "message": self.message,
            "mend": self.hint or None,
        }

    def as_text(self) -> str:
        """Return the problem as text for people."""
        head = ": ".join(part for part in (self.place, self.path, self.message) if part)
        return f"{head}\n  {self.hint}" if self.hint else head
