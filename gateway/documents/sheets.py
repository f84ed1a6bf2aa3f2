"""Excel files: a part for each visible sheet, a line for each visible row with values. Runs in the parser's process.

Formulas appear as the values that Excel stored. Hidden sheets, rows and columns are left out.
"""

from __future__ import annotations

import importlib
import posixpath
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Any, Final
from xml.etree import ElementTree as ET

from agent.characters import without_smuggled
from gateway.documents.excerpt import Document, Unreadable
from gateway.documents.zip_archive import attribute, local, opened, xml_of

MAX_ROWS: Final = 200_000
"""Rows of a sheet that are read."""
MAX_COLUMNS: Final = 500
"""Columns of a sheet that are read."""
_COLUMNS: Final = 16_384
_FORMULA: Final = "[formula without a stored value]"


@dataclass
class _Hidden:
    rows: set[int] = field(default_factory=set)
    columns: set[int] = field(default_factory=set)
    formulas: set[tuple[int, int]] = field(default_factory=set)


def document(data: bytes) -> Document:
    """Open an Excel file. Raises Unreadable."""
    archive = opened(data)
    library = importlib.import_module("openpyxl")
    import io

    book = library.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"]
    if not sheets:
        raise Unreadable("without any visible sheet")
    notes: list[str] = []
    if hidden := len(book.worksheets) - len(sheets):
        notes.append(f"{hidden} hidden sheet{'s were' if hidden > 1 else ' was'} left out")
    paths = _paths(archive)

    def text(number: int) -> str:
        sheet = sheets[number - 1]
        unseen = _hidden(archive, paths.get(sheet.title, ""))
        note = "hidden rows or columns were left out"
        if (unseen.rows or unseen.columns) and note not in notes:
            notes.append(note)
        sheet.reset_dimensions()
        return "\n".join([f"## {_cell(sheet.title)}", *_lines(sheet.iter_rows(values_only=True), unseen, notes)])

    contents = [(sheet.title, number) for number, sheet in enumerate(sheets, 1)] if len(sheets) > 1 else []
    return Document(count=len(sheets), unit="sheet", text=text, contents=contents, notes=notes)


def _lines(rows: Iterator[Sequence[Any]], unseen: _Hidden, notes: list[str]) -> Iterator[str]:
    """Yield the rows as lines of a table, with their numbers, behind a line of column letters."""
    utils = importlib.import_module("openpyxl.utils")
    lines, widest, beyond = [], 0, False
    for number, row in enumerate(rows, 1):
        if number > MAX_ROWS:
            notes.append(f"only the first {MAX_ROWS:,} rows of a sheet were read")
            break
        if number in unseen.rows:
            continue
        beyond = beyond or any(value is not None for value in row[MAX_COLUMNS:])
        cells = {
            place: _FORMULA if value is None and (number, place) in unseen.formulas else value
            for place, value in enumerate(row[:MAX_COLUMNS], 1)
            if place not in unseen.columns
        }
        used = max((place for place, value in cells.items() if value is not None), default=0)
        if not used:
            continue
        widest = max(widest, used)
        shown = [_cell(value) for place, value in cells.items() if place <= used]
        lines.append(f"| {number} | " + " | ".join(shown) + " |")
    letters = [utils.get_column_letter(place) for place in range(1, widest + 1) if place not in unseen.columns]
    cut = f"only the first {MAX_COLUMNS} columns of a sheet were read"
    if beyond and cut not in notes:
        notes.append(cut)
    if not lines:
        yield f"[nothing in the first {MAX_COLUMNS} columns; there are values further right]" if beyond else "[empty]"
        return
    yield "|  | " + " | ".join(letters) + " |"
    yield "|" + " --- |" * (len(letters) + 1)
    yield from lines


def _cell(value: Any) -> str:
    """Return a value as people write it, on one line."""
    match value:
        case None:
            text = ""
        case bool():
            text = str(value).upper()
        case float():
            text = f"{value:.15g}"
        case datetime():
            text = value.isoformat(" ", "seconds").removesuffix(":00").removesuffix(" 00:00")
        case date() | time():
            text = value.isoformat()
        case _:
            text = " ".join(str(value).split())
    return without_smuggled(text).replace("|", "\\|")


def _paths(archive: zipfile.ZipFile) -> dict[str, str]:
    """Return where each sheet lies in the archive, by its name."""
    book, links = xml_of(archive, "xl/workbook.xml"), xml_of(archive, "xl/_rels/workbook.xml.rels")
    if book is None or links is None:
        return {}
    targets = {attribute(one, "Id"): attribute(one, "Target") or "" for one in links}
    found = {}
    for sheet in (one for one in book.iter() if local(one.tag) == "sheet"):
        name = next((value for key, value in sheet.attrib.items() if key == "name"), "")
        relation = next((value for key, value in sheet.attrib.items() if key.endswith("}id")), "")
        target = targets.get(relation, "")
        found[name] = target.lstrip("/") if target.startswith("/") else posixpath.normpath(f"xl/{target}")
    return found


def _hidden(archive: zipfile.ZipFile, path: str) -> _Hidden:
    """Return what a sheet hides, and which cells have a formula and no value. Reads the sheet as a stream."""
    found = _Hidden()
    if path not in archive.NameToInfo:
        return found
    with archive.open(path) as part:
        row = 0
        for event, element in ET.iterparse(part, ("start", "end")):  # noqa: S314 (entities are refused before)
            name = local(element.tag)
            if event == "start" and name == "row":
                said = element.get("r", "")
                row = int(said) if said.isdecimal() else row + 1
                if _true(element.get("hidden")) or element.get("ht") == "0":
                    found.rows.add(row)
            elif event == "start" and name == "col":
                _add_columns(found.columns, element)
            elif event == "end" and name == "c":
                _add_formula(found.formulas, element, row)
            if event == "end" and name in {"row", "c"}:
                element.clear()
    return found


def _add_columns(columns: set[int], element: ET.Element) -> None:
    first, last = element.get("min", ""), element.get("max", "")
    if (_true(element.get("hidden")) or element.get("width") == "0") and first.isdecimal() and last.isdecimal():
        columns.update(range(max(1, int(first)), min(int(last), _COLUMNS) + 1))


def _add_formula(formulas: set[tuple[int, int]], cell: ET.Element, row: int) -> None:
    names = {local(one.tag): one for one in cell}
    value = names.get("v")
    if "f" in names and (value is None or not value.text):
        letters = "".join(one for one in cell.get("r", "") if one.isalpha())
        column = 0
        for letter in letters[:3].upper():
            column = column * 26 + ord(letter) - 64
        formulas.add((row, column))


def _true(said: str | None) -> bool:
    return said in {"1", "true"}
