"""The part of ``memorySearch`` that says which embedder runs, where, and with what key."""

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
