"""The ``apply_patch`` tool: several changes at once, all of them or none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic import AliasChoices, Field

from agent.errors import WorkspaceFileError
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.file_tool_context import FileToolContext
from agent.tools.os_errors import no_such_file
from agent.tools.protocol import Act, Outcome, ToolContext

if TYPE_CHECKING:
    from agent.tools.patch import FileChange


class PatchArguments(Arguments):
    """What ``apply_patch`` takes."""

    patch: Annotated[
        CleanText,
        Field(
            max_length=2_000_000,
            validation_alias=AliasChoices("patch", "input"),
            description="*** Begin Patch, then *** Add File:, *** Update File: (*** Move to:, @@, lines with ' ', - or +) "
            "or *** Delete File: sections, then *** End Patch",
        ),
    ]


class _Step(Struct, frozen=True):
    """One file, before and after; None where there is no such file."""

    path: PurePosixPath
    before: bytes | None
    after: bytes | None


class ApplyPatch(CheckedTool[PatchArguments]):
    """Adds, updates, moves and deletes files by one patch.

    Everything is worked out before the first change, so a patch that does not fit changes nothing. Where the disk fails
    half-way, what was done is undone. As for ``edit``, what is changed or deleted must have been read.
    """

    def __init__(self, access: FileToolContext) -> None:
        super().__init__(
            PatchArguments,
            name="apply_patch",
            description="Change several files that you have read by one patch: all of it is applied, or nothing.",
            effect="effect",
        )
        self._access = access

    async def act(self, arguments: PatchArguments, context: ToolContext) -> Outcome:
        """Work it out, apply it, tell the memory."""
        from agent.tools.patch import parsed

        if "\0" in arguments.patch:
            return failed("patch: has a NUL character, which is not text")
        for change in parsed(arguments.patch):
            await self._access.changing(self._access.changeable(change.path, context.audience))
        steps = await asyncio.to_thread(self._apply, arguments.patch, context)
        for step in steps:
            await self._access.changed(step.path, context)
        return Outcome(
            text="\n".join(_step_line(step) for step in steps), details={"paths": [str(step.path) for step in steps]}
        )

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return the act where one of the files is one that conversations are given, or that others may read."""
        from agent.tools.patch import parsed

        given = self.checked(arguments)
        if given is None:
            return None
        try:
            changes = parsed(given.patch)
        except WorkspaceFileError:  # it is refused when it runs
            return None
        paths = [path for change in changes for path in (change.path, change.move_to) if path is not None]
        return self._access.standing(paths, context, lambda: self._details(given.patch, changes, context))

    def _details(self, patch: str, changes: list[FileChange], context: ToolContext) -> str:
        from agent.tools.change_details import difference, not_fitting

        approved = replace(context, approved=True)  # whether the files were read does not matter for what would be written
        try:
            steps = [step for change in changes for step in self._steps(change, approved)]
        except WorkspaceFileError as trouble:
            return not_fitting(trouble, patch)
        return "\n".join(difference(step.path, step.before, step.after) for step in steps)

    def _apply(self, patch: str, context: ToolContext) -> list[_Step]:
        from agent.tools.patch import parsed

        steps = [step for change in parsed(patch) for step in self._steps(change, context)]
        paths = [step.path for step in steps]
        twice = next((path for path in paths if paths.count(path) > 1), None)
        if twice:
            raise WorkspaceFileError(f"patch: {twice} is named twice; put all of its changes into one section")
        for step in steps:
            if step.after is not None:
                self._access.record(step.path, step.before, step.after, context)
        done: list[_Step] = []
        for step in steps:
            try:
                self._take(step)
            except WorkspaceFileError as trouble:
                left = self._undo(done)
                state = f"; {', '.join(left)} could not be put back" if left else "; nothing was changed"
                raise WorkspaceFileError(f"{trouble}{state}", hint=trouble.hint) from trouble
            done.append(step)
        for step in steps:
            self._remember(step, context.session)
        return steps

    def _steps(self, change: FileChange, context: ToolContext) -> list[_Step]:
        from agent.tools.patch import patched

        path = self._access.changeable(change.path, context.audience)
        present = self._access.sandbox.read(path).data if self._access.sandbox.kind(path) else None
        if change.action == "add":
            if present is not None:
                raise WorkspaceFileError(f"{path} exists already: use Update File")
            return [_Step(path, None, "".join(f"{line}\n" for line in change.lines).encode())]
        if present is None:
            raise no_such_file(path)
        if not context.approved:
            self._access.readings.require(context.session, path, present)
        if change.action == "delete":
            return [_Step(path, present, None)]
        after = patched(present, change)
        if change.move_to is None:
            return [_Step(path, present, after)]
        target = self._access.changeable(change.move_to, context.audience)
        if self._access.sandbox.kind(target):
            raise WorkspaceFileError(f"{target} exists already: nothing can be moved there")
        return [_Step(target, None, after), _Step(path, present, None)]

    def _take(self, step: _Step) -> None:
        if step.before is None:
            self._access.sandbox.create(step.path, step.after or b"")
        elif step.after is None:
            self._access.sandbox.remove(step.path, expected=step.before)
        else:
            self._access.sandbox.replace(step.path, step.after, expected=step.before)

    def _undo(self, done: list[_Step]) -> list[str]:
        """Take steps back, last one first. Returns the paths where that failed."""
        left = []
        for step in reversed(done):
            try:
                self._take(_Step(step.path, step.after, step.before))
            except WorkspaceFileError:
                left.append(str(step.path))
        return left

    def _remember(self, step: _Step, session: str) -> None:
        if step.before is None and step.after is not None:
            self._access.readings.shown(session, step.path, step.after)
        elif step.after is not None:
            self._access.readings.rewritten(session, step.path, step.after)


def _step_line(step: _Step) -> str:
    if step.before is None:
        return f"added {step.path}"
    return f"deleted {step.path}" if step.after is None else f"updated {step.path}"
