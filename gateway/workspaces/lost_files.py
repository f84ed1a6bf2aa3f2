"""Judges files that are gone from a workspace: removed, or not there because a disk is not mounted?"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from gateway.workspaces.carried_files import Scan
from gateway.workspaces.commit_stream import Tree

MANY: Final = 10
"""If at least this many files, and more than half of all, are gone at once, that is not committed: the disk may not be mounted.

Nothing at all is, and nothing is pulled, where only that is left which a new workspace begins with: the folder was found empty, and laid
anew. What is written there meanwhile would be missing in the true folder, once that is mounted.
"""


class LostFiles(Struct, frozen=True):
    """``laid_anew``: the folder was, and is until what others wrote is there again. ``doubtful``: they are not to be committed unasked."""

    paths: list[str]
    laid_anew: bool
    doubtful: bool


def lost_files(tree: Tree, scan: Scan, *, reported: Collection[str], templates: Collection[str], laid_anew: bool) -> LostFiles:
    """Compare a folder with the tree that it was made from. ``laid_anew`` says whether it was by the last look.

    In a folder that was laid anew, files that are templates again count as gone, too, if nobody reported that.
    """
    gone = [path for path, entry in scan.changed.items() if entry is None]
    written = {path for path, entry in tree.items() if entry.blob not in templates} - set(reported)
    now = {path: scan.changed.get(path) or tree.get(path) for path in scan.present}
    fresh = [path for path, entry in now.items() if entry is not None and entry.blob in templates]
    again = [path for path in fresh if path in scan.changed and path in written]
    if (laid_anew or len(fresh) == len(now)) and not written.isdisjoint([*gone, *again]):
        return LostFiles([*gone, *again], laid_anew=True, doubtful=True)
    return LostFiles(gone, laid_anew=False, doubtful=len(gone) >= MANY and 2 * len(gone) > len(tree))
