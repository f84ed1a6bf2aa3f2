"""Documents as other programs write them, and some that no honest program does."""

from __future__ import annotations

import io
import zipfile
from datetime import date
from typing import Any

CONTENT_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Override PartName="/word/document.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def run(text: str, facts: str = "") -> str:
    facts = f"<w:rPr>{facts}</w:rPr>" if facts else ""
    return f'<w:r>{facts}<w:t xml:space="preserve">{text}</w:t></w:r>'


def paragraph(*runs: str, facts: str = "") -> str:
    return f"<w:p>{f'<w:pPr>{facts}</w:pPr>' if facts else ''}{''.join(runs)}</w:p>"


def word(body: str, more: dict[str, str | bytes] | None = None, *, before: str = "") -> bytes:
    """A Word file of these paragraphs. ``more``: further parts; ``before``: what stands before the root element."""
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": CONTENT_TYPES,
        "_rels/.rels": RELATIONS,
        "word/document.xml": f"{before}<w:document {W}><w:body>{body}</w:body></w:document>",
    }
    return packed(parts | (more or {}))


def packed(parts: dict[str, str | bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()


def excel() -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Budget"
    rows: list[list[Any]] = [
        ["Item", "Cost", "When", "Note"],
        ["Rent", 1200.5, date(2026, 1, 2), "a|b"],
        ["HIDDENROW", 1, None, None],
        ["Sum", "=SUM(B2:B3)", None, None],
    ]
    for row in rows:
        sheet.append(row)
    sheet.row_dimensions[3].hidden = True
    sheet["F2"] = "HIDDENCOLUMN"
    sheet.column_dimensions["F"].hidden = True
    hidden = book.create_sheet("Secret")
    hidden["A1"] = "HIDDENSHEET"
    hidden.sheet_state = "veryHidden"
    other = book.create_sheet("Other")
    other["C5"] = True
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def workbook(sheets: dict[str, dict[str, Any]]) -> bytes:
    """Return an Excel file of sheets with these cells."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, cells in sheets.items():
        sheet = book.create_sheet(title)
        for place, value in cells.items():
            sheet[place] = value
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def powerpoint() -> bytes:
    from pptx import Presentation
    from pptx.dml.color import RGBColor
    from pptx.util import Inches

    show = Presentation()
    first = show.slides.add_slide(show.slide_layouts[1])
    first.shapes.title.text = "Plan"
    first.placeholders[1].text = "one\ntwo"
    first.notes_slide.notes_text_frame.text = "say hello"
    beside = first.shapes.add_textbox(Inches(-20), 0, Inches(1), Inches(1))
    beside.text_frame.text = "BESIDE"
    white = first.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.paragraphs[0].add_run()
    white.text = "pale"
    white.font.color.rgb = RGBColor(255, 255, 255)
    table = first.shapes.add_table(2, 2, 0, 0, Inches(4), Inches(1)).table
    for place, text in enumerate(("Name", "Age", "Anna", "41")):
        table.cell(place // 2, place % 2).text = text
    hidden = show.slides.add_slide(show.slide_layouts[1])
    hidden.shapes.title.text = "HIDDENSLIDE"
    hidden.element.set("show", "0")
    last = show.slides.add_slide(show.slide_layouts[5])
    last.shapes.title.text = "End"
    made = io.BytesIO()
    show.save(made)
    return made.getvalue()


def pdf(pages: list[str], *, streams: list[str] | None = None) -> bytes:
    """A PDF file with a text for each page, or with ``streams`` of drawing steps. Helvetica is under the name F1."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for stream in streams or [drawn(text) for text in pages]:
        content = stream.encode("latin-1")
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(content), content))
        facts = b"/MediaBox[0 0 595 842]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R" % len(objects)
        objects.append(b"<</Type/Page/Parent 2 0 R%s>>" % facts)
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<</Type/Pages/Count %d/Kids[%s]>>" % (len(kids), b" ".join(kids))
    out, starts = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, 1):
        starts.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(b"%010d 00000 n \n" % at for at in starts)
    return bytes(out + b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, table))


def drawn(text: str) -> str:
    return "BT /F1 10 Tf 12 TL 50 800 Td " + " ".join(f"({line}) Tj T*" for line in text.split("\n")) + " ET"


def epub(chapters: list[str]) -> bytes:
    names = [f"c{number}.xhtml" for number in range(len(chapters))]
    items = "".join(f'<item id="i{n}" href="{name}" media-type="application/xhtml+xml"/>' for n, name in enumerate(names))
    order = "".join(f'<itemref idref="i{n}"/>' for n in range(len(names)))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr(
            "META-INF/container.xml", '<container><rootfiles><rootfile full-path="o/b.opf"/></rootfiles></container>'
        )
        archive.writestr("o/b.opf", f"<package><manifest>{items}</manifest><spine>{order}</spine></package>")
        for name, text in zip(names, chapters, strict=True):
            archive.writestr(f"o/{name}", f"<!DOCTYPE html><html><body>{text}</body></html>")
    return made.getvalue()
