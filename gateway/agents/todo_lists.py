"""The lists of things to do of all agents, as people see and change them: by ``/todo`` and on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Literal, TypeAlias

from agent.errors import WorkspaceFileError
from agent.timing import Clock
from agent.tools.protocol import ToolContext
from agent.tools.todo_file import Changed, Shown, TodoFiles
from agent.tools.todo_tool import Todo
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import HomebodyError, StorageFailed, UsageError, about_storage, unknown_agent
from memory.audience import Audience
from memory.protocol import Author

Change: TypeAlias = Literal["add", "done", "undo", "edit", "remove"]
NUMBERS = "The list shows the numbers: homebody todo list"
"""The hint for a number that no item has."""
CHANGES: tuple[Change, ...] = ("add", "done", "undo", "edit", "remove")


class TodoLists:
    """Reads and changes them. What is wrong with a wish is a UsageError that says so.

    An item is named by its number in the list, by its id, or by words of it.
    """

    def __init__(self, agents: Mapping[str, RunningAgent], clock: Clock, default: Callable[[], str]) -> None:
        self._agents = agents
        self._clock = clock
        self._default = default

    def today(self, agent: str | None) -> date:
        """Return the date where the owner is."""
        return self._now(self._agent(agent)).date()

    async def shown(self, agent: str | None, audience: Audience) -> Shown:
        """Return the list of an audience. Raises UsageError for an unknown agent, StorageFailed for a file that cannot be read."""
        try:
            return await self._files(agent).shown(audience)
        except WorkspaceFileError as error:
            raise _told(error) from error

    async def change(
        self,
        agent: str | None,
        audience: Audience,
        do: Change,
        *,
        item: str = "",
        text: str = "",
        section: str = "",
        by: Author | None = None,
    ) -> Changed:
        """Make a change. Raises UsageError and StorageFailed."""
        found = self._agent(agent)
        files = self._files(agent)
        context = ToolContext(now=self._now(found), session="", turn="", audience=audience)
        try:
            item = await self._named(files, audience, item)
            match do:
                case "add":
                    return await files.add(text, section, context, by)
                case "edit":
                    return await files.edit(item, text, context, by)
                case "remove":
                    return await files.remove(item, context, by)
                case _:
                    return await files.mark(item, context, by, done=do == "done")
        except WorkspaceFileError as error:
            raise _told(error) from error

    async def _named(self, files: TodoFiles, audience: Audience, item: str) -> str:
        """Return the id of an item that is named by its number."""
        if not item.strip().isdecimal():
            return item
        items = (await files.shown(audience)).found.items
        number = int(item)
        if not 0 < number <= len(items):
            raise WorkspaceFileError(f"there is no item {number} in the list", hint=NUMBERS)
        return items[number - 1].id

    def _now(self, agent: RunningAgent) -> datetime:
        return self._clock.now().astimezone(agent.zone)

    def _agent(self, wanted: str | None) -> RunningAgent:
        found = self._agents.get(wanted or self._default())
        if found is None:
            raise unknown_agent(wanted, self._agents)
        return found

    def _files(self, agent: str | None) -> TodoFiles:
        found = self._agent(agent)
        tool = next((tool for tool in found.conversations.rack.tools if isinstance(tool, Todo)), None)
        if tool is None:
            raise UsageError(f"{found.id} has no list of things to do")
        return tool.lists


def _told(error: WorkspaceFileError) -> HomebodyError:
    kind = StorageFailed if about_storage(error) else UsageError
    return kind(str(error), hint=error.hint)
