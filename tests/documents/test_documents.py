"""Documents become text, part by part; what their programs do not show is not shown; hostile ones cost a process and nothing else."""

from __future__ import annotations

import asyncio
import io
import re
import sys
import zipfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pypdf
import pytest

from agent.tools.documents import DocumentPart, DocumentRefused, DocumentWish, part_text
from agent.tools.file_tool_context import FileToolContext
from gateway.documents import pdf
from gateway.documents.reader import DocumentParser
from tests import programs
from tests.documents import made
from tests.sampling import parametrize_some
from tests.tools.house import House

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.cpu_seconds(300)


WHITE = '<w:color w:val="FFFFFF"/>'


async def read(data: bytes, name: str = "a", *, received: bool = True, **wish: Any) -> DocumentPart:
    """Read it by a process that is forked, which costs a tenth; hostile ones are read by a real one."""
    parser = DocumentParser(spawn=programs.spawn)
    kind = parser.kind(data, name, received=received)
    assert kind is not None
    return await parser.read(data, DocumentWish(kind=kind, **({"page": 1, "offset": 1, "limit": None, "room": 16_000} | wish)))


async def test_a_word_file_becomes_markdown_without_what_word_does_not_show() -> None:
    body = (
        made.paragraph(made.run("Title"), facts='<w:pStyle w:val="Heading1"/>')
        + made.paragraph(
            made.run("shown "),
            made.run("VANISHED", "<w:vanish/>"),
            made.run("not vanished ", '<w:vanish w:val="0"/>'),
            made.run("WHITE", WHITE),
            made.run("TINY", '<w:sz w:val="2"/>'),
            made.run("white on black ", WHITE + '<w:shd w:val="clear" w:fill="000000"/>'),
            made.run("bold", "<w:b/>"),
        )
        + made.paragraph(made.run("BYSTYLE", '<w:rStyle w:val="Ghost"/>'))
        + f"<w:tbl><w:tr><w:tc>{made.paragraph(made.run('a'))}</w:tc>"
        + f"<w:tc>{made.paragraph(made.run('head', WHITE))}</w:tc></w:tr></w:tbl>"
    )
    styles = f'<w:styles {made.W}><w:style w:type="character" w:styleId="Ghost"><w:rPr><w:vanish/></w:rPr></w:style></w:styles>'
    part = await read(made.word(body, {"word/styles.xml": styles}))
    shown = "# Title\n\nshown not vanished white on black **bold**\n\n| a | [written in white: head] |\n| --- | --- |"
    assert part.text == shown
    assert part.notes == ("24 characters that Word does not show were left out",)
    assert part_text(part).startswith("[Word; 24 characters")


async def test_an_excel_file_shows_values_and_no_hidden_sheets_rows_or_columns() -> None:
    part = await read(made.excel())
    assert part.text.split("\n") == [
        "[sheet 1 of 2]",
        "## Budget",
        "|  | A | B | C | D |",
        "| --- | --- | --- | --- | --- |",
        "| 1 | Item | Cost | When | Note |",
        "| 2 | Rent | 1200.5 | 2026-01-02 | a\\|b |",
        "| 4 | Sum | [formula without a stored value] |",
        "[sheet 2 of 2]",
        "## Other",
        "|  | A | B | C |",
        "| --- | --- | --- | --- |",
        "| 5 |  |  | TRUE |",
    ]
    assert part.notes == ("1 hidden sheet was left out", "hidden rows or columns were left out")
    assert "HIDDEN" not in part_text(part)


async def test_an_excel_sheet_with_values_far_to_the_right_is_not_called_empty() -> None:
    part = await read(made.workbook({"Far": {"XFD2": 1}, "Both": {"A1": "near", "SH1": "far"}, "None": {}}))
    assert "## Far\n[nothing in the first 500 columns; there are values further right]" in part.text
    assert "| 1 | near |" in part.text
    assert "## None\n[empty]" in part.text
    assert part.notes == ("only the first 500 columns of a sheet were read",)


async def test_a_powerpoint_file_shows_slides_tables_and_notes_and_nothing_hidden() -> None:
    part = await read(made.powerpoint())
    assert part.text.split("\n") == [
        "[slide 1 of 2]",
        "## Plan",
        "- one",
        "- two",
        "- [written in white: pale]",
        "| Name | Age |",
        "| --- | --- |",
        "| Anna | 41 |",
        "[speaker's notes] say hello",
        "[slide 2 of 2]",
        "## End",
    ]
    assert part.contents == "[contents]\n- Plan (slide 1)\n- End (slide 2)"
    assert part.notes == ("1 hidden slide was left out", "shapes that a slide does not show were left out")


async def test_a_book_shows_its_chapters() -> None:
    part = await read(made.epub(["<h1>One</h1><p>a</p>", "<p>b<span style='display:none'>HIDDEN</span></p>"]), page=2)
    assert (part.text, part.unit, part.count) == ("[chapter 2 of 2]\nb", "chapter", 2)
    assert part.notes == ("text that the book hides from its readers was left out",)


async def test_text_in_old_encodings_and_received_pages_are_read() -> None:
    assert (await read("Grüße, naïve café".encode("cp1252"))).text == "Grüße, naïve café"
    assert (await read("Grüße 你好".encode("utf-16"))).text == "Grüße 你好"
    page = b"<p>Hi<p style='color:white'>WHITE"
    assert (await read(page, "a.html")).text == "Hi"
    parser = DocumentParser()
    assert parser.kind(page, "a.html", received=False) is None  # the agent's own is read as it is, and can be edited
    assert parser.kind("Grüße".encode(), "a.txt", received=True) is None


async def test_a_pdf_file_shows_what_it_paints() -> None:
    hidden = made.drawn("seen") + " BT 3 Tr /F1 9 Tf 50 100 Td (UNPAINTED) Tj ET BT 0 Tr /F1 9 Tf 50 50 Td (again) Tj ET"
    saved = made.drawn("above") + " q BT 3 Tr /F1 9 Tf 50 100 Td (UNPAINTED) Tj ET Q BT /F1 9 Tf 50 50 Td (below) Tj ET"
    scanned = "BT 3 Tr /F1 9 Tf 50 100 Td (a scan) Tj ET"
    part = await read(made.pdf([], streams=[hidden, saved, scanned, ""]))
    assert part.text.split("\n") == [
        *("[page 1 of 4]", "seen", "again", "[page 2 of 4]", "above", "below", "[page 3 of 4]", "a scan"),
        *("[page 4 of 4]", "[no text on this page]"),
    ]
    assert part.notes == ("text that is on a page but not painted was left out",)


@pytest.mark.parametrize(
    ("steps", "text", "note"),
    [
        ("1 g BT /F1 9 Tf 50 100 Td (WHITE) Tj ET", "seen", pdf.WHITE),
        ("1 1 1 rg BT /F1 9 Tf 50 100 Td (WHITE) Tj ET", "seen", pdf.WHITE),
        ("0 0 0 0 k BT /F1 9 Tf 50 100 Td (WHITE) Tj ET", "seen", pdf.WHITE),
        ("/DeviceRGB cs 1 1 1 sc BT /F1 9 Tf 50 100 Td (WHITE) Tj ET", "seen", pdf.WHITE),
        ("1 g 0 0 600 800 re f BT /F1 9 Tf 50 100 Td (WHITE) Tj ET", "seen", pdf.WHITE),
        ("q 1 g Q BT /F1 9 Tf 50 100 Td (black) Tj ET", "seen\nblack", ""),
        ("0 0 1 rg 0 0 600 800 re f 1 g BT /F1 9 Tf 50 100 Td (on blue) Tj ET", "seen\non blue", pdf.ON_COLOUR),
        ("1 g 0 g BT /F1 9 Tf 50 100 Td (black) Tj ET", "seen\nblack", ""),
    ],
)
async def test_white_text_of_a_pdf_file_is_left_out_or_told_of(steps: str, text: str, note: str) -> None:
    part = await read(made.pdf([], streams=[f"{made.drawn('seen')} {steps}"]))
    assert part.text == f"[page 1 of 1]\n{text}"
    assert part.notes == ((note,) if note else ())


async def test_a_page_of_white_text_alone_is_not_read_and_a_scanned_one_says_that_it_is_a_picture() -> None:
    part = await read(made.pdf([], streams=["1 g BT /F1 9 Tf 50 100 Td (WHITE) Tj ET"]))
    assert part.text == "[page 1 of 1]\n[no text on this page]"
    assert part.notes == (pdf.WHITE,)
    from PIL import Image

    drawn = io.BytesIO()
    Image.new("RGB", (60, 80), (200, 200, 200)).save(drawn, "PDF")
    part = await read(drawn.getvalue())
    assert part.text == f"[page 1 of 1]\n{pdf.SCAN}"


async def test_the_bookmarks_of_a_pdf_file_are_its_table_of_contents() -> None:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(made.pdf(["one", "two", "three"])))
    above = writer.add_outline_item(title="Start", page_number=0)
    writer.add_outline_item(title="Details", page_number=2, parent=above)
    out = io.BytesIO()
    writer.write(out)
    assert (await read(out.getvalue())).contents == "[contents]\n- Start (page 1)\n- Details (page 3)"
    assert (await read(out.getvalue(), page=2)).contents == ""


BOMB = b"<w:t>" + b"0" * 30_000_000 + b"</w:t>"
LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
REFUSED = [
    (lambda: made.word("", {"word/media/a.bin": BOMB}), "not read: a part of it expands to more than 100 times its size"),
    (lambda: made.word("", before=LAUGHS), "not read: its XML declares entities"),
    (lambda: made.word("", {f"a{n}": b"" for n in range(10_001)}), "not read: it has 10,004 entries"),
    (lambda: made.word("")[:-30] + b"x" * 30, "damaged"),
    (lambda: made.packed({"[Content_Types].xml": "<a/>", "word/document.xml.x": ""}), "damaged"),
    (lambda: made.word("<w:p>" * 3_000), "damaged"),
    (lambda: made.word("<w:tbl><w:tr><w:tc>" * 2_000 + "</w:tc></w:tr></w:tbl>" * 2_000), "made so that it takes too much"),
    (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "in the format of Office before 2007"),
    (lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "locked with a password"),
    (lambda: b"%PDF-1.4\nnothing", "damaged"),
    (lambda: made.pdf([]), "without any page"),
]


@parametrize_some(4, ("make", "why"), REFUSED, ids=[why[:45] for _, why in REFUSED])
async def test_hostile_and_broken_files_are_refused_with_a_reason(make: Any, why: str) -> None:
    with pytest.raises(DocumentRefused, match="^" + why) as refused:
        await read(make())
    assert not re.search(r"[A-Z]\w+(Error|File)\b", str(refused.value)), "names of Python's are nothing to people"


async def test_a_file_that_says_less_than_it_holds_is_refused() -> None:
    data = bytearray(made.word("", {"word/media/a.bin": BOMB}))
    entry = next(one for one in zipfile.ZipFile(io.BytesIO(data)).infolist() if one.filename.endswith("a.bin"))
    size = entry.file_size.to_bytes(4, "little")
    data = data.replace(size, (20_000).to_bytes(4, "little"))  # in both of its headers
    part = await read(bytes(data))  # the part is never opened, and would be read up to what it says
    assert part.text == ""


async def test_a_locked_pdf_file_is_named() -> None:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(made.pdf(["one"])))
    writer.encrypt(user_password="pass", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    with pytest.raises(DocumentRefused, match=r"^locked with a password"):
        await read(out.getvalue())


async def test_a_page_that_takes_for_ever_leaves_those_before_it() -> None:
    class Slow(DocumentParser):
        def __init__(self) -> None:
            async def spawn(*command: str, **how: Any) -> asyncio.subprocess.Process:
                program = command[3].replace("from gateway.documents.parser import main;", impatient)
                return await asyncio.create_subprocess_exec(*command[:3], program, *command[4:], **how)

            super().__init__(spawn=spawn)

    impatient = "import gateway.documents.parser as p; p.CPU_SECONDS = 1; main = p.main;"
    slow = "BT /F1 10 Tf " + "(x) Tj T* " * 400_000 + "ET"
    data = made.pdf([], streams=[made.drawn("quick"), slow, made.drawn("after")])
    parser = Slow()
    wish = DocumentWish(kind="pdf", page=1, offset=1, limit=None, room=16_000)
    part = await parser.read(data, wish)
    assert (part.text, part.following) == ("[page 1 of 3]\nquick", (2, 1))
    with pytest.raises(DocumentRefused, match="takes too long to read; pages behind it may be readable: page 3"):
        await parser.read(data, DocumentWish(kind="pdf", page=2, offset=1, limit=None, room=16_000))


CURIOUS = """
import gateway.documents.pages as pages
from gateway.documents.excerpt import Document
def spy(data):
    import os, socket
    said = []
    def attempt(name, act):
        try:
            act()
        except OSError as error:
            said.append(name + " " + (error.strerror or "?"))
        else:
            said.append(name + " DONE")
    attempt("passwd", lambda: open("/etc/passwd").read())
    attempt("list", lambda: os.listdir("/"))
    attempt("home", lambda: open(os.path.expanduser("~/x"), "w"))
    attempt("socket", lambda: socket.socket(socket.AF_INET))
    attempt("unix", lambda: socket.socket(socket.AF_UNIX))
    attempt("program", lambda: os.posix_spawn("/bin/true", ["true"], {}))
    attempt("signal", lambda: os.kill(os.getppid(), 0))
    return Document(count=1, text=lambda _: "\\n".join(said))
pages.plain = spy
from gateway.documents import pdf
from gateway.documents.parser import main
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's means of confinement are Linux's")
async def test_the_reading_process_opens_no_file_and_reaches_nothing() -> None:
    async def spawn(*command: str, **how: Any) -> asyncio.subprocess.Process:
        path, _, call = command[3].partition("from gateway")
        program = f"{path}\n{CURIOUS}\n{call.partition('main;')[2].strip()}"
        return await asyncio.create_subprocess_exec(*command[:3], program, *command[4:], **how)

    part = await DocumentParser(spawn=spawn).read(b"x", DocumentWish(kind="text", page=1, offset=1, limit=None, room=9000))
    if "seccomp" in part.confined_by:
        assert "socket DONE" not in part.text
        assert "unix DONE" not in part.text
        assert "signal DONE" not in part.text
    if "landlock" in part.confined_by:
        assert [line for line in part.text.split("\n") if line.endswith("DONE")] == []


async def test_what_is_not_installed_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(DocumentRefused, match=r"^in the format of Excel, .*: make -C .* extras$"):
        await DocumentParser().read(b"PK", DocumentWish(kind="xlsx", page=1, offset=1, limit=None, room=9000))


class TestTheTool:
    """What the model gets of a document in its workspace."""

    def house(self, tmp_path: Path) -> House:
        house = House(tmp_path)
        house.desk = FileToolContext(sandbox=house.desk.sandbox, untrusted=house.desk.untrusted, documents=DocumentParser())
        from agent.tools.files import file_tools
        from agent.tools.toolbox import Toolbox

        house.box = Toolbox(file_tools(house.desk))
        return house

    async def test_three_hundred_pages_are_read_page_by_page_and_none_is_lost(self, tmp_path: Path) -> None:
        house = self.house(tmp_path)
        pages = ["\n".join(f"page {n} line {i} of the report on the house" for i in range(45)) for n in range(1, 301)]
        house.desk.sandbox.create(PurePosixPath("report.pdf"), made.pdf(pages))
        first = await house.call("read", path="report.pdf")
        assert first.text.startswith("[PDF, 300 pages]\n[page 1 of 300]\npage 1 line 0 of the report")
        assert len(first.text) <= 16_000
        middle = await house.call("read", path="report.pdf", page=150)
        assert "page 150 line 44 of the report" in middle.text
        assert middle.text.endswith("of 300; go on with page 157]")
        end = await house.call("read", path="report.pdf", page=299)
        assert end.text.endswith("page 300 line 44 of the report on the house")
        beyond = await house.call("read", path="report.pdf", page=301)
        assert beyond.is_error
        assert beyond.text == "report.pdf: it is shorter: it has 300 pages"

    async def test_received_documents_are_untrusted_and_own_ones_are_not(self, tmp_path: Path) -> None:
        house = self.house(tmp_path)
        for path in ("inbox/a.pdf", "own.pdf"):
            house.desk.sandbox.create(PurePosixPath(path), made.pdf(["one"]))
        assert (await house.call("read", path="inbox/a.pdf")).taint == ("file:inbox/a.pdf",)
        assert (await house.call("read", path="own.pdf")).taint == ()

    async def test_a_refusal_is_an_error_that_names_the_file(self, tmp_path: Path) -> None:
        house = self.house(tmp_path)
        house.desk.sandbox.create(PurePosixPath("a.docx"), made.word("", {"word/media/a.bin": BOMB}))
        answer = await house.call("read", path="a.docx")
        assert answer.is_error
        assert answer.text.startswith("a.docx: it is not read: a part of it expands to more than 100 times its size")
