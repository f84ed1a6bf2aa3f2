"""The settings file: reads it, parses YAML or JSON5, and keeps the line of every key."""

from __future__ import annotations

import errno
import stat
from pathlib import Path
from typing import Any

from msgspec import Struct

from gateway.base.errors import Problem, SettingsError, access_hint
from gateway.config.syntax_tree import KeyPath, Node, TooManyValues, dotted_key, lines, plain

MAX_BYTES = 2_000_000
AGENT_SHORTHAND = "agent"
_DEFAULTS: KeyPath = ("agents", "defaults")


class Document(Struct, frozen=True):
    """A parsed settings file. ``root`` is None for a file without settings: every default applies."""

    file: str
    text: str
    root: Node | None


def read_text(path: Path) -> str:
    """Return the text of a settings file. Raises FileNotFoundError, and SettingsError if it is not a UTF-8 text file."""
    try:
        found = path.stat()
        if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_BYTES:
            return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problem = Problem("is not UTF-8 text", file=str(path), line=line, hint="Save the file as UTF-8.")
        raise SettingsError([problem]) from error
    except OSError as error:
        hint = access_hint(path, "u+r") if error.errno == errno.EACCES else ""
        if error.errno == errno.ENOTDIR:
            hint = "A parent of this path is a file. Move that file away."
        raise SettingsError([Problem(f"cannot be read: {error.strerror}", file=str(path), hint=hint)]) from error
    if stat.S_ISDIR(found.st_mode):
        hint = "Move it away, or name a file with --config or HOMEBODY_CONFIG."
        raise SettingsError([Problem("is a folder, not a file", file=str(path), hint=hint)])
    if not stat.S_ISREG(found.st_mode):
        raise SettingsError([Problem("is not a plain file", file=str(path))])
    raise SettingsError([Problem(f"is larger than {MAX_BYTES} bytes, which no settings are", file=str(path))])


def is_json5(file: str) -> bool:
    """Whether a file of that name holds JSON5; any other holds YAML."""
    return file.endswith((".json", ".json5"))


def read_document(text: str, file: str) -> Document:
    """Parse the text of a settings file; the ending of ``file`` decides the format. Raises SettingsError.

    A YAML file that begins with a brace is parsed as JSON5 if it is that: examples on web pages look so.
    """
    root = _parsed(text, file) if text.strip() else None
    if root is not None and root.value is None:
        root = None
    if root is not None and not isinstance(root.value, dict):
        hint = "Write the settings as `key: value` lines; `homebody config schema` lists the keys."
        raise SettingsError([Problem("holds no keys", file=file, line=root.line, hint=hint)])
    return Document(file, text, root)


def _parsed(text: str, file: str) -> Node | None:
    """Parse with the parser of the format, which is imported only now: most files need one of the two."""
    as_json5: SettingsError | None = None
    if is_json5(file) or text.lstrip().startswith("{"):
        from gateway.config.json5_format import read_json5

        try:
            return read_json5(text, file)
        except SettingsError as error:
            if is_json5(file):
                raise
            as_json5 = error
    from gateway.config.yaml_format import read_yaml

    try:
        return read_yaml(text, file)
    except SettingsError:
        if as_json5:
            raise as_json5 from None
        raise


class Tree:
    """The values of a document, with ``agent`` merged into ``agents.defaults``, and the line and spelling of every key."""

    def __init__(self, document: Document) -> None:
        """Raises SettingsError for a document with more than MAX_VALUES values."""
        self.file = document.file
        self.problems: list[Problem] = []
        self.values: dict[str, Any] = {}
        self._lines: dict[KeyPath, int] = {}
        self._moved: set[KeyPath] = set()
        if document.root is not None:
            try:
                self.values = plain(document.root)
            except TooManyValues as error:
                raise SettingsError([Problem(f"holds {error}", file=self.file, hint="Check its aliases (*name).")]) from error
            self._lines = lines(document.root)
            self._fold()

    def line(self, path: KeyPath) -> int:
        """Return the line of a key, or of the nearest enclosing section; 0 if there is none."""
        while path:
            written = self._written(path)
            if written in self._lines:
                return self._lines[written]
            path = path[:-1]
        return 0

    def spelled(self, path: KeyPath) -> str:
        """Return a key as it is written in the file."""
        return dotted_key(self._written(path))

    def at(self, path: KeyPath) -> Any:
        """Return the value at a path, or None."""
        here: Any = self.values
        for step in path:
            try:
                here = here[step]
            except (KeyError, IndexError, TypeError):
                return None
        return here

    def problem(self, path: KeyPath, message: str, hint: str = "", *, environment: bool = False) -> Problem:
        """Return a problem at a path, with its file and line."""
        return Problem(message, self.spelled(path), self.file, self.line(path), hint, environment)

    def _written(self, path: KeyPath) -> KeyPath:
        for length in range(len(path), 1, -1):
            if path[:length] in self._moved:
                return (AGENT_SHORTHAND, *path[2:])
        return path

    def _fold(self) -> None:
        short = self.values.get(AGENT_SHORTHAND)
        if short is None:
            self.values.pop(AGENT_SHORTHAND, None)
            return
        if not isinstance(short, dict):
            self.problems.append(self.problem((AGENT_SHORTHAND,), "must be a section of keys, as agents.defaults is"))
            del self.values[AGENT_SHORTHAND]
            return
        agents = self.values.get("agents")
        if agents is None:
            agents = self.values["agents"] = {}
        if not isinstance(agents, dict) or not isinstance(agents.get("defaults") or {}, dict):
            return
        agents["defaults"] = self._merge(agents.get("defaults") or {}, self.values.pop(AGENT_SHORTHAND), _DEFAULTS)

    def _merge(self, ours: dict[str, Any], short: dict[str, Any], path: KeyPath) -> dict[str, Any]:
        """Merge the shorthand into the defaults. A key in both must have the same value."""
        merged = dict(ours)
        for key, value in short.items():
            here = (*path, key)
            if isinstance(merged.get(key), dict) and isinstance(value, dict):
                merged[key] = self._merge(merged[key], value, here)
            elif key not in merged:
                merged[key] = value
                self._moved.add(here)
            elif merged[key] != value:
                both = f"{self.spelled(here)} (line {self.line(here)})"
                written = (AGENT_SHORTHAND, *here[2:])
                message = f"differs from {both}"
                problem = Problem(message, dotted_key(written), self.file, self._lines.get(written, 0), "Keep one of the two.")
                self.problems.append(problem)
        return merged
