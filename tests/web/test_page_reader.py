"""Pages become text in a process of its own: many shapes, wrong charsets, and pages made to break a parser."""

from __future__ import annotations

import asyncio
import io
import sys
import zlib
from typing import TYPE_CHECKING

import pypdf
import pytest

from agent.errors import FetchFailed
from agent.tools import child_process
from agent.tools.web.fetch_protocol import Fetched
from agent.tools.web.page_reader import PageReader, PageText
from tests import programs
from tests.patience import PATIENCE
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Callable


async def read(
    body: bytes | str, media_type: str = "text/html", charset: str = "", *, marked: bool = True, whole: bool = False
) -> PageText:
    data = body.encode() if isinstance(body, str) else body
    page = Fetched(url="https://example.org/a/b", status=200, media_type=media_type, charset=charset, body=data)
    return await PageReader(spawn=programs.spawn).read(page, marked=marked, whole=whole)


SHAPES = [
    ("<h2>A  <i>b</i></h2><p>c<br>d</p>", "## A *b*\n\nc\nd"),
    ("<ul><li>a<ul><li>b</ul><li>c</ul>", "- a\n  - b\n- c"),
    ("<ol start=3><li><p>a</p><p>b</p><li>c</ol>", "3. a\n   b\n4. c"),
    ("<table><tr><th>a|b<th>c<tr><td>1<td></table>", "| a\\|b | c |\n| --- | --- |\n| 1 |  |"),
    ("<table role=presentation><tr><td><p>left</p><td>right</table>", "left\n\nright"),
    ("<table><tr><td><table><tr><td>x<td>y</table></table>", "| x | y |\n| --- | --- |"),
    ("<pre><code class='hljs language-rust'>fn a() {\n    b\n}</code></pre>", "```rust\nfn a() {\n    b\n}\n```"),
    ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
    ("<p>run <code>ls -l</code> or <kbd>q</kbd></p>", "run `ls -l` or `q`"),
    ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n>\n> b"),
    ("<dl><dt>a<dd>b</dl>", "**a**\n\nb"),
    (
        "<p><a href='/x'>y</a> <a href='//o.example/z'> z </a><a href='c'>c</a></p>",
        "[y](https://example.org/x) [z](https://o.example/z) [c](https://example.org/a/c)",
    ),
    ("<p><a href='#top'>up</a> <a href='javascript:x()'>js</a> <a href='mailto:a@b.c'>mail</a></p>", "up js mail"),
    ("<p><a href='/p'><img src=a.png alt='A dog'></a><img src=b.png></p>", "[(image: A dog)](https://example.org/p)"),
    ("<a href='/card'><h3>Title</h3><p>Text</p></a>", "### Title\n\nText"),
    ("<base href='https://base.example/d/'><p><a href='e'>f</a></p>", "[f](https://base.example/d/e)"),
    ("<details><summary>More</summary><p>inside</p></details>", "More\n\ninside"),
    ("<div>one<div>two</div>three</div>", "one\n\ntwo\n\nthree"),
    ("<p>a&nbsp;b &lt;c&gt; &amp;amp;</p>", "a\u00a0b <c> &amp;"),
    ("<p>a\u200bb\u202ec\U000e0041\U000e0042d\ufeff</p>", "abcd"),
    ("<p>a\0b</p>", "ab"),
    ("<center><font size=7>Old</font> page</center>", "Old page"),
    ("<p>unclosed <b>bold <i>both</b> end", "unclosed **bold *both*** *end*"),
    ("<hr><p>x</p>", "---\n\nx"),
]


@pytest.mark.cpu_seconds(300)
async def test_shapes_become_markdown() -> None:
    found = {html: (await read(html)).text for html, _ in SHAPES}
    assert found == dict(SHAPES)


async def test_the_content_of_a_page_is_told_from_its_furniture() -> None:
    words = "A sentence that belongs to the article itself. " * 10
    html = (
        "<body><header><h1>Site</h1></header><nav>Menu</nav><div role=search>Find</div>"
        f"<article><header><h1>Article</h1></header>{words}<aside>Advert</aside></article><article>Teaser</article><footer>Imprint</footer>"
    )
    assert (await read(html)).text == f"# Article\n\n{words.strip()}"
    whole = (await read(html, whole=True)).text
    assert all(word in whole for word in ("Site", "Menu", "Find", "Advert", "Teaser", "Imprint"))


async def test_a_small_main_part_is_not_the_page() -> None:
    words = "The text is outside of the main element. " * 20
    assert words.strip() in (await read(f"<main>Loading</main><div>{words}</div>")).text


async def test_plain_text_and_json_stay_as_they_are() -> None:
    assert (await read("  # a\r\n<b>\r\n", "text/plain")).text == "# a\n<b>"
    assert (await read('{"a": "<p>"}', "application/json")).text == '{"a": "<p>"}'
    assert (await read("<!-- x --><!DOCTYPE html><p>a</p>", "")).text == "a"
    assert (await read("<p>no page</p>", "text/plain")).text == "<p>no page</p>"


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        ("Grüße".encode(), "utf-8"),
        ("Grüße".encode(), "iso-8859-1; x"),
        ("Grüße".encode(), "zlib_codec"),
        ("Grüße".encode(), "no-such-charset"),
        ("Grüße".encode("latin-1"), "utf-8"),
        ("Grüße".encode("latin-1"), ""),
        ("Grüße".encode("cp1252"), "iso-8859-1"),
        ("Grüße".encode("utf-16"), ""),
        (b"\xef\xbb\xbf" + "Grüße".encode(), "latin-1"),
        ("Grüße".encode("utf-16-be"), "utf-16be"),
    ],
)
async def test_a_wrong_charset_is_seen_through(body: bytes, charset: str) -> None:
    assert (await read(body, "text/plain", charset)).text == "Grüße"


async def test_a_page_may_name_its_own_charset() -> None:
    assert (await read("<meta charset=shift_jis><p>日本</p>".encode("shift_jis"))).text == "日本"
    assert (
        await read('<meta http-equiv=x content="text/html; charset=koi8-r"><p>Привет</p>'.encode("koi8-r"))
    ).text == "Привет"


@pytest.mark.cpu_seconds(300)
@parametrize_some(
    5,
    ("html", "words"),
    [
        ("<div>" * 20_000 + "deep" + "</div>" * 20_000, "deep"),
        ("<b>" * 20_000 + "deep", "deep"),
        ("<table><tr><td>" * 5_000 + "deep", "deep"),
        ("<ul><li>" * 10_000 + "deep", "deep"),
        ("<blockquote>" * 10_000 + "deep", "deep"),
        ("<p>a" * 100_000, "a"),
        ("<" * 300_000 + "<p>end", "end"),
        ("<p " + "a=b " * 50_000 + ">end", "end"),
        ("<!--" * 100_000 + "--><p>end", "end"),
        ("<p>" + "&" * 200_000 + "end", "end"),
        ("\0" * 200_000 + "<p>end", "end"),
        ("<style>" + "a{" * 100_000 + "</style><p>end", "end"),
        ("<style>" + ".a{display:none}" * 30_000 + "</style><p class=b>end", "end"),
        ("<p style='" + "color:(" * 30_000 + "'>end", "end"),
    ],
    ids=range(14),
)
async def test_a_page_made_to_be_hard_is_read_or_refused(html: str, words: str) -> None:
    try:
        assert words in (await read(html)).text
    except FetchFailed as error:
        assert "made so that it takes too" in str(error)  # noqa: PT017 (either is right)


@pytest.mark.long
@pytest.mark.cpu_seconds(300)
@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no limit on memory")
async def test_a_page_that_takes_more_memory_than_it_may_have_is_refused() -> None:
    page = Fetched(url="https://example.org/", status=200, media_type="text/html", body=b"<p>" * 4_000_000)
    with pytest.raises(FetchFailed, match="made so that it takes too"):
        await PageReader(seconds=PATIENCE).read(page)


class Sleeper:
    """Starts a program that says nothing, in the place of the parser."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process | None = None
        self.started = asyncio.Event()

    async def __call__(self, *_: str, **options: object) -> asyncio.subprocess.Process:
        self.process = await asyncio.create_subprocess_exec("sleep", "1000", **options)  # type: ignore[arg-type]
        self.started.set()
        return self.process


async def test_a_parser_that_hangs_is_ended() -> None:
    sleeper = Sleeper()
    page = Fetched(url="https://example.org/", status=200, media_type="text/html", body=b"<p>x")
    with pytest.raises(FetchFailed, match=r"takes longer than 0\.2 seconds to read"):
        await PageReader(spawn=sleeper, seconds=0.2).read(page)
    assert sleeper.process is not None
    assert sleeper.process.returncode == -9


async def test_a_cancelled_reading_ends_its_process() -> None:
    sleeper = Sleeper()
    page = Fetched(url="https://example.org/", status=200, media_type="text/html", body=b"<p>x")
    task = asyncio.create_task(PageReader(spawn=sleeper).read(page))
    await asyncio.wait_for(sleeper.started.wait(), PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sleeper.process is not None
    assert sleeper.process.returncode == -9


async def test_the_process_has_none_of_the_gateways_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    given: dict[str, object] = {}

    async def spawn(*command: str, **options: object) -> asyncio.subprocess.Process:
        given.update(options)
        return await asyncio.create_subprocess_exec(*command, **options)  # type: ignore[arg-type]

    await PageReader(spawn=spawn).read(Fetched(url="https://example.org/", status=200, media_type="text/html", body=b"<p>x"))
    assert isinstance(given["env"], dict)
    assert set(given["env"]) <= set(child_process.KEPT)


BLOCK = 1_000_000
BLANKS = b" " * BLOCK


def pdf(*texts: str, title: str = "", bomb: int = 0) -> bytes:
    """Write a PDF file with a page for each text; ``bomb`` bytes of blanks, packed, come before the text of the first."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids = []
    for number, text in enumerate(texts):
        packed = deflated(bomb if number == 0 else 0, f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode())
        kids.append(len(objects) + 1)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /Contents {len(objects) + 2} 0 R /MediaBox [0 0 612 792] "
            "/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>".encode()
        )
        objects.append(b"<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(packed), packed))
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(f'{kid} 0 R' for kid in kids)}] >>".encode()
    objects.append(f"<< /Title ({title}) >>".encode())
    return assembled(objects)


def deflated(blanks: int, rest: bytes) -> bytes:
    """Pack blanks and what follows them: the packed form of one block of them is written again and again, which takes no time."""
    whole, left = divmod(blanks, BLOCK)
    packing = zlib.compressobj(9)
    begin = packing.compress(b" " * left) + packing.flush(zlib.Z_FULL_FLUSH)
    block = packing.compress(b" " * BLOCK) + packing.flush(zlib.Z_FULL_FLUSH)
    end = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    checked = zlib.adler32(b" " * left)
    for _ in range(whole):
        checked = zlib.adler32(BLANKS, checked)
    checksum = zlib.adler32(rest, checked).to_bytes(4, "big")
    return begin + block * whole + end.compress(rest) + end.flush() + checksum


def assembled(objects: list[bytes]) -> bytes:
    """Write a file of these objects: the first is the catalog, the last the information."""
    out = bytearray(b"%PDF-1.4\n")
    table = b"0000000000 65535 f \n"
    for number, one in enumerate(objects, 1):
        table += b"%010d 00000 n \n" % len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    size, start = len(objects) + 1, len(out)
    out += b"xref\n0 %d\n%strailer\n<< /Root 1 0 R /Info %d 0 R /Size %d >>\n" % (size, table, size - 1, size)
    return bytes(out) + b"startxref\n%d\n%%%%EOF" % start


async def test_the_text_of_a_pdf_comes_with_its_pages() -> None:
    found = await read(pdf("First page", "Second page", title="A report"), "application/pdf")
    assert found.title == "A report"
    assert found.text == "[page 1 of 2]\nFirst page\n\n[page 2 of 2]\nSecond page"


async def test_a_pdf_is_recognised_by_its_content() -> None:
    assert "Hello" in (await read(pdf("Hello"), "application/octet-stream")).text


async def test_a_locked_pdf_is_told() -> None:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("Secret")))
    writer.encrypt("password", algorithm="RC4-128")
    data = io.BytesIO()
    writer.write(data)
    with pytest.raises(FetchFailed, match="locked with a password"):
        await read(data.getvalue(), "application/pdf")


async def test_a_pdf_of_pictures_is_told() -> None:
    with pytest.raises(FetchFailed, match="without text"):
        await read(pdf("", ""), "application/pdf")


@pytest.mark.cpu_seconds(300)
@parametrize_some(
    3,
    "body",
    [
        lambda: pdf("x", bomb=900_000_000),  # only where it is used: it would be written at each collection
        lambda: assembled([b"<< /Type /Catalog /Pages 1 0 R >>", b"<< >>"]),
        lambda: assembled([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Count 9 /Kids [2 0 R 2 0 R] >>", b"<< >>"]),
        lambda: assembled([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Count 99999999 /Kids [] >>", b"<< >>"]),
        lambda: b"%PDF-1.4\n" + b"[" * 200_000,
        lambda: b"%PDF-1.4\n" + b"<< /A " * 100_000,
        lambda: b"%PDF-1.4\nxref\n0 99999999\n" + b"0000000000 65535 f \n" * 1000,
        lambda: b"%PDF-" + bytes(100_000),
    ],
    ids=["bomb", "own pages", "circle", "count", "brackets", "dictionaries", "table", "zeros"],
)
async def test_a_hostile_pdf_is_refused_in_words(body: Callable[[], bytes]) -> None:
    with pytest.raises(FetchFailed, match=r"^it (?:is|takes) "):
        await read(body(), "application/pdf")
