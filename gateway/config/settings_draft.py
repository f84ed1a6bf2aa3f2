"""Changes of the settings file before they are written: the text that they make, its errors, and what differs, without secrets."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.base.errors import HomebodyError, Problem, SettingsError
from gateway.base.paths import Paths
from gateway.config.document import Document, read_document
from gateway.config.edit import EditRefused, with_value, without
from gateway.config.effective import ROOT, parse_value, path_in_file, reload_mode, resolve_key
from gateway.config.load import READABLE, Checked, check
from gateway.config.secrets import MASK, NAMES, passwords_in
from gateway.config.settings_form import holds_secret, is_reference
from gateway.config.syntax_tree import KeyPath, Node, dotted_key, plain

_CONTEXT = 2
_SHORTEST = 4
"""Characters from which on a secret is also masked where it stands as something else, such as in a comment."""


@dataclass(frozen=True, slots=True)
class Change:
    """One key and the text that was typed for it; None removes the key."""

    key: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Draft:
    """The text that changes make of a file. ``problems`` are by the key that was to be changed; with any, nothing may be written.

    ``warnings`` leave out what writing the file mends.
    """

    text: str
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    hot: tuple[str, ...]
    restart: tuple[str, ...]


def text_hash(text: str) -> str:
    """Return the hash by which the text of a settings file is known, whatever its ends of lines."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")).hexdigest()


def edited(document: Document, changes: Sequence[Change]) -> str:
    """Apply changes one after the other. Raises SettingsError with a problem for each key that cannot be changed so."""
    document, problems = _applied(document, changes)
    if problems:
        raise SettingsError(problems, where=document.file, hint="Nothing was written.")
    return document.text


def _applied(document: Document, changes: Sequence[Change]) -> tuple[Document, list[Problem]]:
    """Return the document with those changes that can be made, and a problem for each other key."""
    problems: list[Problem] = []
    for change in changes:
        try:
            document = read_document(_changed(document, change), document.file)
        except SettingsError as error:
            problems += [_at(change.key, problem.message, problem.hint) for problem in error.problems]
        except HomebodyError as error:
            problems.append(_at(change.key, error.message, error.hint))
    return document, problems


def draft(text: str, source: Path, changes: Sequence[Change], env: Mapping[str, str], paths: Paths) -> Draft:
    """Return what changes would make of a file, and the errors that they would add. Raises SettingsError if it cannot be parsed."""
    document, refused = _applied(read_document(text, str(source)), changes)
    after = document.text
    before, checked = check(text, source, env, paths), check(after, source, env, paths)
    if refused:
        wrong = {problem.path for problem in refused}
        right = tuple(change.key for change in changes if change.key not in wrong)
        others = [one for one in _new_errors(before, checked) if _about(one, right)]
        return Draft(text, (*refused, *others), (), (), ())
    paths_of = [resolve_key(change.key)[0] for change in changes]
    hot = tuple(dotted_key(path) for path in paths_of if reload_mode(path) == "hot")
    restart = tuple(dotted_key(path) for path in paths_of if reload_mode(path) != "hot")
    warnings = tuple(one for one in checked.warnings if one.message != READABLE)
    return Draft(after, tuple(_new_errors(before, checked)), warnings, hot, restart)


def shown_diff(before: str, after: str, file: str) -> list[str]:
    """Return the difference of two texts of a settings file as lines of a unified diff, in which no secret is shown."""
    secrets = frozenset({*_secret_texts(before, file), *_secret_texts(after, file)})
    old, new = (_masked(text, file, secrets) for text in (before, after))
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    rows: list[str] = []
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        rows.append(f"@@ -{group[0][1] + 1} +{group[0][3] + 1} @@")
        for kind, start, end, to_start, to_end in group:
            if kind == "equal":
                rows += [f" {row}" for row in old[start:end]]
                continue
            rows += [f"-{row}" for row in old[start:end]]
            rows += [f"+{row}" for row in new[to_start:to_end]]
    return rows


def canonical_key(problem: Problem) -> str:
    """Return the key that a problem is about as the form names it."""
    try:
        return dotted_key(resolve_key(problem.path)[0]) if problem.path else ""
    except HomebodyError:
        return problem.path


def _changed(document: Document, change: Change) -> str:
    path, complaint = resolve_key(change.key)
    if complaint:
        raise EditRefused("there is no such setting", hint=complaint)
    place = path_in_file(plain(document.root), path)
    if change.value is None:
        return without(document, place)
    if MASK in change.value:
        raise EditRefused("the value still holds ******** where a secret is not shown", hint="Write it in full, or leave it.")
    return with_value(document, place, parse_value(change.value, path))


def _at(key: str, message: str, hint: str) -> Problem:
    return Problem(message, key, hint=hint)


def _about(problem: Problem, keys: tuple[str, ...]) -> bool:
    """Whether a problem is about one of these keys, and not about what is missing with a change that could not be made."""
    key = canonical_key(problem)
    return any(key == canonical_key(_at(one, "", "")) for one in keys)


def _new_errors(before: Checked, after: Checked) -> list[Problem]:
    known = {(problem.path, problem.message) for problem in before.problems}
    return [one for one in after.problems if not one.environment and (one.path, one.message) not in known]


def _secret_nodes(text: str, file: str) -> list[Node]:
    root = read_document(text, file).root
    return [] if root is None else [node for path, node in _leaves((), root) if _is_secret(path, node)]


def _secret_texts(text: str, file: str) -> Iterator[str]:
    """Yield secrets that are long enough to be known where they stand as something else, such as in a comment."""
    values = [str(node.value) for node in _secret_nodes(text, file)]
    yield from (one for one in (*values, *passwords_in(text)) if len(one) >= _SHORTEST)


def _masked(text: str, file: str, secrets: frozenset[str]) -> list[str]:
    """Return the lines of a text, as many as it has, with each secret masked: where it is a value, and wherever else it stands."""
    for node in sorted(_secret_nodes(text, file), key=lambda node: node.start, reverse=True):
        end = node.start + len(text[node.start : node.end].rstrip())  # a block ends where the next key begins
        lines = text.count("\n", node.start, end) + 1
        text = text[: node.start] + "\n".join([MASK] * lines) + text[end:]
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "\n".join([MASK] * (secret.count("\n") + 1)))
    return text.split("\n")


def _is_secret(path: KeyPath, node: Node) -> bool:
    if not isinstance(node.value, str | int | float) or isinstance(node.value, bool):
        return False
    if isinstance(node.value, str) and is_reference(node.value):
        return False
    named = any(isinstance(step, str) and NAMES.search(step) for step in path[-1:])
    return named or _secret_by_type(path)


def _secret_by_type(path: KeyPath) -> bool:
    """Whether a key may hold a secret; so may one that is not known, in a section that has any."""
    try:
        known = resolve_key(dotted_key(path))[0]
    except HomebodyError:
        return True
    here = ROOT
    for step in known:
        below = here.under(step)
        if below is None:
            return bool(here.models) and holds_secret(here)
        here = below
    return here.secret


def _leaves(path: KeyPath, node: Node) -> Iterator[tuple[KeyPath, Node]]:
    if isinstance(node.value, dict | list):
        for step, child in node.children():
            yield from _leaves((*path, step), child)
    else:
        yield path, node
