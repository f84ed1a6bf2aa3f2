"""The slash command ``/todo``: shows the list of things to do, and changes it, with buttons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias, get_args

from agent.tools.todo_list import Item
from agent.tools.todo_words import change_in_words, listed
from channels.messages import Button
from gateway.agents.todo_lists import NUMBERS, Change, TodoLists
from gateway.base.errors import HomebodyError, UsageError
from gateway.routing.routed_message import RoutedMessage
from gateway.routing.router import Route
from memory.protocol import Author

Reply: TypeAlias = "tuple[str, Sequence[Button]]"
_SHOWN: Final = 40
_BUTTONS: Final = 8
_LABEL: Final = 28
_USAGE: Final = (
    "Send /todo for the list, /todo all with what is done, or /todo add TEXT, /todo done NUMBER, /todo undo NUMBER, "
    "/todo remove NUMBER, /todo edit NUMBER TEXT."
)


class TodoCommand:
    """Answers ``/todo`` with the list of the conversation: the owner's in private, elsewhere that of the guest or the group.

    May be called twice for one message after a crash.
    """

    def __init__(self, lists: TodoLists) -> None:
        self._lists = lists

    async def reply(self, argument: str, message: RoutedMessage) -> Reply:
        """Do what the argument says and return the reply with its buttons."""
        try:
            return await self._reply(argument.strip(), message)
        except HomebodyError as error:
            words = str(error)
            hint = "The list shows the numbers: /todo" if error.hint == NUMBERS else error.hint
            return f"{words[:1].upper()}{words[1:]}. {hint}".strip(), ()

    async def _reply(self, argument: str, message: RoutedMessage) -> Reply:
        route = message.route
        verb, _, rest = argument.partition(" ")
        verb, rest = verb.casefold(), rest.strip()
        if verb in {"", "list", "all"} and not rest:
            return await self._listed(route, everything=verb == "all")
        do = next((one for one in get_args(Change) if one == verb), None)
        if do is None:
            raise UsageError(f"“{argument[:60]}” is nothing that /todo can do", hint=_USAGE)
        if not rest:
            raise UsageError(f"/todo {verb} needs {'a text' if do == 'add' else 'the number of an item'}", hint=_USAGE)
        item, text = ("", rest) if do == "add" else (rest, "")
        if do == "edit":
            item, _, text = rest.partition(" ")
        by = Author("owner", message.inbound.sender.name) if message.actor.owner else None
        changed = await self._lists.change(route.agent, route.audience, do, item=item, text=text, by=by)
        buttons = [Button(label="↩ Undo", value=f"/todo undo {changed.item.id}")] if do == "done" else []
        return change_in_words(do, changed), buttons

    async def _listed(self, route: Route, *, everything: bool) -> Reply:
        shown = await self._lists.shown(route.agent, route.audience)
        items = shown.found.items
        wanted = [item for item in items if everything or not item.done]
        if not wanted:
            done = f" {len(items)} done: /todo all shows them." if items else ""
            return f"The list is empty. /todo add TEXT adds something.{done}", ()
        rows = listed(wanted[:_SHOWN], self._lists.today(route.agent))
        left = len(wanted) - _SHOWN
        finished = len(items) - len(wanted)
        more = [f"… and {left} more, in {shown.path}"] if left > 0 else []
        more += [f"{finished} done: /todo all shows them."] if finished else []
        return "\n".join(["📝 To do:", "", *rows, *([""] if more else []), *more]), [
            Button(label=f"☑ {item.number} · {_short(item)}", value=f"/todo done {item.id}")
            for item in wanted[:_BUTTONS]
            if not item.done
        ]


def _short(item: Item) -> str:
    return item.text if len(item.text) <= _LABEL else f"{item.text[: _LABEL - 1].rstrip()}…"
