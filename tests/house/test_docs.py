"""What the documents say can be typed and followed: each command is one, each link leads somewhere, each page is in the site."""

from __future__ import annotations

import importlib.util
import re
import shlex
from functools import cache
from pathlib import Path

import click
import pytest
import yaml

from gateway.cli.click_commands import INSTEAD, homebody

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
READ_BY_OWNERS = [page for page in PAGES if page.name not in {"CHANGELOG.md", "NEXT.md", "ARCHITECTURE.md"}]
_FENCED = re.compile(r"^( {0,3})(```+|~~~+)([^\n]*)\n(.*?)^\1\2[ \t]*$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_ENDS = re.compile(r"\s(?:\||&&|>|2>|<|;|#)(?:\s|$)|;\s|\s#")
_NAMED = re.compile(r"(?:[A-Z_]+=\S*\s+)*(?:\S*/)?homebody\s")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str) -> list[str]:
    """Return the lines of all blocks of code, fenced or indented."""
    found = [found[4] for found in _FENCED.finditer(text)]
    without = _FENCED.sub("", text)
    return [line for block in found for line in block.splitlines()] + [
        line for line in without.splitlines() if line.startswith("    ")
    ]


def texts(text: str) -> list[str]:
    """Return what is marked as code within the text."""
    return _INLINE.findall(_FENCED.sub("", text))


def commands(text: str) -> list[str]:
    """Return each command of Homebody in a page, without what is piped into or out of it."""
    lines = [line.strip().removeprefix("$ ") for line in blocks(text)] + texts(text)
    lines = [part for line in lines for part in re.split(r"\s(?:\||&&)\s", line)]
    found = []
    for line in lines:
        mark = _NAMED.match(f"{line.strip()} ")
        if mark is not None:
            rest = f"{line.strip()} "[mark.end() :]
            ends = _ENDS.search(rest)
            found.append(rest[: ends.start()] if ends else rest)
    return [one.strip() for one in found if one.strip()]


def words_of(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def complaint(words: list[str]) -> str:
    """Return what is wrong with a command: a name or an option that does not exist. Placeholders in the place of values are fine."""
    here: click.Command = homebody
    context = click.Context(here, info_name="homebody")
    while isinstance(here, click.Group):
        if wrong := _group_options(here, words):
            return wrong
        if not words or not re.fullmatch(r"[a-z][a-z0-9|-]*", words[0]):
            return ""
        names = words.pop(0).split("|")
        below = [here.get_command(context, name) for name in names]
        if missing := [name for name, one in zip(names, below, strict=True) if one is None]:
            return "" if here is homebody and missing[0] in INSTEAD else f"no command {missing[0]}"
        if len(names) > 1 or below[0] is None:
            return ""
        context, here = click.Context(below[0], parent=context, info_name=names[0]), below[0]
    return _unknown_option(here, words)


def _group_options(group: click.Group, words: list[str]) -> str:
    """Take the options of a group from the beginning of the words; return what is wrong with one."""
    known = {name: one for one in group.params for name in one.opts}
    while words and words[0].startswith("-"):
        option, given, _ = words.pop(0).partition("=")
        if option in {"--help", "-h"}:
            words.clear()
        elif option not in known:
            return f"no option {option}"
        elif not getattr(known[option], "is_flag", True) and not given and words:
            words.pop(0)
    return ""


def _unknown_option(command: click.Command, words: list[str]) -> str:
    known = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help", "-h"}
    for word in words:
        if word == "--":
            break
        option = word.strip("[]").partition("=")[0].partition("|")[0]
        if re.fullmatch(r"--?[a-z][a-z-]*", option) and option not in known and option[:2] not in known:
            return f"no option {option}"
    return ""


@pytest.mark.parametrize("page", READ_BY_OWNERS, ids=name_of)
def test_each_command_of_a_page_exists_with_its_options(page: Path) -> None:
    wrong = []
    for command in commands(page.read_text("utf-8")):
        found = complaint(words_of(command))
        if found:
            wrong.append(f"homebody {command}: {found}")
    assert wrong == []


def test_a_command_that_does_not_exist_is_seen() -> None:
    assert complaint(["frobnicate"]) == "no command frobnicate"
    assert complaint(["cron", "ad", "x"]) == "no command ad"
    assert complaint(["cron", "add", "--no-such", "x"]) == "no option --no-such"
    assert complaint(["cron", "add", "tomorrow at 9", "Water the plants", "--task"]) == ""
    assert commands("    homebody cron ad x   # comment\n`homebody chat | cat`") == ["cron ad x", "chat"]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as forges and the site make them."""
    heads = re.findall(r"^#+\s+(.*?)\s*$", _FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head).replace("`", "").lower() for head in heads]
    return frozenset(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", head).strip()) for head in plain)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    wrong = []
    for target in _LINK.findall(_FENCED.sub("", page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            wrong.append(target)
    assert wrong == []


def test_each_page_is_in_the_site_and_in_readme() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8").replace("!!python/name:", ""))
    listed = re.findall(r"[\w-]+\.md", yaml.safe_dump(site["nav"]))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"NEXT.md"}
    assert len(listed) == len(set(listed))
    assert set(listed) == pages
    linked = set(re.findall(r"\(docs/([\w-]+\.md)", (ROOT / "README.md").read_text("utf-8")))
    assert pages - linked - {"index.md"} == set()


def test_the_picture_of_the_parts_shows_those_that_there_are() -> None:
    spec = importlib.util.spec_from_file_location("record", ROOT / "docs/pictures/record.py")
    assert spec is not None
    assert spec.loader is not None
    record = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(record)
    assert (ROOT / "docs/pictures/parts.svg").read_text("utf-8") == record.parts(), "run: make pictures"
