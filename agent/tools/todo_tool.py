"""The ``todo`` tool: the list of things to do, which people edit by hand as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AliasChoices, Field

from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.protocol import Act, Outcome, ToolContext
from agent.tools.todo_file import Changed, Shown, TodoFiles
from agent.tools.todo_list import HEADING, Item

_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "add": ("text",),
    "done": ("item",),
    "undo": ("item",),
    "edit": ("item", "text"),
    "remove": ("item",),
}


class TodoArguments(Arguments):
    """What ``todo`` takes."""

    action: Literal["list", "add", "done", "undo", "edit", "remove"]
    item: Annotated[CleanText, Field(validation_alias=AliasChoices("item", "id"), description="id")] = ""
    text: Annotated[CleanText, Field(description="may end with (due YYYY-MM-DD)")] = ""
    section: CleanText = ""


class Todo(CheckedTool[TodoArguments]):
    """Shows and changes the list of the conversation's audience. Each action run twice leaves the same list: hence "idempotent".

    Items are named by ids that come from their text, so a repeated "done" or "remove" meets the same item or none.
    """

    def __init__(self, lists: TodoFiles) -> None:
        super().__init__(
            TodoArguments,
            name="todo",
            description="The list TODO.md: tasks; each shopping list is a section.",
            effect="idempotent",
            output="the list; untrusted where an item was written with untrusted text in view",
        )
        self.lists = lists

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return the act where untrusted text is in view and others may read the list."""
        given = self.checked(arguments)
        if given is None or given.action == "list":
            return None
        path = self.lists.path(context.audience)
        return self.lists.access.standing(
            [str(path)], context, lambda: " ".join(filter(None, [given.action, given.item, given.text]))
        )

    async def act(self, arguments: TodoArguments, context: ToolContext) -> Outcome:
        """Do it."""
        missing = [name for name in _NEEDS.get(arguments.action, ()) if not getattr(arguments, name).strip()]
        if missing:
            return failed(f"{arguments.action} needs {' and '.join(missing)}")
        if arguments.action == "list":
            return self._listed(await self.lists.shown(context.audience), arguments.section, context.max_chars)
        changed = await self._changed(arguments, context)
        return Outcome(text=_change_text(arguments.action, changed), sources=changed.sources)

    async def _changed(self, given: TodoArguments, context: ToolContext) -> Changed:
        match given.action:
            case "add":
                return await self.lists.add(given.text, given.section, context)
            case "edit":
                return await self.lists.edit(given.item, given.text, context)
            case "remove":
                return await self.lists.remove(given.item, context)
            case _:
                return await self.lists.mark(given.item, context, done=given.action == "done")

    def _listed(self, shown: Shown, section: str, room: int) -> Outcome:
        found = shown.found.in_section(section) if section else shown.found.items
        rows, left, heading = [], 0, HEADING
        for item in found:
            if item.done:
                continue
            row = [*([f"## {item.section or HEADING}"] if item.section != heading else []), _row(item)]
            room -= sum(map(len, row)) + len(row)
            if room < 0:
                left += 1
                continue
            heading = item.section
            rows += row
        done = sum(item.done for item in found)
        more = [f"[{left} more; read {shown.path}]"] if left else []
        more += [f"[{done} done, in {shown.path}]"] if done else []
        more += [f"[sections: {', '.join(shown.found.sections())}]"] if section and not found and shown.found.items else []
        text = "\n".join([*rows, *more]) or "The list is empty."
        return Outcome(
            text=text, details={"path": str(shown.path), "open": len(found) - done, "done": done}, sources=shown.sources
        )


def _row(item: Item) -> str:
    return f"{'  ' * item.depth}{item.id} {item.text}"


def _change_text(action: str, changed: Changed) -> str:
    item = changed.item
    if not changed.did:
        state = {"add": "is on the list already", "done": "was done already", "undo": "is open already"}.get(
            action, "says that already"
        )
        return f"{item.id} {item.text}: {state}; nothing was changed"
    words = {"add": "added", "done": "done", "undo": "open again", "edit": "changed", "remove": "removed"}[action]
    below = f" with {changed.nested} nested below it" if changed.nested else ""
    return f"{words}: {item.id} {item.text}{below}"
