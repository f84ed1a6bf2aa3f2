"""Checks the HTML of a message against what Matrix lets clients show (client-server API 1.16, m.room.message msgtypes)."""

from __future__ import annotations

from html.parser import HTMLParser

ALLOWED: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("del", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "p", "ul", "sup", "sub", "li", "b", "i", "u", "strong", "em"),
        frozenset(),
    ),
    **dict.fromkeys(
        ("s", "hr", "br", "table", "thead", "tbody", "tr", "th", "td", "caption", "pre", "details", "summary"), frozenset()
    ),
    "a": frozenset({"target", "href"}),
    "ol": frozenset({"start"}),
    "code": frozenset({"class"}),
    "span": frozenset({"data-mx-bg-color", "data-mx-color", "data-mx-spoiler", "data-mx-maths"}),
    "div": frozenset({"data-mx-maths"}),
    "img": frozenset({"width", "height", "alt", "title", "src"}),
}
SCHEMES = ("https:", "http:", "ftp:", "mailto:", "magnet:")
VOID = {"br", "hr", "img"}
DEEPEST = 100


class _Checker(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ALLOWED:
            raise ValueError(f"<{tag}> is not allowed")
        for name, value in attrs:
            if name not in ALLOWED[tag]:
                raise ValueError(f"<{tag} {name}> is not allowed")
            if name == "href" and not str(value).startswith(SCHEMES):
                raise ValueError(f"the link {value!r} has no allowed scheme")
            if name == "class" and not str(value).startswith("language-"):
                raise ValueError(f"the class {value!r} is not allowed")
        if tag not in VOID:
            self.open.append(tag)
        if len(self.open) > DEEPEST:
            raise ValueError("nested too deeply")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise ValueError(f"</{tag}> closes nothing")

    def handle_comment(self, data: str) -> None:
        raise ValueError(f"a comment: {data[:20]!r}")


def check_html(text: str) -> None:
    """Raise ValueError for HTML that a client would strip, or that is not closed."""
    checker = _Checker()
    checker.feed(text)
    checker.close()
    if checker.open:
        raise ValueError(f"<{checker.open[-1]}> is not closed")
