"""The ``memorySearch`` section: what is searched, how it is cut, kept fresh and ranked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

Provider = Literal["auto", "openai", "gemini", "local", "none"]

DEFAULT_LOCAL_MODEL = "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf"


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


class BatchSettings(_Section):
    """``remote.batch``: half-price jobs for large backfills, at OpenAI and Gemini."""

    enabled: bool = True
    """Use the provider's batch service for large backfills; false always calls directly."""

    wait: bool = True
    """Wait for a batch to end; false leaves it running, and a later sync collects its vectors."""

    concurrency: Annotated[int, Field(ge=1, le=16)] = 2
    """How many batch jobs may be under way at once."""

    poll_interval_ms: Annotated[int, Field(ge=100)] = 2000
    """How often a running batch is asked for its state, in milliseconds."""

    timeout_minutes: Annotated[float, Field(gt=0)] = 60
    """After how many minutes a batch is cancelled and what is missing is fetched by direct calls."""


class RemoteSettings(_Section):
    """``remote``: an embedding service on the network, and the key for it."""

    base_url: str | None = None
    """Address of the service, such as https://api.example.com/v1/, or http://localhost:11434/v1 for Ollama; unset: the provider's."""

    api_key: SecretStr | None = None
    """Key for that address. Other keys (profile, models.providers.*, environment) are used for the provider's own address only."""

    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Further request headers, merged over those of models.providers.*; they may hold secrets and are masked like keys."""

    dimensions: Annotated[int, Field(ge=1, le=8192)] | None = None
    """Length of the vectors to ask for, where the model lets one choose; unset means the model's own (OpenAI) or 768 (Gemini)."""

    batch: BatchSettings = BatchSettings()
    """Batch jobs for large backfills."""


class LocalSettings(_Section):
    """``local``: an embedding model that runs inside the gateway."""

    model_path: str | None = None
    """A .gguf file, an hf:owner/repo/file.gguf address, a folder with an ONNX model, or the name of a fastembed model."""

    model_cache_dir: str | None = None
    """Where downloaded models are kept; the state folder's models/ if unset."""

    hub_url: str = "https://huggingface.co"
    """Where hf: models are downloaded from; a mirror works too."""

    threads: Annotated[int, Field(ge=1, le=256)] | None = None
    """How many processor threads a local model may use; half of the machine's if unset."""


class EmbeddingSettings(_Section):
    """What ``memorySearch`` says about embedders. The memory section takes these fields over."""

    provider: Provider = "auto"
    """Where vectors come from: auto takes a local model file, then an OpenAI key, then a Gemini key, else none (keywords only)."""

    model: str | None = None
    """Name of the embedding model at that provider; unset means text-embedding-3-small or gemini-embedding-001."""

    fallback: Literal["openai", "gemini", "local", "none"] = "none"
    """The provider that steps in, once, when the first one fails."""

    remote: RemoteSettings = RemoteSettings()
    """The embedding service on the network."""

    local: LocalSettings = LocalSettings()
    """The embedding model inside the gateway."""


_Share = Annotated[float, Field(ge=0)]


class ExperimentalSettings(_Section):
    """``experimental``: what is off unless asked for."""

    session_memory: bool | None = None
    """False keeps session transcripts out of the search even where "sessions" stands in ``sources``; true and unset change nothing."""


class VectorStoreSettings(_Section):
    """``store.vector``: the SQLite extension that holds vectors."""

    enabled: bool = True
    """Keep vectors in sqlite-vec; false keeps them in a plain table and scans them with numpy."""

    extension_path: str | None = None
    """Path of another build of sqlite-vec; unset means the one that was installed along."""


class StoreSettings(_Section):
    """``store``: where the search index is kept."""

    path: str | None = None
    """File of the index, with {agentId} for the agent's id; unset means memory/{agentId}.sqlite in the state folder."""

    vector: VectorStoreSettings = VectorStoreSettings()
    """How vectors are held."""


class ChunkingSettings(_Section):
    """``chunking``: the size of the pieces that are found."""

    tokens: Annotated[int, Field(ge=16, le=8000)] = 200
    """Largest size of a piece, in estimated tokens."""

    overlap: Annotated[int, Field(ge=0, le=4000)] = 40
    """How much of a piece is repeated at the start of the next, in estimated tokens."""


class SessionSyncSettings(_Section):
    """``sync.sessions``: how much a transcript must grow before it is read again. One that is quiet for 10 minutes is read anyway."""

    delta_bytes: Annotated[int, Field(ge=0)] = 100_000
    """Read a transcript again after it grew by this many bytes."""

    delta_messages: Annotated[int, Field(ge=0)] = 50
    """Read a transcript again after it grew by this many lines."""


class SyncSettings(_Section):
    """``sync``: when the index follows the files."""

    watch: bool = True
    """Watch the notes and take changes up by themselves."""

    watch_debounce_ms: Annotated[int, Field(ge=0, le=600_000)] = 1500
    """How long the notes must be quiet before changes are taken up, in milliseconds."""

    on_session_start: bool = True
    """Look for changes when a session begins."""

    on_search: bool = True
    """Look for changes when somebody searches; the search itself does not wait."""

    interval_minutes: Annotated[float, Field(ge=0)] = 0
    """Look for changes every so many minutes; 0 does not."""

    sessions: SessionSyncSettings = SessionSyncSettings()
    """When transcripts are read again."""


class HybridSettings(_Section):
    """``query.hybrid``: the weights of ``ranking: reference``. The two weights are scaled to a sum of 1."""

    enabled: bool = True
    """Use keywords beside vectors."""

    vector_weight: _Share = 0.7
    """Weight of the cosine similarity."""

    text_weight: _Share = 0.3
    """Weight of the keyword rank."""

    candidate_multiplier: Annotated[int, Field(ge=1, le=100)] = 4
    """How many candidates each side gives, as a multiple of ``maxResults``."""


class FusedSettings(_Section):
    """``query.fused``: the weights of ``ranking: fused``."""

    vector_weight: _Share = 0.4
    """Weight of the vector side, scaled over its candidates."""

    text_weight: _Share = 0.6
    """Weight of the keyword side, scaled over its candidates."""

    candidates: Annotated[int, Field(ge=6, le=1000)] = 60
    """How many candidates each side gives."""

    date_bonus: _Share = 0.15
    """Added to notes of a day that the question names."""

    transcript_weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    """What the score of a transcript counts beside that of a note: what was said often stands in a note, in better words."""

    floor: Annotated[float, Field(ge=0, le=1)] = 0.2
    """How much of the question a best hit must account for before anything is returned; 0 always returns the nearest."""


class QuerySettings(_Section):
    """``query``: how hits are ranked and how much of them is shown."""

    max_results: Annotated[int, Field(ge=1, le=100)] = 6
    """Most results of a search."""

    max_tokens: Annotated[int, Field(ge=50, le=100_000)] = 2100
    """Most text of all results together, in estimated tokens."""

    snippet_chars: Annotated[int, Field(ge=0)] | None = None
    """Longest snippet in characters; unset shows whole pieces when fused, 700 characters with ``ranking: reference``."""

    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    """Leave out hits below this score: of 1 for the best, when fused. Unset means none when fused, 0.35 with ``ranking: reference``."""

    ranking: Literal["fused", "reference"] = "fused"
    """How the keyword side and the vector side are put together; "reference" is the documented formula."""

    hybrid: HybridSettings = HybridSettings()
    """Weights of the documented formula."""

    fused: FusedSettings = FusedSettings()
    """Weights of the fused ranking."""


class CacheSettings(_Section):
    """``cache``: vectors that were paid for once."""

    enabled: bool = True
    """Keep vectors of texts, so that an unchanged text is never embedded twice."""

    max_entries: Annotated[int, Field(ge=0)] = 50_000
    """How many vectors are kept; the least recently used go first."""


class MemorySettings(EmbeddingSettings):
    """``agents.defaults.memorySearch``, which every agent may override."""

    enabled: bool = True
    """Give the agent memory_search and memory_get."""

    sources: tuple[Literal["memory", "sessions"], ...] = ("memory", "sessions")
    """What is searched: the notes, and what was said in the owner's own private conversations."""

    extra_paths: tuple[str, ...] = ()
    """Further Markdown files and folders, absolute or relative to the workspace."""

    experimental: ExperimentalSettings = ExperimentalSettings()
    """What is off unless asked for."""

    store: StoreSettings = StoreSettings()
    """Where the index is kept."""

    chunking: ChunkingSettings = ChunkingSettings()
    """The size of the pieces that are found."""

    sync: SyncSettings = SyncSettings()
    """When the index follows the files."""

    query: QuerySettings = QuerySettings()
    """How hits are ranked and shown."""

    cache: CacheSettings = CacheSettings()
    """Vectors that were paid for once."""

    @property
    def searches_sessions(self) -> bool:
        """Whether transcripts are searched."""
        return "sessions" in self.sources and self.experimental.session_memory is not False
