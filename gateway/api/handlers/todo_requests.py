"""The owner's lists of things to do: what ``homebody todo`` asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from gateway.agents.todo_lists import CHANGES, TodoLists
from gateway.base.errors import UsageError
from memory.audience import OWNER
from memory.protocol import Author


class TodoHandlers:
    """Lists and changes them. All answers are JSON values, with the words for people in ``told``."""

    def __init__(self, lists: TodoLists) -> None:
        self._lists = lists

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {"todo.list": self.list, "todo.change": self.change}

    async def list(self, agent: str | None = None, section: str = "", *, everything: bool = False) -> dict[str, Any]:
        """Return the list, or a section of it; with ``everything`` also in words what is done. Raises UsageError."""
        from agent.tools.todo_words import facts, list_facts, listed

        shown = await self._lists.shown(agent, OWNER)
        if section and not shown.found.in_section(section):
            known = ", ".join(filter(None, shown.found.sections())) or "none"
            raise UsageError(f"there is no section {section!r} in {shown.path}", hint=f"Sections with items: {known}.")
        found = shown.found.in_section(section) if section else shown.found.items
        rows = listed([item for item in found if everything or not item.done], self._lists.today(agent))
        return {**list_facts(shown), "items": [facts(item) for item in found], "told": "\n".join(rows).replace("**", "")}

    async def change(
        self, do: str, agent: str | None = None, item: str = "", text: str = "", section: str = ""
    ) -> dict[str, Any]:
        """Make one change, and return the item with what came of it. Raises UsageError."""
        from agent.tools.todo_words import change_in_words, facts

        known = next((one for one in CHANGES if one == do), None)
        if known is None:
            raise UsageError(f"there is no change {do!r}", hint=f"There is {', '.join(CHANGES)}.")
        changed = await self._lists.change(agent, OWNER, known, item=item, text=text, section=section, by=Author())
        return {
            "path": str(changed.path),
            "changed": changed.did,
            "item": facts(changed.item),
            "told": change_in_words(known, changed),
        }
