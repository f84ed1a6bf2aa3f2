"""The addresses that a conversation was given from outside, as opposed to those that its model made up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agent.messages import AssistantMessage, ToolMessage, UserMessage, is_of_a_person
from agent.transcript.entries import Entry, Said
from agent.urls import front_page, urls_in

FROM_OUTSIDE: Final = frozenset({"web_fetch", "web_search"})
"""Tools whose results hold addresses as others wrote them. Files and commands may hold what the model wrote into them before."""


def seen_urls(entries: Iterable[Entry]) -> frozenset[str]:
    """Return the addresses that people and webhooks wrote and that pages and search results name, in normal form, with their front pages.

    One that the model said first does not count when something repeats it: it would carry out whatever the model put into it.
    """
    seen: set[str] = set()
    made: set[str] = set()
    for entry in entries:
        match entry.body:
            case Said(message=UserMessage() as message) if is_of_a_person(message) or message.automation == "webhook":
                seen.update(url for url in urls_in(message.text) if url not in made)
            case Said(message=AssistantMessage() as answer):
                made.update(url for call in answer.calls for url in urls_in(f"{call.arguments} {call.raw}"))
                made.update(urls_in(answer.text))
            case Said(message=ToolMessage(name=name, is_error=False) as result) if name in FROM_OUTSIDE:
                seen.update(url for url in urls_in(result.text) if url not in made)
            case _:
                pass
    return frozenset(seen | {front for url in seen if (front := front_page(url)) not in made})
