"""Slash commands about models: ``/model``, ``/models``, ``/think``, ``/reasoning``."""

from __future__ import annotations

from itertools import groupby

from msgspec.structs import replace

from agent.context.context_budget import report, short
from agent.context.window import Window
from agent.errors import AgentError
from agent.models.catalog.known_models import PROVIDERS
from agent.models.catalog.model_listing import ListedModel
from agent.models.protocol import Model
from agent.models.thinking import LEVELS, level_of
from gateway.agents.running_agent import RunningAgent
from gateway.routing.routed_message import RoutedMessage
from gateway.sessions.sessions_file import SessionRecord

DEFAULT = "default"
_YES, _NO = frozenset({"on", "yes", "true", "1", "stream"}), frozenset({"off", "no", "false", "0"})


class ModelCommands:
    """Runs these commands for one session."""

    def __init__(self, agent: RunningAgent, arrived: RoutedMessage, record: SessionRecord) -> None:
        self._agent = agent
        self._audience = arrived.route.audience
        self._record = record

    async def model(self, argument: str) -> str:
        """``/model``: show the model, or switch this conversation to another one."""
        wanted = argument.strip()
        if wanted.casefold() in {"", "status"}:
            return await self._present()
        if wanted.casefold() == "list":
            return await self.models("")
        ref = None if wanted.casefold() == DEFAULT else await self._resolved(wanted)
        usual = ref or self._agent.conversations.model_name(replace(self._record, model=None))
        model = await self._agent.models.get(usual, self._agent.profile.settings)
        made_fit = await self._fit(model)
        record = await self._agent.store.change(self._record.key, model=ref)
        await self._agent.conversations.open(record, self._audience)  # so that /status tells of it before the next turn
        return f"This conversation now uses {model.name}.{made_fit}"

    async def models(self, argument: str) -> str:
        """``/models``: list the available models by provider."""
        listed = await self._listed()
        wanted = argument.strip().casefold()
        shown = [(n, offer) for n, offer in enumerate(listed, 1) if wanted in offer.name.casefold()]
        present = await self._name()
        lines = ["Models (✓ is in use here; choose with /model and a number, a name or a part of it):"]
        for provider, group in groupby(shown, key=lambda row: row[1].name.partition("/")[0]):
            known = PROVIDERS.get(provider)
            lines += ["", f"**{known.label if known else provider}**", ""]
            lines += [f"{n}. {self._line(offer, present)}" for n, offer in group]
        if not shown:
            return f"No available model has “{argument}” in its name. /models lists all."
        if len(listed) == 1:
            lines += ["", "Add a key for more models: `homebody models auth add anthropic`"]
        return "\n".join(lines)

    async def think(self, argument: str) -> str:
        """``/think``: show or set the thinking level in this conversation."""
        wanted = argument.strip().casefold()
        usual = self._agent.profile.settings.thinking_default
        if not wanted:
            level = level_of(self._record.thinking)
            chosen = "chosen for this conversation" if level else "the default" if usual else "the model's default"
            return f"🧠 Thinking: {level or usual or 'model default'} ({chosen}). Levels: {', '.join(LEVELS)}."
        level = level_of(wanted)
        if level is None and wanted != DEFAULT:
            return f"Unknown level. Levels: {', '.join(LEVELS)}, and default."
        await self._agent.store.change(self._record.key, thinking=level)
        return f"🧠 Thinking level in this conversation: {level}." if level else "🧠 Thinking level reset to the default."

    async def reasoning(self, argument: str) -> str:
        """``/reasoning``: show or hide the model's thinking above its replies."""
        wanted = argument.strip().casefold()
        if wanted and wanted not in _YES | _NO:
            return "Send /reasoning on or /reasoning off."
        shown = wanted in _YES if wanted else not self._record.reasoning
        await self._agent.store.change(self._record.key, reasoning=shown)
        return "💭 The model's thinking is now shown above each reply." if shown else "The model's thinking is now hidden."

    async def choices(self) -> list[str]:
        """Return the names of all models that can be chosen."""
        return [offer.name for offer in await self._listed()]

    async def resolved(self, wanted: str) -> str:
        """Return the model for a name or number, ready for use. Raises AgentError."""
        ref = await self._resolved(wanted)
        await self._agent.models.get(ref, self._agent.profile.settings)
        return ref

    async def _resolved(self, wanted: str) -> str:
        if wanted.isdecimal():
            listed = await self._listed()
            if 0 < int(wanted) <= len(listed):
                return listed[int(wanted) - 1].name
        return self._agent.models.names(self._agent.profile.settings).resolve(wanted)

    async def _present(self) -> str:
        conversation = await self._agent.conversations.open(self._record, self._audience)
        chosen = " (chosen for this conversation)" if self._record.model else ""
        fallback_of = f" {self._record.fallback_of} answered last, as its fallback." if self._record.fallback_of else ""
        return f"Model: {conversation.model.name}{chosen}, window {short(conversation.window.size)} tokens.{fallback_of}"

    async def _name(self) -> str:
        try:
            settings = self._agent.profile.settings
            return (await self._agent.models.get(self._agent.conversations.model_name(self._record), settings)).name
        except AgentError:  # a model that cannot be used does not keep the others from being listed
            return ""

    async def _listed(self) -> list[ListedModel]:
        """The models that can be chosen, in a stable order."""
        names = self._agent.models.names(self._agent.profile.settings)
        offers = await self._agent.models.offers(names.offered())
        usable = [offer for offer in offers if offer.usable and names.may_choose(offer.name)]
        order = list(dict.fromkeys([*PROVIDERS, *(offer.name.partition("/")[0] for offer in usable)]))
        return sorted(usable, key=lambda offer: order.index(offer.name.partition("/")[0]))

    def _line(self, offer: ListedModel, present: str) -> str:
        alias = self._agent.models.names(self._agent.profile.settings).alias(offer.name)
        price = "" if offer.input_price is None else f", ${offer.input_price:g} / ${offer.output_price:g}"
        mark = "✓ " if offer.name == present else ""
        return f"{mark}`{offer.name}`{f' ({alias})' if alias else ''} — {short(offer.window)}{price}"

    async def _fit(self, model: Model) -> str:
        """Compact for a smaller window while the current model can still read everything. Returns a sentence for the reply."""
        settings = self._agent.profile.settings
        window = Window.of(min(model.window, settings.context_tokens or model.window), settings.compaction)
        try:
            conversation = await self._agent.conversations.open(self._record, self._audience)
            await conversation.prepare()
        except AgentError:  # the present model cannot be used any more: the new one makes room by itself
            return ""
        if conversation.tokens() <= window.compact_above:
            return ""
        shrunk = await self._agent.compact(self._record, self._audience, "", into=window.size)
        if shrunk.after > window.compact_above:
            return " The conversation is larger than its context window; I will compact it with the next message."
        return f" 🧹 Its context window is smaller: {report(shrunk, automatic=False)}."
