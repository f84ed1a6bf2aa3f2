"""The tools that work on the files of a workspace."""

from __future__ import annotations

from agent.tools.edit_file import EditFile
from agent.tools.file_tool_context import FileToolContext
from agent.tools.grep_files import GrepFiles
from agent.tools.list_files import ListFiles
from agent.tools.protocol import Tool
from agent.tools.read_file import ReadFile
from agent.tools.write_file import WriteFile


def file_tools(access: FileToolContext) -> tuple[Tool, ...]:
    """Give the file tools of one agent: all at the same desk, so that what one reads another may change."""
    return (ReadFile(access), WriteFile(access), EditFile(access), ListFiles(access), GrepFiles(access))
