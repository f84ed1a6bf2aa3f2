"""The model providers' peer: npm `@copilotkit/aimock`, one process for each test worker, emptied before each test.

A test asks for the `aimock` fixture, tells it what to answer, and points a real SDK at it:

    async def test_a_greeting(aimock):
        aimock.answer({"match": {"userMessage": "hello"}, "response": {"content": "Good day."}})
        client = AsyncAnthropic(base_url=aimock.anthropic_url, api_key="test")
        ...
        [request] = aimock.requests()

Fixtures are those of aimock (first match wins). A request that none matches is answered 503, which is a test's mistake.
Known gaps of the peer: no token counting, no cache read or write figures in `usage`, no Gemini embedding batches; and the journal keeps
the request as OpenAI would have sent it, so that `cache_control` cannot be seen there.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
OLDEST_NODE = (20, 15)
"""What aimock 1.43 asks for."""
START_SECONDS = PATIENCE


def peer_folder() -> Path:
    """Return where `make test` installs the package."""
    return ROOT / ".cache/peers/node_modules/@copilotkit/aimock"


def node_path() -> str | None:
    """Return the Node that `make test` fetched if it had to fetch one, else the system's."""
    own = ROOT / ".cache/node/node_modules/.bin/node"
    return str(own) if own.exists() else shutil.which("node")


@cache
def node_version() -> str | None:
    """Return the version of that Node, without its `v`; None where there is none."""
    path = node_path()
    if path is None:
        return None
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return told.stdout.strip().removeprefix("v") or None


def missing_part() -> str | None:
    """Say what keeps the peer from starting; None when all is there."""
    version = node_version()
    if version is None:
        return "Node.js is not installed; install version 20.15 or newer, then run `make test`"
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_NODE:
        return f"Node.js {version} is too old for the model peer; install version 20.15 or newer, then run `make test`"
    if not peer_folder().is_dir():
        return "the model peer is not installed; run `make test` once, which fetches it with npm"
    return None


class AimockError(Exception):
    """The peer did not start, or refused what it was told."""


class Aimock:
    """A running aimock, and what a test says to it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.anthropic_url = f"http://127.0.0.1:{port}"
        self.openai_url = f"http://127.0.0.1:{port}/v1"
        self.gemini_openai_url = f"http://127.0.0.1:{port}/v1beta/openai"
        self.ollama_url = f"http://127.0.0.1:{port}"

    def answer(self, *fixtures: Mapping[str, Any]) -> None:
        """Add fixtures after those already told."""
        self._call("POST", "/__aimock/fixtures", {"fixtures": list(fixtures)})

    def fail_next(self, status: int, message: str = "told to fail", *, error_type: str = "api_error") -> None:
        """Answer the next request, and that one only, with an error."""
        self._call("POST", "/__aimock/error", {"status": status, "body": {"message": message, "type": error_type}})

    def requests(self, path: str = "") -> list[dict[str, Any]]:
        """Return the journal, oldest first: entries with `method`, `path`, `headers`, `body` and `response`.

        `body` is what aimock made of the request (OpenAI's shape, whoever sent it); `response` says the status and the fixture.
        """
        suffix = f"?path={path}" if path else ""
        journal: list[dict[str, Any]] = self._call("GET", f"/__aimock/journal{suffix}")
        return journal

    def reset(self) -> None:
        """Forget fixtures, counters and the journal."""
        self._call("POST", "/__aimock/reset", {})

    def _call(self, method: str, path: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise AimockError(f"{method} {path} was answered {answer.status}: {text}")
        return json.loads(text)


def start(folder: Path) -> tuple[subprocess.Popen[bytes], Aimock]:
    """Start the program on a free port and wait until it says which one; its log is `aimock.log` in the folder."""
    node = node_path()
    assert node is not None
    first = folder / "first.json"  # strict mode does not start without one; the first reset takes it away
    first.write_text('{"fixtures": [{"match": {"userMessage": "none"}, "response": {"content": "none"}}]}', encoding="utf-8")
    log = folder / "aimock.log"
    command = [node, str(peer_folder() / "dist/cli.js"), "--port", "0", "--fixtures", str(first), "--strict"]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, env={"PATH": os.environ.get("PATH", "")}
        )
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text(encoding="utf-8")):
            return process, Aimock(int(found[1]))
        time.sleep(0.02)
    process.kill()
    process.wait()
    raise AimockError(
        f"the model peer did not listen (exit code {process.returncode}); it said:\n{log.read_text(encoding='utf-8')}"
    )


@pytest.fixture(scope="session")
def requires_node() -> None:
    """Skip where Node or the peer is missing, saying so; fail instead where CI is set."""
    reason = missing_part()
    if reason and os.environ.get("CI"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def aimock_process(requires_node: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    """Run the peer for as long as this worker runs."""
    folder = tmp_path_factory.mktemp("aimock")
    process, peer = start(folder)
    yield peer
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture
def aimock(aimock_process: Aimock) -> Aimock:
    """Give the running peer, empty."""
    aimock_process.reset()
    return aimock_process
