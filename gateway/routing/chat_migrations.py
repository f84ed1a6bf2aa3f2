"""Migrated group ids: a group keeps its session, memory and rules when its platform changes its id."""

from __future__ import annotations

from dataclasses import replace

from channels.messages import ChatAddress
from gateway.ledger.protocol import ChatMigrationLedger
from gateway.ledger.values import account_of


class ChatMigrations:
    """Knows the former ids of groups. Sessions and memory stay under the first one, so that nothing on the disk has to move."""

    def __init__(self) -> None:
        self._formers: dict[tuple[str, str], list[str]] = {}
        self._present: dict[tuple[str, str], str] = {}

    async def load(self, migrations: ChatMigrationLedger) -> None:
        """Take up what the ledger knows."""
        formers: dict[tuple[str, str], list[str]] = {}
        present: dict[tuple[str, str], str] = {}
        for move in await migrations.all():
            formers.setdefault((move.account, move.present), []).append(move.former)
            present[move.account, move.former] = move.present
        self._formers, self._present = formers, present

    def formers(self, conversation: ChatAddress) -> tuple[ChatAddress, ...]:
        """Return the conversation under the former ids of its group, the first one first."""
        if conversation.kind != "group" or not self._formers:
            return ()
        account = account_of(conversation)
        present = self._present.get((account, conversation.id), conversation.id)
        return tuple(replace(conversation, id=former) for former in self._formers.get((account, present), ()))

    def origin(self, conversation: ChatAddress) -> ChatAddress:
        """Return the conversation under the first id that its group had."""
        return next(iter(self.formers(conversation)), conversation)
