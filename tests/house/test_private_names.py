"""Tests and benchmarks use what is public: no private name of the product, and of others only what is listed here."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import syntax

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = {
    "tests/fork_server.py": {
        "_exit": "of os, and public all the same",
        "_shutdown": "of threading: what the interpreter waits for at its end",
        "_run_exitfuncs": "of atexit: likewise",
    },
    "tests/embedding/test_bundled_e5.py": {"_exit": "of os, and public all the same"},
    "tests/fire/nursery.py": {
        "_exit": "of os, and public all the same",
        "_lock": "a sabotage: without its lock the product must be found wanting",
        "_mended": "a sabotage: without its repair the product must be found wanting",
    },
    "benchmarks/heap_shares.py": {"_debugmallocstats": "of sys: nothing else says what Python's own allocator holds"},
    "benchmarks/history.py": {"_run": "of asyncio: it has no hook for the length of one step of the event loop"},
    "benchmarks/memory_recall.py": {"_minilm": "a module of the benchmarks beside it"},
}
"""By file: the private names that it uses, each with the reason why there is no other way."""


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def defined(trees: dict[str, ast.Module]) -> set[str]:
    """The names that the tests define: methods, and attributes that they set on themselves."""
    found: set[str] = set()
    for node in (node for tree in trees.values() for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in {"self", "cls"}


def is_super(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"


def reached(tree: ast.Module, own: set[str]) -> Iterator[tuple[int, str]]:
    """Each private name that a file reaches: of another object, of a base class that the tests do not define, or by an import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and private(node.attr):
            if not (node.attr in own and (is_self(node.value) or is_super(node.value))):
                yield node.lineno, node.attr
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = (node.module or "").split(".") if isinstance(node, ast.ImportFrom) else []
            names = [part for alias in node.names for part in alias.name.split(".")]
            yield from ((node.lineno, name) for name in (*module, *names) if private(name))


SOME = re.compile(r"\b_[a-zA-Z0-9]")


def parsed() -> dict[str, ast.Module]:
    """Return the files in which a private name stands at all."""
    files = sorted(file for folder in ("tests", "benchmarks") for file in (ROOT / folder).rglob("*.py"))
    return {
        str(file.relative_to(ROOT)): syntax.parsed(source)
        for file in files
        if "node_modules" not in file.parts and SOME.search(source := file.read_text(encoding="utf-8"))
    }


def test_no_test_reaches_a_private_name() -> None:
    trees = parsed()
    own = defined(trees)
    found = {(file, line, name) for file, tree in trees.items() for line, name in reached(tree, own)}
    wrong = [f"{file}:{line} {name}" for file, line, name in sorted(found) if name not in ALLOWED.get(file, {})]
    assert wrong == [], "use what is public, or add a public way where the product lacks one that people would want too"
    used = {(file, name) for file, _, name in found}
    assert {(file, name) for file, names in ALLOWED.items() for name in names} - used == set(), "no longer needed"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("model._answerer = 1", ["_answerer"]),
        ("a.b()._c.d", ["_c"]),
        ("from agent.flush import _statements", ["_statements"]),
        ("from agent._inner import thing", ["_inner"]),
        ("import agent._inner", ["_inner"]),
        ("class A(ScriptedModel):\n    def f(self): return self._queue", ["_queue"]),
        ("class A(Base):\n    def _own(self): return super()._own()", []),
        ("class A:\n    def f(self): self._x = 1; return self._x", []),
        ("other._x = 1\nclass A:\n    def f(self): self._x = 1", ["_x"]),
        ("x.__class__", []),
    ],
)
def test_a_private_name_is_seen(source: str, names: list[str]) -> None:
    tree = ast.parse(source)
    assert [name for _, name in reached(tree, defined({"": tree}))] == names
