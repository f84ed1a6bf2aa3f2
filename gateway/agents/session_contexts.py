"""Caches an agent's open sessions, each with its current settings, model and tools; tells when a fallback model answered."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from agent.context.workspace_files import Workspace
from agent.errors import AgentError
from agent.models.protocol import Model
from agent.settings import AgentSettings
from agent.timing import Clock
from agent.tool_settings import ToolRules
from agent.tools.protocol import Origin
from agent.transcript.entries import Opened
from channels.platform import GroupRule
from gateway.budget.budget_guard import BudgetGuard
from gateway.models.model_registry import AgentModels
from gateway.routing.access import rules_of as group_rules
from gateway.routing.routed_message import Automation, isolated_kind
from gateway.sessions.sessions_file import SessionRecord
from gateway.settings.root import AgentProfile
from memory.audience import Audience
from memory.protocol import KeptMemory

if TYPE_CHECKING:
    from agent.context.cache_retention import Ttl
    from agent.context.session_context import SessionContext
    from agent.loop.turn import TurnResult
    from agent.transcript.transcript import Transcript
    from gateway.sessions.protocol import SessionStore
    from gateway.tools.registry import ToolRegistry

log = logging.getLogger(__name__)

_SURELY = 0.9
"""Share of a provider's retention after which a prompt is counted as forgotten: heartbeats come a little late."""
KEPT_OPEN = 32
"""Sessions kept in memory beside those in which a turn runs; others are read from their transcripts again."""
KEPT_BYTES = 8_000_000
"""The most that the entries of these sessions may take as they are stored; in memory it is once to twice as much."""

_LOOKED_THROUGH_EVERY = 16
"""While turns run in twice as many: after how many that are opened it is looked for some to close, which takes a while by then."""


def main_key(agent: str) -> str:
    """Return the key of the owner's own session with an agent."""
    return f"agent:{agent}:main"


def audience_of(record: SessionRecord, otherwise: Audience) -> Audience:
    """Return who may read a session: what its record says, for one whose key does not, or ``otherwise``."""
    kind, _, key = record.audience.partition(":")
    return Audience("group" if kind == "group" else "peer", key) if key else otherwise


def rules_of(automation: Automation) -> list[ToolRules]:
    """Return the tool rules of an automation's turn."""
    allowed = ("*",) if automation.allow is None else automation.allow
    return (
        [ToolRules.model_construct(allow=allowed, deny=automation.deny)]
        if automation.deny or automation.allow is not None
        else []
    )


def _tool_rules(record: SessionRecord, group: GroupRule | None) -> Sequence[ToolRules]:
    """Return a session's further tool rules: those of its group. An isolated one of a group that is not known has no tools."""
    if record.audience.startswith("group:") and not record.address:
        return [ToolRules(deny=("*",))]
    return group_rules(group) if group else ()


class SessionContexts:
    """Opens session contexts.

    ``group`` returns the rule of the group that a session belongs to, which narrows its tools and may choose model and language.
    ``busy`` returns whether a turn runs in the session of a key. ``skills`` returns the list of skills for a window.
    """

    def __init__(
        self,
        *,
        profile: AgentProfile,
        workspace: Workspace,
        memory: KeptMemory | None,
        rack: Callable[[], ToolRegistry],
        store: SessionStore,
        zone: ZoneInfo,
        clock: Clock,
        models: AgentModels,
        group: Callable[[SessionRecord], GroupRule | None] = lambda _: None,
        tell: Callable[[str], None] = log.warning,
        budget_guard: BudgetGuard | None = None,
        busy: Callable[[str], bool] = lambda _: False,
        skills: Callable[[int], str] = lambda _: "",
    ) -> None:
        self._skills = skills
        self._busy = busy
        self.profile = profile
        self.workspace = workspace
        self.memory = memory
        self._make_rack = rack
        self.store = store
        self.zone = zone
        self.clock = clock
        self.models = models
        self.budget_guard = budget_guard
        self._group = group
        self._tell = tell
        self._open: OrderedDict[str, SessionContext] = OrderedDict()
        self._opened = 0
        self._fresh: set[str] = set()
        self._missed: set[str] = set()
        """The sessions whose transcript was found empty or gone, which is told once."""
        """Sessions that were named by this process and not opened yet: nothing is stored of them that could be read."""
        self._shared: tuple[str, Opened | None] = ("", None)
        """The id of the owner's main session, and how it began, for light turns."""

    @cached_property
    def rack(self) -> ToolRegistry:
        """The agent's tools. They are made when a turn, a command or the page first asks for them."""
        rack = self._make_rack()
        rack.adopt(self.profile.tools)
        return rack

    @property
    def _has_rack(self) -> bool:
        return "rack" in self.__dict__

    async def close(self) -> None:
        """Close what its tools hold."""
        if self._has_rack:
            await self.rack.close()

    def __iter__(self) -> Iterator[SessionContext]:
        """Iterate over the open contexts."""
        return iter(tuple(self._open.values()))

    def get(self, session: str) -> SessionContext | None:
        """Return a session context if it is open."""
        return self._open.get(session)

    def begins(self, session: str) -> str:
        """Take note that the id of a session is a new one, and return it: no transcript is looked for."""
        self._fresh.add(session)
        return session

    def forget(self, session: str) -> None:
        """Close a session context; the next use reads the transcript again."""
        self._open.pop(session, None)
        self._fresh.discard(session)

    def adopt(self, profile: AgentProfile, busy: Collection[str]) -> None:
        """Apply new settings; running turns (the sessions ``busy``) keep theirs."""
        self.profile = profile
        if self._has_rack:
            self.rack.adopt(profile.tools)
        for conversation in self:
            if conversation.key not in busy:
                self.equip(conversation, self.store.get(conversation.key))

    async def open(
        self,
        record: SessionRecord,
        audience: Audience,
        *,
        model: str | None = None,
        origin: Origin | None = None,
        automation: Automation | None = None,
    ) -> SessionContext:
        """Return the session context for a turn, with the model that it uses now.

        ``origin``: who or what started the turn; an ``automation`` narrows its tools and may name its model.

        Raises:
            TranscriptWriteError: its transcript cannot be used.
            AgentError: its model cannot be used, or ``model``, requested by a person, may not be chosen.
        """
        from agent.models.thinking import level_of

        model = automation.model if automation is not None and automation.model else model
        light = automation is not None and automation.light
        usual = record if not light else self.store.get(main_key(self.profile.id)) or record
        wanted = self.models.names(self.profile.settings).resolve(model) if model else self.model_name(usual)
        chosen = await self._model(wanted, record.key)
        audience = audience_of(record, audience)
        conversation = self._open.get(record.session)
        if conversation is None or conversation.audience != audience:
            conversation = await self.of(record, record.session, audience, chosen)
            if self.memory is not None:
                self.memory.session_began()
        conversation.model = chosen
        chosen_level = level_of(record.thinking) if record.thinking else None
        conversation.thinking = chosen_level or self._settings(record.key).thinking_default
        conversation.thoughts = record.reasoning
        conversation.origin = origin
        if light:
            await self._lighten(conversation)
            conversation.thinking = level_of(automation.thinking if automation else None) or conversation.thinking
        self.equip(conversation, record, automation)
        flush_model = self.profile.settings.compaction.memory_flush.model
        conversation.flush_model = None if flush_model is None else await self._flush_model(flush_model, record.key)
        self._open[record.session] = conversation
        self._open.move_to_end(record.session)
        self._set_aside(conversation)
        return conversation

    async def _lighten(self, conversation: SessionContext) -> None:
        """Let a session without history share the prompt of the owner's main session, as far as that is the same from turn to turn."""
        from agent.context.light_run import LightRun
        from agent.context.prefix import PrefixWatch

        main = self.store.get(main_key(self.profile.id))
        conversation.private = conversation.audience.kind == "owner"
        conversation.watch = PrefixWatch()
        for session in filter(None, (main.session, main.former) if main else ()):
            if await self._share(session, main.key if main else ""):
                break
        shared, opened = self._shared
        open_ = self._open.get(main.session) if main else None
        conversation.light = LightRun(opened=opened, shared=shared or conversation.session, ttl=self._light_ttl(open_))

    async def _share(self, session: str, key: str) -> bool:
        """Find out how a session began, for light turns. Returns False for one that has not begun: then the former one is shared still."""
        if self._shared[0] != session:
            open_ = self._open.get(session)
            transcript = open_.transcript if open_ else await self._transcript(key, session)
            if transcript.opened is None:
                return False
            self._shared = session, transcript.opened
        return True

    def _light_ttl(self, main: SessionContext | None) -> Ttl | None:
        """Return how long the prompt is worth keeping between heartbeats; where that is too long, what the main session keeps is used."""
        from agent.context import cache_retention
        from agent.context.window import is_cold

        every = self.profile.heartbeat.every
        if every <= cache_retention.SECONDS["1h"] * _SURELY:
            return "5m" if every <= cache_retention.SECONDS["5m"] * _SURELY else "1h"
        if main is None or is_cold(main.transcript.last_call, self.clock.now(), cache_retention.SECONDS[main.ttl] * _SURELY):
            return None
        return main.ttl

    def _set_aside(self, present: SessionContext) -> None:
        """Close the contexts that were opened longest ago, except those in which a turn runs: a new reader would miss unwritten entries."""
        self._opened += 1
        if len(self._open) > 2 * KEPT_OPEN and self._opened % _LOOKED_THROUGH_EVERY:
            return
        held = sum(conversation.transcript.held for conversation in self)
        for place, (session, conversation) in enumerate(list(self._open.items()), KEPT_OPEN - len(self._open)):
            if place >= 0 and held <= KEPT_BYTES:
                return
            if conversation is not present and not self._busy(conversation.key):
                del self._open[session]
            held -= conversation.transcript.held

    async def inspect(self, record: SessionRecord, audience: Audience) -> SessionContext:
        """Return the session context for reading only, in its current state, even during a turn.

        Raises:
            AgentError: it is not open and cannot be opened.
        """
        conversation = self._open.get(record.session)
        if conversation is None:
            conversation = await self.open(record, audience)
            await conversation.prepare()
        return conversation

    def equip(self, conversation: SessionContext, record: SessionRecord | None, automation: Automation | None = None) -> None:
        """Apply the current settings and tools to a session context. Not during a turn."""
        conversation.settings = self._settings(conversation.key)
        group = self._group(record) if record else None
        rules = [*(_tool_rules(record, group) if record else ()), *(rules_of(automation) if automation else ())]
        private = conversation.audience.kind == "owner"
        conversation.language = group.choices.language if group else ""
        conversation.toolbox = self.rack.box(conversation.model.name, *rules, private=private)

    def _settings(self, key: str) -> AgentSettings:
        """Return the settings of a session: a sub-agent writes no notes, begins with none, and has a time limit of its own."""
        settings, limits = self.profile.settings, self.profile.subagents
        if isolated_kind(key) != "sub":
            return settings
        flush = settings.compaction.memory_flush.model_copy(update={"enabled": False})
        changed = {
            "compaction": settings.compaction.model_copy(update={"memory_flush": flush}),
            "startup_context": settings.startup_context.model_copy(update={"enabled": False}),
            "limits": settings.limits.model_copy(update={"timeout_seconds": limits.timeout_seconds}),
            "thinking_default": limits.thinking or settings.thinking_default,
        }
        return settings.model_copy(update=changed)

    def model_name(self, record: SessionRecord) -> str | None:
        """Return the model of a session: the one chosen with ``/model``, else its group's; None for the agent's own."""
        if record.model:
            return record.model
        group = self._group(record)
        return (group.choices.model or None) if group else None

    async def _model(self, name: str | None, session: str) -> Model:
        budget = None if self.budget_guard is None else (self.budget_guard, session)
        return await self.models.get(name, self.profile.settings, budget=budget)

    async def of(self, record: SessionRecord, session: str, audience: Audience, model: Model | None = None) -> SessionContext:
        """Read a session, current or ended, without keeping it open."""
        from agent.context.session_context import SessionContext

        audience, group = audience_of(record, audience), self._group(record)
        model = model or await self._model(self.model_name(record), record.key)
        return SessionContext(
            agent=self.profile.id,
            session=session,
            key=record.key,
            audience=audience,
            private=record.key == main_key(self.profile.id) and audience.kind == "owner",
            settings=self._settings(record.key),
            model=model,
            toolbox=self.rack.box(model.name, *_tool_rules(record, group), private=audience.kind == "owner"),
            keeping=self.rack.whole,
            workspace=self.workspace,
            transcript=await self._transcript(record.key, session),
            zone=self.zone,
            clock=self.clock,
            inherited=record.pins,
            task=isolated_kind(record.key) == "sub",
            skills=self._skills,
            calibration=self.models.learnt.calibration(model.name),
            language=group.choices.language if group else "",
        )

    async def transcript(self, record: SessionRecord) -> Transcript:
        """Return the transcript of a session in which no turn runs; if it is not open, it is read and not kept open.

        Raises:
            TranscriptWriteError: it cannot be used.
        """
        conversation = self._open.get(record.session)
        return conversation.transcript if conversation else await self._transcript(record.key, record.session)

    async def _transcript(self, key: str, session: str) -> Transcript:
        from agent.transcript.transcript import Transcript

        stored = self.store.transcript(session)
        if session in self._fresh:
            self._fresh.discard(session)
            return Transcript(stored, self.clock)
        transcript = await Transcript.load(stored, self.clock)
        if transcript.bad_lines:
            self._tell(
                f"{transcript.bad_lines} lines of the transcript {transcript.where} cannot be read. I continue without "
                f"them; to remove them from the file: homebody sessions repair {key}"
            )
        record = self.store.get(key)
        begins_empty = transcript.opened is None and not transcript.entries and not transcript.bad_lines
        if begins_empty and record is not None and record.session == session and record.turns and session not in self._missed:
            self._missed.add(session)
            self._tell(
                f"The transcript of {key} is empty or gone ({transcript.where}), though the session had turns. I go on "
                "without knowing what was said; your notes are not affected. A backup has it: homebody backup list"
            )
        return transcript

    async def _flush_model(self, name: str, session: str) -> Model | None:
        """The model for flushes; if it cannot be used, that is logged, and the session's own model is used."""
        try:
            return await self._model(name, session)
        except AgentError as error:
            log.warning("the flush model cannot be used: %s", error)
            return None


THOUGHT_CHARS = 4000
"""The most that is shown of a turn's thinking."""


def fallback_of(result: TurnResult) -> str:
    """Return the fallback model that answered, or an empty string."""
    return result.model if result.chosen and result.model != result.chosen else ""


def fallback_text(record: SessionRecord, result: TurnResult) -> str:
    """Return the notice about a fallback model for a reply; empty if nothing changed since the last reply or no model answered."""
    now = fallback_of(result)
    if result.outcome != "answered" or now == record.fallback_of:
        return ""
    if not now:
        return f"↩️ {result.chosen} answers again."
    reason = result.stood_in.reason.rstrip(".") if result.stood_in else ""
    why = f": {reason}" if reason else f", instead of {result.chosen}"
    return f"↪️ {now} answered{why}."


def with_asides(text: str, record: SessionRecord, result: TurnResult | None, *, continued: bool = False) -> str:
    """Return a reply with its notices below it, and the model's thoughts above it if the settings show them.

    ``continued``: the reply continues what was already sent, and may be empty; thoughts then come below, too.
    """
    if result is None or not (text or continued):
        return text
    if record.reasoning and result.thoughts:
        thoughts = result.thoughts if len(result.thoughts) <= THOUGHT_CHARS else f"{result.thoughts[:THOUGHT_CHARS]}…"
        quoted = "\n".join(f"> {line}".rstrip() for line in f"💭 {thoughts}".splitlines())
        text = "\n\n".join(filter(None, (text, quoted) if continued else (quoted, text)))
    lines = [*result.asides, *filter(None, [fallback_text(record, result)])]
    return "\n\n".join(filter(None, [text, "\n".join(lines)])) if lines else text
