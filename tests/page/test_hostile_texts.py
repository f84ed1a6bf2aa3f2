"""Whatever a text holds, the page is given texts and the names of a few harmless elements, and files are never opened as pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.web.stored_files import plain_name
from gateway.page.browsers import browser_name
from gateway.page.markdown_tree import LONGEST, tree_of
from tests.page.conftest import PageVillage
from tests.page.hostile_texts import TEXTS
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

    from tests.page.conftest import ServedPage

ELEMENTS = {
    "p",
    "blockquote",
    "ul",
    "ol",
    "li",
    "em",
    "strong",
    "s",
    "a",
    "code",
    "pre",
    "br",
    "hr",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
}
ATTRIBUTES = {"a": {"href"}, "ol": {"start"}, "pre": {"lang"}, "th": {"align"}, "td": {"align"}}


def check(node: Any) -> None:
    if isinstance(node, str):
        return
    name, *rest = node
    assert name in ELEMENTS
    given_ = rest.pop(0) if rest and isinstance(rest[0], dict) else {}
    assert set(given_) <= ATTRIBUTES.get(name, set())
    if "href" in given_:
        assert given_["href"].lower().startswith(("http://", "https://", "mailto:"))
    for child in rest:
        check(child)


def test_there_are_enough_of_them() -> None:
    assert len(set(TEXTS)) >= 200


@pytest.mark.sec(19)
@pytest.mark.sec(46)
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_text_becomes_text_and_harmless_elements(text: str) -> None:
    tree = tree_of(text)
    for node in tree:
        check(node)
    json.dumps(tree)
    for name in (plain_name(text), browser_name(text)):
        assert name
        assert not set(name) & set("/\\\n\r\x00") or name == browser_name(text)
        assert "\n" not in name


@given(st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from("*_`[]()<>!#|-\n 1.\\~&"), max_size=300))
def test_any_text_becomes_text_and_harmless_elements(text: str) -> None:
    for node in tree_of(text):
        check(node)


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "> " * 20_000, "*a " * 30_000, "x" * (LONGEST + 1), "- " * 9000, "|" * 40_000, "\x00", ""]
)
def test_a_text_that_is_made_to_be_slow_or_deep_is_shown_as_it_is(text: str) -> None:
    for node in tree_of(text):
        check(node)


def words(node: Any) -> str:
    if isinstance(node, str):
        return node
    return "".join(words(child) for child in node[1:] if not isinstance(child, dict))


def test_markdown_keeps_its_words_and_its_form() -> None:
    tree = tree_of(
        "# A *b*\n\n3. one\n4. two\n\n| x | y |\n|:-:|--:|\n| 1 | 2 |\n\n```py\nz\n```\n[l](https://a.example) ~~s~~"
    )
    assert tree[0] == ["h1", "A ", ["em", "b"]]
    assert tree[1] == ["ol", {"start": 3}, ["li", "one"], ["li", "two"]]
    assert tree[2][0] == "table"
    assert tree[3] == ["pre", {"lang": "py"}, "z\n"]
    assert tree[4] == ["p", ["a", {"href": "https://a.example"}, "l"], " ", ["s", "s"]]
    assert words(["x", *tree]).startswith("A bonetwo")


@pytest.mark.sec(19)
@parametrize_some(2, "media_type", ["text/html", "image/svg+xml", "application/xhtml+xml", "text/xml", "application/pdf", "x"])
async def test_a_file_is_saved_and_never_opened_as_a_page(served: ServedPage, media_type: str) -> None:
    tab = await served.tab()
    name = '<img src=x onerror=alert(1)>\r\nx-evil: 1".html'
    answer = await tab.client.post(
        "/page/upload",
        params={"name": name, "type": media_type},
        content=b"<script>window.__hit=1</script>",
        headers={"origin": tab.base, "x-homebody-csrf": tab.csrf},
    )
    stored = answer.json()["result"]
    got = await tab.client.get(f"/page/file/{stored['id']}")
    assert got.status_code == 200
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
    assert "sandbox" in got.headers["content-security-policy"]
    assert "x-evil" not in got.headers


async def test_a_picture_is_shown_under_a_policy_that_runs_nothing(served: ServedPage) -> None:
    tab = await served.tab()
    stored = (await tab.post("/page/upload?name=a.png&type=image/png", b"\x89PNG")).json()["result"]
    got = await tab.client.get(f"/page/file/{stored['id']}")
    assert (got.headers["content-type"], got.headers["x-content-type-options"]) == ("image/png", "nosniff")
    assert got.headers["content-security-policy"].startswith("default-src 'none'; sandbox")


@parametrize_some(
    2, "query", ["offset=-1", "offset=x", "id=../x&offset=0", "id=" + "0" * 32 + "&offset=0", "id=%00&offset=1", "offset=1e3"]
)
async def test_a_piece_that_belongs_nowhere_is_refused(served: ServedPage, query: str) -> None:
    tab = await served.tab()
    answer = await tab.post(f"/page/upload?{query}", b"x")
    assert answer.status_code == 400, answer.text


ADDRESSES = {
    "See https://example.org/a_b_c?x=1&y=2.": ["https://example.org/a_b_c?x=1&y=2"],
    "(https://de.wikipedia.org/wiki/Mars_(Planet)), http://nas.lan:8080/": [
        "https://de.wikipedia.org/wiki/Mars_(Planet)",
        "http://nas.lan:8080/",
    ],
    "**https://example.org** and `https://example.org/code`": ["https://example.org"],
    "[**see https://other.example** now](https://example.org)": ["https://example.org"],
    "<https://example.org/x>": ["https://example.org/x"],
    "https:// nothttps://example.org ftp://x.example javascript:alert(1) http://.": [],
    "http://example.org/" + ")" * 3000: ["http://example.org/"],
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_addresses_are_links_without_the_punctuation_behind_them_and_no_link_is_in_another(text: str) -> None:
    def links(node: Any, within: bool = False) -> list[str]:
        if isinstance(node, str):
            return []
        assert not (within and node[0] == "a")
        own = [node[1]["href"]] if node[0] == "a" else []
        return own + [one for child in node[1:] if not isinstance(child, dict) for one in links(child, within or bool(own))]

    def words(node: Any) -> str:
        return node if isinstance(node, str) else "".join(words(one) for one in node[1:] if not isinstance(one, dict))

    tree = tree_of(text)
    assert [link for node in tree for link in links(node)] == ADDRESSES[text]
    if not set(text) & set("*`[<"):
        assert "".join(map(words, tree)) == text


async def test_a_file_that_is_too_large_is_refused_before_its_first_piece(tmp_path: Path) -> None:
    village = PageVillage(tmp_path, messages={"attachments": {"maxBytes": 3_000_000, "totalBytes": 3_500_000}})
    async with village.page() as served:
        tab = await served.tab()
        answer = await tab.post("/page/upload?name=a.bin&type=x/y&size=3000001", b"")
        assert answer.status_code == 400
        assert answer.json()["error"]["message"] == "a file may have 2.861 MB at most"
        assert "homebody config set messages.attachments.maxBytes" in answer.json()["error"]["hint"]
        german = await tab.post("/page/upload?name=a.bin&size=3000001", b"", x_homebody_language="de")
        assert german.json()["error"]["message"] == "Eine Datei darf höchstens 2.861 MB haben"
        lied = (await tab.post("/page/upload?name=a.bin&size=1", b"")).json()["result"]["id"]
        assert (await tab.post(f"/page/upload?id={lied}&offset=2999999", b"xx")).status_code == 400
        ids = [(await tab.post("/page/upload?name=b.bin", b"x" * 400_000)).json()["result"]["id"] for _ in range(9)]
        said = await tab.post("/page/call/chat.say", {"session": "agent:main:main", "text": "", "key": "k" * 20, "files": ids})
        assert said.json()["error"]["message"] == "the files of a message may have 3.338 MB together"
