"""The HTTP APIs of Brave, Tavily and SearXNG on loopback, strict about what they are asked, as their documentation has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.peers.web import Answer, Seen, Write

PAGES = [
    {
        "title": "Bread <strong>recipes</strong> &amp; more",
        "url": "https://bread.example/a",
        "text": "Mix <b>flour</b> &#39;n\nwater",
    },
    {"title": "Rye", "url": "https://rye.example/", "text": "Rye bread takes time."},
    {"title": "Old", "url": "http://old.example/x?y=1", "text": "Old loaf."},
]


def answer(status: int, body: Any, *headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Said", "Content-Type: application/json", f"Content-Length: {len(data)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + data


def asked(request: Seen) -> dict[str, str]:
    pairs = parse_qsl(urlsplit(request.target).query, keep_blank_values=True, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def brave(key: str, pages: Sequence[dict[str, str]] = PAGES) -> Answer:
    async def handle(request: Seen, write: Write) -> None:
        wish = asked(request)
        right = (
            request.method == "GET"
            and urlsplit(request.target).path == "/res/v1/web/search"
            and set(wish) <= {"q", "count", "freshness"}
            and 1 <= len(wish["q"]) <= 400
            and 1 <= int(wish.get("count", 10)) <= 20
            and wish.get("freshness", "pd") in {"pd", "pw", "pm", "py"}
        )
        if request.headers.get("x-subscription-token") != key:
            await write(answer(422, {"type": "ErrorResponse", "error": {"code": "SUBSCRIPTION_TOKEN_INVALID", "status": 422}}))
        elif not right:
            await write(answer(422, {"type": "ErrorResponse", "error": {"code": "VALIDATION", "status": 422}}))
        else:
            results = [
                {
                    "type": "search_result",
                    "title": one["title"],
                    "url": one["url"],
                    "description": one["text"],
                    "age": "2 days ago",
                }
                for one in pages
            ]
            results[0]["page_age"] = "2026-02-27T08:00:00"
            found = {"type": "search", "query": {"original": wish["q"]}, "web": {"type": "search", "results": results}}
            await write(answer(200, found if pages else {"type": "search", "query": {}}))

    return handle


def tavily(key: str, pages: Sequence[dict[str, str]] = PAGES) -> Answer:
    async def handle(request: Seen, write: Write) -> None:
        if request.headers.get("authorization") != f"Bearer {key}":
            await write(answer(401, {"detail": {"error": "Unauthorized: missing or invalid API key."}}))
            return
        wish = json.loads(request.body)
        right = (
            (request.method, request.target) == ("POST", "/search")
            and request.headers["content-type"] == "application/json"
            and set(wish) <= {"query", "max_results", "time_range"}
            and isinstance(wish["query"], str)
            and 0 <= wish.get("max_results", 5) <= 20
            and wish.get("time_range", "day") in {"day", "week", "month", "year"}
        )
        results = [{"title": one["title"], "url": one["url"], "content": one["text"], "score": 0.9} for one in pages]
        await write(
            answer(200, {"query": wish["query"], "results": results, "response_time": 1})
            if right
            else answer(400, {"detail": "?"})
        )

    return handle


def searxng(pages: Sequence[dict[str, str]] = PAGES, *, formats: Sequence[str] = ("html", "json")) -> Answer:
    async def handle(request: Seen, write: Write) -> None:
        wish = asked(request)
        right = (
            request.method == "GET"
            and urlsplit(request.target).path.endswith("/search")
            and set(wish) <= {"q", "format", "time_range"}
            and wish.get("time_range", "day") in {"day", "week", "month", "year"}
        )
        if wish.get("format", "html") not in formats:
            await write(answer(403, "Forbidden"))
        else:
            results = [
                {"title": one["title"], "url": one["url"], "content": one["text"], "publishedDate": None} for one in pages
            ]
            told = {
                "query": wish["q"],
                "results": results,
                "answers": [],
                "suggestions": [],
                "unresponsive_engines": [["y", "timeout"]],
            }
            await write(answer(200, told) if right else answer(400, {"error": "?"}))

    return handle
