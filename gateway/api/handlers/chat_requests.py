"""The conversations of the page: what was said, saying something, and looking for words."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from channels.errors import Refused
from gateway.agents.running_agent import RunningAgent
from gateway.approvals.record import parse_name
from gateway.base.errors import UsageError, unknown_agent
from gateway.ledger.rows import Approval
from gateway.page.chat_history import History, asked_in, read_history, search_history, told_line

if TYPE_CHECKING:
    from channels.web.channel import WebChannel
    from gateway.sessions.sessions_file import SessionRecord

_KEY: Final = re.compile(r"[0-9A-Za-z-]{8,64}")
_NAME: Final = re.compile(r"agent:[a-z0-9_-]+(:[^\s:\x00-\x1f/\\]{1,200}){1,6}")
MOST_ITEMS: Final = 500
MOST_FOUND: Final = 100


@contextlib.contextmanager
def _as_usage() -> Iterator[None]:
    """Raise what the channel refuses as a UsageError."""
    try:
        yield
    except Refused as error:
        raise UsageError(str(error), hint=error.hint) from error


class ChatHandlers:
    """``channel`` returns the channel of the page, which is made when it is needed for the first time; ``approval`` finds a question."""

    def __init__(
        self,
        agents: Mapping[str, RunningAgent],
        channel: Callable[[], WebChannel],
        approval: Callable[[str], Awaitable[Approval | None]],
    ) -> None:
        self._agents = agents
        self._channel = channel
        self._approval = approval

    def calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """The calls by name."""
        return {
            "chat.history": self.history,
            "chat.press": self.press,
            "chat.say": self.say,
            "chat.search": self.search,
            "chat.sessions": self.sessions,
            "chat.stop": self.stop,
        }

    async def sessions(self) -> list[dict[str, Any]]:
        """Return the sessions of all agents that can be talked in, the latest first."""
        found = [(record.spoken, name, agent, record) for name, agent in self._agents.items() for record in agent.store.all()]
        rows = [
            {
                "key": record.key,
                "agent": name,
                "name": agent.profile.name,
                "main": record.key == agent.main_key,
                "spoken": spoken.isoformat(timespec="seconds"),
                "turns": record.turns,
            }
            for spoken, name, agent, record in sorted(found, key=lambda one: one[0], reverse=True)
        ]
        known = {row["key"] for row in rows}
        new = [
            {"key": agent.main_key, "agent": name, "name": agent.profile.name, "main": True, "spoken": None, "turns": 0}
            for name, agent in self._agents.items()
            if agent.main_key not in known
        ]
        return [*rows, *new]

    async def history(self, session: str, *, before: int | None = None, limit: int = 200) -> dict[str, Any]:
        """Return what was said in a session, the oldest first, up to the byte ``before`` of its transcript."""
        key = self._checked(session)
        record = await self._record(key)
        waiting = self._channel().waiting(key) if before is None else frozenset()
        said = await self._channel().said(key)
        limit = max(1, min(limit, MOST_ITEMS))
        if record is None:
            found = await asyncio.to_thread(read_history, None, said, None, before, limit)
        else:
            stored = self._agent(key).store.transcript(record.session)
            found = await asyncio.to_thread(
                read_history, stored, said, record.started, before, limit, session=record.session, waiting=waiting
            )
        for item in found.items:
            if name := asked_in(item):
                item["approval"] = await self._standing(name)
            elif asked := item.get("asked"):
                known = await self._approval(asked)
                item["approval"] = {"state": known.state if known is not None else "withdrawn"}
        return self._told(found, key) | {"session": record.session if record else None}

    async def search(self, session: str, words: str) -> list[dict[str, Any]]:
        """Return the messages of a session that hold all ``words``, the latest first, each with its place in the transcript."""
        key = self._checked(session)
        wanted = words.casefold().split()
        record = await self._record(key)
        if record is None or not wanted:
            return []
        stored = self._agent(key).store.transcript(record.session)
        return await asyncio.to_thread(search_history, stored, wanted, MOST_FOUND)

    async def say(
        self, session: str, text: str, *, key: str, files: Sequence[str] = (), recorded: bool = False
    ) -> dict[str, Any]:
        """Say something. ``key`` is chosen by the page: the same message has the same, however often it is sent.

        The answer has what a page shows of it, as pages are told of it, too.
        """
        with _as_usage():
            kept = await self._channel().say(self._checked(session), text, key=_good(key), files=files, recorded=recorded)
        return {"uid": kept["uid"], "item": told_line(kept)}

    async def press(self, session: str, target: str, value: str, *, key: str) -> dict[str, Any]:
        """Press a button below a message. Raises UsageError for a question that was decided meanwhile, wherever that was."""
        place, name = self._checked(session), asked_in({"buttons": [{"value": str(value)}]})
        if name and (standing := await self._standing(name))["state"] != "pending":
            raise UsageError(
                f"#{name} is not open any more: {standing['state']}", hint="Approvals, Decided, shows what came of it."
            )
        with _as_usage():
            await self._channel().press(place, target, value, key=_good(key))
        return {}

    async def stop(self, session: str) -> dict[str, Any]:
        """Stop the running turn."""
        await self._channel().stop(self._checked(session))
        return {}

    async def _standing(self, name: str) -> dict[str, Any]:
        """Return how a question stands. One that was asked anew, or is not kept any more, is no longer open."""
        wanted, number = parse_name(name)
        found = await self._approval(wanted)
        if found is None or found.round != number:
            return {"state": "withdrawn", "always": False}
        return {"state": found.state, "always": found.always}

    def _told(self, found: History, key: str) -> dict[str, Any]:
        live = self._channel().progress(key)
        return {"items": found.items, "before": found.before, "live": live}

    def _checked(self, session: str) -> str:
        """Return the key of a session, which need not exist yet. Raises UsageError for what cannot be one."""
        key = str(session).strip().lower()
        if _NAME.fullmatch(key) is None:
            raise UsageError(f"{str(session)[:80]!r} is no session", hint="Choose one of the list.")
        self._agent(key)
        return key

    def _agent(self, key: str) -> RunningAgent:
        name = key.split(":")[1]
        if name not in self._agents:
            raise unknown_agent(name, self._agents)
        return self._agents[name]

    async def _record(self, key: str) -> SessionRecord | None:
        store = self._agent(key).store
        await store.refresh()
        return store.get(key)


def _good(key: str) -> str:
    if _KEY.fullmatch(str(key)) is None:
        raise UsageError("a message needs a name of 8 to 64 letters and digits", hint="Reload the page.")
    return key
