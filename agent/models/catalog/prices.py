"""Model prices in USD per 1M tokens: a dated list, the owner's price file before it, and a high estimate where both have none.

The list was read on the day ``AS_OF`` from two published ones, genai-prices 0.2.3 and LiteLLM 1.109.1 (both MIT), which copy the
providers' own pages; they agree on every row but Gemini's, of which the dearer figure stands here.

A price file is in our own short form, with names as ``provider/model`` or the bare id:

    asOf: 2026-12-01
    models:
      anthropic/claude-sonnet-5-5: {input: 2, output: 10, cacheRead: 0.1, cacheWrite: 2.5, cacheWrite1h: 4}

or LiteLLM's ``model_prices_and_context_window.json``, which has USD per token and no date: the file's modification date is used. Its rates
above a length of the prompt (``input_cost_per_token_above_200k_tokens``) are read; of several lengths, the shortest.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from agent.errors import InvalidPriceFile
from agent.messages import Usage
from agent.settings import CostSettings

AS_OF = "2026-11-22"
MILLION = 1_000_000


class Price(Struct, frozen=True, kw_only=True):
    """USD per 1M tokens. Reads and writes of a cache cost what input does where nothing else is said.

    ``cache_write_1h`` is what an hour's keeping costs, where that differs. A prompt of more than ``above`` tokens (0: none) costs
    ``above_input`` times as much to send and read, and ``above_output`` times as much to answer. ``as_of`` is the day on which it was
    read; empty where the owner or the provider's own list says it. ``estimated`` says that nobody has published it.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    above: int = 0
    above_input: float = 1.0
    above_output: float = 1.0
    as_of: str = ""
    estimated: bool = False

    @classmethod
    def of(cls, cost: CostSettings) -> Price:
        """Take over what the owner's settings say."""
        return cls(
            input=cost.input,
            output=cost.output,
            cache_read=cost.cache_read,
            cache_write=cost.cache_write,
            cache_write_1h=cost.cache_write_1h,
        )

    def with_anthropic_writes(self) -> Price:
        """Fill in what writing to the cache costs where nothing is said: Anthropic's usual shares of the input price."""
        _read, write, hour = _C1
        written = self.input * write if self.cache_write is None else self.cache_write
        for_an_hour = written * hour / write if self.cache_write_1h is None else self.cache_write_1h
        return replace(self, cache_write=written, cache_write_1h=for_an_hour)

    def at_most(self, sent: int, answered: int) -> float:
        """Return the most that a call can cost: nothing of ``sent`` tokens in a cache, and all of them written to it at the dearest."""
        long = bool(self.above) and sent > self.above * 0.8  # the estimate may be short
        plain = max(self.input, self.cache_write or 0.0, self.cache_write_1h or 0.0)
        sums = sent * plain * (self.above_input if long else 1.0), answered * self.output * (self.above_output if long else 1.0)
        return sum(sums) / MILLION

    def of_usage(self, usage: Usage, *, written_for_an_hour: int = 0) -> float:
        """Return what a call cost. ``written_for_an_hour`` says how many of the cache writes were for an hour."""
        write = self.input if self.cache_write is None else self.cache_write
        hour = write if self.cache_write_1h is None else self.cache_write_1h
        read = self.input if self.cache_read is None else self.cache_read
        sent = (
            usage.input * self.input
            + usage.cache_read * read
            + (usage.cache_write - written_for_an_hour) * write
            + written_for_an_hour * hour
        )
        long = bool(self.above) and usage.prompt > self.above
        said = usage.output * self.output
        return (sent * (self.above_input if long else 1.0) + said * (self.above_output if long else 1.0)) / MILLION

    def hour_surcharge(self, usage: Usage) -> float:
        """Return how much more a call costs if all that it writes into the cache is written for an hour."""
        return max(self.of_usage(usage, written_for_an_hour=usage.cache_write) - self.of_usage(usage), 0.0)

    def share_for_an_hour(self, usage: Usage, cost: float) -> float:
        """Return the share of what a call wrote into the cache that was written for an hour, as its cost tells: 0 to 1."""
        whole = self.hour_surcharge(usage)
        return min(max((cost - self.of_usage(usage)) / whole, 0.0), 1.0) if whole else 0.0


FREE = Price(input=0.0, output=0.0)
"""What a server of one's own costs."""
ESTIMATE = Price(input=5.0, output=25.0, estimated=True)
"""What is assumed of a model behind somebody else's address of which nothing is known: the price of a large model."""

_C1 = (0.1, 1.25, 2.0)
"""Anthropic's usual shares of the input price: reading, writing for five minutes, writing for an hour."""
_CLAUDE: dict[str, tuple[float, float, tuple[float, float, float]]] = {
    "claude-fable-5-2": (8, 40, (0.025, 1.25, 2.0)),
    "claude-mythos-5-2": (8, 40, (0.025, 1.25, 2.0)),
    "claude-fable-5-1": (10, 50, (0.025, 1.25, 2.0)),
    "claude-mythos-5-1": (10, 50, (0.025, 1.25, 2.0)),
    "claude-fable-5": (10, 50, _C1),
    "claude-mythos-5": (10, 50, _C1),
    "claude-haiku-5-5": (0.1, 0.5, _C1),
    "claude-sonnet-5-5": (2, 10, (0.05, 1.25, 2.0)),
    "claude-opus-5-5": (4, 20, (0.05, 1.25, 2.0)),
    "claude-sonnet-5": (2, 10, _C1),
    "claude-opus-5": (5, 25, _C1),
    "claude-opus-4-8": (5, 25, _C1),
    "claude-opus-4-7": (5, 25, _C1),
    "claude-opus-4-6": (5, 25, _C1),
    "claude-opus-4-5": (5, 25, _C1),
    "claude-sonnet-4-6": (3, 15, _C1),
    "claude-sonnet-4-5": (3, 15, _C1),
    "claude-haiku-4-5": (1, 5, _C1),
}
_CLAUDE_ABOVE = {"claude-haiku-5-5": (100_000, 5.0, 5.0), "claude-sonnet-4-5": (200_000, 2.0, 1.5)}
_GPT: dict[str, tuple[float, float, float, float | None, int]] = {
    "gpt-6-astra": (10, 50, 1.0, 12.5, 272_000),
    "gpt-6.1-sol": (2, 10, 0.1, 2.5, 272_000),
    "gpt-6.1-terra": (1, 5, 0.05, 1.25, 272_000),
    "gpt-6-sol": (2, 10, 0.2, 2.5, 272_000),
    "gpt-6-luna": (0.1, 0.5, 0.01, 0.125, 272_000),
    "gpt-5.6-sol": (4, 20, 0.4, 5.0, 272_000),
    "gpt-5.6-terra": (2, 12, 0.2, 2.5, 272_000),
    "gpt-5.6-luna": (0.2, 1.2, 0.02, 0.25, 272_000),
    "gpt-5.5": (5, 30, 0.5, None, 272_000),
    "gpt-5.4": (2.5, 15, 0.25, None, 272_000),
    "gpt-5.4-mini": (0.75, 4.5, 0.075, None, 0),
    "gpt-5.2": (1.75, 14, 0.175, None, 0),
    "gpt-5": (1.25, 10, 0.125, None, 0),
    "gpt-5-mini": (0.25, 2, 0.025, None, 0),
    "gpt-5-nano": (0.05, 0.4, 0.005, None, 0),
    "gpt-4.1": (2, 8, 0.5, None, 0),
    "gpt-4.1-mini": (0.4, 1.6, 0.1, None, 0),
    "gpt-4.1-nano": (0.1, 0.4, 0.025, None, 0),
    "gpt-4o": (2.5, 10, 1.25, None, 0),
    "gpt-4o-mini": (0.15, 0.6, 0.075, None, 0),
}
_OTHERS: dict[str, Price] = {
    "gemini-3.8-flash": Price(input=1.5, output=7.5, cache_read=0.15, as_of=AS_OF),
    "text-embedding-3-small": Price(input=0.02, output=0.0, as_of=AS_OF),
    "text-embedding-3-large": Price(input=0.13, output=0.0, as_of=AS_OF),
    "gemini-embedding-001": Price(input=0.15, output=0.0, as_of=AS_OF),
    "gemini-embedding-2": Price(input=0.2, output=0.0, as_of=AS_OF),
}
EMBEDDING_ESTIMATE = Price(input=0.2, output=0.0, estimated=True)
"""The dearest of the listed embedding models."""


def _claude(name: str) -> Price:
    sent, said, (read, write, hour) = _CLAUDE[name]
    above, more, longer = _CLAUDE_ABOVE.get(name, (0, 1.0, 1.0))
    return Price(
        input=sent,
        output=said,
        cache_read=sent * read,
        cache_write=sent * write,
        cache_write_1h=sent * hour,
        above=above,
        above_input=more,
        above_output=longer,
        as_of=AS_OF,
    )


def _gpt(name: str) -> Price:
    sent, said, read, write, above = _GPT[name]
    price = Price(input=sent, output=said, cache_read=read, cache_write=write, as_of=AS_OF)
    return replace(price, above=above, above_input=2.0, above_output=1.5) if above else price


LISTED: dict[str, Price] = {**{name: _claude(name) for name in _CLAUDE}, **{name: _gpt(name) for name in _GPT}, **_OTHERS}
_MAKERS = {"anthropic": "claude-", "openai": "gpt-", "google": "gemini-"}
_RELEASE = re.compile(r"[-@](?:latest|20\d{6}|20\d{2}-\d{2}-\d{2})(?:-v\d.*)?$")


class PriceList:
    """Prices by model name. ``newer`` are those of a file, which speak first; ``as_of`` is the day of what is listed here.

    ``unread`` names the models of the file of which no price can be read.
    """

    def __init__(self, newer: Mapping[str, Price] | None = None, as_of: str = AS_OF, unread: Sequence[str] = ()) -> None:
        self._newer = dict(newer or {})
        self.as_of = as_of
        self.unread = tuple(unread)

    def find(self, provider: str, model: str) -> Price | None:
        """Return the published price of a model; None where there is none. ``model`` may be behind a router (``anthropic/claude-…``)."""
        for table in (self._newer, LISTED):
            for name in _names(provider, model):
                if name in table:
                    return table[name]
        return None

    def estimate(self, provider: str, address: str = "") -> Price:
        """Return what is assumed of a model without a price: nothing at an address of one's own, else the provider's dearest."""
        if is_own(address):
            return FREE
        known = [price for name, price in {**LISTED, **self._newer}.items() if _is_of(provider, name) and price.output > 0]
        if not known:
            return ESTIMATE
        dearest = max(known, key=lambda price: (price.input, price.output))
        return replace(dearest, output=max(price.output for price in known), as_of="", estimated=True)


def _names(provider: str, model: str) -> tuple[str, ...]:
    bare = model.rpartition("/")[2].partition(":")[0]
    plain = _RELEASE.sub("", bare)
    dashed = plain.replace(".", "-") if plain.startswith("claude-") else plain
    return tuple(dict.fromkeys((f"{provider}/{model}", model, bare, plain, dashed)))


def _is_of(provider: str, name: str) -> bool:
    """Whether a listed model is one that a provider serves. A router serves them all."""
    start = _MAKERS.get(provider)
    if start is None:
        return provider == "openrouter"
    return name.rpartition("/")[2].startswith(start)


def is_own(address: str) -> bool:
    """Whether an address is on this machine or in its own network, where nobody sends a bill."""
    host = (urlsplit(address).hostname or "").lower() if address else ""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return host in {"localhost", "host.docker.internal"} or host.endswith((".localhost", ".local", ".lan", ".home.arpa"))
    return ip.is_loopback or ip.is_private or ip.is_link_local


_LONGEST = 32_000_000
"""Bytes; LiteLLM's list has about 2.5 million."""
_OURS = {
    "input": "input",
    "output": "output",
    "cache_read": "cacheRead",
    "cache_write": "cacheWrite",
    "cache_write_1h": "cacheWrite1h",
}
_LITELLM = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
}
_ABOVE = re.compile(r"(?:in|out)put_cost_per_token_above_(\d+)k_tokens")
"""LiteLLM's names for the rates of a long prompt."""


def read_prices(path: Path) -> PriceList:
    """Return the built-in list with the file's prices before it.

    Raises:
        InvalidPriceFile: the file cannot be read, or holds no price at all.
    """
    try:
        if path.stat().st_size > _LONGEST:
            raise InvalidPriceFile(f"{path} is larger than {_LONGEST:,} bytes.", hint=_HINT)
        text, changed = path.read_text(encoding="utf-8"), datetime.fromtimestamp(path.stat().st_mtime, UTC)
        data = _parsed(text)
    except OSError as error:
        raise InvalidPriceFile(f"{path} cannot be read: {error.strerror or error}.", hint=_HINT) from error
    except (ValueError, RecursionError) as error:
        raise InvalidPriceFile(f"{path} is neither JSON nor YAML: {' '.join(str(error).split())[:200]}", hint=_HINT) from error
    listed = data.get("models") if isinstance(data.get("models"), dict) else None
    as_of = str(data.get("asOf") or f"{changed:%Y-%m-%d}")
    found = _read(data, _LITELLM, MILLION, as_of) if listed is None else _read(listed, _OURS, 1.0, as_of)
    if not found:
        raise InvalidPriceFile(f"{path} holds no price.", hint=_HINT)
    unread = [] if listed is None else [str(model) for model in listed if str(model) not in found]
    return PriceList(found, as_of, unread)


_HINT = "Its form is in docs/cost.md; without it: homebody config unset models.pricesFile"


def _parsed(text: str) -> dict[str, Any]:
    """Read JSON, or YAML where it is none."""
    try:
        data = json.loads(text)
    except ValueError:
        import yaml

        try:
            data = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
    if not isinstance(data, dict):
        raise ValueError("a mapping is expected")  # noqa: TRY004  (told like every other wrong form)
    return data


def _read(listed: dict[Any, Any], names: dict[str, str], times: float, as_of: str) -> dict[str, Price]:
    found = {}
    for model, row in listed.items():
        if not isinstance(row, dict):
            continue
        figures = {ours: _figure(row.get(theirs), times) for ours, theirs in names.items()}
        sent, said = figures["input"], figures["output"]
        if sent is not None and (said is not None or times == 1.0):
            price = Price(
                input=sent,
                output=said or 0.0,
                cache_read=figures["cache_read"],
                cache_write=figures["cache_write"],
                cache_write_1h=figures["cache_write_1h"],
                as_of=as_of,
            )
            if names is _LITELLM:
                price = _with_above(price, row, times)
            is_claude = str(model).rpartition("/")[2].startswith("claude-")
            found[str(model)] = price.with_anthropic_writes() if is_claude else price
    return found


def _with_above(price: Price, row: dict[Any, Any], times: float) -> Price:
    """Return a price with the higher rates that a row of LiteLLM's list has for long prompts."""
    lengths = [
        int(match[1]) for name in row if (match := _ABOVE.fullmatch(str(name))) and _figure(row[name], times) is not None
    ]
    if not lengths:
        return price
    end = f"_above_{min(lengths)}k_tokens"
    sent, said = (_figure(row.get(_LITELLM[name] + end), times) for name in ("input", "output"))
    return replace(
        price, above=min(lengths) * 1000, above_input=_share(sent, price.input), above_output=_share(said, price.output)
    )


def _share(figure: float | None, of: float) -> float:
    return 1.0 if figure is None or not of else figure / of


def _figure(value: Any, times: float) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return round(value * times, 9)
