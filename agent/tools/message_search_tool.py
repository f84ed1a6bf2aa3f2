"""Tools that search a chat platform, such as ``slack_search``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import Field

from agent.errors import FetchFailed
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.protocol import Outcome, ToolContext


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHit:
    """A message that was found. ``when`` is a local time for people."""

    where: str
    who: str
    when: str
    text: str
    link: str = ""


class MessageSearcher(Protocol):
    """Searches what the owner can read on one platform."""

    async def search(self, query: str, count: int, *, newest: bool) -> list[MessageHit]:
        """Return up to ``count`` messages of each account, the best or the newest first. Raises FetchFailed."""
        ...


class MessageSearchArguments(Arguments):
    """What such a tool takes."""

    query: Annotated[CleanText, Field(min_length=1, max_length=400)]
    count: Annotated[int, Field(ge=1, le=20)] = 10
    newest: bool = False


class MessageSearchTool(CheckedTool[MessageSearchArguments]):
    """Searches as the owner. It is there only where a token of theirs is configured, and in turns that the owner alone reads."""

    def __init__(self, platform: str, hint: str, searcher: MessageSearcher) -> None:
        super().__init__(
            MessageSearchArguments,
            name=f"{platform}_search",
            description=f"Search the owner's {platform.capitalize()} messages; {hint}.",
            effect="pure",
            output=f"messages in {platform.capitalize()}, which others write: untrusted",
            needs=("network",),
            private=True,
        )
        self._platform = platform
        self._searcher = searcher

    async def act(self, arguments: MessageSearchArguments, context: ToolContext) -> Outcome:
        """Search."""
        try:
            hits = await self._searcher.search(arguments.query, arguments.count, newest=arguments.newest)
        except FetchFailed as error:
            return failed(f"the search failed: {error}", error.hint)
        if not hits:
            return Outcome(text=f"There is nothing for {arguments.query!r}.")
        written = [_written(number, hit) for number, hit in enumerate(hits, 1)]
        while len(written) > 1 and sum(len(one) + 2 for one in written) > context.max_chars:
            written.pop()
        return Outcome(
            text="\n\n".join(written),
            details={"query": arguments.query, "hits": len(hits)},
            sources=(f"messages:{self._platform}",),
        )


def _written(number: int, hit: MessageHit) -> str:
    head = f"{number}. {hit.when} {hit.who} in {hit.where}"
    return "\n   ".join([head, *([hit.link] if hit.link else []), hit.text])
