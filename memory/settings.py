"""The ``memorySearch`` section: what is searched, how it is cut, kept fresh and ranked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from memory.embedding.settings import EmbeddingSettings

_Share = Annotated[float, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


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
