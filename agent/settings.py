"""Settings sections of an agent: ``agents.defaults`` (which every entry of ``agents.list`` may override) and ``models``."""

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from agent.section import Section
from agent.tool_settings import ToolsSettings
from memory.audience import SHARED

Level = Literal["off", "minimal", "low", "medium", "high", "xhigh", "adaptive"]
"""How deep a model is asked to think."""
Api = Literal["anthropic-messages", "openai-completions", "openai-responses"]
"""The API that a model server speaks."""
CacheRule = Literal["in_memory", "24h"]
"""How long OpenAI may keep a prompt in its cache."""


def known_zone(name: str) -> str:
    """Return the name of a time zone. Raises ValueError for one that does not exist."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"no such time zone: {name!r} (write it like Europe/Berlin)") from error
    return name


def _path_to_share(path: str) -> str:
    pure = PurePosixPath(path)
    if not path.strip() or pure.is_absolute() or any(part.startswith("..") for part in pure.parts) or path.startswith("~"):
        raise ValueError(f"{path!r} is not a path in the workspace (write it like recipes or docs/house.md)")
    return str(pure)


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "": 1}


def seconds_of(given: object) -> object:
    """Read ``"5m"``, ``"600"`` or a number of seconds."""
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|)\s*", given.lower())
        if found is None:
            raise ValueError(f'{given!r} is no duration; write "5m", "1h" or a number of seconds')
        return float(found[1]) * _UNITS[found[2]]
    if isinstance(given, (list, dict)):
        raise ValueError('this is no duration; write "5m", "1h" or a number of seconds')  # noqa: TRY004 -- pydantic takes no TypeError
    return given


Duration = Annotated[float, BeforeValidator(seconds_of), Field(gt=0)]
"""Seconds, written as ``"5m"``, ``"1h"``, ``"600"`` or a number."""


class ModelChoice(Section):
    """A first choice of model and what to fall back to."""

    primary: str
    """Model used first, as ``provider/model`` or an alias."""
    fallbacks: tuple[str, ...] = ()
    """Models tried in order when the first gives no answer."""


class ModelEntry(Section):
    """What the owner says of one model that may be chosen."""

    alias: str | None = None
    """A short name for it, such as `fast`."""


class MemoryFlushSettings(Section):
    """The silent turn that writes lasting notes down before history is compacted or left behind."""

    enabled: bool = True
    """Run the silent memory flush."""
    soft_threshold_tokens: Annotated[int, Field(ge=0)] = 4000
    """How far below the compaction line the flush fires, in tokens (at most a fifth of the reserve in force)."""
    system_prompt: str = "Session nearing compaction. Store durable memories now."
    """Reminder given with the flush request, in its last message (the system text itself is never changed)."""
    prompt: str = "Write any lasting notes to memory/YYYY-MM-DD.md; reply with NO_REPLY if nothing to store."
    """The flush request. YYYY-MM-DD is replaced by the owner's date; a NO_REPLY hint is added where it lacks one."""
    on_reset: bool = True
    """Flush also before a session is left by /new, /reset, the daily or the idle reset."""
    on_compact_command: bool = True
    """Flush also before /compact."""
    on_shutdown: bool = True
    """Flush open sessions before the gateway stops, when time allows and something was said since the last flush."""
    verbatim: bool = True
    """Add by rule what people said and the model left out: sentences with dates, numbers and names of things, decisions, promises."""
    model: str | None = None
    """Model that does the flush, as ``provider/model`` or an alias. Unset: the session's own, which has the prompt in its cache."""


class CompactionSettings(Section):
    """When and how old history gives way to a summary."""

    reserve_tokens: Annotated[int, Field(ge=0)] = 16_384
    """Tokens kept free for the answer."""
    reserve_tokens_floor: Annotated[int, Field(ge=0)] = 20_000
    """Lower bound of the reserve; 0 removes the bound. On small windows the reserve is capped at a quarter of the window."""
    keep_recent_tokens: Annotated[int, Field(ge=0)] = 20_000
    """How much of the newest history stays word for word, in tokens."""
    keep_recent_turns: Annotated[int, Field(ge=1)] = 3
    """How many of the newest turns stay word for word at least, where they fit."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 180.0
    """Longest wait for one answer to a flush or summary request, in seconds."""
    memory_flush: MemoryFlushSettings = MemoryFlushSettings.model_construct()
    """The memory flush before compaction."""


class SoftTrimSettings(Section):
    """Showing the beginning and the end of a long tool result."""

    max_chars: Annotated[int, Field(ge=0)] = 4000
    """Results up to this many characters are not trimmed."""
    head_chars: Annotated[int, Field(ge=0)] = 1500
    """Characters kept of the beginning."""
    tail_chars: Annotated[int, Field(ge=0)] = 1500
    """Characters kept of the end."""


class AgedTrimSettings(Section):
    """Showing only a few lines of a tool result when the conversation has gone on for long since."""

    enabled: bool = True
    """Show only a few lines of results that were old already when the model was last called."""
    after: Duration = 3600.0
    """Age of such a result at the model's last call: ``"1h"``, ``"90m"`` or seconds."""
    head_chars: Annotated[int, Field(ge=0)] = 400
    """Characters kept of the beginning."""
    tail_chars: Annotated[int, Field(ge=0)] = 200
    """Characters kept of the end."""


class HardClearSettings(Section):
    """Showing a placeholder in the place of a tool result."""

    enabled: bool = True
    """Clear old results when trimming did not free enough."""
    placeholder: str = "[Old tool result content cleared]"
    """What stands in the place of a cleared result."""


class PrunedToolsSettings(Section):
    """Whose results may be pruned. Patterns know ``*`` and do not tell capitals from small letters."""

    allow: tuple[str, ...] = ()
    """Tools whose results may be pruned; empty means all."""
    deny: tuple[str, ...] = ()
    """Tools whose results are never pruned; this wins over ``allow``."""


class PruningSettings(Section):
    """Cache-TTL pruning: old tool results are sent shorter once the provider has forgotten the prompt anyway."""

    mode: Literal["off", "cache-ttl"] | None = None
    """``cache-ttl`` or ``off``. Unset: ``cache-ttl`` for Anthropic's models and others behind its API, ``off`` for the rest."""
    ttl: Duration | None = None
    """Silence after which the prompt counts as forgotten: ``"5m"``, ``"600"`` or seconds. Unset: the cache retention in force."""
    keep_last_assistants: Annotated[int, Field(ge=0)] = 3
    """Results behind the answer that is this many from the end are never pruned."""
    soft_trim_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the window from which on long results are trimmed; 0: whenever the prompt is forgotten, as all of it is paid for anew."""
    hard_clear_ratio: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the window from which on results are cleared, oldest first."""
    min_prunable_tool_chars: Annotated[int, Field(ge=0)] = 50_000
    """Results are only cleared when they have at least this many characters together."""
    soft_trim: SoftTrimSettings = SoftTrimSettings.model_construct()
    """Showing the beginning and the end of a long tool result."""
    aged_trim: AgedTrimSettings = AgedTrimSettings.model_construct()
    """Showing only a few lines of a tool result when the conversation has gone on for long since."""
    hard_clear: HardClearSettings = HardClearSettings.model_construct()
    """Showing a placeholder in the place of a tool result."""
    tools: PrunedToolsSettings = PrunedToolsSettings.model_construct()
    """Whose results may be pruned."""

    def is_on(self, *, by_time: bool) -> bool:
        """Whether to prune for a model whose provider keeps prompts ``by_time``, or not."""
        return by_time if self.mode is None else self.mode == "cache-ttl"


class CacheRefreshSettings(Section):
    """Keeping a prompt in the provider's cache during a silence: calls that ask for nothing cost a twentieth of writing it again."""

    hours: Annotated[float, Field(ge=0, le=24)] = 3.0
    """For how many hours after a person's last message. At their end the memory is flushed, while the prompt is still cached. 0: off."""
    least_tokens: Annotated[int, Field(ge=0)] = 8000
    """Shorter prompts are left: to write them again costs little."""


class SandboxSettings(Section):
    """What an agent may do to its surroundings."""

    workspace_access: Literal["none", "ro", "rw"] = "rw"
    """``rw``: file tools and commands read and write the workspace; ``ro``: they read; ``none``: they do neither, and no flush runs."""
    mode: Literal["off", "non-main", "all"] | None = None
    """Whose commands are confined, where `tools.exec.sandbox` is ``auto``: those of all sessions (``all``, and unset), of all but the owner's main session, or none."""  # noqa: E501


class StartupContextSettings(Section):
    """The notes that a session is given when it starts."""

    enabled: bool = True
    """Give MEMORY.md (owner's private session only) and the newest daily notes at the start of a session."""
    days: Annotated[int, Field(ge=0, le=14)] = 2
    """How many days of daily notes, today included."""
    max_chars: Annotated[int, Field(ge=0)] = 8000
    """Cap of the daily notes together, in characters; the newest text is kept and the cut is marked."""


class LimitSettings(Section):
    """Limits on a single turn."""

    max_tool_calls: Annotated[int, Field(ge=1)] = 40
    """Tool calls in one turn before the model is asked to finish without tools."""
    max_repeats: Annotated[int, Field(ge=2)] = 3
    """How often the same tool may return the same result for the same arguments in one turn."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 600.0
    """Longest duration of one turn, in seconds."""
    tool_result_chars: Annotated[int, Field(ge=1000)] = 64_000
    """Longest tool result that a model is shown, in characters; at most 16,000 below a window of 100,000 tokens, 32,000 below 400,000."""


class AgentSettings(Section):
    """One agent."""

    model: str | ModelChoice | None = None
    """Model as ``provider/model``, an alias, or ``{primary, fallbacks}``. Unset: chosen by the keys in the environment."""
    image_model: str | ModelChoice | None = None
    """Model that describes pictures where `model` takes none, as ``provider/model``, an alias, or ``{primary, fallbacks}``. Unset: such pictures are not described."""  # noqa: E501
    models: dict[str, ModelEntry] = Field(default_factory=dict)
    """Models that `/model` may choose, by ``provider/model`` or ``provider/*``, with short names for them; empty: any model."""
    typing_mode: Literal["never", "instant", "thinking", "message"] | None = None
    """From when on the sign is shown that an answer is being written: never, at once, when the model thinks or acts, or when it writes. Unset: at once for private messages and mentions, otherwise when it writes."""  # noqa: E501
    typing_interval_seconds: Annotated[float, Field(ge=1, le=60)] = 4.0
    """How often that sign is renewed, in seconds; platforms let it fade after five or more."""
    thinking_default: Level | None = None
    """How deep models think: off, minimal, low, medium, high, xhigh or adaptive. Unset: low, or what the model itself decides."""
    workspace: Path | None = None
    """Folder of the agent's files. Default: ``~/homebody`` for main, ``~/homebody-<id>`` for others."""
    shared_paths: tuple[Annotated[str, AfterValidator(_path_to_share)], ...] = SHARED
    """Files and folders of the workspace that groups and guests may read, besides their own folder; ``.`` shares all but memory, the inbox, names that begin with a dot, and MEMORY.md, USER.md, TODO.md, HEARTBEAT.md and BOOTSTRAP.md with copies of them, which are never shared."""  # noqa: E501
    user_timezone: Annotated[str, AfterValidator(known_zone)] | None = None
    """The owner's time zone, such as Europe/Berlin. Default: the machine's."""
    bootstrap_max_chars: Annotated[int, Field(ge=100)] = 20_000
    """Cap of each workspace file in the prompt, in characters; the cut is marked."""
    bootstrap_total_max_chars: Annotated[int, Field(ge=1000)] = 60_000
    """Cap of all workspace files together, in characters."""
    bootstrap_changes: Literal["note", "rewrite"] = "note"
    """What is done when a workspace file changes in mid-conversation while the provider has the prompt cached: the model is told what changed and the prompt stays until the cache has run out (note), or the prompt is made anew at once (rewrite), which has the provider write all of it into its cache again."""  # noqa: E501
    skip_bootstrap: bool = False
    """Do not put templates into a new workspace, nor in place of workspace files that are missing at a start."""
    context_tokens: Annotated[int, Field(ge=4000)] | None = None
    """Cap on the model's context window, in tokens. Default: what the model has."""
    max_output_tokens: Annotated[int, Field(ge=256)] = 8192
    """Longest answer of one model call, in tokens (never more than the model allows or the reserve leaves)."""
    prompt_mode: Literal["full", "minimal", "none"] = "full"
    """How much of our own instructions the model is given: all, the tool rules only, or none."""
    compaction: CompactionSettings = CompactionSettings.model_construct()
    """Compaction and the memory flush."""
    context_pruning: PruningSettings = PruningSettings.model_construct()
    """Cache-TTL pruning of old tool results."""
    cache_retention: Literal["auto", "5m", "1h"] = "auto"
    """How long a provider is asked to keep the prompt (Anthropic): ``auto`` takes what is likely to cost less at the session's rhythm."""
    cache_refresh: CacheRefreshSettings = CacheRefreshSettings.model_construct()
    """Keeping the prompt in the provider's cache during a silence (Anthropic, with a retention of an hour)."""
    sandbox: SandboxSettings = SandboxSettings.model_construct()
    """What the agent may do to its surroundings."""
    max_concurrent: Annotated[int, Field(ge=1, le=1000)] = Field(default=32, json_schema_extra={"reload": "restart"})
    """How many turns of all sessions run at once; within a session it is always one. Turns mostly wait for a provider."""
    startup_context: StartupContextSettings = StartupContextSettings.model_construct()
    """Notes given at the start of a session."""
    tools: ToolsSettings = ToolsSettings.model_construct()
    """Which tools the agent has."""
    limits: LimitSettings = LimitSettings.model_construct()
    """Limits on a single turn."""


class CostSettings(Section):
    """What a model costs, in dollars for a million tokens."""

    input: float = Field(default=0.0, ge=0)
    """Dollars for a million input tokens that no cache held."""
    output: float = Field(default=0.0, ge=0)
    """Dollars for a million output tokens."""
    cache_read: float | None = Field(default=None, ge=0)
    """Dollars for a million input tokens read from the provider's cache; as `input` when not set."""
    cache_write: float | None = Field(default=None, ge=0)
    """Dollars for a million input tokens written to the provider's cache. As `input` when not set; by Anthropic's API, 1.25 times that."""
    cache_write_1h: float | None = Field(default=None, ge=0, alias="cacheWrite1h")
    """The same of what is kept for an hour; when not set, as `cacheWrite`, by Anthropic's API 1.6 times that."""


class ModelSettings(Section):
    """One model of a provider."""

    id: str = Field(min_length=1)
    """The provider's own name of the model, as it is sent."""
    name: str = ""
    """A name for people; the id when empty."""
    context_window: int | None = Field(default=None, gt=0)
    """How many tokens the model can be shown in all; asked of the provider or assumed when not set."""
    max_tokens: int | None = Field(default=None, gt=0)
    """How many tokens one answer may have."""
    cost: CostSettings | None = None
    """What it costs; from the built-in list or `models.pricesFile` when not set, else a high estimate (docs/cost.md)."""
    input: tuple[Literal["text", "image"], ...] = ("text",)
    """What it can be shown: text, or text and images."""
    reasoning: bool = False
    """Whether it thinks before it answers."""


def _address(text: str) -> str:
    if re.match(r"https?://[^\s/]", text, re.IGNORECASE) is None:
        raise ValueError("the address of an API begins with http:// or https:// (write it like http://127.0.0.1:8000/v1)")
    return text


class ProviderSettings(Section):
    """One provider: an address, a key and the models behind it."""

    base_url: Annotated[str, AfterValidator(_address)] | None = None
    """The address of the API, such as `http://127.0.0.1:8000/v1`; the provider's public one when not set."""
    api_key: SecretStr | tuple[SecretStr, ...] | None = None
    """The key that is sent, or a list of keys that are tried in turn; the provider's environment variable is used when not set."""
    api_keys: tuple[SecretStr, ...] = ()
    """Further keys: when one is refused or used up for now, the next one is tried."""
    api: Api | None = None
    """The language the server speaks: anthropic-messages, openai-completions or openai-responses."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Further HTTP headers sent with every call; they may hold secrets and are masked like keys."""
    prompt_cache_retention: CacheRule | None = None
    """How long OpenAI may keep a prompt in its cache, for models before gpt-5.6: in_memory (an hour at most) or 24h; your organisation's rule when not set."""  # noqa: E501
    models: tuple[ModelSettings, ...] = ()
    """The models it offers, where they need describing."""

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Every key that is said here, as it is sent, behind the name of its place (``apiKey``, ``apiKeys[1]``)."""
        listed = () if self.api_key is None or isinstance(self.api_key, SecretStr) else self.api_key
        placed = [("apiKey", self.api_key)] if isinstance(self.api_key, SecretStr) else []
        placed += [(f"apiKey[{number}]", secret) for number, secret in enumerate(listed)]
        placed += [(f"apiKeys[{number}]", secret) for number, secret in enumerate(self.api_keys)]
        return tuple((place, text) for place, secret in placed if (text := secret.get_secret_value().strip()))


class ModelsSettings(Section):
    """Providers and their models."""

    mode: Literal["merge", "replace"] = "merge"
    """Whether the providers here are added to the built-in ones (merge) or are the only ones (replace)."""
    prices_file: str | None = None
    """A JSON or YAML file with newer prices than the built-in list has; read at the start and when settings change (docs/cost.md)."""
    providers: dict[str, ProviderSettings] = Field(default_factory=dict)
    """Providers by their id, the part before the slash in `provider/model`."""
