"""Jobs: what ``homebody cron`` asks, in a running gateway or without one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from zoneinfo import ZoneInfo

from agent.timing import Clock
from channels.messages import ChatAddress
from gateway.base.clock import SystemClock
from gateway.base.errors import UsageError
from gateway.jobs.job_checks import Obstacle
from gateway.jobs.job_service import JobService
from gateway.jobs.job_words import facts, job_lines, name_for, named, run_facts, run_lines, schedule_of, target
from gateway.ledger.job_rows import Job, JobKind, NewJob
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import Unasked
from gateway.schedules.schedule import At, to_text
from gateway.settings.root import Settings
from memory.audience import OWNER, Audience

_KINDS: Final[dict[str, JobKind]] = {"reminder": "message", "task": "prompt"}
_OF_TASKS: Final = {"--model": "model", "--usd": "daily_usd", "--tokens": "daily_tokens"}
"""Options that mean nothing for a reminder."""
_CHANGEABLE: Final = (
    *("when", "zone", "text", "kind", "name", "to", "session", "model", "tools"),
    *("daily_usd", "daily_tokens", "urgent", "catch_up_seconds"),
)


class StoredTargets:
    """What jobs need to know where no gateway runs: the settings. Models and chats are looked at when a gateway fires a job."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._zones: dict[str, ZoneInfo] = {}

    def zone(self, agent: str) -> ZoneInfo:
        """See ``gateway.jobs.job_checks.JobTargets``."""
        from gateway.agents.memory_stores import owner_zone  # it brings much along, and is not needed beside a gateway

        if (zone := self._zones.get(agent)) is None:
            known = agent if agent in self._settings.agent_ids else self._settings.default_agent
            zone = self._zones[agent] = owner_zone(self._settings.agent(known))
        return zone

    def agents(self) -> Sequence[str]:
        """See ``gateway.jobs.job_checks.JobTargets``."""
        return self._settings.agent_ids

    def main_session(self, agent: str) -> str:
        """See ``gateway.jobs.job_checks.JobTargets``."""
        from gateway.agents.session_contexts import main_key

        return main_key(agent)

    def obstacle(self, job: NewJob) -> Obstacle | None:
        """See ``gateway.jobs.job_checks.JobTargets``."""
        if job.agent in self._settings.agent_ids:
            return None
        return Obstacle(f"there is no agent {job.agent!r} any more", f"Add it: `homebody agents add {job.agent}`.")

    def unasked(self, job: Job) -> Unasked | None:  # noqa: ARG002  (the protocol's)
        """Return None: nothing is sent without a gateway."""
        return None

    async def latest_chat(self, agent: str | None = None) -> ChatAddress | None:  # noqa: ARG002  (the protocol's)
        """Return None, likewise."""
        return None

    def name_at(self, agent: str, place: ChatAddress) -> str:  # noqa: ARG002  (the protocol's)
        """Return nothing, likewise."""
        return ""

    async def audience(self, agent: str, place: ChatAddress) -> Audience:  # noqa: ARG002  (the protocol's)
        """Return the owner: who reads it is looked at when a gateway fires the job."""
        return OWNER

    async def is_stranger(self, place: ChatAddress) -> bool:  # noqa: ARG002  (the protocol's)
        """Return False: the people who have access are known to a running gateway alone."""
        return False


class JobHandlers:
    """Adds, lists, shows and changes jobs for the owner. All answers are JSON values."""

    def __init__(self, service: JobService, clock: Clock, *, settings: Callable[[], Settings]) -> None:
        self._service = service
        self._clock = clock
        self._settings = settings

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {
            "jobs.list": self.list,
            "jobs.add": self.add,
            "jobs.show": self.show,
            "jobs.change": self.change,
            "jobs.pause": self.pause,
            "jobs.resume": self.resume,
            "jobs.run": self.run,
            "jobs.remove": self.remove,
            "jobs.log": self.log,
        }

    async def list(self, agent: str | None = None, *, everything: bool = False, brief: bool = False) -> dict[str, Any]:
        """Return the jobs of an agent, or of all; those that have ended only with ``everything``. ``brief``: ``next`` has one."""
        if agent is not None:
            self._settings().agent(agent)
        jobs = await self._service.list(agent)
        return {"jobs": [self._facts(job, brief=brief) for job in jobs if everything or job.state != "done"]}

    async def add(self, when: str, text: str, agent: str | None = None, **given: Any) -> dict[str, Any]:
        """Add a job. Raises UsageError for values that cannot be used."""
        profile = self._settings().agent(agent or self._settings().default_agent)
        if not text.strip():
            raise UsageError("the text is empty", hint='Write it like: homebody cron add "tomorrow at 9" "Water the plants"')
        kind = _kind(given.pop("kind", None) or "reminder")
        base = NewJob(
            agent=profile.id,
            name=name_for(text),
            schedule="",
            kind=kind,
            text=text,
            session="isolated",
            created_by="command line",
        )
        fields = self._fields(base, {"when": when, **given})
        return self._answer(await self._service.add(NewJob(**_values(base) | fields)), self._warnings(fields))

    async def show(self, job: str) -> dict[str, Any]:
        """Return one job. Raises UsageError when there is none, or several have this name."""
        return self._answer(await self._service.find(job))

    async def change(self, job: str, **given: Any) -> dict[str, Any]:
        """Change what is given of a job. Raises UsageError for values that cannot be used."""
        found = await self._service.find(job)
        unknown = [name for name in given if name not in _CHANGEABLE]
        if unknown or not given:
            raise UsageError(
                f"nothing of a job is called {unknown[0]!r}" if unknown else "nothing was named that is to be changed",
                hint="homebody cron change --help lists what can be changed.",
            )
        fields = self._fields(found, given)
        return self._answer(await self._service.change(found.id, **fields), self._warnings(fields))

    async def pause(self, job: str) -> dict[str, Any]:
        """Fire a job no more until it is resumed."""
        return self._answer(await self._service.pause((await self._service.find(job)).id))

    async def resume(self, job: str) -> dict[str, Any]:
        """Fire a paused job again."""
        return self._answer(await self._service.resume((await self._service.find(job)).id))

    async def run(self, job: str, request: str = "") -> dict[str, Any]:
        """Fire a job now; the same ``request`` fires it once."""
        found = await self._service.find(job)
        run = await self._service.run_now(found.id, request, by_person=True)
        zone = self._service.targets.zone(found.agent)
        return {
            "job": self._facts(found),
            "run": run_facts(run, zone),
            "told": f"{named(found)} is started. {target(found, 'your')}",
        }

    async def remove(self, job: str) -> dict[str, Any]:
        """Delete a job and its log."""
        removed = await self._service.remove((await self._service.find(job)).id)
        return {"job": self._facts(removed), "told": f"{named(removed)} is removed."}

    async def log(self, job: str, limit: int = 20) -> dict[str, Any]:
        """Return a job with its latest runs, the newest first."""
        found = await self._service.find(job)
        runs, zone = await self._service.log(found.id, limit), self._service.targets.zone(found.agent)
        lines = run_lines(runs, zone, self._clock.now())
        return self._answer(found) | {"runs": [run_facts(run, zone) for run in runs], "lines": lines}

    def _fields(self, job: NewJob, given: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of a job that the command's options mean."""
        from gateway.hooks.definition import checked_model

        fields: dict[str, Any] = {}
        kind = _kind(given["kind"]) if given.get("kind") else job.kind
        if given.get("kind"):
            fields["kind"] = kind
        fields |= self._schedule(job, kind, given)
        for name in ("text", "name", "session", "model", "daily_usd", "daily_tokens", "catch_up_seconds"):
            if given.get(name) is not None:
                fields[name] = given[name] if given[name] != "" else None
        if fields.get("model"):
            checked_model(fields["model"], self._settings())
        if given.get("tools") is not None:
            fields["tools"] = _tools(given["tools"])
        if given.get("urgent") is not None:
            fields["urgent"] = given["urgent"]
        if given.get("to") is not None:
            fields["deliver"] = _place(given["to"], self._settings())
        unused = [option for option, name in _OF_TASKS.items() if given.get(name) not in {None, ""}]
        if kind == "message" and unused:
            raise UsageError(
                f"a reminder is sent without a model, so {unused[0]} does nothing for it",
                hint="Make it a task: --task (change: --kind task).",
            )
        if kind == "message" and fields.get("deliver", job.deliver) == "none":
            raise UsageError("a reminder has to be sent somewhere", hint="Use --to owner, or make it a task with --kind task.")
        return fields

    def _schedule(self, job: NewJob, kind: JobKind, given: dict[str, Any]) -> dict[str, Any]:
        from gateway.schedules.parsing import parse_schedule, zone_named

        owners = self._service.targets.zone(job.agent)
        if given.get("zone") is None and given.get("when") is None:
            return {}
        zone = zone_named(given["zone"]) if given.get("zone") else owners
        named_zone = given["zone"] if given.get("zone") else ""
        if given.get("when") is None:
            schedule = schedule_of(job, zone)
            return {"zone": "" if isinstance(schedule, At) else named_zone}
        schedule = parse_schedule(given["when"], zone=zone, now=self._clock.now())
        return {"schedule": to_text(schedule), "zone": named_zone, "urgent": kind == "message" and isinstance(schedule, At)}

    def _facts(self, job: Job, *, brief: bool = False) -> dict[str, Any]:
        return facts(job, self._service.targets.zone(job.agent), self._clock.now(), brief=brief)

    def _warnings(self, fields: Mapping[str, Any]) -> Sequence[str]:
        from gateway.hooks.definition import warnings_of

        return warnings_of(fields.get("model"), fields.get("tools") or (), self._settings())

    def _answer(self, job: Job, warnings: Sequence[str] = ()) -> dict[str, Any]:
        zone = self._service.targets.zone(job.agent)
        lines = [*job_lines(job, zone, self._clock.now(), "your"), *(f"! {one}" for one in warnings)]
        return {"job": self._facts(job), "told": "\n  ".join(lines), "warnings": list(warnings)}


def stored_jobs(ledger: Ledger, settings: Settings) -> JobHandlers:
    """Return the calls for a ledger that no gateway has open: what is due is done when one starts."""

    async def later(_: object) -> None:
        """Do nothing: a gateway takes it up."""

    clock = SystemClock()
    service = JobService(ledger.jobs, clock, StoredTargets(settings), hand_out=later, tell=later)
    return JobHandlers(service, clock, settings=lambda: settings)


def _values(new: NewJob) -> dict[str, Any]:
    return {name: getattr(new, name) for name in NewJob.__struct_fields__}


def _kind(word: str) -> JobKind:
    if word not in _KINDS:
        raise UsageError(
            f"{word!r} is no kind of job", hint="There are: reminder (its text is sent), task (its text is a prompt)."
        )
    return _KINDS[word]


def _tools(names: str | Sequence[str]) -> tuple[str, ...] | None:
    words = [names] if isinstance(names, str) else list(names)
    split = tuple(one.strip() for word in words for one in word.split(",") if one.strip())
    return None if split == ("*",) else split


def _place(to: str, settings: Settings) -> ChatAddress | str | None:
    from gateway.routing.chat_addresses import checked_address

    if to in {"owner", "none"}:
        return None if to == "owner" else "none"
    return checked_address(to, settings)
