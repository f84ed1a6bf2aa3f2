"""Every heading of docs/troubleshooting.md is a text that the product prints, so that whoever searches for one finds it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import click

from gateway.cli.click_commands import homebody
from tests.syntax import parsed

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
FEWEST = 40
SHORTEST = 11


def text_of(node: ast.expr) -> str | None:
    """Return a text of the source with … for what is filled in; None for what is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return None


@cache
def texts() -> frozenset[str]:
    """All texts of the product; docstrings are none."""
    found: set[str] = set()
    for package in ("agent", "channels", "gateway", "memory"):
        for path in (ROOT / package).rglob("*.py"):
            tree = parsed(path.read_text(encoding="utf-8"))
            nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Expr | ast.Constant | ast.JoinedStr)]
            said = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            found |= {
                plain(text)
                for node in nodes
                if not isinstance(node, ast.Expr) and id(node) not in said and (text := text_of(node))
            }
    return frozenset(found)


def plain(text: str) -> str:
    """Join gaps, also those that str.format fills."""
    return re.sub(r"…(?:[\s:/.()]*…)*", "…", re.sub(r"\{\w+\}", "…", text)).strip()


def headings() -> list[str]:
    return re.findall(r"^### (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def is_printed(heading: str) -> bool:
    wanted = plain(heading).strip("…").strip(" .:")
    return any(wanted in text for text in texts())


def test_there_are_enough_and_none_stands_twice() -> None:
    assert len(headings()) >= FEWEST
    assert len(set(headings())) == len(headings())


def test_each_heading_is_a_text_of_the_product_and_one_that_nothing_prints_would_be_seen() -> None:
    """One test, as reading all texts takes seconds."""
    short = [one for one in headings() if sum(char.isalpha() for char in one) < SHORTEST and one != "unexpected …"]
    assert short == [], "it says too little to be found"
    assert [one for one in headings() if not is_printed(one)] == [], "not printed (any more)"
    assert not any(map(is_printed, ["the house has burnt down", "port … on … is gone", "there is no command … at all"]))


def commands(group: click.Group, context: click.Context) -> set[str]:
    found = set()
    for name in group.list_commands(context):
        found.add(name)
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            found |= {f"{name} {below}" for below in commands(command, context)}
    return found


def test_the_commands_on_the_page_exist() -> None:
    known = commands(homebody, click.Context(homebody))
    named = re.findall(r"(?:`|^    )homebody ([a-z]+(?: [a-z]+)?)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) > FEWEST
    unknown = {one for one in named if one not in known and one.partition(" ")[0] not in known}
    assert not unknown
