"""One thing that is wrong with the configuration, told so that it can be mended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or a warning.

    ``message`` says what was found and what is allowed, and never shows a secret. ``path`` is the key as the owner wrote it,
    dotted; ``line`` counts from 1 and is 0 where there is none. ``environment`` says that the file is right and something
    outside it is missing (a variable, a secret's file), which must not stop an edit of the file.
    """

    message: str
    path: str = ""
    file: str = ""
    line: int = 0
    hint: str = ""
    environment: bool = False

    @property
    def place(self) -> str:
        """The file and the line, as editors and terminals understand it."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def as_json(self) -> dict[str, Any]:
        """The same, for programs."""
        return {
            "path": self.path or None,
            "file": self.file or None,
            "line": self.line or None,
            "message": self.message,
            "mend": self.hint or None,
        }

    def as_text(self) -> str:
        """The same, for people."""
        head = ": ".join(part for part in (self.place, self.path, self.message) if part)
        return f"{head}\n  {self.hint}" if self.hint else head
