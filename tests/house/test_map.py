"""The map in ARCHITECTURE.md is true: each path that it names exists, and so does each name in the code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("agent", "channels", "gateway", "memory")
TOP = {*PRODUCT, "benchmarks", "bundled_skills", "docker", "docs", "tests", "workspace_templates"}
PARTS = {"The parts of the gateway": "gateway", "The parts of the agent": "agent", "The parts of memory": "memory"}
ELSEWHERE = frozenset({"APScheduler"})
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?P<path>[\w<>*/-]+(?:/|\.(?:py|md|js|json|svg)))(?:: (?P<name>[\w.]+))?")
_NAME = re.compile(r"_*[A-Za-z][A-Za-z0-9]*(?:[._][A-Za-z0-9_]+)+|_?[A-Za-z]+[a-z][A-Z]\w*|[A-Z][a-z]+[A-Za-z]*")


@cache
def words(*files: Path) -> frozenset[str]:
    """Return the words of files, of the product's code when none are given."""
    given = files or [file for package in PRODUCT for file in (ROOT / package).rglob("*.py")]
    return frozenset(word for file in given for word in re.findall(r"\w+", file.read_text("utf-8")))


def found(path: str, folder: str, part: str) -> list[Path]:
    """Return the files of a path: from the root, in the ``part`` whose table it is in, or in the ``folder`` named before it."""
    pattern = re.sub(r"<\w+>", "*", path.rstrip("/"))
    starts = [""] if path.partition("/")[0] in TOP and not part else [part, folder] if part else [folder]
    return next((files for start in starts if (files := sorted((ROOT / start).glob(pattern)))), [])


def lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield what is marked as code in each row or paragraph, with the part whose table it is in."""
    part = ""
    for paragraph in re.split(r"\n(?!  )", text):
        if paragraph.startswith("#"):
            part = next((PARTS[one] for one in PARTS if one in paragraph), "")
        yield part, _CODE.findall(paragraph)


def wrong(text: str) -> Iterator[str]:
    """Yield what a map says that is not so. A file name without a folder is in the folder of the path before it."""
    for part, marked in lines(text):
        folder = ""
        for one in marked:
            mark = _PATH.fullmatch(one)
            if mark is None:
                if _NAME.fullmatch(one) and not set(one.split(".")) <= words() | ELSEWHERE:
                    yield f"{one}: nothing in the code has this name"
            elif part or mark["path"].partition("/")[0] in TOP or re.fullmatch(r"\w+\.py", mark["path"]):
                files = found(mark["path"], folder, part)
                if not files or (mark["name"] and not set(mark["name"].split(".")) <= words(*files)):
                    yield f"{one}: not in {folder or 'the repository'}"
                elif not (part and folder):
                    folder = str((files[0] if files[0].is_dir() else files[0].parent).relative_to(ROOT))


def test_each_path_and_name_of_the_map_exists() -> None:
    assert list(wrong((ROOT / "ARCHITECTURE.md").read_text("utf-8"))) == []


def test_what_does_not_exist_is_seen() -> None:
    assert list(wrong("| x | `gateway/turns/worker.py`, `no_such.py`; `ending.py: unasked_of`, `ending.py: no_such` |")) == [
        "no_such.py: not in gateway/turns",
        "ending.py: no_such: not in gateway/turns",
    ]
    assert list(wrong("`channels/<platform>/channel.py` gives a `NoSuchThing`")) == [
        "NoSuchThing: nothing in the code has this name"
    ]
