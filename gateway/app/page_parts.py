"""Builds the page in the browser: its channel, its events, who may open it, and the routes. Loaded with the first request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from channels.messages import WEB, ChatAddress
from channels.platform import Policy
from channels.protocol import Channel
from gateway.agents.running_agent import RunningAgent
from gateway.agents.session_contexts import main_key
from gateway.app.dependencies import Dependencies
from gateway.ledger.rows import Approval
from gateway.settings.root import SettingsStore

if TYPE_CHECKING:
    from channels.web.channel import WebChannel
    from gateway.api.routes.admin import Call
    from gateway.page.browsers import Browsers
    from gateway.page.outside_changes import Facts, OutsideChanges
    from gateway.page.page_events import EventHub

FOLDER: Final = "web"
"""Below the state: what was said in the page, and files that came or went there."""


class PageParts:
    """``keep`` is given the channel once the page is used; ``stop`` stops the running turn of a conversation.

    ``approval`` finds a question by its id, and ``answered`` the message that a turn answers, after which its entries are named.
    ``outside`` returns what is looked at for changes that no page makes, by the kind of event
    that tells of them.
    """

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        *,
        agents: Mapping[str, RunningAgent],
        keep: Callable[[Channel, Policy], None],
        approval: Callable[[str], Awaitable[Approval | None]],
        answered: Callable[[str], Awaitable[str]],
        stop: Callable[[ChatAddress], Awaitable[None]],
        outside: Callable[[], Mapping[str, Facts]],
    ) -> None:
        self._outside = outside
        self.across: Callable[[Mapping[str, Call]], Mapping[str, Call]] = dict
        """Makes calls reach all agents of a cluster."""
        self.opened: Callable[[], None] = lambda: None
        """Called when a page begins to listen."""
        self._changes: OutsideChanges | None = None
        self._deps = deps
        self._settings = settings
        self._agents = agents
        self._keep = keep
        self._approval = approval
        self._answered = answered
        self._stop = stop
        self._channel: WebChannel | None = None
        self._hub: EventHub | None = None
        self._browsers: Browsers | None = None

    @property
    def enabled(self) -> bool:
        """Whether the page is served."""
        return self._deps.serving and self._settings.current.gateway.under(self._deps.env).serves_page

    @property
    def hub(self) -> EventHub:
        """What open pages are told by."""
        if self._hub is None:
            from gateway.page.page_events import EventHub

            self._hub = EventHub()
        return self._hub

    @property
    def browsers(self) -> Browsers:
        """Who may open the page."""
        if self._browsers is None:
            from gateway.page.browsers import Browsers

            self._browsers = Browsers(self._deps.paths.state, self._deps.clock.now)
        return self._browsers

    @property
    def channel(self) -> WebChannel:
        """The channel, which runs from when it is asked for until the gateway ends."""
        if self._channel is None:
            from channels.web.channel import WebChannel

            folder = self._deps.paths.state / FOLDER
            self._channel = WebChannel(
                clock=self._deps.clock,
                folder=folder,
                tell=self._tell,
                on_stop=self._stop,
                during=self._during,
                answered=self._answered,
                largest=lambda: self._settings.current.messages.attachments.max_bytes,
                together=lambda: self._settings.current.messages.attachments.total_bytes,
            )
            self._keep(self._channel, Policy(local=True))
        return self._channel

    @property
    def watched(self) -> bool:
        """Whether a page is open."""
        return self._hub is not None and self._hub.watched

    def place(self, used: ChatAddress | None) -> ChatAddress | None:
        """Return ``used``, if it is a conversation of the page, or the main one; None where the page is not served or was never used."""
        if self._channel is None or not self.enabled:
            return None
        from channels.web.channel import place_of

        return used if used is not None and used.channel == WEB else place_of(main_key(self._settings.current.default_agent))

    def begin(self) -> None:
        """Let the channel run, if the page was used before: messages for it may wait."""
        if self._deps.serving and (self._deps.paths.state / FOLDER).is_dir():
            assert self.channel.name == WEB

    def close(self) -> None:
        """End all streams."""
        if self._changes is not None:
            self._changes.stop()
        if self._hub is not None:
            self._hub.end()

    def publish(self, kind: str, data: Any = None) -> None:
        """Tell open pages that something changed, and those that lost their connection for a while. Nothing while no page was used."""
        if self._hub is not None:
            self._hub.publish(kind, data)

    def calls(self) -> dict[str, Call]:
        """The calls by name, for the command line and the page."""
        return {"page.open": self.open, "page.browsers": self.list_browsers, "page.revoke": self.revoke}

    def routes(self, calls: Callable[[], Mapping[str, Call]]) -> Callable[[Any], Awaitable[Any]]:
        """Return what answers requests. ``calls`` are those of the command line."""
        from gateway.api.routes.page_routes import PageRoutes
        from gateway.base.structured_log import structlog
        from gateway.page.asset_files import AssetFiles

        if self._changes is None:
            self._watch()
        routes = PageRoutes(
            assets=AssetFiles(),
            browsers=self.browsers,
            hub=self.hub,
            files=self.channel.files,
            calls=self.across(self.page_calls(calls())),
            told=self._told,
            changed=self.publish,
            log=structlog.get_logger("gateway.page"),
            cookie=self._shared_cookie(),
        )
        return routes.answer

    def _shared_cookie(self) -> str:
        """Return the name of the cookie that all gateways of a cluster take, whatever their ports; empty for a gateway by itself."""
        if not self._settings.current.cluster.enabled:
            return ""
        from gateway.cluster.agreement import home_of

        return f"homebody-{home_of(self._deps.paths.state, '').id}"

    def page_calls(self, calls: Mapping[str, Call]) -> dict[str, Call]:
        """Return what the page calls, for the agents of this gateway. ``calls`` are those of the command line."""
        from gateway.api.handlers.chat_requests import ChatHandlers
        from gateway.page.withholding import WITHHELD, without_secrets

        withheld = {name: without_secrets(calls[name], self._deps.outgoing.text) for name in WITHHELD}
        return {**calls, **withheld, **ChatHandlers(self._agents, lambda: self.channel, self._approval).calls()}

    def watched_hub(self) -> EventHub:
        """Return what pages are told by, also pages of other gateways: it is looked for changes while somebody listens."""
        if self._changes is None:
            self._watch()
        return self.hub

    def end_browser(self, browser: str) -> None:
        """End what a browser has open that is let in no more."""
        if self._hub is not None:
            self._hub.end(browser)

    def _watch(self) -> None:
        from gateway.page.outside_changes import OutsideChanges

        changes = self._changes = OutsideChanges(self.hub, self._outside())

        def opened() -> None:
            changes.begin()
            self.opened()

        self.hub.opened = opened
        changes.begin()

    async def open(self, *, viewer: bool = False) -> dict[str, Any]:
        """Make a one-time code for a browser."""
        code, expires = await asyncio.to_thread(self.browsers.code, "viewer" if viewer else "owner")
        return {"code": code, "expires": expires.isoformat(timespec="seconds"), "enabled": self.enabled}

    async def list_browsers(self) -> list[dict[str, Any]]:
        """Return the browsers that were let in."""
        return [one.facts for one in await asyncio.to_thread(self.browsers.all)]

    async def revoke(self, browser: str) -> list[dict[str, Any]]:
        """Let a browser in no more (``all``: any), and end what it has open."""
        gone = await asyncio.to_thread(self.browsers.revoke, browser)
        for one in gone:
            self.hub.end(one.id)
        return [one.facts for one in gone]

    def _tell(self, kind: str, data: Any) -> None:
        if kind == "chat.said":
            from gateway.page.chat_history import told_line

            data = {"session": data["session"], "item": told_line(data["line"])}
        self.hub.publish(kind, data)

    def _during(self, session: str) -> str:
        """Return the id of the conversation that is open under a session's key."""
        agent = self._agents.get(session.split(":")[1])
        record = agent.store.get(session) if agent is not None else None
        return record.session if record is not None else ""

    def _told(self) -> dict[str, Any]:
        from importlib.metadata import version

        current = self._settings.current
        named = [current.agent(name) for name in current.agent_ids]
        agents = [{"id": one.id, "name": one.name, "main": main_key(one.id)} for one in named]
        facts = {"version": version("homebody"), "agents": agents, "defaultAgent": current.default_agent}
        return facts | {"event": self.hub.latest, "beat": self.hub.beat_seconds}
