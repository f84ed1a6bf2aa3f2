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
    """Return the file tools of one agent. They share one context, so that a file that one has read may be changed by another."""
    return (ReadFile(access), WriteFile(access), EditFile(access), ListFiles(access), GrepFiles(access))
