"""One session as the agent works on it: transcript, settings, model and tools, and the request built from them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from agent.characters import without_controls
from agent.context import cache_retention, file_changes, prompt
from agent.context.cache_retention import Ttl
from agent.context.light_run import LightRun, is_first_call, light_view
from agent.context.prefix import PrefixWatch
from agent.context.start_notes import start_notes
from agent.context.window import Window, least_window
from agent.context.workspace_files import TASK_FILES, Workspace, WorkspaceFile
from agent.messages import Message, ToolCall, ToolMessage, UserMessage
from agent.models import token_estimate
from agent.models.protocol import Model, Request, Segment, is_cached_by_time
from agent.models.token_estimate import Calibration, Weight
from agent.settings import AgentSettings, Level
from agent.timing import Clock
from agent.tools.protocol import Origin, ToolContext
from agent.tools.toolbox import OTHER_PROGRAMS, Toolbox
from agent.transcript.entries import Body, Entry, FilesChanged, Opened, Said
from agent.transcript.history_view import RunningView, repaired, view
from agent.transcript.seen_urls import seen_urls
from agent.transcript.transcript import Transcript
from memory.audience import Audience

_LEAST_WINDOW = 8000
"""An overflow that names no window never lowers the assumed window below this."""
_ORIGINS: dict[str, Origin] = {"owner": "owner", "peer": "guest", "group": "group"}
_NO_FILES = frozenset({"memory_search", "memory_get", "web_fetch", "web_search", "exec", "process", "tool_search"})
"""Tools that do not open the workspace themselves: commands are shown of it what the setting says."""


@dataclass(kw_only=True)
class SessionContext:
    """One session of one agent. Call ``prepare`` before use.

    ``private``: it is the owner's main session, the only one that is given MEMORY.md. ``model`` may be changed between turns.
    ``flush_model``: the model for memory flushes, where the settings name one. ``inherited``: the pins of the previous session.
    ``thinking``: the thinking level; None leaves it to the model's default. ``thoughts``: the model's thoughts are shown to
    somebody. ``narrowed``: a smaller window that history must fit, while the model keeps its own. ``keeping``: the tools of the
    memory flush, which rules on the model's tools do not restrict. ``origin``: who started the turn that runs; None: the audience tells.
    ``light``: its requests have no history before ``turn``, which is the id of the turn that runs. ``task``: it is a sub-agent's, and is
    given no more of the workspace than how to work in it.
    ``language`` is what it writes here, where the settings say.
    ``skills`` returns the list of skills for a window of that size; it may block.
    """

    agent: str
    session: str
    key: str
    audience: Audience
    private: bool
    settings: AgentSettings
    model: Model
    toolbox: Toolbox
    workspace: Workspace
    transcript: Transcript
    zone: ZoneInfo
    clock: Clock
    keeping: Toolbox | None = None
    flush_model: Model | None = None
    thinking: Level | None = None
    thoughts: bool = False
    narrowed: int | None = None
    inherited: tuple[str, ...] = ()
    origin: Origin | None = None
    light: LightRun | None = None
    turn: str = ""
    task: bool = False
    language: str = ""
    skills: Callable[[int], str] = field(default=lambda _window: "", repr=False)
    calibration: Calibration = field(default_factory=Calibration)
    watch: PrefixWatch = field(default_factory=PrefixWatch)
    _ttl: Ttl | None = None
    _ceiling: tuple[str, int] | None = None
    _files: tuple[WorkspaceFile, ...] = ()
    """What the prompt holds: as the files were when the provider's cache had run out last."""
    _files_now: tuple[WorkspaceFile, ...] = ()
    _files_known: tuple[WorkspaceFile, ...] = ()
    """What the model knows of them: what the prompt holds, with what it was told since."""
    _files_cycle: str | None = None
    _listed: str = ""
    _ready: Toolbox | None = None
    """The tools whose descriptions were made."""
    _system: tuple[Segment, ...] = ()
    _made_of: dict[str, Any] = field(default_factory=dict)
    """What the system text was made of: it is made anew when that changed."""
    _fixed: Weight = field(default_factory=Weight)
    _reported: tuple[Weight, int] | None = None
    _no_summary: tuple[str, int] | None = None
    """The model that made no summary when it was asked last, and from how many tokens on it is asked again."""
    _view: RunningView = field(default_factory=RunningView)

    @property
    def window(self) -> Window:
        """The context window in force, with its lines."""
        size = self.readable
        return Window.of(size if self.narrowed is None else min(size, self.narrowed), self.settings.compaction)

    @property
    def readable(self) -> int:
        """How much the model can be shown in all, in tokens."""
        window = self.model.window
        size = min(window, self.settings.context_tokens or window)
        if self._ceiling is not None and self._ceiling[0] == self.model.name:
            size = min(size, self._ceiling[1])
        return size

    @property
    def too_small(self) -> str:
        """Describe a window that is too small for the instructions and tools, with the least size needed; empty otherwise."""
        fixed = self.calibration.apply(self._fixed)
        if self.window.size >= (least := least_window(fixed)):
            return ""
        return (
            f"{self.model.name} has a window of {self.window.size:,} tokens, which is too small: instructions and tools alone take "
            f"{fixed:,}. At least {least:,} are needed: give its server a larger context, choose another model with /model, or allow "
            "fewer tools (tools.profile: minimal)."
        )

    def may_summarise(self, size: int) -> bool:
        """Whether a summary may be asked for at ``size`` tokens, where there is still room.

        After one that failed the next one waits until half of the room that was left then is taken, and after that until all of it is:
        each try costs a whole conversation.
        """
        return self._no_summary is None or self._no_summary[0] != self.model.name or size >= self._no_summary[1]

    def summary_ended(self, *, failed: bool) -> None:
        """Record whether a summary came of it when one was asked for last."""
        if not failed:
            self._no_summary = None
            return
        again = self._no_summary is not None and self._no_summary[0] == self.model.name
        size, full = self.tokens(), self.window.size
        self._no_summary = (self.model.name, full if again else size + max(0, full - size) // 2)

    def overflowed(self) -> None:
        """Record that the model found the context too long: its window is smaller than assumed.

        Where the provider named its window, the model knows it by now, and nothing is guessed.
        """
        size = self.tokens()
        if self.readable >= size:
            self._ceiling = (self.model.name, max(min(_LEAST_WINDOW, self.readable), int(size * 0.95)))

    @property
    def ttl(self) -> Ttl:
        """The cache retention: as set, or the one that is likely to cost less."""
        wanted = self.settings.cache_retention
        if wanted != "auto":
            return wanted
        if self._ttl is None:
            self.judge_rhythm()
        assert self._ttl is not None
        return self._ttl

    def judge_rhythm(self, shrinks: float = 0.0) -> None:
        """Choose the retention again. When the cache has expired, a change costs nothing. ``shrinks``: the share that was just pruned."""
        refreshed = self.settings.cache_refresh.hours * cache_retention.SECONDS["1h"] if is_cached_by_time(self.model) else 0.0
        entries = self.transcript.entries
        gaps, new = cache_retention.silences(entries), cache_retention.new_share(entries)
        self._ttl = cache_retention.cheaper(gaps, new, refreshed=refreshed, shrinks=shrinks)

    @property
    def may_write(self) -> bool:
        """Whether notes can be written: the tool is there, and the workspace is writable."""
        return self.settings.sandbox.workspace_access == "rw" and "write" in (self.keeping or self.toolbox).told

    @property
    def flush_obstacle(self) -> str:
        """Why a memory flush never writes notes in this session, with the setting; empty where it does."""
        if not self.settings.compaction.memory_flush.enabled:
            return "the memory flush is off (agents.defaults.compaction.memoryFlush.enabled: false)"
        if (access := self.settings.sandbox.workspace_access) != "rw":
            return f"the workspace may not be changed (agents.defaults.sandbox.workspaceAccess: {access})"
        return "" if self.may_write else "no tool may write (tools.deny)"

    @property
    def model_may_write(self) -> bool:
        """Whether the model itself can write notes."""
        boxes = (self.keeping or self.toolbox, self.toolbox)
        return self.settings.sandbox.workspace_access == "rw" and all("write" in box.told for box in boxes)

    async def keep(self, call: ToolCall, turn: str, taint: frozenset[str] | None = None) -> ToolMessage:
        """Run a tool call of the memory flush: the workspace's rules apply, the rules on the model's tools do not.

        ``taint``: the sources of what is written, where they are not those of the history.
        What people and models said may hold control characters, which no note may: each becomes U+FFFD.
        """
        written = {
            name: without_controls(value) if isinstance(value, str) else value for name, value in (call.arguments or {}).items()
        }
        return await (self.keeping or self.toolbox).run(
            replace(call, arguments=written), self.tool_context(turn, taint), permit=self.permit
        )

    def permit(self, call: ToolCall) -> str | None:
        """Say why a call may not run under ``sandbox.workspaceAccess``, or None."""
        access = self.settings.sandbox.workspace_access
        if (
            access == "rw"
            or call.name in _NO_FILES
            or call.name.startswith(OTHER_PROGRAMS)
            or (access == "ro" and self.toolbox.effect_of(call.name) == "pure")
        ):
            return None
        what = "may be read but not changed" if access == "ro" else "is closed to its tools"
        return f"refused: the workspace {what} (agents.defaults.sandbox.workspaceAccess: {access})"

    def now(self) -> datetime:
        """The current instant in the owner's zone."""
        return self.clock.now().astimezone(self.zone)

    def today(self) -> date:
        """The owner's date."""
        return self.now().date()

    def tool_context(self, turn: str, taint: frozenset[str] | None = None) -> ToolContext:
        """The context in which the tool calls of a turn run. ``taint``: other sources than those of the history."""
        return ToolContext(
            now=self.now(),
            session=self.session,
            turn=turn,
            key=self.key,
            audience=self.audience,
            origin=self.origin or _ORIGINS[self.audience.kind],
            taint=self.taint if taint is None else taint,
            newest_sources=self.transcript.newest_sources if taint is None else (),
            task=self.task,
            has_seen=lambda url: url in seen_urls(self.transcript.entries),
        )

    @property
    def taint(self) -> frozenset[str]:
        """The sources of untrusted text that the model has been shown in this session."""
        return self.transcript.taint

    async def prepare(self) -> None:
        """Read the workspace files; on a session's first turn, record the notes that it starts with."""
        begins = self.transcript.opened is None
        files, self._listed, (notes, taint) = await self.workspace.reads.get(
            self._sources_of_files(begins=begins), partial(self._read_files, begins=begins)
        )
        self._files_now = tuple(one for one in files if not self.task or one.name in TASK_FILES)
        if begins:
            body = Opened(
                agent=self.agent,
                session=self.session,
                key=self.key,
                audience="owner" if self.audience.kind == "owner" else f"{self.audience.kind}:{self.audience.key}",
                notes=notes,
                pins=self.inherited,
                taint=taint,
            )
            await self.transcript.append("open", body, n=0, durable=False)
        if self.light is None and self._file_changes() is None:
            self._files = self._files_known = self._files_now
            self._files_cycle = self.transcript.cycle
        if (made_of := self._sources_of_system()) != self._made_of:
            self._made_of, self._system = made_of, prompt.system_text(**made_of)
        self._fixed = token_estimate.weight_of_fixed(self._system, self.toolbox.specs)

    def news_of_files(self) -> FilesChanged | None:
        """Return what the model has to be told of the workspace files before the next message, once; None where it knows."""
        note = None if self.light is not None else self._file_changes()
        if not note:
            return None
        self._files_known = self._files_now
        return FilesChanged(note=note)

    def _file_changes(self) -> str | None:
        """Return how the files differ from what the model knows of them; None where the prompt is to be made of them anew.

        A summary leaves out what was told before it.
        """
        since = self.transcript.last_call
        if (
            self.settings.bootstrap_changes == "rewrite"
            or not self._files
            or self._files_cycle != self.transcript.cycle
            or since is None
            or self.clock.now() - since >= timedelta(seconds=cache_retention.SECONDS[self.ttl])
        ):
            return None
        if self._files_known is self._files_now or self._files_known == self._files_now:
            return ""
        return file_changes.changes(self._files_known, self._files_now)

    def _sources_of_files(self, *, begins: bool) -> Hashable:
        """Return what ``_read_files`` depends on beside the files: sessions that begin at once and are alike in it share what is read."""
        settings = self.settings
        limits = settings.startup_context, settings.bootstrap_max_chars
        access = settings.sandbox.workspace_access, settings.prompt_mode
        return begins, self.audience, self.private, self.task, self.readable, self.toolbox, self.today(), *limits, *access

    def _read_files(self, *, begins: bool) -> tuple[Sequence[WorkspaceFile], str, tuple[str, tuple[str, ...]]]:
        """Return the workspace files, the list of skills, which only the owner's conversations are given, and what a session begins with.

        Blocks.
        """
        if self._ready is not self.toolbox:  # both take a while at the first turn, and must not hold up the event loop
            for spec in self.toolbox.specs:
                _ = spec.parameters
            self._ready = self.toolbox
        files = self.workspace.bootstrap_files(self.audience)
        closed = self.settings.sandbox.workspace_access == "none" or self.settings.prompt_mode != "full"
        given = self.audience.kind == "owner" and "read" in self.toolbox.told and not (self.task or closed)
        if not begins:
            return files, self.skills(self.readable) if given else "", ("", ())
        notes = start_notes(
            self.workspace, self.audience, self.settings, today=self.today(), private=self.private, window=self.readable
        )
        return files, self.skills(self.readable) if given else "", notes

    def messages(self) -> tuple[Message, ...]:
        """What the model is shown of the history."""
        if self.light is not None:
            return light_view(self.transcript.entries, self.turn, self.zone)
        return self._view.of(self.transcript.entries, self.zone)

    def system(self) -> tuple[Segment, ...]:
        """The system text, as of the last call of ``prepare``."""
        return self._system

    def _sources_of_system(self) -> dict[str, Any]:
        """Return what the system text is made of: the arguments of ``prompt.system_text``."""
        opened = self.transcript.opened if self.light is None else self.light.opened or self.transcript.opened
        return {
            "mode": "task" if self.task and self.settings.prompt_mode != "none" else self.settings.prompt_mode,
            "there": prompt.PromptFacts(
                zone=self.zone.key,
                audience=self.audience,
                tools=self.toolbox.told,
                writes=self.model_may_write,
                notes_given=self.settings.startup_context.enabled,
                private=self.private,
                window=self.readable,
                language=self.language,
            ),
            "files": self._files if self.light is None else self._files_now,
            "skills": self._listed,
            "notes": opened.notes if opened else "",
            "pins": opened.pins if opened else (),
            "file_chars": self.settings.bootstrap_max_chars,
            "total_chars": self.settings.bootstrap_total_max_chars,
        }

    def request(self, *, extra: Sequence[Message] = (), history: Sequence[Message] | None = None) -> Request:
        """Return the request for the next call: the whole history (or ``history``), then ``extra``."""
        shown = self.messages() if history is None else tuple(history)
        messages = repaired((*shown, *extra)) if extra else shown
        free = self.readable - self.tokens(history=history, extra=extra)
        return Request(
            system=self._system,
            tools=self.toolbox.specs,
            messages=messages,
            max_output=max(256, min(self.settings.max_output_tokens, self.model.max_output, free)),
            cache_key=hashlib.sha256((self.light.shared if self.light else self.session).encode()).hexdigest()[:32],
            **self._caching(messages),
            thinking=self.thinking,
            thoughts=self.thoughts,
        )

    def _caching(self, messages: Sequence[Message]) -> dict[str, Any]:
        """How the provider is asked to keep a request. The time in a light turn's first one is never asked for again."""
        if self.light is None:
            return {"cache_ttl": self.ttl}
        if self.light.ttl is None:
            return {"cached": not is_first_call(messages)}
        return {"cache_ttl": self.light.ttl, "kept_parts": 1}

    def tokens(self, *, history: Sequence[Message] | None = None, extra: Sequence[Message] = ()) -> int:
        """Return the size of the next request, in tokens."""
        if history is None and self.light is None:
            history = self._view.since_report(self.transcript.entries, self.zone)
            if history is None and not extra:
                return self.estimated(self.messages())
        shown = self.messages() if history is None else history
        return token_estimate.context_tokens((*shown, *extra) if extra else shown, self._fixed, self.calibration)

    def size_if(self, body: Body) -> int:
        """Return what the size of the next request would be with one more entry: measured like the present size."""
        entries = self.transcript.entries
        coming = Entry(id="~", parent=None, at=self.clock.now(), body=body)
        now = self.estimated(self.messages())
        shown = view if self.light is None else partial(light_view, turn=self.turn)
        then = self.estimated(shown([*entries, coming], zone=self.zone))
        return round(then * self.tokens() / now) if now else then

    def estimated(self, messages: Sequence[Message]) -> int:
        """Return the size of a request with these messages, by estimate alone."""
        return self.calibration.apply(self._fixed + token_estimate.weight_of_messages(messages))

    def notes_known(self, days: Collection[date] = ()) -> str:
        """The notes that a model was given, and those of today and of ``days`` as they are now. Blocks."""
        opened = self.transcript.opened
        notes = [self.workspace.daily(self.audience, day) for day in sorted({*days, self.today()})]
        return "\n".join(filter(None, (opened.notes if opened else "", *notes)))

    def day_of(self, message: UserMessage) -> date:
        """The owner's date when a message was said."""
        return min(message.at, self.clock.now()).astimezone(self.zone).date()

    def learn(self, request: Request, reported: int) -> None:
        """Correct the token estimate by the usage that a call reported: by its growth since the previous call, or by all of the first."""
        weight = token_estimate.weight_of_request(request)
        grown, more = weight, reported
        if self._reported is not None:
            grown, more = weight - self._reported[0], reported - self._reported[1]
        self._reported = (weight, reported)
        if more > 0 and min(grown.prose, grown.foreign, grown.code, grown.opaque, grown.dense) >= 0:
            self.calibration = self.calibration.learn(grown, more)

    def said_since_flush(self) -> list[Entry]:
        """The messages that no memory flush has seen yet."""
        mark = max((i for i, entry in enumerate(self.transcript.entries) if entry.body.kind == "flush_receipt"), default=-1)
        return [entry for entry in self.transcript.entries[mark + 1 :] if isinstance(entry.body, Said)]
