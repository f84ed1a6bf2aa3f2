"""Setup from its first question to the first answer. Until the summary is confirmed nothing is written.

``prepare``   asks and tests; the result is a draft
``write``     writes the draft
``begin``     starts or reloads the gateway, pairs the owner, sends the first message
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from gateway.api import api_client
from gateway.base.errors import HomebodyError
from gateway.base.paths import Paths
from gateway.service import background
from gateway.service.actions import carry_out, run_command
from gateway.service.service_manager import program
from gateway.service.service_selection import check_can_install, installed, user_service
from gateway.setup import owner_pairing
from gateway.setup.channel_step import ChosenChannel, ask_for_channel
from gateway.setup.memory_step import ask_for_memory
from gateway.setup.model_step import ask_for_model
from gateway.setup.other_steps import Running, ask_for_running, ask_for_workspace, settle_port
from gateway.setup.setup_screen import Screen

Step = Literal["model", "telegram", "discord", "slack", "matrix", "email", "whatsapp", "workspace", "service", "memory"]
STEPS: tuple[Step, ...] = (
    "model",
    "telegram",
    "discord",
    "slack",
    "matrix",
    "email",
    "whatsapp",
    "workspace",
    "service",
    "memory",
)
PLATFORMS = ("telegram", "discord", "slack", "matrix", "email", "whatsapp")
FIRST_MESSAGE = "Hello! Who are you, and what can you do for me?"


@dataclass(kw_only=True)
class Plan:
    """What was chosen. ``running`` None leaves it as it is."""

    channel: ChosenChannel | None = None
    running: Running | None = None
    first_message: str = ""
    pairs: bool = True


class Wizard:
    """One run. ``show`` prints text as it is, colours too; the first answer goes to the file descriptor ``output``, by default stdout."""

    def __init__(self, screen: Screen, show: Callable[[str], None], *, output: int | None = None) -> None:
        self._screen = screen
        self._show = show
        self._output = output

    @property
    def _paths(self) -> Paths:
        return self._screen.draft.paths

    def prepare(self, step: Step | None) -> Plan:
        """Ask for everything, or for one step. Raises HomebodyError only where no person could answer."""
        screen, plan = self._screen, Plan()
        if step in {None, "model"}:
            self._headed("Language model", ask_for_model, step)
        if step is None:
            self._title("Chat")
            plan.channel = ask_for_channel(screen)
        elif step in PLATFORMS:
            plan.channel = ask_for_channel(screen, step)
        if step in {None, "workspace"}:
            self._headed("Notes", ask_for_workspace, step)
        if step in {None, "service"}:
            self._title("Keep it running", step)
            plan.running = ask_for_running(screen)
            settle_port(screen)
        if step == "memory":
            ask_for_memory(screen)
        if step is None and plan.channel is None:
            plan.first_message = screen.questions.text("Your first message to it (empty for none):", FIRST_MESSAGE).strip()
        return plan

    def summary(self, plan: Plan) -> list[str]:
        """Return what will be done, a line each."""
        lines = self._screen.draft.lines()
        if plan.running == "service" and self._screen.found.service is None:
            lines += [str(action) for action in user_service(self._paths, self._screen.draft.env).install()]
        elif plan.running == "service":
            lines.append("restart the service")
        elif plan.running == "background" or plan.channel is not None:
            lines.append("start the gateway in the background" if not self._screen.found.running else "reload the gateway")
        if plan.channel is not None and plan.running == "none" and not self._screen.found.running:
            lines[-1] = "start the gateway for the pairing, and stop it afterwards"
        if plan.channel is not None:
            lines.append(f"pair you as the owner on {plan.channel.guide.title}, by a link or code that is valid once")
        return lines

    def write(self, now: datetime) -> list[str]:
        """Write settings and keys; return the files."""
        return [str(path) for path in self._screen.draft.write(now)]

    def begin(self, plan: Plan) -> dict[str, Any]:
        """Start what was chosen, pair the owner, and send the first message; return the facts.

        Where the person starts the gateway themselves, it runs for the pairing alone.
        """
        if plan.running == "service":
            check_can_install(user_service(self._paths, self._screen.draft.env), system=False)
        ran = background.running(self._paths) is not None
        stays = ran or plan.running != "none"
        facts: dict[str, Any] = {"running": plan.running, "owner": None, "link": None, "firstMessage": None}
        if plan.running in {"service", "background"} or plan.channel is not None:
            self._start(plan, ran=ran)
        elif ran:
            asyncio.run(self._reload())
        try:
            if plan.channel is not None:
                facts |= self._pair(plan.channel, wait=plan.pairs, stays=stays)
        finally:
            if plan.channel is not None and not stays:
                background.stop(self._paths, self._screen.tell)
        if plan.first_message:
            self._screen.tell(f"\n› {plan.first_message}")
            home = ["--home", str(self._paths.home)] + (["--profile", self._paths.profile] if self._paths.profile else [])
            done = subprocess.run(  # noqa: S603 - this program itself
                [*program(), *home, "agent", "-m", plan.first_message],
                check=False,
                env=dict(self._screen.draft.env),
                stdout=self._output,
            )
            facts["firstMessage"] = "answered" if done.returncode == 0 else "failed"
            if done.returncode:
                again = f"homebody agent -m {shlex.quote(plan.first_message)}"
                self._screen.told.append(f"Your first message was not answered; the reason is above. Say it again: {again}")
        return facts

    def interrupted(self, plan: Plan) -> list[str]:
        """Return how things are where ``begin`` was left by Ctrl-C, a line each."""
        holder = background.running(self._paths)
        lines = ["The settings are written; what comes after them was left by Ctrl-C."]
        if holder is not None:
            lines.append(f"The gateway (process {holder.pid}) runs. Stop it with: homebody stop")
        elif plan.running != "none":
            lines.append("The gateway may still be starting; homebody status shows it.")
        if plan.channel is not None:
            name = plan.channel.platform.name
            lines.append(f"You are not paired as the owner on {plan.channel.guide.title} yet: homebody setup {name}")
        return lines

    def _headed(self, title: str, ask: Callable[[Screen], None], step: Step | None) -> None:
        self._title(title, step)
        ask(self._screen)

    def _title(self, title: str, step: Step | None = None) -> None:
        if step is None and self._screen.interactive:
            self._screen.tell(f"\n── {title}")

    def _start(self, plan: Plan, *, ran: bool) -> None:
        """Start the gateway as chosen, or have the running one use the new settings."""
        screen = self._screen
        service = installed(self._paths, screen.draft.env)
        if plan.running == "service" and service is None:
            background.stop(self._paths, screen.tell)
            screen.tell("Installing and starting the service ...")
            carry_out(user_service(self._paths, screen.draft.env).install(), run_command, screen.tell)
        elif ran:
            waiting = asyncio.run(self._reload())
            if waiting and service is not None:
                carry_out(service.restart(), run_command, screen.tell)
            elif waiting:
                background.stop(self._paths, screen.tell)
                background.start(self._paths, screen.draft.env, screen.tell)
        elif service is not None:
            carry_out(service.start(), run_command, screen.tell)
        else:
            screen.tell("Starting the gateway ...")
            background.start(self._paths, screen.draft.env, screen.tell)

    async def _reload(self) -> bool:
        """Have the running gateway read its settings; return whether some of them wait for a restart."""
        facts = await api_client.ask(self._paths.local, "settings.reload")
        if facts["complaint"]:
            raise HomebodyError(str(facts["complaint"]), hint="homebody config validate")
        return bool(facts["waiting"])

    def _pair(self, channel: ChosenChannel, *, wait: bool, stays: bool) -> dict[str, Any]:
        screen, state = self._screen, self._paths.local
        owner = asyncio.run(owner_pairing.has_owner(state, channel))
        if owner is not None:
            screen.tell(f"✓ {owner} is the owner on {channel.guide.title} already.")
            if not screen.interactive or not screen.questions.confirm("Pair another account of yours?", default=False):
                return {"owner": owner}
        invite = asyncio.run(owner_pairing.invite(state, channel))
        if invite.link and screen.interactive:
            self._show(owner_pairing.qr_code(invite.link, colours=True))
        if wait:
            with contextlib.suppress(HomebodyError):
                asyncio.run(owner_pairing.wait_for_connection(state, channel))
        screen.tell(invite.as_text(channel, scannable=screen.interactive))
        facts: dict[str, Any] = {"owner": None, "link": invite.link or None, "code": invite.code}
        if not wait:
            return facts
        found = None
        with contextlib.suppress(KeyboardInterrupt):
            screen.tell("Waiting for you (Ctrl-C skips this) ...")
            found = asyncio.run(owner_pairing.wait_for_owner(state, channel, screen.tell))
        if found is None:
            screen.told.append(f"You are not paired yet. While the gateway runs: homebody setup {channel.platform.name}")
            return facts
        screen.tell(f"✓ {found['name'] or found['sender']} ({channel.platform.name} {found['sender']}) is the owner.")
        write = f"write to {channel.bot or 'your bot'} on {channel.guide.title}: it answers."
        screen.told.append(
            f"{write[0].upper()}{write[1:]}" if stays else f"Start the gateway with: homebody start\nThen {write}"
        )
        return facts | {"owner": found["name"] or found["sender"]}
