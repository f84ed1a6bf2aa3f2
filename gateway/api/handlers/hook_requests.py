"""The owner's hooks: what ``homebody hooks`` asks, in a running gateway or without one."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from msgspec.structs import asdict, replace

from agent.timing import Clock
from channels.messages import ChatAddress
from gateway.base.errors import HomebodyError, UsageError
from gateway.hooks.credentials import hash_of, new_secret
from gateway.hooks.receiver import HookReceiver
from gateway.hooks.target import NOT_TO_OTHERS
from gateway.ledger.hook_rows import LATEST, NOWHERE, Hook, HookCall, HookLedger, HookState
from gateway.settings.root import Settings
from memory.audience import OWNER, Audience


class Readers(Protocol):
    """Knows who reads what is sent to a chat."""

    async def audience(self, agent: str, place: ChatAddress) -> Audience:
        """Return who reads what an agent says in a chat."""
        ...

    async def is_stranger(self, place: ChatAddress) -> bool:
        """Return whether a chat is with somebody who may not speak to the agent and never did."""
        ...


class HookHandlers:
    """Adds, shows and changes hooks. All answers are JSON values.

    ``receiver`` takes the calls and ``readers`` knows who reads chats, in a gateway that runs.
    """

    def __init__(
        self,
        hooks: HookLedger,
        settings: Callable[[], Settings],
        clock: Clock,
        receiver: HookReceiver | None = None,
        readers: Readers | None = None,
    ) -> None:
        self._hooks = hooks
        self._settings = settings
        self._clock = clock
        self._receiver = receiver
        self._readers = readers

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {
            "hooks.list": self.list,
            "hooks.show": self.show,
            "hooks.add": self.add,
            "hooks.change": self.change,
            "hooks.rotate": self.rotate,
            "hooks.pause": self.pause,
            "hooks.resume": self.resume,
            "hooks.remove": self.remove,
            "hooks.trial": self.trial,
            "hooks.call": self.call,
        }

    async def list(self) -> dict[str, Any]:
        """Return all hooks, by name."""
        return {"hooks": [self._facts(hook) for hook in await self._hooks.all()]}

    async def show(self, name: str) -> dict[str, Any]:
        """Return one hook with its latest calls. Raises UsageError for an unknown one."""
        hook = await self._found(name)
        return self._facts(hook) | {"calls": [_call(one) for one in await self._hooks.calls(hook.id)]}

    async def add(
        self,
        name: str,
        *,
        instruction: str | None = None,
        message: str | None = None,
        agent: str | None = None,
        signed: bool = False,
        **rules: Any,
    ) -> dict[str, Any]:
        """Add a hook; return it with its token or, if it is ``signed``, its secret. Raises UsageError for what cannot be."""
        from gateway.hooks.definition import checked_agent, checked_name, checked_rules

        name, now = checked_name(name), self._clock.now()
        settings, credential = self._settings(), new_secret()
        hook = Hook(
            id=secrets.token_hex(4),
            name=name,
            agent=checked_agent(agent, settings),
            rules=checked_rules(settings, instruction, message, **rules),
            token_hash=None if signed else hash_of(credential),
            secret=credential if signed else None,
            created_at=now,
            changed_at=now,
        )
        await self._check_readers(hook)
        if not await self._hooks.add(hook):
            hint = f"homebody hooks show {name}, or take another name."
            raise UsageError(f"there is a hook {name!r} already", hint=hint)
        await self._changed()
        return self._facts(hook) | _credential(hook, credential) | self._warnings(hook)

    async def change(
        self, name: str, *, instruction: str | None = None, message: str | None = None, agent: str | None = None, **given: Any
    ) -> dict[str, Any]:
        """Change what is given of a hook; its token and what it took stay. Raises UsageError for what cannot be."""
        from gateway.hooks.definition import checked_agent, checked_rules

        hook, settings = await self._found(name), self._settings()
        if instruction is None and message is None and agent is None and not given:
            raise UsageError("nothing was named that is to be changed", hint="homebody hooks change --help")
        former = asdict(hook.rules)
        kind, text = former.pop("kind"), former.pop("text")
        if instruction is None and message is None:
            instruction, message = (text, None) if kind == "prompt" else (None, text)
        rules = checked_rules(settings, instruction, message, **former | given)
        hook = replace(hook, agent=checked_agent(agent or hook.agent, settings), rules=rules)
        await self._check_readers(hook)
        await self._change(hook)
        return self._facts(hook) | self._warnings(hook)

    def _warnings(self, hook: Hook) -> dict[str, Any]:
        from gateway.hooks.definition import warnings_of

        rules = hook.rules
        return {"warnings": warnings_of(rules.model, [*(rules.allow or ()), *rules.deny], self._settings())}

    async def _check_readers(self, hook: Hook) -> None:
        """Refuse the chat of a stranger, and the owner's main conversation where others would read its answers."""
        if self._readers is None or hook.rules.deliver in {LATEST, NOWHERE}:
            return
        place = ChatAddress.parse(hook.rules.deliver)
        if await self._readers.is_stranger(place):
            raise UsageError(
                f"{place.address} is the chat of nobody who may speak to your agent",
                hint="`homebody channels chats` lists the addresses of your chats.",
            )
        audience = await self._readers.audience(hook.agent, place)
        if hook.rules.kind == "prompt" and hook.rules.session == "main" and audience != OWNER:
            raise UsageError(
                NOT_TO_OTHERS,
                hint="Leave --session out: then each call has a session of its own that knows what they may know.",
            )

    async def rotate(self, name: str) -> dict[str, Any]:
        """Give a hook a new token or secret, and return it. The former one holds no longer."""
        credential, hook = new_secret(), await self._found(name)
        hashed, secret = (hash_of(credential), None) if hook.secret is None else (None, credential)
        hook = replace(hook, token_hash=hashed, secret=secret)
        await self._change(hook)
        return self._facts(hook) | _credential(hook, credential)

    async def pause(self, name: str) -> dict[str, Any]:
        """Take no calls of a hook until it is resumed."""
        return await self._to(name, "paused")

    async def resume(self, name: str) -> dict[str, Any]:
        """Take the calls of a hook again."""
        return await self._to(name, "active")

    async def remove(self, name: str) -> dict[str, Any]:
        """Delete a hook; what it took before is answered nevertheless."""
        hook = await self._found(name)
        await self._hooks.remove(hook.id)
        await self._changed()
        return self._facts(hook)

    async def trial(self, name: str, body: str | None = None) -> dict[str, Any]:
        """Return what to send for a test: a body, and headers that are good for it once, within a minute."""
        from gateway.hooks.definition import sample_of

        if self._receiver is None:
            raise HomebodyError("a test goes through a running gateway", hint="Start it: homebody start")
        hook = await self._found(name)
        body = json.dumps(sample_of(hook.rules)) if body is None else body
        return {"body": body, "headers": self._receiver.trial(hook, body.encode("utf-8", "replace"))}

    async def call(self, name: str, key: str) -> dict[str, Any]:
        """Return what became of one call so far. Raises UsageError for an unknown one."""
        hook = await self._found(name)
        found = await self._hooks.calls(hook.id, key, limit=1)
        if not found:
            raise UsageError(f"the hook {name!r} took no call {key!r}", hint=f"homebody hooks show {name}")
        return _call(found[0])

    async def _to(self, name: str, state: HookState) -> dict[str, Any]:
        hook = replace(await self._found(name), state=state)
        await self._change(hook)
        return self._facts(hook)

    async def _change(self, hook: Hook) -> None:
        if not await self._hooks.change(hook):
            raise UsageError(
                f"the hook {hook.name!r} was removed just now", hint="The webhooks that there are: homebody hooks list"
            )
        await self._changed()

    async def _changed(self) -> None:
        if self._receiver is not None:
            self._receiver.changed()
            await self._receiver.load()

    async def _found(self, name: str) -> Hook:
        hooks = {hook.name: hook for hook in await self._hooks.all()}
        if name in hooks:
            return hooks[name]
        from difflib import get_close_matches

        near = get_close_matches(name, hooks, n=1)
        hint = f"Did you mean {near[0]}?" if near else "`homebody hooks list` shows those there are."
        raise UsageError(f"there is no hook {name[:60]!r}", hint=hint)

    def _facts(self, hook: Hook) -> dict[str, Any]:
        rules = hook.rules
        gone = hook.agent not in self._settings().agent_ids
        return {
            "name": hook.name,
            "agent": hook.agent,
            "state": hook.state,
            "problem": f"the agent {hook.agent!r} was removed" if gone else "",
            "credential": "signature" if hook.secret is not None else "token",
            "kind": rules.kind,
            "text": rules.text,
            "session": rules.session,
            "deliver": rules.deliver,
            "model": rules.model,
            "allow": None if rules.allow is None else [*rules.allow],
            "deny": [*rules.deny],
            "dailyUsd": rules.daily_usd,
            "dailyTokens": rules.daily_tokens,
            "urgent": rules.urgent,
            "perMinute": rules.per_minute,
            "burst": rules.burst,
            "createdAt": hook.created_at.isoformat(timespec="seconds"),
            "changedAt": hook.changed_at.isoformat(timespec="seconds"),
        }


def _credential(hook: Hook, credential: str) -> dict[str, str]:
    return {"token" if hook.secret is None else "secret": credential}


def _call(one: HookCall) -> dict[str, Any]:
    return {
        "id": one.key,
        "at": one.received_at.isoformat(timespec="seconds"),
        "state": one.state,
        "reason": one.reason,
        "turn": one.turn,
        "replies": [*one.replies],
    }
