"""Embeddings by an ONNX model in this process, with fastembed."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Unpack

from memory.embedding.engines.local_engine import LocalEngine, LocalOptions
from memory.embedding.engines.model_download import HubFile
from memory.embedding.identity import file_identity
from memory.errors import EmbeddingFailed

_MODEL_FILES = ("model.onnx", "model_optimized.onnx", "model_quantized.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
_EXTRA_FILES = ("config.json", "special_tokens_map.json")


class OnnxEmbedder(LocalEngine):
    """A folder with an ONNX model and its tokenizer, or the name of a fastembed model, run by onnxruntime."""

    KIND = "ONNX"
    MODULE = "fastembed"
    REQUIREMENT = "fastembed>=0.7,<1"
    MAX_TEXT_TOKENS = 8_192
    max_batch_tokens = 8_000
    max_batch_texts = 32

    def __init__(self, source: Path | str, **options: Unpack[LocalOptions]) -> None:
        self._source = source
        model = source if isinstance(source, str) else source.name
        super().__init__(model, source if isinstance(source, str) else file_identity(_model_file(source)), **options)

    async def _loaded(self, package: Any) -> Any:
        try:
            if isinstance(self._source, Path):
                return await self._in_worker(self._open_folder, package, self._source)
            described = await self._in_worker(_described, package, self._source)
            folder = await self._fetch_all(described)
            return await self._in_worker(self._open_known, package, self._source, folder)
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
        for name in _EXTRA_FILES:
            await self._download(HubFile(repo, name), may_be_missing=True)
        for name in (*_TOKENIZER_FILES, *described["additional_files"], described["model_file"]):
            await self._download(HubFile(repo, name))
        return HubFile(repo, "").place(self._options["cache_dir"])

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

    def _run(self, texts: list[str], purpose: Literal["query", "passage"]) -> list[list[float]]:
        del purpose  # the prefix is before the texts
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
        fields = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _described(package: Any, name: str) -> dict[str, Any]:
    for model in package.TextEmbedding.list_supported_models():
        if model["model"].casefold() == name.casefold() and model["sources"]["hf"]:
            return dict(model)
    raise EmbeddingFailed(
        f"fastembed has no model {name!r} (memorySearch.local.modelPath).",
        hint="Choose one of those that `python -c 'import fastembed; print(fastembed.TextEmbedding.list_supported_models())'` lists.",
    )
