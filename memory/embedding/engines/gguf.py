"""Embeddings by a GGUF model in this process, with llama.cpp."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO, Literal, Unpack

from memory.embedding.engines.local_engine import LocalEngine, LocalOptions
from memory.embedding.engines.model_download import HubFile
from memory.embedding.identity import file_identity
from memory.errors import EmbeddingFailed

_CONTEXT = 2048
"""Maximum tokens of one text; less if the model was trained for less."""

_USUAL_CONTEXT = 512
"""Context length of a model whose file does not state one: that of the original BERT."""


class GgufEmbedder(LocalEngine):
    """A GGUF file, or one at a hub, run by llama.cpp."""

    KIND = "GGUF"
    MODULE = "llama_cpp"
    REQUIREMENT = "llama-cpp-python>=0.3.16,<0.4"
    MAX_TEXT_TOKENS = _CONTEXT * 2
    max_batch_tokens = 4_000
    max_batch_texts = 16

    def __init__(self, source: HubFile | Path, **options: Unpack[LocalOptions]) -> None:
        self._source = source
        model = source.path.rpartition("/")[2] if isinstance(source, HubFile) else source.name
        super().__init__(model, str(source) if isinstance(source, HubFile) else file_identity(source), **options)

    async def _loaded(self, package: Any) -> Any:
        path = await self._download(self._source) if isinstance(self._source, HubFile) else self._source
        return await self._in_worker(self._open, package, path)

    def _open(self, package: Any, path: Path) -> Any:
        try:
            context = min(_CONTEXT, context_length(path) or _USUAL_CONTEXT)
        except OSError as error:
            raise EmbeddingFailed(
                f"{path} cannot be read: {error.strerror}.", hint="Check memorySearch.local.modelPath."
            ) from error
        except NotGguf as error:
            raise EmbeddingFailed(
                f"{path} is not a GGUF model: {error}.", hint="Delete it if it was downloaded, or choose another file."
            ) from error
        try:
            return package.Llama(
                model_path=str(path),
                embedding=True,
                n_ctx=context,
                n_batch=context,  # encoders take a whole text at once
                n_ubatch=context,
                n_threads=self._threads,
                n_threads_batch=self._threads,
                verbose=False,
            )
        except (ValueError, RuntimeError, OSError) as error:
            raise EmbeddingFailed(
                f"llama.cpp cannot load {path}: {error}", hint="Use a GGUF file of an embedding model."
            ) from error

    def _run(self, texts: list[str], purpose: Literal["query", "passage"]) -> list[list[float]]:
        del purpose  # the prefix is before the texts
        try:
            return [_pooled(vector) for vector in self._engine.embed(texts, normalize=False, truncate=True)]
        except (RuntimeError, ValueError) as error:
            raise EmbeddingFailed(f"{self.model} failed on a text: {error}", about_text=True) from error

    def _unload(self) -> None:
        if self._engine is not None:
            self._engine.close()
        super()._unload()


def _pooled(vector: Any) -> list[float]:
    """Average the token vectors that a model without a pooling layer gives."""
    if vector and isinstance(vector[0], list):
        return [sum(column) / len(vector) for column in zip(*vector, strict=True)]
    return list(vector)


MAGIC = b"GGUF"

_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LONGEST_STRING = 1 << 24
_MOST_KEYS = 1 << 16


class NotGguf(ValueError):
    """Raised for a file that is not GGUF or is truncated."""


def context_length(path: Path) -> int | None:
    """Return how many tokens the model reads (``<architecture>.context_length``), or None where the file does not say.

    llama.cpp aborts the whole process when a model with learnt positions (all of the BERT family) is given more tokens. The
    layout is that of the GGUF specification, versions 2 and 3: magic, version, two counts, then keys with typed values.
    Raises ``NotGguf``, ``OSError``.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise NotGguf("it does not begin with GGUF")
        _number(file, "I")
        _number(file, "Q")
        keys = _number(file, "Q")
        if keys > _MOST_KEYS:
            raise NotGguf(f"its header states {keys} keys")
        for _ in range(int(keys)):
            name = _string(file)
            value = _value(file, int(_number(file, "I")))
            if name.endswith(".context_length") and isinstance(value, int):
                return value
    return None


def _value(file: BinaryIO, kind: int) -> float | str | None:
    """Read a value; an array is skipped."""
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        inner, count = int(_number(file, "I")), int(_number(file, "Q"))
        if inner in _FORMATS:
            file.seek(struct.calcsize(_FORMATS[inner]) * count, 1)
        else:
            for _ in range(count):
                _value(file, inner)
        return None
    if kind not in _FORMATS:
        raise NotGguf(f"it has a value of the unknown kind {kind}")
    return _number(file, _FORMATS[kind])


def _string(file: BinaryIO) -> str:
    length = int(_number(file, "Q"))
    if length > _LONGEST_STRING:
        raise NotGguf(f"it has a string of {length} bytes")
    return _exactly(file, length).decode("utf-8", "replace")


def _number(file: BinaryIO, kind: str) -> float:
    number: float = struct.unpack(f"<{kind}", _exactly(file, struct.calcsize(f"<{kind}")))[0]
    return number


def _exactly(file: BinaryIO, count: int) -> bytes:
    found = file.read(count)
    if len(found) != count:
        raise NotGguf("it is truncated")
    return found
