"""The base class of embedders that run a model in this process."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import shlex
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Literal, NotRequired, TypedDict, Unpack

from memory.embedding.engines.model_download import DownloadProgress, HubFile, download
from memory.embedding.identity import fingerprint
from memory.embedding.inputs import clean_input, prompted
from memory.embedding.vector_checks import unit_vectors
from memory.errors import EmbeddingFailed


class LocalOptions(TypedDict):
    """Keyword arguments of every local engine.

    Downloads come from the hub at ``hub_url`` and are kept in ``cache_dir``; ``threads`` is None for half of the processors.
    """

    cache_dir: Path
    hub_url: str
    threads: NotRequired[int | None]
    progress: NotRequired[DownloadProgress | None]


class LocalEngine(ABC):
    """An ``Embedder`` whose model is loaded, and downloaded if needed, on the first call.

    Models must not be used by two threads at once, and calls are slow, so they run one after another in a thread of their own.
    ``identity`` names the model's file for the fingerprint.
    """

    KIND: ClassVar[str]
    """The kind of model file, for error messages."""
    MODULE: ClassVar[str]
    """The module to import, which may not be installed."""
    REQUIREMENT: ClassVar[str]
    """What pip installs: the distribution and its versions."""
    MAX_TEXT_TOKENS: ClassVar[int]
    """Longer texts are cut before the model gets them."""

    provider = "local"
    max_batch_tokens: int
    max_batch_texts: int

    def __init__(self, model: str, identity: str, **options: Unpack[LocalOptions]) -> None:
        self.model = model
        self.fingerprint = fingerprint(self.provider, model, file=identity)
        self._options = options
        self._threads = options.get("threads") or max(1, (os.cpu_count() or 2) // 2)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=self.KIND)
        self._process = os.getpid()
        self._loading = asyncio.Lock()
        self._engine: Any = None

    @property
    def trouble(self) -> str:
        """A sentence about a missing package, or ""."""
        if importlib.util.find_spec(self.MODULE):
            return ""
        return f"The package {_distribution(self.REQUIREMENT)} is not installed. Run: {_install_command(self.REQUIREMENT)}"

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Return one unit-length vector per text, in order. The first call loads the model, and downloads it if needed."""
        if not texts:
            return []
        async with self._loading:
            if self._engine is None:
                self._engine = await self._loaded(await asyncio.to_thread(self._package))
        ready = [self._prepared(text, purpose) for text in texts]
        raw = await self._in_worker(self._run, ready, purpose)
        return await unit_vectors(raw, count=len(ready), dims=None, who=self.model)

    async def close(self) -> None:
        """Unload the model after the running call has ended."""
        await self._in_worker(self._unload)
        await asyncio.to_thread(self._worker.shutdown)

    @abstractmethod
    async def _loaded(self, package: Any) -> Any:
        """Return the loaded model. Raises EmbeddingFailed."""

    @abstractmethod
    def _run(self, texts: list[str], purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Return a vector per text, in the worker thread. Raises EmbeddingFailed."""

    def _prepared(self, text: str, purpose: Literal["query", "passage"]) -> str:
        """Return a text as the model gets it: with the prefix that it was trained with, and cut."""
        return self._clean(prompted(text, model=self.model, purpose=purpose))

    def _clean(self, text: str) -> str:
        return clean_input(text, max_tokens=self.MAX_TEXT_TOKENS)

    def _unload(self) -> None:
        self._engine = None

    def _package(self) -> Any:
        try:
            return importlib.import_module(self.MODULE)
        except ImportError as error:
            raise EmbeddingFailed(
                f"Local {self.KIND} models need the package {_distribution(self.REQUIREMENT)}.",
                hint=f"Run: {_install_command(self.REQUIREMENT)}",
            ) from error

    async def _download(self, file: HubFile, *, may_be_missing: bool = False) -> Path:
        options = self._options
        return await download(
            file,
            cache_dir=options["cache_dir"],
            hub_url=options["hub_url"],
            progress=options.get("progress"),
            may_be_missing=may_be_missing,
        )

    async def _in_worker(self, work: Any, *arguments: Any) -> Any:
        if self._process != os.getpid():  # a forked child has no copy of the thread, and would wait for it for ever
            self._process, self._worker = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix=self.KIND)
        return await asyncio.get_running_loop().run_in_executor(self._worker, work, *arguments)


def _install_command(requirement: str) -> str:
    return f"{shlex.quote(sys.executable)} -m pip install '{requirement}'"


def _distribution(requirement: str) -> str:
    return requirement.partition(">")[0]
