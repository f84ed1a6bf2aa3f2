"""Which local engine reads a model: llama.cpp for GGUF files, fastembed for ONNX folders and named models."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from memory.embedding.engines.model_download import HubFile
from memory.embedding.settings import DEFAULT_LOCAL_MODEL
from memory.errors import EmbeddingFailed

if TYPE_CHECKING:
    from memory.embedding.engines.model_download import DownloadProgress
    from memory.embedding.protocol import Embedder
    from memory.embedding.settings import LocalSettings

DEFAULT_ONNX_MODEL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
"""What runs when only fastembed is installed and no model is named: small (0.2 GB) and at home in 50 languages."""


def names_a_file_that_exists(model_path: str) -> bool:
    """Say whether ``local.modelPath`` is a file or folder on this machine."""
    return not model_path.startswith("hf:") and Path(model_path).expanduser().exists()


def local_embedder(local: LocalSettings, *, cache_dir: Path, progress: DownloadProgress | None) -> Embedder:
    """Return the engine for ``local.modelPath``. Loads nothing yet.

    Raises ``EmbeddingFailed`` when the path leads nowhere. A missing package shows at the first call, with the command for it.
    """
    from memory.embedding.engines.gguf import GgufEmbedder
    from memory.embedding.engines.onnx import OnnxEmbedder

    folder = Path(local.model_cache_dir).expanduser() if local.model_cache_dir else cache_dir
    path = local.model_path
    if not path:
        if not _installed("llama_cpp") and _installed("fastembed"):
            return OnnxEmbedder(
                DEFAULT_ONNX_MODEL, cache_dir=folder, hub_url=local.hub_url, threads=local.threads, progress=progress
            )
        path = DEFAULT_LOCAL_MODEL
    if path.startswith("hf:"):
        return GgufEmbedder(
            HubFile.parse(path), cache_dir=folder, hub_url=local.hub_url, threads=local.threads, progress=progress
        )
    place = Path(path).expanduser()
    if place.is_dir():
        return OnnxEmbedder(place, cache_dir=folder, hub_url=local.hub_url, threads=local.threads, progress=progress)
    if place.is_file():
        return GgufEmbedder(place, cache_dir=folder, hub_url=local.hub_url, threads=local.threads, progress=progress)
    if path.count("/") == 1 and not path.startswith((".", "/", "~")) and place.suffix != ".gguf":
        return OnnxEmbedder(path, cache_dir=folder, hub_url=local.hub_url, threads=local.threads, progress=progress)
    raise EmbeddingFailed(
        f"There is no model at {path} (memorySearch.local.modelPath).",
        hint=f"Give a .gguf file, a folder with an ONNX model, or an address such as {DEFAULT_LOCAL_MODEL}.",
    )


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
