"""Makes the table of docs/security.md from the names and marks of the tests.

python -m tests.security.table            prints it
python -m tests.security.table --write    puts it into docs/security.md
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.security.rows import NOT_APPLICABLE, ROWS, SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs/security.md"
BEGIN, END = "<!-- rows: python -m tests.security.table --write -->\n", "<!-- end of rows -->\n"
SHOWN = 3


def named() -> dict[int, list[str]]:
    """Return the tests of each row, as ``folder/file.py::name``, in the order of the files."""
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "_sec_" not in text and "mark.sec(" not in text:
            continue
        for test in functions_of(ast.parse(text)):
            for row in rows_of(test):
                found.setdefault(row, []).append(f"{path.relative_to(TESTS)}::{test.name}")
    return found


def functions_of(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the test functions of a module, those in classes included. One that is always skipped is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            if not any(re.match(r"pytest\.mark\.(skip\b(?!if)|xfail)", mark) for mark in marks):
                yield node


def rows_of(test: ast.FunctionDef | ast.AsyncFunctionDef) -> list[int]:
    """Return the rows that a test names, by its own name and by its marks."""
    rows = [int(number) for number in re.findall(r"^test_sec_(\d+)_", test.name)]
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.sec":
            rows += [ast.literal_eval(argument) for argument in mark.args]
    return rows


def share(found: dict[int, list[str]]) -> tuple[int, int]:
    """Return how many rows hold, and how many apply."""
    applying = [row for row in ROWS if row not in NOT_APPLICABLE]
    return sum(bool(found.get(row)) for row in applying), len(applying)


def table() -> str:
    """Return the table as Markdown."""
    found = named()
    holding, applying = share(found)
    lines = [
        f"{holding} of {applying} rows that apply hold; {len(NOT_APPLICABLE)} do not apply; {applying - holding} are open.\n"
    ]
    for title, numbers in SECTIONS.items():
        lines += [f"\n### {title}\n\n", "| row | what must hold | | tests |\n", "|---|---|---|---|\n"]
        lines += [_line(row, found.get(row, [])) for row in numbers if row in ROWS]
    return "".join(lines)


def _line(row: int, tests: list[str]) -> str:
    if tests:
        state, names = "holds", [f"`{name}`" for name in tests[:SHOWN]]
        more = f" and {len(tests) - SHOWN} more" if len(tests) > SHOWN else ""
        return f"| SEC-{row:02} | {ROWS[row]} | {state} | {', '.join(names)}{more} |\n"
    reason = NOT_APPLICABLE.get(row)
    return f"| SEC-{row:02} | {ROWS[row]} | {'does not apply' if reason else '**open**'} | {reason or 'none yet'} |\n"


def page() -> str:
    """Return docs/security.md with the table as it is now."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(table())
