"""The slash command ``/memory``: shows the notes about a conversation, and passes on a wish to be forgotten to an owner."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from channels.messages import Button, ChatAddress
from channels.protocol import Channel
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import HomebodyError, StorageFailed
from gateway.base.foreign_words import unformatted
from gateway.command_handlers.session_commands import counted
from gateway.ledger.forget_requests import ForgetRequest, ForgetRequestLedger
from gateway.ledger.outbox_rows import OutboxLedger
from gateway.ledger.rows import NewOutbound
from gateway.routing.routed_message import RoutedMessage
from memory.audience import Audience
from memory.notes.note_reader import decode
from memory.notes.sources import NoteSources

log = logging.getLogger(__name__)
Reply: TypeAlias = "tuple[str, Sequence[Button]]"

SHOWN: Final = 3000
"""Characters of notes that are shown."""
SHORTEST: Final = 3
LONGEST: Final = 200
MOST_OPEN: Final = 3
"""Wishes of one person that may wait for a decision."""
_USAGE: Final = (
    "`/memory forget me` asks my owner to remove all that you said here, `/memory forget WORDS` what you said with these words."
)
_IN_PRIVATE: Final = "`/memory forget` is for groups: in private, tell me what to forget."


class Removed(Protocol):
    """What was removed."""

    @property
    def messages(self) -> int: ...  # noqa: D102
    @property
    def lines(self) -> int: ...  # noqa: D102


class MemoryCommand:
    """Answers ``/memory``. ``owner`` finds the owner's chat, ``carry_out`` removes words.

    ``no_trace`` leaves nothing of what was removed in files of the ledger and the indexes. May be called twice for one message.
    """

    def __init__(
        self,
        agents: Mapping[str, RunningAgent],
        requests: ForgetRequestLedger,
        outbox: OutboxLedger,
        *,
        channel: Callable[[ChatAddress], Channel],
        owner: Callable[[], Awaitable[ChatAddress | None]],
        carry_out: Callable[[ForgetRequest], Awaitable[Removed]],
        no_trace: Callable[[], Awaitable[None]],
    ) -> None:
        self._agents = agents
        self._requests = requests
        self._outbox = outbox
        self._channel = channel
        self._owner = owner
        self._carry_out = carry_out
        self._no_trace = no_trace
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_work: set[str] = set()

    async def reply(self, argument: str, message: RoutedMessage) -> Reply:
        """Do what the argument says and return the reply with its buttons."""
        verb, _, rest = argument.strip().partition(" ")
        verb, rest = verb.casefold(), " ".join(rest.split())
        try:
            match verb:
                case "":
                    return await self._shown(message)
                case "forget":
                    return await self._request_deletion(rest, message), ()
                case "allow" | "deny":
                    return await self._decided(verb, rest, message), ()
        except StorageFailed as error:
            return f"💾 Nothing was changed, because it could not be stored ({error}). {error.hint}".strip(), ()
        return f"“{argument[:40]}” is nothing that /memory can do. Without an argument it shows my notes. {_usage(message)}", ()

    async def _shown(self, message: RoutedMessage) -> Reply:
        audience, agent = message.route.audience, self._agents[message.route.agent]
        files = await asyncio.to_thread(_notes_of, agent, audience)
        if audience.kind != "owner":
            where = "this group" if audience.kind == "group" else "you"
            if not files:
                return f"I have no notes about {where} yet. {_usage(message)}", ()
            return f"My notes about {where}, the newest first:\n\n{_excerpt(files)}\n\n{_usage(message)}", ()
        requests = await self._requests.all()
        lines = [f"- {path}: {counted(text.count(chr(10)) + 1, 'line')}" for path, text in files[:15]]
        more = f"\n… and {len(files) - 15} more" if len(files) > 15 else ""  # noqa: PLR2004 - as many as are shown
        waiting = "".join(f"\n\n{_question(one)}" for one in requests)
        buttons = [button for one in requests for button in _buttons(one)]
        return "My notes are Markdown in my workspace:\n\n" + "\n".join(lines) + more + waiting, buttons

    async def _request_deletion(self, phrase: str, message: RoutedMessage) -> str:
        """Pass a wish on to the owner; an owner's own is carried out."""
        inbound, route = message.inbound, message.route
        if inbound.conversation.kind != "group":
            return _IN_PRIVATE
        everything = phrase.casefold() in {"me", "all", "everything"}
        if not everything and not SHORTEST <= len(phrase) <= LONGEST:
            return f"Say which words, {SHORTEST} to {LONGEST} characters. {_USAGE}"
        request = ForgetRequest(
            id=hashlib.sha256(message.row.uid.encode()).hexdigest()[:8],
            agent=route.agent,
            session=route.session,
            place=inbound.conversation.address,
            space=inbound.conversation.space or "",
            person=inbound.sender.id,
            name=inbound.sender.name,
            phrase="" if everything else phrase,
        )
        if message.actor.owner:
            await self._requests.put(request)
            self._begin(request)
            return "I remove that now, and say here when it is done."
        others = [one for one in await self._requests.all() if one.person == request.person and one.id != request.id]
        if len(others) >= MOST_OPEN:
            return f"{MOST_OPEN} wishes of yours wait for my owner already."
        place = await self._owner()
        if place is None:
            return "I cannot reach my owner at the moment, who has to confirm this. Ask again later."
        await self._requests.put(request)
        await self._send(place, _question(request), f"f.{request.id}.q", _buttons(request))
        return "My owner is asked to confirm that. I say here when it is done."

    async def _decided(self, verb: str, name: str, message: RoutedMessage) -> str:
        if not message.actor.owner:
            return "Only my owner can decide this."
        request = next((one for one in await self._requests.all() if one.id == name.casefold()), None)
        if request is None:
            return "There is no such wish any more: it was decided."
        if verb == "allow":
            self._begin(request)
            return "I remove that now, and say in the group when it is done."
        await self._requests.remove(request.id)
        await self._send(
            _place(request), f"{_who(request)}: my owner did not confirm that I forget your words.", f"f.{request.id}.n"
        )
        return "Nothing is removed, and they are told."

    def _begin(self, request: ForgetRequest) -> None:
        """Carry a wish out in the background, once at a time."""
        if request.id in self._at_work:
            return
        self._at_work.add(request.id)
        task = asyncio.create_task(self._do(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _do(self, request: ForgetRequest) -> None:
        """Remove, then tell and forget the request: after a crash in between, the owner is asked about it by ``/memory`` still."""
        try:
            removed = await self._carry_out(request)
            text = (
                f"🧽 {_who(request)}: removed {counted(removed.messages, 'message')} of yours from what I keep of this group, and "
                f"{counted(removed.lines, 'line')} of notes. What you said remains on {_place(request).channel} itself."
            )
            await self._send(_place(request), text, f"f.{request.id}.d")
            await self._requests.remove(request.id)
            await self._no_trace()
        except (HomebodyError, OSError) as error:
            log.warning("words could not be removed: %s", error)
            await self._send(
                _place(request), f"{_who(request)}: not all could be removed ({error}). My owner can try again.", None
            )
        finally:
            self._at_work.discard(request.id)

    async def _send(self, place: ChatAddress, text: str, key: str | None, buttons: Sequence[Button] = ()) -> None:
        pieces = self._channel(place).chunks(text)
        chunks = [
            NewOutbound(
                conversation=place,
                text=piece,
                key=None if key is None else f"{key}{n}",
                buttons=tuple(buttons) if n == len(pieces) - 1 else (),
            )
            for n, piece in enumerate(pieces)
        ]
        await self._outbox.enqueue(chunks)


def _question(request: ForgetRequest) -> str:
    what = f"what they said with “{unformatted(request.phrase)}”" if request.phrase else "all that they said there"
    return (
        f"🧽 {_who(request)} asks me to forget {what}, in the group {_place(request).id} on {_place(request).channel}. Their words are "
        f"removed from my transcripts for good, and lines from my notes. `/memory allow {request.id}` or `/memory deny {request.id}`"
    )


def _buttons(request: ForgetRequest) -> list[Button]:
    return [
        Button(label="🧽 Forget", value=f"/memory allow {request.id}"),
        Button(label="⛔ Deny", value=f"/memory deny {request.id}"),
    ]


def _who(request: ForgetRequest) -> str:
    return unformatted(request.name) or request.person


def _place(request: ForgetRequest) -> ChatAddress:
    return ChatAddress.parse(request.place, space=request.space or None)


def _usage(message: RoutedMessage) -> str:
    return _USAGE if message.inbound.conversation.kind == "group" else _IN_PRIVATE


def _notes_of(agent: RunningAgent, audience: Audience) -> list[tuple[str, str]]:
    """Return the notes of an audience, newest first, with their texts. Blocking."""
    sources = getattr(agent.memory, "sources", None)
    if not isinstance(sources, NoteSources):
        return []
    rows = sorted(sources.walk(), key=lambda file: file.stamp.mtime_ns, reverse=True)
    own = [file.path for file in rows if not file.trouble and _belongs(file.path, audience)]
    return [(path, text) for path in own if (text := _text(agent, path)).strip()]


def _belongs(path: str, audience: Audience) -> bool:
    return audience.kind == "owner" or path.startswith(f"{audience.folder}/")


def _text(agent: RunningAgent, path: str) -> str:
    try:
        return decode((agent.workspace.root / path).read_bytes(), path)
    except (OSError, ValueError, HomebodyError):
        return ""


def _excerpt(files: Sequence[tuple[str, str]]) -> str:
    parts, left = [], SHOWN
    for path, text in files:
        shown = text.strip()[:left]
        parts.append(f"**{path}**\n{shown}{'…' if len(shown) < len(text.strip()) else ''}")
        left -= len(shown)
        if left <= 0:
            break
    return "\n\n".join(parts)
