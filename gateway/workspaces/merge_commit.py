"""Makes the merge commit of a workspace that was changed on both sides."""

from __future__ import annotations

from datetime import date, datetime

from gateway.workspaces.carried_record import RECORD, CarriedRecord, without_record
from gateway.workspaces.commit_stream import NewCommit, Tree, Written
from gateway.workspaces.merging import Merge, Merged
from gateway.workspaces.repository import Repository


def merge_commit(
    repository: Repository,
    record: CarriedRecord,
    ours: Tree,
    heads: tuple[str, str],
    *,
    agent: str,
    templates: frozenset[str],
    now: datetime,
    day: date,
) -> tuple[str, Merged]:
    """Commit what becomes of our tree and theirs, whose commits are ``heads``; return the commit and the outcome.

    Their record of untrusted lines is added to ours first. Raises GitFailed, StorageFailed.
    """
    head, their_head = heads
    contents = repository.contents
    theirs, base = repository.tree(their_head), repository.base(head, their_head)
    merged = Merge(
        without_record(repository.tree(base)),
        without_record(ours),
        without_record(theirs),
        content=lambda blob: contents([blob])[blob],
        lines=repository.lines,
        day=day,
        templates=templates,
        older=frozenset() if base is not None else repository.objects(their_head),
    ).run()
    record.take_in(theirs, contents)
    for one in merged.beside:
        record.copied(one)
    changes = [
        Written(path, entry.mode if entry else "", entry.blob if entry else "", merged.texts.get(path))
        for path, entry in sorted(merged.entries.items(), key=lambda one: (one[1] is not None, one[0]))
    ]
    if (data := record.joined((ours, theirs), contents)) is not None:
        changes.append(Written(RECORD, data=data))
    words = [f"{agent}: join with what others pushed"]
    words += [f"{one.path} was changed on both sides; theirs is {one.kept_as}" for one in merged.beside]
    commit = NewCommit(author="homebody", message="\n\n".join(words), changes=changes)
    return repository.commit([commit], [head, their_head], now), merged
