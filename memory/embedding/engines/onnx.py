"""Embeddings by an ONNX model in this process, with fastembed."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

from memory.embedding.engines.model_download import DownloadProgress, HubFile, download
from memory.embedding.identity import file_identity, fingerprint
from memory.embedding.inputs import clean_input, prompted
from memory.embedding.vector_checks import unit_vectors
from memory.errors import EmbeddingFailed

INSTALL = f"{shlex.quote(sys.executable)} -m pip install 'fastembed>=0.7,<1'"

_MODEL_FILES = ("model.onnx", "model_optimized.onnx", "model_quantized.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
_EXTRA_FILES = ("config.json", "special_tokens_map.json")
_MAX_TEXT_TOKENS = 8_192
"""Limit before tokenizing; fastembed truncates texts to the context length of its model."""


class OnnxEmbedder:
    """A folder with an ONNX model and its tokenizer, or the name of a fastembed model, downloaded on the first call.

    onnxruntime uses several threads for one call, so calls run one after another in one thread.
    """

    provider = "local"
    max_batch_tokens = 8_000
    max_batch_texts = 32

    def __init__(
        self,
        source: Path | str,
        *,
        cache_dir: Path,
        hub_url: str,
        threads: int | None = None,
        progress: DownloadProgress | None = None,
    ) -> None:
        self._source = source
        self._cache_dir = cache_dir
        self._hub_url = hub_url
        self._progress = progress
        self._threads = threads or max(1, (os.cpu_count() or 2) // 2)
        self.model = source if isinstance(source, str) else source.name
        identity = source if isinstance(source, str) else file_identity(_model_file(source))
        self.fingerprint = fingerprint(self.provider, self.model, file=identity)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="onnx")
        self._loading = asyncio.Lock()
        self._engine: Any = None

    @property
    def trouble(self) -> str:
        """A sentence about a missing package, or ""."""
        return "" if importlib.util.find_spec("fastembed") else f"The package fastembed is not installed. Run: {INSTALL}"

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Return one unit-length vector per text, in order. The first call loads the model, and downloads it if needed."""
        if not texts:
            return []
        await self._load()
        ready = [clean_input(prompted(text, model=self.model, purpose=purpose), max_tokens=_MAX_TEXT_TOKENS) for text in texts]
        raw = await asyncio.get_running_loop().run_in_executor(self._worker, self._run, ready)
        return await unit_vectors(raw, count=len(ready), dims=None, who=self.model)

    async def close(self) -> None:
        """Unload the model after the running call has ended."""
        await asyncio.to_thread(self._worker.shutdown)
        self._engine = None

    async def _load(self) -> None:
        async with self._loading:
            if self._engine is not None:
                return
            package = await asyncio.to_thread(_fastembed)
            run = partial(asyncio.get_running_loop().run_in_executor, self._worker)
            try:
                if isinstance(self._source, Path):
                    self._engine = await run(self._open_folder, package, self._source)
                else:
                    described = await run(_described, package, self._source)
                    folder = await self._fetch_all(described)
                    self._engine = await run(self._open_known, package, self._source, folder)
            except EmbeddingFailed:
                raise
            except Exception as error:  # the errors of onnxruntime and tokenizers share no other base class
                raise EmbeddingFailed(
                    f"The model {self.model} cannot be loaded: {error}",
                    hint="The folder needs an .onnx file, tokenizer.json and tokenizer_config.json of an embedding model.",
                ) from error

    async def _fetch_all(self, described: dict[str, Any]) -> Path:
        """Download the files of a fastembed model, the weights last: if they exist, the folder is complete."""
        repo = described["sources"]["hf"]
        fetch_one = partial(download, cache_dir=self._cache_dir, hub_url=self._hub_url, progress=self._progress)
        for name in _EXTRA_FILES:
            await fetch_one(HubFile(repo, name), may_be_missing=True)
        for name in (*_TOKENIZER_FILES, *described["additional_files"], described["model_file"]):
            await fetch_one(HubFile(repo, name))
        return HubFile(repo, "").place(self._cache_dir)

    def _open_known(self, package: Any, name: str, folder: Path) -> Any:
        return package.TextEmbedding(name, threads=self._threads, specific_model_path=str(folder))

    def _open_folder(self, package: Any, folder: Path) -> Any:
        """Register a folder as a custom model of fastembed, and load it."""
        described = importlib.import_module("fastembed.common.model_description")
        name = f"folder:{folder.resolve()}"
        if not any(model["model"] == name for model in package.TextEmbedding.list_supported_models()):
            package.TextEmbedding.add_custom_model(
                model=name,
                pooling=described.PoolingType.CLS if _reads_first_token(folder) else described.PoolingType.MEAN,
                normalization=True,
                sources=described.ModelSource(hf=name),  # never asked: the folder is given
                dim=int(_json(folder / "config.json").get("hidden_size") or 0),
                model_file=str(_model_file(folder).relative_to(folder)),
            )
        return package.TextEmbedding(name, threads=self._threads, specific_model_path=str(folder))

    def _run(self, texts: list[str]) -> list[list[float]]:
        try:
            return [vector.tolist() for vector in self._engine.embed(texts, batch_size=self.max_batch_texts)]
        except Exception as error:  # as above
            raise EmbeddingFailed(f"{self.model} failed on a text: {error}", about_text=True) from error


def _model_file(folder: Path) -> Path:
    """Return the file with the weights in a folder."""
    named = (folder / name for name in _MODEL_FILES)
    return next((path for path in (*named, *_sorted_onnx(folder)) if path.is_file()), folder / _MODEL_FILES[0])


def _sorted_onnx(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.glob("*.onnx")))


def _reads_first_token(folder: Path) -> bool:
    """Return whether the model's pooling configuration uses the first token instead of the mean."""
    return bool(_json(folder / "1_Pooling" / "config.json").get("pooling_mode_cls_token"))


def _json(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _described(package: Any, name: str) -> dict[str, Any]:
    for model in package.TextEmbedding.list_supported_models():
        if model["model"].casefold() == name.casefold() and model["sources"]["hf"]:
            return dict(model)
    raise EmbeddingFailed(
        f"fastembed has no model {name!r} (memorySearch.local.modelPath).",
        hint="Choose one of those that `python -c 'import fastembed; print(fastembed.TextEmbedding.list_supported_models())'` lists.",
    )


def _fastembed() -> Any:
    try:
        return importlib.import_module("fastembed")
    except ImportError as error:
        raise EmbeddingFailed("Local ONNX models need the package fastembed.", hint=f"Run: {INSTALL}") from error
