"""Builds what waits for new mail: a thread for each watched account, and what its mail becomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from channels.messages import ChatAddress
from channels.terminal.channel import LOCAL
from gateway.agents.running_agent import RunningAgent
from gateway.app.dependencies import Dependencies
from gateway.base.errors import StorageFailed
from gateway.inbound.pipeline import Inbox
from gateway.ledger.hook_rows import HOOK_ACCOUNT
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Unasked
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.settings.mail_settings import MailAccount
from gateway.settings.root import Settings, SettingsStore

if TYPE_CHECKING:  # loaded with the first account that is watched
    from gateway.mail.announcing import MailAnnouncements
    from gateway.mail.watching import MailWatcher, NewMail

CURSORS: Final = "mail/watched"
"""The folder of cursors, below the state."""
STORE_SECONDS: Final = 60.0
"""How long a watcher waits until its announcement is stored."""
_TERMINAL: Final = ChatAddress(channel="terminal", kind="direct", id=LOCAL)


class MailWatchParts:
    """The watchers of all accounts. ``owner`` knows the owner's chats."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        *,
        agents: Mapping[str, RunningAgent],
        inbox: Inbox,
        owner: OwnerNotifications,
    ) -> None:
        self._deps = deps
        self._settings = settings
        self._agents = agents
        self._owner = owner
        self._watchers: dict[str, MailWatcher] = {}
        self._loop = asyncio.get_running_loop()
        self._begun = False
        self._ledger = ledger
        self._inbox = inbox
        self._made: MailAnnouncements | None = None
        self.here: Callable[[str], bool] = lambda _: True
        """Whether an agent's mailboxes are watched by this gateway, where several share the agents."""
        settings.subscribe(self._changed)

    def begin(self) -> None:
        """Watch what the settings say."""
        self._begun = True
        self._adopt(self._settings.current)

    def look_again(self) -> None:
        """Watch the mailboxes of the agents that are here now."""
        self._changed(self._settings.current, self._settings.current)

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return each account for ``homebody status``."""
        found: dict[str, dict[str, Any]] = {}
        for name, account in self._settings.current.mail.accounts.items():
            watcher = self._watchers.get(name)
            watched = (
                {"state": watcher.state, "trouble": watcher.trouble} if watcher is not None else {"state": "", "trouble": ""}
            )
            found[name] = {"address": account.sender, "watch": account.watch} | watched
        return found

    async def close(self) -> None:
        """Stop all watchers."""
        self._begun = False
        watchers = list(self._watchers.values())
        self._watchers.clear()
        for watcher in watchers:
            watcher.stop()
        for watcher in watchers:
            await asyncio.to_thread(watcher.join, 2.0)

    def _changed(self, _former: Settings, settings: Settings) -> None:
        if self._begun:
            self._adopt(settings)

    def _adopt(self, settings: Settings) -> None:
        wanted = {
            name: account
            for name, account in settings.mail.accounts.items()
            if account.watch != "off" and self.here(self._agent(name))
        }
        for name, watcher in list(self._watchers.items()):
            if wanted.get(name) != watcher.account:
                watcher.stop()
                del self._watchers[name]
        if wanted.keys() <= self._watchers.keys():
            return
        from gateway.mail.watch_cursor import CursorFile
        from gateway.mail.watching import MailWatcher

        for name, account in wanted.items():
            if name not in self._watchers:
                cursors = CursorFile(self._deps.paths.state / CURSORS / f"{name}.json")
                self._watchers[name] = MailWatcher(name, account, cursors, partial(self._announce, account))
                self._watchers[name].start()

    def _announce(self, account: MailAccount, mail: NewMail) -> None:
        """Have new mail announced by the event loop. Called in the watcher's thread."""
        if not self._begun:
            raise StorageFailed("the gateway is stopping")
        work = asyncio.run_coroutine_threadsafe(self._announcements().announce(mail, account), self._loop)
        try:
            work.result(STORE_SECONDS)
        except TimeoutError:
            work.cancel()
            raise StorageFailed("new mail could not be announced in time") from None

    def _announcements(self) -> MailAnnouncements:
        if self._made is None:
            from gateway.mail.announcing import MailAnnouncements

            self._made = MailAnnouncements(
                submit=partial(self._inbox.submit, account=HOOK_ACCOUNT),
                queue=self._ledger.context_events.announce,
                latest=self._latest,
                name_at=self._owner.name_at,
                agent_of=self._agent,
                unasked=self._unasked,
                zone=self._zone,
                clock=self._deps.clock,
            )
        return self._made

    async def _latest(self, agent: str) -> ChatAddress:
        return await self._owner.place_of(agent) or _TERMINAL

    def _agent(self, name: str) -> str:
        settings = self._settings.current
        account = settings.mail.accounts.get(name)
        named = [one for one in (account.agents if account is not None else ()) if one in settings.agent_ids]
        return named[0] if named else settings.default_agent

    def _unasked(self, agent: str, account: str) -> Unasked:
        return self._agents[agent].unasked(f"mail:{account}", f"mail {account}")

    def _zone(self, agent: str) -> tzinfo | None:
        return self._agents[agent].zone
