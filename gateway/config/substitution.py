"""``${NAME}`` in a setting's text is replaced by the environment variable; ``$${`` stands for ``${`` itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.config.document import Tree
    from gateway.config.key import KeyPath

_MARK = re.compile(r"(\$?)\$\{([^}]*)(\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def substitute(tree: Tree, env: Mapping[str, str]) -> Any:
    """Return the values of ``tree`` with every variable filled in, noting what is missing in ``tree.problems``."""
    return _filled(tree.values, (), tree, env)


def _filled(value: Any, path: KeyPath, tree: Tree, env: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        _check_keys(value, path, tree)
        return {key: _filled(child, (*path, key), tree, env) for key, child in value.items()}
    if isinstance(value, list):
        return [_filled(child, (*path, index), tree, env) for index, child in enumerate(value)]
    if not isinstance(value, str):
        return value
    if not _is_text(value):
        tree.problems.append(tree.problem(path, "holds half of a character (a lone surrogate)", "Write the character itself."))
        return None
    return _fill(value, path, tree, env) if "${" in value else value


def _fill(text: str, path: KeyPath, tree: Tree, env: Mapping[str, str]) -> str | None:
    wrong = False

    def variable(match: re.Match[str]) -> str:
        nonlocal wrong
        escaped, name, closed = match.groups()
        if escaped:
            return match[0][1:]
        if not closed or not _NAME.fullmatch(name):
            wrong = True
            hint = "Write ${NAME} with the name of an environment variable, or $${ for the characters themselves."
            tree.problems.append(tree.problem(path, f"{match[0]!r} names no variable", hint))
            return ""
        if name not in env:
            wrong = True
            hint = f"Set it where homebody starts (export {name}=...), or write the value into the file."
            message = f"the environment variable {name} is not set"
            tree.problems.append(tree.problem(path, message, hint, environment=True))
            return ""
        return env[name]

    filled = _MARK.sub(variable, text)
    return None if wrong else filled


def _check_keys(section: dict[str, Any], path: KeyPath, tree: Tree) -> None:
    if not all(map(_is_text, section)):
        tree.problems.append(
            tree.problem(path, "has a key with half of a character (a lone surrogate)", "Write the key as text.")
        )


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
